// The run loop of an agent: it waits for messages, passes each to its run, renews the leases of active runs, and releases the runs it
// cannot finish. Nothing is lost: a run that a process took and did not end is redelivered when its lease expires.
import type { Client } from '../client.ts'
import { newKey, pause } from '../transport/transport.ts'
import { durationOf, isRefusal, persistently } from '../transport/retry.ts'
import { createRunState, type MailboxItem, type RunState } from './run-state.ts'
import type { Connection } from './connection.ts'
import type { Run } from './run.ts'
import type { Handler, ServeOptions } from './serve.ts'
import { createConcurrency, type Concurrency } from './concurrency.ts'
import { work } from './work.ts'

export type Settings = Required<Omit<ServeOptions, 'url' | 'key' | 'transport' | 'signals' | 'log'>>

export type RunLoop = {
  /** Aborts when nothing more is taken. */
  readonly stopping: AbortSignal
  /** Resolves when the loop was stopped; rejects when it cannot continue. */
  serve(): Promise<void>
  stop(): Promise<void>
}

/** Runs that one call takes, extends or gives back. */
const RUNS_MAX = 50
/** Beyond the wait itself. */
const ANSWER_MS = 15_000
/** A server that lets no call wait is not asked in a hurry. */
const SOON_MS = 500
/** How often it is looked whether another process has taken a run that waits for a person. */
const LOOK_MS = 300_000
/** Grace period for aborted handlers before their runs are given back. */
const LEAVE_MS = 500

const portions = <T>(all: readonly T[]): T[][] =>
  Array.from({ length: Math.ceil(all.length / RUNS_MAX) }, (_, i) => all.slice(i * RUNS_MAX, (i + 1) * RUNS_MAX))

