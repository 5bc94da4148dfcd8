// The laws of names and rooms, held against the whole tree; and that each law sees its offence.
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join, matchesGlob } from 'node:path'
import { describe, test } from 'node:test'
import { longFunctionProblems } from '../support/laws/functions.ts'
import {
  doubleExports,
  factoryProblems,
  firstSentenceProblems,
  folderProblems,
  participleProblems,
  titleProblems,
} from '../support/laws/names.ts'
import { missingPlaces } from '../support/laws/places.ts'
import { ABOUT_PEOPLE, countTics, NO_TIC_FILES, readTable, risen, TIC_FILES, ticsIn } from '../support/laws/tics.ts'

const root = join(import.meta.dirname, '../..')
const textOf = (path: string): string => readFileSync(join(root, path), 'utf8')
const found = (pattern: string | string[]): string[] => globSync(pattern, { cwd: root }).toSorted()

describe('the tree', () => {
  test('the first sentence of every file says what the thing is', () => {
    const files = found(['{src,test,bench,scripts,examples}/**/*.{ts,tsx}'])
    assert.ok(files.length > 300, 'the files were found')
    assert.deepEqual(
      files.flatMap((path) => firstSentenceProblems(path, textOf(path))),
      [],
    )
  })

  test('no folder has more tics in its comments and documents than before', () => {
    const files = found(TIC_FILES).filter((path) => !NO_TIC_FILES.some((pattern) => matchesGlob(path, pattern)))
    assert.ok(files.length > 900, 'the files were found')
    const tics = files.flatMap((path) => ticsIn(path, textOf(path)))
    assert.deepEqual(risen(countTics(tics), readTable(root)), [])
  })

  test('each text about people still speaks of them', () => {
    const unused = ABOUT_PEOPLE.filter(
      (path) => !existsSync(join(root, path)) || !/\b(?:some|no|every)body\b|\bwhoever\b/i.test(textOf(path)),
    )
    assert.deepEqual(unused, [], 'take these out of ABOUT_PEOPLE in test/support/laws/tics.ts')
  })

  test('a function is called a verb with its object, or by the noun that it answers', () => {
    assert.deepEqual(
      found('src/**/*.{ts,tsx}').flatMap((path) => participleProblems(path, textOf(path))),
      [],
    )
  })

  test('the title of every test begins with its subject', () => {
    const files = found('test/**/*.test.ts')
    assert.ok(files.length > 200, 'the files were found')
    assert.deepEqual(
      files.flatMap((path) => titleProblems(path, textOf(path))),
      [],
    )
  })

  test('a function has at most 70 lines, a factory without its inner functions', () => {
    const files = found('src/**/*.{ts,tsx}').map((path) => [path, textOf(path)] as const)
    assert.deepEqual(longFunctionProblems(files), [])
  })

  test('a file is called after the factory that it exports', () => {
    assert.deepEqual(
      found('src/**/*.{ts,tsx}').flatMap((path) => factoryProblems(path, textOf(path))),
      [],
    )
  })

  test('a folder has one subject and few files', () => {
    assert.deepEqual(folderProblems(found('src/**/*.*')), [])
    assert.deepEqual(
      folderProblems(
        found(
          'test/{apps,bindings,bridges,capabilities,docs,faults,kernel,laws,protocols,scripts,sdk,stores,support,web,workers,devices}/**/*.*',
        ),
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

  test('a tic is seen in every kind of comment and in prose, with its line, and only there', () => {
    const source = [
      '// Names. Nobody keeps an answer.',
      '/** It stands here, and X stands for Y. */',
      'const a = 1 // built anew',
      '/**',
      ' * Two run at',
      ' * once, besides.',
      ' */',
      'const b = { c: 1 /* The same for b */ }',
      "const d = 'nobody stands' // the same format",
    ].join('\n')
    const seen = (path: string, text: string): string[] => ticsIn(path, text).map(({ line, found: tic }) => `${line} ${tic}`)
    assert.deepEqual(seen('a.ts', source), ['1 Nobody', '2 stands', '3 anew', '6 besides', '5 at once', '8 The same for'])
    assert.deepEqual(seen(ABOUT_PEOPLE[0]!, source)[0], '2 stands')
    assert.deepEqual(seen('a.md', '# A\n\n`nobody` or somebody\n\n```\nnobody\n```\n\nanew'), ['3 somebody', '9 anew'])
  })

  test('a folder with more tics than before is named, one with as many is not', () => {
    const counts = countTics(
      ['src/a/b.ts', 'src/a/c.ts', 'docs/a.md', 'docs/b/c.md', 'README.md'].flatMap((path) => ticsIn(path, '// anew')),
    )
    assert.deepEqual(counts, { '.': 1, docs: 2, 'src/a': 2 })
    assert.deepEqual(risen(counts, { '.': 1, docs: 3, 'src/a': 1 }), [
      'src/a: 2 tics of REVIEW.md, at most 1; rewrite the new ones (`node scripts/tics.ts src/a` lists all)',
    ])
    assert.equal(risen(counts, { docs: 2, 'src/a': 2 }).length, 1)
  })

  test('a long function is seen, a factory of short ones is not', () => {
    const lines = (count: number): string => '\n  run()'.repeat(count)
    const problems = (text: string): string[] => longFunctionProblems([['src/a.ts', text]])
    const long = `export const load = async () => {${lines(69)}\n}`
    assert.deepEqual(problems(`function load() {${lines(68)}\n}`), [])
    assert.deepEqual(problems(long), ['src/a.ts:1: load has 71 lines, at most 70: split it, or turn its closure into a state object'])
    const factory = `function createStore() {\n  function read() {${lines(60)}\n  }\n  return { read, write() {${lines(60)}\n  } }\n}`
    assert.deepEqual(problems(factory), [])
    assert.equal(problems(`function watch() {\n  on(() => {${lines(70)}\n  })\n}`).length, 1, 'a callback counts where it is')
    assert.equal(problems(`on(() => {${lines(70)}\n})`).length, 1, 'a callback of no function is one itself')
  })

  test('a function that is called a participle is seen, a value is not', () => {
    const text =
      'export async function settled() {}\nexport const kept = (a: string): string => a\nexport const served: Reader =\n  <S>() => 1\n  const told = (a: { b: string }): void => undefined\n  const heard = async line => 1'
    const others =
      'export const bookkeeping = { a: 1 }\nexport function settleRun() {}\nexport const shownText = () => 1\nconst made = (1 + 2) * 3\nfunction proceed() {}'
    assert.deepEqual(
      participleProblems('a.ts', text).map((problem) => problem.split(' ')[1]),
      ['settled', 'kept', 'served', 'told', 'heard'],
    )
    assert.deepEqual(participleProblems('a.ts', others), [])
  })

  test('a title that begins with a clause is seen, a subject is not', () => {
    const text = "test('what is refused counts', () => {})\n  describe(`nobody waits`, () => {})\ntest(\n  'refused calls count', () => {})"
    assert.equal(titleProblems('a.test.ts', text).length, 2)
  })

  test('a factory that is called otherwise than its file is seen', () => {
    const problems = ['src/a/key-mutex.ts', 'src/a/index.ts', 'src/key-mutex/index.ts', 'src/a/mutex.ts'].flatMap((path) =>
      factoryProblems(path, 'export function createKeyMutex() {}'),
    )
    assert.deepEqual(problems, ['src/a/index.ts: call createKeyMutex after its file'])
    assert.deepEqual(factoryProblems('src/a/b.ts', 'export function createC() {}\nexport const openD = () => 1'), [])
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

  test('each missing place of a protocol, a store, a binding, a bridge and a worker is named', () => {
    const texts: Record<string, string> = {
      'docs/bindings.md': '## HTTP',
      'src/apps/server/server.ts': `import '#bindings/http/index.ts'\nrunClock()`,
      'src/bindings/carrier-pigeon/index.ts': '',
      'src/bindings/http/index.ts': '',
      'src/bindings/shared/handle.ts': '',
      'src/bridges/ferry/index.ts': '',
      'src/protocols/barter/index.ts': '',
      'src/protocols/index.ts': '',
      'src/stores/clay.ts': 'export function clayStore() {}',
      'src/workers/bell.ts': 'export function runBell(\n  kernel: Kernel,\n): Worker {\n  runStriker(kernel)\n}',
      'src/workers/clock.ts': 'export const runClock = (kernel: Kernel): Worker => 1',
      'src/workers/striker.ts': 'export function runStriker(kernel: Kernel): Worker {}',
      'test/bindings/http.test.ts': '',
    }
    const places = missingPlaces({ files: Object.keys(texts), textOf: (path) => texts[path] ?? '' })
    assert.deepEqual(places, [
      'the protocol barter has no place yet: its page docs/protocols/barter.md',
      'the protocol barter has no place yet: its line in src/protocols/index.ts',
      'the store clayStore has no place yet: its use in src/apps/server',
      'the store clayStore has no place yet: its tests: storeMakers in test/support/in-process/world.ts, or a file in test/stores',
      'the binding carrier-pigeon has no place yet: its line in src/apps/server/server.ts',
      'the binding carrier-pigeon has no place yet: its section in docs/bindings.md',
      'the binding carrier-pigeon has no place yet: its row in test/laws/bindings.test.ts',
      'the bridge ferry has no place yet: its line in src/apps',
      'the worker runBell has no place yet: its start in src/apps',
    ])
  })
})
