// Substitution: one person decides in another person's place between two dates. The principal of a task never changes. The record names
// the substitute as the actor, on behalf of the person they replace.
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { installationOwner, isWhole, ownsProject, role, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Read } from '#kernel/declare/operation.ts'
import { nullable, t, type Static } from '#kernel/declare/schema.ts'
import { futureTimestamp, parseTimestamp } from '#kernel/codec/timestamps.ts'
import { fact } from '../events.ts'
import { administrators, shownTo } from '../access.ts'
import { withLinksNow } from '../groups.ts'
import { GroupLink, membershipsOf, ProjectId, Timestamp, User, UserId } from '../schema.ts'

type Substituting = { readonly person: User; readonly substitute: User; readonly project_id: string | null }
const personThemself = role<Substituting>(
  'the person themself',
  (actor, { person }) => actor.kind === 'human' && isWhole(actor) && actor.id === person.id,
)
const isIn = (user: User, id: string): boolean => membershipsOf(user).some(({ project_id }) => project_id === id)
/** X27: a project owner sees the items without a decider there, and names a substitute. */
const ownerOfWhatTheyLeft = role<Substituting>(
  'an owner of the project, for a person who is switched off or has left it',
  (actor, { person, project_id }) => project_id !== null && mayFill(actor, project_id) && (person.disabled || !isIn(person, project_id)),
)
const mayFill = (actor: Actor, project_id: string): boolean => actor.kind === 'human' && isWhole(actor) && ownsProject(actor, project_id)

type Named = { readonly person: string; readonly substitute: string; readonly project_id?: string }
async function loadSubstitution(read: Read, { person, substitute, project_id }: Named, actor: Actor): Promise<Substituting> {
  // Read without access checks: project owners cannot otherwise see a person who has left the project.
  const isLeft = project_id !== undefined && (mayFill(actor, project_id) || installationOwner.is(actor, null))
  const left = isLeft ? await read.raw(User, person) : null
  // Members by a group of an issuer are members, as long as the group is linked.
  const asLinked = (user: User): Promise<User> => withLinksNow((link) => read.raw(GroupLink, link), user)
  const found = [left ?? (await read(User, person)), await read(User, substitute)] as const
  return { person: await asLinked(found[0]), substitute: await asLinked(found[1]), project_id: project_id ?? null }
}
const InProject = t.Optional({ ...ProjectId, description: 'in this project alone; without it, everywhere' })
const isTheSame = (entry: User['acts_for'][number], { person, project_id }: Substituting): boolean =>
  entry.user_id === person.id && (entry.project_id ?? null) === project_id

const add = command({
  name: 'substitute.add',
  summary: 'Let another person decide in your place between two dates; owners of a project: in the place of a person who has left it.',
  draft: 'ours: HACP’s principal never changes, people are away or leave',
  input: t.Object({ person: UserId, substitute: UserId, from: t.Optional(Timestamp), until: Timestamp, project_id: InProject }),
  output: t.Object({ user: User.schema }),
  callers: [...administrators, personThemself, ownerOfWhatTheyLeft],
  requires: [
    rule<Substituting>(
      'PRECONDITION_FAILED',
      'a person cannot be their own substitute',
      ({ person, substitute }) => person.id !== substitute.id,
      'a person cannot be their own substitute: name another one',
    ),
    rule<Substituting>(
      'PRECONDITION_FAILED',
      'the substitute is active',
      ({ substitute }) => !substitute.disabled,
      'the substitute is switched off: name an active person',
    ),
    rule<Substituting>(
      'PRECONDITION_FAILED',
      'the substitute is in the project',
      ({ substitute, project_id }) => project_id === null || isIn(substitute, project_id),
      'the substitute is not in the project: project.join puts them into it',
    ),
    rule<Substituting>(
      'QUOTA_EXCEEDED',
      `a person stands in for at most ${limits.substitutionsMax} others`,
      ({ substitute }) => substitute.acts_for.length < limits.substitutionsMax,
      `the person stands in for ${limits.substitutionsMax} others, which is the most: name another one`,
    ),
  ],
  audit: 'substitute.added',
  load: (read, input, { actor }) => loadSubstitution(read, input, actor),
  decide(state, { from, until }, { actor, now }) {
    const { person, substitute, project_id } = state
    const start = from === undefined ? Date.parse(now) : parseTimestamp(from)
    if (start === null) throw new Refusal('INVALID_REQUEST', 'from must be an RFC 3339 time', { field: 'from' })
    const end = futureTimestamp(until, now, 'INVALID_REQUEST', 'until')
    if (timestampOf(start) >= end) throw new Refusal('INVALID_REQUEST', 'until is not after from', { field: 'until' })
    const others = substitute.acts_for.filter((entry) => !isTheSame(entry, state))
    const where = project_id === null ? {} : { project_id }
    const entry = { user_id: person.id, from: timestampOf(start), until: end, granted_by: actor.id, ...where }
    const next: User = { ...substitute, acts_for: [...others, entry] }
    return {
      facts: [fact('substitute.added', [image(User, next)], { detail: { person: person.id, from: entry.from, until: end, ...where } })],
      output: { user: shownTo(actor, next) },
    }
  },
  example: { given: 'empty', as: 'alice', input: { person: 'user_alice', substitute: 'user_bob', until: '2026-02-01T00:00:00Z' } },
})

