// Authentication: resolves a credential to an actor. Every call reads the credential again, so a revocation takes effect on the next call.
import { timingSafeEqual } from 'node:crypto'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor, ProjectRole, Via } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { idOf, keyOf, type Doc, type Static, type TSchema } from '#kernel/declare/schema.ts'
import type { Key as StoreKey, Store } from '#kernel/log/store.ts'
import { withLinksNow } from './groups.ts'
import { ADMIN_SERVICE, Agent, GroupLink, Key, Login, membershipsOf, Project, Session, SubjectLink, User } from './schema.ts'

export type Credential = { readonly kind: 'bearer' | 'session'; readonly token: string; readonly resource?: string }

const CREDENTIAL_CHARS_MAX = 200
/** Every refused credential gets the same message, so that callers cannot find out which ids exist. */
export const noValidCredential = (): Refusal => new Refusal('UNAUTHENTICATED', 'a valid API key or session is required')

/** `cs_<id without its prefix>_<secret>`: the id finds the document, so no index over secrets is needed. */
export const tokenOf = (id: string, secret: string): string => `cs_${id.slice(id.indexOf('_') + 1)}_${secret}`

export function partsOf(token: string): { id: string; secret: string } {
  const match = token.length > CREDENTIAL_CHARS_MAX ? null : /^cs_([0-9A-Z]{26})_([A-Za-z0-9_-]{43})$/.exec(token)
  if (!match) throw noValidCredential()
  return { id: match[1]!, secret: match[2]! }
}

/** The id of the key in an accepted token: cut out, because every call asks for it. */
export const keyIdIn = (token: string): string => `key_${token.slice(TOKEN_PREFIX.length, TOKEN_PREFIX.length + ID_CHARS)}`
const TOKEN_PREFIX = 'cs_'
const ID_CHARS = 26

export function matches(secret: string, digest: string): boolean {
  const found = Buffer.from(sha256(secret))
  const expected = Buffer.from(digest)
  return found.length === expected.length && timingSafeEqual(found, expected)
}

type Proof = Map<StoreKey, number>

export async function authenticate(store: Store, credential: Credential, nowMs: number): Promise<Actor> {
  const now = timestampOf(nowMs)
  const { id, secret } = partsOf(credential.token)
  const proof: Proof = new Map()
  if (credential.kind === 'session') return bySession(store, `sess_${id}`, secret, nowMs, proof)
  const [key] = await store.read([keyOf(Key, `key_${id}`)])
  return key ? byKey(store, `key_${id}`, secret, now, proof) : byCommandLine(store, `sess_${id}`, secret, nowMs, proof)
}

/** Claims of an issuer's token, once it was verified: the person, and until when. */
export type Claims = { readonly issuer: string; readonly sub: string; readonly until: string }

/** The id of the document with an issuer's claims about a person. */
export const signedInIdOf = (issuer: string, user_id: string): string => `sign_${sha256(JSON.stringify([issuer, user_id]))}`

export const linkIdOf = (issuer: string, sub: string): string => `subj_${sha256(JSON.stringify([issuer, sub]))}`

/** Authenticates the person whom an administrator linked to these claims. Claims never authenticate an agent. */
export function authenticateClaims(store: Store, { issuer, sub, until }: Claims, nowMs: number): Promise<Actor> {
  return byLink(store, linkIdOf(issuer, sub), until, timestampOf(nowMs), new Map())
}

/** Authenticates a subject without a credential: the server trusts every caller, or has started the subject itself. */
export const authenticateSubject = (store: Store, subject: string, nowMs: number, via?: Via): Promise<Actor> =>
  actorOf(store, subject, timestampOf(nowMs), new Map(), via)

/** The bearer of a ticket: the subject and, if there was one, the credential that asked for it. */
export type Bearer = {
  readonly subject: string
  readonly credential: StoreKey | null
  readonly until: string | null
  /** The credential had only some of the subject's rights, and no document records that. */
  readonly narrowed?: boolean
}

