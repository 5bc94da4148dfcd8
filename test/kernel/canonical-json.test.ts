// Canonical JSON (RFC 8785): equal to the reference, and strict about its input.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import canonicalize from 'canonicalize'
import fc from 'fast-check'
import { canonical } from '#kernel/log/canonical-json.ts'

/** Everything that JSON can hold: odd keys, long keys, every kind of number, every script, quotes and controls. */
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.constantFrom('', '€', '\r', '\u000f', '"\\/', '\u2028', '😂', 'ö', '1', '10', '2'),
)
const { json } = fc.letrec<{ json: unknown }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 6, withCrossShrink: true },
    fc.oneof(fc.constant(null), fc.boolean(), text, fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.maxSafeInteger()),
    fc.array(tie('json'), { maxLength: 6 }),
    fc.dictionary(text, tie('json'), { maxKeys: 8, noNullPrototype: false }),
  ),
}))

test('canonical text equals that of the reference package in 10,000 cases', () => {
  fc.assert(
    fc.property(json, (value) => {
      const found = canonical(value)
      assert.equal(found, canonicalize(value))
    }),
    { numRuns: 10_000 },
  )
})

test('canonical text of RFC 8785, 3.2.2 and 3.2.3', () => {
  const value = {
    numbers: [Number('333333333.33333329'), 1e30, 4.5, 2e-3, 0.000000000000000000000000001],
    literals: [null, true, false],
    string: '€$\u000f\nA\'B"\\\\"/',
  }
  assert.equal(
    canonical(value),
    String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
  )
  const keys = { '\u20ac': 1, '\r': 2, '\ufb33': 3, '1': 4, '\u{1f600}': 5, '\u0080': 6, '\u00f6': 7 }
  assert.equal(canonical(keys), '{"\\r":2,"1":4,"\u0080":6,"ö":7,"€":1,"😀":5,"\ufb33":3}')
})

test('two objects with the same keys in another order have one text', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(text, fc.integer()), { maxLength: 12 }), fc.infiniteStream(fc.nat()), (entries, picks) => {
      const unique = [...new Map(entries)]
      const shuffled = unique.map((entry) => ({ entry, at: picks.next().value })).toSorted((a, b) => a.at - b.at)
      assert.equal(canonical(Object.fromEntries(unique)), canonical(Object.fromEntries(shuffled.map(({ entry }) => entry))))
    }),
  )
})

test('values that JSON cannot hold are refused, never dropped', () => {
  for (const value of [undefined, Number.NaN, Infinity, -Infinity, 1n, Symbol('x'), () => 1]) {
    for (const wrapped of [value, [value], { a: value }, { a: [{ b: value }] }]) assert.throws(() => canonical(wrapped), TypeError)
  }
})
