// An item of an inbox: the asking agent and its owner, facts that the server knows, and the consequence of each answer. The agent's text is
// separate, as its claim, and always escaped.
import { speaksFor, SYSTEM_ID, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { INSTALLATION } from '#kernel/policy/gate-policy.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { either, nullable, t, type Static } from '#kernel/declare/schema.ts'
import type { Registered } from '#kernel/ports/names.ts'
import { Card, cardOf, shownDigest, visible } from '../answering/shown-request.ts'
import { AnswerEffects, effectsOf, isDeclinable, rejectionEndsTask } from './consequences.ts'
import { Argument, argumentsOf, Guard, guardOf } from './guard.ts'
import { Action, actionOf, actions, actionVerbs } from '../actions/index.ts'
import type { KnownCall } from '#kernel/ports/gate.ts'
import type { KnownTask } from '#kernel/ports/tasks.ts'
import { taskBehind } from '../access.ts'
import { throughOf } from './readers.ts'
import { caseOf, Id, Kind, Priority, Request, Risk, snoozedUntil, Status, Timestamp } from '../schema.ts'
import { shownText, warningsOf } from '../asking/hostile-text.ts'

const Named = t.Object({ id: Id, name: nullable(t.String()) })

/** A decision of people in the same case: the same agent asked the same thing. */
const Precedent = t.Object({ request_id: Id, at: Timestamp, by: Named, result: t.Unknown(), reason: nullable(t.String()) })
/** A link of the chain from the responsible person, through each agent that delegated, to the target. */
const Link = t.Object({ kind: either('person', 'agent', 'system', 'target'), ...Named.properties })

/** The server's own knowledge, independent of the agent. */
const Facts = t.Object({
  agent: t.Object({
    registered_at: nullable(Timestamp),
    owner: nullable(Id),
    owner_name: nullable(t.String()),
    open_requests: t.Integer(),
  }),
  project: Named,
  task: nullable(
    t.Object({
      id: Id,
      goal: t.String(),
      state: t.String(),
      deadline: nullable(Timestamp),
      principal: Id,
      principal_name: nullable(t.String()),
    }),
  ),
  call: nullable(
    t.Object(
      {
        server: t.String(),
        tool: t.String(),
        rule: nullable(t.String()),
        changed: t.Boolean({ description: 'the definition of the tool is not the trusted one' }),
        unattended: t.Boolean({ description: 'no client waits for the answer: the agent has to call again' }),
      },
      { description: 'the call of a tool at the gate' },
    ),
  ),
  chain: t.Array(Link),
  risk: t.Object({
    said: nullable(t.Union([Risk], { description: 'the risk as the agent gives it' })),
    floor: nullable(t.Union([Risk], { description: 'the least risk that a rule of people gives it' })),
    rule: nullable(t.String({ description: 'that rule, and whose it is' })),
  }),
  precedents: t.Array(Precedent),
  flagged: t.Array(t.String()),
})

/** One word for the question, independent of its protocol: for a request, its action. */
export const Asks = either(...actionVerbs, 'escalation', 'interrupt', 'review')
export type Asks = Static<typeof Asks>
export const asksOf = ({ kind, action }: Pick<Request, 'kind' | 'action'>): Asks => (kind === 'request' ? actions[action].asks : kind)

const Option = t.Object({
  label: t.String(),
  risk: nullable(t.Union([Risk], { description: 'where the agent gave the option a risk of its own' })),
})

export const Item = t.Object({
  request_id: Id,
  kind: Kind,
  asks: Asks,
  action: Action,
  status: Status,
  title: t.String(),
  card: Card,
  digest: t.String(),
  task_id: nullable(Id),
  checkpoint_id: nullable(t.String({ description: 'the checkpoint of the task that it stands for' })),
  project: Named,
  agent: t.Object({ ...Named.properties, label: t.String() }),
  acts_for: Named,
  through: nullable(
    t.String({ description: 'why it is before you: you, pool, group:<name>, or the id of the person in whose place you answer' }),
  ),
  risk: nullable(Risk),
  guard: Guard,
  arguments: t.Array(Argument, { description: 'as many short ones as a list has room for' }),
  options: nullable(t.Array(Option)),
  order: nullable(
    t.Array(t.String(), { description: 'JSON pointers to the names in details, as the agent wrote them; null: as they are sorted' }),
  ),
  reject_ends_task: t.Boolean(),
  declinable: t.Boolean(),
  reason: nullable(t.Object({ text: t.String(), by_agent: t.Literal(true) })),
  facts: Facts,
  effects: AnswerEffects,
  priority: Priority,
  created_at: Timestamp,
  age_seconds: t.Integer(),
  expires_at: nullable(Timestamp),
  overdue: t.Boolean(),
  escalated: t.Boolean(),
  assignee: nullable(Id),
  assignee_name: nullable(t.String()),
  people: t.Integer(),
  no_decider: t.Boolean(),
  snoozed_until: nullable(Timestamp),
  remarks: t.Integer(),
  quorum: nullable(t.Object({ n: t.Integer(), of: t.Integer(), voted: t.Integer(), yours: t.Boolean() })),
  approval: nullable(
    t.Object(
      {
        words: t.String({ description: 'who answers it, as a sentence' }),
        n: t.Integer({ description: 'how many of them have to agree' }),
        groups: t.Array(t.String()),
        people: t.Array(Named),
        excluded: t.Array(t.Object({ ...Named.properties, as: either('agent_owner', 'principal') })),
        set_by: t.Array(Id, { description: 'whose rules they are: a project, or the installation' }),
      },
      { description: 'who answers it by the rules for approvals' },
    ),
  ),
  ended: nullable(
    t.Object({
      at: Timestamp,
      by: Named,
      result: t.Unknown(),
      reason: nullable(t.String()),
      via: nullable(t.String({ description: 'how the person had proven who they are' })),
      by_default: t.Boolean(),
    }),
  ),
})
export type Item = Static<typeof Item>
const { card, facts, effects, ...inRow } = Item.properties
/** An item of a list without the fields that are expensive to read. */
export const Row = t.Object(inRow)
export type Row = Static<typeof Row>

const questionIn = (request: Request): string => actionOf(request).question(request.payload)

/** Its first line, escaped, and never longer than a line. */
function lineOf(text: string): string {
  const line = shownText(text.trim().split('\n', 1)[0]!)
  return line.length > limits.labelCharsMax ? `${line.slice(0, limits.labelCharsMax - 1)}…` : line
}
export const titleOf = (request: Request): string => lineOf(questionIn(request))

/** The title of an item. An interrupted task is named by the task and the person who stopped it. */
async function titleFor(request: Request, actor: Actor, knowing: Knowing): Promise<string> {
  const task = request.kind === 'interrupt' ? await knowing.task(request.task_id) : null
  if (task === null) return titleOf(request)
  const { takeover } = (request.payload as { details?: { takeover?: boolean } }).details ?? {}
  const who = request.requester === actor.id ? 'You' : ((await personNamed(request.requester, knowing)).name ?? request.requester)
  return lineOf(`${who} ${takeover === true ? 'took over' : 'stopped'} ${lineOf(task.spec.goal)}`)
}

/** Labels as people see them, each with the risk that the agent gave it. */
function optionsOf(request: Request): Item['options'] {
  const { payload, option_risks } = request
  const labels = actionOf(request).options(payload)
  return labels === null ? null : labels.map((label, i) => ({ label: shownText(String(label)), risk: option_risks?.[i] ?? null }))
}

const PLAIN = /^[\n\t\x20-\x7E]*$/
/** Warnings to people about the text. Plain letters deceive only if two labels look the same, and most text is plain. */
function flaggedIn(request: Request): string[] {
  const { payload, agent_id } = request
  const labels = 'options' in payload ? payload.options : []
  const more = actionOf(request).texts?.(payload) ?? []
  // In a call of a gate only the arguments are the agent's text.
  const args = request.call_id === undefined ? [] : [JSON.stringify(payload)]
  const texts = [agent_id, questionIn(request), ...labels, ...more, ...args, ...(payload.context === undefined ? [] : [payload.context])]
  return warningsOf(texts.every((text) => PLAIN.test(text)) ? labels : texts)
}

/** Knowledge that the items of one page have in common is asked for once. */
export type Knowing = {
  named(id: string): Promise<Registered | null>
  openOf(requester: string): Promise<number>
  task(id: string | undefined): Promise<KnownTask | null>
  call(id: string | undefined): Promise<KnownCall | null>
  /** The latest answers in the same case that the reader can see. */
  precedents(request: Request): Promise<readonly Request[]>
}
/** As many as are looked at, and as many as are shown. */
const [CASES_SEEN, CASES_SHOWN] = [20, 5] as const

export function knowingBy(read: Read): Knowing {
  const counts = new Map<string, Promise<number>>()
  const cases = new Map<string, Promise<readonly Request[]>>()
  async function answeredUnder(prefix: readonly string[]): Promise<readonly Request[]> {
    const listed = await read.list(Request, 'cases', [prefix], { limit: CASES_SEEN, reverse: true })
    const found = await Promise.all(listed.map(({ id }) => read.maybe(Request, id)))
    return found.filter((one) => one !== null)
  }
  return {
    // For any reader: they are allowed to know the person in the item.
    named: (id) => read.ports.names.named(read, id),
    openOf(requester) {
      const found = counts.get(requester) ?? read.count(Request, 'asker', [requester, 'open'])
      counts.set(requester, found)
      return found
    },
    task: (id) => taskBehind(read, id),
    call: (id) => (id === undefined ? Promise.resolve(null) : read.ports.calls.call(read, id)),
    async precedents(request) {
      const prefix = [request.project_id, request.requester, caseOf(request)]
      const name = prefix.join('\0')
      const found = cases.get(name) ?? answeredUnder(prefix)
      cases.set(name, found)
      return (await found).filter(({ id }) => id !== request.id).slice(0, CASES_SHOWN)
    },
  }
}

const nameOf = (found: Registered | null): string | null => (found === null ? null : lineOf(found.name))
const isPerson = (id: string): boolean => id.startsWith('user_')
/** The name of a person or an agent; null: the id is neither, such as a pseudonym. */
export const nameFor = async (id: string, knowing: Knowing): Promise<string | null> => nameOf(await knowing.named(id))
async function personNamed(id: string, knowing: Knowing): Promise<Static<typeof Named>> {
  return { id, name: isPerson(id) ? nameOf(await knowing.named(id)) : null }
}

/** The thing that an operator would look for first: `details.target`. */
function targetIn({ payload }: Request): string | null {
  const { details } = payload as { details?: { target?: unknown } }
  return typeof details?.target === 'string' && details.target !== '' ? lineOf(details.target) : null
}

async function chainOf(request: Request, task: KnownTask | null, knowing: Knowing): Promise<Item['facts']['chain']> {
  const { owner, requester } = request
  const links: Item['facts']['chain'] = [{ kind: 'person', ...(await personNamed(owner, knowing)) }]
  for (const id of new Set([...(task?.delegators ?? []), requester])) {
    if (id === owner) continue
    if (isPerson(id)) links.push({ kind: 'person', ...(await personNamed(id, knowing)) })
    else if (id === SYSTEM_ID) links.push({ kind: 'system', id, name: null })
    else links.push({ kind: 'agent', id, name: nameOf(await knowing.named(id)) })
  }
  const target = targetIn(request)
  return target === null ? links : [...links, { kind: 'target', id: target, name: null }]
}

async function precedentsOf(request: Request, knowing: Knowing): Promise<Item['facts']['precedents']> {
  const found = await knowing.precedents(request)
  return Promise.all(
    found.map(async ({ id, receipt }) => {
      const { completed_at: at, completed_by, result, reason } = receipt!
      const by = await personNamed(completed_by, knowing)
      return { request_id: id, at, by, result: visible(result), reason: reason === undefined ? null : shownText(reason) }
    }),
  )
}

function riskFactsOf({ floor, risk, session_id, call_id }: Request, call: KnownCall | null): Item['facts']['risk'] {
  const rated = risk ?? null
  // A gate of this server has rated the task of another harness.
  if (session_id !== undefined) return { said: null, floor: rated, rule: 'the rules of this server for tasks of other harnesses' }
  if (floor !== undefined) return { said: floor.said, floor: floor.risk, rule: shownText(floor.rule) }
  if (call_id !== undefined) return { said: null, floor: rated, rule: call?.rule ?? null }
  return { said: rated, floor: null, rule: null }
}

function callFactsOf(call: KnownCall | null): Item['facts']['call'] {
  if (call === null) return null
  const { server, tool, rule, changed, unattended } = call
  return { server, tool: lineOf(tool), rule, changed, unattended }
}

async function factsOf(request: Request, task: KnownTask | null, knowing: Knowing): Promise<Item['facts']> {
  const { requester, project_id } = request
  const call = await knowing.call(request.call_id)
  const agent = await knowing.named(requester)
  const project = await knowing.named(project_id)
  const owner = agent?.owner ?? null
  return {
    agent: {
      registered_at: agent?.created_at ?? null,
      owner,
      owner_name: owner === null ? null : (await personNamed(owner, knowing)).name,
      open_requests: await knowing.openOf(requester),
    },
    project: { id: project_id, name: nameOf(project) },
    task: task && {
      id: task.id,
      goal: lineOf(task.spec.goal),
      state: task.state,
      deadline: task.deadline,
      principal: task.ownership.principal,
      principal_name: (await personNamed(task.ownership.principal, knowing)).name,
    },
    call: callFactsOf(call),
    chain: await chainOf(request, task, knowing),
    risk: riskFactsOf(request, call),
    precedents: await precedentsOf(request, knowing),
    flagged: flaggedIn(request),
  }
}

async function approvalOf({ approval }: Request, knowing: Knowing): Promise<Item['approval']> {
  if (approval === undefined) return null
  const { rules, n, excluded } = approval
  const named = [...new Set(rules.flatMap(({ by }) => by.people ?? []))]
  const groups = [...new Set(rules.flatMap(({ by }) => by.groups ?? []))]
  const people = await Promise.all(named.map((id) => personNamed(id, knowing)))
  const out = await Promise.all(excluded.map(async ({ id, as }) => ({ ...(await personNamed(id, knowing)), as })))
  const set_by = rules.map((rule) => rule.set_by)
  const name = (one: Static<typeof Named>): string => one.name ?? one.id
  const of = [...groups.map((group) => `group ${group}`), ...people.map(name)].join(', ')
  const not = out.map((one) => `, not ${name(one)} (${exclusions[one.as]})`).join('')
  const by = set_by.map((id) => (id === INSTALLATION ? 'the installation' : id)).join(' and ')
  return { words: `${n} of ${of}${not}, by the rules of ${by}`, n, groups, people, excluded: out, set_by }
}
const exclusions = { agent_owner: 'answers for the agent', principal: 'principal of the task' } as const

async function endOf({ receipt }: Request, knowing: Knowing): Promise<Item['ended']> {
  if (receipt === undefined) return null
  const { completed_at: at, completed_by, result, reason, via, basis } = receipt
  return {
    at,
    by: await personNamed(completed_by, knowing),
    result: visible(result),
    reason: reason === undefined ? null : shownText(reason),
    via,
    by_default: basis.kind === 'default',
  }
}

/** Another harness is known by its own name. */
const askerOf = async ({ requester, agent_id, session_id }: Request, knowing: Knowing): Promise<string | null> =>
  session_id === undefined ? nameOf(await knowing.named(requester)) : lineOf(agent_id.replace(/^hcp:/, ''))

/** The item without the fields that are expensive to read and to write. */
export async function rowOf(request: Request, actor: Actor, now: string, knowing: Knowing): Promise<Row> {
  const { id, requester, agent_id, owner, payload, quorum, votes = [], created_at, people, assigned_to } = request
  return {
    request_id: id,
    kind: request.kind,
    asks: asksOf(request),
    action: request.action,
    status: request.status,
    title: await titleFor(request, actor, knowing),
    digest: shownDigest(request),
    task_id: request.task_id ?? null,
    checkpoint_id: request.checkpoint_id ?? null,
    project: { id: request.project_id, name: nameOf(await knowing.named(request.project_id)) },
    agent: { id: requester, name: await askerOf(request, knowing), label: shownText(agent_id) },
    acts_for: await personNamed(owner, knowing),
    through: throughOf(actor, request),
    risk: request.risk ?? null,
    guard: guardOf(request, flaggedIn(request), titleOf(request) !== questionIn(request)),
    arguments: argumentsOf(request),
    options: optionsOf(request),
    order: request.details_order?.map(shownText) ?? null,
    reject_ends_task: rejectionEndsTask(request),
    declinable: isDeclinable(request),
    reason: payload.context === undefined ? null : { text: shownText(payload.context), by_agent: true },
    priority: request.priority,
    created_at,
    age_seconds: Math.max(0, Math.floor((Date.parse(now) - Date.parse(created_at)) / 1_000)),
    expires_at: request.expires_at,
    overdue: request.overdue,
    escalated: request.escalated_at !== undefined,
    assignee: assigned_to,
    assignee_name: assigned_to === null ? null : (await personNamed(assigned_to, knowing)).name,
    people: people.length,
    no_decider: request.no_decider === true,
    snoozed_until: snoozedUntil(request, actor.id),
    remarks: request.thread?.length ?? 0,
    quorum: quorum
      ? { n: quorum.n, of: quorum.of.length, voted: votes.length, yours: votes.some(({ by }) => speaksFor(actor, by, request.project_id)) }
      : null,
    approval: await approvalOf(request, knowing),
    ended: await endOf(request, knowing),
  }
}

const votersOf = ({ quorum }: Request, knowing: Knowing): Promise<string[]> =>
  Promise.all((quorum?.of ?? []).map(async (id) => (await personNamed(id, knowing)).name ?? id))

export async function itemOf(request: Request, actor: Actor, now: string, knowing: Knowing): Promise<Item> {
  const task = await knowing.task(request.task_id)
  return {
    ...(await rowOf(request, actor, now, knowing)),
    card: cardOf(request),
    facts: await factsOf(request, task, knowing),
    effects: effectsOf(request, { actor, task, voters: await votersOf(request, knowing) }),
  }
}
