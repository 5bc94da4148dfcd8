// The bound on handlers at work. A handler that waits for a person or for another agent needs no place meanwhile.

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
