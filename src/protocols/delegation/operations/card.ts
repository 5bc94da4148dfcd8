// Agent cards: an agent's declaration about itself, by which others find it.
import { canonical } from '#kernel/log/canonical-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image, put } from '#kernel/declare/facts.ts'
import { type Actor, administrator, anyone, forAgentsToo, installationOwner, isWhole, role, system } from '#kernel/declare/access.ts'
import { hookSecretOf, isHookAddress } from '#kernel/declare/webhook-address.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Read } from '#kernel/declare/operation.ts'
import { cursorOf, nextCursor, pageInput, pageSize, placeOf } from '#kernel/declare/paging.ts'
import { moreProjects, projectInput, projectsFor } from '#kernel/declare/projects.ts'
import { nullable, t, type Static } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { serves } from '../capabilities/compatibility.ts'
import { queueOf } from '../runs/places.ts'
import { AgentCard, CapabilityRef, Card, Endpoint, Id, Open, Reach, Signing, Tag } from '../schema.ts'

export type OfAgent = { readonly agent: { readonly id: string; readonly owner: string | null } }
export const agentItself = forAgentsToo(
  role<OfAgent>('the agent itself', (actor, { agent }) => actor.kind === 'agent' && actor.id === agent.id),
)
export const agentOwner = role<OfAgent>(
  'the owner of the agent',
  (actor, { agent }) => actor.kind === 'human' && isWhole(actor) && actor.id === agent.owner,
)

/** An agent in one of the actor's projects; any other is reported as not found. */
export async function seenAgent(read: Read, id: string | undefined, actor: Actor) {
  const agent_id = id ?? (actor.kind === 'agent' ? actor.id : undefined)
  if (agent_id === undefined) throw new Refusal('INVALID_REQUEST', 'agent_id is required', { field: 'agent_id' })
  const found = await read.subject(agent_id)
  const isSeen = actor.projects === 'all' || actor.owner === true || actor.id === agent_id
  const shares = (projects: ReadonlyMap<string, unknown>): boolean =>
    [...projects.keys()].some((project) => (actor.projects as ReadonlyMap<string, unknown>).has(project))
  if (!found || found.kind !== 'agent' || (!isSeen && !shares(found.projects)))
    throw new Refusal('AGENT_NOT_FOUND', `there is no agent ${agent_id}`)
  return found
}

export const signingFor = (id: string, random: string, before: string | null = null, before_until: string | null = null): Signing => ({
  id,
  secret: hookSecretOf(random),
  before,
  before_until,
})

const calledAt = (reach: string | undefined): boolean => reach === 'webhook' || reach === 'a2a'

/** A credential stays with the server that it was given for. */
function endpointOf(
  id: string,
  { endpoint, credential }: { endpoint?: string; credential?: string },
  before: Endpoint | null,
): Endpoint | null {
  if (endpoint === undefined) return null
  const isSamePlace = before !== null && URL.parse(before.endpoint)?.origin === URL.parse(endpoint)?.origin
  const kept = credential ?? (isSamePlace ? before.credential : undefined)
  return { id, endpoint, ...(kept === undefined ? {} : { credential: kept }) }
}

