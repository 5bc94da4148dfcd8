// The log of messages that leave by webhook: the last attempts of each and when it is forgotten. Each protocol that sends some has a document
// kind of its own for it.
import { system } from '../declare/access.ts'
import { put } from '../declare/facts.ts'
import { command, type Command } from '../declare/operation.ts'
import { nullable, t, type Doc, type Due, type Static, type TSchema } from '../declare/schema.ts'
import { limits } from '../limits.ts'
import { timestampOf } from './clock.ts'

export const attemptFields = {
  status: nullable(t.Integer()), // null: no answer came
  duration_ms: t.Integer(),
  error: nullable(t.String({ maxLength: limits.deliveryErrorCharsMax })), // never contains the endpoint: people read this
}
export const Attempt = t.Object({ at: t.String({ maxLength: 40, description: 'an RFC 3339 time' }), ...attemptFields })
type Attempt = Static<typeof Attempt>

/** The last attempts, with one more. */
export const attemptsWith = (recent: readonly Attempt[], { status, duration_ms, error }: Omit<Attempt, 'at'>, at: string): Attempt[] =>
  [...recent, { at, status, duration_ms, error }].slice(-limits.deliveryAttemptsKept)

const EntryId = t.Object({ id: t.String({ maxLength: 120 }) })
const Forgotten = t.Object({ forgotten: t.Boolean() })

/** When an entry is forgotten, by the command that `forgetEntry` makes. */
export const forgetAt = (call: string, { id, first_at }: { readonly id: string; readonly first_at: string }): Due => ({
  at: timestampOf(Date.parse(first_at) + limits.deliveryLogMs),
  call,
  input: { id },
})

export const forgetEntry = <S extends TSchema, N extends string>(
  log: Doc<S>,
  op: Pick<Command<typeof EntryId, typeof Forgotten, unknown, N>, 'name' | 'summary' | 'example'>,
): Command<typeof EntryId, typeof Forgotten, { readonly entry: Static<S> | null }, N> =>
  command({
    ...op,
    draft: 'ours: kept data takes a bounded space',
    input: EntryId,
    output: Forgotten,
    callers: [system],
    requires: [],
    audit: null,
    load: async (read, { id }) => ({ entry: await read.raw(log, id) }),
    decide: ({ entry }, { id }) => ({ facts: [], puts: entry === null ? [] : [put(log, id, null)], output: { forgotten: entry !== null } }),
  })
