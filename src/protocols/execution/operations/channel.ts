// Channels: signed webhooks. A person's channel says that something waits for them, an agent's gets the receipts of its requests.
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { fact, image, put } from '#kernel/declare/facts.ts'
import { administrator, heldBy, human, installationOwner, role } from '#kernel/declare/access.ts'
import { hookSecretOf, isHookAddress } from '#kernel/declare/webhook-address.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Change, type Made, type Read } from '#kernel/declare/operation.ts'
import { either, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { AgentChannel, Channel, Hook, HookAddress, isOfAgent, Label, newHook, Notice, planNotice, QuietHours } from '../notices/notice.ts'
import { Id, Priority } from '../schema.ts'

const DRAFT = 'ours: HXP 0.1 leaves open how people learn of requests, and knows polling and WebSocket only for agents'

const Shown = t.Object({
  ...Channel.schema.properties,
  person: t.Optional(Id),
  agent_id: t.Optional(Id),
  min_priority: t.Optional(Priority),
})
type Shown = Static<typeof Shown>
const Secret = nullable(t.String({ description: 'shown once' }))

/** A channel of either side, with the operations on it that differ. */
type Either = Channel | AgentChannel
const isPersons = (channel: Either): channel is Channel => 'person' in channel
const ownerOf = (channel: Either): string => (isPersons(channel) ? channel.person : channel.agent_id)
const shownAs = (channel: Either): Shown => ({ ...channel, kind: 'webhook' })
const changed = (action: string, channel: Either): Made =>
  fact(action, [isPersons(channel) ? image(Channel, channel) : image(AgentChannel, channel)])

type OfChannel = { readonly channel: Either }
const itsOwner = role<OfChannel>('the person or agent whose channel it is', (actor, { channel }) => actor.id === ownerOf(channel))
async function channelOf(read: Read, channel_id: string): Promise<OfChannel> {
  const channel = isOfAgent(channel_id) ? await read(AgentChannel, channel_id) : await read(Channel, channel_id)
  if (channel.removed_at !== null) throw new Refusal('NOT_FOUND', `there is no channel ${channel_id}`)
  return { channel }
}

const agent = heldBy(
  'an agent',
  role<unknown>('agent', (actor) => actor.kind === 'agent'),
)

const add = command({
  name: 'channel.add',
  summary: 'Add a channel: a signed webhook that tells a person of new items in their inbox, or gets the receipts of an agent.',
  draft: DRAFT,
  input: t.Object({
    endpoint: HookAddress,
    label: t.Optional(Label),
    kind: t.Optional(either('webhook')),
    min_priority: t.Optional(Priority),
    quiet_hours: t.Optional(QuietHours),
  }),
  output: t.Object({ channel: Shown, secret: Secret }),
  callers: [human, agent],
  requires: [
    rule<unknown, { readonly endpoint: string }>(
      'INVALID_REQUEST',
      'endpoint is an http or https address without a name, a password or a fragment',
      (_, { endpoint }, { terms }) => isHookAddress(endpoint, terms.publicHooksOnly),
      'endpoint cannot be called: give an https address of the public Internet (or http and others, where the operator allows it with --webhook-private), without a name, a password or a fragment',
    ),
    rule<unknown, { readonly min_priority?: unknown; readonly quiet_hours?: unknown }>(
      'INVALID_REQUEST',
      'min_priority and quiet_hours are given by people',
      (_, { min_priority, quiet_hours }, { actor }) => actor.kind === 'human' || (min_priority === undefined && quiet_hours === undefined),
      'min_priority and quiet_hours are for people: the channel of an agent gets receipts, each when it is made; leave them out',
    ),
  ],
  audit: 'channel.added',
  once: ['secret'],
  hides: true, // an address may hold a secret, as many of them do
  load: () => Promise.resolve({}),
  decide(_, { endpoint, label = '', min_priority = 'low', quiet_hours }, { actor, now, newId, secret }) {
    const common = { kind: 'webhook', label, disabled: false, created_at: now, removed_at: null } as const
    const isPerson = actor.kind === 'human'
    const channel: Either = isPerson
      ? { id: newId('chn'), person: actor.id, ...common, min_priority, ...(quiet_hours ? { quiet_hours } : {}) }
      : { id: newId('cb'), agent_id: actor.id, ...common }
    const hook = newHook(channel.id, endpoint, secret())
    const max = limits.hooksPerSubjectMax
    const bound = { prefix: [actor.id], max, words: `${isPerson ? 'a person' : 'an agent'} has at most ${max} channels` }
    return {
      facts: [changed('channel.added', channel)],
      puts: [put(Hook, hook.id, hook)],
      atMost: [isPerson ? { doc: Channel, index: 'person', ...bound } : { doc: AgentChannel, index: 'agent', ...bound }],
      output: { channel: shownAs(channel), secret: hook.secret },
    }
  },
  example: { given: 'empty', as: 'alice', input: { endpoint: 'https://example.com/inbox-hook', label: 'phone' } },
})

const list = query({
  name: 'channel.list',
  summary: 'List your channels: where you are told of new items in your inbox, or where the receipts of an agent are posted.',
  draft: DRAFT,
  input: t.Object({ person: t.Optional(Id), agent_id: t.Optional(Id) }),
  output: t.Object({ items: t.Array(Shown) }),
  callers: [
    role<{ whose: string }>(
      'the person or agent themself',
      ({ kind, id }, { whose }) => (kind === 'human' || kind === 'agent') && id === whose,
    ),
    administrator,
    installationOwner,
  ],
  async load(read, { person, agent_id }, { actor }) {
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
    return { whose, items: found.filter((channel) => channel !== null).map(shownAs) }
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
  audit: 'channel.removed',
  load: (read, { channel_id }) => channelOf(read, channel_id),
  decide({ channel }, _, { now }) {
    const next: Either = { ...channel, removed_at: now }
    const puts: Change[] = [put(Hook, channel.id, null)]
    return { facts: [changed('channel.removed', next)], puts, output: { channel: shownAs(next) } }
  },
  example: { given: 'told', as: 'alice', input: ({ channel }) => ({ channel_id: channel.id }) },
})

const rotate = command({
  name: 'channel.rotate',
  summary: 'Make a new secret for a channel. It is shown once; for a day posts carry a signature by the old one as well.',
  draft: DRAFT,
  input: t.Object({ channel_id: Id }),
  output: t.Object({ channel: Shown, secret: Secret }),
  callers: [itsOwner],
  requires: [],
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
      facts: [changed('channel.secret_rotated', back)],
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
  requires: [],
  audit: 'channel.tested',
  load: (read, { channel_id }) => channelOf(read, channel_id),
  decide({ channel }, _, { now, newId }) {
    // An address that was given up as gone may have come back.
    const next: Either = { ...channel, disabled: false }
    const said = { target: channel.id, whose: ownerOf(channel), order: newId('try'), event: 'test', request_id: null } as const
    const [notice, puts] = planNotice(said, now)
    return { facts: [changed('channel.tested', next)], puts, output: { notice } }
  },
  example: { given: 'told', as: 'alice', input: ({ channel }) => ({ channel_id: channel.id }) },
})

export const channelOperations = [add, list, remove, rotate, test]
