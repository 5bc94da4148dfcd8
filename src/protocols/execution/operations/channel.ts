// Channels: signed webhooks, pushes to a browser, and e-mail. A person's channel says that something waits for them, an agent's gets the receipts of its requests.
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { put } from '#kernel/declare/facts.ts'
import { administrator, anyone, forAgentsToo, heldBy, installationOwner, isIn, isWhole, role, system } from '#kernel/declare/access.ts'
import { hookSecretOf, isHookAddress } from '#kernel/declare/webhook-address.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Bound, type Change, type Context, type Read } from '#kernel/declare/operation.ts'
import { nullable, t, type Static } from '#kernel/declare/schema.ts'
import {
  channelFact,
  channelOf,
  isPersons,
  isProjects,
  itsOwner,
  AnyChannelKind,
  ownerOf,
  shownAs,
  Shown,
  type Either,
  type OfChannel,
} from '../notices/channels.ts'
import {
  AgentChannel,
  Channel,
  Hook,
  HookAddress,
  isReady,
  Label,
  linkToken,
  newHook,
  Notice,
  planNotice,
  PushInput,
} from '../notices/notice.ts'
import { EventChannel, EventCursor } from '../notices/event-channel.ts'
import { isOnCurve } from '../notices/push-point.ts'
import { QuietHours, quietProblem } from '../notices/quiet-hours.ts'
import { isEmailAddress } from '../actions/provided-value.ts'
import { Id, Priority } from '../schema.ts'
import { addEvents, eventChannelOperations, eventsFields, progressOf, projectOwner } from './event-channel.ts'

const DRAFT = 'ours: HXP 0.1 leaves open how people learn of requests, and knows polling and WebSocket only for agents'

const Secret = nullable(t.String({ description: 'shown once' }))

type Adding = { readonly project_id: string | null }
const person = heldBy(
  'a person',
  role<Adding>('human', (actor, { project_id }) => actor.kind === 'human' && project_id === null),
)
const agent = forAgentsToo(
  heldBy(
    'an agent',
    role<Adding>('agent', (actor, { project_id }) => actor.kind === 'agent' && project_id === null),
  ),
)

type Added = {
  readonly kind?: Static<typeof AnyChannelKind>
  readonly project_id?: string
  readonly types?: readonly string[]
  readonly after?: number
  readonly endpoint?: string
  readonly address?: string
  readonly keys?: Static<typeof PushInput>
}
/** The fields that each kind needs, and none of the others. */
const fieldsOf = { webhook: ['endpoint'], push: ['endpoint', 'keys'], email: ['address'], events: ['endpoint', 'project_id'] } as const
const hasItsFields = ({ kind = 'webhook', ...given }: Added): boolean => {
  const needed: readonly string[] = fieldsOf[kind]
  const isFiltered = given.types !== undefined || given.after !== undefined
  if (isFiltered && kind !== 'events') return false
  return (['endpoint', 'address', 'keys', 'project_id'] as const).every((name) => (given[name] !== undefined) === needed.includes(name))
}

