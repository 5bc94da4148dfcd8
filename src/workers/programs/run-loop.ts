// The run loop of a program agent: it leases runs, gives each to a child, forwards the child's messages, renews the leases while the child
// works, and restarts a failed child. Children of the server and commands behind `countersign agent run` both use it.
import { backoffMs } from '#kernel/codec/backoff.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { limits } from '#kernel/limits.ts'
import type { Message } from '#protocols/delegation/schema.ts'
import type { MailboxItem } from './lines.ts'
import { startConversation, type Outcome, type Plan, type Port, type RunHandle } from './conversation.ts'
import type { Worker } from '../worker.ts'

export type RunLoopOptions = {
  readonly port: Port
  readonly plan: Plan
  /** Runs at a time, and how often a child that fails is started for one of them. */
  readonly concurrency: number
  readonly tries: number
  /** Which process this is, among those of the same agent. */
  readonly worker: string
  readonly clock: Clock
  /** How long to leave a server alone that could not be asked, or that lets no call wait. */
  readonly againMs: number
  readonly backoffMs?: (tries: number) => number
  /** Reports progress for people who watch. */
  note(run_id: string, message: string): void
  trouble(message: string): void
}
export type RunLoop = Worker & {
  /** Wakes the loop: there might be a run to take. */
  ring(): void
  /** Takes no more runs and resolves when the current ones have ended. */
  finish(): Promise<void>
  readonly ended: Promise<void>
}

const LEASE_MS = 30_000
const LEASE = 'PT30S'
/** How long one call waits for messages, and how much longer its answer may take. */
const WAIT = 'PT50S'
const ANSWER_MS = 65_000
/** An empty answer that arrives sooner than this means that the server did not long-poll. */
const SOON_MS = 500
export const programBackoffMs = (tries: number): number => backoffMs(500, 60_000, tries)

type HeldRun = { item: MailboxItem; working: RunHandle | null; done: Promise<void> | null }