/** Authenticates the bearer again. A credential revoked, closed or switched off since then is refused, as in a direct call. */
export async function authenticateAgain(store: Store, { subject, credential, until, narrowed }: Bearer, nowMs: number): Promise<Actor> {
  const now = timestampOf(nowMs)
  const proof: Proof = new Map()
  if (credential === null) {
    const actor = await actorOf(store, subject, now, proof)
    return narrowed === true ? { ...actor, narrowed } : actor
  }
  const id = idOf(credential)
  if (credential === keyOf(SubjectLink, id)) return byLink(store, id, until, now, proof)
  const isKey = credential === keyOf(Key, id)
  return isKey ? byKey(store, id, null, now, proof) : bySession(store, id, null, nowMs, proof)
}

async function proven<S extends TSchema>(store: Store, doc: Doc<S>, id: string, proof: Proof): Promise<Static<S>> {
  const key = keyOf(doc, id)
  const [found] = await store.read([key])
  if (!found) throw noValidCredential()
  proof.set(key, found.version)
  return found.value as Static<S>
}

export const isGoodKey = ({ revoked_at, expires_at }: Key, now: string): boolean =>
  revoked_at === null && (expires_at === null || now < expires_at)

/** Whether a session is open, unexpired, and recently used. Remembered devices and the command line need no recent use. */
export const isGoodSession = ({ closed_at, expires_at, seen_at, remembered, command_line }: Session, nowMs: number): boolean =>
  closed_at === null &&
  nowMs < Date.parse(expires_at) &&
  (remembered === true || command_line === true || nowMs < Date.parse(seen_at) + limits.sessionIdleMs)

type Documents = { raw<S extends TSchema>(doc: Doc<S>, id: string): Promise<Static<S> | null> }
type Opened = Pick<Session, 'by_key' | 'subject' | 'user_id' | 'created_at'>
/** A session ends with the link of the account that opened it; a later link of this account does not bring it back. */
const isLinkedStill = (link: SubjectLink | null, { user_id, created_at }: Opened): boolean =>
  link !== null && link.unlinked_at === null && link.user_id === user_id && link.created_at <= created_at

/** Whether the key and the account that opened a login or a session, if any, are still accepted. */
export async function isOpenerGood(read: Documents, opened: Opened, now: string): Promise<boolean> {
  const { by_key, subject } = opened
  if (subject !== undefined && !isLinkedStill(await read.raw(SubjectLink, subject), opened)) return false
  if (by_key === undefined) return true
  const key = await read.raw(Key, by_key)
  if (key === null || !isGoodKey(key, now)) return false
  return !key.subject.startsWith('user_') || (await read.raw(User, key.subject))?.disabled === false
}

/** The login of a link; null if the link no longer works. */
export async function loginOf(store: Pick<Store, 'read'>, token: string, now: string): Promise<Login | null> {
  const { id, secret } = partsOf(token)
  const [found] = await store.read([keyOf(Login, `login_${id}`)])
  const login = found?.value as Login | undefined
  if (login === undefined || !isGoodLogin(login, secret, now)) return null
  const raw: Documents['raw'] = async <S extends TSchema>(doc: Doc<S>, id: string) =>
    ((await store.read([keyOf(doc, id)]))[0]?.value ?? null) as Static<S> | null
  return (await isOpenerGood({ raw }, login, now)) ? login : null
}
export const isGoodLogin = ({ digest, used_at, expires_at }: Login, secret: string, now: string): boolean =>
  matches(secret, digest) && used_at === null && expires_at > now

/** A null secret was proven before and not stored. */
const isHeld = (secret: string | null, digest: string): boolean => secret === null || matches(secret, digest)

async function byKey(store: Store, id: string, secret: string | null, now: string, proof: Proof): Promise<Actor> {
  const key = await proven(store, Key, id, proof)
  if (!isHeld(secret, key.digest) || !isGoodKey(key, now)) throw noValidCredential()
  const actor = await actorOf(store, key.subject, now, proof, 'key')
  // A key with an expiry cannot issue a credential without one; likewise for a key of a single project.
  if (key.project_id === null || (actor.kind !== 'human' && actor.projects === 'all'))
    return key.expires_at === null ? actor : { ...actor, narrowed: true, fleeting: true }
  const role = actor.projects === 'all' ? 'viewer' : actor.projects.get(key.project_id)
  const projects = new Map(role ? [[key.project_id, role]] : [])
  return { ...actor, owner: false, narrowed: true, partial: true, fleeting: true, projects }
}

