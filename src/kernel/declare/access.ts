// Actors and roles. The actor is made from the credential and from nothing else; claims of a body about its sender are checked, never
// believed. Being a person is a registered property, not the spelling of an id.
import { limits } from '../limits.ts'
import { Refusal } from './errors.ts'
import type { Basis, Key } from '../log/store.ts'

export type ActorKind = 'human' | 'agent' | 'service' | 'system'
export type ProjectRole = 'owner' | 'member'

/**
 * How a credential was proven: an API key, a browser's session, a session on a remembered device whose sign-in is not fresh any more, a token
 * of an issuer, a ticket, or a word that everybody knows.
 */
export type Via = 'key' | 'session' | 'remembered' | 'token' | 'ticket' | 'development'

export type Actor = {
  readonly id: string
  readonly kind: ActorKind
  /** Which projects exist for this actor, and as what. */
  readonly projects: ReadonlyMap<string, ProjectRole> | 'all'
  /** An owner of this installation. */
  readonly owner?: boolean
  /** People for whom this person decides at present, each within dates that they set. */
  readonly actsFor?: ReadonlySet<string>
  /** The same for single projects: whoever owns a project names somebody in the place of a person who has left it. */
  readonly actsForIn?: ReadonlyMap<string, ReadonlySet<string>>
  /** Do not cache: the rights of this actor change with time. */
  readonly fleeting?: boolean
  /** The credential carries less than the whole of them: it must not be traded for one that carries more. */
  readonly narrowed?: boolean
  /** It is for some of their projects only: what is counted over all of them is not for it. */
  readonly partial?: boolean
  /** Absent where there was no credential: the system, and programs that the server itself has started. */
  readonly via?: Via | undefined
  /** When the credential ends, where none of its documents says so. */
  readonly until?: string
  readonly behalf?: string
  readonly basis?: Basis
  /** The credential's documents and their versions: a commit fails if one of them was changed or revoked in between. */
  readonly proof?: ReadonlyMap<Key, number>
}

/** In whose place, between two dates, and where; without a project, everywhere. */
export type StandIn = { readonly id: string; readonly from: string; readonly until: string; readonly project_id?: string | undefined }

/** Knowledge of a protocol about another person or agent: enough to hand work over, nothing about credentials. */
export type Subject = {
  readonly id: string
  readonly kind: ActorKind
  readonly disabled: boolean
  readonly projects: ReadonlyMap<string, ProjectRole>
  /** The person who answers for an agent; null for everybody else. */
  readonly owner: string | null
  /** In whose place they decide, and from when until when. */
  readonly standsInFor: readonly StandIn[]
  /** They own this installation. */
  readonly isChief: boolean
  /** The public key (a JWK) that secrets for an agent are sealed to; null: there is none. */
  readonly sealKey: SealKey | null
}
export type SealKey = { readonly kty: string; readonly crv: string; readonly x: string; readonly kid?: string }

/** Which people are looked for: a few active ones of a project, its owners, those of the installation, or present substitutes of somebody there. */
export type PeopleSought =
  | { readonly someOf: string }
  | { readonly ownersOf: string }
  | { readonly chiefs: true }
  | { readonly substitutesOf: string; readonly in: string; readonly at: string }

export const SYSTEM_ID = 'agent_system'
export const SYSTEM: Actor = { id: SYSTEM_ID, kind: 'system', projects: 'all' }

/** Scopes that are no project: identity facts, and what the whole organisation shares. */
export const SYSTEM_SCOPE = 'system'
export const ORG_SCOPE = 'org'

export const isIn = (actor: Actor, scope: string): boolean =>
  actor.projects === 'all' || scope === ORG_SCOPE || scope === SYSTEM_SCOPE || actor.projects.has(scope)
export const ownsProject = (actor: Actor, project: string): boolean => actor.projects !== 'all' && actor.projects.get(project) === 'owner'

/** Themself, or as the dated substitute of somebody, in this project. */
export const speaksFor = (actor: Actor, id: string, project_id: string): boolean =>
  actor.id === id || (actor.kind === 'human' && (actor.actsFor?.has(id) === true || actor.actsForIn?.get(project_id)?.has(id) === true))

/** Everybody for whom somebody may speak in at least one project, themself first. */
export const idsActedFor = ({ id, actsFor, actsForIn }: Actor): string[] => [
  ...new Set([id, ...(actsFor ?? []), ...[...(actsForIn?.values() ?? [])].flatMap((people) => [...people])]),
]

/**
 * A role says whether the actor has it for this state, and in whose place where it is not their own. Its name stands on the record; its
 * holder is what a sentence calls those who have it.
 */
export type Role<S> = {
  readonly name: string
  readonly holder: string
  is(actor: Actor, state: S): boolean
  behalf(actor: Actor, state: S): string | null
}
export const role = <S>(name: string, is: Role<S>['is'], behalf: Role<S>['behalf'] = () => null): Role<S> => ({
  name,
  holder: name,
  is,
  behalf,
})
/** The same role, called so in sentences. */
export const heldBy = <S>(holder: string, of: Role<S>): Role<S> => ({ ...of, holder })