const publish = command({
  name: 'agent.publish',
  summary: 'Publish the card of an agent: its capabilities, how it is reached, how many runs it takes at a time. A later card replaces it.',
  draft: 'AAP 0.1.0, AgentCard',
  input: t.Object({
    agent_id: t.Optional(Id),
    name: t.String({ minLength: 1, maxLength: limits.nameCharsMax }),
    description: t.Optional(t.String({ maxLength: limits.textCharsMax })),
    capabilities: t.Optional(t.Array(CapabilityRef, { maxItems: limits.capabilitiesMax })),
    tags: t.Optional(t.Array(Tag, { maxItems: limits.tagsMax })),
    endpoint: t.Optional(t.String({ maxLength: 2_000 })),
    protocol: t.Optional(t.String({ minLength: 1, maxLength: limits.labelCharsMax, description: 'a2a, acp, agntcy or another' })),
    manifest: t.Optional(Open),
    concurrency: t.Optional(nullable(t.Integer({ minimum: 1, maximum: limits.concurrencyMax }))),
    reach: t.Optional(Reach),
    credential: t.Optional(
      t.String({
        minLength: 1,
        maxLength: limits.a2aTokenCharsMax,
        description: 'the key that a remote agent (reach a2a) expects as `Authorization: Bearer`; never shown again',
      }),
    ),
    available: t.Optional(t.Boolean()),
    a2a: t.Optional(
      t.Boolean({ description: 'show its card at /a2a/<agent_id> to the public, and take messages there from those who may give it work' }),
    ),
  }),
  output: t.Object({
    card: Card.schema,
    secret: t.Optional(
      nullable(t.String({ description: 'the secret that messages to its webhook are signed with; shown once, when it is made' })),
    ),
  }),
  callers: [system, administrator, installationOwner, agentItself, agentOwner],
  requires: [
    rule<unknown, { readonly reach?: string; readonly credential?: string }>(
      'INVALID_REQUEST',
      'only a remote agent has a credential',
      (_, { reach, credential }) => credential === undefined || reach === 'a2a',
      'credential is for agents that are reached by a2a',
    ),
    rule<unknown, { readonly reach?: string; readonly endpoint?: string }>(
      'INVALID_REQUEST',
      'an agent that is reached by webhook or a2a names an endpoint that the server may call',
      (_, { reach, endpoint = '' }, { terms }) => !calledAt(reach) || isHookAddress(endpoint, terms.publicHooksOnly),
      'endpoint is missing or cannot be called: an agent that is reached by webhook or a2a gives an https address of the public Internet (or http and others, where the operator allows it with --webhook-private), without a name, a password or a fragment',
    ),
  ],
  audit: 'agent.registered',
  once: ['secret'],
  async load(read, { agent_id }, { actor }) {
    const agent = await seenAgent(read, agent_id, actor)
    // Reading the old card makes its version a condition of the commit.
    const before = await read.raw(Card, agent.id)
    const [reached, signing] = [await read.raw(Endpoint, agent.id), await read.raw(Signing, agent.id)]
    return { agent, before, reached, signing, queue: await queueOf(read, agent.id) }
  },
  decide({ agent, before, reached, signing, queue }, input, { now, secret }) {
    const manifest = input.manifest ?? {}
    if (Buffer.byteLength(canonical(manifest)) > limits.manifestBytesMax)
      throw new Refusal('INVALID_REQUEST', `manifest is at most ${limits.manifestBytesMax} bytes`, { field: 'manifest' })
    const { id, owner, projects, disabled } = agent
    const card: Card = {
      id,
      agent_id: id,
      name: input.name,
      description: input.description ?? '',
      capabilities: withDeclared(input.capabilities ?? [], before?.declared ?? []),
      protocol: input.protocol ?? 'countersign',
      tags: [...new Set(input.tags ?? [])],
      manifest,
      concurrency: input.concurrency ?? null,
      reach: input.reach ?? 'pull',
      available: input.available ?? true,
      ...(input.a2a === true ? { a2a: true } : {}),
      ...(before?.declared === undefined ? {} : { declared: before.declared }),
      owner,
      projects: [...projects.keys()],
      disabled,
      updated_at: now,
    }
    const endpoint = endpointOf(id, input, reached)
    const newSigning = card.reach === 'webhook' && signing === null ? signingFor(id, secret()) : null
    return {
      facts: [fact('agent.registered', [image(Card, card)])],
      puts: [
        ...(endpoint || reached ? [put(Endpoint, id, endpoint)] : []),
        ...(newSigning ? [put(Signing, id, newSigning)] : []),
        ...queue.puts(now),
      ],
      atMost: queue.atMost,
      output: { card, ...(newSigning ? { secret: newSigning.secret } : {}) },
    }
  },
  example: {
    given: 'empty',
    as: 'devin',
    input: {
      agent_id: 'agent_devin',
      name: 'Devin',
      capabilities: [{ capability_id: 'cap:code-review', version: '2.1.0' }],
      tags: ['typescript'],
      concurrency: 4,
    },
  },
})

