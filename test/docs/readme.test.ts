// The documentation is looked up: links, named files, scripts, and what it says about the code. test/docs/tours.test.ts runs its commands.
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { describe, test } from 'node:test'
import { helpText } from '#apps/server/settings/config.ts'
import { statuses } from '#kernel/declare/errors.ts'
import { kernelCodes, type Fault } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { protocols } from '#protocols/index.ts'
import { aapRows } from '../conformance/aap.ts'
import { decisionRows } from '../conformance/decisions.ts'
import { hacpRows } from '../conformance/hacp.ts'

const root = join(import.meta.dirname, '../..')
const textOf = (path: string): string => readFileSync(join(root, path), 'utf8')

const documents = globSync(['*.md', 'docs/**/*.md', 'src/**/*.md'], { cwd: root }).sort()

/** Links that lead nowhere, and npm scripts that do not exist. */
function problemsOf(path: string, text: string, exists: (path: string) => boolean, scripts: readonly string[]): string[] {
  const prose = text.replaceAll(/^```.*?^```$/gms, '')
  const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!).filter((target) => !/^[a-z]+:/.test(target))
  const broken = links.filter((target) => {
    const [file, anchor] = target.split('#')
    const to = file === '' ? path : normalize(join(dirname(path), file!))
    if (!exists(to)) return true
    return anchor !== undefined && to.endsWith('.md') && !anchorsIn(to === path ? text : textOf(to)).includes(anchor)
  })
  const unknown = [...text.matchAll(/\bnpm run ([\w:-]+)/g)].map(([, name]) => name!).filter((name) => !scripts.includes(name))
  const elsewhere = [...prose.matchAll(/`((?:src|test|docs|scripts|bench)\/[\w./-]+)`/g)]
    .map(([, file]) => file!)
    .filter((file) => !exists(file))
  return [
    ...broken.map((target) => `${path}: the link ${target} leads nowhere`),
    ...unknown.map((name) => `${path}: there is no npm run ${name}`),
    ...elsewhere.map((file) => `${path}: there is no ${file}`),
  ]
}

type Answer = { readonly question: string; readonly answer: string }

/** The rows below "Where to look". */
function questionsIn(text: string): Answer[] {
  const table = /^## Where to look$(.*?)^## /ms.exec(text)?.[1] ?? ''
  return [...table.matchAll(/^\| (.+?\?) \| (.+) \|$/gm)].map(([, question, answer]) => ({ question: question!, answer: answer! }))
}

function answerProblems({ question, answer }: Answer, exists: (path: string) => boolean): string[] {
  const paths = [...answer.matchAll(/`((?:src|scripts)\/[\w./-]+)`/g)].map(([, path]) => path!)
  if (paths.length === 0) return [`${question} the answer names no file`]
  return paths.filter((path) => !exists(path)).map((path) => `${question} there is no ${path}`)
}

