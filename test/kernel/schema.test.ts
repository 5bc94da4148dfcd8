// Schemas and document kinds: parsing, indexes, visibility.
import assert from 'node:assert/strict'
import { schemaProblem } from '#kernel/declare/foreign-schema.ts'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { Refusal } from '#kernel/declare/errors.ts'
import {
  assertMatches,
  doc,
  either,
  END,
  entriesOf,
  idIn,
  index,
  keyOf,
  kindOf,
  nullable,
  parse,
  prefixOf,
  refusedAs,
  t,
} from '#kernel/declare/schema.ts'

const Spec = refusedAs(
  'INVALID_SPEC',
  t.Object({
    goal: t.String({ minLength: 1, maxLength: 5 }),
    size: t.Optional(t.Integer({ minimum: 1, maximum: 9 })),
    tags: t.Optional(t.Array(t.Object({ name: t.String() }), { maxItems: 2 })),
  }),
)
const Input = t.Object({
  id: t.String({ pattern: '^x_', description: 'an id that begins with x_' }),
  kind: t.Optional(either('one', 'two')),
  until: t.Optional(nullable(t.String())),
  spec: t.Optional(Spec),
  part: t.Optional(t.Union([t.Object({ kind: t.Literal('a'), a: t.String() }), t.Object({ kind: t.Literal('b'), b: t.Integer() })])),
  limit: t.Optional(nullable(t.Object({ ms: t.Integer() }))),
  verdict: t.Optional(refusedAs('WRONG_VERDICT', either('yes', 'no'))),
  anything: t.Optional(t.Unknown()),
})

describe('an input that does not match is refused with the field and a sentence', () => {
  const rows: [value: unknown, code: string, field: string | null, message: RegExp][] = [
    [null, 'INVALID_REQUEST', null, /^the input must be object$/],
    ['x', 'INVALID_REQUEST', null, /^the input must be object$/],
    [[], 'INVALID_REQUEST', null, /^the input /],
    [undefined, 'INVALID_REQUEST', null, /^the input must be object$/],
    [{}, 'INVALID_REQUEST', 'id', /^id is required$/],
    [{ id: 5 }, 'INVALID_REQUEST', 'id', /^id must be string$/],
    [{ id: 'y' }, 'INVALID_REQUEST', 'id', /^id must be an id that begins with x_$/],
    [{ id: 'x_', kind: 'three' }, 'INVALID_REQUEST', 'kind', /^kind must be one of: one, two$/],
    [{ id: 'x_', until: 5 }, 'INVALID_REQUEST', 'until', /^until must be string$/],
    [{ id: 'x_', limit: { ms: 1.5 } }, 'INVALID_REQUEST', 'limit.ms', /^limit\.ms must be integer$/],
    [{ id: 'x_', limit: {} }, 'INVALID_REQUEST', 'limit.ms', /^limit\.ms is required$/],
    [{ id: 'x_', limit: 5 }, 'INVALID_REQUEST', 'limit', /^limit must be object$/],
    [{ id: 'x_', spec: {} }, 'INVALID_SPEC', 'spec.goal', /^spec\.goal is required$/],
    [{ id: 'x_', spec: 'x' }, 'INVALID_SPEC', 'spec', /^spec must be object$/],
    [{ id: 'x_', spec: { goal: '' } }, 'INVALID_SPEC', 'spec.goal', /^spec\.goal must not have fewer than 1 characters$/],
    [{ id: 'x_', spec: { goal: 'abcdef' } }, 'INVALID_SPEC', 'spec.goal', /^spec\.goal must not have more than 5 characters$/],
    [{ id: 'x_', spec: { goal: 'x', size: 1.5 } }, 'INVALID_SPEC', 'spec.size', /^spec\.size must be integer$/],
    [{ id: 'x_', spec: { goal: 'x', size: 10 } }, 'INVALID_SPEC', 'spec.size', /^spec\.size must be <= 9$/],
    [{ id: 'x_', spec: { goal: 'x', tags: [{ name: 'a' }, {}] } }, 'INVALID_SPEC', 'spec.tags.1.name', /^spec\.tags\.1\.name is required$/],
    [{ id: 'x_', spec: { goal: 'x', tags: [1, 2, 3] } }, 'INVALID_SPEC', 'spec.tags', /^spec\.tags must not have more than 2 items$/],
    [{ id: 'x_', verdict: 'maybe' }, 'WRONG_VERDICT', 'verdict', /^verdict must be one of: yes, no$/],
    [{ id: 'x_', part: {} }, 'INVALID_REQUEST', 'part.kind', /^part\.kind is required$/],
    [{ id: 'x_', anything: 1, part: 5 }, 'INVALID_REQUEST', 'part', /^part /],
  ]
  for (const [value, code, field, message] of rows) {
    test(JSON.stringify(value) ?? 'undefined', () => {
      assert.throws(
        () => parse(Input, value),
        (error: Refusal) => {
          assert.ok(error instanceof Refusal)
          assert.match(error.message, message)
          assert.equal(error.code, code)
          assert.deepEqual(error.details, { field })
          return true
        },
      )
    })
  }
})

