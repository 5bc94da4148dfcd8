// The task runner: takes submitted tasks in order, runs several concurrently, and each step under the lock of its resource. It decides nothing:
// the operation of a step starts it, and every outcome is recorded.
import { NotJson, plainJson } from '#kernel/codec/plain-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Sealed, Value } from '#kernel/log/store.ts'
import { stepId, type Outcome, type Plan, type PlannedStep, type Session, type Step, type Task } from '#protocols/hardware/daemon/schema.ts'
import type { StepRequest } from '#protocols/hardware/daemon/operations/step.ts'
import type { Port } from '#workers/effect-runner.ts'
import type { Worker, WorkerLog } from '#workers/worker.ts'
import { createLocks, type Lock } from './locks.ts'

/** The parts of the device that the runner needs. */
export type Hardware = {
  timeoutOf(tool: string): number
  act(request: StepRequest, signal: AbortSignal): Promise<{ result: Value; undo?: () => void }> | { result: Value; undo?: () => void }
  /** The word for an error of the device, or null: it is a bug or yields to a cancel. */
  codeOf(error: unknown): string | null
  isCancelled(error: unknown): boolean
  /** The value that a step of an approved task would change, as it is now. */
  valueBefore(step: PlannedStep, policy: string): Promise<unknown>
  makeSafe(session_id: string): void
}
export type RunnerOptions = {
  readonly device: Hardware
  readonly clock: Clock
  readonly log: WorkerLog
  concurrencyOf(policy: string): number
  lockWaitOf(policy: string): number
  /** Why the record would not have everything; null: it does. Nothing acts before. */
  amiss(): string | null
  progress(task_id: string, index: number): void
}

export type TaskRunner = Worker & {
  readonly port: Port
  begin(kernel: Kernel): void
  holderOf(resource: string): string | null
  /** Running or waiting: such a session is not idle. */
  hasWork(session_id: string): boolean
  /** Resolves when nothing of a closed session runs any more and its outputs are safe. */
  released(session_id: string): Promise<void>
}

type Why = 'cancel' | 'timeout' | 'stop'
type Entry = { task: Task; readonly plan: Plan; readonly stopping: AbortController; why: Why | null; running: Promise<void> | null }

const RETRY_MS = 200
/** After a tool was asked to yield: a transaction may take this long to come to its end before the task goes on without it. */
const YIELD_MS = 3_000
const PROGRESS_MS = 1_000
const RESULT = { depth: limits.deviceResultDepthMax, chars: limits.deviceResultCharsMax }