const anchorsIn = (markdown: string): string[] =>
  [...markdown.matchAll(/^#+ (.+)$/gm)].map(([, title]) =>
    title!
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )

describe('the documentation', () => {
  const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> }

  test('every relative link, named file and npm script exists', () => {
    assert.ok(documents.length > 20, 'the documents were found')
    const exists = (path: string): boolean => existsSync(join(root, path))
    assert.deepEqual(
      documents.flatMap((path) => problemsOf(path, textOf(path), exists, Object.keys(scripts))),
      [],
    )
  })

  test('every decision has the same four parts, and the list names it with its title', () => {
    const list = textOf('docs/decisions/README.md')
    for (const path of documents.filter((file) => /decisions\/\d/.test(file))) {
      const text = textOf(path)
      const [, number, title] = /^# (\d{4}): (.+)\n\nStatus: [a-z]+, \d+\.\d+\.\d+/.exec(text) ?? []
      assert.equal(number, /(\d{4})-/.exec(path)![1], `${path} begins with "# number: title" and its status`)
      const parts = [...text.matchAll(/^## (.+)$/gm)].map(([, part]) => part)
      assert.deepEqual(parts, ['Context', 'Decision', 'Consequences'], path)
      assert.ok(
        list.includes(`| [${number}](${path.slice(path.lastIndexOf('/') + 1)}) | ${title} |`),
        `${path} is in docs/decisions/README.md`,
      )
    }
  })

  test('every package that runs in the server or the command line has its reason in decision 0003', () => {
    const { dependencies } = JSON.parse(textOf('package.json')) as { dependencies: Record<string, string> }
    const reasons = textOf('docs/decisions/0003-dependencies.md')
    assert.deepEqual(
      Object.keys(dependencies).filter((name) => !reasons.includes(`\`${name}\``)),
      [],
    )
  })

  test("the table of a newcomer's first questions names a file for each", () => {
    const rows = questionsIn(textOf('ARCHITECTURE.md'))
    assert.ok(rows.length >= 15, 'the questions were found')
    for (const wanted of [
      'Where is a call authorized?',
      'Where does a timer fire?',
      'What keeps a second server from sending a webhook twice?',
    ])
      assert.ok(
        rows.some(({ question }) => question === wanted),
        wanted,
      )
    assert.deepEqual(
      rows.flatMap((row) => answerProblems(row, (path) => existsSync(join(root, path)))),
      [],
    )
    const row = { question: 'Where?', answer: '`authorize` in `src/a.ts`' }
    assert.deepEqual(
      answerProblems(row, () => false),
      ['Where? there is no src/a.ts'],
    )
    assert.deepEqual(
      answerProblems({ ...row, answer: 'the kernel' }, () => true),
      ['Where? the answer names no file'],
    )
  })

  test('a broken link, a missing file, anchor or script is noticed', () => {
    const exists = (path: string): boolean => path === 'docs/there.md' || path === 'docs/a.md'
    const text =
      '# One two\n[a](there.md) [b](gone.md) [c](https://x.example/) [d](#one-two) [e](#three) `src/gone.ts` `npm run gone` `npm run check`'
    assert.deepEqual(problemsOf('docs/a.md', text, exists, ['check']), [
      'docs/a.md: the link gone.md leads nowhere',
      'docs/a.md: the link #three leads nowhere',
      'docs/a.md: there is no npm run gone',
      'docs/a.md: there is no src/gone.ts',
    ])
  })
})

/** The cells of every row of every table. */
const rowsIn = (path: string): string[][] =>
  [...textOf(path).matchAll(/^\| (.*) \|$/gm)].map(([, row]) => row!.split(/(?<!\\)\|/).map((cell) => cell.trim()))

describe('the documentation of the code', () => {
  test('every operation is on the page of its protocol', () => {
    for (const { name, operations } of protocols) {
      const page = textOf(`docs/protocols/${name}.md`)
      for (const op of operations) assert.ok(page.includes(`\`${op.name}\``), `docs/protocols/${name}.md does not name ${op.name}`)
    }
  })

  test('every group of requirements and every choice is on the page of collaboration', () => {
    const page = textOf('docs/protocols/collaboration.md')
    for (const { id } of hacpRows) assert.ok(page.includes(`| ${id.replace(/-\d+$/, '')} |`), id)
    const choices = [...page.matchAll(/^\| H(\d+) \|/gm)].map(([, number]) => Number(number))
    assert.deepEqual(
      choices,
      [...new Set(choices)].toSorted((a, b) => a - b),
      'each once, in order',
    )
    const tested = decisionRows.flatMap(({ id }) => /^H(\d+)/.exec(id)?.slice(1).map(Number) ?? [])
    assert.deepEqual(
      [...new Set(tested)].filter((number) => !choices.includes(number)),
      [],
    )
  })

  test('every group of requirements and every choice of ours is on the page of delegation', () => {
    const page = textOf('docs/protocols/delegation.md')
    for (const { id } of aapRows.filter((row) => /^A-?[A-Z\d]/.test(row.id))) assert.ok(page.includes(`| ${id.replace(/-\d+$/, '')} |`), id)
  })

  test('every error code is listed with its status', () => {
    const codes: Record<string, Fault> = Object.assign({}, kernelCodes, ...protocols.map((protocol) => protocol.codes))
    const shown = ['collaboration', 'delegation', 'execution', 'gate', 'hardware', 'harness']
      .flatMap((name) => rowsIn(`docs/protocols/${name}.md`))
      .filter(([code, status]) => /^`[A-Z_]+`$/.test(code!) && /^\d{3}$/.test(status!))
    const listed = Object.fromEntries(shown.map(([code, status]) => [code!.slice(1, -1), Number(status)]))
    assert.deepEqual(listed, Object.fromEntries(Object.entries(codes).map(([code, fault]) => [code, statuses[fault]])))
  })

  test('the limits are those of the code', () => {
    const rows = rowsIn('docs/operating.md').filter(([, , name]) => /^`\w+(Max|Ms|PerMinute)`$/.test(name ?? ''))
    assert.ok(rows.length >= 25, 'the rows were found')
    for (const [, value, name] of rows) {
      const bound = limits[name!.slice(1, -1) as keyof typeof limits]
      assert.equal(Number.parseInt(value!.replaceAll(',', ''), 10), bound, name!)
    }
  })

  test('every setting is in the guide for operators, with its variable and its default', () => {
    const guide = rowsIn('docs/operating.md')
    for (const [, flag, rest] of helpText().matchAll(/^ {2}--([\w-]+)(.*(?:\n {10,}.*)*)$/gm)) {
      const row = guide.find(([cell]) => new RegExp(`\`--${flag}[ \`]`).test(cell!))?.join(' ')
      assert.ok(row, `docs/operating.md does not name --${flag}`)
      const [usual, variable] = [/\(default (.*?)\)/.exec(rest!)?.[1], /\bor (COUNTERSIGN_\w+)/.exec(rest!)?.[1]]
      for (const word of [usual, variable]) assert.ok(word === undefined || row.includes(`\`${word}\``), `--${flag}: ${word}`)
    }
  })
})
