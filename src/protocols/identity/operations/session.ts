// Login links and the sessions that people open with them. A secret appears only in the response that creates it and is never stored.
import { definedFields } from '#kernel/codec/strict-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { administrator, human, installationOwner, isWhole, role, system, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, freshProof, query, rule, type ListPage, type Read, type Rule, type SignInTerms } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf } from '#kernel/declare/paging.ts'
import { idOf, keyOf, nullable, t, type AnyDoc } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { isGoodLogin, isGoodSession, isOpenerGood, partsOf, tokenOf } from '../authenticate.ts'
import { administrators, isActivePerson, mayPassOn } from '../access.ts'
import { Key, Login, Session, sessionView, SubjectLink, Timestamp, User, UserId } from '../schema.ts'

export const usualSignIn: SignInTerms = { sessionMs: limits.sessionMs, rememberMs: limits.rememberedMs, insteadOfLinks: null }

const linksAreOn: Rule<unknown> = {
  code: 'PRECONDITION_FAILED',
  message: 'login links are on',
  holds: (_, __, { terms }) => (terms.signIn ?? usualSignIn).insteadOfLinks === null,
  refusal: 'login links are switched off here: people sign in with the issuer',
}

const issueLogin = command({
  name: 'login.issue',
  summary: 'Make a link token that logs a person in, once, within 15 minutes; for yourself, on another device.',
  draft: 'ours: identity',
  input: t.Object({ user_id: UserId }),
  output: t.Object({
    token: nullable(t.String()),
    link: nullable(t.String({ description: 'the whole link, where this server knows the address that people open' })),
    expires_at: Timestamp,
  }),
  callers: [
    system,
    administrator,
    installationOwner,
    role<{ user: User }>('the person themself', (actor, { user }) => actor.kind === 'human' && isWhole(actor) && actor.id === user.id),
  ],
  requires: [freshProof(), mayPassOn, isActivePerson, linksAreOn],
  audit: 'login.issued',
  once: ['token', 'link'],
  load: async (read, { user_id }) => ({ user: await read(User, user_id) }),
  decide({ user }, _, { actor, now, newId, secret, terms }) {
    const hidden = secret()
    const expires_at = timestampOf(Date.parse(now) + limits.loginMs)
    const login: Login = {
      id: newId('login'),
      user_id: user.id,
      digest: sha256(hidden),
      created_at: now,
      expires_at,
      used_at: null,
      ...openerOf(actor),
    }
    const [token, origin] = [tokenOf(login.id, hidden), terms.publicOrigin?.() ?? null]
    const link = origin === null ? null : `${origin}/login?token=${token}`
    return { facts: [fact('login.issued', [image(Login, login)])], output: { token, link, expires_at } }
  },
  example: { given: 'empty', as: 'admin', input: { user_id: 'user_alice' } },
})

/** A session opened with a key or at an issuer depends on it, and so does a login link that it creates for another device. */
function openerOf({ proof }: Actor): Pick<Login, 'by_key' | 'subject'> {
  const documents = [...(proof?.keys() ?? [])]
  const idIn = (doc: AnyDoc): string | undefined => documents.filter((document) => document === keyOf(doc, idOf(document))).map(idOf)[0]
  return definedFields({ by_key: idIn(Key), subject: idIn(SubjectLink) })
}

const open = command({
  name: 'session.open',
  summary: 'Exchange a login token for a session.',
  draft: 'ours: identity',
  input: t.Object({
    token: t.String({ maxLength: 200 }),
    browser: Session.schema.properties.browser,
    address: Session.schema.properties.address,
    remember: t.Optional(t.Boolean({ description: 'remember the device for 30 days' })),
  }),
  output: t.Object({ session: nullable(t.String()), session_id: t.String(), user: User.schema, expires_at: Timestamp }),
  callers: [system],
  requires: [linksAreOn],
  audit: 'session.opened',
  once: ['session'],
  async load(read, { token }, { now }) {
    const { id, secret } = partsOf(token)
    const login = await read.raw(Login, `login_${id}`)
    const isGood = login !== null && isGoodLogin(login, secret, now) && (await isOpenerGood(read, login, now))
    const user = isGood ? await read.raw(User, login.user_id) : null
    if (!isGood || !user || user.disabled) {
      throw new Refusal('UNAUTHENTICATED', 'this login link was used before, has expired, or never existed')
    }
    return { login, user, over: await overSessionsOf(read, user.id, now) }
  },
  decide({ login, user, over }, { browser, address, remember: asked = false }, { now, newId, secret, terms }) {
    const hidden = secret()
    const { sessionMs, rememberMs } = terms.signIn ?? usualSignIn
    const remember = asked && rememberMs !== null
    const expires_at = timestampOf(Date.parse(now) + (remember ? rememberMs : sessionMs))
    const session = {
      id: newId('sess'),
      user_id: user.id,
      digest: sha256(hidden),
      created_at: now,
      seen_at: now,
      expires_at,
      closed_at: null,
      ...definedFields({ browser, address, remembered: remember || undefined, by_key: login.by_key, subject: login.subject }),
    }
    // Expired sessions are closed when the same person opens the next one.
    const away = over.map((old) => image(Session, { ...old, closed_at: now }))
    return {
      facts: [fact('session.opened', [image(Session, session), image(Login, { ...login, used_at: now }), ...away])],
      output: { session: tokenOf(session.id, hidden), session_id: session.id, user, expires_at },
    }
  },
  example: { given: 'withLogin', as: 'system', input: ({ token }) => ({ token }) },
})

