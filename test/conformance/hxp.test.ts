// HXP 0.1, clause for clause: a row without a test fails, and so does a row that names a missing test.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { hxpRows } from './hxp.ts'

const tests = join(import.meta.dirname, '..')
const texts = new Map(
  globSync('**/*.test.ts', { cwd: tests }).map((name) => [name.slice(0, -'.test.ts'.length), readFileSync(join(tests, name), 'utf8')]),
)
const isTest = (text: string | undefined, title: string): boolean =>
  text !== undefined && new RegExp(`\\b(?:test|describe)\\(\\s*(['"\`])${RegExp.escape(title)}\\1`).test(text)

test('HXP 0.1: every row is shown by tests that there are', (t) => {
  const ids = hxpRows.map(({ id }) => id)
  assert.deepEqual(ids, [...new Set(ids)], 'two rows have one id')
  const missing = hxpRows.flatMap(({ id, shown }) =>
    shown.filter(([file, title]) => !isTest(texts.get(file), title)).map(([file, title]) => `${id} names no test: ${file}: ${title}`),
  )
  assert.deepEqual(missing, [])
  const unshown = hxpRows.filter(({ shown }) => shown.length === 0).map(({ id, text }) => `${id}: ${text}`)
  assert.deepEqual(unshown, [])
  t.diagnostic(`HXP 0.1: ${hxpRows.length} rows`)
})

test('HXP 0.1: the decisions X1 to X34 each have a row', () => {
  const decisions = Array.from({ length: 34 }, (_, i) => `X${i + 1}`)
  assert.deepEqual(
    decisions.filter((id) => !hxpRows.some((row) => row.id === id)),
    [],
  )
})