const remove = command({
  name: 'substitute.remove',
  summary: 'End a substitution immediately.',
  draft: 'ours: substitution',
  input: t.Object({ person: UserId, substitute: UserId, project_id: InProject }),
  output: t.Object({ user: User.schema }),
  callers: [...administrators, personThemself, ownerOfWhatTheyLeft],
  requires: [
    rule<Substituting>(
      'PRECONDITION_FAILED',
      'the person has this substitute',
      (state) => state.substitute.acts_for.some((entry) => isTheSame(entry, state)),
      'the person has no such substitute: user.get shows whom they stand in for, and where',
    ),
  ],
  audit: 'substitute.removed',
  load: (read, input, { actor }) => loadSubstitution(read, input, actor),
  decide(state, _, { actor }) {
    const { person, substitute, project_id } = state
    const next: User = { ...substitute, acts_for: substitute.acts_for.filter((entry) => !isTheSame(entry, state)) }
    const where = project_id === null ? {} : { project_id }
    return {
      facts: [fact('substitute.removed', [image(User, next)], { detail: { person: person.id, ...where } })],
      output: { user: shownTo(actor, next) },
    }
  },
  example: { given: 'substituted', as: 'alice', input: { person: 'user_alice', substitute: 'user_bob' } },
})

const Substitution = t.Object({
  person: UserId,
  person_name: t.String(),
  substitute: UserId,
  substitute_name: t.String(),
  from: Timestamp,
  until: Timestamp,
  project_id: nullable(ProjectId),
  granted_by: t.String(),
  is_active: t.Boolean({ description: 'the substitute decides in their place now' }),
})
type Substitution = Static<typeof Substitution>

/** People can see their own substitutes, and the people whom they replace. */
const whoseItIs = role<{ readonly whose: string }>(
  'the person themself',
  (actor, { whose }) => actor.kind === 'human' && actor.id === whose,
)

const list = query({
  name: 'substitute.list',
  summary: 'List who decides in your place, and in whose place you decide, from when until when.',
  draft: 'ours: substitution',
  input: t.Object({ person: t.Optional(UserId) }),
  output: t.Object({ items: t.Array(Substitution) }),
  callers: [whoseItIs, ...administrators],
  async load(read, { person }, { actor }) {
    const whose = person ?? actor.id
    if (!whoseItIs.is(actor, { whose })) await read(User, whose)
    const listed = await read.list(User, 'substitute', [[whose]], { limit: limits.peopleSoughtMax })
    const substitutes = await Promise.all([...new Set([...listed.map(({ id }) => id), whose])].map((id) => read.raw(User, id)))
    return { whose, substitutes: substitutes.filter((substitute) => substitute !== null) }
  },
  async view({ whose, substitutes }, _, { now }, read) {
    const items: Substitution[] = []
    for (const substitute of substitutes)
      for (const { user_id, from, until, granted_by, project_id = null } of substitute.acts_for) {
        if (user_id !== whose && substitute.id !== whose) continue
        const person = (await read.raw(User, user_id))?.name ?? user_id
        const named = { person: user_id, person_name: person, substitute: substitute.id, substitute_name: substitute.name }
        items.push({ ...named, from, until, project_id, granted_by, is_active: !substitute.disabled && from <= now && now < until })
      }
    return { items: items.toSorted((a, b) => (a.until < b.until ? -1 : a.until > b.until ? 1 : 0)) }
  },
  example: { given: 'substituted', as: 'alice', input: { person: 'user_alice' } },
})

export const substituteOperations = [add, remove, list]
