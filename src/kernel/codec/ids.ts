// Prefixed ULIDs: 48 bits of milliseconds and 80 bits of entropy in Crockford's base 32. Within a process they strictly
// increase, even if the clock stops or steps back.
import type { Entropy } from '../ports/clock.ts'

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const ENTROPY_CHARS = 16

export type NewId = (prefix: string) => string

export function createIds(now: () => number, entropy: Entropy): NewId {
  let last = -1
  /** Everything but the last digits, which count. */
  let head = ''
  let high: number[] = []
  let low = 0
  return (prefix) => {
    const ms = Math.max(0, Math.trunc(now()))
    if (ms > last) {
      last = ms
      const digits = [...entropy(ENTROPY_CHARS)].map((byte) => byte & 31)
      // A head room of one bit: counting up from here cannot overflow within one millisecond.
      digits[0] = digits[0]! & 15
      high = digits.slice(0, -LOW_CHARS)
      low = digits.slice(-LOW_CHARS).reduce((sum, digit) => sum * 32 + digit, 0)
      head = `_${timeChars(ms)}${textOf(high)}`
    } else if (++low === LOW_END) {
      low = 0
      increment(high)
      head = `_${timeChars(last)}${textOf(high)}`
    }
    return prefix + head + PAIRS[low >> 10]! + PAIRS[low & 1023]!
  }
}

const LOW_CHARS = 4
const LOW_END = 32 ** LOW_CHARS
/** Two digits at a time: an id is made several times with every call. */
const PAIRS = Array.from({ length: 1_024 }, (_, i) => ALPHABET[i >> 5]! + ALPHABET[i & 31]!)
const textOf = (digits: readonly number[]): string => digits.map((digit) => ALPHABET[digit]!).join('')

function increment(digits: number[]): void {
  for (let i = digits.length - 1; i >= 0; i--) {
    if (digits[i]! < 31) {
      digits[i]!++
      return
    }
    digits[i] = 0
  }
  throw new RangeError('more than 2^79 ids in one millisecond')
}

function timeChars(ms: number): string {
  let text = ''
  let rest = ms
  for (let i = 0; i < 10; i++) {
    text = ALPHABET[rest % 32]! + text
    rest = Math.floor(rest / 32)
  }
  return text
}
