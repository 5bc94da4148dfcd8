// Who has agents with more than one process says which run a call is made for, and in which attempt: a process that another one has
// taken over from is refused. What a run is, the protocols that take it do not know; a contract asks whoever does.
import { limits } from '../limits.ts'
import { t } from './schema.ts'
import type { Value } from '../log/store.ts'

export const ByRun = {
  run_id: t.Optional(t.String({ maxLength: limits.idCharsMax })),
  attempt: t.Optional(t.Integer({ minimum: 0, maximum: 1_000_000_000, description: 'the attempt at the run; a stale one is refused' })),
}

export function byRun({ run_id, attempt }: { readonly run_id?: string; readonly attempt?: number }): { detail?: Value } {
  if (run_id === undefined && attempt === undefined) return {}
  return { detail: { ...(run_id === undefined ? {} : { run_id }), ...(attempt === undefined ? {} : { attempt }) } }
}
