// The tours are taken: README.md, docs/ask.md, docs/notices.md, docs/tour-cli.md and docs/tour-http.md word for word, each on a fresh server, and one of them,
// chosen anew each time, on one that was used; `npm run test:long` takes all of them there. The first `node` in the reader's PATH is an old one. A command on these pages that nothing here has run is an error.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { after, before, describe, test, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { SMTPServer } from 'smtp-server'
import { root, temporary } from '../support/as-processes/cli.ts'
import { freePort } from '../support/harness/broker.ts'
import { cloneIn, pathWithOldNode } from '../support/as-processes/clone.ts'
import { sampleOf } from '../support/as-processes/postgres-stores.ts'
import {
  assertPrinted,
  blocksIn,
  commandsIn,
  openShell,
  printsEventually,
  replayTranscript,
  type Block,
} from '../support/as-processes/tour.ts'

const textOf = (page: string): string => readFileSync(join(root, page), 'utf8')
const USUAL = 'http://127.0.0.1:3402'

/** Everything that was run, as it was written. */
const ran: string[] = []

/** From the last to the first, when the test is over. */
type Undo = (() => unknown)[]

type Started = { readonly url: string; readonly said: string }

/** People type it at a terminal, where the server prints the login link; here its output is a pipe. */
const asAtTerminal = (line: string): string =>
  /^npm start\b/.test(line)
    ? `${line}${line.includes(' -- ') ? '' : ' --'} --link`
    : /^countersign up\b/.test(line)
      ? `${line} --link`
      : line

/** Types these lines into a terminal of their own; the last of them starts a server. */
async function startServer(undo: Undo, lines: readonly string[], cwd: string, env: Record<string, string>): Promise<Started> {
  // In a group of its own, so that the server ends with whatever started it.
  const child = spawn('sh', ['-c', lines.map(asAtTerminal).join('\n')], { cwd, env, stdio: ['ignore', 'pipe', 'inherit'], detached: true })
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

type Newcomer = { readonly clone: string; readonly env: Record<string, string>; readonly undo: Undo }

/** Somebody new: a clone, a home of their own, an old Node, a free port, nothing of ours. */
function newcomer(more: Record<string, string> = {}): Newcomer {
  const folder = temporary('tour')
  // The shell that started a server may end before the server has.
  const undo: Undo = [() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 })]
  const env = {
    PATH: pathWithOldNode(folder),
    HOME: join(folder, 'home'),
    COUNTERSIGN_DATA: join(folder, 'data'),
    COUNTERSIGN_PORT: '0',
    COUNTERSIGN_LOG: 'error',
    ...more,
  }
  mkdirSync(env.HOME)
  return { clone: cloneIn(folder), env, undo }
}

async function leave({ undo }: Newcomer): Promise<void> {
  for (const step of undo.toReversed()) await step()
}

/** `section`: this one alone, in a shell whose errors are not shown, since programs in the background report there. */
type Page = { readonly page: string; readonly shell?: string; readonly section?: string }

const sectionOf = (text: string, title: string): string => new RegExp(`^## ${title}\\n(.*?)^## `, 'ms').exec(text)?.[1] ?? ''
const PATH_LINE = 'PATH=$PWD/bin:$PWD/node_modules/.bin:$PATH'

/** The blocks of a page, without those that start a server. */
function blocksOf({ page, section }: Page): Block[] {
  const whole = textOf(page)
  const text = section !== undefined ? sectionOf(whole, section) : sectionOf(whole, 'A five-minute tour') || whole
  return blocksIn(text).filter((block) => !isServer(block))
}
const isServer = ({ language, text }: Block): boolean => language === 'console' && /^\$ (countersign up|npm start)$/m.test(text)

/** Types everything on a page into a shell, beside a server that runs. */
async function follow(of: Page, url: string, { clone, env, undo }: Newcomer): Promise<string> {
  const mine = { ...env, BASE: url, COUNTERSIGN_URL: url }
  const session = openShell(of.shell ?? 'sh', clone, mine, of.section === undefined)
  undo.push(session.close)
  // A section goes on where its page has come to.
  if (of.section !== undefined) await session.run(`${PATH_LINE}\n`)
  let all = ''
  for (const { language, text, prints } of blocksOf(of)) {
    if (language === 'sh') {
      const printed = await printsEventually(session, text, prints)
      all += printed
      if (prints === null) assert.equal(printed, '', text)
      else assertPrinted(printed, prints)
      ran.push(text)
    } else if (language === 'ts') {
      // Its first line says how the file is called; a block behind it runs it.
      writeFileSync(join(clone, /^\/\/ (\S+)$/m.exec(text)![1]!), text)
      ran.push(text)
    } else if (language === 'console') {
      ran.push(await replayTranscript(text, { cwd: clone, env: { ...mine, PATH: [join(root, 'bin'), env['PATH']].join(delimiter) } }))
    }
  }
  return all
}

