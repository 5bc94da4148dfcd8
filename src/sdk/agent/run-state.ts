// The state of one run in this process: its attempt, its messages, and whether it is paused or has ended.
import type { Client } from '../client.ts'
import { CountersignError } from '../errors.ts'
import { pause } from '../transport/transport.ts'
import { isRefusal, persistently } from '../transport/retry.ts'
import { Ended, type EndReason, type Resolution } from './errors.ts'
import type { Concurrency } from '../mailbox/concurrency.ts'
import type { MailboxItem } from '../mailbox/mailbox-loop.ts'

export type RunDocument = MailboxItem['run']
/** A message from a person or the delegating agent during the run. */
export type Steer = {
  readonly text: string
  readonly intent?: string
  readonly amendment_id?: string
  /** A child task that has ended, with its outcome. */
  readonly ended?: { readonly task_id: string; readonly outcome: string }
  readonly at: string
}

export type RunState = {
  readonly client: Client
  readonly item: MailboxItem
  readonly id: string
  /** The current attempt; it increases when this process takes the run again before any other process did. */
  readonly attempt: number
  /** Whether this is the first handler to work on the run. */
  readonly isFirst: boolean
  /** Called when this process was the first to report the start of the run. */
  begun(): void
  /** Its reason is an `Ended`. */
  readonly signal: AbortSignal
  readonly isPaused: boolean
  readonly steers: readonly Steer[]
  readonly resumes: ReadonlyMap<string, Resolution>
  /** The checkpoint that the handler waits for. The run needs no lease during the wait, because nothing has to be redelivered. */
  waitsFor: string | null
  /** The task is with its reviewers, and the run has ended with it. */
  isDelivered: boolean
  /** Returns false if the messages are for a newer attempt and this one is stale. Late responses are ignored. */
  receive(item: MailboxItem): boolean
  end(reason: EndReason, message?: string | null): void
  /** The server reports that this attempt does not hold the run: the run has ended, or another process took it. */
  lost(): Promise<void>
  /** Throws if the run has been taken again since, so that the response which delivered it was late. */
  confirm(): Promise<void>
  /** Resolves with the next message, and when the run is over. */
  news(): Promise<void>
  /** Resolves when the run is not paused; throws when it has ended. */
  untilFree(): Promise<void>
  /** One call on behalf of the run: it waits while the run is paused or the server is unreachable, and aborts when the run ends. */
  effect<T>(call: () => Promise<T>): Promise<T>
  /** Waits without occupying a handler slot. */
  aside<T>(wait: () => Promise<T>): Promise<T>
}

/** Poll interval: the server might know something that this process has not received yet. */
const LOOK_MS = 2_000
const CONFLICTS_MAX = 10

