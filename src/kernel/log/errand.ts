// An errand: work of the system that belongs to a batch of its own, at once or at a time. It is a document that is due; the operation that
// does the work reads it first and takes it away in its batch, so that one that is set anew meanwhile is never lost.
import { SYSTEM_SCOPE } from '../declare/access.ts'
import { put } from '../declare/facts.ts'
import type { Change } from '../declare/operation.ts'
import { doc, t } from '../declare/schema.ts'

export const Errand = doc(
  'kernel.errand',
  t.Object({ id: t.String(), at: t.String(), call: t.String(), input: t.Record(t.String(), t.Unknown()) }),
  { scopeOf: () => SYSTEM_SCOPE, visibleTo: () => false, due: ({ at, call, input }) => [{ at, call, input }] },
)

/** Setting it again under the same name moves it. */
export const errand = (id: string, at: string, call: string, input: Record<string, unknown>): Change =>
  put(Errand, id, { id, at, call, input })
export const errandDone = (id: string): Change => put(Errand, id, null)
