// Actors and roles. The actor is derived from the credential alone; fields of a body that name its sender are checked, never trusted. Being a
// person is a registered property, not the spelling of an id.
import { limits } from '../limits.ts'
import { Refusal } from './errors.ts'
import type { Basis, Key } from '../log/store.ts'

export type ActorKind = 'human' | 'agent' | 'service' | 'system'
export type ProjectRole = 'owner' | 'member' | 'viewer'

/**
 * How the caller authenticated: an API key, a browser session, a session on a remembered device whose sign-in is no longer fresh, a token
 * of an issuer, a ticket, or a well-known development credential.
 */
export type Via = 'key' | 'session' | 'remembered' | 'token' | 'ticket' | 'development'

export type Actor = {
  readonly id: string
  readonly kind: ActorKind
  /** The projects of this actor, and its role in each. */
  readonly projects: ReadonlyMap<string, ProjectRole> | 'all'
  /** An owner of this installation. */
  readonly owner?: boolean
  /** An auditor of this installation: reads every project, and changes nothing. */
  readonly auditor?: boolean
  /** People for whom this person currently decides as a substitute, each within the dates of the substitution. */
  readonly actsFor?: ReadonlySet<string>
  /** Substitutions in single projects: a project owner names a substitute for a person who has left. */
  readonly actsForIn?: ReadonlyMap<string, ReadonlySet<string>>
  /** Do not cache this actor: its rights change with time. */
  readonly fleeting?: boolean
  /** The credential carries only some of the actor's rights: it must not be exchanged for one that carries more. */
  readonly narrowed?: boolean
  /** The credential covers only some of the actor's projects: it cannot read counts over all of them. */
  readonly partial?: boolean
  /** Absent without a credential: for the system, and for programs that the server itself started. */
  readonly via?: Via | undefined
  /** When the credential expires, if none of its documents says so. */
  readonly until?: string
  readonly behalf?: string
  readonly basis?: Basis
  /** The credential's documents and their versions: a commit fails if one of them was changed or revoked in between. */
  readonly proof?: ReadonlyMap<Key, number>
}

/** The person represented, between two dates, in one project or, without a project, in all. */
export type StandIn = { readonly id: string; readonly from: string; readonly until: string; readonly project_id?: string | undefined }

/** Knowledge of a protocol about another person or agent: enough to hand work over, nothing about credentials. */
export type Subject = {
  readonly id: string
  readonly kind: ActorKind
  readonly disabled: boolean
  readonly projects: ReadonlyMap<string, ProjectRole>
  /** The person responsible for an agent; null for people and services. */
  readonly owner: string | null
  /** The people for whom they decide, and when. */
  readonly standsInFor: readonly StandIn[]
  /** They own this installation. */
  readonly isChief: boolean
  /** They audit this installation: no decision is theirs. */
  readonly isAuditor?: boolean
  /** Groups of projects that an issuer puts them into, as `<project_id>/<name>`. */
  readonly groups?: ReadonlySet<string>
  /** The public key (a JWK) that secrets for an agent are sealed to. */
  readonly sealKey: SealKey | null
}
export type SealKey = { readonly kty: string; readonly crv: string; readonly x: string; readonly kid?: string }

/**
 * The people to find: some active people of a project, its owners, the installation's owners, those who answer for its agents, those whom an
 * issuer puts into one of its groups, or a person's current substitutes in a project.
 */
export type PeopleSought =
  | { readonly someOf: string }
  | { readonly ownersOf: string }
  | { readonly chiefs: true }
  | { readonly agentOwnersIn: string }
  | { readonly inGroup: string; readonly of: string }
  | { readonly substitutesOf: string; readonly in: string; readonly at: string }

export const SYSTEM_ID = 'agent_system'
export const SYSTEM: Actor = { id: SYSTEM_ID, kind: 'system', projects: 'all' }

/** Scopes that are not projects: identity facts, and documents shared by the whole organisation. */
export const SYSTEM_SCOPE = 'system'
export const ORG_SCOPE = 'org'

export const isIn = (actor: Actor, scope: string): boolean =>
  actor.projects === 'all' || scope === ORG_SCOPE || scope === SYSTEM_SCOPE || actor.projects.has(scope)
export const ownsProject = (actor: Actor, project: string): boolean => actor.projects !== 'all' && actor.projects.get(project) === 'owner'

/** A viewer of the project reads all of it and changes nothing in it. An owner of the installation is never limited to that. */
export const isViewer = ({ projects, owner }: Actor, project: string): boolean =>
  projects !== 'all' && projects.get(project) === 'viewer' && owner !== true
/** Whether the actor reads all of the project, and not only what they take part in. */
export const readsProject = (actor: Actor, project: string): boolean =>
  actor.projects === 'all' ? actor.auditor === true : ownsProject(actor, project) || actor.projects.get(project) === 'viewer'
/** A person or an agent who works in the project: auditors and viewers only read. */
export const worksIn = (found: Subject | null, project: string): found is Subject =>
  found !== null && !found.disabled && found.isAuditor !== true && (found.projects.get(project) ?? 'viewer') !== 'viewer'