const add = command({
  name: 'channel.add',
  summary:
    'Add a channel: a signed webhook, pushes to a browser or e-mail that notify a person of new items in their inbox; a webhook that gets the receipts of an agent; or one that gets the events of a project.',
  draft: DRAFT,
  input: t.Object({
    endpoint: t.Optional(HookAddress),
    address: t.Optional(
      t.String({ minLength: 3, maxLength: limits.emailCharsMax, description: 'an e-mail address; a link sent there confirms it' }),
    ),
    keys: t.Optional(PushInput),
    label: t.Optional(Label),
    kind: t.Optional(AnyChannelKind),
    ...eventsFields,
    min_priority: t.Optional(Priority),
    quiet_hours: t.Optional(QuietHours),
  }),
  output: t.Object({ channel: Shown, secret: Secret }),
  callers: [person, agent, projectOwner],
  requires: [
    rule<unknown, Added>(
      'INVALID_REQUEST',
      'a webhook has an endpoint, a push an endpoint and keys, e-mail an address, events an endpoint and a project',
      (_, given) => hasItsFields(given),
      'the fields do not fit the kind: a webhook takes endpoint, a push endpoint and keys, e-mail takes address, and events take endpoint, project_id, types and after',
    ),
    rule<unknown, Added>(
      'INVALID_REQUEST',
      'an agent has webhooks alone',
      (_, { kind = 'webhook' }, { actor }) => kind === 'webhook' || actor.kind === 'human',
      'pushes, e-mail and events are for people: an agent has webhooks',
    ),
    rule<unknown, Added>(
      'PRECONDITION_FAILED',
      'this server can send what is asked for',
      (_, { kind = 'webhook' }, { terms }) =>
        kind === 'email' ? terms.mails === true : kind !== 'push' || (terms.pushKey?.() ?? null) !== null,
      'this server cannot send that: e-mail needs --smtp, and pushes need its key files',
    ),
    rule<unknown, Added>(
      'INVALID_REQUEST',
      'address is an e-mail address',
      (_, { address }) => address === undefined || isEmailAddress(address),
      'address is not an e-mail address such as name@example.com',
    ),
    rule<unknown, Added>(
      'INVALID_REQUEST',
      'keys are those of a subscription',
      (_, { keys }) => keys === undefined || isOnCurve(keys.p256dh),
      'keys.p256dh is not a key of a subscription: pass the keys that the browser returned with it',
    ),
    rule<unknown, { readonly quiet_hours?: QuietHours }>(
      'INVALID_REQUEST',
      'quiet_hours name an existing time zone',
      (_, { quiet_hours }) => quiet_hours === undefined || quietProblem(quiet_hours) === null,
      'quiet_hours cannot be used: give from, to and a zone such as Europe/Berlin',
      (_, { quiet_hours }) => quietProblem(quiet_hours!) ?? '',
    ),
    rule<unknown, Added>(
      'INVALID_REQUEST',
      'endpoint is an http or https address without a name, a password or a fragment',
      (_, { endpoint }, { terms }) => endpoint === undefined || isHookAddress(endpoint, terms.publicHooksOnly),
      'endpoint cannot be called: give an https address of the public Internet (or http and others, where the operator allows it with --webhook-private), without a name, a password or a fragment',
    ),
    rule<Adding, { readonly min_priority?: unknown; readonly quiet_hours?: unknown }>(
      'INVALID_REQUEST',
      'min_priority and quiet_hours are given by people, for themselves',
      ({ project_id }, { min_priority, quiet_hours }, { actor }) =>
        (actor.kind === 'human' && project_id === null) || (min_priority === undefined && quiet_hours === undefined),
      'min_priority and quiet_hours are for people: receipts and events are sent when they are made; leave them out',
    ),
  ],
  isStep: true,
  audit: 'channel.added',
  once: ['secret'],
  hides: true, // an address may hold a secret, as many of them do
  async load(read, { project_id = null }, { actor }) {
    if (project_id !== null && !isIn(actor, project_id)) throw new Refusal('NOT_FOUND', `there is no project ${project_id}`)
    const owner = actor.kind === 'agent' ? ((await read.subject(actor.id))?.owner ?? null) : null
    return { owner, project_id, head: project_id === null ? 0 : (await read.head(project_id)).seq }
  },
  decide({ owner, project_id, head }, input, context) {
    if (project_id !== null) return addEvents(project_id, head, input, context)
    const { endpoint, address, keys, label = '', min_priority = 'low', quiet_hours } = input
    const kind = (input.kind as Channel['kind'] | undefined) ?? 'webhook'
    const { actor, now, newId, secret, terms } = context
    const common = { label, disabled: false, created_at: now, removed_at: null } as const
    const isPerson = actor.kind === 'human'
    const channel: Either = isPerson
      ? {
          id: newId('chn'),
          person: actor.id,
          kind,
          ...common,
          ...(kind === 'email' ? { confirmed: false, ...(isWhole(actor) ? { signs_in: true } : {}) } : {}),
          min_priority,
          ...(quiet_hours ? { quiet_hours } : {}),
        }
      : { id: newId('cb'), agent_id: actor.id, ...(owner === null ? {} : { owner }), kind: 'webhook', ...common }
    const hook = newHook(channel.id, (endpoint ?? address)!, secret(), keys && { ...keys, key: terms.pushKey!()! })
    const max = limits.hooksPerSubjectMax
    const bound = { prefix: [actor.id], max, message: `${isPerson ? 'a person' : 'an agent'} has at most ${max} channels` }
    return {
      facts: [channelFact('channel.added', channel)],
      puts: [put(Hook, hook.id, hook), ...(kind === 'email' ? confirmation(channel, context) : [])],
      atMost: [
        isPerson ? { doc: Channel, index: 'person', ...bound } : { doc: AgentChannel, index: 'agent', ...bound },
        ...(kind === 'email' ? [mailBound(actor.id, now)] : []),
        ...(owner === null ? [] : [ownerBound(owner)]),
      ],
      // Only receivers of posts need it.
      output: { channel: shownAs(channel), secret: kind === 'webhook' ? hook.secret : null },
    }
  },
  example: { given: 'empty', as: 'alice', input: { endpoint: 'https://example.com/inbox-hook', label: 'phone' } },
})

