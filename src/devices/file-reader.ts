// Readers for the files that an operator writes: each value is checked by its type, and an error names the place of the value.

/** A mistake in a file, and its place. */
export class FileProblem extends Error {
  override name = 'FileProblem'
}
const no = (place: string, message: string): never => {
  throw new FileProblem(`${place} ${message}`)
}

export type Reader<T> = (value: unknown, place: string) => T
type Fields = Readonly<Record<string, unknown>>

export const text: Reader<string> = (value, place) =>
  typeof value === 'string' && value !== '' && value.length <= 4_096 ? value : no(place, 'must be a text')
export const flag: Reader<boolean> = (value, place) => (typeof value === 'boolean' ? value : no(place, 'must be true or false'))
export const number: Reader<number> = (value, place) =>
  typeof value === 'number' && Number.isFinite(value) ? value : no(place, 'must be a number')
export const integer =
  (min: number, max: number): Reader<number> =>
  (value, place) =>
    typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max
      ? value
      : no(place, `must be a whole number from ${min} to ${max}`)
export const oneOf =
  <W extends string>(...allowed: readonly W[]): Reader<W> =>
  (value, place) =>
    allowed.includes(value as W) ? (value as W) : no(place, `must be one of: ${allowed.join(', ')}`)
export const list =
  <T>(item: Reader<T>): Reader<T[]> =>
  (value, place) =>
    Array.isArray(value) ? value.map((entry, i) => item(entry, `${place}[${i}]`)) : no(place, 'must be a list')

export const fields: Reader<Fields> = (value, place) =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : no(place, 'must be an object')

/** Every key names one of the same kind. */
export const record =
  <T>(item: (value: unknown, place: string, key: string) => T): Reader<Record<string, T>> =>
  (value, place) =>
    Object.fromEntries(Object.entries(fields(value, place)).map(([key, inner]) => [key, item(inner, at(place, key), key)]))

type Shape = Readonly<Record<string, Reader<unknown>>>
type Of<S extends Shape> = { -readonly [K in keyof S]?: ReturnType<S[K]> }

/** An object with only these fields, all optional. An unknown field is refused, because it is probably a typo. */
export const objectWith =
  <S extends Shape>(shape: S): Reader<Of<S>> =>
  (value, place) => {
    const result: Record<string, unknown> = {}
    for (const [name, inner] of Object.entries(fields(value, place))) {
      const read = Object.hasOwn(shape, name) ? shape[name]! : no(at(place, name), `is unknown; known: ${Object.keys(shape).join(', ')}`)
      result[name] = read(inner, at(place, name))
    }
    return result as Of<S>
  }

export const at = (place: string, name: string): string => (place === '' ? name : `${place}.${name}`)

/** A number as a JSON number or as `"0x48"`. */
export function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : Number(value)
}
