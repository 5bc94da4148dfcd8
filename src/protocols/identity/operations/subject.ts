// Subjects of OAuth and OpenID Connect issuers, each bound to a person by an administrator: no other claim of a token, such as an
// e-mail address, identifies a person of this installation.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { limits } from '#kernel/limits.ts'
import { command, freshProof, query, rule } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf } from '#kernel/declare/paging.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { linkIdOf, signedInIdOf } from '../authenticate.ts'
import { administrators, isActivePerson, mayPassOn } from '../access.ts'
import { groupDetail, withGroupings } from '../groups.ts'
import { IssuerUrl, SignedIn, Sub, SubjectLink, User, UserId } from '../schema.ts'

const link = command({
  name: 'subject.link',
  summary: 'Accept the tokens that an issuer makes out to a subject as those of a person.',
  draft: 'ours: identity',
  input: t.Object({ user_id: UserId, issuer: IssuerUrl, sub: Sub }),
  output: t.Object({ subject: SubjectLink.schema }),
  callers: administrators,
  requires: [freshProof(), mayPassOn, isActivePerson],
  audit: 'subject.linked',
  async load(read, { user_id, issuer, sub }) {
    return { user: await read(User, user_id), before: await read.raw(SubjectLink, linkIdOf(issuer, sub)) }
  },
  decide({ user, before }, { issuer, sub }, { actor, now }) {
    if (before !== null && before.unlinked_at === null)
      throw new Refusal('CONFLICT', `this subject is ${before.user_id} already: unlink it first`)
    const id = linkIdOf(issuer, sub)
    const subject: SubjectLink = { id, user_id: user.id, issuer, sub, linked_by: actor.id, created_at: now, unlinked_at: null }
    const max = limits.subjectsPerUserMax
    return {
      facts: [fact('subject.linked', [image(SubjectLink, subject)])],
      atMost: [
        { doc: SubjectLink, index: 'user', prefix: [user.id], max, message: `a person has at most ${max} subjects: unlink one first` },
      ],
      output: { subject },
    }
  },
  example: { given: 'empty', as: 'admin', input: { user_id: 'user_alice', issuer: 'https://login.example.com', sub: 'alice-7' } },
})

const unlink = command({
  name: 'subject.unlink',
  summary: 'Stop accepting the tokens of a subject, from the next call on.',
  draft: 'ours: identity',
  input: t.Object({ issuer: IssuerUrl, sub: Sub }),
  output: t.Object({ subject: SubjectLink.schema }),
  callers: administrators,
  requires: [
    rule<{ subject: SubjectLink }>(
      'PRECONDITION_FAILED',
      'the subject is linked',
      ({ subject }) => subject.unlinked_at === null,
      'the subject was unlinked already',
    ),
  ],
  audit: 'subject.unlinked',
  async load(read, { issuer, sub }) {
    const subject = await read(SubjectLink, linkIdOf(issuer, sub))
    const user = (await read.raw(User, subject.user_id))!
    return { subject, user, signedIn: await read.raw(SignedIn, signedInIdOf(issuer, subject.user_id)) }
  },
  decide({ subject, user, signedIn }, { issuer }, { now }) {
    const next: SubjectLink = { ...subject, unlinked_at: now }
    // The groups of the account go with it.
    const isTheLast = signedIn !== null && signedIn.subject === subject.id
    const groups = isTheLast ? [image(SignedIn, { ...signedIn, groups: [] })] : []
    const left = isTheLast ? withGroupings(user, (one) => one.issuer === issuer, []) : null
    return {
      facts: [
        fact('subject.unlinked', [image(SubjectLink, next), ...groups]),
        ...(left === null ? [] : [fact('user.grouped', [image(User, left.user)], { detail: groupDetail(left.changed), cause: 0 })]),
      ],
      output: { subject: next },
    }
  },
  example: { given: 'withSubject', as: 'admin', input: { issuer: 'https://login.example.com', sub: 'alice-7' } },
})

const list = query({
  name: 'subject.list',
  summary: 'List the subjects of issuers that are linked to a person, or to anybody.',
  draft: 'ours: identity',
  input: t.Object({ user_id: t.Optional(UserId), ...pageInput }),
  output: t.Object({ items: t.Array(SubjectLink.schema), next_cursor: nextCursor }),
  callers: administrators,
  async load(read, input) {
    const { user_id } = input
    if (user_id !== undefined) await read(User, user_id)
    const [name, prefix] = user_id === undefined ? ['all', []] : ['user', [user_id]]
    const listed = await read.list(SubjectLink, name, [prefix], pageIn('subject.list', input))
    return { listed, found: await Promise.all(listed.map(({ id }) => read.maybe(SubjectLink, id))) }
  },
  view({ listed, found }, input) {
    const links = found.filter((one) => one !== null)
    return pageOf('subject.list', input, listed, links)
  },
  example: { given: 'withSubject', as: 'admin', input: { user_id: 'user_alice' } },
})

export const subjectOperations = [link, unlink, list]
