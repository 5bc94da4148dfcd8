// Builders of schemas: plain JSON Schema, with the types that typebox infers from it. Typebox's own builders are 370 files,
// and loading them took a fifth of the time of every short command.
import type Type from 'typebox'
import type { TSchema } from 'typebox'

type Builders = Pick<
  typeof Type,
  | 'Array'
  | 'Boolean'
  | 'Enum'
  | 'Integer'
  | 'Literal'
  | 'Null'
  | 'Number'
  | 'Object'
  | 'Optional'
  | 'Record'
  | 'String'
  | 'Union'
  | 'Unknown'
>

/** Marks a field that may be missing. Not enumerable, so the published schema does not contain it. */
const OPTIONAL = '~optional'
const builderOf = (type: string) => (options?: object) => ({ type, ...options })

const built = {
  Array: (items: TSchema, options?: object) => ({ type: 'array', items, ...options }),
  Boolean: builderOf('boolean'),
  Enum: (words: readonly string[], options?: object) => ({ enum: words, ...options }),
  Integer: builderOf('integer'),
  Literal: (value: string | number | boolean, options?: object) => ({ type: typeof value, const: value, ...options }),
  Null: builderOf('null'),
  Number: builderOf('number'),
  Object(properties: Readonly<Record<string, object>>, options?: object) {
    const required = Object.keys(properties).filter((name) => !Object.hasOwn(properties[name]!, OPTIONAL))
    return { type: 'object', ...(required.length > 0 ? { required } : {}), properties, ...options }
  },
  Optional: (schema: object) => Object.defineProperty({ ...schema }, OPTIONAL, { value: true }),
  Record: (_key: TSchema, value: TSchema, options?: object) => ({ type: 'object', patternProperties: { '^.*$': value }, ...options }),
  String: builderOf('string'),
  Union: (anyOf: readonly TSchema[], options?: object) => ({ anyOf, ...options }),
  Unknown: (options?: object) => ({ ...options }),
}

export const t = built as unknown as Builders
