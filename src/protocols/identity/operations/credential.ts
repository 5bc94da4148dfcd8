// Keys, login links and sessions. A secret is shown in the answer that makes it and stands nowhere else.
import { sha256 } from '#kernel/chain.ts'
import { timestampOf } from '#kernel/clock.ts'
import { Refusal } from '#kernel/errors.ts'
import { fact, image } from '#kernel/facts.ts'
import { administrator, anyone, human, installationOwner, role, system } from '#kernel/identity.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type ListPage, type Read } from '#kernel/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf } from '#kernel/paging.ts'
import { nullable, t } from '#kernel/schema.ts'
import { futureTimestamp } from '#kernel/time.ts'
import { isGoodKey, isGoodSession, matches, partsOf, tokenOf } from '../authenticate.ts'
import { administrators, keeper, mayPassOn, subjectOf, type Subject } from '../rules.ts'
import {
  ADMIN_SERVICE,
  Key,
  KeyView,
  Login,
  ProjectId,
  Session,
  SessionView,
  SubjectId,
  Timestamp,
  User,
  UserId,
  withoutDigest,
} from '../schema.ts'

type OfSubject = { readonly subject: Subject }
const isAdminService = ({ subject }: OfSubject): boolean => subject.id === ADMIN_SERVICE

const issue = command({
  name: 'key.issue',
  summary: 'Issue an API key for a person, an agent or a project. The key is shown once.',
  draft: 'ours: identity',
  input: t.Object({
    subject: SubjectId,
    project_id: t.Optional(ProjectId),
    label: t.Optional(t.String({ maxLength: limits.labelCharsMax })),
    expires_at: t.Optional(Timestamp),
  }),
  output: t.Object({ key: nullable(t.String()), issued: KeyView }),
  callers: [...administrators, keeper],
  requires: [
    rule<OfSubject>(
      'UNAUTHORIZED',
      'only the server issues keys of the admin service',
      (state, _, { actor }) => !isAdminService(state) || actor.kind === 'system',
      'keys of the admin service are issued by the server alone',
    ),
    mayPassOn,
    rule<OfSubject>(
      'PRECONDITION_FAILED',
      'the subject is active',
      ({ subject }) => !subject.disabled,
      'the subject is switched off: switch it on first',
    ),
  ],
  audit: 'key.issued',
  once: ['key'],
  async load(read, input, { now }) {
    const subject = await subjectOf(read, input.subject)
    const keys = await keysOf(read, input.subject, { limit: limits.keysPerSubjectMax })
    return { subject, expired: keys.found.filter((key) => !isGoodKey(key, now)) }
  },
  decide({ subject, expired }, { project_id = null, label = '', expires_at }, { actor, now, newId, secret }) {
    const expires = expires_at === undefined ? null : futureTimestamp(expires_at, now, 'INVALID_REQUEST', 'expires_at')
    const hidden = secret()
    const key: Key = {
      id: newId('key'),
      subject: subject.id,
      project_id,
      label,
      digest: sha256(hidden),
      issued_by: actor.id,
      created_at: now,
      expires_at: expires,
      revoked_at: null,
    }
    const max = limits.keysPerSubjectMax
    // Time alone takes no key out of the count: whoever needs the room puts away those that have expired.
    const away = expired.map((old) => image(Key, { ...old, revoked_at: now }))
    return {
      facts: [fact('key.issued', [image(Key, key), ...away])],
      atMost: [{ doc: Key, index: 'subject', prefix: [subject.id], max, words: `a subject has at most ${max} keys: revoke one first` }],
      output: { key: tokenOf(key.id, hidden), issued: withoutDigest(key) },
    }
  },
  example: { given: 'empty', as: 'admin', input: { subject: 'agent_devin', label: 'laptop' } },
})

async function keysOf(read: Read, subject: string, page: ListPage) {
  const listed = await read.list(Key, 'subject', [[subject]], page)
  return { listed, found: await Promise.all(listed.map(({ id }) => read(Key, id))) }
}