export function createRunState(client: Client, item: MailboxItem, slots: Concurrency): RunState {
  const id = item.run.id
  const over = new AbortController()
  // The run includes all amendments that earlier executors of the task received.
  const amendments = ((item.request.context as Record<string, unknown> | null)?.['amendments'] ?? []) as {
    id: string
    text: string
    intent: string
    at: string
  }[]
  const ended = ((item.request.context as Record<string, unknown> | null)?.['ended_parts'] ?? []) as NonNullable<Steer['ended']>[]
  const steers: Steer[] = [
    ...amendments.map(({ id: amendment_id, text, intent, at }) => ({ text, intent, amendment_id, at })),
    ...ended.map((part) => ({
      text: `The task ${part.task_id} below yours has ended: ${part.outcome}.`,
      intent: 'child_ended',
      ended: part,
      at: item.run.created_at,
    })),
  ]
  const resumes = new Map<string, Resolution>()
  let attempt = item.attempt
  let handled = 0
  // A process that begins with a run that waits for an answer begins with it.
  let isPaused = item.run.state === 'blocked'
  const listeners: (() => void)[] = []
  let asides = 0
  let isFresh = false

  function tell(): void {
    for (const listener of listeners.splice(0)) listener()
  }

  function end(reason: EndReason, message?: string | null): void {
    if (over.signal.aborted) return
    over.abort(new Ended(reason, message))
    tell()
  }

  function receive({ attempt: given, messages }: MailboxItem): boolean {
    // The server repeats a lost response unchanged, so later messages might already be here.
    if (given < attempt) return true
    // If the attempt is ours plus one, no other process can have held the run, and the handler continues.
    if (given > attempt + 1) return false
    attempt = given
    for (const { number, kind, at, body } of messages) {
      if (number <= handled) continue
      handled = number
      if (kind === 'steer') steers.push({ ...(body as Omit<Steer, 'at'>), at })
      if (kind === 'block') isPaused = true
      if (kind === 'resume') {
        const { checkpoint_id, resolution } = body as { checkpoint_id: string; resolution: Resolution }
        isPaused = false
        resumes.set(checkpoint_id, resolution)
      }
      if (kind === 'cancel') {
        const { reason, why } = body as { reason?: string; why?: string | null }
        end(reason === 'handed_off' ? 'handed_off' : 'cancelled', why)
      }
    }
    tell()
    return true
  }

  const news = (): Promise<void> => (over.signal.aborted ? Promise.resolve() : new Promise((done) => listeners.push(done)))

  async function untilFree(): Promise<void> {
    while (isPaused && !over.signal.aborted) await news()
    over.signal.throwIfAborted()
  }

  const look = async (): Promise<RunDocument> =>
    (await persistently(over.signal, () => client.delegation.run.get({ run_id: id }, { signal: over.signal }))).run

  async function isHeld(): Promise<boolean> {
    const runs = [{ run_id: id, attempt }]
    const { items } = await persistently(over.signal, () => client.delegation.mailbox.extend({ runs }, { idempotencyKey: null }))
    return items[0]?.lease_until !== null
  }

  /** Whether a refusal only means that the run is paused or that another process took it. A pause is waited out; a lost run ends the handler. */
  async function isPassing(error: unknown): Promise<boolean> {
    if (isRefusal(error, 'CONFLICT') && error.details['reason'] === undefined) {
      if (!(await isHeld())) await onRunLost()
      return !over.signal.aborted
    }
    if (!isRefusal(error, 'INVALID_TRANSITION', 'PRECONDITION_FAILED')) return false
    let run = await look()
    const wasBlocked = run.state === 'blocked'
    while (run.state === 'blocked') {
      await Promise.race([news(), pause(LOOK_MS, over.signal)])
      run = await look()
    }
    if (run.state !== 'running') endAs(run)
    return wasBlocked && run.state === 'running'
  }

  function endAs({ state, reason, error }: RunDocument): void {
    if (state === 'completed') end('done')
    else end(reason === 'handed_off' ? 'handed_off' : 'cancelled', error)
  }

  async function onRunLost(): Promise<void> {
    // This process might have taken the run again, with the response still in flight.
    const before = attempt
    await Promise.race([news(), pause(LOOK_MS, over.signal)])
    if (attempt !== before || over.signal.aborted) return
    const run = await look()
    if (run.state === 'completed') job.isDelivered = true
    else if (run.state === 'failed') endAs(run)
    else end('stale')
  }

  async function confirm(): Promise<void> {
    if (!(await isHeld())) end('stale')
    over.signal.throwIfAborted()
  }

  async function effect<T>(call: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      await untilFree()
      try {
        return await persistently(over.signal, call)
      } catch (error) {
        over.signal.throwIfAborted()
        if (!(error instanceof CountersignError) || tries > CONFLICTS_MAX || !(await isPassing(error))) {
          over.signal.throwIfAborted()
          throw error
        }
      }
    }
  }

  async function aside<T>(wait: () => Promise<T>): Promise<T> {
    if (asides++ === 0) slots.give()
    try {
      return await wait()
    } finally {
      if (--asides === 0) await slots.take()
    }
  }

  const job: RunState = {
    client,
    item,
    id,
    get attempt() {
      return attempt
    },
    get isFirst() {
      return isFresh && attempt === 1
    },
    begun: () => void (isFresh = true),
    signal: over.signal,
    get isPaused() {
      return isPaused
    },
    steers,
    resumes,
    waitsFor: null,
    isDelivered: false,
    receive,
    end,
    lost: onRunLost,
    confirm,
    news,
    untilFree,
    effect,
    aside,
  }
  receive(item)
  return job
}
