// Checks of answers while they are typed: the same verdict as the server's own on every value, except where only the server can tell.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { refuseMismatch } from '#kernel/declare/foreign-schema.ts'
import { answerProblem, editProblem } from '#sdk/answers.ts'

const schema = {
  type: 'object',
  properties: {
    replicas: { type: 'integer', minimum: 1, maximum: 12 },
    zone: { enum: ['a', 'b'] },
    name: { type: 'string', minLength: 2, maxLength: 4, format: 'email' },
    share: { type: 'number', exclusiveMaximum: 1, multipleOf: 0.25 },
    // A name that is also a keyword.
    pattern: { type: 'string', maxLength: 3 },
    lines: { type: 'array', items: { $ref: '#/$defs/line' }, maxItems: 2, uniqueItems: true },
  },
  required: ['replicas'],
  additionalProperties: false,
  $defs: { line: { type: 'object', properties: { net: { type: 'number', minimum: 0 } }, required: ['net'] } },
}
const isFitForServer = (of: object, value: unknown): boolean => {
  try {
    refuseMismatch(of, value, 'INVALID_REQUEST', 'edited')
    return true
  } catch {
    return false
  }
}

describe('edited details', () => {
  const values: readonly (readonly [value: object, path: readonly string[] | null, rule?: string, limit?: unknown])[] = [
    [{ replicas: 3 }, null],
    [{ replicas: 30 }, ['replicas'], 'maximum', 12],
    [{ replicas: 0 }, ['replicas'], 'minimum', 1],
    [{ replicas: 1.5 }, ['replicas'], 'type'],
    [{ replicas: 3, zone: 'c' }, ['zone'], 'enum', ['a', 'b']],
    [{ replicas: 3, name: 'long name' }, ['name'], 'maxLength', 4],
    [{ replicas: 3, name: 'abc' }, null],
    [{ replicas: 3, share: 1 }, ['share'], 'exclusiveMaximum', 1],
    [{ replicas: 3, share: 0.3 }, ['share'], 'multipleOf', 0.25],
    [{ replicas: 3, pattern: 'four' }, ['pattern'], 'maxLength', 3],
    [{ replicas: 3, lines: [{ net: 1 }, { net: -1 }] }, ['lines', '1', 'net'], 'minimum', 0],
    [{ replicas: 3, lines: [{ net: 1 }, { net: 1 }] }, ['lines'], 'uniqueItems'],
    [{ zone: 'a' }, [], 'required'],
    [{ replicas: 3, other: 1 }, [], 'additionalProperties'],
  ]
  for (const [value, path, rule, limit] of values)
    test(`${JSON.stringify(value)}: ${path === null ? 'fits' : rule}`, () => {
      const problem = editProblem(schema, value)
      assert.equal(problem === null, isFitForServer(schema, value))
      if (path === null) return assert.equal(problem, null)
      assert.deepEqual([problem?.path, problem?.rule], [path, rule])
      if (limit !== undefined) assert.deepEqual(problem?.limit, limit)
      return undefined
    })

  test('patterns are left to the server, which runs them in linear time', () => {
    const slow = {
      type: 'object',
      properties: { text: { type: 'string', pattern: '^(a|a)*$' } },
      patternProperties: { '^x': { type: 'number' } },
    }
    assert.equal(editProblem(slow, { text: `${'a'.repeat(40)}!` }), null)
    assert.equal(
      editProblem({ type: 'object', properties: { text: { type: 'string', pattern: '^(a|a)*$' } } }, { text: `${'a'.repeat(40)}!` }),
      null,
    )
  })
})

test('answers: the words of the server', () => {
  const number = { prompt: 'How many?', input_type: 'number', validation: { max: 100_000 } }
  assert.equal(answerProblem(number, '999999999'), 'must be at most 100000')
  assert.equal(answerProblem(number, '7'), null)
  const slow = { prompt: 'Which?', input_type: 'text', validation: { pattern: '^(?:a|b|ab)*$' } }
  assert.equal(answerProblem(slow, `${'ab'.repeat(60)}!`), 'does not match the pattern ^(?:a|b|ab)*$')
})
