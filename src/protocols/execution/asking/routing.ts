// Routing: from a request to the people who must answer it (HXP 0.1, 6), and from one person to another.
import { Refusal } from '#kernel/declare/errors.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { judgesOf, type KnownTask } from '#kernel/ports/tasks.ts'
import type { Static } from '#kernel/declare/schema.ts'
import { outOfReach } from '../answering/quorum.ts'
import { allowedFor, approversBy, excludedIn, groupPeople } from './approvals.ts'
import { decidersOf, goneIn, hasPeople, insteadOf, isPersonOf, peopleIn, reachOf, reachOfTask } from './recipients.ts'
import { limits } from '#kernel/limits.ts'
import type { Fallback } from '../actions/action.ts'
import { GROUP, isInPool, type Approval, type Escalation, type Quorum, type Request } from '../schema.ts'
import { forbidsDefault, Policy, ruleFor, Rules } from './preferences.ts'

export type Routed = Pick<Request, 'owner' | 'people' | 'assigned_to'> & {
  /** Where several people answer. */
  readonly quorum?: Request['quorum']
  readonly gone?: readonly string[]
  readonly no_decider?: boolean
  /** The intended person, who cannot answer. */
  readonly instead_of?: string
}
export type Asking = Pick<Request, 'action' | 'role' | 'project_id' | 'tags' | 'requester' | 'quorum'> & {
  readonly risk?: Request['risk'] | undefined
  readonly label?: string | undefined
  readonly fallback?: Static<typeof Fallback> | undefined
  readonly escalate?: Static<typeof Escalation> | undefined
  /** The rules that name the people. */
  readonly approval: Approval | null
}

const wrong = (field: string, message: string): Refusal => new Refusal('INVALID_REQUEST', message, { field })

/** X10: the people of the task; with a quorum, the people who must agree; otherwise by the role. */
export async function routedTo(read: Read, asking: Asking, task: KnownTask | null, now: string): Promise<Routed> {
  const owner = task?.ownership.principal ?? (await ownerOf(read, asking.requester))
  if (asking.escalate) await refuseOddEscalation(read, asking, asking.escalate, task)
  if (asking.fallback === 'default') await refuseForbiddenDefault(read, asking, owner)
  if (task !== null) return { owner, ...(await routedByTask(read, task, owner, now, asking.approval)) }
  if (asking.quorum) return { owner, ...(await routedToQuorum(read, asking, asking.quorum, now)) }
  if (asking.approval !== null) return { owner, ...(await routedByRules(read, asking, asking.approval, now)) }
  const isPool = asking.role === 'pool'
  // The owner of the agent is usually one of them.
  if (isPool && ((await isPersonOf(read, owner, asking.project_id)) || (await hasPeople(read, asking.project_id))))
    return { owner, people: [], assigned_to: null }
  const who = asking.role === 'delegate' ? await delegateOf(read, asking, owner) : owner
  if (!isPool && (await isPersonOf(read, who, asking.project_id))) return { owner, people: [who], assigned_to: who }
  const people = await insteadOf(read, who, { owner, project_id: asking.project_id }, now)
  if (people.length === 0)
    throw new Refusal('NO_RECIPIENT', `${who} cannot answer, and nobody else is there: an administrator must enable or add a person`)
  return { owner, people, assigned_to: people[0]!, instead_of: who }
}

/** The people of a task who can answer. If none can, the request still waits, and the project's owners see it. */
export async function routedByTask(
  read: Read,
  task: KnownTask,
  turn: string,
  now: string,
  approval: Approval | null,
): Promise<Omit<Routed, 'owner'>> {
  const ruled = approval === null ? {} : { approval }
  const reach = await reachOfTask(read, task, now, ruled)
  const { people, quorum } = decidersOf({ ...ruled, task_id: task.id }, reach)
  const gone = goneIn(reach)
  const assigned_to = quorum !== undefined ? null : people.includes(turn) ? turn : (people[0] ?? null)
  return {
    people,
    assigned_to,
    ...(quorum === undefined ? {} : { quorum }),
    ...(gone.length > 0 ? { gone } : {}),
    ...(people.length === 0 ? { no_decider: true } : {}),
  }
}

