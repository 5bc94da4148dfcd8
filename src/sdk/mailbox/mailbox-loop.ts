// The mailbox loop of an agent: it takes runs, passes messages to their jobs, renews the leases of active jobs, and releases the runs that a
// stop leaves unfinished. The SDK's `serve`, program agents and the harness callee are its handlers. Nothing is lost: a run that a process
// took and did not end is redelivered when its lease expires.
import type { CallName, Input, Output } from '../client.ts'
import { durationOf } from '../transport/retry.ts'
import { newKey, pause, type CallOptions, type Transport } from '../transport/transport.ts'
import { createConcurrency, type Concurrency } from './concurrency.ts'

export type MailboxItem = Output<'delegation/mailbox.take'>['items'][number]

export type Job = {
  readonly attempt: number
  /** Resolves when no code of this process works on the run. Never rejects. */
  readonly done: Promise<void>
  /** The job was stopped before the run ended, so the loop releases the run. */
  readonly isUnfinished: boolean
  /** Handles the messages. False: they belong to an attempt that this job cannot continue, and the loop begins another job. */
  receive(item: MailboxItem): boolean
  /** Whether the lease must be renewed; always by default. */
  mustBeHeld?(): Promise<boolean>
  /** The server reports that this attempt does not hold the run. */
  lost(): Promise<void>
  /** The loop takes no more runs: a job that only waits ends, any other can finish. */
  leave?(): void
  stop(): void
}

export type MailboxLoopOptions = {
  readonly agent_id: string
  /** The name of this process among the agent's processes. */
  readonly worker: string
  readonly call: Transport['call']
  /** Concurrent jobs. `waitingMax`: jobs that hold a run without a slot. */
  readonly concurrency: number
  readonly waitingMax?: number
  readonly leaseMs: number
  readonly waitMs: number
  /** The pause after a failed take, and after a take without a long poll. */
  readonly againMs: number
  /** How long stopped jobs get to end before their runs are released. */
  readonly leaveMs: number
  /** A cancel is settled when its job is done. By default it is settled when the job has received it. */
  readonly acksAfterDone?: boolean
  begin(item: MailboxItem, slots: Concurrency): Job
  /** Reports a failed take. A loop that cannot continue ends with the error. */
  onTakeError(error: unknown): 'continue' | 'end'
}

export type MailboxLoop = {
  /** Aborts when nothing more is taken. */
  readonly stopping: AbortSignal
  /** Resolves when the loop was stopped; rejects when it cannot continue. */
  readonly ended: Promise<void>
  start(): void
  /** Ends a pause: there might be a run to take. */
  wake(): void
  /** Takes no more runs, lets jobs finish for `graceMs` and stops the rest. A later call can shorten the time. */
  stop(graceMs: number): Promise<void>
}

/** Runs that one call takes, extends or releases. */
const RUNS_MAX = 50
/** Beyond the wait itself. */
const ANSWER_MS = 15_000
/** An empty answer that arrives sooner than this means that the server did not long-poll. */
const SOON_MS = 500
/** A server that does not answer must not delay a stop: the lease then expires. */
const RELEASE_MS = 5_000

const portions = <T>(all: readonly T[]): T[][] =>
  Array.from({ length: Math.ceil(all.length / RUNS_MAX) }, (_, i) => all.slice(i * RUNS_MAX, (i + 1) * RUNS_MAX))
const cancelIn = ({ messages }: MailboxItem) => messages.findLast(({ kind }) => kind === 'cancel')

