// Prefixed ULIDs: 48 bits of milliseconds and 80 bits of entropy in Crockford's base 32. Within a process they strictly
// increase, also when the clock stands still or steps back.
import type { Entropy } from './clock.ts'

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const ENTROPY_CHARS = 16

export type NewId = (prefix: string) => string

export function createIds(now: () => number, entropy: Entropy): NewId {
  let last = -1
  let time = ''
  let tail: number[] = []
  return (prefix) => {
    const ms = Math.max(0, Math.trunc(now()))
    if (ms > last) {
      last = ms
      time = timeChars(ms)
      tail = [...entropy(ENTROPY_CHARS)].map((byte) => byte & 31)
      // A head room of one bit: counting up from here cannot overflow within one millisecond.
      tail[0] = tail[0]! & 15
    } else {
      increment(tail)
    }
    let text = `${prefix}_${time}`
    for (const digit of tail) text += ALPHABET[digit]!
    return text
  }
}

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
