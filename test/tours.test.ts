// The tours are taken: README.md, docs/ask.md, docs/tour-cli.md and docs/tour-http.md word for word against fresh servers. A command on these
// pages that nothing here has run is an error.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { root, temporary } from './support/cli.ts'
import { assertPrinted, blocksIn, commandsIn, openShell, replayTranscript } from './support/tour.ts'

const textOf = (page: string): string => readFileSync(join(root, page), 'utf8')
const USUAL = 'http://127.0.0.1:3402'

/** Everything that was run, as it was written. */
const ran: string[] = []

/** From the last to the first, when the test is over. */
type Undo = (() => unknown)[]

type Started = { readonly url: string; readonly said: string }

/** Types these lines into a terminal of their own; the last of them starts a server. */
async function startServer(undo: Undo, lines: readonly string[], cwd: string, env: Record<string, string>): Promise<Started> {
  // In a group of its own, so that the server ends with whatever started it.
  const child = spawn('sh', ['-c', lines.join('\n')], { cwd, env, stdio: ['ignore', 'pipe', 'inherit'], detached: true })
  undo.push(async () => {
    if (child.exitCode !== null) return
    process.kill(-child.pid!, 'SIGTERM')
    await once(child, 'exit')
  })
  ran.push(...lines)
  const { promise, resolve, reject } = Promise.withResolvers<Started>()
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    said += part
    const url = /^countersign ready (\S+)\n[^]*^The admin key is in .*\n/m.exec(said)?.[1]
    if (url !== undefined) resolve({ url, said })
  })
  child.on('exit', () => reject(new Error(`the server did not start: ${said}`)))
  return promise
}

/** The environment of somebody new: a home of their own, a free port, nothing of ours. */
function newcomer(t: TestContext): { folder: string; env: Record<string, string>; undo: Undo } {
  const folder = temporary('tour')
  const undo: Undo = [() => rmSync(folder, { recursive: true, force: true })]
  t.after(async () => {
    for (const step of undo.toReversed()) await step()
  })
  const env = {
    PATH: process.env['PATH']!,
    HOME: join(folder, 'home'),
    COUNTERSIGN_DATA: join(folder, 'data'),
    COUNTERSIGN_PORT: '0',
    COUNTERSIGN_LOG: 'error',
  }
  mkdirSync(env.HOME)
  return { folder, env, undo }
}

type Tour = { readonly page: string; readonly shell: string; readonly before?: readonly string[]; readonly at?: 'clone' | 'empty' }

async function take(t: TestContext, { page, shell, before, at = 'clone' }: Tour): Promise<string> {
  const { folder, env, undo } = newcomer(t)
  const whole = textOf(page)
  const tour = /^## A five-minute tour\n(.*?)^## /ms.exec(whole)?.[1] ?? whole
  const [opening, ...others] = blocksIn(tour)
  const cwd = at === 'clone' ? root : join(folder, 'empty')
  mkdirSync(join(folder, 'empty'))
  if (at === 'empty') {
    env['PATH'] = [join(root, 'bin'), dirname(process.execPath), env['PATH']].join(delimiter)
    mkdirSync(join(cwd, 'node_modules'))
    symlinkSync(root, join(cwd, 'node_modules', 'countersign'))
    writeFileSync(join(cwd, 'package.json'), '{"type":"module"}')
  }
  const typed = before ?? [...opening!.text.matchAll(/^\$ (.*)$/gm)].map(([, line]) => line!)
  const { url, said } = await startServer(undo, typed, cwd, env)
  if (!before) {
    // Everything but the port is as it is shown; what follows says what to do next.
    const shown = opening!.text.replaceAll(/^\$ .*\n/gm, '')
    const from = said.replaceAll(url, USUAL).slice(said.indexOf('countersign ready'))
    assertPrinted(
      from
        .split('\n')
        .slice(0, shown.split('\n').length - 1)
        .join('\n') + '\n',
      shown,
    )
  }
  const mine = { ...env, BASE: url, COUNTERSIGN_URL: url }
  const session = openShell(shell, cwd, mine)
  undo.push(session.close)
  let all = ''
  for (const { language, text, prints } of before ? [opening!, ...others] : others) {
    if (language === 'sh') {
      const printed = await session.run(text)
      all += printed
      if (prints === null) assert.equal(printed, '', text)
      else assertPrinted(printed, prints)
      ran.push(text)
    } else if (language === 'ts') {
      // Its first line says how the file is called; what follows runs it.
      writeFileSync(join(cwd, /^\/\/ (\S+)$/m.exec(text)![1]!), text)
      ran.push(text)
    } else if (language === 'console') {
      ran.push(await replayTranscript(text, { cwd, env: { ...mine, PATH: [join(root, 'bin'), env['PATH']].join(delimiter) } }))
    }
  }
  return all
}

