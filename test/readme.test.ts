// The documentation is run: the tour of README.md word for word against a fresh server, and every link and command is looked up.
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, normalize } from 'node:path'
import { describe, test } from 'node:test'
import { helpText } from '#apps/config.ts'
import { statuses } from '#bindings/http/answers.ts'
import { kernelCodes, type Fault } from '#kernel/errors.ts'
import { limits } from '#kernel/limits.ts'
import { protocols } from '#protocols/index.ts'
import { aapRows } from './conformance/aap.ts'
import { hacpRows } from './conformance/hacp.ts'

const root = join(import.meta.dirname, '..')
const textOf = (path: string): string => readFileSync(join(root, path), 'utf8')

/** A block of the tour and what it prints, where that is shown. */
type Shown = { readonly commands: string; readonly prints: string | null }

function tourIn(markdown: string): Shown[] {
  const tour = /^## A five-minute tour\n(.*?)^## /ms.exec(markdown)?.[1] ?? ''
  const blocks = [...tour.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language, text]) => ({ language, text: text! }))
  return blocks.flatMap(({ language, text }, i) => {
    const next = blocks[i + 1]
    return language === 'sh' ? [{ commands: text, prints: next?.language === 'text' ? next.text : null }] : []
  })
}

/** What is shown is what is printed; an ellipsis stands for what differs each time. */
function assertPrinted(printed: string, shown: string): void {
  const parts = shown.split('…').map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`))
  assert.match(printed, new RegExp(`^${parts.join('[^\\n]+')}$`))
}

async function startServer(data: string): Promise<{ url: string; server: ChildProcess }> {
  const args = ['src/apps/main.ts', '--port', '0', '--data', data, '--log', 'error']
  const server = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] })
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  let said = ''
  // It is read to its end: a closed pipe would be an error for the server.
  server.stdout.setEncoding('utf8').on('data', (part: string) => {
    said += part
    const url = /^countersign ready (\S+)$/m.exec(said)?.[1]
    if (url !== undefined) resolve(url)
  })
  server.on('exit', () => reject(new Error(`the server did not start: ${said}`)))
  return { url: await promise, server }
}

async function run(shell: string, script: string, env: Record<string, string>): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(shell, ['-s'], { cwd: root, env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'] })
  const said = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (part: string) => (said.out += part))
  child.stderr.setEncoding('utf8').on('data', (part: string) => (said.err += part))
  child.stdin.end(script)
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, ...said }
}

const MARK = '--- the next block ---'

describe('the tour of README.md', () => {
  const blocks = tourIn(textOf('README.md'))

  for (const shell of ['bash', 'sh']) {
    test(`works word for word in ${shell}, prints what it shows, and ends with a record that matches`, async () => {
      assert.ok(blocks.length >= 8, 'the blocks were found')
      const data = mkdtempSync(join(tmpdir(), 'countersign-tour-'))
      const { url, server } = await startServer(data)
      try {
        const script = blocks.map(({ commands }) => `${commands}echo '${MARK}'\n`).join('')
        const { code, out, err } = await run(shell, script, { BASE: url, COUNTERSIGN_DATA: data })
        assert.deepEqual({ code, err }, { code: 0, err: '' })
        const printed = out.split(`${MARK}\n`)
        for (const [i, { commands, prints }] of blocks.entries()) {
          if (prints === null) assert.equal(printed[i], '', commands)
          else assertPrinted(printed[i]!, prints)
        }
        assert.match(out, /^completed$/m, 'the task ends completed')
        assert.match(out, /^"matches":true$/m, 'the replay matches')
      } finally {
        server.kill('SIGTERM')
        await once(server, 'exit')
        rmSync(data, { recursive: true, force: true })
      }
    })
  }

  test('an output that is not what is shown is noticed', () => {
    assert.throws(() => assertPrinted('assigned\n', 'in_progress\n'))
    assert.throws(() => assertPrinted('{"a":"1","b":3}\n', '{"a":"…","b":2}\n'))
    assertPrinted('{"a":"1","b":2}\n', '{"a":"…","b":2}\n')
  })
})

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

describe('what the documentation says about the code', () => {
  test('every operation stands on the page of its protocol', () => {
    for (const { name, operations } of protocols) {
      const page = textOf(`docs/protocols/${name}.md`)
      for (const op of operations) assert.ok(page.includes(`\`${op.name}\``), `docs/protocols/${name}.md does not name ${op.name}`)
    }
  })

  test('every group of requirements and every choice stands on the page of collaboration', () => {
    const page = textOf('docs/protocols/collaboration.md')
    for (const { id } of hacpRows) assert.ok(page.includes(`| ${id.replace(/-\d+$/, '')} |`), id)
    const choices = [...page.matchAll(/^\| H(\d+) \|/gm)].map(([, number]) => Number(number))
    assert.deepEqual(
      choices,
      Array.from({ length: 33 }, (_, i) => i + 1),
    )
  })

  test('every group of requirements and every choice of ours stands on the page of delegation', () => {
    const page = textOf('docs/protocols/delegation.md')
    for (const { id } of aapRows.filter((row) => /^A-?[A-Z\d]/.test(row.id))) assert.ok(page.includes(`| ${id.replace(/-\d+$/, '')} |`), id)
  })

  test('every error code stands there with its status', () => {
    const codes: Record<string, Fault> = Object.assign({}, kernelCodes, ...protocols.map((protocol) => protocol.codes))
    const shown = ['collaboration', 'delegation']
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

  test('every setting stands in the guide for operators, with its variable and its default', () => {
    const guide = rowsIn('docs/operating.md')
    for (const [, flag, rest] of helpText().matchAll(/^ {2}--([\w-]+)(.*(?:\n {10,}.*)?)$/gm)) {
      const row = guide.find(([cell]) => new RegExp(`\`--${flag}[ \`]`).test(cell!))?.join(' ')
      assert.ok(row, `docs/operating.md does not name --${flag}`)
      const [usual, variable] = [/\(default (.*?)\)/.exec(rest!)?.[1], /\bor (COUNTERSIGN_\w+)/.exec(rest!)?.[1]]
      for (const word of [usual, variable]) assert.ok(word === undefined || row.includes(`\`${word}\``), `--${flag}: ${word}`)
    }
  })
})
