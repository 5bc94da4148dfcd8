// HCP 1.0, clause for clause: a row without a test fails, and so does a row that names a missing test.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { hcpRows } from './hcp.ts'

const textOf = (file: string): string => readFileSync(join(import.meta.dirname, '..', `${file}.test.ts`), 'utf8')
/** A title may continue: rounds are counted behind it. */
const isTest = (file: string, title: string): boolean =>
  new RegExp(`\\btest\\(\\s*(['"\`])${RegExp.escape(title)}( \\(round|\\1)`).test(textOf(file))

test('HCP 1.0: every row is shown by tests that there are', (t) => {
  const ids = hcpRows.map(({ id }) => id)
  assert.deepEqual(ids, [...new Set(ids)], 'two rows have one id')
  const missing = hcpRows.flatMap(({ id, shown }) =>
    shown.filter(([file, title]) => !isTest(file, title)).map(([file, title]) => `${id} names no test: ${file}: ${title}`),
  )
  assert.deepEqual(missing, [])
  assert.deepEqual(
    hcpRows.filter(({ shown }) => shown.length === 0).map(({ id }) => id),
    [],
  )
  t.diagnostic(`HCP 1.0: ${hcpRows.length} rows`)
})

test('HCP 1.0: the decisions C1 to C40 each have a row', () => {
  const decisions = Array.from({ length: 40 }, (_, i) => `C${i + 1}`)
  assert.deepEqual(
    decisions.filter((id) => !hcpRows.some((row) => row.id === id)),
    [],
  )
})