export function createMailboxLoop(options: MailboxLoopOptions): MailboxLoop {
  const { agent_id, worker, concurrency, waitingMax = Infinity, waitMs } = options
  const lease = durationOf(options.leaseMs)
  const jobs = new Map<string, Job>()
  const slots = createConcurrency(concurrency, () => pump())
  /** Aborted in this order: no more runs are taken, the grace period has passed, all jobs have ended. */
  const [stopping, leaving, over] = [new AbortController(), new AbortController(), new AbortController()]
  const ended = Promise.withResolvers<void>()
  ended.promise.catch(() => undefined)
  /** Long polls in flight: for any run while there is room for another one, and for the held runs while there is not. */
  const polls: { anything: Promise<void> | null; held: Promise<void> | null } = { anything: null, held: null }
  let waker = new AbortController()
  let stopped: Promise<void> | null = null

  const call = <N extends CallName>(operation: N, input: Input<N>, more: CallOptions): Promise<Output<N>> =>
    options.call(operation, input, more) as Promise<Output<N>>

  // --- Taking ----------------------------------------------------------------------------------------------------------------

  /** Without a free slot for a new run, messages for current runs are still received. */
  function pump(): void {
    if (leaving.signal.aborted) return
    const isOpen = !stopping.signal.aborted && jobs.size - (concurrency - slots.free) < waitingMax
    const limit = isOpen ? Math.min(slots.free, RUNS_MAX) : 0
    if (limit > 0) polls.anything ??= take('anything', { limit }, stopping.signal)
    else if (polls.anything === null && jobs.size > 0) polls.held ??= take('held', { held: true }, leaving.signal)
  }

  async function take(what: keyof typeof polls, which: { limit: number } | { held: true }, signal: AbortSignal): Promise<void> {
    const { signal: woken } = waker
    const began = performance.now()
    let isAgain = true
    try {
      const input = { agent_id, worker, lease, wait: durationOf(waitMs), ...which }
      // One key for all attempts: a lost response is returned again.
      const more = { idempotencyKey: newKey(), signal, timeoutMs: waitMs + ANSWER_MS }
      const { items } = await call('delegation/mailbox.take', input, more)
      isAgain = items.length === 0 && performance.now() - began < Math.min(SOON_MS, waitMs / 2)
      for (const item of items) receive(item)
    } catch (error) {
      if (!signal.aborted && options.onTakeError(error) === 'end') fail(error)
    }
    if (isAgain) await pause(options.againMs, AbortSignal.any([woken, signal]))
    polls[what] = null
    pump()
  }

  function receive(item: MailboxItem): void {
    const { id, state } = item.run
    const job = jobs.get(id)
    if (!job?.receive(item) && (state === 'running' || state === 'blocked')) {
      // A run that arrives during a stop is for the process that asks next.
      if (stopping.signal.aborted) return void release([{ id, attempt: item.attempt }])
      begin(item)
    }
    const cancel = cancelIn(item)
    if (cancel) void ack(item, cancel.number, options.acksAfterDone ? job?.done : undefined)
  }

  function begin(item: MailboxItem): void {
    const job = options.begin(item, slots)
    jobs.set(item.run.id, job)
    void job.done.then(() => {
      if (jobs.get(item.run.id) === job) jobs.delete(item.run.id)
      pump()
    })
  }

  /** Settles the last message of a run; otherwise it is redelivered. */
  async function ack({ run, attempt }: MailboxItem, number: number, done: Promise<void> | undefined): Promise<void> {
    await done
    await call('delegation/mailbox.ack', { run_id: run.id, attempt, number }, { idempotencyKey: null }).catch(() => undefined)
  }

  // --- Holding ---------------------------------------------------------------------------------------------------------------

  async function hold(some: readonly (readonly [string, Job])[]): Promise<void> {
    const runs = some.map(([run_id, { attempt }]) => ({ run_id, attempt }))
    const more = { idempotencyKey: null, signal: over.signal, timeoutMs: options.leaseMs }
    const { items } = await call('delegation/mailbox.extend', { runs, lease }, more)
    const lost = some.filter(([, { attempt }], i) => items[i]?.lease_until === null && attempt === runs[i]!.attempt)
    await Promise.all(lost.map(([, job]) => job.lost()))
  }

  async function beat(): Promise<void> {
    while (!over.signal.aborted) {
      await pause(options.leaseMs / 3, over.signal)
      try {
        const held: [string, Job][] = []
        for (const entry of jobs) if ((await entry[1].mustBeHeld?.()) ?? true) held.push(entry)
        if (!over.signal.aborted) for (const some of portions(held)) await hold(some)
      } catch {
        // The next beat tries again. The server refuses calls of a run that is lost in the meantime.
      }
    }
  }

  async function release(runs: readonly { readonly id: string; readonly attempt: number }[]): Promise<void> {
    for (const some of portions(runs)) {
      const input = { runs: some.map(({ id, attempt }) => ({ run_id: id, attempt })) }
      const more = { idempotencyKey: null, signal: AbortSignal.timeout(RELEASE_MS) }
      await call('delegation/mailbox.release', input, more).catch(() => undefined)
    }
  }

  // --- The end ---------------------------------------------------------------------------------------------------------------

  async function close(): Promise<void> {
    const all = [...jobs]
    const done = Promise.all(all.map(([, job]) => job.done))
    for (const [, job] of all) job.leave?.()
    // A failed loop has no grace, and its signal does not abort again.
    if (!leaving.signal.aborted) await Promise.race([done, new Promise((go) => leaving.signal.addEventListener('abort', go))])
    leaving.abort()
    for (const job of jobs.values()) job.stop()
    const enough = new AbortController()
    await Promise.race([Promise.all([done, polls.anything, polls.held]), pause(options.leaveMs, enough.signal)])
    enough.abort()
    over.abort()
    await release(all.filter(([, { isUnfinished }]) => isUnfinished).map(([id, { attempt }]) => ({ id, attempt })))
    ended.resolve()
  }

  function fail(error: unknown): void {
    for (const signal of [stopping, leaving, over]) signal.abort()
    for (const job of jobs.values()) job.stop()
    ended.reject(error)
  }

  return {
    stopping: stopping.signal,
    ended: ended.promise,
    start() {
      pump()
      void beat()
    },
    wake() {
      waker.abort()
      waker = new AbortController()
    },
    stop(graceMs) {
      stopping.abort()
      stopped ??= close()
      if (graceMs < Infinity) void pause(graceMs, leaving.signal).then(() => leaving.abort())
      return stopped
    },
  }
}
