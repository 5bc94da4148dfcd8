// Schemas and patches that come from outside. Their patterns run on the engine of linear-pattern.ts.
import { setBounded } from '../codec/bounded-map.ts'
import { isObject } from '../codec/strict-json.ts'
import { Ajv, type ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { Refusal } from './errors.ts'
import { linear } from '../foreign/linear-pattern.ts'
import { sha256 } from '../log/hash-chain.ts'
import { canonical } from '../log/canonical-json.ts'

const COMPILED_MAX = 500

const compiled = new Map<string, ValidateFunction>()

/** Many tools declare the JSON Schema draft of 2018. Without a declaration the current draft applies. */
const isOlder = (dialect: unknown): boolean => typeof dialect === 'string' && /\/draft-0[67]\//.test(dialect)

function compileAs(whole: object): ValidateFunction {
  const { $schema: dialect, ...rest }: Record<string, unknown> = isObject(whole) ? whole : {}
  // Such a schema answers later, and a promise is not a yes.
  if (rest['$async'] !== undefined) throw new Error('$async is not supported')
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
    setBounded(compiled, name, validate, COMPILED_MAX)
  }
  return validate
}

/** Why a foreign schema cannot be used, in words; null: it can. */
export function schemaProblem(schema: object, field: string): string | null {
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
