// Signing in and out with a browser: a one-time link becomes a cookie.
import type { FastifyInstance } from 'fastify'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Credential, Guard } from './browser-guard.ts'
import { badLinkPage, homePage, pageHeaders } from './pages.ts'

/** How one-time links become sessions, and how sessions end. */
export type Logins = {
  /** Refuses with UNAUTHENTICATED. */
  open(token: string): Promise<{ readonly session: string; readonly expiresAt: string }>
  close(session: string): Promise<void>
  /** How many items wait for an answer of this person; null: that cannot be told. */
  waiting?(actor: Actor): Promise<number | null>
}

type Signing = {
  readonly guard: Guard
  readonly logins: Logins
  readonly secure: boolean
  now(): number
  authenticate(credential: Credential): Actor | Promise<Actor>
}

const isUnauthenticated = (error: unknown): boolean => error instanceof Refusal && error.code === 'UNAUTHENTICATED'
/** A token that was never one of ours need not even have the right shape. */
const isBadLink = (error: unknown): boolean => isUnauthenticated(error) || (error instanceof Refusal && error.code === 'INVALID_REQUEST')

export function registerLogin(app: FastifyInstance, { guard, logins, secure, now, authenticate }: Signing): void {
  const cookie = (value: string, seconds: number): string =>
    `${guard.cookieName}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`

  async function whose(session: string): Promise<Actor | null> {
    try {
      return await authenticate({ kind: 'session', token: session })
    } catch (error) {
      if (isUnauthenticated(error)) return null
      throw error
    }
  }

  app.get('/', async (request, reply) => {
    const session = guard.sessionOf(request.headers)
    const actor = session === undefined ? null : await whose(session)
    const waiting = actor === null ? null : ((await logins.waiting?.(actor)) ?? null)
    reply.headers(pageHeaders)
    return homePage(actor === null ? null : { id: actor.id, waiting })
  })

  // A program that looks at a link before a person does (HEAD) must not use it up.
  app.head('/login', (_, reply) => {
    reply.headers(pageHeaders).send('')
  })

  app.get('/login', async (request, reply) => {
    const token = new URL(request.url, 'http://localhost').searchParams.get('token') ?? ''
    try {
      const { session, expiresAt } = await logins.open(token)
      const seconds = Math.max(0, Math.floor((Date.parse(expiresAt) - now()) / 1_000))
      reply.code(303).headers({ location: '/', 'set-cookie': cookie(session, seconds) })
      return ''
    } catch (error) {
      if (!isBadLink(error)) throw error
      reply.code(401).headers(pageHeaders)
      return badLinkPage()
    }
  })

  // In a scope of its own: a form sends no JSON, and what it sends does not matter.
  void app.register((scope, _, done) => {
    scope.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, _body, parsed) => parsed(null, undefined))
    scope.post('/logout', async (request, reply) => {
      const session = guard.sessionOf(request.headers)
      if (session !== undefined) {
        guard.refuseForeign(request.headers)
        await logins.close(session)
      }
      reply.code(303).headers({ location: '/', 'set-cookie': cookie('', 0) })
      return ''
    })
    done()
  })
}
