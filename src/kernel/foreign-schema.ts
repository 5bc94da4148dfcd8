// Schemas and patches that come from outside. Patterns run on a linear-time engine: a hostile one must not hold the process.
import { Ajv, type ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { RE2JS } from 're2js'
import { Refusal } from './errors.ts'
import { sha256 } from './chain.ts'
import { canonical } from './canonical.ts'

const PATTERN_CHARS_MAX = 200
const COMPILED_MAX = 500

/** What ajv asks of an engine; `toString` tells it two patterns apart. */
const linear = Object.assign(
  (pattern: string) => {
    if (pattern.length > PATTERN_CHARS_MAX) throw new Error(`a pattern has at most ${PATTERN_CHARS_MAX} characters`)
    const compiled = RE2JS.compile(pattern)
    return { test: (text: string) => compiled.matcher(text).find(), toString: () => `linear:${pattern}` }
  },
  { code: 'linear' },
)

const compiled = new Map<string, ValidateFunction>()

/** Many tools write their schemas in the draft of 2018 and say so; who says nothing means the present one. */
const isOlder = (dialect: unknown): boolean => typeof dialect === 'string' && /\/draft-0[67]\//.test(dialect)

function compileAs(whole: object): ValidateFunction {
  const { $schema: dialect, ...rest }: Record<string, unknown> = isObject(whole) ? whole : {}
  const Dialect = isOlder(dialect) ? Ajv : Ajv2020
  // A new one for each schema: ids and definitions of one must not be visible to another.
  return new Dialect({ strict: false, allErrors: false, validateFormats: false, code: { regExp: linear } }).compile(
    isObject(whole) ? rest : whole,
  )
}

function validatorOf(schema: object, code: string, field: string): ValidateFunction {
  const name = sha256(canonical(schema))
  let validate = compiled.get(name)
  if (!validate) {
    try {
      validate = compileAs(schema)
    } catch (error) {
      throw new Refusal(code, `the schema of ${field} cannot be used: ${(error as Error).message.slice(0, 200)}`, { field })
    }
    if (compiled.size >= COMPILED_MAX) compiled.delete(compiled.keys().next().value!)
    compiled.set(name, validate)
  }
  return validate
}

/** Why a foreign schema cannot be used, in words; null: it can. */
export function problemOf(schema: object, field: string): string | null {
  try {
    validatorOf(schema, 'INVALID_REQUEST', field)
    return null
  } catch (error) {
    return (error as Error).message
  }
}

/** Refuses a value that its foreign schema does not allow. */
export function refuseMismatch(schema: unknown, value: unknown, code: string, field: string): void {
  const validate = validatorOf(schema as object, code, field)
  if (validate(value)) return
  const first = validate.errors?.[0]
  throw new Refusal(code, `${field}${first?.instancePath.replaceAll('/', '.') ?? ''} ${first?.message ?? 'does not match its schema'}`, {
    field,
  })
}

/** RFC 7396. Null removes; an object is merged; anything else replaces. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const merged: Record<string, unknown> = isObject(target) ? { ...target } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key]
    else merged[key] = mergePatch(merged[key], value)
  }
  return merged
}
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)
