// The run loop of an agent that this process works for: each run that the mailbox loop takes gets a conversation, and a failed one begins again.
// Children of the server, commands behind `countersign agent run` and remote agents use it.
import { backoffMs } from '#kernel/codec/backoff.ts'
import { limits } from '#kernel/limits.ts'
import type { Message } from '#protocols/delegation/schema.ts'
import type { Concurrency } from '#sdk/mailbox/concurrency.ts'
import { createMailboxLoop, type Job, type MailboxLoop } from '#sdk/mailbox/mailbox-loop.ts'
import { pause } from '#sdk/transport/transport.ts'
import type { MailboxItem } from './lines.ts'
import { startAcpConversation } from '../acp/conversation.ts'
import { startConversation, type Plan, type Port, type RunHandle } from './conversation.ts'

export type Converse = (item: MailboxItem, note: (message: string) => void) => RunHandle
/** The conversation with a program. */
export const withProgram =
  (plan: Plan, port: Port): Converse =>
  (item, note) =>
    (plan.profile.input === 'acp' ? startAcpConversation : startConversation)(item, plan, port, note)

export type RunLoopOptions = {
  readonly agent_id: string
  readonly port: Port
  /** Begins the conversation about a run with its program or remote agent. */
  readonly converse: Converse
  /** Concurrent runs, and how often a failed child is restarted for one of them. */
  readonly concurrency: number
  readonly tries: number
  /** The name of this process among those of the same agent. */
  readonly worker: string
  /** The pause after a failed call, or if the server accepts no long poll. */
  readonly againMs: number
  /** Reports progress to watching people. */
  note(run_id: string, message: string): void
  trouble(message: string): void
}
/** `leaveMs`: a stopped child is killed after a moment, and its last output is read. */
const TIMES = { leaseMs: 30_000, waitMs: 50_000, leaveMs: 5_000 }
export const programBackoffMs = (tries: number): number => backoffMs(500, 60_000, tries)

export function startRunLoop(options: RunLoopOptions): MailboxLoop {
  const { agent_id, worker, port, concurrency, againMs, trouble } = options
  const loop = createMailboxLoop({
    ...TIMES,
    agent_id,
    worker,
    call: port.call,
    concurrency,
    againMs,
    acksAfterDone: true,
    begin: (item, slots) => startJob(item, slots, options),
    onTakeError(error) {
      trouble((error as Error).message)
      return 'continue'
    },
  })
  loop.start()
  return loop
}

/** One run, through as many children as it takes. */
function startJob(first: MailboxItem, slots: Concurrency, { port, converse, tries, note, trouble }: RunLoopOptions): Job {
  const { id } = first.run
  const ready = Promise.withResolvers<void>()
  const over = new AbortController()
  let item = first
  let isAtWork = false
  let conversation: RunHandle | null = null

  async function work(): Promise<void> {
    isAtWork = true
    if (!over.signal.aborted) note(id, 'taken')
    for (let count = 1; !over.signal.aborted; count++) {
      conversation = converse(item, (message) => note(id, message))
      const outcome = await conversation.ended
      conversation = null
      if (over.signal.aborted) return
      // An answer that arrived while the child was ending would otherwise wait for the end of the lease.
      if (outcome.kind === 'waits' && (await isAnswered())) {
        count = 0
        continue
      }
      if (outcome.kind !== 'failed') return
      if (outcome.isFatal || count >= tries) return fail(outcome.message)
      note(id, `${outcome.message.split('\n')[0]}; starting it again`)
      await pause(programBackoffMs(count), over.signal)
    }
  }
  const isAnswered = async (): Promise<boolean> => (await port.call('delegation/run.get', { run_id: id })).run.state === 'running'
  async function fail(message: string): Promise<void> {
    note(id, `failed: ${message}`)
    await port.call('delegation/run.fail', { run_id: id, attempt: item.attempt, error: message.slice(0, limits.textCharsMax) })
  }
  function end(why: 'lost' | 'stopped' | 'cancelled'): void {
    over.abort(why)
    ready.resolve()
    if (why !== 'cancelled') conversation?.stop(why)
  }
  async function untilDone(): Promise<void> {
    await ready.promise
    await slots.take()
    await work().catch((error: unknown) => trouble(`${id}: ${(error as Error).message}`))
    slots.give()
  }
  if (!isParked(item)) ready.resolve()
  return {
    get attempt() {
      return item.attempt
    },
    done: untilDone(),
    get isUnfinished() {
      return over.signal.reason === 'stopped'
    },
    receive(next) {
      // After a lease that ended the same messages arrive again.
      const last = item.messages.at(-1)?.number ?? 0
      const fresh = next.messages.filter(({ number }) => number > last)
      item = { ...next, messages: [...item.messages, ...fresh] }
      conversation?.pass(fresh, next.attempt)
      if (hasCancel(fresh)) end('cancelled')
      else if (!isParked(item)) ready.resolve()
      return true
    },
    /** An ended run has no lease, although its child can still be cleaning up. */
    async lost() {
      const { run } = await port.call('delegation/run.get', { run_id: id })
      if (!isAtWork || run.state === 'running' || run.state === 'blocked') end('lost')
    },
    leave() {
      if (!isAtWork) end('stopped')
    },
    stop: () => end('stopped'),
  }
}

const hasCancel = (messages: readonly Message[]): boolean => messages.some(({ kind }) => kind === 'cancel')
/** Nothing to do until a person answers: messages that arrive before are kept for the attempt that continues then. */
const isParked = ({ run, messages }: MailboxItem): boolean =>
  run.state === 'blocked' && messages.every(({ kind }) => kind === 'steer' || kind === 'block')