/** A person who can be asked in the project. */
export const actsIn = (found: Subject | null, project: string): boolean => found?.kind === 'human' && worksIn(found, project)

/** Whether the actor is this person, or currently their substitute in this project. Auditors and viewers speak for no one. */
export const speaksFor = (actor: Actor, id: string, project_id: string): boolean => {
  if (actor.kind !== 'human') return actor.id === id
  if (actor.auditor === true || isViewer(actor, project_id)) return false
  return actor.id === id || actor.actsFor?.has(id) === true || actor.actsForIn?.get(project_id)?.has(id) === true
}

/** The ids of all people for whom the actor may decide in at least one project, its own id first. */
export const idsActedFor = ({ id, actsFor, actsForIn }: Actor): string[] => [
  ...new Set([id, ...(actsFor ?? []), ...[...(actsForIn?.values() ?? [])].flatMap((people) => [...people])]),
]

/**
 * A role decides whether the actor has it for this state, and on whose behalf. The record holds its `name`; messages name its bearer
 * by `holder`.
 */
export type Role<S> = {
  readonly name: string
  readonly holder: string
  is(actor: Actor, state: S): boolean
  behalf(actor: Actor, state: S): string | null
  /** An agent can have it: operations without such a role are not offered to agents as tools. */
  readonly isForAgents?: true
}
export const role = <S>(name: string, is: Role<S>['is'], behalf: Role<S>['behalf'] = () => null): Role<S> => ({
  name,
  holder: name,
  is,
  behalf,
})
/** The role with another `holder` for messages. */
export const heldBy = <S>(holder: string, of: Role<S>): Role<S> => ({ ...of, holder })

/** A role that an agent can have. */
export const forAgentsToo = <S>(of: Role<S>): Role<S> => ({ ...of, isForAgents: true })

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
export const auditor = heldBy(
  'an auditor',
  role<unknown>('auditor', (actor) => actor.auditor === true && actor.projects === 'all'),
)
export const human = heldBy(
  'a person',
  role<unknown>('human', (actor) => actor.kind === 'human'),
)
export const anyone = forAgentsToo(role<unknown>('anyone', () => true))

/** The credential carries all rights of the actor: it is not narrowed, and the sign-in is fresh. */
export const isWhole = ({ narrowed, via }: Actor): boolean => narrowed !== true && via !== 'remembered'

export const PROOF_WORDS = `this device is remembered, and you signed in more than ${limits.proofMs / 60_000} minutes ago: sign in again to do this`

/** The only authorization check: returns the first role that the actor has, or throws a refusal that names the allowed roles. */
export function authorize<S>(name: string, callers: readonly Role<S>[], actor: Actor, state: S): Role<S> {
  const found = callers.find((candidate) => candidate.is(actor, state))
  if (!found && actor.via === 'remembered' && callers.some((candidate) => candidate.is({ ...actor, via: 'session' }, state)))
    throw new Refusal('PROOF_REQUIRED', PROOF_WORDS)
  if (!found) throw new Refusal('UNAUTHORIZED', `only ${holdersOf(callers)} can do this (${name}); ${callerOf(actor)}`)
  return found
}

/** The check of a query: an auditor reads what the admin key reads. */
export const authorizeReader = <S>(name: string, callers: readonly Role<S>[], actor: Actor, state: S): Role<S> =>
  auditor.is(actor, state) && callers.some((one) => one.name === administrator.name) ? auditor : authorize(name, callers, actor, state)

/** Auditors make no call that changes something. Refused before anything is read: it does not depend on what there is. */
export function refuseAuditor({ name, isForAuditors }: { readonly name: string; readonly isForAuditors?: boolean }, actor: Actor): void {
  if (actor.auditor !== true || isForAuditors === true) return
  throw new Refusal('UNAUTHORIZED', `auditors read, verify and export, and change nothing (${name}); you are ${actor.id}`)
}

/** The call of a viewer writes nothing in the project that they view, whatever roles the operation knows, so that none can forget viewers. */
export function refuseViewer(name: string, actor: Actor, scopes: readonly string[]): void {
  const viewed = scopes.find((scope) => isViewer(actor, scope))
  if (viewed !== undefined)
    throw new Refusal('UNAUTHORIZED', `viewers of ${viewed} read, and change nothing there (${name}); you are ${actor.id}`)
}

/** Whether a role depends on the actor alone and not on the state: its `is` takes one parameter. */
const isOfActor = ({ is }: Role<never>): boolean => is.length < 2

/**
 * The refusal after a failed load. A caller that is not allowed to make this call in any state must not learn that a part of the server is
 * missing, and must not be able to make the server look unavailable.
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

/** For messages: `the task's principal or a reviewer`. The server itself is named only if no other role is allowed. */
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
 * Fields in which a body may name its sender. If an operation declares such a field, it means something else; everywhere else the value
 * must be the actor's own id (or the task that it acts for).
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

/** Whether a field of this name names the sender of a body. */
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

/** The body without the fields that name its sender, after they were checked: `by`, or `principal` in `ownership`. */
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
