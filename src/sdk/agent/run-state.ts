// The state of one run in this process: its attempt, its messages, whether it is paused, and whether it is over.
import type { Client, Output } from '../client.ts'
import { CountersignError } from '../errors.ts'
import { pause } from '../transport/transport.ts'
import { isRefusal, persistently } from '../transport/retry.ts'
import { Ended, type EndReason, type Resolution } from './errors.ts'
import type { Concurrency } from './concurrency.ts'

export type MailboxItem = Output<'delegation/mailbox.take'>['items'][number]
export type RunDocument = MailboxItem['run']
/** Something that a person or the delegating agent said while the run goes on. */
export type Steer = {
  readonly text: string
  readonly intent?: string
  readonly amendment_id?: string
  /** A task below that has ended, and how. */
  readonly ended?: { readonly task_id: string; readonly outcome: string }
  readonly at: string
}

export type RunState = {
  readonly client: Client
  readonly item: MailboxItem
  readonly id: string
  /** The present one; it counts on where no other process had the run in between. */
  readonly attempt: number
  /** No handler can have worked on the run before this one. */
  readonly isFirst: boolean
  /** This process was the first to say that it began. */
  begun(): void
  /** Its reason is an `Ended`. */
  readonly signal: AbortSignal
  readonly isPaused: boolean
  readonly steers: readonly Steer[]
  /** Answers that have come, by their checkpoint. */
  readonly resumes: ReadonlyMap<string, Resolution>
  /** The checkpoint that the handler waits for; nothing has to be redelivered meanwhile, so the run need not be held. */
  waitsFor: string | null
  /** The task is with its reviewers, and the run has ended with it. */
  isDelivered: boolean
  /** False: the messages are for a new attempt, and this one is stale. An answer that comes late says nothing. */
  receive(item: MailboxItem): boolean
  end(reason: EndReason, message?: string | null): void
  /** The server says that the present attempt does not hold the run: because it has ended, or because another process took it. */
  lost(): Promise<void>
  /** Throws where the run was taken again since: the answer that it came with was late. */
  confirm(): Promise<void>
  /** Resolves with the next message, and when the run is over. */
  news(): Promise<void>
  /** Resolves when the run is not paused; throws when it is over. */
  untilFree(): Promise<void>
  /** One call in the name of the run: it waits out a pause and a server that is away, and ends with the run. */
  effect<T>(call: () => Promise<T>): Promise<T>
  /** Without a place among those who work. */
  aside<T>(wait: () => Promise<T>): Promise<T>
}

/** The server may say something in between of which this process has not heard yet. */
const LOOK_MS = 2_000
const CONFLICTS_MAX = 10

export function createRunState(client: Client, item: MailboxItem, slots: Concurrency): RunState {
  const id = item.run.id
  const over = new AbortController()
  // All that was said to those who worked on the task before comes along with the run.
  const said = ((item.request.context as Record<string, unknown> | null)?.['amendments'] ?? []) as {
    id: string
    text: string
    intent: string
    at: string
  }[]
  const ended = ((item.request.context as Record<string, unknown> | null)?.['ended_parts'] ?? []) as NonNullable<Steer['ended']>[]
  const steers: Steer[] = [
    ...said.map(({ id: amendment_id, text, intent, at }) => ({ text, intent, amendment_id, at })),
    ...ended.map((part) => ({
      text: `The task ${part.task_id} below yours has ended: ${part.outcome}.`,
      intent: 'child_ended',
      ended: part,
      at: item.run.created_at,
    })),
  ]
  const resumes = new Map<string, Resolution>()
  let attempt = item.attempt
  let heard = 0
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
    // An answer that was lost on the way is given again, as it was: what came after it may be here already.
    if (given < attempt) return true
    // Between our attempt and the next no other process can have had it: the handler goes on where it is.
    if (given > attempt + 1) return false
    attempt = given
    for (const { number, kind, at, body } of messages) {
      if (number <= heard) continue
      heard = number
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

  /** The run as the server has it. */
  const look = async (): Promise<RunDocument> =>
    (await persistently(over.signal, () => client.delegation.run.get({ run_id: id }, { signal: over.signal }))).run

  async function isHeld(): Promise<boolean> {
    const runs = [{ run_id: id, attempt }]
    const { items } = await persistently(over.signal, () => client.delegation.mailbox.extend({ runs }, { idempotencyKey: null }))
    return items[0]?.lease_until !== null
  }

  /** A refusal that only says that the run is paused, or was taken away: the first is waited out, the second ends the handler. */
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
    // It may be this process that took it again, and the answer is still on its way.
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