function confirmation(channel: Either, { now, newId }: Pick<Context, 'now' | 'newId'>): Change[] {
  const draft = { target: channel.id, whose: ownerOf(channel as Channel), order: newId('try'), event: 'confirm', request_id: null } as const
  return planNotice(draft, now)[1]
}
function ownerBound(owner: string): Bound {
  const max = limits.hooksPerOwnerMax
  return {
    doc: AgentChannel,
    index: 'owner',
    prefix: [owner],
    max,
    message: `the agents of one person have at most ${max} channels together: remove some`,
  }
}
/** Bounds confirmation mails, so that a person cannot make this server write to strangers at will. */
function mailBound(person: string, now: string): Bound {
  const max = limits.confirmationsPerHourMax
  const message = `at most ${max} addresses an hour can be confirmed by one person`
  return { doc: Channel, index: 'mailed', prefix: [person, now.slice(0, 13)], max, message }
}

/** The channel of a link in a mail. The link is the right to its one purpose. */
async function linkedChannel(read: Read, token: string, purpose: 'confirm' | 'stop'): Promise<{ channel: Channel }> {
  const id = token.slice(0, token.indexOf('.'))
  const [channel, hook] = [await read.raw(Channel, id), await read.raw(Hook, id)]
  if (channel === null || hook === null || channel.removed_at !== null || linkToken(hook, purpose) !== token)
    throw new Refusal('NOT_FOUND', 'this link no longer works: its channel was removed, or the link is incomplete')
  return { channel }
}
const Token = t.String({ minLength: 1, maxLength: 200, description: 'the token at the end of a link in a mail' })

const confirm = command({
  name: 'channel.confirm',
  summary: 'Confirm an e-mail address with the token of the link that was sent to it.',
  draft: DRAFT,
  input: t.Object({ token: Token }),
  output: t.Object({ channel: Shown }),
  callers: [system, itsOwner],
  requires: [],
  audit: 'channel.confirmed',
  load: (read, { token }) => linkedChannel(read, token, 'confirm'),
  decide({ channel }) {
    // The link was followed before: nothing changes, and no fact is needed.
    if (channel.confirmed === true) return { facts: [], output: { channel: shownAs(channel) } }
    const next: Channel = { ...channel, confirmed: true }
    return { facts: [channelFact('channel.confirmed', next)], output: { channel: shownAs(next) } }
  },
  example: { given: 'empty', as: 'system', input: { token: 'chn_1.x' }, refused: 'NOT_FOUND' },
})

const stop = command({
  name: 'channel.stop',
  summary: 'Stop the mails to an address, with the token of the link at their end.',
  draft: DRAFT,
  input: t.Object({ token: Token }),
  output: t.Object({ channel: Shown }),
  callers: [system, itsOwner],
  requires: [],
  audit: 'channel.removed',
  load: (read, { token }) => linkedChannel(read, token, 'stop'),
  decide({ channel }, _, { now }) {
    const next: Channel = { ...channel, removed_at: now }
    return { facts: [channelFact('channel.removed', next)], puts: [put(Hook, channel.id, null)], output: { channel: shownAs(next) } }
  },
  example: { given: 'empty', as: 'system', input: { token: 'chn_1.x' }, refused: 'NOT_FOUND' },
})