export function createTaskRunner(options: RunnerOptions): TaskRunner {
  const { device, clock, log, amiss } = options
  const locks = createLocks()
  const entries = new Map<string, Entry>()
  const queues = new Map<string, Entry[]>()
  const busy = new Map<string, number>()
  const undos = new Map<string, () => void>()
  const ending = new AbortController()
  let kernel: Kernel
  let leave = (): void => undefined

  // --- What the record says --------------------------------------------------------------------------------------------

  function onFacts(facts: readonly Sealed[]): void {
    for (const { fact } of facts) {
      const [first, second] = fact.images
      if (fact.action === 'hardware/task.submit') take(first!.value as Task, second!.value as Plan)
      else if (fact.action === 'hardware/approval.used' && second) enqueueApproved(second.value as Task)
      else if (fact.action === 'hardware/task.cancel') yieldTo((first!.value as Task).id, 'cancel')
      else if (fact.action === 'hardware/task.finish') forget((first!.value as Task).id)
      else if (fact.action === 'hardware/session.close') void release((first!.value as Session).id)
    }
  }

  function take(task: Task, plan: Plan): void {
    const entry: Entry = { task, plan, stopping: new AbortController(), why: null, running: null }
    entries.set(task.id, entry)
    if (!task.waiting) enqueue(entry)
  }

  /** It waited for a person, and was ended without the runner. */
  function forget(task_id: string): void {
    const entry = entries.get(task_id)
    if (entry?.task.waiting && entry.running === null) entries.delete(task_id)
  }

  function enqueueApproved(task: Task): void {
    const entry = entries.get(task.id)
    if (!entry || !entry.task.waiting) return
    entry.task = task
    enqueue(entry)
  }

  function enqueue(entry: Entry): void {
    const { policy } = entry.task
    const queue = queues.get(policy) ?? []
    queues.set(policy, queue)
    queue.push(entry)
    // After every follower of the record has seen the fact.
    queueMicrotask(() => pump(policy))
  }

  function pump(policy: string): void {
    const queue = queues.get(policy)!
    while (queue.length > 0 && (busy.get(policy) ?? 0) < options.concurrencyOf(policy) && !ending.signal.aborted) {
      const entry = queue.shift()!
      busy.set(policy, (busy.get(policy) ?? 0) + 1)
      entry.running = run(entry)
        .catch((error: unknown) => log.error({ err: error, task_id: entry.task.id }, 'a task could not be brought to its end'))
        .finally(() => {
          entries.delete(entry.task.id)
          for (let i = 0; i < entry.plan.steps.length; i++) undos.delete(stepId(entry.task.id, i))
          busy.set(policy, busy.get(policy)! - 1)
          pump(policy)
        })
    }
  }

  /** The step under way is asked to yield, and none begins after it. */
  function yieldTo(task_id: string, why: Why): void {
    const entry = entries.get(task_id)
    if (!entry) return
    entry.why ??= why
    entry.stopping.abort()
    // A task that waits for a person, or for its turn, has nothing to yield.
    if (entry.running === null) {
      const queue = queues.get(entry.task.policy)
      if (queue?.includes(entry)) queue.splice(queue.indexOf(entry), 1)
      entry.running = finishTask(entry, 'CANCELLED')
        .catch((error: unknown) => log.error({ err: error, task_id }, 'a task could not be brought to its end'))
        .finally(() => entries.delete(task_id))
    }
  }

  const endOf = (some: readonly Entry[]): Promise<unknown> => Promise.all(some.map(({ running }) => running ?? Promise.resolve()))
  const ofSession = (session_id: string): Entry[] => [...entries.values()].filter(({ task }) => task.session_id === session_id)

  const releases = new Map<string, Promise<void>>()
  function release(session_id: string): Promise<void> {
    const releasing = (async () => {
      const sessionEntries = ofSession(session_id)
      for (const { task } of sessionEntries) yieldTo(task.id, 'cancel')
      await endOf(sessionEntries)
      await makeSafe(session_id)
    })().catch((error: unknown) => log.error({ err: error, session_id }, 'a session could not be brought to its end'))
    releases.set(session_id, releasing)
    void releasing.finally(() => releases.delete(session_id))
    return releasing
  }

  /** Until it succeeds: a board that is gone at the moment may come back with its outputs as they were. */
  async function makeSafe(session_id: string): Promise<void> {
    for (let attempt = 1; !ending.signal.aborted; attempt++) {
      try {
        return device.makeSafe(session_id)
      } catch (error) {
        if (attempt === 1)
          log.error({ err: error, session_id }, 'outputs of a session could not be brought to their safe state; trying again')
      }
      await clock.sleep(RETRY_MS, ending.signal)
    }
  }

  // --- One task --------------------------------------------------------------------------------------------------------

  /** Tries until the record takes it: a full disk stops everything, and needs no repair. */
  async function record<T>(operation: string, input: object): Promise<T> {
    for (;;) {
      try {
        return (await kernel.call(`hardware/${operation}`, input, SYSTEM)) as T
      } catch (error) {
        const mayPass = error instanceof Refusal && ['BUSY', 'UNAVAILABLE', 'CONFLICT'].includes(error.code)
        if (!mayPass || ending.signal.aborted) throw error
        await clock.sleep(RETRY_MS, ending.signal)
      }
    }
  }

  async function finishTask(entry: Entry, status: 'SUCCESS' | 'FAILED' | 'CANCELLED', code?: string): Promise<void> {
    await record('task.finish', { task_id: entry.task.id, status, ...(code === undefined ? {} : { code }) }).catch((error: unknown) => {
      if (!(error instanceof Refusal && error.code === 'STOPPED')) throw error
    })
  }

  async function run(entry: Entry): Promise<void> {
    const { task, plan } = entry
    const { max_duration_ms } = task
    const stale = await staleStep(entry, plan.steps.keys())
    if (stale !== null) return endStale(entry, stale)
    let timer: NodeJS.Timeout | undefined
    const late = (): void => yieldTo(task.id, 'timeout')
    let hasFailed = false
    try {
      for (let i = 0; i < plan.steps.length; i++) {
        if (entry.why !== null) break
        if (i === 0 && max_duration_ms !== null) timer = setTimeout(late, max_duration_ms)
        const outcome = await step(entry, i)
        if (outcome === 'done') return
        if (outcome === 'stale') return await endStale(entry, i)
        if (outcome === 'failed') hasFailed = true
        if (hasFailed && task.abort_on_step_failure) break
      }
    } finally {
      clearTimeout(timer)
    }
    if (entry.why === 'cancel' || entry.why === 'stop') return finishTask(entry, 'CANCELLED')
    await rollBack(entry)
    // Nothing has failed: its last step came to its end after the time.
    return finishTask(entry, 'FAILED', entry.why === 'timeout' || !hasFailed ? 'timeout' : undefined)
  }

  /** The first of these steps whose value is not what the people who approved it were shown; what an earlier step changes is its own doing. */
  async function staleStep({ task, plan }: Entry, indexes: Iterable<number>): Promise<number | null> {
    if (task.approval === null) return null
    for (const index of indexes) {
      const step = plan.steps[index]!
      if (plan.steps.slice(0, index).some(({ resource }) => resource === step.resource)) continue
      const now = (await device.valueBefore(step, task.policy)) ?? null
      if (canonical(now) !== canonical(task.approval.before[index] ?? null)) return index
    }
    return null
  }

  async function endStale(entry: Entry, index: number): Promise<void> {
    await fail(entry, index, 'approval_stale', 'a value has changed since it was shown to the people who approved')
    await rollBack(entry)
    return finishTask(entry, 'FAILED', 'approval_stale')
  }

  async function fail(entry: Entry, index: number, code: string, error: string): Promise<void> {
    await record('step.fail', { task_id: entry.task.id, index, code, error })
  }

  async function step(entry: Entry, index: number): Promise<'done' | 'ok' | 'failed' | 'stale'> {
    const { task, plan } = entry
    const { resource } = plan.steps[index]!
    const lock = await locks.acquire(resource, task.session_id, options.lockWaitOf(task.policy), entry.stopping.signal)
    if (lock === null) {
      if (entry.why !== null) return 'failed'
      await fail(entry, index, 'busy', `${resource} is in use by another session`)
      return 'failed'
    }
    let ticking: NodeJS.Timeout | undefined
    try {
      // Before the first step all of them were looked at; since then others may have come between.
      if ((await staleStep(entry, [index])) !== null) return 'stale'
      ticking = setInterval(() => options.progress(task.id, index), PROGRESS_MS)
      const { step: done, task: after } = await record<{ step: Step; task: Task }>('step.start', { task_id: task.id, index })
      if (after.finished_at !== null) return 'done'
      return done.status === 'SUCCESS' ? 'ok' : 'failed'
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 'STOPPED') throw error
      if (error.details?.['code'] === 'denied') await fail(entry, index, 'denied', error.message)
      else entry.why ??= 'cancel'
      return 'failed'
    } finally {
      clearInterval(ticking)
      const stuck = stuckSteps.get(stepId(task.id, index))
      if (stuck) void stuck.finally(() => lock.release())
      else (lock satisfies Lock).release()
    }
  }

  async function rollBack({ task, plan }: Entry): Promise<void> {
    if (!task.rollback_on_failure) return
    for (let index = plan.steps.length - 1; index >= 0; index--) {
      if (!undos.has(stepId(task.id, index))) continue
      const lock = await locks.acquire(plan.steps[index]!.resource, task.session_id, options.lockWaitOf(task.policy), ending.signal)
      try {
        await record('step.rollback', { task_id: task.id, index })
      } finally {
        lock?.release()
      }
    }
  }

  // --- One act ---------------------------------------------------------------------------------------------------------

  /** Steps whose tool has not come back although their time is over: their resources stay locked until it does. */
  const stuckSteps = new Map<string, Promise<unknown>>()

  const port: Port = async (request) => {
    const step = request as StepRequest
    const began = performance.now()
    const outcome = (fields: Omit<Outcome, 'latency_ms'>): Value => ({ ...fields, latency_ms: Math.round(performance.now() - began) })
    const message = amiss()
    if (message !== null) return outcome({ status: 'FAILED', code: 'io', error: `${message}: nothing was done` })
    return step.undo ? outcome(undoStep(step)) : outcome(await runStep(step))
  }

  function undoStep({ task_id, index }: StepRequest): Omit<Outcome, 'latency_ms'> {
    try {
      undos.get(stepId(task_id, index))!()
      return { status: 'SUCCESS' }
    } catch (error) {
      return { status: 'FAILED', code: device.codeOf(error) ?? 'io', error: (error as Error).message }
    }
  }

  async function runStep(request: StepRequest): Promise<Omit<Outcome, 'latency_ms'>> {
    const { task_id, index, tool } = request
    const ending = new AbortController()
    const entry = entries.get(task_id)
    let isSlow = false
    try {
      // Most acts end synchronously and need no timer.
      const begun = device.act(request, ending.signal)
      const done = begun instanceof Promise ? await withTimeout(begun, entry, () => (isSlow = true)) : begun
      if (done === null) return timeoutOutcome(tool, 'and has not come back: its resource stays locked until it does')
      if (done.undo) undos.set(stepId(task_id, index), done.undo)
      if (isSlow) return timeoutOutcome(tool, 'and came to its end after it')
      plainJson(done.result, 'the result', RESULT)
      return { status: 'SUCCESS', result: done.result }
    } catch (error) {
      if (error instanceof NotJson) return { status: 'FAILED', code: 'io', error: `${tool} failed: ${error.message}` }
      if (device.isCancelled(error)) {
        if (isSlow || entry?.why === 'timeout') return timeoutOutcome(tool, 'and was ended')
        return { status: 'CANCELLED', error: (error as Error).message }
      }
      const code = device.codeOf(error)
      if (code === null) log.error({ err: error, tool }, 'a tool threw an error that it does not declare')
      return { status: 'FAILED', code: code ?? 'io', error: code === null ? `${tool} failed` : (error as Error).message }
    }

    /** Asks it to yield when its time is over or its task is to end; null: it did not. */
    async function withTimeout<T>(acting: Promise<T>, owner: Entry | undefined, late: () => void): Promise<T | null> {
      const id = stepId(task_id, index)
      const yields = (): void => ending.abort()
      const timer = setTimeout(() => {
        late()
        yields()
      }, device.timeoutOf(tool))
      if (owner?.stopping.signal.aborted) yields()
      owner?.stopping.signal.addEventListener('abort', yields, { once: true })
      try {
        const done = await withinGrace(acting, ending.signal)
        if (done === null)
          stuckSteps.set(
            id,
            acting.catch(() => undefined).finally(() => stuckSteps.delete(id)),
          )
        return done
      } finally {
        clearTimeout(timer)
        owner?.stopping.signal.removeEventListener('abort', yields)
      }
    }
  }

  return {
    port,
    begin(given) {
      kernel = given
      leave = kernel.tail.follow(onFacts)
    },
    holderOf: locks.holderOf,
    hasWork: (session_id) => ofSession(session_id).length > 0,
    released: (session_id) => releases.get(session_id) ?? Promise.resolve(),
    async stop() {
      const all = [...entries.values()]
      for (const { task } of all) yieldTo(task.id, 'stop')
      const enough = new AbortController()
      await Promise.race([endOf(all), clock.sleep(STOP_MS, enough.signal)])
      enough.abort()
      ending.abort()
      leave()
    },
  }
}
const STOP_MS = 3_500

const timeoutOutcome = (tool: string, message: string): Omit<Outcome, 'latency_ms'> => ({
  status: 'FAILED',
  code: 'timeout',
  error: `${tool} took longer than it may, ${message}`,
})

/** Null: it was asked to yield and did not come back in time. */
async function withinGrace<T>(acting: Promise<T>, signal: AbortSignal): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined
  const patience = new Promise<null>((done) => {
    const begin = (): void => void (timer = setTimeout(() => done(null), YIELD_MS))
    if (signal.aborted) begin()
    else signal.addEventListener('abort', begin, { once: true })
  })
  try {
    return await Promise.race([acting, patience])
  } finally {
    clearTimeout(timer)
  }
}
