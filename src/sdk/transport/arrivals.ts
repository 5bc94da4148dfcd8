// Arrivals: an ordered queue of items that a connection has received and no reader has taken yet. It ends with an error.
import type { CountersignError } from '../errors.ts'

export type Arrivals<T> = {
  push(item: T): void
  /** `all` throws this error after the queued items were taken. */
  end(error: CountersignError): void
  readonly waiting: number
  all(): AsyncGenerator<T, never>
}

export function createArrivals<T>(): Arrivals<T> {
  const queue: T[] = []
  let failure: CountersignError | null = null
  let wake: (() => void) | null = null
  const ring = (): void => {
    wake?.()
    wake = null
  }
  return {
    push(item) {
      queue.push(item)
      ring()
    },
    end(error) {
      failure ??= error
      ring()
    },
    get waiting() {
      return queue.length
    },
    async *all() {
      for (;;) {
        while (queue.length > 0) yield queue.shift()!
        if (failure) throw failure
        await new Promise<void>((done) => (wake = done))
      }
    },
  }
}
