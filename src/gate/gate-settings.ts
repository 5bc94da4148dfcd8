// The settings of one gate with their defaults. Their validation is in gate-fields.ts: a schema takes 20 MB to load, and most gates have no
// settings file.
import { limits } from '#kernel/limits.ts'
import type { GateFields } from './gate-fields.ts'
import type { GateSettings } from './gate.ts'

export type OwnSettings = Omit<GateSettings, 'name' | 'holdMs' | 'task_id'>

export const gateSettingsIn = ({
  redact = [],
  trusted = false,
  sampling = false,
  roots = false,
  results = {},
}: GateFields): OwnSettings => ({
  redact,
  trusted,
  passes: [...(sampling ? ['sampling/createMessage' as const] : []), ...(roots ? ['roots/list' as const] : [])],
  resultBytesMax: results.max_bytes ?? limits.gateResultBytesMax,
})
