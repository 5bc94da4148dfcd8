// The people who can answer at present (X27). If the person asked is switched off or has left the project, another person is asked. If no
// person is allowed to decide, those who can name a substitute see the request.
import { actsIn, type Subject } from '#kernel/declare/access.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { limits } from '#kernel/limits.ts'
import { judgesOf, type KnownTask } from '#kernel/ports/tasks.ts'
import { isInPool, type Request } from '../schema.ts'
import { allowedFor, excludedIn } from './approvals.ts'

/** The people who can answer for each person: the person, or their substitutes; empty: nobody can. */
export type Reach = ReadonlyMap<string, readonly string[]>

/** Why the system assigns a request to another person. */
export const CANNOT_ANSWER = 'cannot_answer'

/** Active, and works in the project. */
export const isPersonOf = async (read: Read, id: string, project_id: string): Promise<boolean> => actsIn(await read.subject(id), project_id)

const standsIn = ({ standsInFor }: Subject, who: string, project_id: string, now: string): boolean =>
  standsInFor.some(
    (substitution) =>
      substitution.id === who &&
      substitution.from <= now &&
      now < substitution.until &&
      (substitution.project_id ?? project_id) === project_id,
  )

async function substitutesOf(read: Read, who: string, project_id: string, now: string): Promise<string[]> {
  const named = await read.people({ substitutesOf: who, in: project_id, at: now })
  return named.filter((one) => actsIn(one, project_id) && standsIn(one, who, project_id, now)).map(({ id }) => id)
}

/** Each person, or the substitutes of one who cannot answer. `except`: those who must not answer as a substitute, such as the executor. */
export async function reachOf(
  read: Read,
  whose: readonly string[],
  project_id: string,
  now: string,
  except: readonly string[] = [],
): Promise<Reach> {
  const reached = new Map<string, readonly string[]>()
  for (const who of whose) {
    if (await isPersonOf(read, who, project_id)) reached.set(who, [who])
    else
      reached.set(
        who,
        (await substitutesOf(read, who, project_id, now)).filter((one) => !except.includes(one)),
      )
  }
  return reached
}
type Ruled = { readonly request: Request; readonly allowed: readonly string[] | null }
/** Whether the rules for approvals let this person answer, as themself or as the substitute of one of those whom they name. */
export async function isAnswerer(read: Read, { request, allowed }: Ruled, who: string, now: string): Promise<boolean> {
  if (allowed === null || allowed.includes(who)) return true
  const found = await read.subject(who)
  if (found === null || excludedIn(request).includes(who)) return false
  return allowed.some((one) => standsIn(found, one, request.project_id, now))
}

export const peopleIn = (reach: Reach): string[] => [...new Set([...reach.values()].flat())]
export const goneIn = (reach: Reach): string[] => [...reach].filter(([who, by]) => !by.includes(who)).map(([who]) => who)

type OfTask = Partial<Pick<Request, 'approval'>>
export async function reachOfTask(read: Read, task: KnownTask, now: string, { approval }: OfTask = {}): Promise<Reach> {
  const { project_id, executor } = task
  const allowed = await allowedFor(read, { project_id, ...(approval ? { approval } : {}) }, task)
  const except = [...(executor === null ? [] : [executor]), ...excludedIn(approval ? { approval } : {})]
  return reachOf(read, allowed ?? judgesOf(task), project_id, now, except)
}

/** Of a request without a task: those whom the rules, the quorum or a capability name; null: the usual routing asks one person. */
export async function reachOfNamed(read: Read, request: Request, now: string): Promise<Reach | null> {
  const named = (await allowedFor(read, request, null)) ?? request.quorum?.of ?? request.approvers
  return named === undefined ? null : reachOf(read, named, request.project_id, now, excludedIn(request))
}

type Asked = Pick<Request, 'owner' | 'project_id'>
/** The people who answer in place of a person who cannot: the substitute, the agent's owner, the project's owners, the installation's owners. */
export async function insteadOf(read: Read, who: string, { owner, project_id }: Asked, now: string): Promise<string[]> {
  for (const id of new Set([who, owner])) {
    const found = peopleIn(await reachOf(read, [id], project_id, now))
    if (found.length > 0) return found
  }
  const owners = (await read.people({ ownersOf: project_id })).filter(
    (one) => actsIn(one, project_id) && one.projects.get(project_id) === 'owner',
  )
  const asked = owners.length > 0 ? owners : (await read.people({ chiefs: true })).filter(({ isChief }) => isChief)
  return asked.map(({ id }) => id)
}

// --- An open request, looked at again ------------------------------------------------------------------------------------------

type Fields = Pick<Request, 'people' | 'assigned_to'> & { readonly gone?: readonly string[]; readonly no_decider?: boolean }

