// The types of the operations, written out from their schemas: what src/sdk/operations.ts computes, at a hundredth of its cost.
import { protocols } from '#protocols/index.ts'

type Schema = {
  readonly type?: string
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly patternProperties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly description?: string
}

/** Shorter objects are written inline. */
const NAMED_CHARS_MIN = 160

const message = (name: string): string => name.replaceAll(/(?:^|[_.])(\w)/g, (_, first: string) => first.toUpperCase())
const keyed = (name: string): string => (/^[a-z_]\w*$/i.test(name) ? name : JSON.stringify(name))
const commented = (text: string | undefined): string => (text === undefined ? '' : `/** ${text.replaceAll('*/', '*')} */ `)

/** `Operations` of src/sdk/operations.ts as a declaration that needs nothing else. */
export function operationTypes(): string {
  const named = new Map<string, string>()
  const taken = new Set<string>()

  function nameFor(text: string, wish: string): string {
    const known = named.get(text)
    if (known !== undefined) return known
    let name = message(wish)
    for (let i = 2; taken.has(name); i++) name = `${message(wish)}${i}`
    taken.add(name)
    named.set(text, name)
    return name
  }

  function object({ properties = {}, required = [] }: Schema, wish: string): string {
    const fields = Object.entries(properties).map(
      ([name, schema]) => `${commented(schema.description)}${keyed(name)}${required.includes(name) ? '' : '?'}: ${typeOf(schema, name)}`,
    )
    if (fields.length === 0) return '{}'
    const text = `{ ${fields.join('; ')} }`
    return text.length < NAMED_CHARS_MIN ? text : nameFor(text, wish)
  }

  function typeOf(schema: Schema, wish: string): string {
    if (schema.anyOf) return [...new Set(schema.anyOf.map((one) => typeOf(one, wish)))].join(' | ')
    if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(' | ')
    if ('const' in schema) return JSON.stringify(schema.const)
    if (schema.patternProperties) return `Record<string, ${typeOf(Object.values(schema.patternProperties)[0]!, wish)}>`
    if (schema.type === 'array') return `(${typeOf(schema.items!, wish.replace(/s$/, ''))})[]`
    if (schema.type === 'object') return object(schema, wish)
    if (schema.type === 'integer' || schema.type === 'number') return 'number'
    if (schema.type === 'string' || schema.type === 'boolean' || schema.type === 'null') return schema.type
    if (schema.type === undefined) return 'unknown'
    throw new Error(`there is no type for ${JSON.stringify(schema)}`)
  }

  const all = protocols.map(({ name: protocol, operations }) => {
    const texts = operations.map(({ kind, name, input, output }) => {
      const [taken_, given] = [typeOf(input as Schema, `${name}_input`), typeOf(output as Schema, `${name}_output`)]
      return `    | { readonly kind: '${kind}'; readonly name: '${name}'; readonly input: ${taken_}; readonly output: ${given} }\n`
    })
    return `  readonly ${protocol}:\n${texts.join('')}`
  })
  const types = [...named].map(([text, name]) => `export type ${name} = ${text}\n`)
  return `// Written from the schemas of the operations.\n${types.join('')}export type Operations = {\n${all.join('')}}\n`
}
