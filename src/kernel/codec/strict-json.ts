// The strict JSON decoder, the only door for JSON from outside. It refuses with a reason everything that a parser would silently accept or
// lose: deep nesting, repeated keys, __proto__, NUL, lone surrogates, numbers that a double cannot hold.
import { Refusal } from '../declare/errors.ts'
import { limits } from '../limits.ts'

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const refuse = (message: string): never => {
  throw new Refusal('INVALID_REQUEST', message)
}

/** An object with fields: neither null nor a list. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

type Defined<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>
}
/** The fields that have a value, as JSON would carry them. */
export const definedFields = <T extends object>(fields: T): Defined<T> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<T>

export function decode(bytes: Uint8Array): unknown {
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    return refuse('the body is not valid UTF-8')
  }
  return decodeText(text)
}

export function decodeText(text: string): unknown {
  const escaped = scan(text)
  try {
    return JSON.parse(escaped.length === 0 ? text : withPlainKeys(text, escaped)) as unknown
  } catch (error) {
    return refuse(`the body is not JSON: ${(error as Error).message}`)
  }
}

const QUOTE = 34
const COMMA = 44
const MINUS = 45
const COLON = 58
const OPEN_ARRAY = 91
const BACKSLASH = 92
const CLOSE_ARRAY = 93
const OPEN_OBJECT = 123
const CLOSE_OBJECT = 125

/** A key written with escapes: its range in the text, and the decoded key. */
type EscapedKey = { readonly from: number; readonly to: number; readonly key: string }

/**
 * V8 14.6 confuses keys that are written with escapes when it has seen an object of the same shape before: {"\\r":1,"\\n":2} may come
 * back with the keys "\\r" and "\\\\". So no escaped key reaches its parser: such keys are written plainly, and keys that need an escape are refused.
 */
function withPlainKeys(text: string, escaped: readonly EscapedKey[]): string {
  let plain = ''
  let done = 0
  for (const { from, to, key } of escaped) {
    plain += `${text.slice(done, from)}"${key}"`
    done = to
  }
  return plain + text.slice(done)
}

/** Comparing few keys one by one costs less than a set. A list has none. */
type Level = { readonly few: string[] | null; many: Set<string> | null; items: number }
const FEW = 12

/** True for nearly every text: no string needs a closer look, and each ends at the next quote. */
const isPlain = (text: string): boolean => !text.includes('\\') && !text.includes('\0') && text.isWellFormed()

/** Walks the tokens once. It need not detect every malformed text: the parser runs after it. */
function scan(text: string): EscapedKey[] {
  const levels: Level[] = []
  const escaped: EscapedKey[] = []
  const plain = isPlain(text)
  for (let i = 0; i < text.length;) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) {
      const end = plain ? afterQuote(text, i + 1) : endOfString(text, i)
      const level = levels.at(-1)
      if (level?.few && isKey(text, end)) {
        const key = plain ? text.slice(i + 1, end - 1) : keyIn(text.slice(i, end))
        take(key, level, level.few)
        if (key.length !== end - i - 2) escaped.push({ from: i, to: end, key })
      }
      i = end
    } else if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      if (levels.length === limits.depthMax) refuse(`the body is nested more than ${limits.depthMax} deep`)
      levels.push({ few: code === OPEN_OBJECT ? [] : null, many: null, items: 1 })
      i++
    } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) {
      levels.pop()
      i++
    } else if (code === COMMA) {
      const level = levels.at(-1)
      if (level && ++level.items > limits.arrayItemsMax) refuse(`a list has more than ${limits.arrayItemsMax} items`)
      i++
    } else if (code === MINUS || isDigit(code)) {
      i = endOfNumber(text, i)
    } else {
      i++
    }
  }
  return escaped
}

const isDigit = (code: number): boolean => code >= 48 && code <= 57
/** Digits, sign, point and exponent. */
const isOfNumber = (code: number): boolean => isDigit(code) || code === 43 || code === MINUS || code === 46 || code === 69 || code === 101

function endOfNumber(text: string, start: number): number {
  let end = start + 1
  while (end < text.length && isOfNumber(text.charCodeAt(end))) end++
  if (end - start > 15 || text.slice(start, end).search(/[eE]/) !== -1) {
    const value = Number(text.slice(start, end))
    if (Math.abs(value) > Number.MAX_SAFE_INTEGER) refuse('a number is beyond 2^53 and would lose digits')
  }
  return end
}

function afterQuote(text: string, from: number): number {
  const quote = text.indexOf('"', from)
  return quote === -1 ? text.length : quote + 1
}

/** The index after the closing quote. */
function endOfString(text: string, start: number): number {
  let i = start + 1
  for (; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) return i + 1
    if (code === BACKSLASH) {
      i = text[i + 1] === 'u' ? endOfEscape(text, i) : i + 1
    } else if (code === 0) {
      refuse('a text holds the character NUL')
    } else if (isSurrogate(code)) {
      if (!isHigh(code) || !isLow(text.charCodeAt(i + 1))) refuse('a text holds half of a surrogate pair')
      i++
    }
  }
  return i
}

const isSurrogate = (code: number): boolean => (code & 0xf800) === 0xd800
const isHigh = (code: number): boolean => (code & 0xfc00) === 0xd800
const isLow = (code: number): boolean => (code & 0xfc00) === 0xdc00

/** The index of the last character of a \u escape, or of both halves of an escaped pair. */
function endOfEscape(text: string, start: number): number {
  const code = Number.parseInt(text.slice(start + 2, start + 6), 16)
  if (code === 0) refuse('a text holds the character NUL')
  if (!isSurrogate(code)) return start + 5
  const next = text.startsWith('\\u', start + 6) ? Number.parseInt(text.slice(start + 8, start + 12), 16) : Number.NaN
  if (!isHigh(code) || !isLow(next)) refuse('a text holds half of a surrogate pair')
  return start + 11
}

function isKey(text: string, after: number): boolean {
  let i = after
  while (i < text.length && text.charCodeAt(i) <= 32) i++
  return text.charCodeAt(i) === COLON
}

const keyIn = (quoted: string): string => (quoted.includes('\\') ? unescape(quoted) : quoted.slice(1, -1))

function take(key: string, level: Level, few: string[]): void {
  if (key === '__proto__') refuse('the key __proto__ is not allowed')
  const { many } = level
  if (many ? many.has(key) : few.includes(key)) refuse(`the key ${JSON.stringify(key.slice(0, 80))} appears twice in one object`)
  if (many?.size === limits.keysPerObjectMax) refuse(`an object has more than ${limits.keysPerObjectMax} keys`)
  if (many) many.add(key)
  else if (few.push(key) === FEW) level.many = new Set(few)
}

function unescape(quoted: string): string {
  let key: string
  try {
    key = JSON.parse(quoted) as string
  } catch {
    return refuse('a key is not a valid JSON string')
  }
  const cannotBePlain = (character: string): boolean => character < ' ' || character === '"' || character === '\\'
  if (key.split('').some(cannotBePlain))
    refuse(`the key ${JSON.stringify(key.slice(0, 80))} holds a quote, a backslash or a control character: write it without`)
  return key
}
