// Builders of schemas: plain JSON Schema, with the types that typebox infers from it. Its own builders can do much more and come in 370 files,
// which took a fifth of the time of every short command to load.
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

/** Marks a field that may be missing. Not enumerable: it is no part of the schema that others see. */
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