test('fields that the schema does not know are dropped at every depth, and the input itself is left alone', () => {
  const given = {
    id: 'x_1',
    hidden: 1,
    spec: { goal: 'x', hidden: { deep: 1 }, tags: [{ name: 'a', hidden: 1 }] },
    part: { kind: 'b', b: 1, a: 'of the other form' },
    until: null,
    anything: { stays: ['as', { it: 'is' }] },
  }
  const copy = structuredClone(given)
  assert.deepEqual(parse(Input, given), {
    id: 'x_1',
    until: null,
    spec: { goal: 'x', tags: [{ name: 'a' }] },
    part: { kind: 'b', b: 1 },
    anything: { stays: ['as', { it: 'is' }] },
  })
  assert.deepEqual(given, copy)
})

test('names that every object inherits are neither fields nor values', () => {
  const Odd = t.Object({ constructor: t.Optional(t.String()), id: t.Optional(t.String()) })
  assert.deepEqual(Object.keys(parse(Odd, {})), [])
  assert.throws(() => parse(t.Object({ toString: t.String() }), {}), { code: 'INVALID_REQUEST' })
  for (const text of ['{"__proto__":{"id":"x_1"}}', '{"constructor":{"prototype":{"id":"x_1"}}}']) {
    assert.throws(() => parse(Input, JSON.parse(text)), { code: 'INVALID_REQUEST' })
  }
  assert.equal(({} as { id?: string }).id, undefined)
})

test('our own answers are checked too, and a mismatch is a bug, not a refusal', () => {
  assertMatches(Input, { id: 'x_1' }, 'toy.get')
  assert.throws(
    () => assertMatches(Input, { id: 5 }, 'toy.get'),
    (error: Error) => !(error instanceof Refusal) && /^toy\.get does not match its schema: id must be string$/.test(error.message),
  )
})

const Row = doc('schematest.row', t.Object({ id: t.String(), owner: t.String(), size: t.Integer() }), {
  scopeOf: () => 'project_a',
  indexes: { owner: index((row) => [[row.owner, row.size]], 1), none: index(() => []) },
})

test('a document has its kind in its key, and two kinds of one name are a mistake', () => {
  assert.equal(keyOf(Row, 'a/b'), 'schematest.row/a/b')
  assert.equal(kindOf('schematest.row/a/b'), Row)
  assert.throws(() => kindOf('schematest.other/a'), /no document kind/)
  assert.throws(() => doc('schematest.row', t.Object({}), { scopeOf: () => '' }), /there are two document kinds/)
})

test('index entries sort by their parts, numbers as numbers, and end with the id', () => {
  const part = fc.string({ unit: 'grapheme', maxLength: 8 }).filter((text) => !text.includes('\0'))
  const row = fc.record({ id: fc.uuid(), owner: part, size: fc.nat({ max: 2 ** 31 - 1 }) })
  fc.assert(
    fc.property(row, row, (a, b) => {
      const [one, other] = [a, b].map((value) => entriesOf(Row, value.id, value)[0]!)
      assert.equal(idIn(one!.entry), a.id)
      assert.ok(one!.entry.startsWith(one!.counted!) && one!.entry < prefixOf(Row, 'owner', [a.owner]) + END)
      if (a.owner === b.owner && a.size !== b.size) assert.equal(one!.entry < other!.entry, a.size < b.size)
      if (a.owner !== b.owner) assert.ok(!other!.entry.startsWith(one!.counted!), 'no owner is the prefix of another')
    }),
  )
  assert.deepEqual(entriesOf(Row, 'x', null), [])
})

test('a foreign pattern that unfolds without end is refused before it is ever run', () => {
  const pattern = '.{0,1000}'.repeat(20)
  assert.match(schemaProblem({ type: 'string', pattern }, 'input') ?? '', /unfolds into at most 300 parts/)
  assert.equal(schemaProblem({ type: 'string', pattern: '^[a-z]{1,63}(\\.[a-z]{1,63})?$' }, 'input'), null)
})

test('in a union of types, a value of one of them gets the problem of that member', () => {
  const Address = t.Object({
    addr: t.Union([
      t.Integer({ maximum: 127 }),
      t.String({ pattern: '^0x[0-7]?[0-9a-f]$', description: 'a 7-bit address such as "0x48"' }),
    ]),
  })
  const said = (addr: unknown): string => {
    try {
      parse(Address, { addr })
      return ''
    } catch (error) {
      return (error as Error).message
    }
  }
  assert.equal(said('0x80'), 'addr must be a 7-bit address such as "0x48"')
  assert.match(said(200), /^addr must be <= 127$/)
  assert.match(said(true), /^addr must be integer$/)
  assert.equal(said('0x48'), '')
})
