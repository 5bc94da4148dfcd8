// Agents: each has an owner, the person responsible for it.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { anyone, isViewer, role } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Read } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf } from '#kernel/declare/paging.ts'
import { nullable, t, type Static } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { administrators, keeper, seenProjects, shownTo } from '../access.ts'
import { sealKey } from './seal-key.ts'
import { Agent, AgentId, DEFAULT_PROJECT, Name, Project, ProjectId, User, UserId } from '../schema.ts'

type Adding = { readonly owner: User; readonly project_id: string | null }
const ownerThemself = role<Adding>(
  'the owner themself',
  (actor, { owner, project_id }) =>
    actor.kind === 'human' && actor.id === owner.id && (project_id === null || !isViewer(actor, project_id)),
)

/** A refusal of a taken id reveals that it exists, so only administrators, who can see every subject, can choose ids. */
const mayChoose = rule<Adding, { readonly id?: string }>(
  'UNAUTHORIZED',
  'only administrators choose an id: leave it out',
  (state, { id }, { actor }) => id === undefined || administrators.some((administrator) => administrator.is(actor, state)),
  'only administrators choose an id: leave it out',
)

const add = command({
  name: 'agent.add',
  summary: 'Register an agent and the person who answers for it.',
  draft: 'ours: identity is the host’s (HACP 0.1.0, Scope)',
  input: t.Object({
    id: t.Optional(AgentId),
    name: Name,
    owner: UserId,
    description: t.Optional(t.String({ maxLength: limits.textCharsMax })),
    project_id: t.Optional(
      t.Union([ProjectId, t.Null()], { description: 'the project to join as a member; project_default by default, null for none' }),
    ),
  }),
  output: t.Object({ agent: Agent.schema }),
  callers: [...administrators, ownerThemself],
  requires: [
    mayChoose,
    rule<Adding>(
      'PRECONDITION_FAILED',
      'the owner is an active person',
      ({ owner }) => !owner.disabled,
      'the owner is switched off: name an active person',
    ),
  ],
  isStep: true,
  audit: 'agent.added',
  async load(read, { id, owner, project_id = DEFAULT_PROJECT }) {
    if (project_id !== null) await read(Project, project_id)
    return {
      owner: await read(User, owner),
      project_id,
      taken: id !== undefined && (id === 'agent_system' || (await read.raw(Agent, id)) !== null),
    }
  },
  decide({ taken }, { id, name, owner, description = '', project_id = DEFAULT_PROJECT }, { now, newId }) {
    if (taken) throw new Refusal('CONFLICT', `there is an agent ${id} already`)
    const projects = project_id === null ? [] : [{ project_id, role: 'member' as const }]
    const agent: Agent = { id: id ?? newId('agent'), kind: 'agent', name, description, owner, projects, disabled: false, created_at: now }
    return { facts: [fact('agent.added', [image(Agent, agent)])], output: { agent } }
  },
  example: { given: 'empty', as: 'alice', input: { name: 'New', owner: 'user_alice' } },
})

/** An agent as readers see it. No fact records when it was last seen. */
const SeenAgent = t.Object({
  ...Agent.schema.properties,
  last_seen: nullable(t.String({ description: 'when the agent last called or listened; null: not as far as is known' })),
})
const agentView = (read: Read, agent: Agent): Static<typeof SeenAgent> => ({ ...agent, last_seen: read.seen(agent.id).last_seen })

const get = query({
  name: 'agent.get',
  summary: 'Fetch one agent.',
  draft: 'ours: identity',
  input: t.Object({ agent_id: AgentId }),
  output: t.Object({ agent: SeenAgent }),
  callers: [anyone],
  load: async (read, { agent_id }) => ({ agent: await read(Agent, agent_id) }),
  view: ({ agent }, _, { actor }, read) => ({ agent: agentView(read, shownTo(actor, agent)) }),
  example: { given: 'empty', as: 'alice', input: { agent_id: 'agent_devin' } },
})

const list = query({
  name: 'agent.list',
  summary: 'List the agents of a project, of an owner, or of the installation.',
  draft: 'ours: identity',
  input: t.Object({ project_id: t.Optional(ProjectId), owner: t.Optional(UserId), ...pageInput }),
  output: t.Object({ items: t.Array(SeenAgent), next_cursor: nextCursor }),
  callers: [anyone],
  async load(read, input, { actor }) {
    const { project_id, owner } = input
    if (project_id !== undefined) await read(Project, project_id)
    const seen = seenProjects(actor)
    const under = project_id ?? (seen === null || owner === actor.id ? owner : undefined)
    const places = under === undefined ? seen && [...seen, actor.id] : [under]
    const [name, prefixes] = places === null ? ['all', [[]]] : ['under', places.map((id) => [id])]
    const listed = await read.list(Agent, name, prefixes, pageIn('agent.list', input))
    return { listed, agents: await Promise.all(listed.map(({ id }) => read.maybe(Agent, id))) }
  },
  view({ listed, agents }, input, { actor }, read) {
    const fits = (agent: Agent): boolean => input.owner === undefined || agent.owner === input.owner
    const found = agents.filter((agent) => agent !== null).filter(fits)
    return pageOf(
      'agent.list',
      input,
      listed,
      found.map((agent) => agentView(read, shownTo(actor, agent))),
    )
  },
  example: { given: 'empty', as: 'alice', input: { project_id: DEFAULT_PROJECT } },
})

const update = command({
  name: 'agent.update',
  summary: 'Rename or describe an agent, or switch it off and on.',
  draft: 'ours: identity',
  input: t.Object({
    agent_id: AgentId,
    name: t.Optional(Name),
    description: t.Optional(t.String({ maxLength: limits.textCharsMax })),
    disabled: t.Optional(t.Boolean()),
  }),
  output: t.Object({ agent: Agent.schema }),
  callers: [...administrators, keeper],
  requires: [],
  isStep: true,
  audit: 'agent.updated',
  async load(read, { agent_id }) {
    const agent = await read(Agent, agent_id)
    return { agent, subject: agent }
  },
  decide({ agent }, { agent_id: _, ...changes }) {
    const next: Agent = { ...agent, ...changes }
    return { facts: [fact('agent.updated', [image(Agent, next)])], output: { agent: next } }
  },
  example: { given: 'empty', as: 'alice', input: { agent_id: 'agent_devin', description: 'Writes code.' } },
})

export const agentOperations = [add, get, list, update, sealKey]
