// The settings of one gate with their defaults. Apart from their check, because most gates have no file, and a schema takes 20 MB to load.
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
