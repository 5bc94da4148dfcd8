// The places that the documents name: an identifier beside a file is declared there.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { placeProblems, type Files } from '../support/laws/named-places.ts'

const root = join(import.meta.dirname, '../..')
const tree: Files = {
  paths: globSync('{src,test,scripts,bench,examples}/**/*.{ts,tsx}', { cwd: root }),
  textOf: (path) => readFileSync(join(root, path), 'utf8'),
}
/** docs/api and docs/cli.md are generated. */
const documents = globSync('{ARCHITECTURE,CONTRIBUTING,README,REVIEW,SECURITY,docs/**/*,src/protocols/*/README}.md', {
  cwd: root,
  exclude: ['docs/api/**', 'docs/cli.md'],
}).toSorted()

test('an identifier that a document names beside a file is declared in it', () => {
  assert.ok(documents.length > 40, 'the documents were found')
  assert.deepEqual(
    documents.flatMap((document) => placeProblems(document, readFileSync(join(root, document), 'utf8'), tree)),
    [],
  )
})

test('a file that imports the identifier, does not mention it or is gone is named', () => {
  const texts: Record<string, string> = {
    'src/kernel/backend.ts': 'export type Backend = 1 // and a Ghost',
    'src/kernel/queue.ts': "import type { Backend } from './backend.ts'\nimport { spawn } from 'node:child_process'\nconst drain = () => 1",
  }
  const problems = (markdown: string): string[] =>
    placeProblems('A.md', markdown, { paths: Object.keys(texts), textOf: (path) => texts[path]! })
  assert.deepEqual(problems('Implement `Backend` of\n`src/kernel/queue.ts`.'), [
    'A.md: `Backend` is named beside `src/kernel/queue.ts`, which imports it from ./backend.ts',
  ])
  assert.deepEqual(problems('`Ghost` in `src/kernel/backend.ts`'), [
    'A.md: `Ghost` is named beside `src/kernel/backend.ts`, which does not mention it',
  ])
  assert.deepEqual(problems('| a | `fill`, called by `src/kernel/queue.ts` |'), [
    'A.md: `fill` is named beside `src/kernel/queue.ts`, which does not mention it',
  ])
  assert.deepEqual(problems('`Backend` in `src/kernel/store.ts`'), ['A.md: `src/kernel/store.ts` beside `Backend` is not a file'])
  assert.deepEqual(problems('| `Backend` in `src/kernel/backend.ts`, called by `kernel/queue.ts` (`drain`); `spawn` in `queue.ts` |'), [])
})
