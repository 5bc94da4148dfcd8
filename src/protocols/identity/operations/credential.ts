// Keys, and the identity behind a credential. A secret appears only in the response that creates it and is never stored.
import { sha256 } from '#kernel/log/hash-chain.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { anyone } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, freshProof, query, rule, type ListPage, type Read } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf } from '#kernel/declare/paging.ts'
import { nullable, t } from '#kernel/declare/schema.ts'
import { futureTimestamp } from '#kernel/codec/timestamps.ts'
import { fact } from '../events.ts'
import { isGoodKey, tokenOf } from '../authenticate.ts'
import { administrators, keeper, mayPassOn, subjectOf, type Subject } from '../access.ts'
import { ADMIN_SERVICE, Agent, Key, keyView, ProjectId, SubjectId, Timestamp, User } from '../schema.ts'

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
  output: t.Object({ key: nullable(t.String()), issued: keyView.schema }),
  callers: [...administrators, keeper],
  requires: [
    rule<OfSubject>(
      'UNAUTHORIZED',
      'only the server issues keys of the admin service',
      (state, _, { actor }) => !isAdminService(state) || actor.kind === 'system',
      'keys of the admin service are issued by the server alone',
    ),
    freshProof(),
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
    // Expired keys still count towards the limit, so a new key that needs room revokes them.
    const away = expired.map((old) => image(Key, { ...old, revoked_at: now }))
    return {
      facts: [fact('key.issued', [image(Key, key), ...away])],
      atMost: [{ doc: Key, index: 'subject', prefix: [subject.id], max, message: `a subject has at most ${max} keys: revoke one first` }],
      output: { key: tokenOf(key.id, hidden), issued: keyView.of(key) },
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
  output: t.Object({ revoked: keyView.schema }),
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
    return { facts: [fact('key.revoked', [image(Key, revoked)])], output: { revoked: keyView.of(revoked) } }
  },
  example: { given: 'withKey', as: 'admin', input: ({ issued }) => ({ key_id: issued.id }) },
})

/** The refusal must not mention the owner of the key: that would reveal that the key exists. */
const hiddenKey = (key_id: string) => (): never => {
  throw new Refusal('NOT_FOUND', `there is no key ${key_id}`)
}

const ListedKey = t.Object({
  ...keyView.schema.properties,
  last_used_at: nullable(t.String({ description: 'when the key was last accepted; null: never, as far as this server knows' })),
})

const list = query({
  name: 'key.list',
  summary: 'List the keys of a subject that are neither revoked nor expired.',
  draft: 'ours: identity',
  input: t.Object({ subject: SubjectId, ...pageInput }),
  output: t.Object({ items: t.Array(ListedKey), next_cursor: nextCursor }),
  callers: [...administrators, keeper],
  async load(read, input) {
    const subject = await subjectOf(read, input.subject)
    const { listed, found } = await keysOf(read, input.subject, pageIn('key.list', input))
    return { subject, listed, found: found.map((key) => ({ key, last_used_at: read.seen(key.id).last_seen })) }
  },
  view({ listed, found }, input, { now }) {
    const good = found.filter(({ key }) => isGoodKey(key, now))
    const items = good.map(({ key, last_used_at }) => ({ ...keyView.of(key), last_used_at }))
    return pageOf('key.list', input, listed, items)
  },
  example: { given: 'withKey', as: 'alice', input: { subject: 'agent_devin' } },
})

const me = query({
  name: 'me.get',
  summary: 'Fetch the identity of your credential.',
  draft: 'ours: identity',
  input: t.Object({}),
  output: t.Object({
    id: t.String(),
    name: nullable(t.String()),
    kind: t.String(),
    owner: t.Boolean(),
    role: nullable(t.String({ description: 'of a person, in the installation: owner, auditor or member' })),
    projects: t.Array(t.Object({ project_id: t.String(), role: t.String() })),
    all_projects: t.Boolean(),
  }),
  callers: [anyone],
  async load(read, _, { actor }) {
    const doc = actor.kind === 'human' ? User : actor.kind === 'agent' ? Agent : null
    return { name: doc === null ? null : ((await read.raw<typeof User.schema | typeof Agent.schema>(doc, actor.id))?.name ?? null) }
  },
  view({ name }, __, { actor }) {
    const projects = actor.projects === 'all' ? [] : [...actor.projects].map(([project_id, its]) => ({ project_id, role: its }))
    const role = actor.kind !== 'human' ? null : actor.owner === true ? 'owner' : actor.auditor === true ? 'auditor' : 'member'
    return { id: actor.id, name, kind: actor.kind, owner: actor.owner ?? false, role, projects, all_projects: actor.projects === 'all' }
  },
  example: { given: 'empty', as: 'alice', input: {} },
})

export const credentialOperations = [issue, revoke, list, me]
