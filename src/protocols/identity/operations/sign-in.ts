// Signing in and out at an issuer. The issuer proves an account; the link of the account names the person, and no claim gives a right.
import { definedFields } from '#kernel/codec/strict-json.ts'
import { system } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { command, type Read } from '#kernel/declare/operation.ts'
import { nullable, t } from '#kernel/declare/schema.ts'
import { limits } from '#kernel/limits.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { linkIdOf, signedInIdOf, tokenOf } from '../authenticate.ts'
import { fact } from '../events.ts'
import { groupDetail, groupingsOf, withGroupings } from '../groups.ts'
import { GroupLink, IssuerUrl, Name, Session, SignedIn, Sub, SubjectLink, Timestamp, User } from '../schema.ts'
import { overSessionsOf, usualSignIn } from './session.ts'

const ISSUER_SCENE = 'https://login.example.com'

const Sid = t.String({ minLength: 1, maxLength: limits.subCharsMax, description: 'the session at the issuer, as its claim sid names it' })
/** The stored form of the issuer's session id: a digest, because the id itself is not needed here. */
export const sidOf = (issuer: string, sid: string): string => sha256(JSON.stringify(['sid', issuer, sid]))

type Account = { readonly issuer: string; readonly sub: string; readonly name?: string | undefined; readonly create?: boolean | undefined }

/** The link of an account and its person, or why it signs no person in. */
async function personOf(read: Read, { issuer, sub, create = false }: Account) {
  const link = await read.raw(SubjectLink, linkIdOf(issuer, sub))
  if (link === null && create) return { link: null, user: null }
  if (link === null || link.unlinked_at !== null)
    throw new Refusal(
      'UNAUTHORIZED',
      `no person here is linked to this account: an owner links it with \`countersign subject link <user id> ${issuer} ${sub}\``,
      { issuer, sub },
    )
  const user = await read.raw(User, link.user_id)
  if (user === null || user.disabled) throw new Refusal('UNAUTHORIZED', 'the person of this account is switched off here: ask an owner')
  return { link, user }
}