export function startRunLoop(options: RunLoopOptions): RunLoop {
  const { port, plan, concurrency, tries, worker, clock, note, trouble, backoffMs: pauseMs = programBackoffMs } = options
  const runs = new Map<string, HeldRun>()
  const stopping = new AbortController()
  const { signal } = stopping
  let isFinishing = false
  let waker = new AbortController()
  /** Long polls in flight: for any run while there is room for another one, and for the held runs while there is not. */
  const asking: { anything: Promise<void> | null; held: Promise<void> | null } = { anything: null, held: null }
  /** Aborted when no new runs are to be taken. */
  const enough = new AbortController()
  const over = Promise.withResolvers<void>()

  const atWork = (): HeldRun[] => [...runs.values()].filter(({ done }) => done !== null)

  function pump(): void {
    if (signal.aborted || (isFinishing && atWork().length === 0)) return over.resolve()
    const free = isFinishing ? 0 : concurrency - atWork().length
    const ready = free > 0 ? [...runs.values()].find(({ item, done }) => done === null && !isParked(item)) : undefined
    if (ready) begin(ready)
    else if (free > 0) asking.anything ??= ask('anything', { limit: Math.min(free, limits.takenMax) }, enough.signal)
    else if (asking.anything === null) asking.held ??= ask('held', { held: true }, signal)
  }

  async function ask(what: keyof typeof asking, more: object, until: AbortSignal): Promise<void> {
    const { signal: woken } = waker
    const began = clock.now()
    let isAgain = true
    try {
      const input = { worker, lease: LEASE, wait: WAIT, ...more }
      const { items } = await port.call('delegation/mailbox.take', input, { signal: until, timeoutMs: ANSWER_MS })
      isAgain = items.length === 0 && clock.now() - began < SOON_MS
      for (const item of items) await receive(item, until.aborted)
    } catch (error) {
      if (!until.aborted) trouble((error as Error).message)
    }
    if (isAgain) await clock.sleep(options.againMs, AbortSignal.any([woken, until]))
    asking[what] = null
    pump()
  }

  async function settle({ run, attempt, messages }: MailboxItem): Promise<void> {
    await port.call('delegation/mailbox.ack', { run_id: run.id, attempt, number: messages.at(-1)!.number })
  }

  async function fail({ run, attempt }: MailboxItem, message: string): Promise<void> {
    note(run.id, `failed: ${message}`)
    await port.call('delegation/run.fail', { run_id: run.id, attempt, error: message.slice(0, limits.textCharsMax) })
  }

  /** One run, through as many children as it takes. */
  async function work(held: HeldRun): Promise<void> {
    const { id } = held.item.run
    for (let count = 1; !signal.aborted; count++) {
      held.working = startConversation(held.item, plan, port, (message) => note(id, message))
      const outcome: Outcome = await held.working.ended
      held.working = null
      if (outcome.kind === 'over' && hasCancel(held.item.messages)) await settle(held.item)
      if (outcome.kind !== 'failed') return
      if (outcome.isFatal || count >= tries) return fail(held.item, outcome.message)
      note(id, `${outcome.message.split('\n')[0]}; starting it again`)
      await clock.sleep(pauseMs(count), signal)
      if (hasCancel(held.item.messages)) return settle(held.item)
    }
  }

  function begin(held: HeldRun): void {
    const { run } = held.item
    held.done = work(held)
      .catch((error: unknown) => trouble(`${run.id}: ${(error as Error).message}`))
      .finally(() => {
        if (runs.get(run.id) === held) runs.delete(run.id)
        pump()
      })
    note(run.id, 'taken')
    pump()
  }

  async function receive(item: MailboxItem, isLate: boolean): Promise<void> {
    const { id } = item.run
    const held = runs.get(id)
    // If no child works on the run, there is none to notify.
    if (hasCancel(item.messages) && (held?.done ?? null) === null) {
      runs.delete(id)
      return settle(item)
    }
    // It came while we were leaving: for the process that asks next.
    if (!held && isLate) return void (await port.call('delegation/mailbox.release', { runs: [{ run_id: id, attempt: item.attempt }] }))
    if (!held) return void runs.set(id, { item, working: null, done: null })
    // After a lease that ended the same come again.
    const last = held.item.messages.at(-1)?.number ?? 0
    const fresh = item.messages.filter(({ number }) => number > last)
    held.item = { ...item, messages: [...held.item.messages, ...fresh] }
    held.working?.pass(fresh, item.attempt)
  }

  /** A process that lost a run to another one stops working on it. */
  async function keep(): Promise<void> {
    while (!signal.aborted) {
      await clock.sleep(LEASE_MS / 3, signal)
      const held = [...runs.values()].map(({ item }) => ({ run_id: item.run.id, attempt: item.attempt }))
      for (let i = 0; i < held.length && !signal.aborted; i += limits.takenMax) {
        try {
          const { items } = await port.call('delegation/mailbox.extend', { runs: held.slice(i, i + limits.takenMax), lease: LEASE })
          for (const { run_id, lease_until } of items as { run_id: string; lease_until: string | null }[])
            if (lease_until === null) await lose(run_id)
        } catch (error) {
          trouble((error as Error).message)
        }
      }
    }
  }
  /** A run that has ended has no lease any more either; its child may be putting things away. */
  async function lose(run_id: string): Promise<void> {
    const { run } = await port.call('delegation/run.get', { run_id })
    if (run.state === 'running' || run.state === 'blocked') runs.get(run_id)?.working?.stop('lost')
    if (runs.get(run_id)?.done === null) runs.delete(run_id)
  }

  function ring(): void {
    waker.abort('woken')
    waker = new AbortController()
  }
  async function serveRuns(): Promise<void> {
    await over.promise
    stopping.abort()
    enough.abort()
    await Promise.all([asking.anything, asking.held])
  }
  pump()
  const running = Promise.all([serveRuns(), keep()])
  return {
    ring,
    ended: running.then(() => undefined),
    async finish() {
      isFinishing = true
      enough.abort()
      pump()
      await running
    },
    async stop() {
      stopping.abort()
      enough.abort()
      over.resolve()
      for (const { working } of runs.values()) working?.stop('stopped')
      await Promise.all([running, ...atWork().map(({ done }) => done)])
    },
  }
}

const hasCancel = (messages: readonly Message[]): boolean => messages.some(({ kind }) => kind === 'cancel')
/** Nothing to do until a person answers: messages that arrive before are kept for the attempt that continues then. */
const isParked = ({ run, messages }: MailboxItem): boolean =>
  run.state === 'blocked' && messages.every(({ kind }) => kind === 'steer' || kind === 'block')
