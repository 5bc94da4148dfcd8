// Shapes of objects, only for speed: the keys of documents of one kind are sorted and quoted once. Measured in one process: the canonical text
// of a task takes 2.4 us with it and 4.8 us without. Without this file, `canonical` sorts and quotes the keys of each object.

/** The keys of an object in their order, sorted, and each as text with quotes, colon and the preceding comma. */
type Shape = { readonly keys: readonly string[]; readonly sorted: readonly string[]; readonly labels: readonly string[] }

// The documents have few shapes, so most are known; comparing keys one by one is cheaper than making one text of them. A sender of other
// shapes can fill a few megabytes at most.
const shapes = new Map<string, Shape[]>()
const SHAPES_MAX = 1_000
const SHAPES_PER_FIRST_KEY_MAX = 16
const KEYS_MAX = 64
const KEY_CHARS_MAX = 64
let known = 0

export function shapeOf(keys: readonly string[]): Shape {
  const first = keys[0] ?? ''
  const alike = shapes.get(first) ?? []
  for (const shape of alike) if (isSame(shape.keys, keys)) return shape
  const sorted = keys.toSorted()
  const shape = { keys, sorted, labels: sorted.map((key, i) => `${i === 0 ? '' : ','}${JSON.stringify(key)}:`) }
  const isSmall = keys.length <= KEYS_MAX && keys.every((key) => key.length <= KEY_CHARS_MAX)
  if (isSmall && known < SHAPES_MAX && alike.length < SHAPES_PER_FIRST_KEY_MAX) {
    known++
    shapes.set(first, [...alike, shape])
  }
  return shape
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}
