// People, agents, projects and their credentials. The kind of document decides who is human, never the spelling of an id.
import { SYSTEM_SCOPE, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { doc, either, index, nullable, pick, t, type Static } from '#kernel/declare/schema.ts'

const word = '[A-Za-z0-9][A-Za-z0-9_-]{0,63}'
const idOf = (prefix: string, description: string) => t.String({ pattern: `^${prefix}_${word}$`, description })
export const UserId = idOf('user', 'a user id: user_ and up to 64 letters, digits, - or _')
export const AgentId = idOf('agent', 'an agent id: agent_ and up to 64 letters, digits, - or _')
export const ProjectId = idOf('project', 'a project id: project_ and up to 64 letters, digits, - or _')
export const SubjectId = idOf('(user|agent|project|service)', 'the id of a user, an agent or a project')
export const MemberId = idOf('(user|agent)', 'the id of a user or an agent')
export const Name = t.String({ minLength: 1, maxLength: limits.nameCharsMax })
export const Timestamp = t.String({ maxLength: 40 })

export const DEFAULT_PROJECT = 'project_default'
export const ADMIN_SERVICE = 'service_admin'

export const ProjectRole = either('owner', 'member', 'viewer')
export const InstallationRole = either('owner', 'auditor', 'member')
const Membership = t.Object({ project_id: ProjectId, role: ProjectRole })
const Memberships = t.Array(Membership, { maxItems: limits.projectsPerSubjectMax })

type InProject = { readonly project_id: string }
type Member = { readonly id: string; readonly projects: readonly InProject[]; readonly by_groups?: readonly InProject[] | undefined }
const sharesProject = (value: Member, actor: Actor): boolean =>
  actor.projects === 'all' ||
  [...value.projects, ...(value.by_groups ?? [])].some(({ project_id }) => (actor.projects as ReadonlyMap<string, unknown>).has(project_id))
const isOwner = (actor: Actor): boolean => actor.kind === 'human' && actor.owner === true

/** The period in which this person decides in another person's place. */
const Substitution = t.Object({
  user_id: UserId,
  from: Timestamp,
  until: Timestamp,
  granted_by: t.String(),
  project_id: t.Optional(ProjectId), // only in this project
})

/** Stands for all projects in place of a project id. */
export const EVERYWHERE = '*'
type Membership = Static<typeof Membership>
/** A group of a project that an issuer puts the person into, by their last sign-in there. */
const Grouping = t.Object({
  project_id: ProjectId,
  group: t.String({ description: 'the group of the project' }),
  role: ProjectRole,
  issuer: t.String(),
  link: t.String({ description: 'the id of the link that puts them into it' }),
})
export type Grouping = Static<typeof Grouping>
const strength = { viewer: 0, member: 1, owner: 2 } as const
/** The role in each project, given there or by a group: the stronger one. */
export function membershipsOf({ projects, by_groups = [] }: Pick<Owning, 'projects' | 'by_groups'>): Membership[] {
  const roles = new Map<string, Membership['role']>()
  for (const { project_id, role } of [...projects, ...by_groups]) {
    const known = roles.get(project_id)
    if (known === undefined || strength[role] > strength[known]) roles.set(project_id, role)
  }
  return [...roles].map(([project_id, role]) => ({ project_id, role }))
}
type Owning = { readonly role: string; readonly projects: readonly Membership[]; readonly by_groups?: readonly Grouping[] }
const ownedBy = ({ role, ...given }: Owning): string[][] => [
  ...(role === 'owner' ? [[EVERYWHERE]] : []),
  ...(role === 'auditor'
    ? []
    : membershipsOf(given)
        .filter((one) => one.role === 'owner')
        .map(({ project_id }) => [project_id])),
]
/** Projects in which they can be asked: viewers and auditors only read. */
const workingIn = ({ role, ...given }: Owning): string[][] =>
  role === 'auditor'
    ? []
    : membershipsOf(given)
        .filter((one) => one.role !== 'viewer')
        .map(({ project_id }) => [project_id])

export const User = doc(
  'identity.user',
  t.Object({
    id: UserId,
    kind: t.Literal('human'),
    name: Name,
    role: InstallationRole,
    projects: Memberships,
    by_groups: t.Optional(t.Array(Grouping, { maxItems: limits.groupsPerPersonMax })),
    acts_for: t.Array(Substitution, { maxItems: limits.substitutionsMax }),
    disabled: t.Boolean(),
    created_at: Timestamp,
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: (user, actor) => user.id === actor.id || isOwner(actor) || sharesProject(user, actor),
    indexes: {
      all: index(() => [[]]),
      project: index((user) => membershipsOf(user).map(({ project_id }) => [project_id])),
      // Those who could answer in the place of others, so that no call has to look through all people.
      active: index((user) => (user.disabled ? [] : workingIn(user))),
      owner: index((user) => (user.disabled ? [] : ownedBy(user))),
      grouped: index((user) => (user.disabled ? [] : (user.by_groups ?? []).map(({ project_id, group }) => [project_id, group]))),
      substitute: index((user) =>
        user.disabled ? [] : user.acts_for.map(({ user_id, project_id = EVERYWHERE, until }) => [user_id, project_id, until]),
      ),
    },
  },
)
export type User = Static<typeof User.schema>

/** A public key that answers can be sealed to, so that only the agent reads them (RFC 8037). */
export const SealKey = t.Object({
  kty: t.Literal('OKP', { description: 'the kind of key: OKP' }),
  crv: t.Literal('X25519', { description: 'its curve: X25519' }),
  // 32 bytes in canonical base64url.
  x: t.String({ pattern: '^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$', description: 'the 32 bytes of a public key, in base64url' }),
  kid: t.Optional(t.String({ minLength: 1, maxLength: limits.keyNameCharsMax, description: 'the name that the agent gives it' })),
})
export type SealKey = Static<typeof SealKey>

export const Agent = doc(
  'identity.agent',
  t.Object({
    id: AgentId,
    kind: t.Literal('agent'),
    name: Name,
    description: t.String({ maxLength: limits.textCharsMax }),
    owner: UserId,
    projects: Memberships,
    disabled: t.Boolean(),
    /** Absent in agents that never had one. */
    seal_key: t.Optional(nullable(SealKey)),
    created_at: Timestamp,
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: (agent, actor) => agent.id === actor.id || agent.owner === actor.id || isOwner(actor) || sharesProject(agent, actor),
    wakes: (agent) => agent.id,
    indexes: {
      all: index(() => [[]]),
      under: index((agent) => [...agent.projects.map(({ project_id }) => [project_id]), [agent.owner]]), // a project or an owner
    },
  },
)
export type Agent = Static<typeof Agent.schema>

export const Project = doc('identity.project', t.Object({ id: ProjectId, name: Name, created_at: Timestamp }), {
  scopeOf: () => SYSTEM_SCOPE,
  visibleTo: (project, actor) => isOwner(actor) || (actor.projects !== 'all' && actor.projects.has(project.id)),
  indexes: { all: index(() => [[]]) },
})
export type Project = Static<typeof Project.schema>

/** Which keys this installation signs and seals with: their names, never the keys. */
export const KeyNames = doc(
  'identity.keys',
  t.Object({
    id: t.Literal('keys'),
    server: t.String({ maxLength: 100, description: 'the name of the key that seals' }),
    signing: t.Array(t.String({ maxLength: 100 }), {
      maxItems: limits.signingKeysMax,
      description: 'the names of the keys that sign, the present one first',
    }),
    at: Timestamp,
  }),
  { scopeOf: () => SYSTEM_SCOPE, visibleTo: (_, actor) => isOwner(actor) },
)
export type KeyNames = Static<typeof KeyNames.schema>

/** A key that receipts are signed with: its public half, so that a verifier that trusts the log needs no key set. */
export const ReceiptKey = doc(
  'identity.receipt_key',
  t.Object({
    id: t.String({ maxLength: 100, description: 'the thumbprint of the key (RFC 7638)' }),
    x: t.String({ maxLength: 100, description: 'the public key: Ed25519, base64url' }),
    from: Timestamp,
    until: nullable(Timestamp),
  }),
  { scopeOf: () => SYSTEM_SCOPE, visibleTo: (_, actor) => isOwner(actor) },
)
export type ReceiptKey = Static<typeof ReceiptKey.schema>

/** The log of this installation: the name under which it signs checkpoints, and its keys. */
export const LogNames = doc(
  'identity.log',
  t.Object({
    id: t.Literal('log'),
    origin: t.String({ minLength: 1, maxLength: limits.logNameCharsMax, description: 'the name of the log, fixed for its life' }),
    keys: t.Array(t.String({ maxLength: limits.logKeyCharsMax }), {
      minItems: 1,
      maxItems: limits.signingKeysMax,
      description: 'verifier keys of the log, the present one first',
    }),
    before: nullable(
      t.String({
        maxLength: limits.logNoteCharsMax,
        description: 'the last checkpoint of the log before this one, which a restored backup ended',
      }),
    ),
    at: Timestamp,
  }),
  { scopeOf: () => SYSTEM_SCOPE, visibleTo: (_, actor) => isOwner(actor) },
)
export type LogNames = Static<typeof LogNames.schema>

/** A record that the operator restored on purpose. */
export const AcceptedRecord = doc(
  'identity.record',
  t.Object({
    id: t.Literal('record'),
    seen: t.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'the last position that a server had seen' }),
    restored: t.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'the last position of the restored record' }),
    at: Timestamp,
  }),
  { scopeOf: () => SYSTEM_SCOPE, visibleTo: (_, actor) => isOwner(actor) },
)
export type AcceptedRecord = Static<typeof AcceptedRecord.schema>

