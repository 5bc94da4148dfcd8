// The authenticator: from any credential to an actor, and browser sessions on top of the identity operations (opening, closing, noting
// their use).
import { Refusal } from '#kernel/declare/errors.ts'
import type { SignInTerms } from '#kernel/declare/operation.ts'
import { SYSTEM, type Actor } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import type { IssuerLogin } from '#bindings/http/browser/issuer-login.ts'
import type { Device, Opened } from '#bindings/http/browser/login.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import {
  authenticate,
  authenticateAgain,
  authenticateClaims,
  loginOf,
  keyIdIn,
  partsOf,
  type Bearer,
  type Credential,
} from '#protocols/identity/authenticate.ts'
import { usualSignIn } from '#protocols/identity/operations/session.ts'
import { Session, User } from '#protocols/identity/schema.ts'
import { authenticateDeveloper, developmentCredentials } from './development.ts'
import { isJwt, type Issuer } from './issuer.ts'
import { createSignIn, type SignIn } from './sign-in.ts'
import { rememberedKeys } from './remembered-keys.ts'

/** Often enough that no active person is signed out, seldom enough that reading pages does not fill the record. */
const TOUCH_MS = limits.sessionIdleMs / 6

export type Authenticator = SignIn & {
  /** Synchronous for a known credential if nothing has changed since. */
  authenticate(credential: Credential, since?: number): Actor | Promise<Actor>
  /** Authenticates without counting as a use of the credential. */
  recheck(credential: Credential): Promise<Actor>
  /** Redeems a ticket; the returned function re-authenticates its actor on every call. */
  redeem(ticket: string): Promise<() => Promise<Actor>>
  open(token: string, device: Device): Promise<Opened>
  /** The person whom a link signs in, without redeeming it; null: the link is not valid. */
  whoseLink(token: string): Promise<string | null>
  nameOf(id: string): Promise<string>
  isRemembered(session: string): Promise<boolean>
  close(session: string): Promise<void>
  /** How many items wait in the inbox of this person; null: they have none, or it cannot be read now. */
  waiting(actor: Actor): Promise<number | null>
  /** Sign-in with the issuer; null: there is none. */
  readonly issuer: IssuerLogin | null
  readonly linksOff: boolean
  readonly rememberDays: number | null
}

export type AuthenticatorOptions = {
  /** The issuer whose tokens are accepted in addition to our own credentials. */
  readonly issuer?: Issuer | null
  /** Sign-in with the issuer, if people can. */
  readonly signIn?: IssuerLogin | null
  readonly terms?: SignInTerms
  /** Accepts the well-known development credentials as well. */
  readonly dev?: boolean
  /** Links can be mailed. */
  readonly mails?: boolean
  /** Called with the id of each accepted key. */
  readonly noteUse?: (key_id: string) => void
  readonly log?: { warn(fields: object, message: string): void }
}