type ToApprovers = Pick<Request, 'project_id'> & Partial<Pick<Request, 'approval' | 'approvers' | 'quorum'>>
/** The approvers of a session who can answer. If none can, the request waits, and the project's owners see it. */
export async function routedToApprovers(read: Read, request: ToApprovers, now: string): Promise<Omit<Routed, 'owner'>> {
  const isQuorum = request.quorum !== undefined
  const named = (await allowedFor(read, request, null)) ?? request.approvers ?? []
  const reach = await reachOf(read, named, request.project_id, now, excludedIn(request))
  const [people, gone] = [peopleIn(reach), goneIn(reach)]
  const assigned_to = isQuorum ? null : (people[0] ?? null)
  return {
    people,
    assigned_to,
    ...(gone.length > 0 ? { gone } : {}),
    ...(people.length === 0 && (!isQuorum || request.approval !== undefined) ? { no_decider: true } : {}),
  }
}

async function ownerOf(read: Read, requester: string): Promise<string> {
  const owner = (await read.subject(requester))?.owner
  if (!owner) throw new Refusal('PRECONDITION_FAILED', `nobody answers for ${requester}`)
  return owner
}

/** X26: applies only the rules of the agent's owner. A delegate who can no longer answer is skipped. */
async function delegateOf(read: Read, asking: Asking, owner: string): Promise<string> {
  const found = ruleFor((await read.raw(Rules, owner))?.rules ?? [], asking)
  return found !== null && (await isPersonOf(read, found.delegate_to, asking.project_id)) ? found.delegate_to : owner
}

/** X27: people of the project; a person who cannot answer is replaced by their substitutes. The asking agent is never among them. */
async function routedToQuorum(
  read: Read,
  { action, project_id, role, approval }: Asking,
  asked: Static<typeof Quorum>,
  now: string,
): Promise<Omit<Routed, 'owner'>> {
  if (role === 'pool') throw wrong('role', 'a quorum names its people: it does not go with a pool')
  const ruled = approval === null ? {} : { approval }
  const all = await reachOf(read, asked.of, project_id, now, excludedIn(ruled))
  for (const [who, by] of all)
    if (by.length === 0 && !(await isKnownIn(read, who, project_id)))
      throw wrong('quorum', `quorum.of: ${who} is not a person of the project`)
  const of = [...((await allowedFor(read, { project_id, quorum: asked, ...ruled }, null)) ?? asked.of)]
  const quorum = { n: Math.max(asked.n, approval?.n ?? 1), of }
  if (approval !== null && of.length < quorum.n) throw tooFew({ ...approval, n: quorum.n }, of)
  const reach = new Map([...all].filter(([who]) => of.includes(who)))
  const gone = goneIn(reach)
  if (gone.length > 0 && outOfReach({ action, quorum }, reach) !== null)
    throw new Refusal(
      'NO_RECIPIENT',
      `quorum: ${gone.join(', ')} cannot answer, and without them ${quorum.n} votes cannot be had: name others, or fewer votes`,
      { field: 'quorum' },
    )
  return { people: peopleIn(reach), assigned_to: null, quorum, ...(gone.length > 0 ? { gone } : {}) }
}

/** Those whom the rules for approvals name, of whom one or several answer. Roles and the rules of delegation choose among them no further. */
async function routedByRules(read: Read, { action, project_id }: Asking, approval: Approval, now: string): Promise<Omit<Routed, 'owner'>> {
  const of = [...(await approversBy(read, project_id, approval))]
  const reach = await reachOf(read, of, project_id, now, excludedIn({ approval }))
  const people = peopleIn(reach).slice(0, limits.peoplePerRequestMax)
  const gone = goneIn(reach)
  const quorum = approval.n > 1 ? { n: approval.n, of } : undefined
  if (people.length === 0 || of.length < approval.n || (quorum !== undefined && outOfReach({ action, quorum }, reach) !== null))
    throw tooFew(approval, people)
  return {
    people,
    assigned_to: quorum === undefined && people.length === 1 ? people[0]! : null,
    ...(quorum === undefined ? {} : { quorum }),
    ...(gone.length > 0 ? { gone } : {}),
  }
}
const tooFew = ({ rules, n }: Approval, found: readonly string[]): Refusal =>
  new Refusal(
    'NO_RECIPIENT',
    `the rules for approvals of ${rules.map(({ set_by }) => set_by).join(' and ')} leave ${found.length === 0 ? 'nobody' : `only ${found.join(', ')}`} to answer, and ${n === 1 ? 'a person has' : `${n} people have`} to: an owner changes the rules (policy.set) or the people whom they name`,
  )