const pushKey = query({
  name: 'channel.push_key',
  summary: 'Show the public key that a browser subscribes to pushes with.',
  draft: 'ours: RFC 8292, voluntary application server identification',
  input: t.Object({}),
  output: t.Object({ key: nullable(t.String({ description: '65 bytes in base64url; null: this server sends no pushes' })) }),
  callers: [anyone],
  load: () => Promise.resolve({}),
  view: (_, __, { terms }) => ({ key: terms.pushKey?.() ?? null }),
  example: { given: 'empty', as: 'alice', input: {} },
})

const list = query({
  name: 'channel.list',
  summary:
    'List your channels: where you get notices of new items in your inbox, where the receipts of an agent are posted, or where the events of a project go.',
  draft: DRAFT,
  input: t.Object({ person: t.Optional(Id), agent_id: t.Optional(Id), project_id: t.Optional(Id) }),
  output: t.Object({ items: t.Array(Shown) }),
  callers: [
    forAgentsToo(
      role<{ whose: string }>(
        'the person or agent themself',
        ({ kind, id }, { whose }) => (kind === 'human' || kind === 'agent') && id === whose,
      ),
    ),
    projectOwner,
    administrator,
    installationOwner,
  ],
  async load(read, { person, agent_id, project_id = null }, { actor }) {
    if (project_id !== null) {
      if (!isIn(actor, project_id)) throw new Refusal('NOT_FOUND', `there is no project ${project_id}`)
      const rows = await read.list(EventChannel, 'project', [[project_id]], { limit: limits.eventChannelsPerProjectMax })
      const events = (await Promise.all(rows.map(({ id }) => read.maybe(EventChannel, id)))).filter((channel) => channel !== null)
      return { whose: project_id, project_id, items: await Promise.all(events.map((channel) => progressOf(read, channel, actor))) }
    }
    const whose = person ?? agent_id ?? actor.id
    const paging = { limit: limits.hooksPerSubjectMax }
    const [people, agents] = await Promise.all([
      agent_id === undefined ? read.list(Channel, 'person', [[whose]], paging) : [],
      person === undefined ? read.list(AgentChannel, 'agent', [[agent_id ?? whose]], paging) : [],
    ])
    const found: (Either | null)[] = await Promise.all([
      ...people.map(({ id }) => read.maybe(Channel, id)),
      ...agents.map(({ id }) => read.maybe(AgentChannel, id)),
    ])
    return { whose, project_id, items: found.filter((channel) => channel !== null).map(shownAs) }
  },
  view: ({ items }) => ({ items }),
  example: { given: 'told', as: 'alice', input: {} },
})

const remove = command({
  name: 'channel.remove',
  summary: 'Remove a channel. Posts that are under way are dropped.',
  draft: DRAFT,
  input: t.Object({ channel_id: Id }),
  output: t.Object({ channel: Shown }),
  callers: [itsOwner, administrator, installationOwner],
  requires: [],
  isStep: true,
  audit: 'channel.removed',
  load: (read, { channel_id }) => channelOf(read, channel_id),
  decide({ channel }, _, { now }) {
    const next: Either = { ...channel, removed_at: now }
    const puts: Change[] = [put(Hook, channel.id, null), ...(isProjects(channel) ? [put(EventCursor, channel.id, null)] : [])]
    return { facts: [channelFact('channel.removed', next)], puts, output: { channel: shownAs(next) } }
  },
  example: { given: 'told', as: 'alice', input: ({ channel }) => ({ channel_id: channel.id }) },
})