const revoke = command({
  name: 'key.revoke',
  summary: 'Revoke an API key; it is refused from the next call on.',
  draft: 'ours: identity',
  input: t.Object({ key_id: t.String({ maxLength: limits.idCharsMax }) }),
  output: t.Object({ revoked: KeyView }),
  callers: [...administrators, keeper],
  requires: [
    rule<{ key: Key }>(
      'PRECONDITION_FAILED',
      'the key is not revoked yet',
      ({ key }) => key.revoked_at === null,
      'the key was revoked already',
    ),
  ],
  audit: 'key.revoked',
  async load(read, { key_id }) {
    const key = await read(Key, key_id)
    return { key, subject: await subjectOf(read, key.subject).catch(hiddenKey(key_id)) }
  },
  decide({ key }, _, { now }) {
    const revoked: Key = { ...key, revoked_at: now }
    return { facts: [fact('key.revoked', [image(Key, revoked)])], output: { revoked: withoutDigest(revoked) } }
  },
  example: { given: 'withKey', as: 'admin', input: ({ issued }) => ({ key_id: issued.id }) },
})

/** Whose key it is says that it exists: the refusal must speak of the key alone. */
const hiddenKey = (key_id: string) => (): never => {
  throw new Refusal('NOT_FOUND', `there is no key ${key_id}`)
}

const list = query({
  name: 'key.list',
  summary: 'List the keys of a subject that are neither revoked nor expired.',
  draft: 'ours: identity',
  input: t.Object({ subject: SubjectId, ...pageInput }),
  output: t.Object({ items: t.Array(KeyView), next_cursor: nextCursor }),
  callers: [...administrators, keeper],
  async load(read, input) {
    const subject = await subjectOf(read, input.subject)
    return { subject, ...(await keysOf(read, input.subject, pageIn('key.list', input))) }
  },
  view({ listed, found }, input, { now }) {
    const good = found.filter((key) => isGoodKey(key, now))
    return pageOf('key.list', input, listed, good.map(withoutDigest))
  },
  example: { given: 'withKey', as: 'alice', input: { subject: 'agent_devin' } },
})

const issueLogin = command({
  name: 'login.issue',
  summary: 'Make a link token that logs a person in, once, within 15 minutes.',
  draft: 'ours: identity',
  input: t.Object({ user_id: UserId }),
  output: t.Object({ token: nullable(t.String()), expires_at: Timestamp }),
  callers: [system, administrator, installationOwner],
  requires: [
    mayPassOn,
    rule<{ user: User }>(
      'PRECONDITION_FAILED',
      'the person is active',
      ({ user }) => !user.disabled,
      'the person is switched off: switch them on first',
    ),
  ],
  audit: 'login.issued',
  once: ['token'],
  load: async (read, { user_id }) => ({ user: await read(User, user_id) }),
  decide({ user }, _, { now, newId, secret }) {
    const hidden = secret()
    const expires_at = timestampOf(Date.parse(now) + limits.loginMs)
    const login = { id: newId('login'), user_id: user.id, digest: sha256(hidden), created_at: now, expires_at, used_at: null }
    return { facts: [fact('login.issued', [image(Login, login)])], output: { token: tokenOf(login.id, hidden), expires_at } }
  },
  example: { given: 'empty', as: 'admin', input: { user_id: 'user_alice' } },
})

const openSession = command({
  name: 'session.open',
  summary: 'Exchange a login token for a session.',
  draft: 'ours: identity',
  input: t.Object({ token: t.String({ maxLength: 200 }) }),
  output: t.Object({ session: nullable(t.String()), session_id: t.String(), user: User.schema, expires_at: Timestamp }),
  callers: [system],
  requires: [],
  audit: 'session.opened',
  once: ['session'],
  async load(read, { token }, { now }) {
    const { id, secret } = partsOf(token)
    const login = await read.raw(Login, `login_${id}`)
    const isGood = login !== null && matches(secret, login.digest) && login.used_at === null && login.expires_at > now
    const user = isGood ? await read.raw(User, login.user_id) : null
    if (!isGood || !user || user.disabled) {
      throw new Refusal('UNAUTHENTICATED', 'this login link was used before, has expired, or never existed')
    }
    const { found } = await sessionsOf(read, user.id, { limit: limits.pageMax })
    return { login, user, over: found.filter((session) => !isGoodSession(session, Date.parse(now))) }
  },
  decide({ login, user, over }, _, { now, newId, secret }) {
    const hidden = secret()
    const expires_at = timestampOf(Date.parse(now) + limits.sessionMs)
    const session = {
      id: newId('sess'),
      user_id: user.id,
      digest: sha256(hidden),
      created_at: now,
      seen_at: now,
      expires_at,
      closed_at: null,
    }
    // Nobody closes what simply ended: the next one of the same person does.
    const away = over.map((old) => image(Session, { ...old, closed_at: now }))
    return {
      facts: [fact('session.opened', [image(Session, session), image(Login, { ...login, used_at: now }), ...away])],
      output: { session: tokenOf(session.id, hidden), session_id: session.id, user, expires_at },
    }
  },
  example: { given: 'withLogin', as: 'system', input: ({ token }) => ({ token }) },
})

