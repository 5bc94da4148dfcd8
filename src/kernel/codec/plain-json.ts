// Plain JSON of a value that foreign code returned. Such a value can be anything: a cycle, a BigInt, a getter that throws. Each is refused with its
// place.
import { messageOf } from './cut-text.ts'
export class NotJson extends Error {
  override name = 'NotJson'
}

export type PlainBounds = { readonly depth: number; readonly chars: number }

/** Reads every property once. `name`: how messages call the value. */
export function plainJson(value: unknown, name: string, bounds: PlainBounds): string {
  const open = new Set<object>()
  let left = bounds.chars
  const refuse = (message: string): never => {
    throw new NotJson(message)
  }
  const spend = (text: string): string => {
    left -= text.length
    return left < 0 ? refuse(`${name} is longer than ${bounds.chars} characters of JSON`) : text
  }
  function writeValue(held: unknown, place: string): string {
    if (held === null || typeof held === 'boolean') return spend(String(held))
    if (typeof held === 'string') return spend(held.length > left ? held : JSON.stringify(held))
    if (typeof held === 'number') return Number.isFinite(held) ? spend(String(held)) : refuse(`${place} is ${held}, which JSON cannot hold`)
    if (typeof held !== 'object') return refuse(`${place} is of type ${typeof held}, which JSON cannot hold`)
    if (open.has(held)) return refuse(`${place} contains itself`)
    if (open.size === bounds.depth) return refuse(`${place} is nested more than ${bounds.depth} deep`)
    open.add(held)
    const text = Array.isArray(held) ? writeList(held, place) : writeObject(held, place)
    open.delete(held)
    return text
  }
  function writeList(held: readonly unknown[], place: string): string {
    // Checked before the items are read: a list can claim any length.
    if (held.length > left) spend(' '.repeat(left + 1))
    const items: string[] = []
    for (let i = 0; i < held.length; i++) items.push(writeValue(held[i], `${place}[${i}]`))
    return `[${items.join(',')}]`
  }
  function writeObject(held: object, place: string): string {
    const proto: unknown = Object.getPrototypeOf(held)
    if (proto !== null && proto !== Object.prototype)
      return refuse(`${place} is not a plain object: return objects, lists, texts, numbers, booleans and null`)
    const fields = Object.keys(held).map(
      (key) => `${spend(JSON.stringify(key))}:${writeValue((held as Record<string, unknown>)[key], `${place}.${key.slice(0, 80)}`)}`,
    )
    return `{${fields.join(',')}}`
  }
  try {
    return writeValue(value, name)
  } catch (error) {
    throw error instanceof NotJson ? error : new NotJson(`${name} cannot be read: ${messageOf(error)}`)
  }
}
