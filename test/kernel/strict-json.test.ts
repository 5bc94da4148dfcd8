// The one door for JSON from outside: what it refuses, and that it never loses, changes or chokes on anything.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Refusal } from '#kernel/declare/errors.ts'
import { decode, decodeText } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)
const refused = (message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof Refusal, String(error))
  assert.equal(error.code, 'INVALID_REQUEST')
  assert.match(error.message, message)
  return true
}

const refusals: [title: string, text: string | Uint8Array, message: RegExp][] = [
  ['nothing', '', /is not JSON/],
  ['half a text', '{"a":', /is not JSON/],
  ['text after the end', '{} {}', /is not JSON/],
  ['a comment', '{"a":1} // x', /is not JSON/],
  ['a trailing comma', '[1,]', /is not JSON/],
  ['single quotes', "{'a':1}", /is not JSON/],
  ['a raw line break in a text', '"a\nb"', /is not JSON/],
  ['NaN', '{"a":NaN}', /is not JSON/],
  ['a byte order mark', '\ufeff{}', /is not JSON/],
  ['a leading zero', '[01]', /is not JSON/],
  ['bytes that are not UTF-8', Uint8Array.of(0x22, 0xff, 0x22), /not valid UTF-8/],
  ['an overlong encoding', Uint8Array.of(0x22, 0xc0, 0x80, 0x22), /not valid UTF-8/],
  ['an encoded surrogate', Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22), /not valid UTF-8/],
  ['a cut character', Uint8Array.of(0x22, 0xe2, 0x82), /not valid UTF-8/],
  ['a repeated key', '{"by":"agent","by":"human"}', /"by" appears twice/],
  ['a repeated key, once escaped', String.raw`{"by":1,"b\u0079":2}`, /"by" appears twice/],
  ['a repeated key deep inside', '[{"a":{"b":1,"c":{},"b":2}}]', /"b" appears twice/],
  ['a repeated empty key', '{"":1,"":2}', /"" appears twice/],
  ['__proto__', '{"__proto__":{"isAdmin":true}}', /__proto__ is not allowed/],
  ['__proto__, escaped', String.raw`{"__pr\u006fto__":{}}`, /__proto__ is not allowed/],
  ['__proto__ before space and colon', '{"__proto__" \t\n:1}', /__proto__ is not allowed/],
  ['NUL', '"a\0b"', /character NUL/],
  ['NUL, escaped', String.raw`{"a":"\u0000"}`, /character NUL/],
  ['NUL in a key', String.raw`{"\u0000":1}`, /character NUL/],
  ['half a surrogate pair, escaped', String.raw`"\ud83d"`, /half of a surrogate pair/],
  ['a low surrogate alone, escaped', String.raw`"\ude00 "`, /half of a surrogate pair/],
  ['a pair in the wrong order', String.raw`"\ude00\ud83d"`, /half of a surrogate pair/],
  ['a high surrogate before a plain escape', String.raw`"\ud83d\u0041"`, /half of a surrogate pair/],
  ['a bad escape in a key', String.raw`{"\x":1}`, /not a valid JSON string/],
  ['an integer beyond 2^53', '9007199254740993', /beyond 2\^53/],
  ['a negative integer beyond 2^53', '[-9007199254740993]', /beyond 2\^53/],
  ['a number beyond a double', '{"a":1e400}', /beyond 2\^53/],
  ['a large number as exponent', '1e300', /beyond 2\^53/],
]
for (const [title, text, message] of refusals) {
  test(`${title} is refused with a reason`, () => {
    assert.throws(() => decode(typeof text === 'string' ? bytesOf(text) : text), refused(message))
  })
}

test('a lone surrogate in a text that is no UTF-8 yet is refused as well', () => {
  for (const text of ['"\ud83d"', '"\ude00"', '"\ud83dx"']) assert.throws(() => decodeText(text), refused(/half of a surrogate pair/))
})

const nested = (depth: number, open: string, close: string): string => open.repeat(depth) + close.repeat(depth)
const keys = (count: number): string => `{${Array.from({ length: count }, (_, i) => `"k${i}":${i}`).join(',')}}`
const items = (count: number): string => `[${Array.from({ length: count }, (_, i) => i).join(',')}]`
const bounds: [title: string, limit: number, make: (n: number) => string, message: RegExp][] = [
  ['depth of lists', limits.depthMax, (n) => nested(n, '[', ']'), /nested more than 32 deep/],
  ['depth of objects', limits.depthMax, (n) => `${'{"a":'.repeat(n)}1${'}'.repeat(n)}`, /nested more than 32 deep/],
  ['keys of an object', limits.keysPerObjectMax, keys, /more than 256 keys/],
  ['items of a list', limits.arrayItemsMax, items, /more than 10000 items/],
  ['integers', Number.MAX_SAFE_INTEGER, (n) => (n > Number.MAX_SAFE_INTEGER ? '9007199254740992' : String(n)), /beyond 2\^53/],
]
for (const [title, limit, make, message] of bounds) {
  test(`${title}: one below the limit and the limit itself pass, one above is refused`, () => {
    for (const n of [limit - 1, limit]) assert.deepEqual(decodeText(make(n)), JSON.parse(make(n)))
    assert.throws(() => decodeText(make(limit + 1)), refused(message))
  })
}

