// The task queue: submitted tasks that wait for a person or for their turn, and running ones, bounded for each policy.
import type { Plan, Task } from '#protocols/hardware/daemon/schema.ts'
import type { WorkerLog } from '#workers/worker.ts'

/** The reason why a task ends before its last step. */
export type Why = 'cancel' | 'timeout' | 'stop'
export type Entry = { task: Task; readonly plan: Plan; readonly stopping: AbortController; why: Why | null; running: Promise<void> | null }

type TaskQueueOptions = {
  readonly log: WorkerLog
  /** No task starts after it aborts. */
  readonly ending: AbortSignal
  concurrencyOf(policy: string): number
  run(entry: Entry): Promise<void>
  /** Ends a task that never ran. */
  cancel(entry: Entry): Promise<void>
  /** Called when a task that ran has ended. */
  onEnd(entry: Entry): void
}
export type TaskQueue = {
  readonly options: TaskQueueOptions
  readonly entries: Map<string, Entry>
  /** By policy: approved tasks that wait for their turn. */
  readonly waiting: Map<string, Entry[]>
  /** By policy: the number of running tasks. */
  readonly busy: Map<string, number>
}

export const createTaskQueue = (options: TaskQueueOptions): TaskQueue => ({
  options,
  entries: new Map(),
  waiting: new Map(),
  busy: new Map(),
})

export function addTask(queue: TaskQueue, task: Task, plan: Plan): void {
  const entry: Entry = { task, plan, stopping: new AbortController(), why: null, running: null }
  queue.entries.set(task.id, entry)
  if (!task.waiting) enqueue(queue, entry)
}

export function enqueueApproved(queue: TaskQueue, task: Task): void {
  const entry = queue.entries.get(task.id)
  if (!entry || !entry.task.waiting) return
  entry.task = task
  enqueue(queue, entry)
}

/** The task waited for a person, and was ended without the runner. */
export function forgetWaiting({ entries }: TaskQueue, task_id: string): void {
  const entry = entries.get(task_id)
  if (entry?.task.waiting && entry.running === null) entries.delete(task_id)
}

function enqueue(queue: TaskQueue, entry: Entry): void {
  const { policy } = entry.task
  const waiting = queue.waiting.get(policy) ?? []
  queue.waiting.set(policy, waiting)
  waiting.push(entry)
  // After every follower of the record has seen the fact.
  queueMicrotask(() => pump(queue, policy))
}

function pump(queue: TaskQueue, policy: string): void {
  const { busy, entries, options } = queue
  const waiting = queue.waiting.get(policy)!
  while (waiting.length > 0 && (busy.get(policy) ?? 0) < options.concurrencyOf(policy) && !options.ending.aborted) {
    const entry = waiting.shift()!
    busy.set(policy, (busy.get(policy) ?? 0) + 1)
    entry.running = logRejection(queue, entry, options.run(entry)).finally(() => {
      entries.delete(entry.task.id)
      options.onEnd(entry)
      busy.set(policy, busy.get(policy)! - 1)
      pump(queue, policy)
    })
  }
}

const logRejection = ({ options }: TaskQueue, { task }: Entry, work: Promise<void>): Promise<void> =>
  work.catch((error: unknown) => options.log.error({ err: error, task_id: task.id }, 'could not end a task'))

/** Asks the running step to yield, and starts no further step. */
export function yieldTo(queue: TaskQueue, task_id: string, why: Why): void {
  const entry = queue.entries.get(task_id)
  if (!entry) return
  entry.why ??= why
  entry.stopping.abort()
  if (entry.running !== null) return
  // A task that waits for a person, or for its turn, has nothing to yield.
  const waiting = queue.waiting.get(entry.task.policy)
  if (waiting?.includes(entry)) waiting.splice(waiting.indexOf(entry), 1)
  entry.running = logRejection(queue, entry, queue.options.cancel(entry)).finally(() => queue.entries.delete(task_id))
}

export const tasksOf = ({ entries }: TaskQueue, session_id: string): Entry[] =>
  [...entries.values()].filter(({ task }) => task.session_id === session_id)

export const endOf = (entries: readonly Entry[]): Promise<unknown> =>
  Promise.all(entries.map(({ running }) => running ?? Promise.resolve()))