/** Switched off or not. Of somebody outside, asking tells nothing, not even whether there is such a person. */
async function isKnownIn(read: Read, id: string, project_id: string): Promise<boolean> {
  const found = await read.subject(id)
  return found?.kind === 'human' && found.projects.has(project_id)
}

async function refuseForbiddenDefault(read: Read, asking: Asking, owner: string): Promise<void> {
  if (asking.approval !== null)
    throw wrong('fallback', 'a rule for approvals says who answers this, so no timeout does: choose pause or fail')
  const policy = await read.raw(Policy, owner)
  if (policy !== null && forbidsDefault(policy, asking))
    throw wrong('fallback', 'the person who answers for you has forbidden that a timeout decides: choose pause or fail')
}

async function refuseOddEscalation(
  read: Read,
  { project_id, quorum }: Asking,
  { to }: Static<typeof Escalation>,
  task: KnownTask | null,
): Promise<void> {
  if (quorum) throw wrong('escalate', 'the people of a quorum are fixed: escalate does not go with it')
  const { people, unknown } = await peopleNamed(read, to, project_id)
  if (unknown.length > 0) throw wrong('escalate', `escalate.to: ${unknown.join(', ')}: no active person and no group of the project`)
  const others = task === null ? [] : people.filter((who) => !judgesOf(task).includes(who))
  if (others.length > 0) throw wrong('escalate', `escalate.to: ${others.join(', ')} cannot decide on the task behind it`)
}

/** `groups`: the groups among the names, each with its people. */
export type Named = { readonly people: readonly string[]; readonly groups: readonly Called[]; readonly unknown: readonly string[] }
export type Called = { readonly group: string; readonly people: string[] }
/** The current people behind names of people and groups. */
export async function peopleNamed(read: Read, names: readonly string[], project_id: string): Promise<Named> {
  const people = new Set<string>()
  const groups: Called[] = []
  const unknown: string[] = []
  for (const name of names) {
    const members = name.startsWith(GROUP) ? await groupPeople(read, project_id, name.slice(GROUP.length)) : null
    const active = []
    for (const id of members ?? [name]) if (await isPersonOf(read, id, project_id)) active.push(id)
    for (const id of active) people.add(id)
    if (active.length === 0) unknown.push(name)
    else if (members !== null) groups.push({ group: name, people: active })
  }
  return { people: [...people], groups, unknown }
}

// --- From one person to another -----------------------------------------------------------------------------------------------

/** Hands the request to a person. The former person loses it; people to whom it was escalated keep it. */
function handedTo(request: Request, who: string, now: string): Request {
  const { claimed_until: _, snoozed, ...rest } = request
  // With a task behind it, those who decide on the task decide (H8): it is only shown as this one's.
  const isFree = request.task_id === undefined && request.approvers === undefined && request.approval === undefined
  const people = isFree ? [...new Set([who, ...(request.escalated_to ?? [])])] : request.people
  const snoozes = snoozed?.filter(({ by }) => people.includes(by) && by !== who) ?? []
  return { ...rest, people, assigned_to: who, assigned_at: now, ...(snoozes.length > 0 ? { snoozed: snoozes } : {}) }
}

export const assignedTo = (request: Request, who: string, now: string): Request => ({
  ...handedTo(request, who, now),
  status: request.role === 'pool' && request.task_id === undefined ? 'assigned' : request.status,
})

/** X21: a pool's request is assigned from the moment of its claim. A person who claims it again keeps the time of their first claim. */
export function claimedBy(request: Request, who: string, now: string, until: string): Request {
  const since = request.assigned_to === who && request.assigned_at !== null ? request.assigned_at : now
  return { ...handedTo(request, who, now), status: 'assigned', assigned_at: since, claimed_until: until }
}
/** A person who answers an unclaimed request of a pool also claims it. */
export const takenBy = (request: Request, who: string, now: string): Request =>
  isInPool(request) ? { ...handedTo(request, who, now), status: 'assigned' } : request