export function createRunLoop(agent_id: string, client: Client, connection: Connection, handler: Handler, settings: Settings): RunLoop {
  const { leaseMs, waitMs, graceMs, waitingMax, concurrency } = settings
  const worker = newKey()
  const jobs = new Map<string, RunState>()
  const working = new Map<RunState, Promise<void>>()
  const slots: Concurrency = createConcurrency(concurrency, () => pump())
  const stopping = new AbortController()
  const ending = Promise.withResolvers<void>()
  const asking = { anything: false, held: false }
  let stopped: Promise<void> | null = null
  const onError = (error: unknown, run: Run | null): void => settings.onError(error, run)

  // --- Taking ----------------------------------------------------------------------------------------------------------------

  /** Without a free slot for a new run, messages for current runs are still received. */
  function pump(): void {
    if (stopping.signal.aborted) return
    const room = jobs.size - (concurrency - slots.free) < waitingMax ? Math.min(slots.free, RUNS_MAX) : 0
    if (room > 0 && !asking.anything) void take('anything', { limit: room })
    else if (room === 0 && !asking.anything && !asking.held) void take('held', { held: true })
  }

  async function take(what: keyof typeof asking, more: object): Promise<void> {
    const { signal } = stopping
    asking[what] = true
    const input = { agent_id, worker, lease: durationOf(leaseMs), wait: durationOf(waitMs), ...more }
    // One key until there is an answer: an answer that was lost on the way is given again.
    const options = { idempotencyKey: newKey(), signal, timeoutMs: waitMs + ANSWER_MS }
    const began = performance.now()
    try {
      const { items } = await persistently(signal, () => connection.attempt(() => client.delegation.mailbox.take(input, options)))
      for (const item of items) receive(item)
      if (items.length === 0 && performance.now() - began < Math.min(SOON_MS, waitMs / 2)) await pause(SOON_MS, signal)
    } catch (error) {
      if (signal.aborted) return
      if (!isRefusal(error, 'CONFLICT')) return fail(error)
      await pause(SOON_MS, signal)
    } finally {
      asking[what] = false
    }
    pump()
  }

  function receive(item: MailboxItem): void {
    const job = jobs.get(item.run.id)
    const isOurs = job !== undefined && !job.signal.aborted && job.receive(item)
    if (!isOurs) {
      job?.end('stale')
      begin(item)
    }
    if (item.messages.some(({ kind }) => kind === 'cancel')) void settle(item)
  }

  function begin(item: MailboxItem): void {
    if (item.run.state !== 'running' && item.run.state !== 'blocked') return
    const job = createRunState(client, item, slots)
    jobs.set(job.id, job)
    const done = work(job, handler, slots, onError).finally(() => {
      working.delete(job)
      if (jobs.get(job.id) === job) jobs.delete(job.id)
    })
    working.set(job, done)
  }

  /** The last word about a run; one that is not settled comes again. */
  async function settle({ run, attempt, messages }: MailboxItem): Promise<void> {
    const last = { run_id: run.id, attempt, number: messages.at(-1)!.number }
    await client.delegation.mailbox.ack(last, { idempotencyKey: null }).catch(() => undefined)
  }

  // --- Holding ---------------------------------------------------------------------------------------------------------------

  const looked = new WeakMap<RunState, number>()
  /** A run that waits for a person has nothing to redeliver: the process that takes it next gets the answer. */
  async function mustBeHeld(job: RunState): Promise<boolean> {
    if (job.signal.aborted || job.isDelivered) return false
    if (job.waitsFor === null) return true
    if (performance.now() - (looked.get(job) ?? 0) < LOOK_MS) return false
    looked.set(job, performance.now())
    const { run } = await client.delegation.run.get({ run_id: job.id })
    return run.state !== 'blocked'
  }

  async function hold(some: readonly RunState[]): Promise<void> {
    const sent = some.map((job) => ({ job, run_id: job.id, attempt: job.attempt }))
    const runs = sent.map(({ run_id, attempt }) => ({ run_id, attempt }))
    const { signal } = stopping
    const lease = durationOf(leaseMs)
    const { items } = await client.delegation.mailbox.extend({ runs, lease }, { idempotencyKey: null, signal, timeoutMs: leaseMs })
    const lost = sent.filter(
      ({ job, attempt }, i) => items[i]?.lease_until === null && job.attempt === attempt && !job.isDelivered && !job.signal.aborted,
    )
    await Promise.all(lost.map(({ job }) => job.lost()))
  }

  async function beat(): Promise<void> {
    for (;;) {
      await pause(leaseMs / 3, ended.signal)
      if (ended.signal.aborted) return
      try {
        const held: RunState[] = []
        for (const job of jobs.values()) if (await mustBeHeld(job)) held.push(job)
        for (const some of portions(held)) await hold(some)
      } catch {
        // The next beat tries again. The server refuses calls of a run that is lost in the meantime.
      }
    }
  }

  // --- The end ---------------------------------------------------------------------------------------------------------------

  /** Runs are held as long as a handler may still finish. */
  const ended = new AbortController()

  async function close(): Promise<void> {
    stopping.abort()
    for (const job of jobs.values()) if (job.waitsFor !== null) job.end('stopping')
    const enough = new AbortController()
    await Promise.race([Promise.all(working.values()), pause(graceMs, enough.signal)])
    const left = [...jobs.values()].filter((job) => !job.isDelivered)
    for (const job of left) job.end('stopping')
    await Promise.race([Promise.all(working.values()), pause(LEAVE_MS, enough.signal)])
    enough.abort()
    ended.abort()
  }

  async function stop(): Promise<void> {
    const all = new Set(jobs.values())
    await close()
    const unfinished = [...all, ...jobs.values()].filter((job) => (job.signal.reason as { reason?: string })?.reason === 'stopping')
    for (const some of portions([...new Set(unfinished)])) {
      const runs = some.map(({ id, attempt }) => ({ run_id: id, attempt }))
      // Where this does not get through, the lease runs out.
      await client.delegation.mailbox.release({ runs }, { idempotencyKey: null, timeoutMs: leaseMs }).catch(() => undefined)
    }
    ending.resolve()
  }

  function fail(error: unknown): void {
    stopping.abort()
    ended.abort()
    for (const job of jobs.values()) job.end('stopping')
    ending.reject(error)
  }

  return {
    stopping: stopping.signal,
    serve() {
      pump()
      return Promise.all([ending.promise, beat()]).then(() => undefined)
    },
    stop: () => (stopped ??= stop()),
  }
}
