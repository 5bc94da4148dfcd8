// Substitution: somebody decides in a person's place between two dates. The principal of a task never changes; what a substitute
// does is recorded as theirs, on behalf of the person they stand in for.
import { timestampOf } from '#kernel/clock.ts'
import { Refusal } from '#kernel/errors.ts'
import { fact, image } from '#kernel/facts.ts'
import { role } from '#kernel/identity.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule } from '#kernel/operation.ts'
import { t } from '#kernel/schema.ts'
import { futureTimestamp, parseTimestamp } from '#kernel/time.ts'
import { administrators, shownTo } from '../rules.ts'
import { Timestamp, User, UserId } from '../schema.ts'

type Substituting = { readonly person: User; readonly substitute: User }
const personThemself = role<Substituting>(
  'the person themself',
  (actor, { person }) => actor.kind === 'human' && !actor.narrowed && actor.id === person.id,
)

const add = command({
  name: 'substitute.add',
  summary: 'Let another person decide in your place between two dates.',
  draft: 'ours: HACP’s principal never changes, people are away or leave',
  input: t.Object({ person: UserId, substitute: UserId, from: t.Optional(Timestamp), until: Timestamp }),
  output: t.Object({ user: User.schema }),
  callers: [...administrators, personThemself],
  requires: [
    rule<Substituting>(
      'PRECONDITION_FAILED',
      'nobody is their own substitute',
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
      'QUOTA_EXCEEDED',
      `a person stands in for at most ${limits.substitutionsMax} others`,
      ({ substitute }) => substitute.acts_for.length < limits.substitutionsMax,
      `the person stands in for ${limits.substitutionsMax} others, which is the most: name another one`,
    ),
  ],
  audit: 'substitute.added',
  load: async (read, input) => ({ person: await read(User, input.person), substitute: await read(User, input.substitute) }),
  decide({ person, substitute }, { from, until }, { actor, now }) {
    const start = from === undefined ? Date.parse(now) : parseTimestamp(from)
    if (start === null) throw new Refusal('INVALID_REQUEST', 'from must be an RFC 3339 time', { field: 'from' })
    const end = futureTimestamp(until, now, 'INVALID_REQUEST', 'until')
    if (timestampOf(start) >= end) throw new Refusal('INVALID_REQUEST', 'until is not after from', { field: 'until' })
    const others = substitute.acts_for.filter(({ user_id }) => user_id !== person.id)
    const next: User = {
      ...substitute,
      acts_for: [...others, { user_id: person.id, from: timestampOf(start), until: end, granted_by: actor.id }],
    }
    return {
      facts: [fact('substitute.added', [image(User, next)], { detail: { person: person.id, until: end } })],
      output: { user: shownTo(actor, next) },
    }
  },
  example: { given: 'empty', as: 'alice', input: { person: 'user_alice', substitute: 'user_bob', until: '2026-02-01T00:00:00Z' } },
})

const remove = command({
  name: 'substitute.remove',
  summary: 'End a substitution at once.',
  draft: 'ours: substitution',
  input: t.Object({ person: UserId, substitute: UserId }),
  output: t.Object({ user: User.schema }),
  callers: [...administrators, personThemself],
  requires: [
    rule<Substituting>(
      'PRECONDITION_FAILED',
      'the person has this substitute',
      ({ person, substitute }) => substitute.acts_for.some(({ user_id }) => user_id === person.id),
      'the person has no such substitute',
    ),
  ],
  audit: 'substitute.removed',
  load: async (read, input) => ({ person: await read(User, input.person), substitute: await read(User, input.substitute) }),
  decide({ person, substitute }, _, { actor }) {
    const next: User = { ...substitute, acts_for: substitute.acts_for.filter(({ user_id }) => user_id !== person.id) }
    return {
      facts: [fact('substitute.removed', [image(User, next)], { detail: { person: person.id } })],
      output: { user: shownTo(actor, next) },
    }
  },
  example: { given: 'substituted', as: 'alice', input: { person: 'user_alice', substitute: 'user_bob' } },
})

export const substituteOperations = [add, remove]