const rotate = command({
  name: 'channel.rotate',
  summary: 'Make a new secret for a webhook. It is shown once; for a day posts carry a signature by the old one as well.',
  draft: DRAFT,
  input: t.Object({ channel_id: Id }),
  output: t.Object({ channel: Shown, secret: Secret }),
  callers: [itsOwner],
  requires: [
    // The secret of an e-mail channel makes the links in its mails. A person who saw it could confirm an address of another person.
    rule<OfChannel>(
      'PRECONDITION_FAILED',
      'the channel is a webhook',
      ({ channel }) => ['webhook', 'events'].includes(shownAs(channel).kind),
      'only a webhook has a secret to rotate: remove the channel and add it again',
    ),
  ],
  audit: 'channel.secret_rotated',
  once: ['secret'],
  async load(read, { channel_id }) {
    return { ...(await channelOf(read, channel_id)), hook: await read.raw(Hook, channel_id) }
  },
  decide({ channel, hook: held }, _, { now, secret }) {
    const hook = held!
    const before_until = timestampOf(Date.parse(now) + limits.webhookSecretMs)
    const next: Hook = { ...hook, secret: hookSecretOf(secret()), before: hook.secret, before_until }
    const back: Either = { ...channel, disabled: false }
    return {
      facts: [channelFact('channel.secret_rotated', back)],
      puts: [put(Hook, hook.id, next)],
      output: { channel: shownAs(back), secret: next.secret },
    }
  },
  example: { given: 'told', as: 'alice', input: ({ channel }) => ({ channel_id: channel.id }) },
})

const test = command({
  name: 'channel.test',
  summary: 'Send a test notice through a channel; `notice.list` shows its outcome.',
  draft: DRAFT,
  input: t.Object({ channel_id: Id }),
  output: t.Object({ notice: Notice.schema }),
  callers: [itsOwner],
  requires: [
    rule<OfChannel>(
      'PRECONDITION_FAILED',
      'the channel sends notices or receipts',
      ({ channel }) => !isProjects(channel),
      'an event channel is tested by the next event: `channel.list` with its project shows how far it has come',
    ),
    rule<OfChannel>(
      'PRECONDITION_FAILED',
      'an e-mail address is confirmed before anything else is sent to it',
      ({ channel }) => !isPersons(channel) || isReady({ ...channel, disabled: false }),
      'the address is not confirmed yet: follow the link in the mail that was sent to it',
    ),
  ],
  audit: 'channel.tested',
  load: (read, { channel_id }) => channelOf(read, channel_id),
  decide({ channel }, _, { now, newId }) {
    // An address that was given up as gone can work again.
    const next: Either = { ...channel, disabled: false }
    const draft = { target: channel.id, whose: ownerOf(channel as Channel), order: newId('try'), event: 'test', request_id: null } as const
    const [notice, puts] = planNotice(draft, now)
    return { facts: [channelFact('channel.tested', next)], puts, output: { notice } }
  },
  example: { given: 'told', as: 'alice', input: ({ channel }) => ({ channel_id: channel.id }) },
})

const signIn = command({
  name: 'channel.sign_in',
  summary: 'Mail a sign-in link to a confirmed address. The system calls it when a person requests one.',
  draft: 'ours: identity',
  input: t.Object({ channel_id: Id, request_id: t.Optional(nullable(Id)) }),
  output: t.Object({ notice: Notice.schema }),
  callers: [system],
  requires: [
    rule<OfChannel>(
      'PRECONDITION_FAILED',
      'it is an e-mail address that its person has confirmed',
      ({ channel }) => isPersons(channel) && channel.kind === 'email' && isReady(channel),
      'links are mailed to confirmed addresses alone',
    ),
  ],
  audit: 'channel.sign_in_asked',
  load: (read, { channel_id }) => channelOf(read, channel_id),
  decide({ channel }, { request_id = null }, { now, newId }) {
    const draft = { target: channel.id, whose: ownerOf(channel as Channel), order: newId('try'), event: 'sign_in', request_id } as const
    const [notice, puts] = planNotice(draft, now)
    return { facts: [channelFact('channel.sign_in_asked', channel)], puts, output: { notice } }
  },
  example: { given: 'told', as: 'system', input: ({ channel }) => ({ channel_id: channel.id }), refused: 'PRECONDITION_FAILED' },
})

export const channelOperations = [add, confirm, signIn, stop, pushKey, list, remove, rotate, test, ...eventChannelOperations]
