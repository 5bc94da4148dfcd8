// Messages from the broker: each is read, taken in one batch and acknowledged after it, in the order of its session. One that can never be
// taken goes to the dead letters first, with the reason.
import { messageOf } from '#kernel/codec/cut-text.ts'
import { boundedLog } from '#kernel/codec/rate-limit.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { limits } from '#kernel/limits.ts'
import { commandQueue, DEAD, isUuid, type Envelope } from '#protocols/harness/envelope.ts'
import { decodeMessage, type DeadReason } from '#protocols/harness/message-decoder.ts'
import type { Arrived, Handler, Link, Verdict } from './link.ts'

type Log = { warn(fields: object, message: string): void; error(fields: object, message: string): void }
type Outcome = {
  readonly outcome: 'taken' | 'duplicate' | 'dead' | 'dropped'
  readonly reason: DeadReason | null
  readonly detail: string | null
}

export type InboundOptions = {
  readonly id: string
  readonly kernel: Kernel
  readonly clock: Clock
  readonly link: Pick<Link, 'publish'>
  readonly log: Log
}

const PAUSE_MS = 500
/** Temporary refusals under load: the message is valid. A damaged session is not temporary and would block its place forever. */
const passing = new Set(['BUSY', 'UNAVAILABLE', 'CONFLICT'])

export function inbound({ id, kernel, clock, link, log: given }: InboundOptions): Handler & { stop(): void } {
  const lanes = new Map<string, Promise<unknown>>()
  const log = boundedLog(given, limits.harnessLinesPerMinute, clock.now)
  const stopping = new AbortController()

  async function bury(arrived: Arrived, reason: DeadReason, detail: string): Promise<Verdict> {
    const { body, properties, user_id, queue } = arrived
    try {
      const headers = { reason, detail: detail.slice(0, 500), queue, user: user_id ?? '' }
      await link.publish({ exchange: DEAD, key: id, properties, headers, body })
      log.warn(`${user_id} ${reason}`, { reason, detail, queue, user: user_id }, 'a message was put aside')
      return 'ack'
    } catch (error) {
      log.error('aside', { reason, error: String(error) }, 'a message could not be put aside; it stays in its queue')
      await clock.sleep(PAUSE_MS, stopping.signal)
      return 'requeue'
    }
  }

  async function take(arrived: Arrived, envelope: Envelope): Promise<Verdict> {
    const { message_id } = envelope
    try {
      const replied = arrived.headers['in_reply_to']
      const input = { user_id: arrived.user_id, envelope, in_reply_to: isUuid(replied) ? replied : null }
      const { outcome, reason, detail } = (await kernel.call('harness/message.receive', input, SYSTEM)) as Outcome
      if (outcome === 'dropped') log.warn(`${arrived.user_id} dropped`, { user: arrived.user_id, detail }, 'a message was dropped')
      return outcome === 'dead' ? await bury(arrived, reason!, detail ?? '') : 'ack'
    } catch (error) {
      if (stopping.signal.aborted) return 'requeue'
      if (error instanceof Refusal && passing.has(error.code)) {
        await clock.sleep(PAUSE_MS, stopping.signal)
        return 'requeue'
      }
      return recordFailure(arrived, message_id, error)
    }
  }

  /** Counted in the store: a message that ends the process becomes a dead letter too, and a classic queue counts nothing. */
  async function recordFailure(arrived: Arrived, message_id: string, error: unknown): Promise<Verdict> {
    const message = messageOf(error)
    log.error(`${arrived.user_id} failed`, { message_id, error: message }, 'a message could not be taken')
    try {
      const { tries } = (await kernel.call('harness/message.tried', { message_id }, SYSTEM)) as { tries: number }
      if (tries >= limits.harnessTriesMax) return await bury(arrived, 'failed', `it could not be taken in ${tries} tries`)
    } catch (again) {
      log.error('counted', { message_id, error: String(again) }, 'a failed message could not be counted')
    }
    await clock.sleep(PAUSE_MS, stopping.signal)
    return 'requeue'
  }

  async function handle(arrived: Arrived): Promise<Verdict> {
    const channel = arrived.queue === commandQueue(id) ? 'commands' : 'events'
    const result = decodeMessage(channel, arrived.body, arrived.properties)
    if ('dead' in result) {
      const { reason, detail, message_id, type } = result.dead
      if (type === 'task_submit' && message_id !== null && arrived.user_id !== null)
        await kernel
          .call('harness/message.refuse', { user_id: arrived.user_id, message_id, detail }, SYSTEM)
          .catch((error: unknown) =>
            log.warn('refused', { error: String(error) }, 'the sender of a message that was put aside could not be told'),
          )
      return bury(arrived, reason, detail)
    }
    const { envelope } = result
    const replied = envelope.payload['in_reply_to'] ?? arrived.headers['in_reply_to']
    const lane = envelope.session_id ?? (typeof replied === 'string' ? replied : envelope.message_id)
    const before = lanes.get(lane) ?? Promise.resolve()
    const work = before.then(() => take(arrived, envelope))
    lanes.set(lane, work)
    try {
      return await work
    } finally {
      if (lanes.get(lane) === work) lanes.delete(lane)
    }
  }

  return Object.assign(handle, { stop: () => stopping.abort() })
}
