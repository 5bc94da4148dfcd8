// Notices: they tell people that something waits, and agents that it was answered. The log has the outcome of each attempt.
import { deliveryId, Delivery } from '#kernel/log/outbox-document.ts'
import { QuietHours } from './quiet-hours.ts'
import { hookSecretOf } from '#kernel/declare/webhook-address.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { Attempt, forgetAt } from '#kernel/ports/delivery-log.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { put } from '#kernel/declare/facts.ts'
import { SYSTEM_SCOPE, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import type { Change, Read } from '#kernel/declare/operation.ts'
import { doc, either, index, nullable, pick, t, type Static } from '#kernel/declare/schema.ts'
import { Id, Priority, Timestamp, type Request } from '../schema.ts'

export const Label = t.String({ maxLength: limits.labelCharsMax, description: 'a label, to tell it from the others' })
export const HookAddress = t.String({ minLength: 1, maxLength: limits.linkCharsMax, description: 'an http or https address' })
const isOf = (actor: Actor, id: string): boolean => actor.id === id || actor.owner === true

export const ChannelKind = either('webhook', 'push', 'email')

/** A channel through which a person is notified of new items in their inbox. */
export const Channel = doc(
  'execution.channel',
  t.Object({
    id: Id,
    person: Id,
    kind: ChannelKind,
    label: Label,
    confirmed: t.Optional(t.Boolean()), // of an e-mail address: its owner has followed the link
    signs_in: t.Optional(t.Boolean()), // links to sign in can go there: it was added with all the rights of the person
    min_priority: Priority,
    quiet_hours: t.Optional(QuietHours),
    disabled: t.Boolean(), // the receiver answered that it is gone for good
    created_at: Timestamp,
    removed_at: nullable(Timestamp),
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: (channel, actor) => isOf(actor, channel.person),
    indexes: {
      person: index((channel) => (channel.removed_at === null ? [[channel.person]] : []), 1),
      // Counts confirmation mails: each new e-mail channel causes one to an unconfirmed address.
      mailed: index((channel) => (channel.kind === 'email' ? [[channel.person, channel.created_at.slice(0, 13)]] : []), 2),
    },
  },
)
export type Channel = Static<typeof Channel.schema>

const AgentChannelSchema = t.Object({
  id: Id,
  agent_id: Id,
  owner: t.Optional(Id), // the owner of the agent when it was added; absent in old documents
  kind: t.Optional(either('webhook')), // absent in old documents, which are webhooks
  label: Label,
  disabled: t.Boolean(),
  created_at: Timestamp,
  removed_at: nullable(Timestamp),
})
export const agentChannelView = pick(AgentChannelSchema, ['id', 'agent_id', 'kind', 'label', 'disabled', 'created_at', 'removed_at'])

/** An agent's channel gets the receipts of its requests. Its stored name is the field by which a request names it. */
export const AgentChannel = doc('execution.callback', AgentChannelSchema, {
  scopeOf: () => SYSTEM_SCOPE,
  visibleTo: (channel, actor) => isOf(actor, channel.agent_id),
  forAgents: agentChannelView.of,
  indexes: {
    agent: index((channel) => (channel.removed_at === null ? [[channel.agent_id]] : []), 1),
    owner: index((channel) => (channel.removed_at === null && channel.owner !== undefined ? [[channel.owner]] : []), 1),
  },
})
export type AgentChannel = Static<typeof AgentChannel.schema>
export const isOfAgent = (channel_id: string): boolean => channel_id.startsWith('cb_')

/** Refuses a callback that does not belong to the agent itself. */
export async function refuseForeignCallback(read: Read, id: string, requester: string): Promise<void> {
  const channel = await read.raw(AgentChannel, id)
  if (channel?.agent_id !== requester || channel.removed_at !== null)
    throw new Refusal('INVALID_REQUEST', 'callback names no channel of the agent: add one with channel.add', { field: 'callback' })
}

const bytes = (count: number, description: string) => t.String({ pattern: `^[A-Za-z0-9_-]{${Math.ceil((count * 4) / 3)}}=*$`, description })
/** As a browser gives them with a subscription (RFC 8291). */
export const PushInput = t.Object({
  p256dh: bytes(65, 'the public key of the subscription, 65 bytes in base64url'),
  auth: bytes(16, 'the secret of the subscription, 16 bytes in base64url'),
})
/** `key`: the key of this server that the subscription was made with; only posts that it signs are taken. */
const PushKeys = t.Object({ ...PushInput.properties, key: t.String() })

/** The address and the secret of a channel. No fact describes it, and only the answer that created it shows it. */
export const Hook = doc(
  'execution.hook',
  t.Object({
    id: Id,
    endpoint: HookAddress, // or an e-mail address
    secret: t.String(),
    before: nullable(t.String()),
    before_until: nullable(Timestamp),
    push: t.Optional(PushKeys),
  }),
  { scopeOf: () => SYSTEM_SCOPE, visibleTo: () => false },
)
export type Hook = Static<typeof Hook.schema>

export const newHook = (id: string, endpoint: string, random: string, push?: Hook['push']): Hook => ({
  id,
  endpoint,
  secret: hookSecretOf(random),
  before: null,
  before_until: null,
  ...(push === undefined ? {} : { push }),
})

/** The token in the links of a mail: its holder can do that one thing with the channel. */
export const linkToken = ({ id, secret }: Pick<Hook, 'id' | 'secret'>, purpose: 'confirm' | 'stop'): string =>
  `${id}.${sha256(`${secret} ${purpose}`)}`

// --- What is said, and what became of it -----------------------------------------------------------------------------------

/** About the account of the person. They are told in quiet hours too: a thief has no quiet hours. */
export const accountEvents = ['passkey_added', 'passkey_removed', 'passkey_reset'] as const
export const Event = either(
  'created',
  'assigned',
  'escalated',
  'reminded',
  'overdue',
  'released',
  'receipt',
  'test',
  'confirm',
  'sign_in',
  ...accountEvents,
)
export type Event = Static<typeof Event>
export const isOfAccount = (event: Event): boolean => (accountEvents as readonly Event[]).includes(event)

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
    held: t.Optional(either('cap')), // it waits because there were many in the hour
    along: t.Optional(t.String()), // the notice that it was sent together with
    recent: t.Array(Attempt),
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: (notice, actor) => isOf(actor, notice.whose),
    indexes: {
      whose: index((notice) => [[notice.whose, notice.first_at]]),
      waiting: index((notice) => (notice.state === 'waiting' ? [[notice.target, notice.first_at]] : [])),
      // Each message once, however many notices it has.
      sent: index((notice) => (notice.state === 'accepted' && notice.along === undefined ? [[notice.whose, notice.last_at]] : [])),
    },
    due: (notice) => [forgetAt('execution/notice.forget', notice)],
  },
)
export type Notice = Static<typeof Notice.schema>