async function bySession(store: Store, id: string, secret: string | null, nowMs: number, proof: Proof): Promise<Actor> {
  const session = await proven(store, Session, id, proof)
  if (!isHeld(secret, session.digest) || !isGoodSession(session, nowMs)) throw noValidCredential()
  // A session is valid only as long as the key that opened it. A revoked key or a disabled subject ends both.
  if (session.by_key !== undefined) await byKey(store, session.by_key, null, timestampOf(nowMs), proof)
  if (session.subject !== undefined && !isLinkedStill(await proven(store, SubjectLink, session.subject, proof), session))
    throw noValidCredential()
  const isStale = session.remembered === true && nowMs >= Date.parse(session.proven_at ?? session.created_at) + limits.proofMs
  return actorOf(store, session.user_id, timestampOf(nowMs), proof, isStale ? 'remembered' : 'session')
}

/** Authenticates a session of the command line, which is a bearer token. Browser sessions are not accepted here, so that a stolen cookie is useless. */
async function byCommandLine(store: Store, id: string, secret: string, nowMs: number, proof: Proof): Promise<Actor> {
  if ((await proven(store, Session, id, proof)).command_line !== true) throw noValidCredential()
  return { ...(await bySession(store, id, secret, nowMs, proof)), fleeting: true }
}

async function byLink(store: Store, id: string, until: string | null, now: string, proof: Proof): Promise<Actor> {
  const link = await proven(store, SubjectLink, id, proof)
  if (link.unlinked_at !== null || until === null || until <= now) throw noValidCredential()
  const actor = await actorOf(store, link.user_id, now, proof, 'token')
  // A token expires, so it cannot issue a credential that does not.
  return { ...actor, until, narrowed: true, fleeting: true }
}

async function actorOf(store: Store, subject: string, now: string, proof: Proof, via?: Via): Promise<Actor> {
  if (subject === ADMIN_SERVICE) return { id: subject, kind: 'service', projects: 'all', via, proof }
  if (subject.startsWith('project_')) {
    const project = await proven(store, Project, subject, proof)
    return { id: project.id, kind: 'service', projects: new Map<string, ProjectRole>([[project.id, 'owner']]), via, proof }
  }
  const found = subject.startsWith('user_') ? await proven(store, User, subject, proof) : await proven(store, Agent, subject, proof)
  if (found.disabled) throw noValidCredential()
  const linked = found.kind === 'human' ? await withLinksNow((id) => proven(store, GroupLink, id, proof), found) : found
  const projects = new Map(membershipsOf(linked).map(({ project_id, role }) => [project_id, role]))
  if (found.kind === 'agent') return { id: found.id, kind: 'agent', projects, owner: false, via, proof }
  if (found.role === 'auditor') return { id: found.id, kind: 'human', projects: 'all', owner: false, auditor: true, via, proof }
  const current = found.acts_for.filter(({ from, until }) => from <= now && now < until)
  return {
    id: found.id,
    kind: 'human',
    projects,
    owner: found.role === 'owner',
    actsFor: new Set(current.filter(({ project_id }) => project_id === undefined).map(({ user_id }) => user_id)),
    ...actsForIn(current),
    fleeting: found.acts_for.some(({ until }) => now < until),
    via,
    proof,
  }
}

function actsForIn(current: User['acts_for']): Pick<Actor, 'actsForIn'> {
  const found = new Map<string, Set<string>>()
  for (const { project_id, user_id } of current)
    if (project_id !== undefined) found.set(project_id, (found.get(project_id) ?? new Set()).add(user_id))
  return found.size === 0 ? {} : { actsForIn: found }
}