const signIn = command({
  name: 'subject.sign_in',
  summary: 'Open a session for the person of an account at an issuer, and record the groups in its identity token.',
  draft: 'ours: identity',
  input: t.Object({
    issuer: IssuerUrl,
    sub: Sub,
    create: t.Optional(t.Boolean({ description: 'register a person for an account that has none yet' })),
    name: t.Optional(Name),
    groups: SignedIn.schema.properties.groups,
    sid: t.Optional(Sid),
    proven_at: Session.schema.properties.proven_at,
    browser: Session.schema.properties.browser,
    address: Session.schema.properties.address,
    remember: t.Optional(t.Boolean({ description: 'remember the device' })),
    digest: t.Optional(
      t.String({ pattern: '^[A-Za-z0-9_-]{43}$', description: 'for the command line: the SHA-256 of the secret that it has made itself' }),
    ),
    command_line: Session.schema.properties.command_line,
  }),
  output: t.Object({ session: nullable(t.String()), session_id: t.String(), user: User.schema, expires_at: Timestamp }),
  callers: [system],
  requires: [],
  audit: 'user.signed_in',
  once: ['session'],
  async load(read, input, { now }) {
    const { link, user } = await personOf(read, input)
    const groupings = await groupingsOf((id) => read.raw(GroupLink, id), input)
    if (user === null) return { link, user, groupings, over: [] }
    // Read, because it is replaced.
    await read.raw(SignedIn, signedInIdOf(input.issuer, user.id))
    return { link, user, groupings, over: await overSessionsOf(read, user.id, now) }
  },
  decide({ groupings, link: linked, user: known, over }, input, { now, newId, secret, terms, actor }) {
    const { issuer, sub, groups, sid, proven_at, browser, address, digest, name = sub, command_line } = input
    const { sessionMs, rememberMs } = terms.signIn ?? usualSignIn
    const remember = input.remember === true && rememberMs !== null
    const user: User = known ?? {
      id: newId('user'),
      kind: 'human',
      name: name.slice(0, limits.nameCharsMax),
      role: 'member',
      projects: [],
      acts_for: [],
      disabled: false,
      created_at: now,
    }
    const subject = linkIdOf(issuer, sub)
    const link: SubjectLink = linked ?? {
      id: subject,
      user_id: user.id,
      issuer,
      sub,
      linked_by: actor.id,
      created_at: now,
      unlinked_at: null,
    }
    const hidden = digest === undefined ? secret() : null
    const session: Session = {
      id: newId('sess'),
      user_id: user.id,
      digest: digest ?? sha256(hidden!),
      created_at: now,
      seen_at: now,
      expires_at: timestampOf(Date.parse(now) + (remember ? rememberMs : sessionMs)),
      closed_at: null,
      subject,
      // Without the time of the sign-in at the issuer, the sign-in counts as old.
      proven_at: proven_at ?? timestampOf(Date.parse(now) - limits.proofMs),
      ...definedFields({ browser, address, remembered: remember || undefined, command_line, sid: sid && sidOf(issuer, sid) }),
    }
    const signedIn: SignedIn = { id: signedInIdOf(issuer, user.id), user_id: user.id, issuer, subject, groups, at: now }
    const creation = known === null ? [fact('user.added', [image(User, user)]), fact('subject.linked', [image(SubjectLink, link)])] : []
    const grouped = withGroupings(user, (one) => one.issuer === issuer, groupings)
    const away = over.map((old) => image(Session, { ...old, closed_at: now }))
    return {
      facts: [
        ...creation,
        fact('user.signed_in', [image(SignedIn, signedIn), image(Session, session), ...away]),
        ...(grouped === null ? [] : [fact('user.grouped', [image(User, grouped.user)], { detail: groupDetail(grouped.changed) })]),
      ],
      output: {
        session: hidden === null ? null : tokenOf(session.id, hidden),
        session_id: session.id,
        user: grouped?.user ?? user,
        expires_at: session.expires_at,
      },
    }
  },
  example: { given: 'withSubject', as: 'system', input: { issuer: ISSUER_SCENE, sub: 'alice-7', groups: ['engineering'] } },
})

const signOut = command({
  name: 'subject.sign_out',
  summary: 'End the sessions of an account because its issuer says that they have ended.',
  draft: 'ours: identity',
  input: t.Object({
    issuer: IssuerUrl,
    sub: t.Optional(Sub),
    sid: t.Optional(Sid),
    before: t.String({ maxLength: 40, description: 'sessions that were opened later stay open' }),
  }),
  output: t.Object({
    ended: t.Integer({ minimum: 0, description: 'how many sessions have ended' }),
    more: t.Boolean({ description: 'further sessions have to be ended with another call' }),
  }),
  callers: [system],
  requires: [],
  audit: 'user.signed_out',
  async load(read, { issuer, sub, sid, before }) {
    const subject = sub === undefined ? null : linkIdOf(issuer, sub)
    const [name, key] = sid === undefined ? ['subject', subject] : ['sid', sidOf(issuer, sid)]
    if (key === null) throw new Refusal('INVALID_REQUEST', 'sub or sid must name whose sessions end', { field: 'sub' })
    const listed = await read.list(Session, name, [[key]], { limit: limits.sessionsEndedMax })
    const found = await Promise.all(listed.map(({ id }) => read(Session, id)))
    const isNamed = (session: Session): boolean => (subject === null || session.subject === subject) && session.created_at <= before
    return { sessions: found.filter(isNamed), isFull: listed.length === limits.sessionsEndedMax }
  },
  decide({ sessions, isFull }, _, { now }) {
    const [first, ...rest] = sessions.map((session) => image(Session, { ...session, closed_at: now }))
    return {
      facts: first === undefined ? [] : [fact('user.signed_out', [first, ...rest])],
      output: { ended: sessions.length, more: isFull && sessions.length > 0 },
    }
  },
  example: {
    given: 'signedIn',
    as: 'system',
    input: { issuer: ISSUER_SCENE, sub: 'bob-3', before: '2100-01-01T00:00:00.000Z' },
  },
})

export const signInOperations = [signIn, signOut]