describe('the tours', () => {
  test('README.md works word for word and ends with a record that is in order', async (t) => {
    const said = await take(t, { page: 'README.md', shell: 'sh' })
    assert.match(said, /^completed$/m)
    assert.match(said, /^✔ rebuilt from \d+ events/m)
  })

  test('docs/tour-cli.md works word for word', async (t) => {
    const said = await take(t, { page: 'docs/tour-cli.md', shell: 'sh', before: ['countersign up'], at: 'empty' })
    assert.match(said, /^✔ rebuilt from \d+ events/m)
  })

  test('docs/ask.md works word for word', async (t) => {
    await take(t, { page: 'docs/ask.md', shell: 'sh', before: ['countersign up'], at: 'empty' })
  })

  for (const shell of ['bash', 'sh']) {
    test(`docs/tour-http.md works word for word in ${shell}`, async (t) => {
      const said = await take(t, { page: 'docs/tour-http.md', shell })
      assert.match(said, /^"matches":true$/m)
    })
  }

  test('the commands besides the tours work as well', async (t) => {
    const { env } = newcomer(t)
    // Without its filter this would be the run that this test is a part of.
    for (const command of ['npm start -- --help', 'npm test -- test/kernel/ids.test.ts']) {
      const child = spawn('sh', ['-c', command], { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] })
      let said = ''
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => (said += String(part)))
      assert.deepEqual(await once(child, 'close'), [0, null], `${command}\n${said}`)
      ran.push(command)
    }
  })

  // Last: by now everything has been run.
  for (const page of ['README.md', 'docs/ask.md', 'docs/tour-cli.md', 'docs/tour-http.md']) {
    test(`every command on ${page} was run`, () => {
      assert.ok(commandsIn(textOf(page)).length > 5, 'the commands were found')
      // The section about agents is run, word for word, by test/agents-docs.test.ts.
      assert.deepEqual(notRun(textOf(page).replace(/^## Your first agent\n.*?(?=^## )/ms, ''), ran), [])
    })
  }
})

const notRun = (markdown: string, done: readonly string[]): string[] =>
  commandsIn(markdown).filter((command) => !done.some((text) => text.includes(command)))

test('the tour by HTTP counts the facts that it shows', () => {
  const page = textOf('docs/tour-http.md')
  const [, all, above] = /(\d+) facts: the (\d+) above, and /.exec(page) ?? []
  const [, shown] = /^## Read the record\n(.*?)\d+ facts: /ms.exec(page) ?? []
  assert.equal(shown?.match(/^"action":/gm)?.length, Number(above))
  assert.equal(/"verified":(\d+),/.exec(page)?.[1], all)
})

describe('what is checked', () => {
  test('a command that nothing has run is noticed, wherever it stands', () => {
    const page =
      'Run `npm start` or `countersign task list`, in `./data`.\n```sh\na\n```\n```text\nb\n```\n```console\n$ c\nd\n```\n```bash\ne\n```\n'
    assert.deepEqual(notRun(page, []), ['a\n', 'c', 'e\n', 'npm start', 'countersign task list'])
    assert.deepEqual(notRun(page, ['a\n', 'c', 'npm start', 'countersign task list --json']), ['e\n'])
  })

  test('an output that is not what is shown is noticed', () => {
    assert.throws(() => assertPrinted('assigned\n', 'in_progress\n'))
    assert.throws(() => assertPrinted('{"a":"1","b":3}\n', '{"a":"…","b":2}\n'))
    assert.throws(() => assertPrinted('note: more\nassigned\n', 'assigned\n'))
    assertPrinted('{"a":"1","b":2}\n', '{"a":"…","b":2}\n')
  })
})
