// An errand: work of the system in a separate batch, immediately or at a given time. It is a due document. The operation that does the
// work reads the document first and deletes it in its own batch, so that an errand that is set again in between is never lost.
import { SYSTEM_SCOPE } from '../declare/access.ts'
import { put } from '../declare/facts.ts'
import type { Change } from '../declare/operation.ts'
import { doc, t } from '../declare/schema.ts'

export const Errand = doc(
  'kernel.errand',
  t.Object({ id: t.String(), at: t.String(), call: t.String(), input: t.Record(t.String(), t.Unknown()) }),
  { scopeOf: () => SYSTEM_SCOPE, visibleTo: () => false, due: ({ at, call, input }) => [{ at, call, input }] },
)

/** Sets an errand. Setting it again under the same id moves it. */
export const errand = (id: string, at: string, call: string, input: Record<string, unknown>): Change =>
  put(Errand, id, { id, at, call, input })
export const errandDone = (id: string): Change => put(Errand, id, null)
