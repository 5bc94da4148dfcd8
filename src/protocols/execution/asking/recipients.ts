// The people who can answer at present (X27). If the person asked is switched off or has left the project, another person is asked. If no
// person is allowed to decide, the people who can name a substitute see the request.
import type { Subject } from '#kernel/declare/access.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { judgesOf, type KnownTask } from '#kernel/ports/tasks.ts'
import { isInPool, type Request } from '../schema.ts'

/** The people who can answer for each person: the person, or their substitutes; empty: nobody can. */
export type Reach = ReadonlyMap<string, readonly string[]>

/** Why the system assigns a request to another person. */
export const CANNOT_ANSWER = 'cannot_answer'

const isThere = (found: Subject | null, project_id: string): boolean =>
  found?.kind === 'human' && !found.disabled && found.projects.has(project_id)

/** Whether a person is active and in the project. */
export const isPersonOf = async (read: Read, id: string, project_id: string): Promise<boolean> =>
  isThere(await read.subject(id), project_id)

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
  return named.filter((person) => isThere(person, project_id) && standsIn(person, who, project_id, now)).map(({ id }) => id)
}

/** Each person, or the substitutes of a person who cannot answer. `except`: the executor, who must not judge the work as a substitute. */
export async function reachOf(
  read: Read,
  whose: readonly string[],
  project_id: string,
  now: string,
  except: string | null = null,
): Promise<Reach> {
  const reached = new Map<string, readonly string[]>()
  for (const who of whose) {
    if (await isPersonOf(read, who, project_id)) reached.set(who, [who])
    else
      reached.set(
        who,
        (await substitutesOf(read, who, project_id, now)).filter((substitute) => substitute !== except),
      )
  }
  return reached
}
export const peopleIn = (reach: Reach): string[] => [...new Set([...reach.values()].flat())]
export const goneIn = (reach: Reach): string[] => [...reach].filter(([who, by]) => !by.includes(who)).map(([who]) => who)

export const reachOfTask = (read: Read, task: KnownTask, now: string): Promise<Reach> =>
  reachOf(read, judgesOf(task), task.project_id, now, task.executor)

type Asked = Pick<Request, 'owner' | 'project_id'>
/** The people who answer in place of a person who cannot: the substitute, the agent's owner, the project's owners, the installation's owners. */
export async function insteadOf(read: Read, who: string, { owner, project_id }: Asked, now: string): Promise<string[]> {
  for (const id of new Set([who, owner])) {
    const found = peopleIn(await reachOf(read, [id], project_id, now))
    if (found.length > 0) return found
  }
  const owners = (await read.people({ ownersOf: project_id })).filter(({ projects }) => projects.get(project_id) === 'owner')
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
export function rerouteToPeople(request: Request, reach: Reach, now: string, turn: string | null = null): Request {
  const people = peopleIn(reach)
  const keeps = [request.assigned_to, turn].find((who) => who !== null && people.includes(who))
  const assigned_to = request.quorum === undefined ? (keeps ?? people[0] ?? null) : null
  const no_decider = people.length === 0 && request.quorum === undefined
  return withPeople(request, { people, assigned_to, gone: goneIn(reach), no_decider }, now)
}

/** Reassigns the request of a person who cannot answer, or returns it to its pool. */
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
  (await read.people({ someOf: project_id })).some((person) => isThere(person, project_id))

/** The request with current recipients; the same object if nothing changes. */
export async function lookedAt(
  read: Read,
  request: Request,
  task: KnownTask | null,
  now: string,
): Promise<{ next: Request; reach: Reach | null }> {
  if (task !== null) return same(request, rerouteToPeople(request, await reachOfTask(read, task, now), now), null)
  if (request.quorum === undefined && request.approvers !== undefined)
    return same(request, rerouteToPeople(request, await reachOf(read, request.approvers, request.project_id, now), now), null)
  if (request.quorum === undefined) return same(request, await handOn(read, request, now), null)
  const reach = await reachOf(read, request.quorum.of, request.project_id, now)
  return same(request, rerouteToPeople(request, reach, now), reach)
}
function same(request: Request, next: Request, reach: Reach | null): { next: Request; reach: Reach | null } {
  const routingOf = ({ status, people, assigned_to, gone = [], no_decider = false }: Request): string =>
    JSON.stringify([status, people.toSorted(), assigned_to, gone.toSorted(), no_decider])
  return { next: routingOf(request) === routingOf(next) ? request : next, reach }
}
