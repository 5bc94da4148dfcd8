// Readers of inboxes: the inboxes that an actor reads, and the requests there that are before that actor: one rule for every list, number
// and stream.
import { isIn, isViewer, speaksFor, idsActedFor, type Actor } from '#kernel/declare/access.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { isInPool, namesOf, poolOf, Request, turns, UNDECIDED, undecidedFor } from '../schema.ts'

export type Inboxes = {
  /** The actor and all people for whom they decide in some project. */
  readonly people: readonly string[]
  /** The pools of their projects. */
  readonly pools: readonly string[]
  /** Projects in which they could name a substitute if no person can decide. */
  readonly undecided: readonly string[]
  /** The actor decides for some of the people in some projects only, so items must be checked one by one. */
  readonly isPartly: boolean
  /** Whether a request in one of these inboxes is before the actor. */
  holds(request: Request): boolean
}

export const inboxesReadBy = (actor: Actor): Inboxes => ({
  people: idsActedFor(actor),
  pools: actor.projects === 'all' ? [] : [...actor.projects.keys()].filter((id) => !isViewer(actor, id)).map(poolOf),
  undecided: undecidedFor(actor),
  isPartly: actor.actsForIn !== undefined,
  holds: (request) => isBefore(actor, request),
})

/** The request is listed under a name for which the actor answers in its project. */
export function isBefore(actor: Actor, request: Request): boolean {
  const { project_id } = request
  const shared =
    request.no_decider === true ? undecidedFor(actor) : isIn(actor, project_id) && !isViewer(actor, project_id) ? [poolOf(project_id)] : []
  return namesOf(request).some((name) => shared.includes(name) || speaksFor(actor, name, project_id))
}

/** Why the actor has the request: `you`, an absent person's id, a group, `pool` or `undecided`; null: it is in none of their inboxes. */
export function throughOf(actor: Actor, request: Request): string | null {
  const { people, assigned_to, called = [], project_id } = request
  if (assigned_to === actor.id) return YOU
  const group = called.find((entry) => entry.people.includes(actor.id))
  if (people.includes(actor.id)) return group?.group ?? YOU
  const absent = namesOf(request).find((name) => speaksFor(actor, name, project_id))
  if (absent !== undefined) return absent
  if (isInPool(request) && isIn(actor, project_id) && !isViewer(actor, project_id)) return 'pool'
  return request.no_decider === true ? UNDECIDED : null
}
const YOU = 'you'

/** The inbox of one person, as an owner of the installation looks into it. */
export const inboxOf = (person: string): Inboxes => ({ people: [person], pools: [], undecided: [], isPartly: false, holds: () => true })

export const allOf = ({ people, pools, undecided }: Inboxes): string[] => [...people, ...pools, ...undecided]

/** The prefixes of open requests of these tiers in these inboxes, without snoozed ones. */
export const openUnder = (inboxes: readonly string[], tiers: readonly string[]): string[][] =>
  inboxes.flatMap((who) => turns.flatMap((turn) => tiers.map((tier) => [who, turn, tier])))

/** How many open requests one inbox has of one turn and tier. */
export type OpenCount = { readonly turn: string; readonly tier: string; readonly count: number }
/** More than there are turns and tiers, with one for snoozed requests. */
export const OPEN_COUNTS_MAX = 100
export async function openIn(read: Read, who: string): Promise<OpenCount[]> {
  const counts = await read.counts(Request, 'open', [who], { limit: OPEN_COUNTS_MAX })
  return counts.map(({ parts: [turn, tier], count }) => ({ turn: turn!, tier: tier!, count }))
}
