// The settings of one gate in a file: `--config` of `countersign gate`, and each server in the file of `--gates`.
import { isObject } from '#kernel/codec/strict-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { parse, t, type Static } from '#kernel/declare/schema.ts'
import { limits } from '#kernel/limits.ts'
import { gateSettingsIn, type OwnSettings } from './gate-settings.ts'

export const gateFields = {
  redact: t.Optional(
    t.Array(t.String({ pattern: '^/', maxLength: limits.gatePatternCharsMax }), {
      maxItems: limits.gatePatternsMax,
      description: 'JSON pointers to arguments that only the tool gets, such as "/token"',
    }),
  ),
  trusted: t.Optional(t.Boolean({ description: "the server's hints, such as readOnlyHint, reach the policy" })),
  sampling: t.Optional(t.Boolean({ description: "the server's requests for sampling reach the client" })),
  roots: t.Optional(t.Boolean({ description: "the server's requests for roots reach the client" })),
  results: t.Optional(
    t.Object({
      max_bytes: t.Optional(
        t.Integer({ minimum: 1, maximum: limits.mcpLineBytesMax, description: 'a larger result is named by size and hash' }),
      ),
    }),
  ),
}
const GateFields = t.Object(gateFields)
export type GateFields = Static<typeof GateFields>

export function parseGateFields(value: unknown): OwnSettings {
  const known = Object.keys(gateFields)
  const unknown = Object.keys(isObject(value) ? value : {}).find((field) => !known.includes(field))
  if (unknown !== undefined)
    throw new Refusal('INVALID_REQUEST', `unknown setting ${JSON.stringify(unknown)}: there are ${known.join(', ')}`)
  return gateSettingsIn(parse(GateFields, value))
}
