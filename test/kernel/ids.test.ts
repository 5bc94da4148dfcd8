// Ids: ordered, unique, and read back.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createIds } from '#kernel/codec/ids.ts'
import { seededEntropy } from '../support/in-process/world.ts'

const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const timeIn = (id: string): number =>
  Array.from(id.slice(id.indexOf('_') + 1).slice(0, 10)).reduce((ms, c) => ms * 32 + ALPHABET.indexOf(c), 0)

test('an id is its prefix, an underscore and 26 characters of Crockford base 32', () => {
  const newId = createIds(() => 1_767_225_600_000, seededEntropy())
  for (const prefix of ['task', 'ckpt', 'rev', 'art', 'led', 'aud']) {
    assert.match(newId(prefix), new RegExp(`^${prefix}_[0-9A-HJKMNP-TV-Z]{26}$`))
  }
})

test('an id holds the time of its making', () => {
  let now = 0
  const newId = createIds(() => now, seededEntropy())
  for (now of [0, 1, 1_767_225_600_000, 2 ** 47, 2 ** 48 - 1]) assert.equal(timeIn(newId('task')), now)
})

test('ids strictly increase as text, whatever the clock does', () => {
  const steps = fc.array(fc.oneof(fc.constantFrom(0, 0, 1, -1, 86_400_000, -86_400_000, 30 * 86_400_000, -315_360_000_000), fc.integer()), {
    minLength: 2,
    maxLength: 60,
  })
  fc.assert(
    fc.property(steps, fc.integer(), (jumps, seed) => {
      let now = 1_767_225_600_000
      const newId = createIds(() => now, seededEntropy(seed))
      let last = ''
      for (const jump of jumps) {
        now += jump
        const id = newId('x')
        assert.ok(id > last, `${id} after ${last}`)
        last = id
      }
    }),
    { numRuns: 2_000 },
  )
})

test('a stopped clock gives a hundred thousand increasing ids, also across a carry', () => {
  // All ones: the very next ids carry through every digit but the first.
  const newId = createIds(
    () => 5,
    (count) => new Uint8Array(count).fill(255),
  )
  let last = ''
  for (let i = 0; i < 100_000; i++) {
    const id = newId('x')
    assert.ok(id > last)
    last = id
  }
})

test('a clock that reads nonsense before the epoch still gives ids of the same shape', () => {
  const newId = createIds(() => -1.5, seededEntropy())
  assert.equal(timeIn(newId('x')), 0)
  assert.equal(newId('x').length, 28)
})
