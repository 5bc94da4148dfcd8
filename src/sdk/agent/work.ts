// One call of the handler: the run is started, worked on, and its end is reported. A process that is no longer its worker reports
// nothing.
import { isRefusal } from '../transport/retry.ts'
import { Ended, Rejected } from './errors.ts'
import type { RunState } from './run-state.ts'
import { createRun, type Run, type Task } from './run.ts'
import type { Handler } from './serve.ts'
import type { Concurrency } from '../mailbox/concurrency.ts'

const ERROR_CHARS_MAX = 4_000

/** Never rejects. */
export async function work(
  job: RunState,
  handler: Handler,
  slots: Concurrency,
  onError: (error: unknown, run: Run | null) => void,
): Promise<void> {
  await slots.take()
  let run: Run | null = null
  try {
    await start(job)
    run = createRun(job, await taskOf(job))
    const returned = await handler(run)
    if (!job.isDelivered) await complete(job, returned)
  } catch (error) {
    if (!isOver(job, error)) {
      onError(error, run)
      await report(job, error).catch((lost: unknown) => isOver(job, lost) || onError(lost, run))
    }
  } finally {
    job.end('done')
    slots.give()
  }
}

/** An error that a handler throws after its abort signal is not a failure. */
const isOver = (job: RunState, error: unknown): boolean =>
  job.signal.aborted || error instanceof Ended || (error instanceof Rejected && error.isFinal)

/** An attempt reports each of these at most once. */
const optionsFor = ({ id, attempt, signal }: RunState, what: string) => ({ idempotencyKey: `${id}/${what}/${attempt}`, signal })

async function start(job: RunState): Promise<void> {
  await job.untilFree()
  const { client, id: run_id, signal } = job
  if (job.item.run.started_at !== null) return job.confirm()
  try {
    // Without a key: a remembered answer would not show the current state.
    await job.effect(() => client.delegation.run.start({ run_id, attempt: job.attempt }, { idempotencyKey: null, signal }))
    job.begun()
  } catch (error) {
    // It was already reported, for example by the task itself.
    if (!isRefusal(error, 'INVALID_TRANSITION')) throw error
    await job.confirm()
  }
}

async function taskOf({ client, item, effect }: RunState): Promise<Task | null> {
  const { task_id } = item.run
  return task_id === null ? null : (await effect(() => client.collaboration.task.get({ task_id }))).task
}

/** A result must be an object; any other value is wrapped as `{ value }`. */
function resultOf(returned: unknown): { result: object } | object {
  if (returned === undefined || returned === null) return {}
  return { result: typeof returned === 'object' && !Array.isArray(returned) ? returned : { value: returned } }
}

async function complete(job: RunState, returned: unknown): Promise<void> {
  const ended = { run_id: job.id, ...resultOf(returned) }
  await job.effect(() => job.client.delegation.run.complete({ ...ended, attempt: job.attempt }, optionsFor(job, 'complete')))
}

async function report(job: RunState, error: unknown): Promise<void> {
  const message = error instanceof Error ? error.message || error.name : String(error)
  const failed = { run_id: job.id, error: message.slice(0, ERROR_CHARS_MAX) || 'failed without a reason' }
  if (job.isDelivered) return
  await job.effect(() => job.client.delegation.run.fail({ ...failed, attempt: job.attempt }, optionsFor(job, 'fail')))
}
