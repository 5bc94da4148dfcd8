// The interface of a worker: it runs until it is stopped, and it reports to an operator.

/** `standby`: another server does the work. `failing`: the last attempt failed and will be retried. */
export type WorkerState = 'idle' | 'busy' | 'standby' | 'failing' | 'stopped'

export type Worker = {
  /** Resolves when the worker has stopped its work. */
  stop(): Promise<void>
  /** The state of each of its loops by name. */
  states?(): Readonly<Record<string, WorkerState>>
}

export type WorkerLog = {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** The longest single sleep: the clock might step, and the runtime fires very long timeouts immediately. */
export const SLEEP_MS_MAX = 60_000

export const statesOf = (workers: readonly Worker[]): Readonly<Record<string, WorkerState>> =>
  Object.assign({}, ...workers.map((worker) => worker.states?.() ?? {})) as Record<string, WorkerState>

export const workersAsOne = (...workers: readonly Worker[]): Worker => ({
  states: () => statesOf(workers),
  async stop() {
    await Promise.all(workers.map((worker) => worker.stop()))
  },
})
