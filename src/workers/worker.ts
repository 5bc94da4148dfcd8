// The interface of a worker: it runs until it is stopped, and it reports to an operator.

export type Worker = {
  /** Resolves when the worker has put down what it was doing. */
  stop(): Promise<void>
}

export type WorkerLog = {
  debug(fields: object, words: string): void
  info(fields: object, words: string): void
  warn(fields: object, words: string): void
  error(fields: object, words: string): void
}

/** No sleep is longer: a clock may step, and a long timeout of the runtime fires at once. */
export const SLEEP_MS_MAX = 60_000
