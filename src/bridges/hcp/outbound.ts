// Messages to other harnesses: a channel of the outbox, in order within each session. A message leaves the outbox only when the broker has
// confirmed it. An unroutable message is reported to the operation that ends its session.
import { backoffMs } from '#kernel/codec/backoff.ts'
import { boundedLog } from '#kernel/codec/rate-limit.ts'
import type { Delivery } from '#kernel/log/outbox-document.ts'
import type { Caller, Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import type { Notary } from '#kernel/ports/notary.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { COMMANDS, DEAD, textOf, type Envelope } from '#protocols/harness/envelope.ts'
import { propertiesOf, Unroutable, type Parcel } from '#protocols/harness/message-decoder.ts'
import { AMQP, type Outgoing } from '#protocols/harness/session/session-work.ts'
import { ALONE, type Duty } from '#workers/leases.ts'
import { runOutbox, type Channel } from '#workers/outbox.ts'
import type { Worker, WorkerLog } from '#workers/worker.ts'

export type OutboundOptions = {
  readonly id: string
  /** Resolves when the broker has it; throws Unroutable if no queue takes it. */
  publish(parcel: Parcel): Promise<void>
  readonly notary: Pick<Notary, 'open'>
}

const BACKOFF_MS_MAX = 5_000
/** Messages of a session in flight. One connection keeps their order, so there can be more than one. */
const WINDOW = 64
const LANES_MAX = 256

/** Opens the sealed fields of a message for the wire. */
async function envelopeIn({ envelope, sealed }: Outgoing, notary: Pick<Notary, 'open'>): Promise<Envelope> {
  const fields = await Promise.all(
    Object.entries(sealed).map(async ([name, text]) => [name, JSON.parse(await notary.open(text)) as unknown] as const),
  )
  return fields.length === 0 ? envelope : { ...envelope, payload: { ...envelope.payload, ...Object.fromEntries(fields) } }
}

export function outboundChannel(kernel: Kernel, { id, publish, notary }: OutboundOptions, log: WorkerLog): Channel {
  /** By lane: resolves when the previous message was handed to the broker. Opening a sealed message takes time, and no later one may overtake it. */
  const turns = new Map<string, Promise<void>>()
  const lines = boundedLog(log, limits.harnessLinesPerMinute, kernel.now)

  /** Gives up an answer to a harness without rights here: never retried if unroutable, and kept only briefly after other errors. */
  function isGivenUp({ stranger, key, envelope }: Outgoing, error: unknown): boolean {
    const isOld = kernel.now() - Date.parse(envelope.timestamp) >= limits.harnessStrangerMs
    if (stranger !== true || !(error instanceof Unroutable || isOld)) return false
    const [receiver = key] = key.split('.')
    lines.warn(receiver, { receiver, error: String(error) }, 'an answer to a harness without rights here was dropped')
    return true
  }

  async function unroutable(outgoing: Outgoing, parcel: Parcel, as: Caller): Promise<void> {
    const { envelope, session, exchange } = outgoing
    if (exchange === COMMANDS && envelope.type === 'task_submit') {
      await kernel.call('harness/message.returned', { session_id: session, message_id: envelope.message_id }, as)
      return
    }
    if (kernel.now() - Date.parse(envelope.timestamp) < limits.harnessUnsentMs)
      throw new Error(`no queue takes messages for ${outgoing.key}`)
    log.warn({ key: outgoing.key }, 'no queue took a message for a week: it becomes a dead letter')
    await publish({ ...parcel, exchange: DEAD, key: id, headers: { reason: 'unroutable', detail: outgoing.key, queue: '', user: id } })
  }
  return {
    name: AMQP,
    ordered: true,
    window: WINDOW,
    lanesMax: LANES_MAX,
    backoffMs: (attempt) => backoffMs(500, BACKOFF_MS_MAX, attempt),
    async send({ body, lane }: Delivery, as) {
      const outgoing = body as Outgoing
      const before = turns.get(lane)
      const { promise: gone, resolve: go } = Promise.withResolvers<void>()
      turns.set(lane, gone)
      try {
        const envelope = await envelopeIn(outgoing, notary)
        await before
        await publishMessage(outgoing, envelope, as, go)
      } finally {
        go()
        if (turns.get(lane) === gone) turns.delete(lane)
      }
    },
  }

  async function publishMessage(outgoing: Outgoing, envelope: Envelope, as: Caller, go: () => void): Promise<void> {
    const replied = envelope.payload['in_reply_to']
    const parcel: Parcel = {
      exchange: outgoing.exchange,
      key: outgoing.key,
      properties: propertiesOf(envelope),
      ...(outgoing.headers ? { headers: outgoing.headers } : typeof replied === 'string' ? { headers: { in_reply_to: replied } } : {}),
      body: Buffer.from(textOf(envelope)),
    }
    try {
      const publishing = publish(parcel)
      go()
      await publishing
    } catch (error) {
      if (isGivenUp(outgoing, error)) return
      if (!(error instanceof Unroutable)) throw error
      await unroutable(outgoing, parcel, as)
    }
  }
}

export function runOutbound(kernel: Kernel, options: OutboundOptions, clock: Clock, log: WorkerLog, duty: Duty = ALONE): Worker {
  return runOutbox(kernel, outboundChannel(kernel, options, log), clock, log, duty)
}
