// Snoozing: a person hides an item until later. Other people still see it, and a pressing item does not stay hidden.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { role, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { futureTimestamp } from '#kernel/codec/timestamps.ts'
import { fact } from '../events.ts'
import { isStillOpen, isUnresolved, requestOf, type OfRequest } from '../access.ts'
import { MONDAY } from '../examples.ts'
import { Id, isPressing, Request, Timestamp } from '../schema.ts'
import { RequestView, viewOf } from '../view.ts'

type Snoozed = NonNullable<Request['snoozed']>
const sleepers = ({ snoozed = [] }: Request): Snoozed => snoozed
function snoozedBy(request: Request, snoozed: Snoozed): Request {
  const { snoozed: _, ...awake } = request
  return snoozed.length === 0 ? awake : { ...awake, snoozed }
}

/** Only people whom the request names: a substitute must not hide items of the absent person, and a pool's item is unassigned. */
const addressee = role<OfRequest>(
  'a person whose own inbox has it',
  (actor, { request }) => actor.kind === 'human' && request.people.includes(actor.id),
)

/** The parsed time. Refuses a time that is not allowed. */
function untilIn(text: string, { priority, expires_at }: Request, now: string): string {
  const until = futureTimestamp(text, now, 'INVALID_REQUEST', 'until')
  const ms = Date.parse(until) - Date.parse(now)
  const wrong = (message: string): never => {
    throw new Refusal('INVALID_REQUEST', `until must be ${message}`, { field: 'until' })
  }
  if (ms > limits.snoozeMsMax) wrong('within a year')
  if (priority === 'critical' && ms > limits.snoozeCriticalMsMax) wrong('within an hour for critical items')
  // Snoozing past the deadline would decide silently.
  if (expires_at !== null && until >= expires_at) wrong(`before its deadline, ${expires_at}`)
  return until
}

const snooze = command({
  name: 'request.snooze',
  summary: 'Hide an item from your inbox until a time. Others see it as before; a late or escalated item comes back by itself.',
  draft: 'ours: the inbox',
  input: t.Object({ request_id: Id, until: Timestamp }),
  output: t.Object({ request: RequestView }),
  callers: [addressee],
  requires: [
    isUnresolved,
    rule<OfRequest>(
      'PRECONDITION_FAILED',
      'the request is neither late nor escalated',
      ({ request }) => !isPressing(request),
      'the request is late or escalated, so it cannot be snoozed',
    ),
  ],
  audit: 'request.snoozed',
  load: async (read, { request_id }) => requestOf(read, request_id),
  decide({ request }, input, { actor, now }) {
    const until = untilIn(input.until, request, now)
    const next = snoozedBy(request, [...sleepers(request).filter(({ by }) => by !== actor.id), { by: actor.id, until }])
    return {
      facts: [fact('request.snoozed', [image(Request, next)], { detail: { until } })],
      output: { request: viewOf(next, actor) },
    }
  },
  example: { given: 'patient', as: 'alice', input: ({ request }) => ({ request_id: request.id, until: MONDAY }) },
})

const unsnooze = command({
  name: 'request.unsnooze',
  summary: 'End the snooze of an item now.',
  draft: 'ours: the inbox',
  input: t.Object({ request_id: Id }),
  output: t.Object({ request: RequestView }),
  callers: [addressee],
  requires: [
    isUnresolved,
    rule<OfRequest>(
      'PRECONDITION_FAILED',
      'you have snoozed it',
      ({ request }, _, { actor }) => sleepers(request).some(({ by }) => by === actor.id),
      'you have not snoozed it',
    ),
  ],
  audit: 'request.unsnoozed',
  load: async (read, { request_id }) => requestOf(read, request_id),
  decide({ request }, _, { actor }) {
    const next = snoozedBy(
      request,
      sleepers(request).filter(({ by }) => by !== actor.id),
    )
    return {
      facts: [fact('request.unsnoozed', [image(Request, next)])],
      output: { request: viewOf(next, actor) },
    }
  },
  example: { given: 'snoozed', as: 'alice', input: ({ request }) => ({ request_id: request.id }) },
})

const wake = command({
  name: 'request.wake',
  summary: 'Put a snoozed item back into the inbox of those whose time has come. The system calls it.',
  draft: 'ours: the inbox',
  input: t.Object({ request_id: Id }),
  output: t.Object({ request: RequestView }),
  callers: [system],
  requires: [
    isStillOpen,
    rule<OfRequest>(
      'PRECONDITION_FAILED',
      'a snooze of the request has ended',
      ({ request }, _, { now }) => sleepers(request).some(({ until }) => until <= now),
      'no snooze of the request has ended yet',
    ),
  ],
  audit: 'request.woken',
  load: async (read, { request_id }) => requestOf(read, request_id),
  decide({ request }, _, { actor, now }) {
    const next = snoozedBy(
      request,
      sleepers(request).filter(({ until }) => until > now),
    )
    return {
      facts: [fact('request.woken', [image(Request, next)])],
      output: { request: viewOf(next, actor) },
    }
  },
  example: { given: 'slept', as: 'system', input: ({ request }) => ({ request_id: request.id }) },
})

export const snoozeOperations = [snooze, unsnooze, wake]
