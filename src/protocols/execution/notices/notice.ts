// Notices: where a person is told that something waits and an agent that it was answered, and the outcome of each attempt.
import { deliveryId, Delivery, timer } from '#kernel/log/outbox-document.ts'
import { hookSecretOf } from '#kernel/declare/webhook-address.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { put } from '#kernel/declare/facts.ts'
import { SYSTEM_SCOPE, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import type { Change, Read } from '#kernel/declare/operation.ts'
import { doc, either, index, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { Id, Priority, Timestamp, type Request } from '../schema.ts'

export const Label = t.String({ maxLength: limits.labelCharsMax, description: 'a label, to tell it from the others' })
export const HookAddress = t.String({ minLength: 1, maxLength: limits.linkCharsMax, description: 'an http or https address' })
const TimeOfDay = t.String({ pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$', description: 'a time of day such as 22:00' })
/** Between the two nothing is said but what is critical; the offset is that of the person's clock from UTC. */
export const QuietHours = t.Object({
  from: TimeOfDay,
  to: TimeOfDay,
  offset_minutes: t.Integer({ minimum: -12 * 60, maximum: 14 * 60, description: 'of your clock from UTC, such as 60' }),
})
export type QuietHours = Static<typeof QuietHours>

const isOf = (actor: Actor, id: string): boolean => actor.id === id || actor.owner === true

/** A person is told about what comes into their inbox. */
export const Channel = doc(
  'execution.channel',
  t.Object({
    id: Id,
    person: Id,
    kind: either('webhook'),
    label: Label,
    min_priority: Priority,
    quiet_hours: t.Optional(QuietHours),
    disabled: t.Boolean(), // the other side said that it is gone for good
    created_at: Timestamp,
    removed_at: nullable(Timestamp),
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: (channel, actor) => isOf(actor, channel.person),
    indexes: { person: index((channel) => (channel.removed_at === null ? [[channel.person]] : []), 1) },
  },
)
export type Channel = Static<typeof Channel.schema>

/** An agent's channel gets the receipts of its requests. Its stored name is the field by which a request names it. */
export const AgentChannel = doc(
  'execution.callback',
  t.Object({
    id: Id,
    agent_id: Id,
    kind: t.Optional(either('webhook')), // absent in old ones, which are webhooks
    label: Label,
    disabled: t.Boolean(),
    created_at: Timestamp,
    removed_at: nullable(Timestamp),
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: (channel, actor) => isOf(actor, channel.agent_id),
    indexes: { agent: index((channel) => (channel.removed_at === null ? [[channel.agent_id]] : []), 1) },
  },
)
export type AgentChannel = Static<typeof AgentChannel.schema>
export const isOfAgent = (channel_id: string): boolean => channel_id.startsWith('cb_')

/** Receipts go only where the agent itself has them posted. */
export async function refuseForeignCallback(read: Read, id: string, requester: string): Promise<void> {
  const channel = await read.raw(AgentChannel, id)
  if (channel?.agent_id !== requester || channel.removed_at !== null)
    throw new Refusal('INVALID_REQUEST', 'callback names no channel of the agent: add one with channel.add', { field: 'callback' })
}

/** Where a channel is, and what is signed with. No fact describes it, and no answer but the one that it was made for. */
export const Hook = doc(
  'execution.hook',
  t.Object({ id: Id, endpoint: HookAddress, secret: t.String(), before: nullable(t.String()), before_until: nullable(Timestamp) }),
  { scopeOf: () => SYSTEM_SCOPE, visibleTo: () => false },
)
export type Hook = Static<typeof Hook.schema>

export const newHook = (id: string, endpoint: string, random: string): Hook => ({
  id,
  endpoint,
  secret: hookSecretOf(random),
  before: null,
  before_until: null,
})

// --- What is said, and what became of it -----------------------------------------------------------------------------------

export const Event = either('created', 'assigned', 'escalated', 'reminded', 'overdue', 'released', 'receipt', 'test')
export type Event = Static<typeof Event>

const Tried = t.Object({
  at: Timestamp,
  status: nullable(t.Integer()), // null: no answer came
  duration_ms: t.Integer(),
  error: nullable(t.String({ maxLength: limits.deliveryErrorCharsMax })), // never says where it went
})

/** One notice, and its last attempts. */
export const Notice = doc(
  'execution.notice',
  t.Object({
    id: t.String({ maxLength: 120 }),
    target: Id, // the channel
    whose: Id,
    event: Event,
    request_id: nullable(Id), // null: it was a test
    state: either('waiting', 'accepted', 'given_up', 'dropped'),
    attempts: t.Integer(),
    first_at: Timestamp,
    last_at: Timestamp,
    why: t.Optional(t.String()), // it was dropped
    recent: t.Array(Tried),
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: (notice, actor) => isOf(actor, notice.whose),
    indexes: { whose: index((notice) => [[notice.whose, notice.first_at]]) },
  },
)
export type Notice = Static<typeof Notice.schema>

/** How far the record has been looked at for what is to be said. */
export const NoticeCursor = doc('execution.notice_cursor', t.Object({ id: t.String(), position: t.Integer() }), {
  scopeOf: () => SYSTEM_SCOPE,
  visibleTo: () => false,
})
export const CURSOR = 'notices'

export const NOTICE_CHANNEL = 'notice'
/** The fact that a notice is about, or what stands for one. It is said once, however often the fact is looked at. */
export type Order = string
export const orderOf = (position: number): Order => String(position).padStart(16, '0')
export const noticeId = (target: string, order: Order): string => `${target}/${order}`
export const noticeDelivery = (target: string, order: Order): string => deliveryId(NOTICE_CHANNEL, target, order)

type Said = {
  readonly target: string
  readonly whose: string
  readonly order: Order
  readonly event: Event
  readonly request_id: string | null
}

/** A notice that is to be delivered: its place in the log, its place in the outbox, and when it is forgotten. */
export function planNotice({ target, whose, order, event, request_id }: Said, now: string): [Notice, Change[]] {
  const [id, delivery] = [noticeId(target, order), noticeDelivery(target, order)]
  const body = { target, order, event, request_id }
  const notice: Notice = { id, target, whose, event, request_id, state: 'waiting', attempts: 0, first_at: now, last_at: now, recent: [] }
  const puts = [
    put(Notice, id, notice),
    put(Delivery, delivery, { id: delivery, channel: NOTICE_CHANNEL, lane: target, due: now, attempt: 0, body, error: null }),
    timer(target, `notice/${order}`, timestampOf(Date.parse(now) + limits.deliveryLogMs), 'execution/notice.forget', { id }),
  ]
  return [notice, puts]
}

// --- Whom, and when --------------------------------------------------------------------------------------------------------

const ranks = ['critical', 'high', 'normal', 'low'] as const
export const isWanted = ({ min_priority, disabled }: Channel, { priority }: Request): boolean =>
  !disabled && ranks.indexOf(priority) <= ranks.indexOf(min_priority)

const MINUTE_MS = 60_000
const DAY_MINUTES = 24 * 60
const minutesIn = (time: string): number => Number(time.slice(0, 2)) * 60 + Number(time.slice(3))

/** When the quiet hours that it is in now are over; null: it is in none. */
export function quietUntil(quiet: QuietHours | undefined, now: string): string | null {
  if (quiet === undefined) return null
  const ms = Date.parse(now)
  const clock = (((Math.floor(ms / MINUTE_MS) + quiet.offset_minutes) % DAY_MINUTES) + DAY_MINUTES) % DAY_MINUTES
  // Counted from the beginning of the quiet hours, whether or not there is a midnight between.
  const since = (clock - minutesIn(quiet.from) + DAY_MINUTES) % DAY_MINUTES
  const length = (minutesIn(quiet.to) - minutesIn(quiet.from) + DAY_MINUTES) % DAY_MINUTES
  return since < length ? timestampOf((Math.floor(ms / MINUTE_MS) + length - since) * MINUTE_MS) : null
}
