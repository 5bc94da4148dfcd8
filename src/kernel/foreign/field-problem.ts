// The first field of a value that a foreign schema does not allow, found without compiling code: so it also runs in a browser that forbids `eval`. The server
// checks again with declare/foreign-schema.ts, and its word counts.
import { Errors } from 'typebox/schema'
import { isObject } from '../codec/strict-json.ts'

/** `path`: names of fields and places in lists, from the outside in. `limit`: the bound or the allowed values of the broken rule. */
export type FieldProblem = { readonly path: readonly string[]; readonly rule: string; readonly limit: unknown; readonly message: string }

/** Keywords below which the names are names, not keywords. */
const NAMED = ['properties', '$defs', 'definitions', 'dependentSchemas']
/** Keywords whose values are data, not schemas. */
const DATA = ['const', 'enum', 'default', 'examples']
/** `format` is not checked by the server either. A pattern could hold the browser: the server runs it on a linear-time engine. */
const SKIPPED = ['pattern', 'patternProperties', 'format']
function withoutPatterns(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutPatterns)
  if (!isObject(schema)) return schema
  return Object.fromEntries(
    Object.entries(schema).flatMap(([keyword, inner]): [string, unknown][] => {
      if (SKIPPED.includes(keyword)) return []
      if (DATA.includes(keyword)) return [[keyword, inner]]
      if (!NAMED.includes(keyword) || !isObject(inner)) return [[keyword, withoutPatterns(inner)]]
      return [[keyword, Object.fromEntries(Object.entries(inner).map(([name, subschema]) => [name, withoutPatterns(subschema)]))]]
    }),
  )
}

export function fieldProblem(schema: unknown, value: unknown): FieldProblem | null {
  // Without the patterns, names that match them would count as additional properties.
  if (JSON.stringify(schema).includes('"patternProperties"')) return null
  const [isFit, errors] = Errors(withoutPatterns(schema) as object, value)
  const first = errors.find(({ keyword }) => keyword !== 'boolean')
  if (isFit || first === undefined) return null
  const { instancePath, keyword, message, params } = first
  const limits = Object.entries(params).filter(([name]) => name !== 'comparison')
  return {
    path: instancePath
      .split('/')
      .slice(1)
      .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~')),
    rule: keyword,
    limit: limits[0]?.[1] ?? null,
    message,
  }
}
