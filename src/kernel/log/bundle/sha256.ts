// SHA-256 that can be interrupted: its state is a text, so that a digest over an export that is read in pages goes on from call to call, and so
// that a browser digests a file that is larger than its memory.
import { base64Of, bytesOfBase64, hexOf } from '../tree/base64.ts'

const BLOCK = 64
const WORDS = 8

/** The first 32 bits of the fractional parts of roots of the first primes. */
function fractions(count: number, root: (prime: number) => number): Uint32Array {
  const found: number[] = []
  for (let n = 2; found.length < count; n++) {
    let isPrime = true
    for (let d = 2; d * d <= n; d++) if (n % d === 0) isPrime = false
    if (isPrime) found.push(Math.floor((root(n) % 1) * 2 ** 32))
  }
  return Uint32Array.from(found)
}
const ROUND = fractions(64, Math.cbrt)
const FIRST = fractions(WORDS, Math.sqrt)

export type RunningSha256 = {
  update(bytes: Uint8Array): void
  /** To go on from elsewhere. */
  state(): string
  digest(): Uint8Array
}

export function createSha256(from?: string): RunningSha256 {
  const words = new Uint32Array(FIRST)
  const rest = new Uint8Array(BLOCK)
  const schedule = new Uint32Array(64)
  let length = 0
  if (from !== undefined) length = restore(from, words, rest)

  function update(bytes: Uint8Array): void {
    let at = 0
    const held = length % BLOCK
    length += bytes.length
    if (held > 0) {
      at = Math.min(BLOCK - held, bytes.length)
      rest.set(bytes.subarray(0, at), held)
      if (held + at < BLOCK) return
      compress(words, rest, 0, schedule)
    }
    for (; at + BLOCK <= bytes.length; at += BLOCK) compress(words, bytes, at, schedule)
    rest.set(bytes.subarray(at))
  }

  return {
    update,
    state: () =>
      `${Array.from(words, (word) => word.toString(16).padStart(8, '0')).join('')}.${length}.${base64Of(rest.subarray(0, length % BLOCK))}`,
    digest() {
      const last = createSha256(this.state())
      const held = length % BLOCK
      const padding = new Uint8Array((held < 56 ? 56 : 120) - held + 8)
      padding[0] = 0x80
      new DataView(padding.buffer).setBigUint64(padding.length - 8, BigInt(length) * 8n)
      last.update(padding)
      return Uint8Array.from(last.state().slice(0, 64).match(/../g)!, (two) => Number.parseInt(two, 16))
    },
  }
}

/** The number of bytes so far. Throws RangeError for a text that is no state. */
function restore(from: string, words: Uint32Array, rest: Uint8Array): number {
  const [, hex, digits, base64] = /^([0-9a-f]{64})\.(\d{1,15})\.([A-Za-z0-9+/=]{0,88})$/.exec(from) ?? []
  const held = base64 === undefined ? null : bytesOfBase64(base64)
  const length = Number(digits)
  if (hex === undefined || held?.length !== length % BLOCK) throw new RangeError('it is no state of SHA-256')
  for (let i = 0; i < WORDS; i++) words[i] = Number.parseInt(hex.slice(i * 8, i * 8 + 8), 16)
  rest.set(held)
  return length
}

function compress(words: Uint32Array, bytes: Uint8Array, at: number, schedule: Uint32Array): void {
  for (let i = 0; i < 16; i++) {
    const from = at + i * 4
    schedule[i] = (bytes[from]! << 24) | (bytes[from + 1]! << 16) | (bytes[from + 2]! << 8) | bytes[from + 3]!
  }
  for (let i = 16; i < 64; i++) {
    const [x, y] = [schedule[i - 15]!, schedule[i - 2]!]
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3)
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10)
    schedule[i] = schedule[i - 16]! + s0 + schedule[i - 7]! + s1
  }
  let a = words[0]!
  let b = words[1]!
  let c = words[2]!
  let d = words[3]!
  let e = words[4]!
  let f = words[5]!
  let g = words[6]!
  let h = words[7]!
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7))
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + ROUND[i]! + schedule[i]!) | 0
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10))
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0
    h = g
    g = f
    f = e
    e = (d + t1) | 0
    d = c
    c = b
    b = a
    a = (t1 + t2) | 0
  }
  words[0]! += a
  words[1]! += b
  words[2]! += c
  words[3]! += d
  words[4]! += e
  words[5]! += f
  words[6]! += g
  words[7]! += h
}

export function sha256Of(bytes: Uint8Array): Uint8Array {
  const running = createSha256()
  running.update(bytes)
  return running.digest()
}
export const sha256HexOf = (running: RunningSha256): string => hexOf(running.digest())
