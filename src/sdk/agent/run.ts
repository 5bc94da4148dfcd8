// The run that a handler gets, with all its methods.
import type { Client, Input, Output } from '../client.ts'
import { newKey } from '../transport/transport.ts'
import { createAsk, type Ask } from './ask.ts'
import { isRefusal } from '../transport/retry.ts'
import { createDelegate, type Delegated, type DelegateOptions } from './delegate.ts'
import { createCommit, openArtifact, type CommitOptions, type Content, type Delivered } from './deliver.ts'
import { createInvoke, type InvokeOptions, type Invoked } from './invoke.ts'
import type { RunState, RunDocument, Steer } from './run-state.ts'
import { createSteps } from './steps.ts'

export type Task = Output<'collaboration/task.get'>['task']
export type LedgerOptions = { readonly scope?: NonNullable<Input<'collaboration/ledger.read'>['scope']> }
export type LedgerWriteOptions = LedgerOptions & { readonly expected_version?: number; readonly key?: string }

/**
 * The run of a handler. A handler can be started more than once for the same run: after a crash it begins again, and
 * every step below that it had finished is answered from the record instead of being done again. Steps are known by their order;
 * a step whose order can change needs a `key`.
 */
export type Run<I extends object = Record<string, unknown>> = {
  readonly id: string
  /** The work to be done: the spec of the task, or the input that the delegating agent sent. */
  readonly input: I
  /** The context of the run: a review that requests changes, the answer to an escalation, or the former agent's state. */
  readonly context: Readonly<Record<string, unknown>> | null
  /** The task of the run at the start of this attempt, or null. */
  readonly task: Task | null
  /** The run, as it was at the start of this attempt. */
  readonly document: RunDocument
  /** 1 for the first attempt, and one more each time a process takes the run again. */
  readonly attempt: number
  /** Aborts when the run ends early: it was cancelled, handed off or taken by another process, or this process stops. */
  readonly signal: AbortSignal
  /** A person has interrupted the run. Its calls wait by themselves; `untilFree` does so between them. */
  readonly isPaused: boolean
  untilFree(): Promise<void>
  readonly ask: Ask
  /** Reports progress as a message and a percentage. */
  progress(message: string, percent?: number): Promise<void>
  /** Delivers an artifact. With `final: false` the work continues; otherwise the task goes to its reviewers and the run ends. */
  commit(content: Content, options?: CommitOptions): Promise<Delivered>
  /** The bytes of an artifact. */
  open(artifact_id: string, version?: string): Promise<Uint8Array<ArrayBuffer>>
  /** Delegates a part of the work and waits for the result. Throws `DelegationFailed`. */
  delegate(options: DelegateOptions): Promise<Delegated>
  /** Invokes a capability and waits for its result. A refusal by the capability is a result with `ok: false`. */
  invoke(ref: { readonly capability_id: string; readonly version: string }, input?: unknown, options?: InvokeOptions): Promise<Invoked>
  readonly ledger: {
    /** The value under a key of the project's ledger, or undefined. */
    read(key: string, options?: LedgerOptions): Promise<unknown>
    write(key: string, value: unknown, options?: LedgerWriteOptions): Promise<void>
  }
  /** Words of people and of the delegating agent since the run began. */
  readonly steering: readonly Steer[]
  /** The steering messages from the first on, as they arrive, until the run ends. */
  steers(): AsyncIterable<Steer>
  /** The value stored under a key; the first time, stores the result of `make`, a small JSON value. */
  memo<T>(key: string, make: () => T | Promise<T>): Promise<T>
  /** Everything else that the server can do, as this agent. */
  readonly client: Client
}

export function createRun(job: RunState, task: Task | null): Run {
  const { client, item, signal } = job
  const { run, request } = item
  const steps = createSteps(job)
  const memos = new Map<string, Promise<unknown>>()
  return {
    id: run.id,
    input: request.input as Record<string, unknown>,
    context: request.context as Record<string, unknown> | null,
    task,
    document: run,
    get attempt() {
      return job.attempt
    },
    signal,
    get isPaused() {
      return job.isPaused
    },
    untilFree: job.untilFree,
    ask: createAsk(job, steps),
    async progress(message, percent) {
      const input = { run_id: run.id, message, ...(percent === undefined ? {} : { percent }) }
      const key = newKey()
      await job.effect(() => {
        const { attempt } = job
        return client.delegation.run.progress({ ...input, attempt }, { idempotencyKey: `${key}/${attempt}`, signal })
      })
    },
    commit: createCommit(job, steps),
    open: (artifact_id, version) => openArtifact(job, artifact_id, version),
    delegate: createDelegate(job, steps),
    invoke: createInvoke(job, steps),
    ledger: ledgerOf(job, steps),
    steering: job.steers,
    steers: () => steersOf(job),
    memo<T>(key: string, make: () => T | Promise<T>): Promise<T> {
      let memo = memos.get(key) as Promise<T> | undefined
      if (!memo) {
        memo = steps.once('memo', key, async () => await make())
        memos.set(key, memo)
        memo.catch(() => memos.delete(key))
      }
      return memo
    },
    client,
  }
}

function ledgerOf(job: RunState, steps: ReturnType<typeof createSteps>): Run['ledger'] {
  const { client, signal } = job
  const { project_id, task_id } = job.item.run
  const usual = `project:${project_id}` as const
  return {
    async read(key, { scope = usual } = {}) {
      try {
        return (await job.effect(() => client.collaboration.ledger.read({ scope, key }, { signal }))).entry.value
      } catch (error) {
        if (isRefusal(error, 'NOT_FOUND')) return undefined
        throw error
      }
    },
    async write(key, value, { key: step, ...options } = {}) {
      if (task_id === null) throw new TypeError('this run has no task: only a run of a task can write the ledger')
      await steps.once('ledger', step, async (idempotencyKey) => {
        const entry = { ...options, task_id, run_id: job.id, key, value }
        await job.effect(() => client.collaboration.ledger.write({ ...entry, attempt: job.attempt }, { idempotencyKey, signal }))
        return null
      })
    },
  }
}

async function* steersOf(job: RunState): AsyncIterable<Steer> {
  for (let next = 0; ;) {
    const news = job.news()
    while (next < job.steers.length) yield job.steers[next++]!
    if (job.signal.aborted) return
    await news
  }
}
