// One item of an inbox: who asks and for whom, what the server itself knows, and the consequence of each answer. Text of the agent stands
// apart from that, as its claim, and nowhere unescaped.
import { speaksFor, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { kindOf, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { cardOf, shownDigest } from '../answering/shown-request.ts'
import { Effects, effectsOf } from './consequences.ts'
import { type Payload, Action } from '../asking/payload.ts'
import { taskBehind, type TaskBehind } from '../access.ts'
import { Id, Kind, Priority, Request, Risk, snoozedUntil, Status, Timestamp } from '../schema.ts'
import { shown, warningsOf } from '../asking/hostile-text.ts'

const Named = t.Object({ id: Id, name: nullable(t.String()) })

/** What the server knows by itself, whatever the agent says. */
const Facts = t.Object({
  agent: t.Object({ registered_at: nullable(Timestamp), owner: nullable(Id), open_requests: t.Integer() }),
  project: Named,
  task: nullable(t.Object({ id: Id, goal: t.String(), state: t.String(), deadline: nullable(Timestamp), principal: Id })),
  flagged: t.Array(t.String()),
})

export const Item = t.Object({
  request_id: Id,
  kind: Kind,
  action: Action,
  status: Status,
  title: t.String(),
  card: t.Object({}, { additionalProperties: true }),
  digest: t.String(),
  task_id: nullable(Id),
  agent: t.Object({ ...Named.properties, label: t.String() }),
  acts_for: Named,
  risk: nullable(Risk),
  reason: nullable(t.Object({ text: t.String(), by_agent: t.Literal(true) })),
  facts: Facts,
  effects: Effects,
  priority: Priority,
  created_at: Timestamp,
  age_seconds: t.Integer(),
  expires_at: nullable(Timestamp),
  overdue: t.Boolean(),
  assignee: nullable(Id),
  people: t.Integer(),
  no_decider: t.Boolean(),
  snoozed_until: nullable(Timestamp),
  remarks: t.Integer(),
  quorum: nullable(t.Object({ n: t.Integer(), of: t.Integer(), voted: t.Integer(), yours: t.Boolean() })),
  ended: nullable(t.Object({ at: Timestamp, by: t.String(), by_default: t.Boolean() })),
})
export type Item = Static<typeof Item>

const questionIn = (payload: Payload): string =>
  'question' in payload ? payload.question : 'item' in payload ? payload.item : payload.prompt

/** Its first line, escaped, and never longer than a line. */
function lineOf(text: string): string {
  const line = shown(text.trim().split('\n', 1)[0]!)
  return line.length > limits.labelCharsMax ? `${line.slice(0, limits.labelCharsMax - 1)}…` : line
}
export const titleOf = ({ payload }: Request): string => lineOf(questionIn(payload))

const PLAIN = /^[\n\t\x20-\x7E]*$/
/** What people should be told about the text. Plain letters deceive only where two labels look the same, and most text is plain. */
function flaggedIn({ payload, agent_id }: Request): string[] {
  const labels = 'question' in payload ? payload.options : []
  const texts = [agent_id, questionIn(payload), ...labels, ...(payload.context === undefined ? [] : [payload.context])]
  return warningsOf(texts.every((text) => PLAIN.test(text)) ? labels : texts)
}

type Registered = { readonly name: string; readonly created_at?: string; readonly owner?: string }
type Task = TaskBehind & { readonly spec: { readonly goal: string }; readonly deadline: string | null }

/** What the items of one page have in common is asked for once. */
export type Knowing = {
  registered(kind: 'user' | 'agent' | 'project', id: string): Promise<Registered | null>
  openOf(requester: string): Promise<number>
  task(id: string | undefined): Promise<Task | null>
}
export function knowingBy(read: Read): Knowing {
  const counts = new Map<string, Promise<number>>()
  return {
    // Whoever asks: who is before them is theirs to know.
    registered: async (kind, id) => (await read.raw(kindOf(`identity.${kind}/`), id)) as Registered | null,
    openOf(requester) {
      const found = counts.get(requester) ?? read.count(Request, 'asker', [requester, 'open'])
      counts.set(requester, found)
      return found
    },
    task: async (id) => (await taskBehind(read, id)) as Task | null,
  }
}

const nameOf = (found: Registered | null): string | null => (found === null ? null : lineOf(found.name))

async function factsOf(request: Request, task: Task | null, knowing: Knowing): Promise<Item['facts']> {
  const { requester, project_id } = request
  const agent = await knowing.registered('agent', requester)
  const project = await knowing.registered('project', project_id)
  return {
    agent: {
      registered_at: agent?.created_at ?? null,
      owner: agent?.owner ?? null,
      open_requests: await knowing.openOf(requester),
    },
    project: { id: project_id, name: nameOf(project) },
    task: task && {
      id: task.id,
      goal: lineOf(task.spec.goal),
      state: task.state,
      deadline: task.deadline,
      principal: task.ownership.principal,
    },
    flagged: flaggedIn(request),
  }
}

export async function itemOf(request: Request, actor: Actor, now: string, knowing: Knowing): Promise<Item> {
  const { id, requester, agent_id, owner, payload, quorum, votes = [], receipt, created_at, people } = request
  const task = await knowing.task(request.task_id)
  return {
    request_id: id,
    kind: request.kind,
    action: request.action,
    status: request.status,
    title: titleOf(request),
    card: cardOf(request),
    digest: shownDigest(request),
    task_id: request.task_id ?? null,
    agent: { id: requester, name: nameOf(await knowing.registered('agent', requester)), label: shown(agent_id) },
    acts_for: { id: owner, name: nameOf(await knowing.registered('user', owner)) },
    risk: request.risk ?? null,
    reason: payload.context === undefined ? null : { text: shown(payload.context), by_agent: true },
    facts: await factsOf(request, task, knowing),
    effects: effectsOf(request, task),
    priority: request.priority,
    created_at,
    age_seconds: Math.max(0, Math.floor((Date.parse(now) - Date.parse(created_at)) / 1_000)),
    expires_at: request.expires_at,
    overdue: request.overdue,
    assignee: request.assigned_to,
    people: people.length,
    no_decider: request.no_decider === true,
    snoozed_until: snoozedUntil(request, actor.id),
    remarks: request.thread?.length ?? 0,
    quorum: quorum
      ? { n: quorum.n, of: quorum.of.length, voted: votes.length, yours: votes.some(({ by }) => speaksFor(actor, by, request.project_id)) }
      : null,
    ended: receipt ? { at: receipt.completed_at, by: receipt.completed_by, by_default: receipt.basis.kind === 'default' } : null,
  }
}
