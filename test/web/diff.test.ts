// Differences as the review shows them: what is folded, what counts as a patch, and what a text against nothing says.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileOfTexts, filesOfPatch, isUnifiedDiff } from '../../src/web/review/diff.ts'

const lines = (count: number, changed = ''): string =>
  Array.from({ length: count }, (_, i) => `${i}${i === count - 1 ? changed : ''}\n`).join('')
const foldsIn = (count: number): string[] =>
  fileOfTexts('a', lines(count), lines(count, '!'))
    .lines.filter(({ kind }) => kind === 'gap')
    .map(({ parts }) => parts[0]!.text)

test('one unchanged line is shown, two and more are folded', () => {
  assert.deepEqual(foldsIn(5), [])
  assert.deepEqual(foldsIn(6), ['2 unchanged lines'])
})

test('a text against nothing has lines, and nothing added or removed', () => {
  const { isWhole, added, removed, lines: shown } = fileOfTexts('a', null, lines(3))
  assert.deepEqual([isWhole, added, removed, shown.length], [true, 0, 0, 3])
  assert.equal(fileOfTexts('a', lines(3), lines(4)).isWhole, false)
})

test('a unified diff is known by its beginning; a text that quotes one is a text', () => {
  const patch = '--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n'
  assert.ok(isUnifiedDiff(patch) && isUnifiedDiff(`diff --git a/x b/x\n${patch}`))
  assert.ok(!isUnifiedDiff(`Notes\n\n${patch}`) && !isUnifiedDiff('--- \ntitle: x\n---\n'))
  assert.equal(filesOfPatch(patch)?.[0]?.name, 'x')
})