export function createAuthenticator(kernel: Kernel, options: AuthenticatorOptions = {}): Authenticator {
  const { signIn = null, terms = usualSignIn } = options
  const { issuer = null, dev = false, mails = false, noteUse = () => undefined, log = { warn: () => undefined } } = options
  const touching = new Set<string>()
  const remembered = rememberedKeys(kernel)
  function byKey(credential: Credential): Actor | Promise<Actor> {
    const note = (actor: Actor): Actor => {
      noteUse(keyIdIn(credential.token))
      return actor
    }
    const actor = remembered(credential)
    return actor instanceof Promise ? actor.then(note) : note(actor)
  }
  /** null: only this server can have issued it. */
  async function byOthers({ kind, token, resource }: Credential): Promise<Actor | null> {
    if (kind !== 'bearer') return null
    const subject = dev ? developmentCredentials.get(token) : undefined
    if (subject !== undefined) return authenticateDeveloper(kernel.store, subject, kernel.now())
    if (issuer === null || !isJwt(token)) return null
    return authenticateClaims(kernel.store, await issuer.verify(token, resource), kernel.now())
  }
  async function bySession(credential: Credential): Promise<Actor> {
    const actor = await authenticate(kernel.store, credential, kernel.now())
    // A touch makes a new version of the session, which the first look does not know.
    return (await touch(idOf(credential.token))) ? authenticate(kernel.store, credential, kernel.now()) : actor
  }
  const isOthers = dev || issuer !== null
  const idOf = (token: string): string => `sess_${partsOf(token).id}`

  async function touch(id: string): Promise<boolean> {
    if (touching.has(id)) return false
    const [found] = await kernel.store.read([keyOf(Session, id)])
    if (!found || kernel.now() - Date.parse(found.value['seen_at'] as string) < TOUCH_MS) return false
    touching.add(id)
    try {
      await kernel.call('identity/session.touch', { session_id: id }, SYSTEM)
    } catch (error) {
      // Closed in between, or the store is busy: the next call of this session tries again.
      if (!(error instanceof Refusal)) throw error
    } finally {
      touching.delete(id)
    }
    return true
  }

  function byAny(credential: Credential): Actor | Promise<Actor> {
    if (credential.kind === 'session') return bySession(credential)
    return isOthers ? byOthers(credential).then((actor) => actor ?? byKey(credential)) : byKey(credential)
  }

  function authenticateAny(credential: Credential, since?: number): Actor | Promise<Actor> {
    const barrier = kernel.store.fresh(since)
    return barrier ? barrier.then(() => byAny(credential)) : byAny(credential)
  }
  async function open(token: string, device: Device): Promise<Opened> {
    const opened = (await kernel.call('identity/session.open', { token, ...device }, SYSTEM)) as { session: string; expires_at: string }
    return { session: opened.session, expiresAt: opened.expires_at }
  }

  return {
    issuer: signIn,
    linksOff: terms.insteadOfLinks !== null,
    rememberDays: terms.rememberMs === null ? null : Math.max(1, Math.round(terms.rememberMs / 86_400_000)),
    ...createSignIn(kernel, { mails, authenticate: authenticateAny, open, log }),
    authenticate: authenticateAny,
    open,
    async isRemembered(session) {
      try {
        await authenticateAny({ kind: 'session', token: session })
        const [found] = await kernel.store.read([keyOf(Session, idOf(session))])
        return found?.value['remembered'] === true
      } catch (error) {
        // A cookie of another program, or of an ended session, is not remembered.
        if (error instanceof Refusal) return false
        throw error
      }
    },
    async recheck(credential) {
      await kernel.store.fresh()
      return (await byOthers(credential)) ?? authenticate(kernel.store, credential, kernel.now())
    },
    async redeem(ticket) {
      const bearer = (await kernel.call('identity/ticket.redeem', { ticket }, SYSTEM)) as Bearer
      return async () => ({ ...(await authenticateAgain(kernel.store, bearer, kernel.now())), via: 'ticket' })
    },
    async whoseLink(token) {
      try {
        await kernel.store.fresh()
        return (await loginOf(kernel.store, token, timestampOf(kernel.now())))?.user_id ?? null
      } catch (error) {
        if (error instanceof Refusal && error.code === 'UNAUTHENTICATED') return null
        throw error
      }
    },
    async nameOf(id) {
      const [found] = await kernel.store.read([keyOf(User, id)])
      return typeof found?.value['name'] === 'string' ? found.value['name'] : id
    },
    async close(session) {
      try {
        const actor = await authenticate(kernel.store, { kind: 'session', token: session }, kernel.now())
        await kernel.call('identity/session.close', { session_id: idOf(session) }, actor)
      } catch (error) {
        // The session has already ended.
        if (!(error instanceof Refusal) || !['UNAUTHENTICATED', 'PRECONDITION_FAILED'].includes(error.code)) throw error
      }
    },
    async waiting(actor) {
      try {
        return ((await kernel.call('execution/inbox.count', {}, actor)) as { open: number }).open
      } catch (error) {
        if (error instanceof Refusal) return null
        throw error
      }
    },
  }
}
