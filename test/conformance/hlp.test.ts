// HLP 0.2.0-draft, MUST for MUST: a row without a test fails, and so does a row that names a missing test.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { hlpRows } from './hlp.ts'

test('HLP 0.2.0-draft: every row is shown by tests that there are', () => {
  assert.equal(new Set(hlpRows.map(({ id }) => id)).size, hlpRows.length, 'two rows have one id')
  for (const { id, text, shown } of hlpRows) {
    assert.ok(shown.length > 0, `${id}: ${text}`)
    for (const [file, title] of shown) {
      const source = readFileSync(join(import.meta.dirname, '..', `${file}.test.ts`), 'utf8')
      assert.ok(source.includes(`test('${title}'`), `${id} names no test: ${file}: ${title}`)
    }
  }
})