/** Only agents and the runtime read endpoints; people and services never do (AAP 0.1.0, AgentCard). */
async function shownTo(read: Read, card: Card, actor: Actor): Promise<AgentCard> {
  if (actor.kind !== 'agent' && actor.kind !== 'system') return card
  const found = await read.raw(Endpoint, card.id)
  return found ? { ...card, endpoint: found.endpoint } : card
}

const get = query({
  name: 'agent.card',
  summary: 'Fetch the card of one agent.',
  draft: 'AAP 0.1.0, AgentCard',
  input: t.Object({ agent_id: Id }),
  output: t.Object({ card: AgentCard }),
  callers: [anyone],
  async load(read, { agent_id }, { actor }) {
    const card = await read.maybe(Card, agent_id)
    if (!card) throw new Refusal('AGENT_NOT_FOUND', `there is no card of an agent ${agent_id}`)
    return { card: await shownTo(read, card, actor) }
  },
  view: ({ card }) => ({ card }),
  example: { given: 'offered', as: 'alice', input: { agent_id: 'agent_robin' } },
})

const DiscoverInput = t.Object({
  capability: t.Optional(nullable(CapabilityRef)),
  tags: t.Optional(nullable(t.Array(Tag, { maxItems: limits.tagsMax }))),
  ...projectInput,
  ...pageInput,
})

const discover = query({
  name: 'agent.discover',
  summary: 'Find agents of a project by capability (in a compatible version) and tags: all that is named must fit.',
  draft: 'AAP 0.1.0, Discovery',
  input: DiscoverInput,
  output: t.Object({ items: t.Array(AgentCard), next_cursor: nextCursor, ...moreProjects }),
  callers: [anyone],
  async load(read, input, { actor }) {
    const { capability = null } = input
    const tags = input.tags ?? []
    const { ids, more } = await projectsFor(read, input, actor)
    const [index, rest] = capability
      ? (['capability', [capability.capability_id]] as const)
      : tags.length > 0
        ? (['tag', [tags[0]!]] as const)
        : (['project', []] as const)
    const prefixes = ids.map((id) => [id, ...rest])
    const fits = (card: Card): boolean =>
      (capability === null || serves(card.capabilities, capability)) && tags.every((tag) => card.tags.includes(tag))
    const items: AgentCard[] = []
    const limit = pageSize(input)
    let place = placeOf('agent.discover', input)
    for (let examined = 0; examined < limits.examinedMax;) {
      const page = await read.list(Card, index, prefixes, { after: place, limit })
      for (const { id, at } of page) {
        const card = await read.maybe(Card, id)
        if (card && fits(card)) items.push(await shownTo(read, card, actor))
        place = at
        if (items.length === limit || read.isFull()) return { items, place, more }
      }
      examined += page.length
      if (page.length < limit) return { items, place: undefined, more }
    }
    return { items, place, more }
  },
  view: ({ items, place, more }, input) => ({
    items,
    next_cursor: place === undefined ? null : cursorOf('agent.discover', input, place),
    ...more,
  }),
  example: {
    given: 'offered',
    as: 'devin',
    input: { capability: { capability_id: 'cap:code-review', version: '2.0.0' }, tags: ['typescript'] },
  },
})

const sync = command({
  name: 'card.sync',
  summary: 'Bring a card up to date with the registration of its agent: projects, owner, whether it is switched off.',
  draft: 'ours: identity and card are two documents',
  input: t.Object({ agent_id: Id }),
  output: t.Object({ card: Card.schema }),
  callers: [system],
  requires: [],
  audit: 'agent.card_synced',
  async load(read, { agent_id }, { actor }) {
    const card = await read.maybe(Card, agent_id)
    if (!card) throw new Refusal('AGENT_NOT_FOUND', `there is no card of an agent ${agent_id}`)
    return { card, agent: await seenAgent(read, agent_id, actor) }
  },
  decide({ card, agent: { owner, projects, disabled } }, _, { now }) {
    const next: Card = { ...card, owner, projects: [...projects.keys()], disabled, updated_at: now }
    return { facts: [fact('agent.card_synced', [image(Card, next)])], output: { card: next } }
  },
  example: { given: 'offered', as: 'system', input: { agent_id: 'agent_robin' } },
})