/** The part of a configuration file that is applied in one commit: the installation, or one project. */
export const ConfigPart = t.String({
  pattern: `^(installation|project_${word})$`,
  description: 'installation, or a project id',
})
export const ConfigName = t.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$', description: 'up to 64 letters, digits, ., - or _' })

/** What a configuration file has set, so that a later one of the same name can remove it. */
export const Config = doc(
  'identity.config',
  t.Object({
    id: t.String(), // `${name}/${part}`
    name: ConfigName,
    part: ConfigPart,
    owns: t.Array(t.String({ minLength: 1, maxLength: limits.configItemCharsMax }), {
      maxItems: limits.configOwnedMax,
      uniqueItems: true,
      description: 'what the file of this name has set in this part, each by its kind and name',
    }),
    applied_by: t.String(),
    updated_at: Timestamp,
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: (config, actor) => isOwner(actor) || (actor.projects !== 'all' && actor.projects.get(config.part) === 'owner'),
    indexes: {
      all: index((config) => (config.owns.length === 0 ? [] : [[]])),
      part: index((config) => (config.owns.length === 0 ? [] : [[config.part]])),
    },
  },
)
export type Config = Static<typeof Config.schema>

/** An API key. The secret itself is shown once and stored nowhere; 256 random bits need no slow hash. */
export const Key = doc(
  'identity.key',
  t.Object({
    id: t.String(),
    subject: SubjectId,
    project_id: nullable(ProjectId), // narrowed to one project
    label: t.String({ maxLength: limits.labelCharsMax }),
    digest: t.String(),
    issued_by: t.String(),
    created_at: Timestamp,
    expires_at: nullable(Timestamp),
    revoked_at: nullable(Timestamp),
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    // Revoking a key ends the long polls that use it.
    wakes: (key) => key.subject,
    indexes: { subject: index((key) => (key.revoked_at === null ? [[key.subject]] : []), 1) },
  },
)
export type Key = Static<typeof Key.schema>

/** Absent: no key was used. A login and a session are refused as soon as this key is. */
const ByKey = t.Optional(t.String({ description: 'the key that opened it, directly or through a link: it ends with this key' }))

/** A link that logs one person in, once. */
export const Login = doc(
  'identity.login',
  t.Object({
    id: t.String(),
    user_id: UserId,
    digest: t.String(),
    created_at: Timestamp,
    expires_at: Timestamp,
    used_at: nullable(Timestamp),
    by_key: ByKey,
    subject: t.Optional(t.String({ description: 'the account whose session has asked for it' })),
  }),
  { scopeOf: () => SYSTEM_SCOPE },
)
export type Login = Static<typeof Login.schema>

/** Opens one socket, once, within half a minute, for the holder of the credential that asked for it. */
export const Ticket = doc(
  'identity.ticket',
  t.Object({
    id: t.String(),
    subject: t.String(),
    /** The document of the credential; null if the actor had none. */
    credential: nullable(t.String()),
    digest: t.String(),
    expires_at: Timestamp,
    /** When the credential ends, and whether it has less than all rights of its person, if its document does not say so. */
    until: nullable(Timestamp),
    narrowed: t.Optional(t.Boolean()),
  }),
  { scopeOf: () => SYSTEM_SCOPE, indexes: { subject: index((ticket) => [[ticket.subject, ticket.expires_at]], 1) } },
)
export type Ticket = Static<typeof Ticket.schema>

export const Session = doc(
  'identity.session',
  t.Object({
    id: t.String(),
    user_id: UserId,
    digest: t.String(),
    created_at: Timestamp,
    seen_at: Timestamp,
    expires_at: Timestamp,
    closed_at: nullable(Timestamp),
    browser: t.Optional(t.String({ maxLength: limits.labelCharsMax, description: 'the browser that signed in, in our words' })),
    address: t.Optional(t.String({ maxLength: limits.labelCharsMax, description: 'the network address that it signed in from' })),
    remembered: t.Optional(
      t.Boolean({ description: 'the device is remembered: the session lasts 30 days, and needs a fresh sign-in from R4 on' }),
    ),
    by_key: ByKey,
    subject: t.Optional(t.String({ description: 'the account at an issuer that opened it: it ends with the link of this account' })),
    sid: t.Optional(t.String({ description: 'a digest of the session at the issuer: it ends when the issuer ends that session' })),
    proven_at: t.Optional(
      t.String({ maxLength: 40, description: 'when the issuer last asked the person to sign in; absent: when it was opened' }),
    ),
    command_line: t.Optional(t.Boolean({ description: 'of the command line: it does not end for idleness' })),
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: (session, actor) => session.user_id === actor.id || isOwner(actor),
    indexes: {
      user: index((session) => (session.closed_at === null ? [[session.user_id]] : [])),
      subject: index(({ closed_at, subject }) => (closed_at === null && subject !== undefined ? [[subject]] : [])),
      sid: index(({ closed_at, sid }) => (closed_at === null && sid !== undefined ? [[sid]] : [])),
    },
  },
)

export type Session = Static<typeof Session.schema>

export const IssuerUrl = t.String({
  minLength: 1,
  maxLength: limits.issuerCharsMax,
  pattern: '^https?://[^\\s]+$',
  description: 'the URL of the issuer, exactly as its tokens name it',
})
export const Sub = t.String({
  minLength: 1,
  maxLength: limits.subCharsMax,
  description: 'the claim sub of the tokens, which names the person at the issuer',
})

/** Links a subject of an issuer to a person of this installation. No other claim of a token identifies a person. */
export const SubjectLink = doc(
  'identity.subject',
  t.Object({
    id: t.String(),
    user_id: UserId,
    issuer: IssuerUrl,
    sub: Sub,
    linked_by: t.String(),
    created_at: Timestamp,
    unlinked_at: nullable(Timestamp),
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: (link, actor) => link.user_id === actor.id || isOwner(actor),
    // Unlinking ends the long polls that use a token of this link.
    wakes: (link) => link.user_id,
    indexes: {
      all: index((link) => (link.unlinked_at === null ? [[]] : [])),
      user: index((link) => (link.unlinked_at === null ? [[link.user_id]] : []), 1),
    },
  },
)
export type SubjectLink = Static<typeof SubjectLink.schema>

/** An issuer's claims about a person at their last sign-in. They give no rights: documents of this installation decide about groups. */
export const SignedIn = doc(
  'identity.signed_in',
  t.Object({
    id: t.String(),
    user_id: UserId,
    issuer: IssuerUrl,
    subject: t.String({ description: 'the id of the account that signed in' }),
    groups: t.Array(t.String({ maxLength: limits.groupClaimCharsMax }), {
      maxItems: limits.groupsClaimedMax,
      description: 'the groups of the person in the identity token; empty once the account is unlinked',
    }),
    at: Timestamp,
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: (signedIn, actor) => signedIn.user_id === actor.id || isOwner(actor),
    indexes: {
      user: index((signedIn) => [[signedIn.user_id]]),
      group: index(({ issuer, groups }) => [...new Set(groups)].map((claim) => [groupLinkId(issuer, claim)])),
    },
  },
)
export type SignedIn = Static<typeof SignedIn.schema>

export const groupLinkId = (issuer: string, claim: string): string => `glink_${sha256(JSON.stringify([issuer, claim]))}`
export const GroupName = t.String({ pattern: `^${word}$`, description: 'up to 64 letters, digits, - or _' })
/** The groups of projects that a group of an issuer is linked to, and the role that each gives its people. */
export const GroupLink = doc(
  'identity.group_link',
  t.Object({
    id: t.String(),
    issuer: IssuerUrl,
    claim: t.String({ maxLength: limits.groupClaimCharsMax }),
    places: t.Array(t.Object({ project_id: ProjectId, name: GroupName, role: ProjectRole, linked_by: t.String(), at: Timestamp }), {
      maxItems: limits.placesPerClaimMax,
    }),
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: (_, actor) => isOwner(actor),
    indexes: { place: index((link) => link.places.map(({ project_id, name }) => [project_id, name]), 2) },
  },
)
export type GroupLink = Static<typeof GroupLink.schema>

/** Keys and sessions as they are shown: without the digest of the secret. */
export const keyView = pick(Key.schema, ['id', 'subject', 'project_id', 'label', 'issued_by', 'created_at', 'expires_at', 'revoked_at'])
export const sessionView = pick(Session.schema, [
  'id',
  'user_id',
  'created_at',
  'seen_at',
  'expires_at',
  'closed_at',
  'browser',
  'address',
  'remembered',
  'by_key',
  'command_line',
])
