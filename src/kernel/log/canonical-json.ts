// RFC 8785 text of a JSON value. Written for speed and proven equal to the `canonicalize` package by a test. It refuses what
// JSON cannot hold (undefined above all), so the object in memory and the text on disk can never differ.
import { shapeOf } from '../codec/key-shapes.ts'

export function canonical(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value)
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'number' && Number.isFinite(value)) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object') throw new TypeError(`a value of type ${typeof value} cannot be written as JSON`)
  const object = value as Record<string, unknown>
  const { sorted, labels } = shapeOf(Object.keys(object))
  let text = '{'
  for (let i = 0; i < sorted.length; i++) {
    const held = object[sorted[i]!]
    // Most values are strings: avoid a call for them.
    text += labels[i]! + (typeof held === 'string' ? JSON.stringify(held) : canonical(held))
  }
  return `${text}}`
}
