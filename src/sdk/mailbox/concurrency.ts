// The limit on concurrent handlers. A handler that waits for a person or another agent gives up its slot.

export type Concurrency = {
  readonly free: number
  take(): Promise<void>
  give(): void
}

export function createConcurrency(count: number, onFree: () => void): Concurrency {
  let free = count
  const queue: (() => void)[] = []
  return {
    get free() {
      return free
    },
    take() {
      if (free > 0) {
        free--
        return Promise.resolve()
      }
      return new Promise((go) => queue.push(go))
    },
    give() {
      const next = queue.shift()
      if (next) next()
      else {
        free++
        onFree()
      }
    },
  }
}