async function sessionsOf(read: Read, user_id: string, page: ListPage) {
  const listed = await read.list(Session, 'user', [[user_id]], page)
  return { listed, found: await Promise.all(listed.map(({ id }) => read(Session, id))) }
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

const closeSession = command({
  name: 'session.close',
  summary: 'Log out: end a session at once.',
  draft: 'ours: identity',
  input: sessionInput,
  output: t.Object({ session: SessionView }),
  callers: [...administrators, itsPerson],
  requires: [isOpen],
  audit: 'session.closed',
  load: async (read, { session_id }) => ({ session: await read(Session, session_id) }),
  decide({ session }, _, { now }) {
    const closed = { ...session, closed_at: now }
    return { facts: [fact('session.closed', [image(Session, closed)])], output: { session: withoutDigest(closed) } }
  },
  example: { given: 'withSession', as: 'alice', input: ({ session_id }) => ({ session_id }) },
})

const touchSession = command({
  name: 'session.touch',
  summary: 'Note that a session is in use, so that it does not end for idleness.',
  draft: 'ours: identity',
  input: sessionInput,
  output: t.Object({ session: SessionView }),
  callers: [system],
  requires: [isOpen],
  audit: 'session.seen',
  load: async (read, { session_id }) => ({ session: await read(Session, session_id) }),
  decide({ session }, _, { now }) {
    const seen = { ...session, seen_at: now }
    return { facts: [fact('session.seen', [image(Session, seen)])], output: { session: withoutDigest(seen) } }
  },
  example: { given: 'withSession', as: 'system', input: ({ session_id }) => ({ session_id }) },
})

const listSessions = query({
  name: 'session.list',
  summary: 'List your sessions that are still good.',
  draft: 'ours: identity',
  input: t.Object({ ...pageInput }),
  output: t.Object({ items: t.Array(SessionView), next_cursor: nextCursor }),
  callers: [human],
  load: (read: Read, input, { actor }) => sessionsOf(read, actor.id, pageIn('session.list', input)),
  view({ listed, found }, input, { now }) {
    const good = found.filter((session) => isGoodSession(session, Date.parse(now)))
    return pageOf('session.list', input, listed, good.map(withoutDigest))
  },
  example: { given: 'withSession', as: 'alice', input: {} },
})

const me = query({
  name: 'me.get',
  summary: 'Fetch the identity that your credential stands for.',
  draft: 'ours: identity',
  input: t.Object({}),
  output: t.Object({
    id: t.String(),
    kind: t.String(),
    owner: t.Boolean(),
    projects: t.Array(t.Object({ project_id: t.String(), role: t.String() })),
    all_projects: t.Boolean(),
  }),
  callers: [anyone],
  load: () => Promise.resolve({}),
  view(_, __, { actor }) {
    const projects = actor.projects === 'all' ? [] : [...actor.projects].map(([project_id, its]) => ({ project_id, role: its }))
    return { id: actor.id, kind: actor.kind, owner: actor.owner ?? false, projects, all_projects: actor.projects === 'all' }
  },
  example: { given: 'empty', as: 'alice', input: {} },
})

export const credentialOperations = [issue, revoke, list, issueLogin, openSession, closeSession, touchSession, listSessions, me]
