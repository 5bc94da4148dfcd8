// Notices: their plan, their content and their log. The worker that posts notices calls these; people and agents read the log.
import { timestampOf } from '#kernel/ports/clock.ts'
import { attemptFields, attemptsWith, forgetEntry } from '#kernel/ports/delivery-log.ts'
import { Delivery } from '#kernel/log/outbox-document.ts'
import { image, put } from '#kernel/declare/facts.ts'
import { actsIn, administrator, forAgentsToo, installationOwner, role, type Subject, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, type Change, type Context, type Read } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf } from '#kernel/declare/paging.ts'
import { END, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import {
  AgentChannel,
  Channel,
  ChannelKind,
  CURSOR,
  Hook,
  Event,
  isOfAccount,
  isWanted,
  Notice,
  NoticeCursor,
  planNotice,
  noticeDelivery,
  noticeId,
  orderOf,
  isReady,
} from '../notices/notice.ts'
import { actions } from '../actions/index.ts'
import { quietUntil } from '../notices/quiet-hours.ts'
import { knowingBy, nameFor, titleOf } from '../inbox/item.ts'
import { shownDigest } from '../answering/shown-request.ts'
import { cutTo } from '#kernel/codec/cut-text.ts'
import { signReceipt } from '../answering/receipt.ts'
import { Id, inboxesOf, isOpen, poolOf, Request, Timestamp, urgencyOf } from '../schema.ts'
import { shownText } from '../asking/hostile-text.ts'

const Order = t.String({ maxLength: 40, description: 'which of its notices' })

// --- What is to be said ----------------------------------------------------------------------------------------------------

const Planned = t.Object({
  position: t.Integer(),
  event: Event,
  request_id: nullable(Id),
  person: t.Optional(Id),
  callback: t.Optional(Id),
})
type Planned = Static<typeof Planned>
/** `due`: null means immediately. */
type Told = { readonly target: string; readonly whose: string; readonly planned: Planned; readonly due: string | null }

/** The request is in their inbox: it names them or a person they substitute for, or it is in the pool of one of their projects. */
async function isBefore(read: Read, request: Request, person: string, now: string): Promise<boolean> {
  const inboxes = inboxesOf(request)
  if (inboxes.includes(person)) return true
  const subject = await read.subject(person)
  if (subject === null || !actsIn(subject, request.project_id)) return false
  return standsInNow(subject, inboxes, request, now) || inboxes.includes(poolOf(request.project_id))
}

/** An assignment notifies the assignee or their substitute; the others already have the request in their inbox. */
async function isGivenTo(read: Read, request: Request, person: string, now: string): Promise<boolean> {
  const { assigned_to } = request
  if (assigned_to === null || assigned_to === person) return true
  return standsInNow(await read.subject(person), [assigned_to], request, now)
}

const standsInNow = (subject: Subject | null, people: readonly string[], { project_id: where }: Request, now: string): boolean =>
  subject?.standsInFor.some(
    ({ id, from, until, project_id = where }) => people.includes(id) && from <= now && now < until && project_id === where,
  ) === true

async function channelsOf(read: Read, person: string): Promise<Channel[]> {
  const listed = await read.list(Channel, 'person', [[person]], { limit: limits.hooksPerSubjectMax })
  const channels = await Promise.all(listed.map(({ id }) => read.raw(Channel, id)))
  return channels.filter((channel) => channel !== null)
}

async function targetsOf(read: Read, planned: Planned, now: string): Promise<Told[]> {
  if (planned.request_id === null)
    return (await channelsOf(read, planned.person!)).map(({ id, person }) => ({ target: id, whose: person, planned, due: null }))
  const request = await read.raw(Request, planned.request_id)
  if (request === null) return []
  if (planned.callback !== undefined) return [{ target: planned.callback, whose: request.requester, planned, due: null }]
  const { person } = planned
  if (person === undefined || !isOpen(request) || !(await isBefore(read, request, person, now))) return []
  if (planned.event === 'assigned' && !(await isGivenTo(read, request, person, now))) return []
  // A mail or a push waits briefly, so that a burst becomes one message.
  const dueFor = ({ kind }: Channel): string | null => {
    const wait = kind === 'email' ? limits.mailBurstMs : kind === 'push' ? limits.pushBurstMs : 0
    return wait === 0 || request.priority === 'critical' ? null : timestampOf(Date.parse(now) + wait)
  }
  const channels = (await channelsOf(read, person)).filter((channel) => isWanted(channel, request))
  return channels.map((channel) => ({ target: channel.id, whose: person, planned, due: dueFor(channel) }))
}

const plan = command({
  name: 'notice.plan',
  summary: 'Plan the notices about new facts of the record, and note how far it was read. The system calls it.',
  draft: 'ours: notices',
  input: t.Object({
    cursor: t.Integer({ description: 'the position up to which the record was read' }),
    items: t.Array(Planned, { maxItems: limits.noticesPlannedMax }),
  }),
  output: t.Object({ planned: t.Integer() }),
  callers: [system],
  requires: [],
  audit: null,
  async load(read, { items }, { now }) {
    const targets = (await Promise.all(items.map((item) => targetsOf(read, item, now)))).flat()
    const known = await Promise.all(targets.map(({ target, planned }) => read.raw(Notice, noticeId(target, orderOf(planned.position)))))
    return { fresh: targets.filter((_, i) => known[i] === null), cursor: await read.raw(NoticeCursor, CURSOR) }
  },
  decide({ fresh, cursor }, input, { now }) {
    const puts = fresh.flatMap(({ target, whose, due, planned: { position, event, request_id } }) => {
      const [, changes] = planNotice({ target, whose, order: orderOf(position), event, request_id }, now, due ?? now)
      return changes
    })
    const position = Math.max(input.cursor, cursor?.position ?? 0)
    return { facts: [], puts: [...puts, put(NoticeCursor, CURSOR, { id: CURSOR, position })], output: { planned: fresh.length } }
  },
  example: {
    given: 'told',
    as: 'system',
    input: ({ request }) => ({ cursor: 1, items: [{ position: 1, event: 'created', request_id: request.id, person: 'user_alice' }] }),
  },
})

// --- What it says ----------------------------------------------------------------------------------------------------------

type Composed = { readonly data: object | null; readonly until: string | null; readonly why: string | null; readonly is_held?: boolean }
const dropNotice = (why: string): Composed => ({ data: null, until: null, why })
const noticeWith = (data: object): Composed => ({ data, until: null, why: null })

/** The content of any notice: the asking agent (HXP 0.1, 7), the urgency and a link, without the question or an answer. */
function itemFor({ id, kind, action, priority, agent_id, requester, created_at }: Request, event: string, now: string): object {
  return {
    event,
    asks: 'An agent asks',
    agent_id: shownText(agent_id),
    requester,
    request_id: id,
    kind,
    action,
    priority,
    age_seconds: Math.max(0, Math.floor((Date.parse(now) - Date.parse(created_at)) / 1_000)),
    path: `/hxp/v1/requests/${id}`,
    link: `/inbox/${id}`,
  }
}

/** The content for people's own devices and mail: also the title, escaped and cut; in a mail also the asking agent's name and the deadline. */
async function itemOn(read: Read, channel: Channel, request: Request, event: string, now: string): Promise<object> {
  const item = itemFor(request, event, now)
  if (channel.kind === 'webhook') return item
  const title = cutTo(titleOf(request), limits.noticeTitleCharsMax)
  const answers =
    channel.kind === 'push' && isAnsweredByTitle(request) ? { actions: ['approve', 'reject'], digest: shownDigest(request) } : {}
  const { requester, risk = null, expires_at, overdue } = request
  const mailFields = channel.kind === 'email' ? { name: await nameFor(requester, knowingBy(read)), expires_at, overdue } : {}
  return { ...item, title, risk, ...mailFields, ...answers }
}

/** Whether a push can offer the answer: the title is the whole question, and the risk is low. */
function isAnsweredByTitle(request: Request): boolean {
  const { kind, action, risk, payload, quorum, thread, notice } = request
  if (kind !== 'request' || actions[action].isVerdict !== true || (risk !== 'R1' && risk !== 'R2')) return false
  const { item = '', details = {}, ...more } = payload as { item?: string; details?: object }
  const isBare = Object.keys(details).length === 0 && Object.keys(more).length === 0
  const isWhole = titleOf(request) === item && item.length <= limits.noticeTitleCharsMax
  return isBare && isWhole && quorum === undefined && thread === undefined && notice === undefined
}

const HOUR_MS = 3_600_000
/** Until when a person has had enough for this hour; null: there is room. */
async function cappedUntil(read: Read, person: string, max: number | null | undefined, now: string): Promise<string | null> {
  if (max === null || max === undefined) return null
  const since = timestampOf(Date.parse(now) - HOUR_MS)
  // A notice that was sent an hour ago to the millisecond counts no more: else it would be waited for until now.
  const sent = await read.list(Notice, 'sent', [[person]], { after: `${since}\0${END}`, limit: max })
  const first = sent.length < max ? null : await read.raw(Notice, sent[0]!.id)
  return first === null ? null : timestampOf(Date.parse(first.last_at) + HOUR_MS)
}

async function forPerson(read: Read, channel: Channel, event: Event, request: Request | null, context: Context): Promise<Composed> {
  const { now, terms } = context
  const person = await read.subject(channel.person)
  if (person === null || person.disabled) return dropNotice('the person is switched off')
  if (channel.disabled || channel.removed_at !== null) return dropNotice('the channel was removed, or is gone')
  if (event === 'confirm') return channel.confirmed === true ? dropNotice('the address is confirmed') : noticeWith({ event })
  if (!isReady(channel)) return dropNotice('the address was never confirmed')
  if (event === 'test' || event === 'sign_in') return noticeWith({ event })
  if (isOfAccount(event)) return noticeWith({ event, link: '/settings/passkeys' })
  if (request === null || !isOpen(request)) return dropNotice('the item is decided')
  if (!(await isBefore(read, request, channel.person, now))) return dropNotice('the item is no longer in their inbox')
  if (event === 'assigned' && !(await isGivenTo(read, request, channel.person, now)))
    return dropNotice('the item was given to another person')
  const { priority, snoozed } = request
  const aside = snoozed?.find(({ by, until }) => by === channel.person && until > now)?.until ?? null
  if (priority !== 'critical') {
    const until = aside ?? quietUntil(channel.quiet_hours, now)
    if (until !== null) return { data: null, until, why: null }
    const capped = await cappedUntil(read, channel.person, terms.noticesPerHourMax, now)
    if (capped !== null) return { data: null, until: capped, why: null, is_held: true }
  }
  return noticeWith(await itemOn(read, channel, request, event, now))
}

async function forAgent(read: Read, channel: AgentChannel, event: string, request: Request | null, context: Context): Promise<Composed> {
  const agent = await read.subject(channel.agent_id)
  if (agent === null || agent.disabled) return dropNotice('the agent is switched off')
  if (channel.disabled || channel.removed_at !== null) return dropNotice('the channel was removed, or is gone')
  if (event === 'test') return noticeWith({ event })
  if (request?.receipt === undefined || request.requester !== channel.agent_id) return dropNotice('there is no receipt')
  return noticeWith({ request_id: request.id, receipt: await signReceipt(request, read, context) })
}

const compose = query({
  name: 'notice.compose',
  summary: 'Compose a notice from the present state, or say until when it waits or why it is dropped. The system calls it.',
  draft: 'ours: notices',
  input: t.Object({ target: Id, event: Event, request_id: nullable(Id), order: t.Optional(Order) }),
  output: t.Object({
    data: nullable(t.Object({}, { additionalProperties: true })),
    until: nullable(Timestamp),
    why: nullable(t.String()),
    is_held: t.Optional(t.Boolean({ description: 'it waits because there were many in the hour' })),
    kind: ChannelKind,
    state: t.Optional(Notice.schema.properties.state),
    place: t.String({ description: 'its place in the order of the inbox' }),
    along: t.Array(t.Object({ order: Order, place: t.String(), data: t.Object({}, { additionalProperties: true }) }), {
      description: 'others that wait for the same channel, to be told with it',
    }),
    gone: t.Array(t.Object({ order: Order, why: t.String() })),
  }),
  callers: [system],
  async load(read, { target, request_id, order }) {
    const [channel, ofAgent] = await Promise.all([read.raw(Channel, target), read.raw(AgentChannel, target)])
    const notice = order === undefined ? null : await read.raw(Notice, noticeId(target, order))
    return { channel, ofAgent, notice, request: request_id === null ? null : await read.raw(Request, request_id) }
  },
  async view({ channel, ofAgent, notice, request }, { event, order }, context, read) {
    const common = {
      kind: channel?.kind ?? ('webhook' as const),
      place: placeOf(request),
      ...(notice === null ? {} : { state: notice.state }),
    }
    if (channel === null)
      return {
        ...(ofAgent ? await forAgent(read, ofAgent, event, request, context) : dropNotice('it was removed')),
        ...common,
        along: [],
        gone: [],
      }
    const composed = await forPerson(read, channel, event, request, context)
    const isAlone = composed.data === null || request === null || order === undefined || event === 'sign_in'
    return {
      ...composed,
      ...common,
      ...(isAlone ? { along: [], gone: [] } : await gatherNotices(read, channel, { order, held: notice?.held }, context)),
    }
  },
  example: {
    given: 'told',
    as: 'system',
    input: ({ channel, request }) => ({ target: channel.id, event: 'created', request_id: request.id }),
  },
})

const placeOf = (request: Request | null): string => (request === null ? '' : urgencyOf(request).join(' '))

type First = { readonly order: string; readonly held: 'cap' | undefined }
/**
 * Other due notices of this channel, so that a burst becomes one message. A webhook sends each notice separately, except notices that were
 * held back.
 */
async function gatherNotices(read: Read, channel: Channel, { order, held }: First, context: Context) {
  const along: { order: string; place: string; data: object }[] = []
  const gone: { order: string; why: string }[] = []
  if (channel.kind === 'webhook' && held === undefined) return { along, gone }
  const listed = await read.list(Notice, 'waiting', [[channel.id]], { limit: limits.pageMax })
  for (const { id } of listed) {
    const other = await read.raw(Notice, id)
    if (other === null || other.request_id === null || other.event === 'sign_in' || id === noticeId(channel.id, order)) continue
    if (channel.kind === 'webhook' && other.held === undefined) continue
    const request = await read.raw(Request, other.request_id)
    const { data, why } = await forPerson(read, channel, other.event, request, context)
    const its = id.slice(channel.id.length + 1)
    if (data !== null) along.push({ order: its, place: placeOf(request), data })
    else if (why !== null) gone.push({ order: its, why })
  }
  return { along, gone }
}

// --- What became of it -----------------------------------------------------------------------------------------------------

const Outcome = t.Object({
  target: Id,
  order: Order,
  state: Notice.schema.properties.state,
  ...attemptFields,
  along: t.Optional(Order), // told together with this one
})
/** Standard Webhooks: an address that answers this is not to be called again. */
const [GONE, MISSING] = [410, 404] as const

function noteAttempt(notice: Notice, outcome: Static<typeof Outcome>, now: string): Change {
  const { state, error, along } = outcome
  if (state === 'dropped') return put(Notice, notice.id, { ...notice, state, last_at: now, ...(error === null ? {} : { why: error }) })
  const recent = attemptsWith(notice.recent, outcome, now)
  const link = along === undefined ? {} : { along }
  return put(Notice, notice.id, { ...notice, state, attempts: notice.attempts + 1, last_at: now, recent, ...link })
}

const record = command({
  name: 'notice.record',
  summary: 'Record the outcome of one post. An address that is gone is not called again. The system calls it.',
  draft: 'ours: the log of notices',
  input: Outcome,
  output: t.Object({ recorded: t.Boolean() }),
  callers: [system],
  requires: [],
  audit: null,
  async load(read, { target, order, status }) {
    const isGone = status === GONE || status === MISSING
    const [channel, ofAgent] = isGone ? [await read.raw(Channel, target), await read.raw(AgentChannel, target)] : [null, null]
    return { notice: await read.raw(Notice, noticeId(target, order)), channel, ofAgent }
  },
  decide({ notice, channel, ofAgent }, outcome, { now }) {
    // RFC 8030, 7.3: a subscription that is over answers 404 or 410, and is never there again.
    if (channel?.kind === 'push' && channel.removed_at === null)
      return {
        facts: [fact('channel.removed', [image(Channel, { ...channel, removed_at: now })])],
        puts: [...(notice ? [noteAttempt(notice, outcome, now)] : []), put(Hook, channel.id, null)],
        output: { recorded: notice !== null },
      }
    const isGone = outcome.status === GONE
    const facts = [
      ...(isGone && channel && !channel.disabled ? [fact('channel.disabled', [image(Channel, { ...channel, disabled: true })])] : []),
      ...(isGone && ofAgent && !ofAgent.disabled ? [fact('channel.disabled', [image(AgentChannel, { ...ofAgent, disabled: true })])] : []),
    ]
    return { facts, puts: notice ? [noteAttempt(notice, outcome, now)] : [], output: { recorded: notice !== null } }
  },
  example: {
    given: 'tried',
    as: 'system',
    input: ({ notice }) => ({ ...partsOf(notice.id), state: 'waiting', status: 503, duration_ms: 12, error: 'it answered 503' }),
  },
})

const partsOf = (id: string): { target: string; order: string } => {
  const [target = '', order = ''] = id.split('/')
  return { target, order }
}

const defer = command({
  name: 'notice.defer',
  summary: 'Delay a notice: its recipient has quiet hours. The system calls it.',
  draft: 'ours: quiet hours',
  input: t.Object({
    target: Id,
    order: Order,
    until: Timestamp,
    is_held: t.Optional(t.Boolean({ description: 'there were many in the hour' })),
  }),
  output: t.Object({ deferred: t.Boolean() }),
  callers: [system],
  requires: [],
  audit: null,
  load: async (read, { target, order }) => ({
    delivery: await read.raw(Delivery, noticeDelivery(target, order)),
    notice: await read.raw(Notice, noticeId(target, order)),
  }),
  decide: ({ delivery, notice }, { until, is_held }, { now }) => ({
    facts: [],
    puts: [
      // The time must differ from the time at which it was taken: so the outbox knows that it still has to be sent.
      ...(delivery ? [put(Delivery, delivery.id, { ...delivery, due: until > now ? until : timestampOf(Date.parse(now) + 1) })] : []),
      ...(notice && is_held === true ? [put(Notice, notice.id, { ...notice, held: 'cap' as const })] : []),
    ],
    output: { deferred: delivery !== null },
  }),
  example: {
    given: 'tried',
    as: 'system',
    input: ({ notice }) => ({ ...partsOf(notice.id), until: timestampOf(Date.UTC(2030, 0, 1)) }),
  },
})

const forget = forgetEntry(Notice, {
  name: 'notice.forget',
  summary: 'Forget the log entry of one notice. The system calls it by timer.',
  example: { given: 'tried', as: 'system', input: ({ notice }) => ({ id: notice.id }) },
})

/** A notice of the log, with the fields that a page or a terminal shows. */
const Listed = t.Object({
  ...Notice.schema.properties,
  title: nullable(t.String({ description: 'of the item that it is about, where the caller may read that' })),
  channel: nullable(t.Object({ id: Id, label: t.String(), kind: ChannelKind })),
  error: nullable(t.String({ description: 'why the last attempt failed, or why it was dropped' })),
})

async function listedAs(read: Read, notice: Notice): Promise<Static<typeof Listed>> {
  const { target, request_id, state, why, recent } = notice
  const channel = (await read.raw(Channel, target)) ?? (await read.raw(AgentChannel, target))
  const request = request_id === null ? null : await read.maybe(Request, request_id)
  return {
    ...notice,
    title: request && cutTo(titleOf(request), limits.noticeTitleCharsMax),
    channel: channel && { id: channel.id, label: channel.label, kind: channel.kind ?? 'webhook' },
    error: state === 'accepted' ? null : (why ?? recent.at(-1)?.error ?? null),
  }
}

const list = query({
  name: 'notice.list',
  summary: 'List the notices that were sent to you or posted for you, with their outcomes, the newest first.',
  draft: 'ours: the log of notices',
  input: t.Object({ whose: t.Optional(Id), ...pageInput }),
  output: t.Object({ items: t.Array(Listed), next_cursor: nextCursor }),
  callers: [
    forAgentsToo(
      role<{ whose: string }>('the person or agent themself', (actor, { whose }) => actor.kind !== 'service' && actor.id === whose),
    ),
    administrator,
    installationOwner,
  ],
  async load(read, input, { actor }) {
    const whose = input.whose ?? actor.id
    const listed = await read.list(Notice, 'whose', [[whose]], { ...pageIn('notice.list', input), reverse: true })
    const found = await Promise.all(listed.map(({ id }) => read.maybe(Notice, id)))
    const items = await Promise.all(found.filter((notice) => notice !== null).map((notice) => listedAs(read, notice)))
    return { whose, listed, items }
  },
  view: ({ listed, items }, input) => pageOf('notice.list', input, listed, items),
  example: { given: 'tried', as: 'alice', input: {} },
})

export const noticeOperations = [plan, compose, record, defer, forget, list]
