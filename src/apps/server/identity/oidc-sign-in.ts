// Sign-in at the issuer: statements of the issuer about a person become a session here, and its logout notices end sessions.
import type { Entered, IssuerLogin, Wish, Device } from '#bindings/http/browser/issuer-login.ts'
import { definedFields } from '#kernel/codec/strict-json.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { linkIdOf, partsOf } from '#protocols/identity/authenticate.ts'
import { Session, SubjectLink } from '#protocols/identity/schema.ts'
import type { OidcSettings } from '../settings/config.ts'
import type { Logger } from '../log.ts'
import type { Issuer } from './issuer.ts'
import { createOidcClient, type Flow, type Identity } from './oidc-client.ts'
import { createRation, networkOf } from './ration.ts'

type Parts = {
  readonly kernel: Kernel
  readonly issuer: Issuer
  readonly log: Pick<Logger, 'warn' | 'debug'>
  /** The public address of this server. */
  origin(): string
}

/** Everything that protects a sign-in comes from one secret in a cookie of its browser. */
const flowOf = (secret: string): Flow => ({
  state: sha256(`state ${secret}`),
  nonce: sha256(`nonce ${secret}`),
  verifier: sha256(`verifier ${secret}`),
})

type Made = {
  readonly session: string | null
  readonly session_id: string
  readonly user: { readonly id: string }
  readonly expires_at: string
}

export function createOidcSignIn(settings: OidcSettings, { kernel, issuer, log, origin }: Parts): IssuerLogin {
  const { url, creates } = settings
  const { host } = new URL(url)
  const client = createOidcClient(settings, { issuer, log, now: kernel.now })
  const admits = createRation(limits.oidcReturnsPerAddressMax, kernel.now)
  let exchanges = 0

  /** A bound for all callers, since each exchange is a request to the issuer. */
  async function exchange<T>(work: () => Promise<T>): Promise<T> {
    if (exchanges >= limits.oidcExchangesMax)
      throw new Refusal('BUSY', 'many people are signing in: try again in a moment', { retry_after: 2 })
    exchanges++
    try {
      return await work()
    } finally {
      exchanges--
    }
  }

  async function refuseOthers(sub: string, person: string | undefined): Promise<void> {
    if (person === undefined) return
    await kernel.store.fresh()
    const [link] = await kernel.store.read([keyOf(SubjectLink, linkIdOf(url, sub))])
    if (link?.value['user_id'] !== person)
      throw new Refusal('OTHER_PERSON', `this account at ${host} is not the one of ${person}, for whom the page was opened`)
  }

  async function enter(identity: Identity, wish: Wish, { browser, address, remember }: Device): Promise<Entered & { person: string }> {
    const { sub, name, groups, sid, authMs, idToken } = identity
    const now = kernel.now()
    if (wish.fresh && (authMs === null || authMs < now - limits.oidcFlowMs))
      throw new Refusal('UNAUTHENTICATED', `${host} did not ask you to sign in again, so this is no fresh proof`)
    await refuseOthers(sub, wish.person)
    const proven_at = authMs === null ? undefined : timestampOf(Math.min(authMs, now))
    const isTerminal = browser.startsWith('command line')
    const { digest } = wish
    const input = {
      issuer: url,
      sub,
      groups: [...groups],
      create: creates,
      browser: browser.slice(0, limits.labelCharsMax),
      address,
      remember,
      ...definedFields({ name, sid, proven_at, digest, command_line: isTerminal || undefined }),
    }
    const signedIn = (await kernel.call('identity/subject.sign_in', input, SYSTEM)) as Made
    return { session: signedIn.session, sessionId: signedIn.session_id, expiresAt: signedIn.expires_at, idToken, person: signedIn.user.id }
  }

  return {
    host,
    origin,
    begin: async (secret, fresh) => (await client.begin(flowOf(secret), `${origin()}/login/oidc/callback`, fresh)).href,
    finish: (query, secret, wish, device) =>
      exchange(async () => {
        const current = new URL(`${origin()}/login/oidc/callback?${query}`)
        const flow = flowOf(secret)
        // This browser can have begun another sign-in since.
        if (current.searchParams.get('state') !== flow.state)
          throw new Refusal('INVALID_REQUEST', 'this is not the sign-in that this browser has begun last')
        return enter(await client.finish(current, flow), wish, device)
      }),
    async beginDevice(from) {
      if (!admits(networkOf(from))) throw tooMany()
      return exchange(client.beginDevice)
    },
    finishDevice: (code, device) =>
      exchange(async () => {
        const found = await client.finishDevice(code)
        return typeof found === 'string'
          ? found
          : enter(found, { fresh: false, remember: false, person: undefined, digest: undefined }, device)
      }),
    async signOutAt(token, idToken) {
      try {
        const [session] = await kernel.store.read([keyOf(Session, `sess_${partsOf(token).id}`)])
        return session?.value['subject'] === undefined ? null : await client.signOutAt(idToken, `${origin()}/`)
      } catch (error) {
        // A cookie of another program.
        if (error instanceof Refusal) return null
        throw error
      }
    },
    async loggedOut(token) {
      let logout: Awaited<ReturnType<typeof client.readLogout>>
      try {
        logout = await client.readLogout(token)
      } catch (error) {
        if (error instanceof Refusal && error.code === 'BUSY') throw error
        log.debug({ reason: String((error as Error).message) }, 'a logout token was refused')
        throw new Refusal('INVALID_REQUEST', 'the logout token is not valid')
      }
      const { sub, sid, issuedMs } = logout
      // The clock of the issuer may be a little behind ours.
      const before = timestampOf(Math.min(kernel.now(), issuedMs + limits.tokenSkewMs))
      const input = { issuer: url, before, ...definedFields({ sub, sid }) }
      for (let more = true; more;) more = ((await kernel.call('identity/subject.sign_out', input, SYSTEM)) as { more: boolean }).more
    },
    admits: (address) => admits(networkOf(address)),
  }
}

const tooMany = (): Refusal =>
  new Refusal('QUOTA_EXCEEDED', 'too many sign-ins from this address: try again in a few minutes', { retry_after: 300 })