/** Replaces the people of a request. People who can no longer answer lose their snoozes. */
function withPeople(request: Request, { people, assigned_to, gone = [], no_decider = false }: Fields, now: string): Request {
  const { gone: _, no_decider: __, snoozed, escalated_to, ...rest } = request
  const asleep = snoozed?.filter(({ by }) => people.includes(by)) ?? []
  // Escalation recipients stay when the request changes hands, as long as they can answer.
  const called = escalated_to?.filter((who) => people.includes(who)) ?? []
  return {
    ...rest,
    people,
    assigned_to,
    assigned_at: assigned_to === request.assigned_to ? request.assigned_at : assigned_to === null ? null : now,
    ...(asleep.length > 0 ? { snoozed: asleep } : {}),
    ...(called.length > 0 ? { escalated_to: called } : {}),
    ...(gone.length > 0 ? { gone: [...gone] } : {}),
    ...(no_decider ? { no_decider } : {}),
  }
}

/**
 * A request that is bound to a task, or to a quorum: only those of its people who can answer. `turn`: whose turn it is by the
 * task.
 */
export function rerouteToPeople(before: Request, reach: Reach, now: string, turn: string | null = null): Request {
  const { people, quorum } = decidersOf(before, reach)
  const request: Request = quorum === undefined ? before : { ...before, quorum }
  const keeps = [request.assigned_to, turn].find((who) => who !== null && people.includes(who))
  const assigned_to = request.quorum === undefined ? (keeps ?? people[0] ?? null) : null
  const no_decider = people.length === 0 && (request.quorum === undefined || request.task_id !== undefined)
  return withPeople(request, { people, assigned_to, gone: goneIn(reach), no_decider }, now)
}

type Deciding = Partial<Pick<Request, 'approval' | 'task_id' | 'votes'>>
/** The people of a request. Where a rule wants several people of a task to agree and too few are left, no one can decide. */
export function decidersOf({ approval, task_id, votes = [] }: Deciding, reach: Reach): { people: string[]; quorum?: Request['quorum'] } {
  const n = approval?.n ?? 1
  if (n === 1 || task_id === undefined) return { people: peopleIn(reach).slice(0, limits.peoplePerRequestMax) }
  const voted = votes.map(({ by, in_place_of = by }) => in_place_of)
  const present = [...reach].filter(([, by]) => by.length > 0).map(([who]) => who)
  const of = [...new Set([...voted, ...present])]
  return of.length < n ? { people: [] } : { people: peopleIn(reach), quorum: { n, of } }
}

/** A request that one person has: somebody else has it from now on, where that person cannot answer. A pool has it back. */
async function handOn(read: Read, asked: Request, now: string): Promise<Request> {
  const canAnswer = async (who: string): Promise<boolean> => (await isPersonOf(read, who, asked.project_id)) || isChief(read, who)
  const isGone = asked.assigned_to !== null && !(await canAnswer(asked.assigned_to))
  const request = isGone && asked.role === 'pool' ? backInPool(asked) : asked
  const present = []
  for (const who of request.people) if (await canAnswer(who)) present.push(who)
  const { assigned_to } = request
  if (isInPool(request) ? await hasPeople(read, request.project_id) : assigned_to !== null && !isGone)
    return present.length === request.people.length ? request : withPeople(request, { people: present, assigned_to }, now)
  const instead = await insteadOf(read, asked.assigned_to ?? asked.owner, asked, now)
  const people = [...new Set([...instead, ...present])]
  const next = withPeople(request, { people, assigned_to: instead[0] ?? present[0] ?? null, no_decider: people.length === 0 }, now)
  return request.role === 'pool' && people.length > 0 ? { ...next, status: 'assigned' } : next
}

export function backInPool({ claimed_until: _, ...request }: Request): Request {
  return { ...request, status: 'pending', people: request.escalated_to ?? [], assigned_to: null, assigned_at: null }
}

/** Owners of the installation answer in every project. */
async function isChief(read: Read, who: string): Promise<boolean> {
  const found = await read.subject(who)
  return found?.isChief === true && !found.disabled
}
export const hasPeople = async (read: Read, project_id: string): Promise<boolean> =>
  (await read.people({ someOf: project_id })).some((one) => actsIn(one, project_id))

/** The request with current recipients; the same object if nothing changes. */
export async function lookedAt(
  read: Read,
  request: Request,
  task: KnownTask | null,
  now: string,
): Promise<{ next: Request; reach: Reach | null }> {
  if (task !== null) return same(request, rerouteToPeople(request, await reachOfTask(read, task, now, request), now), null)
  const reach = await reachOfNamed(read, request, now)
  if (reach === null) return same(request, await handOn(read, request, now), null)
  return same(request, rerouteToPeople(request, reach, now), request.quorum === undefined ? null : reach)
}
function same(request: Request, next: Request, reach: Reach | null): { next: Request; reach: Reach | null } {
  const routingOf = ({ status, people, assigned_to, gone = [], no_decider = false, quorum }: Request): string =>
    JSON.stringify([status, people.toSorted(), assigned_to, gone.toSorted(), no_decider, quorum ?? null])
  return { next: routingOf(request) === routingOf(next) ? request : next, reach }
}