test('brackets in texts are no nesting, commas in texts no items, and equal keys in two objects no repetition', () => {
  for (const text of [JSON.stringify('['.repeat(100)), JSON.stringify([','.repeat(20_000)]), '[{"a":1},{"a":1}]', '{"a":{"a":{"a":1}}}']) {
    assert.deepEqual(decodeText(text), JSON.parse(text))
  }
})

test('a key that is written with escapes arrives as it was meant; one that cannot be written without them is refused', () => {
  assert.deepEqual(decodeText(String.raw`{"\u00e9t\u00e9":1,"a\/b":{"\ud83d\ude00":2}}`), { été: 1, 'a/b': { '😀': 2 } })
  for (const key of [String.raw`\r`, String.raw`\n`, String.raw`\"`, String.raw`\\`, String.raw`\u0001`]) {
    assert.throws(
      () => decodeText(`{"${key}":1}`),
      refused(/^the key ".*" holds a quote, a backslash or a control character: write it without$/),
    )
  }
})

test('valid JSON decodes as JSON.parse decodes it, in 10,000 cases', () => {
  const wellFormed = fc.jsonValue({ noUnicodeString: false, maxDepth: 8 })
  fc.assert(
    fc.property(wellFormed, fc.constantFrom(undefined, 1, '\t'), (value, indent) => {
      const text = JSON.stringify(value, null, indent)
      let found: unknown
      try {
        found = decode(bytesOf(text))
      } catch (error) {
        // The only things that JSON.stringify writes and this door refuses.
        assert.ok(refused(/NUL|surrogate|beyond 2\^53|__proto__|the key .* holds/)(error))
        return
      }
      assert.deepEqual(found, JSON.parse(text))
    }),
    { numRuns: 10_000 },
  )
})

/** Pieces that meet each other in ways no random byte would. */
const pieces = [
  '{',
  '}',
  '[',
  ']',
  '"',
  ':',
  ',',
  '\\',
  '\\u',
  'd83d',
  'de00',
  '0000',
  '__proto__',
  'a',
  '1',
  '-',
  'e',
  '.',
  '+',
  ' ',
  '\n',
  'true',
  'null',
  '\u{1f600}',
  '\ud83d',
  '\0',
]
const isAnswered = (decoded: () => unknown): void => {
  try {
    decoded()
  } catch (error) {
    assert.ok(error instanceof Refusal && error.code === 'INVALID_REQUEST', String(error))
  }
}

test('random bytes and random pieces of JSON are decoded or refused, never anything else, in 20,000 cases', () => {
  const bytes = fc.uint8Array({ maxLength: 300 })
  const broken = fc.array(fc.constantFrom(...pieces), { maxLength: 60 }).map((parts) => parts.join(''))
  fc.assert(
    fc.property(bytes, broken, (raw, text) => {
      isAnswered(() => decode(raw))
      isAnswered(() => decodeText(text))
    }),
    { numRuns: 10_000 },
  )
  assert.equal(({} as { isAdmin?: boolean }).isAdmin, undefined)
})

test('the decoder never accepts more than JSON.parse', () => {
  const broken = fc.array(fc.constantFrom(...pieces), { maxLength: 12 }).map((parts) => parts.join(''))
  fc.assert(
    fc.property(broken, (text) => {
      let found: unknown
      try {
        found = decodeText(text)
      } catch {
        return
      }
      assert.deepEqual(found, JSON.parse(text))
    }),
    { numRuns: 10_000 },
  )
})

test('a body of the largest size takes no more than linear work, however hostile', () => {
  const size = limits.bodyBytesMax
  const hostile = [
    '"'.repeat(size),
    '\\'.repeat(size),
    `"${'\\'.repeat(size - 2)}"`,
    `"${'\\u0041'.repeat(size / 6)}"`,
    '1'.repeat(size),
    `[${'-'.repeat(size)}`,
    ' '.repeat(size),
    `{"a"${' '.repeat(size)}`,
    '""'.repeat(size / 2),
    `{${'"a" '.repeat(size / 4)}`,
    `{${'"" '.repeat(size / 3)}`,
    ','.repeat(size),
    `${'[]'.repeat(size / 2)}`,
    '}'.repeat(size),
  ]
  for (const text of hostile) {
    const began = process.cpuUsage()
    isAnswered(() => decodeText(text))
    const { user, system } = process.cpuUsage(began)
    // Hundreds of times what it needs: only work that grows faster than the text can miss it.
    assert.ok(user + system < 2_000_000, `${text.slice(0, 12)}... took ${(user + system) / 1_000} ms`)
  }
})
