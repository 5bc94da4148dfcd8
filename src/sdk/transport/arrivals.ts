// Arrivals: what a connection has brought and nothing has taken yet, in order, until it ends with an error.
import type { CountersignError } from '../errors.ts'

export type Arrivals<T> = {
  push(one: T): void
  /** Once those that are there were taken, `all` throws this. */
  end(error: CountersignError): void
  readonly waiting: number
  all(): AsyncGenerator<T, never>
}

export function createArrivals<T>(): Arrivals<T> {
  const queue: T[] = []
  let over: CountersignError | null = null
  let wake: (() => void) | null = null
  const ring = (): void => {
    wake?.()
    wake = null
  }
  return {
    push(one) {
      queue.push(one)
      ring()
    },
    end(error) {
      over ??= error
      ring()
    },
    get waiting() {
      return queue.length
    },
    async *all() {
      for (;;) {
        while (queue.length > 0) yield queue.shift()!
        if (over) throw over
        await new Promise<void>((done) => (wake = done))
      }
    },
  }
}