/** Sessions of a person that have ended without being closed. */
export async function overSessionsOf(read: Read, user_id: string, now: string): Promise<Session[]> {
  const { found, good } = await sessionsOf(read, user_id, now, { limit: limits.pageMax })
  return found.filter((session) => !good.includes(session))
}

async function sessionsOf(read: Read, user_id: string, now: string, page: ListPage) {
  const listed = await read.list(Session, 'user', [[user_id]], page)
  const found = await Promise.all(listed.map(({ id }) => read(Session, id)))
  const isGood = await Promise.all(
    found.map(async (session) => isGoodSession(session, Date.parse(now)) && (await isOpenerGood(read, session, now))),
  )
  return { listed, found, good: found.filter((_, i) => isGood[i]) }
}

type WithSession = { readonly session: { readonly user_id: string; readonly closed_at: string | null } }
const itsPerson = role<WithSession>('the person themself', (actor, { session }) => actor.kind === 'human' && actor.id === session.user_id)
const isOpen = rule<WithSession>(
  'PRECONDITION_FAILED',
  'the session is open',
  ({ session }) => session.closed_at === null,
  'the session was closed already',
)
const sessionInput = t.Object({ session_id: t.String({ maxLength: limits.idCharsMax }) })

const close = command({
  name: 'session.close',
  summary: 'Log out: end a session immediately.',
  draft: 'ours: identity',
  input: sessionInput,
  output: t.Object({ session: sessionView.schema }),
  callers: [...administrators, itsPerson],
  requires: [isOpen],
  audit: 'session.closed',
  isForAuditors: true,
  load: async (read, { session_id }) => ({ session: await read(Session, session_id) }),
  decide({ session }, _, { now }) {
    const closed = { ...session, closed_at: now }
    return { facts: [fact('session.closed', [image(Session, closed)])], output: { session: sessionView.of(closed) } }
  },
  example: { given: 'withSession', as: 'alice', input: ({ session_id }) => ({ session_id }) },
})

const touch = command({
  name: 'session.touch',
  summary: 'Note that a session is in use, so that it does not end for idleness.',
  draft: 'ours: identity',
  input: sessionInput,
  output: t.Object({ session: sessionView.schema }),
  callers: [system],
  requires: [isOpen],
  audit: 'session.seen',
  load: async (read, { session_id }) => ({ session: await read(Session, session_id) }),
  decide({ session }, _, { now }) {
    const seen = { ...session, seen_at: now }
    return { facts: [fact('session.seen', [image(Session, seen)])], output: { session: sessionView.of(seen) } }
  },
  example: { given: 'withSession', as: 'system', input: ({ session_id }) => ({ session_id }) },
})

const list = query({
  name: 'session.list',
  summary: 'List your open sessions.',
  draft: 'ours: identity',
  input: t.Object({ ...pageInput }),
  output: t.Object({
    items: t.Array(t.Object({ ...sessionView.schema.properties, current: t.Boolean({ description: 'the session that asks' }) })),
    next_cursor: nextCursor,
  }),
  callers: [human],
  load: (read: Read, input, { actor, now }) => sessionsOf(read, actor.id, now, pageIn('session.list', input)),
  view({ listed, good }, input, { actor }) {
    const views = good.map((session) => ({ ...sessionView.of(session), current: actor.proof?.has(keyOf(Session, session.id)) === true }))
    return pageOf('session.list', input, listed, views)
  },
  example: { given: 'withSession', as: 'alice', input: {} },
})

export const sessionOperations = [issueLogin, open, close, touch, list]
