// The laws of names and rooms, held against the whole tree; and that each law sees its offence.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { doubleExports, firstSentenceProblems, folderProblems } from '../support/laws/names.ts'

const root = join(import.meta.dirname, '../..')
const textOf = (path: string): string => readFileSync(join(root, path), 'utf8')
const found = (pattern: string | string[]): string[] => globSync(pattern, { cwd: root }).toSorted()

describe('the tree', () => {
  test('the first sentence of every file says what the thing is', () => {
    const files = found(['{src,test,bench,scripts,examples}/**/*.ts'])
    assert.ok(files.length > 300, 'the files were found')
    assert.deepEqual(
      files.flatMap((path) => firstSentenceProblems(path, textOf(path))),
      [],
    )
  })

  test('a folder has one subject and few files', () => {
    assert.deepEqual(folderProblems(found('src/**/*.*')), [])
    assert.deepEqual(
      folderProblems(
        found('test/{apps,bindings,bridges,capabilities,docs,faults,kernel,laws,protocols,scripts,sdk,stores,support,workers}/**/*.*'),
      ),
      [],
    )
  })

  test('within a protocol an exported name has one meaning', () => {
    for (const protocol of globSync('src/protocols/*/', { cwd: root }))
      assert.deepEqual(doubleExports(found(`${protocol}/**/*.ts`).map((path) => [path, textOf(path)] as const)), [])
  })
})

describe('the laws', () => {
  test('a first sentence without a subject, and a file without one, are seen', () => {
    assert.match(firstSentenceProblems('a.ts', '// What is kept of an answer.\n')[0]!, /a\.ts: the first sentence begins with "What"/)
    assert.match(firstSentenceProblems('a.ts', `import x from 'y'\n`)[0]!, /begin the file with a comment/)
    assert.deepEqual(firstSentenceProblems('a.ts', '#!/usr/bin/env node\n// Whole numbers.\n'), [])
  })

  test('a folder that is too full is seen, operations apart', () => {
    const full = (folder: string): string[] => Array.from({ length: 15 }, (_, i) => `${folder}/${i}.ts`)
    assert.deepEqual(folderProblems([...full('src/a'), ...full('src/protocols/one/operations')]), [
      'src/a: 15 files; split the folder by subject at 14',
    ])
  })

  test('a name with two homes is seen', () => {
    const twice = doubleExports([
      ['a.ts', 'export const itemOf = 1\nexport type Item = 1\nexport const Item = 1'],
      ['b.ts', 'export function itemOf() {}'],
    ])
    assert.deepEqual(twice, ['itemOf is exported by a.ts and b.ts; give one of them another name'])
  })
})
