// Fields that a schema does not know: found at every depth, with their place and the nearest known name, and nowhere in open objects.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nullable, t } from '#kernel/declare/schema.ts'
import { nearestOf, refuseUnknown, unknownFields, withAdded } from '#kernel/declare/unknown-fields.ts'

const Point = t.Object({ title: t.String(), max_duration: t.Optional(t.String()) })
const Shape = t.Object({
  goal: t.String(),
  points: t.Optional(t.Array(Point)),
  deadline: t.Optional(nullable(t.String())),
  best: t.Optional(nullable(Point)),
  details: t.Optional(t.Object({}, { additionalProperties: true })),
  anything: t.Optional(t.Unknown()),
  payload: t.Optional(
    t.Union([
      withAdded(t.Object({ kind: t.Literal('inline'), text: t.String() }), 'verified'),
      t.Object({ kind: t.Literal('ref'), uri: t.String() }),
    ]),
  ),
})
const found = (input: object): string[] => Array.from(unknownFields(Shape, input), (field) => `${field.path.join('.')} ${nearestOf(field)}`)

test('known fields, open objects and values without a schema hold nothing unknown', () => {
  const input = { goal: 'x', points: [{ title: 'a' }], deadline: null, best: null, details: { any: { thing: 1 } }, anything: { a: 1 } }
  assert.deepEqual(found(input), [])
})

test('unknown fields are named with their place, at every depth', () => {
  assert.deepEqual(found({ goal: 'x', colour: 1, points: [{ title: 'a' }, { title: 'b', x: {} }], best: { title: 'c', y: 0 } }), [
    'colour null',
    'points.1.x null',
    'best.y null',
  ])
})

test('the refusal names the nearest known name if one is near', () => {
  assert.deepEqual(found({ goal: 'x', dedline: 1, Goal: 1, points: [{ title: 'a', maxDuration: 'x', titel: '' }], zzz: 1 }), [
    'dedline deadline',
    'Goal goal',
    'points.0.maxDuration max_duration',
    'points.0.titel title',
    'zzz null',
  ])
})

test('in a union the form that fits decides', () => {
  assert.deepEqual(found({ goal: 'x', payload: { kind: 'ref', uri: 'u', text: 't' } }), ['payload.text null'])
  assert.deepEqual(found({ goal: 'x', payload: { kind: 'inline', text: 't', uri: 'u' } }), ['payload.uri null'])
})

test('a field that the server adds is no unknown field', () => {
  assert.deepEqual(found({ goal: 'x', payload: { kind: 'inline', text: 't', verified: true } }), [])
  assert.deepEqual(found({ goal: 'x', payload: { kind: 'ref', uri: 'u', verified: true } }), ['payload.verified null'])
})

test('a field is looked at only as long as none before it was unknown', () => {
  const input = {
    colour: 1,
    get points(): never {
      throw new Error('nobody has asked for more')
    },
  }
  assert.throws(() => refuseUnknown(unknownFields(Shape, input)), { code: 'INVALID_REQUEST', message: 'colour is not a field here' })
})

test('names that every object inherits are fields like others', () => {
  assert.deepEqual(found({ goal: 'x', constructor: 1, toString: 2 }), ['constructor null', 'toString null'])
})