/** The position up to which the record has been read for notices. */
export const NoticeCursor = doc('execution.notice_cursor', t.Object({ id: t.String(), position: t.Integer() }), {
  scopeOf: () => SYSTEM_SCOPE,
  visibleTo: () => false,
})
export const CURSOR = 'notices'

export const NOTICE_CHANNEL = 'notice'
/** The place of the fact that a notice is about. A notice is sent once, however often the fact is read. */
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

/** A planned notice: its entry in the log, which expires, and its entry in the outbox. */
export function planNotice({ target, whose, order, event, request_id }: Said, now: string, due = now): [Notice, Change[]] {
  const [id, delivery] = [noticeId(target, order), noticeDelivery(target, order)]
  const body = { target, order, event, request_id }
  const notice: Notice = { id, target, whose, event, request_id, state: 'waiting', attempts: 0, first_at: now, last_at: now, recent: [] }
  const puts = [
    put(Notice, id, notice),
    put(Delivery, delivery, { id: delivery, channel: NOTICE_CHANNEL, lane: target, due, attempt: 0, body, error: null }),
  ]
  return [notice, puts]
}

// --- Whom, and when --------------------------------------------------------------------------------------------------------

const ranks = ['critical', 'high', 'normal', 'low'] as const
/** An unconfirmed address gets a single mail, the one that asks to confirm it. */
export const isReady = ({ kind, confirmed, disabled }: Channel): boolean => !disabled && (kind !== 'email' || confirmed === true)
export const isWanted = (channel: Channel, { priority }: Request): boolean =>
  isReady(channel) && ranks.indexOf(priority) <= ranks.indexOf(channel.min_priority)