/** A page alone, with a server that is started as the page says, or as the README does. */
async function take(t: TestContext, of: Page, env: Record<string, string> = {}): Promise<string> {
  const reader = newcomer(env)
  t.after(() => leave(reader))
  const whole = textOf(of.page)
  const opening = blocksIn(sectionOf(whole, 'A five-minute tour') || whole).find(isServer)
  const typed = opening ? [...opening.text.matchAll(/^\$ (.*)$/gm)].map(([, line]) => line!) : [PATH_LINE, 'countersign up']
  const { url, said } = await startServer(reader.undo, typed, reader.clone, reader.env)
  if (opening) {
    // Everything but the port is as it is shown; next steps stand behind it.
    const shown = opening.text.replaceAll(/^\$ .*\n/gm, '')
    const from = said.replaceAll(url, USUAL).slice(said.indexOf('countersign ready'))
    const lines = from.split('\n').slice(0, shown.split('\n').length - 1)
    assertPrinted(`${lines.join('\n')}\n`, shown)
  }
  return follow(of, url, reader)
}

/** A page is dozens of commands, each a process of its own: on a busy machine they take long. */
const patience = { timeout: 300_000 }

describe('the tours', () => {
  test('README.md works word for word and ends with a record that is in order', patience, async (t) => {
    const said = await take(t, { page: 'README.md' })
    assert.match(said, /^completed$/m)
    assert.match(said, /^✔ rebuilt from \d+ events/m)
  })

  test('docs/tour-cli.md works word for word', patience, async (t) => {
    const said = await take(t, { page: 'docs/tour-cli.md' })
    assert.match(said, /^✔ rebuilt from \d+ events/m)
  })

  test('docs/ask.md works word for word', patience, async (t) => {
    await take(t, { page: 'docs/ask.md' })
  })

  test('docs/notices.md works word for word, and its mail arrives', patience, async (t) => {
    const mails: string[] = []
    const office = new SMTPServer({
      authOptional: true,
      disabledCommands: ['STARTTLS'],
      logger: false,
      onData(stream, { envelope }, done) {
        stream.resume().on('end', () => void mails.push(...envelope.rcptTo.map(({ address }) => address)))
        stream.on('end', () => done())
      },
    })
    await new Promise<void>((listening) => office.listen(0, '127.0.0.1', () => listening()))
    t.after(() => new Promise<void>((closed) => office.close(() => closed())))
    const { port } = office.server.address() as AddressInfo
    await take(t, { page: 'docs/notices.md' }, { COUNTERSIGN_SMTP: `smtp://127.0.0.1:${port}` })
    for (let look = 0; mails.length === 0 && look < 100; look++) await sleep(100)
    assert.deepEqual(mails, ['you@example.com'])
  })

  for (const shell of ['bash', 'sh']) {
    test(`docs/tour-http.md works word for word in ${shell}`, patience, async (t) => {
      const said = await take(t, { page: 'docs/tour-http.md', shell })
      assert.match(said, /^"matches":true$/m)
    })
  }

  test('README.md: two harnesses talk in two terminals', patience, async (t) => {
    const reader = newcomer()
    t.after(() => leave(reader))
    const port = await freePort()
    const [first, second] = blocksIn(sectionOf(textOf('README.md'), 'Two harnesses')).filter(({ language }) => language === 'console')
    const linesOf = ({ text }: Block): string[] => [...text.matchAll(/^\$ (.*)$/gm)].map(([, line]) => line!)
    const shownBy = ({ text }: Block): string => text.replaceAll(/^\$ .*\n/gm, '')
    const stop = 'node scripts/broker.ts stop data/rabbitmq'
    const terminal = (lines: readonly string[], user: string) => {
      const own = { COUNTERSIGN_AMQP_URL: `amqp://${user}:${user}@127.0.0.1:${port}/hcp`, COUNTERSIGN_BROKER_PORT: String(port) }
      const env = { ...reader.env, ...own, COUNTERSIGN_DATA: join(reader.env['COUNTERSIGN_DATA']!, user), HOME: homedir() }
      const child = spawn('sh', ['-c', lines.join('\n')], { cwd: reader.clone, env, stdio: ['ignore', 'pipe', 'inherit'], detached: true })
      ran.push(...lines)
      return child
    }
    const ended = once(terminal(['sh scripts/ensure running'], 'lab-a'), 'exit')
    assert.deepEqual(await ended, [0, null])
    const callee = terminal(linesOf(first!), 'lab-b')
    reader.undo.push(async () => {
      process.kill(-callee.pid!, 'SIGTERM')
      const stopped = terminal([PATH_LINE, stop], 'lab-b')
      await once(stopped, 'exit')
    })
    let said = ''
    for await (const part of callee.stdout) if ((said += String(part)).includes('ready')) break
    assertPrinted(said.replaceAll(String(port), '5699'), shownBy(first!))
    const caller = terminal(linesOf(second!), 'lab-a')
    let heard = ''
    for await (const part of caller.stdout) heard += String(part)
    assertPrinted(heard.replaceAll(/ +$/gm, ''), shownBy(second!))
  })

  test('README.md: a board is switched from another terminal', patience, async (t) => {
    const reader = newcomer()
    t.after(() => leave(reader))
    const [first, second] = blocksIn(sectionOf(textOf('README.md'), 'A board')).filter(({ language }) => language === 'console')
    const terminal = ({ text }: Block, before: readonly string[] = []) => {
      const lines = [...text.matchAll(/^\$ (.*)$/gm)].map(([, line]) => line!)
      const child = spawn('sh', ['-c', [...before, ...lines].join('\n')], {
        cwd: reader.clone,
        env: reader.env,
        stdio: ['ignore', 'pipe', 'inherit'],
        detached: true,
      })
      ran.push(...lines)
      return child
    }
    const shownBy = ({ text }: Block): string => text.replaceAll(/^\$ .*\n/gm, '')
    const daemon = terminal(first!, ['sh scripts/ensure running'])
    reader.undo.push(async () => {
      process.kill(-daemon.pid!, 'SIGTERM')
      await once(daemon, 'exit')
    })
    let said = ''
    for await (const part of daemon.stdout) if ((said += String(part)).includes('\n')) break
    assertPrinted(said, shownBy(first!))
    let printed = ''
    for await (const part of terminal(second!).stdout) printed += String(part)
    assertPrinted(printed, shownBy(second!))
  })

  test('the commands outside of the tours work as well', async (t) => {
    const reader = newcomer()
    t.after(() => leave(reader))
    // Without its filter this would be the run that this test is a part of.
    for (const command of ['npm start -- --help', 'npm test -- test/kernel/ids.test.ts']) {
      const child = spawn('sh', ['-c', command], { cwd: root, env: reader.env, stdio: ['ignore', 'pipe', 'pipe'] })
      let said = ''
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => (said += String(part)))
      assert.deepEqual(await once(child, 'close'), [0, null], `${command}\n${said}`)
      ran.push(command)
    }
  })

  // Last: by now everything has been run.
  for (const page of ['README.md', 'docs/ask.md', 'docs/notices.md', 'docs/tour-cli.md', 'docs/tour-http.md']) {
    test(`every command on ${page} was run`, () => {
      assert.ok(commandsIn(textOf(page)).length > 5, 'the commands were found')
      // The section about agents is run, word for word, by test/docs/agents.test.ts.
      assert.deepEqual(notRun(textOf(page).replace(/^## Your first agent\n.*?(?=^## )/ms, ''), ran), [])
    })
  }
})

const notRun = (markdown: string, done: readonly string[]): string[] =>
  commandsIn(markdown).filter((command) => !done.some((text) => text.includes(command)))

describe('on a folder that other pages have used', () => {
  let reader: Newcomer
  let url = ''
  before(async () => {
    reader = newcomer()
    url = (await startServer(reader.undo, [PATH_LINE, 'countersign up'], reader.clone, reader.env)).url
  })
  after(() => leave(reader))
  const others: Page[][] = [
    [{ page: 'docs/agents.md', section: 'Your first agent in five minutes' }],
    [{ page: 'docs/tour-cli.md' }],
    [{ page: 'docs/ask.md' }],
    [{ page: 'README.md' }, { page: 'README.md', section: 'Your first agent' }],
  ]
  for (const of of [{ page: 'docs/tour-http.md' }, ...sampleOf(others, 1).flat()] as Page[])
    test(`${of.page} works${of.section === undefined ? '' : `: ${of.section}`}`, patience, () =>
      follow(of, url, reader).then(() => undefined),
    )
})

test('the tour by HTTP counts the facts that it shows', () => {
  const page = textOf('docs/tour-http.md')
  const [, shown, above] = /^## Read the record\n(.*?)the (\d+) facts above/ms.exec(page) ?? []
  assert.equal(shown?.match(/^"action":/gm)?.length, Number(above))
})

describe('the check of commands', () => {
  test('a command that no test has run is found, at every place', () => {
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
