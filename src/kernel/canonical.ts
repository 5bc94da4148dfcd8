// RFC 8785 text of a JSON value. Written for speed and proven equal to the `canonicalize` package by a test. It refuses what
// JSON cannot hold (undefined above all), so the object in memory and the text on disk can never differ.

const orders = new Map<string, string[]>()
const ORDERS_MAX = 4_096

export function canonical(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value)
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'number' && Number.isFinite(value)) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object') throw new TypeError(`${typeof value} has no JSON`)
  let text = ''
  const object = value as Record<string, unknown>
  for (const key of sortedKeys(object)) {
    const held = object[key]
    // Strings are most of what documents hold: spare them a call.
    text += `${text === '' ? '{' : ','}${JSON.stringify(key)}:${typeof held === 'string' ? JSON.stringify(held) : canonical(held)}`
  }
  return text === '' ? '{}' : `${text}}`
}

function sortedKeys(object: object): string[] {
  const keys = Object.keys(object)
  if (isSorted(keys)) return keys
  const shape = keys.join('\0')
  const known = orders.get(shape)
  if (known) return known
  keys.sort()
  if (orders.size < ORDERS_MAX) orders.set(shape, keys)
  return keys
}

function isSorted(keys: string[]): boolean {
  for (let i = 1; i < keys.length; i++) if (keys[i - 1]! > keys[i]!) return false
  return true
}
