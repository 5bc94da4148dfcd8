// A run of one task: its steps in order, each under the lock of its resource, and the rollback of a failed task. Every outcome is recorded.
import { SYSTEM } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { stepId, type Step, type Task } from '#protocols/hardware/daemon/schema.ts'
import type { Locks } from './locks.ts'
import type { StepRuns } from './step-run.ts'
import type { Entry, Why } from './task-queue.ts'
import { startInterval, startTimer } from './timer.ts'

/** The state that runs of tasks share. */
export type TaskRuns = {
  readonly clock: Clock
  readonly locks: Locks
  readonly steps: StepRuns
  /** The runner ends: no more retries. */
  readonly ending: AbortSignal
  kernel(): Kernel
  lockWaitOf(policy: string): number
  progress(task_id: string, index: number): void
  yieldTo(task_id: string, why: Why): void
}

export const RETRY_MS = 200
const PROGRESS_MS = 1_000

export async function runTask(runs: TaskRuns, entry: Entry): Promise<void> {
  const { task, plan } = entry
  const { max_duration_ms } = task
  const stale = await staleStep(runs, entry, plan.steps.keys())
  if (stale !== null) return endStale(runs, entry, stale)
  let stopTimer = (): void => undefined
  const late = (): void => runs.yieldTo(task.id, 'timeout')
  let hasFailed = false
  try {
    for (let i = 0; i < plan.steps.length; i++) {
      if (entry.why !== null) break
      if (i === 0 && max_duration_ms !== null) stopTimer = startTimer(runs.clock, max_duration_ms, late)
      const outcome = await runLocked(runs, entry, i)
      if (outcome === 'done') return
      if (outcome === 'stale') return await endStale(runs, entry, i)
      if (outcome === 'failed') hasFailed = true
      if (hasFailed && task.abort_on_step_failure) break
    }
  } finally {
    stopTimer()
  }
  if (entry.why === 'cancel' || entry.why === 'stop') return finishTask(runs, entry, 'CANCELLED')
  await rollBack(runs, entry)
  // No step has failed, but the last one ended after the timeout.
  return finishTask(runs, entry, 'FAILED', entry.why === 'timeout' || !hasFailed ? 'timeout' : undefined)
}

/** Retries until the record takes it: a full disk stops everything, and needs no repair. */
async function record<T>({ kernel, clock, ending }: TaskRuns, operation: string, input: object): Promise<T> {
  for (;;) {
    try {
      return (await kernel().call(`hardware/${operation}`, input, SYSTEM)) as T
    } catch (error) {
      const mayPass = error instanceof Refusal && ['BUSY', 'UNAVAILABLE', 'CONFLICT'].includes(error.code)
      if (!mayPass || ending.aborted) throw error
      await clock.sleep(RETRY_MS, ending)
    }
  }
}

export async function finishTask(
  runs: TaskRuns,
  { task }: Entry,
  status: 'SUCCESS' | 'FAILED' | 'CANCELLED',
  code?: string,
): Promise<void> {
  await record(runs, 'task.finish', { task_id: task.id, status, ...(code === undefined ? {} : { code }) }).catch((error: unknown) => {
    if (!(error instanceof Refusal && error.code === 'STOPPED')) throw error
  })
}

/** The first step whose value differs from the one shown to its approvers. Changes by earlier steps of the task do not count. */
async function staleStep({ steps: { device } }: TaskRuns, { task, plan }: Entry, indexes: Iterable<number>): Promise<number | null> {
  if (task.approval === null) return null
  for (const index of indexes) {
    const step = plan.steps[index]!
    if (plan.steps.slice(0, index).some(({ resource }) => resource === step.resource)) continue
    const now = (await device.valueBefore(step, task.policy)) ?? null
    if (canonical(now) !== canonical(task.approval.before[index] ?? null)) return index
  }
  return null
}

async function endStale(runs: TaskRuns, entry: Entry, index: number): Promise<void> {
  await failStep(runs, entry, index, 'approval_stale', 'a value has changed since it was shown to the people who approved')
  await rollBack(runs, entry)
  return finishTask(runs, entry, 'FAILED', 'approval_stale')
}

async function failStep(runs: TaskRuns, { task }: Entry, index: number, code: string, error: string): Promise<void> {
  await record(runs, 'step.fail', { task_id: task.id, index, code, error })
}

async function runLocked(runs: TaskRuns, entry: Entry, index: number): Promise<'done' | 'ok' | 'failed' | 'stale'> {
  const { task, plan } = entry
  const { resource } = plan.steps[index]!
  const lock = await runs.locks.acquire(resource, task.session_id, runs.lockWaitOf(task.policy), entry.stopping.signal)
  if (lock === null) {
    if (entry.why !== null) return 'failed'
    await failStep(runs, entry, index, 'busy', `${resource} is in use by another session`)
    return 'failed'
  }
  let stopTicking = (): void => undefined
  try {
    // All steps were checked before the first one, but other tasks might have changed values since.
    if ((await staleStep(runs, entry, [index])) !== null) return 'stale'
    stopTicking = startInterval(runs.clock, PROGRESS_MS, () => runs.progress(task.id, index))
    const { step, task: after } = await record<{ step: Step; task: Task }>(runs, 'step.start', { task_id: task.id, index })
    if (after.finished_at !== null) return 'done'
    return step.status === 'SUCCESS' ? 'ok' : 'failed'
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'STOPPED') throw error
    if (error.details?.['code'] === 'denied') await failStep(runs, entry, index, 'denied', error.message)
    else entry.why ??= 'cancel'
    return 'failed'
  } finally {
    stopTicking()
    const stuck = runs.steps.stuck.get(stepId(task.id, index))
    if (stuck) void stuck.finally(() => lock.release())
    else lock.release()
  }
}

async function rollBack(runs: TaskRuns, { task, plan }: Entry): Promise<void> {
  if (!task.rollback_on_failure) return
  for (let index = plan.steps.length - 1; index >= 0; index--) {
    if (!runs.steps.undos.has(stepId(task.id, index))) continue
    const lock = await runs.locks.acquire(plan.steps[index]!.resource, task.session_id, runs.lockWaitOf(task.policy), runs.ending)
    try {
      await record(runs, 'step.rollback', { task_id: task.id, index })
    } finally {
      lock?.release()
    }
  }
}