export const system = heldBy(
  'the server itself',
  role<unknown>('system', (actor) => actor.kind === 'system'),
)
/** The admin key: it administers and reads; it never decides and is never a principal. */
export const administrator = heldBy(
  'the admin key',
  role<unknown>('administrator', (actor) => actor.kind === 'service' && actor.projects === 'all'),
)
export const installationOwner = heldBy(
  'an owner of the installation',
  role<unknown>('owner', (actor) => actor.kind === 'human' && actor.owner === true),
)
export const human = heldBy(
  'a person',
  role<unknown>('human', (actor) => actor.kind === 'human'),
)
export const anyone = role<unknown>('anyone', () => true)

/** Nothing of them is left out by their credential: neither by its bounds, nor because they signed in long ago. */
export const isWhole = ({ narrowed, via }: Actor): boolean => narrowed !== true && via !== 'remembered'

export const PROOF_WORDS = `this device is remembered, and you signed in more than ${limits.proofMs / 60_000} minutes ago: sign in again to do this`

/** The one gate: the first role that the actor has, or a refusal that names those who may. */
export function authorize<S>(name: string, callers: readonly Role<S>[], actor: Actor, state: S): Role<S> {
  const found = callers.find((candidate) => candidate.is(actor, state))
  if (!found && actor.via === 'remembered' && callers.some((candidate) => candidate.is({ ...actor, via: 'session' }, state)))
    throw new Refusal('PROOF_REQUIRED', PROOF_WORDS)
  if (!found) throw new Refusal('UNAUTHORIZED', `only ${holdersOf(callers)} can do this (${name}); ${callerOf(actor)}`)
  return found
}

/** Roles that say the same for every state: `role` is given a function of the actor alone. */
const isOfActor = ({ is }: Role<never>): boolean => is.length < 2

/**
 * The refusal to answer with when loading failed. A part of the server that is missing is no answer to a caller who may not make this call in any
 * state: it must learn neither that, nor be able to make the server look unavailable.
 */
export function refusalOfLoad(error: unknown, name: string, callers: readonly Role<never>[], actor: Actor): unknown {
  if (!(error instanceof Refusal) || error.code !== 'UNAVAILABLE' || !callers.every(isOfActor)) return error
  try {
    authorize(name, callers as readonly Role<unknown>[], actor, null)
    return error
  } catch (denial) {
    return denial
  }
}

/** In a sentence: `the task's principal or a reviewer`. The server itself is named only where no other role may. */
export function holdersOf(callers: readonly Pick<Role<never>, 'name' | 'holder'>[]): string {
  const others = callers.filter(({ name }) => name !== system.name)
  const holders = [...new Set((others.length > 0 ? others : callers).map(({ holder }) => holder))]
  return holders.length === 1 ? holders[0]! : `${holders.slice(0, -1).join(', ')} or ${holders.at(-1)!}`
}

function callerOf(actor: Actor): string {
  if (administrator.is(actor, null)) return `you use ${administrator.holder}`
  return actor.kind === 'service' ? `you use the key of ${actor.id}` : `you are ${actor.id}`
}

/**
 * Names under which a body may say who sends it. An operation that declares such a field means something else by it; everywhere
 * else the value must be the actor's own id (or the task in whose name it acts).
 */
const claims = new Map<string, readonly string[]>(
  [
    ['actor'],
    ['actor_id'],
    ['by'],
    ['caller_id'],
    ['principal'],
    ['produced_by'],
    ['raised_by'],
    ['requested_by'],
    ['resolved_by'],
    ['reviewer'],
    ['submitted_by'],
    ['user_id'],
    ['agent_id'],
    ['ownership', 'principal'],
    ['provenance', 'produced_by'],
    ['resolution', 'by'],
  ].map((path) => [path[0]!, path]),
)

/** Whether a field of this name says who sends a body. */
export const isClaim = (name: string): boolean => claims.has(name)

export function refuseFalseClaims(raw: unknown, declared: object, actor: Actor): void {
  if (typeof raw !== 'object' || raw === null) return
  for (const name in raw) {
    const path = claims.get(name)
    if (path === undefined || !Object.hasOwn(raw, name) || Object.hasOwn(declared, name)) continue
    let claimed: unknown = raw
    for (const step of path)
      claimed = typeof claimed === 'object' && claimed !== null ? (claimed as Record<string, unknown>)[step] : undefined
    if (claimed === undefined || claimed === null || claimed === actor.id || claimed === (raw as { task_id?: unknown }).task_id) continue
    if (path.length === 1 && typeof claimed === 'object') continue
    throw new Refusal('UNAUTHORIZED', `${path.join('.')} names another actor; you are ${actor.id}`, { field: path.join('.') })
  }
}

/** The body without the fields that say who sends it, once they are known to be true: `by`, or `principal` in `ownership`. */
export function withoutClaims(raw: unknown, declared: object): unknown {
  if (typeof raw !== 'object' || raw === null) return raw
  let rest: Record<string, unknown> | null = null
  for (const name in raw) {
    const path = claims.get(name)
    if (path === undefined || !Object.hasOwn(raw, name) || Object.hasOwn(declared, name)) continue
    const held = (raw as Record<string, unknown>)[name]
    const isObject = typeof held === 'object' && held !== null
    const saysMore = isObject && (path.length === 1 || Object.keys(held).some((inner) => inner !== path[1]))
    if (saysMore) continue
    rest ??= { ...raw }
    delete rest[name]
  }
  return rest ?? raw
}
