// Messages that arrive before the answer that names their session: they are stored and acknowledged, within bounds for each sender, and
// handled when the answer arrives. A sender that never answers does not hold up others.
import { put } from '#kernel/declare/facts.ts'
import type { Change, Context, Read } from '#kernel/declare/operation.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { Delivery, deliveryId } from '#kernel/log/outbox-document.ts'
import { limits } from '#kernel/limits.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { harnessIn } from '../access.ts'
import { DEAD, eventQueue, type Envelope } from '../envelope.ts'
import { Early, routeId, Session, type EarlyMessage } from '../schema.ts'
import type { DeadReason } from '../message-decoder.ts'
import { dead, DUPLICATE, TAKEN, type Incoming, type Plan } from './commands.ts'
import { AMQP, sealConfidential, sealedFieldsOf, unseal, type MaybeSealed, type Outgoing } from './session-work.ts'

/**
 * A sender has at most as many such sessions as it has submissions to answer. Everything beyond the bounds becomes a dead letter.
 */
export async function keepEarly(read: Read, { envelope, user_id, in_reply_to }: Incoming, context: Context): Promise<Plan> {
  const { session_id, message_id } = envelope
  const unknown = dead('unknown_session', `there is no session ${session_id ?? 'of this submission'}`)
  if (user_id === null || session_id === null || in_reply_to !== null) return unknown
  const page = { limit: limits.harnessEarlySessionsMax }
  const max = (await read.list(Session, 'unanswered', [[user_id]], page)).length
  if (max === 0) return unknown
  const id = routeId(user_id, session_id)
  const before = await read.raw(Early, id)
  if (before === null && (await read.count(Early, 'sender', [user_id])) >= max)
    return dead('unknown_session', `${user_id} has sent messages of ${max} unknown sessions, and has no more submissions to answer`)
  if (before?.messages.some((message) => (message.envelope as Envelope).message_id === message_id)) return DUPLICATE
  const messages = [...(before?.messages ?? []), await sealEarly(envelope, context)]
  if (messages.length > limits.harnessEarlyMax || canonical(messages).length > limits.harnessHeldBytesMax)
    return dead('unknown_session', `there is no session ${session_id}, and no room for more of its messages`)
  const until = before?.until ?? timestampOf(Date.parse(context.now) + harnessIn(context).gapMs)
  return {
    facts: [],
    puts: [put(Early, id, { id, sender: user_id, session_id, messages, until })],
    output: TAKEN,
    atMost: [{ doc: Early, index: 'sender', prefix: [user_id], max, message: 'too many unknown sessions', decidesAgain: true }],
  }
}

/** Sealed as the most confidential data is: its class is known only with the session. */
async function sealEarly(envelope: Envelope, context: Context): Promise<EarlyMessage> {
  const confided: Record<string, MaybeSealed> = {}
  for (const [name, value] of Object.entries(envelope.payload)) confided[name] = await sealConfidential(context, 'T4', value)
  const { fields, sealed: seals } = sealedFieldsOf(confided)
  return { envelope: { ...envelope, payload: fields }, sealed: seals }
}

export async function envelopeIn({ envelope, sealed: seals }: EarlyMessage, context: Pick<Context, 'notary'>): Promise<Envelope> {
  const { payload, ...rest } = envelope as Envelope
  return { ...rest, payload: await unseal(context, payload, seals) }
}

/** A stored message on its way to the dead letters. */
export function deadLetter(
  of: Early,
  { envelope, sealed: seals }: EarlyMessage,
  reason: DeadReason,
  detail: string,
  context: Context,
): Change {
  const { id: harness_id } = harnessIn(context)
  const body: Outgoing = {
    exchange: DEAD,
    key: harness_id,
    from: harness_id,
    envelope: envelope as Envelope,
    sealed: seals,
    session: null,
    headers: { reason, detail, queue: eventQueue(harness_id), user: of.sender },
  }
  const lane = `dead/${of.sender}`
  const id = deliveryId(AMQP, lane, (envelope as Envelope).message_id)
  return put(Delivery, id, { id, channel: AMQP, lane, due: context.now, attempt: 0, body, error: null })
}
