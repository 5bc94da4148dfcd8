// The run fence: fields of a call that name its run and its attempt. A process whose run another process has taken over
// is refused. The protocols that take these fields do not know runs; a contract asks the protocol of runs.
import { limits } from '../limits.ts'
import { t } from './schema.ts'
import type { Value } from '../log/store.ts'

export const ByRun = {
  run_id: t.Optional(t.String({ maxLength: limits.idCharsMax })),
  attempt: t.Optional(t.Integer({ minimum: 0, maximum: 1_000_000_000, description: 'the attempt at the run; a stale one is refused' })),
}

/** The run that an act was recorded for. */
export function runIn(detail: Value | null): { readonly run_id?: string; readonly attempt?: number } {
  const { run_id, attempt } = detail ?? {}
  return { ...(typeof run_id === 'string' ? { run_id } : {}), ...(typeof attempt === 'number' ? { attempt } : {}) }
}

export function byRun({ run_id, attempt }: { readonly run_id?: string; readonly attempt?: number }): { detail?: Value } {
  if (run_id === undefined && attempt === undefined) return {}
  return { detail: { ...(run_id === undefined ? {} : { run_id }), ...(attempt === undefined ? {} : { attempt }) } }
}