/** The name and the version are shown among the capabilities of the card; the other fields are private to the operator. */
const Declaration = t.Object(
  { name: CapabilityRef.properties.capability_id, version: CapabilityRef.properties.version },
  { additionalProperties: true, description: 'null: it does this no longer' },
)
type DeclaredRef = Static<typeof Declaration>
/** Adds the operator's declarations, which other harnesses find regardless of the agent's own card. */
function withDeclared(listed: readonly CapabilityRef[], declared: readonly object[]): CapabilityRef[] {
  const refs = (declared as readonly DeclaredRef[]).map(({ name, version }) => ({ capability_id: name, version }))
  return [...listed.filter((ref) => !refs.some(({ capability_id }) => capability_id === ref.capability_id)), ...refs]
}

const declare = command({
  name: 'card.declare',
  summary: 'Show on the card of an agent what it does for other harnesses. The system calls it when one is declared or withdrawn.',
  draft: 'ours: HCP 1.0 leaves open where capabilities are found',
  input: t.Object({
    agent_id: Id,
    name: t.String({ maxLength: limits.labelCharsMax }),
    declaration: nullable(Declaration),
  }),
  output: t.Object({ card: Card.schema }),
  callers: [system],
  requires: [],
  audit: 'agent.card_synced',
  load: async (read, { agent_id }, { actor }) => ({ card: await read.raw(Card, agent_id), agent: await seenAgent(read, agent_id, actor) }),
  decide({ card, agent }, { name, declaration }, { now }) {
    const { id, owner, projects, disabled } = agent
    const known: Card = card ?? {
      id,
      agent_id: id,
      name: id,
      description: '',
      capabilities: [],
      protocol: 'countersign',
      tags: [],
      manifest: {},
      concurrency: null,
      reach: 'pull',
      available: true,
      owner,
      projects: [...projects.keys()],
      disabled,
      updated_at: now,
    }
    const others = (known.declared ?? []).filter((ref) => (ref as DeclaredRef).name !== name)
    const declared = declaration === null ? others : [...others, declaration]
    const undeclared = known.capabilities.filter(({ capability_id }) => capability_id !== name)
    const next: Card = { ...known, declared, capabilities: withDeclared(undeclared, declared), updated_at: now }
    return { facts: [fact('agent.card_synced', [image(Card, next)])], output: { card: next } }
  },
  example: {
    given: 'offered',
    as: 'system',
    input: { agent_id: 'agent_robin', name: 'synthesis', declaration: { name: 'synthesis', version: '1.0.0' } },
  },
})

const pin = command({
  name: 'card.pin',
  summary: "Keep the key that signed a remote agent's own card. The system calls it when the card is read for the first time.",
  draft: 'A2A 1.0, 8.4 (signatures of agent cards); ours: the first key stays until the agent is published again',
  input: t.Object({ agent_id: Id, key: t.String({ minLength: 1, maxLength: 100, description: 'its thumbprint, or none' }) }),
  output: t.Object({ card: Card.schema }),
  callers: [system],
  requires: [],
  audit: 'agent.card_synced',
  async load(read, { agent_id }, { actor }) {
    const card = await read.maybe(Card, agent_id)
    if (!card) throw new Refusal('AGENT_NOT_FOUND', `there is no card of an agent ${agent_id}`)
    await seenAgent(read, agent_id, actor)
    return { card }
  },
  decide({ card }, { key }, { now }) {
    if (card.card_key !== undefined) return { facts: [], output: { card } }
    const next: Card = { ...card, card_key: key, updated_at: now }
    return { facts: [fact('agent.card_synced', [image(Card, next)])], output: { card: next } }
  },
  example: { given: 'offered', as: 'system', input: { agent_id: 'agent_robin', key: 'none' } },
})

export const cardOperations = [publish, get, discover, sync, declare, pin]
