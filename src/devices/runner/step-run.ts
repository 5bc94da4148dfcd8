// A run of one step: its tool acts, is asked to yield at the timeout or when the task ends, and leaves its undo for a rollback.
import { NotJson, plainJson } from '#kernel/codec/plain-json.ts'
import { limits } from '#kernel/limits.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Value } from '#kernel/log/store.ts'
import type { StepRequest } from '#protocols/hardware/daemon/operations/step.ts'
import { stepId, type Outcome, type PlannedStep } from '#protocols/hardware/daemon/schema.ts'
import type { WorkerLog } from '#workers/worker.ts'
import type { Entry } from './task-queue.ts'
import { startTimer } from './timer.ts'

type Done = { readonly result: Value; readonly undo?: () => void }
type Result = Omit<Outcome, 'latency_ms'>

/** The parts of the device that the runner needs. */
export type Hardware = {
  timeoutOf(tool: string): number
  act(request: StepRequest, signal: AbortSignal): Promise<Done> | Done
  /** The code for an error of the device; null for a bug, or for a tool that yields to a cancel. */
  codeOf(error: unknown): string | null
  isCancelled(error: unknown): boolean
  /** The value that a step of an approved task would change, as it is now. */
  valueBefore(step: PlannedStep, policy: string): Promise<unknown>
  makeSafe(session_id: string): void
}

/** The state that runs of steps share. */
export type StepRuns = {
  readonly device: Hardware
  readonly clock: Clock
  readonly log: WorkerLog
  readonly undos: Map<string, () => void>
  /** Steps whose tool did not return after its timeout. Their resources stay locked until it does. */
  readonly stuck: Map<string, Promise<unknown>>
  /** Why the record would be incomplete, or null. */
  amiss(): string | null
  /** The task of a step, which can end before the step does. */
  taskOf(task_id: string): Entry | undefined
}

type StepRun = {
  readonly runs: StepRuns
  readonly request: StepRequest
  readonly id: string
  readonly task: Entry | undefined
  readonly yielding: AbortController
  /** The timeout passed before the tool returned. */
  isSlow: boolean
}

/** The time that a tool gets to end its transaction after it was asked to yield. Then the task continues without it. */
const YIELD_MS = 3_000
const RESULT = { depth: limits.deviceResultDepthMax, chars: limits.deviceResultCharsMax }

export async function performStep(runs: StepRuns, step: StepRequest): Promise<Value> {
  const { amiss, taskOf } = runs
  // The clock of the machine can step while a tool acts.
  const began = performance.now()
  const outcome = (result: Result): Value => ({ ...result, latency_ms: Math.round(performance.now() - began) })
  const message = amiss()
  if (message !== null) return outcome({ status: 'FAILED', code: 'io', error: `${message}: nothing was done` })
  if (step.undo) return outcome(undoStep(runs, step))
  const id = stepId(step.task_id, step.index)
  return outcome(await runStep({ runs, request: step, id, task: taskOf(step.task_id), yielding: new AbortController(), isSlow: false }))
}

function undoStep({ device, undos }: StepRuns, { task_id, index }: StepRequest): Result {
  try {
    undos.get(stepId(task_id, index))!()
    return { status: 'SUCCESS' }
  } catch (error) {
    return { status: 'FAILED', code: device.codeOf(error) ?? 'io', error: (error as Error).message }
  }
}

async function runStep(run: StepRun): Promise<Result> {
  const { runs, request, yielding } = run
  const { tool } = request
  try {
    // Most acts end synchronously and need no timer.
    const begun = runs.device.act(request, yielding.signal)
    const done = begun instanceof Promise ? await withTimeout(run, begun) : begun
    if (done === null) return timeoutResult(tool, 'it has not returned, and its resource stays locked until it does')
    if (done.undo) runs.undos.set(run.id, done.undo)
    if (run.isSlow) return timeoutResult(tool, 'it returned too late')
    plainJson(done.result, 'the result', RESULT)
    return { status: 'SUCCESS', result: done.result }
  } catch (error) {
    return failureOf(run, error)
  }
}

function failureOf({ runs: { device, log }, request: { tool }, task, isSlow }: StepRun, error: unknown): Result {
  if (error instanceof NotJson) return { status: 'FAILED', code: 'io', error: `${tool} failed: ${error.message}` }
  if (device.isCancelled(error)) {
    if (isSlow || task?.why === 'timeout') return timeoutResult(tool, 'it was cancelled')
    return { status: 'CANCELLED', error: (error as Error).message }
  }
  const code = device.codeOf(error)
  if (code === null) log.error({ err: error, tool }, 'a tool threw an error that it does not declare')
  return { status: 'FAILED', code: code ?? 'io', error: code === null ? `${tool} failed` : (error as Error).message }
}

const timeoutResult = (tool: string, message: string): Result => ({
  status: 'FAILED',
  code: 'timeout',
  error: `${tool} exceeded its timeout: ${message}`,
})

/** Asks the tool to yield at its timeout or when its task must end. Null if it did not. */
async function withTimeout(run: StepRun, acting: Promise<Done>): Promise<Done | null> {
  const { device, clock, stuck } = run.runs
  const stopping = run.task?.stopping.signal
  const yields = (): void => run.yielding.abort()
  const stopTimer = startTimer(clock, device.timeoutOf(run.request.tool), () => {
    run.isSlow = true
    yields()
  })
  if (stopping?.aborted) yields()
  stopping?.addEventListener('abort', yields, { once: true })
  try {
    const done = await withinGrace(clock, acting, run.yielding.signal)
    if (done === null)
      stuck.set(
        run.id,
        acting.catch(() => undefined).finally(() => stuck.delete(run.id)),
      )
    return done
  } finally {
    stopTimer()
    stopping?.removeEventListener('abort', yields)
  }
}

/** Null if the tool did not return within the grace period after it was asked to yield. */
async function withinGrace<T>(clock: Clock, acting: Promise<T>, signal: AbortSignal): Promise<T | null> {
  let stopTimer = (): void => undefined
  const patience = new Promise<null>((done) => {
    const begin = (): void => void (stopTimer = startTimer(clock, YIELD_MS, () => done(null)))
    if (signal.aborted) begin()
    else signal.addEventListener('abort', begin, { once: true })
  })
  try {
    return await Promise.race([acting, patience])
  } finally {
    stopTimer()
  }
}
