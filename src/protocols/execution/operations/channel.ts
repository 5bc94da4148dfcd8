// Channels: a person's webhook that says that something waits for them.
import { Refusal } from '#kernel/declare/errors.ts'
import { fact, image, put } from '#kernel/declare/facts.ts'
import { administrator, human, installationOwner, role } from '#kernel/declare/access.ts'
import { isHookAddress } from '#kernel/declare/webhook-address.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Read } from '#kernel/declare/operation.ts'
import { nullable, t } from '#kernel/declare/schema.ts'
import { Channel, Hook, HookAddress, Label, newHook, Notice, planNotice, QuietHours } from '../notices/notice.ts'
import { Id, Priority } from '../schema.ts'

type OfChannel = { readonly channel: Channel }
const itsPerson = role<OfChannel>('the person whose channel it is', (actor, { channel }) => actor.id === channel.person)
async function channelOf(read: Read, channel_id: string): Promise<OfChannel> {
  const channel = await read(Channel, channel_id)
  if (channel.removed_at !== null) throw new Refusal('NOT_FOUND', `there is no channel ${channel_id}`)
  return { channel }
}

const add = command({
  name: 'channel.add',
  summary: 'Add a channel: a signed webhook that tells you of new items in your inbox. Its secret is shown once.',
  draft: 'ours: HXP 0.1 leaves open how people learn of requests',
  input: t.Object({
    endpoint: HookAddress,
    label: t.Optional(Label),
    min_priority: t.Optional(Priority),
    quiet_hours: t.Optional(QuietHours),
  }),
  output: t.Object({ channel: Channel.schema, secret: nullable(t.String({ description: 'shown once' })) }),
  callers: [human],
  requires: [
    rule<unknown, { readonly endpoint: string }>(
      'INVALID_REQUEST',
      'endpoint is an http or https address without a name, a password or a fragment',
      (_, { endpoint }, { terms }) => isHookAddress(endpoint, terms.publicHooksOnly),
      'endpoint cannot be called: give an https address of the public Internet (or http and others, where the operator allows it with --webhook-private), without a name, a password or a fragment',
    ),
  ],
  audit: 'channel.added',
  once: ['secret'],
  hides: true, // an address may hold a secret, as many of them do
  load: () => Promise.resolve({}),
  decide(_, { endpoint, label = '', min_priority = 'low', quiet_hours }, { actor, now, newId, secret }) {
    const channel: Channel = {
      id: newId('chn'),
      person: actor.id,
      kind: 'webhook',
      label,
      min_priority,
      ...(quiet_hours ? { quiet_hours } : {}),
      disabled: false,
      created_at: now,
      removed_at: null,
    }
    const hook = newHook(channel.id, endpoint, secret())
    const words = `a person has at most ${limits.hooksPerSubjectMax} channels`
    return {
      facts: [fact('channel.added', [image(Channel, channel)])],
      puts: [put(Hook, hook.id, hook)],
      atMost: [{ doc: Channel, index: 'person', prefix: [actor.id], max: limits.hooksPerSubjectMax, words }],
      output: { channel, secret: hook.secret },
    }
  },
  example: {
    given: 'empty',
    as: 'alice',
    input: {
      endpoint: 'https://example.com/inbox-hook',
      label: 'phone',
      min_priority: 'high',
      quiet_hours: { from: '22:00', to: '07:00', offset_minutes: 60 },
    },
  },
})

const list = query({
  name: 'channel.list',
  summary: 'List your channels: where you are told of new items in your inbox.',
  draft: 'ours: HXP 0.1 leaves open how people learn of requests',
  input: t.Object({ person: t.Optional(Id) }),
  output: t.Object({ items: t.Array(Channel.schema) }),
  callers: [
    role<{ whose: string }>('the person themself', (actor, { whose }) => actor.kind === 'human' && actor.id === whose),
    administrator,
    installationOwner,
  ],
  async load(read, { person }, { actor }) {
    const whose = person ?? actor.id
    const listed = await read.list(Channel, 'person', [[whose]], { limit: limits.hooksPerSubjectMax })
    const found = await Promise.all(listed.map(({ id }) => read.maybe(Channel, id)))
    return { whose, items: found.filter((channel) => channel !== null) }
  },
  view: ({ items }) => ({ items }),
  example: { given: 'told', as: 'alice', input: {} },
})

const remove = command({
  name: 'channel.remove',
  summary: 'Remove a channel. Notices that are under way are dropped.',
  draft: 'ours: HXP 0.1 leaves open how people learn of requests',
  input: t.Object({ channel_id: Id }),
  output: t.Object({ channel: Channel.schema }),
  callers: [itsPerson, administrator, installationOwner],
  requires: [],
  audit: 'channel.removed',
  load: (read, { channel_id }) => channelOf(read, channel_id),
  decide({ channel }, _, { now }) {
    const next: Channel = { ...channel, removed_at: now }
    return { facts: [fact('channel.removed', [image(Channel, next)])], puts: [put(Hook, channel.id, null)], output: { channel: next } }
  },
  example: { given: 'told', as: 'alice', input: ({ channel }) => ({ channel_id: channel.id }) },
})

const test = command({
  name: 'channel.test',
  summary: 'Send a test notice through a channel; `notice.list` shows its outcome.',
  draft: 'ours: HXP 0.1 leaves open how people learn of requests',
  input: t.Object({ channel_id: Id }),
  output: t.Object({ notice: Notice.schema }),
  callers: [itsPerson],
  requires: [],
  audit: 'channel.tested',
  load: (read, { channel_id }) => channelOf(read, channel_id),
  decide({ channel }, _, { now, newId }) {
    // What was given up as gone may have come back.
    const next: Channel = { ...channel, disabled: false }
    const said = { target: channel.id, whose: channel.person, order: newId('try'), event: 'test', request_id: null } as const
    const [notice, puts] = planNotice(said, now)
    return { facts: [fact('channel.tested', [image(Channel, next)])], puts, output: { notice } }
  },
  example: { given: 'told', as: 'alice', input: ({ channel }) => ({ channel_id: channel.id }) },
})

export const channelOperations = [add, list, remove, test]
