// The command line in this process, with outputs that can be read, and as processes of its own, with pipes or in a terminal.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { createCli, type CliOptions } from '#apps/cli/program.ts'
import { nouns, specsOf } from '#apps/cli/derive/commands.ts'
import { protocols } from '#protocols/index.ts'

export const root = join(import.meta.dirname, '../..', '..')
/** A folder that goes away with the process, which is one for each file of tests. */
export function temporary(name: string): string {
  const made = mkdtempSync(join(tmpdir(), `countersign-${name}-`))
  process.on('exit', () => rmSync(made, { recursive: true, force: true }))
  return made
}

export type Ran = { readonly code: number | null; readonly out: string; readonly err: string }

export type InProcess = { run(argv: readonly string[], input?: string): Promise<Ran> }

export function inProcess({
  home,
  perform,
  env = {},
}: {
  home: string
  perform?: CliOptions['perform']
  env?: Record<string, string>
}): InProcess {
  const said = { out: '', err: '' }
  const output = (to: 'out' | 'err') => ({ write: (text: string | Uint8Array) => (said[to] += String(text)) })
  const io = { out: output('out'), err: output('err'), input: Readable.from([]) as unknown as NodeJS.ReadStream, env, cwd: home, home }
  const cli = createCli({ io, specs: specsOf(protocols), nouns, version: '0.0.0', ...(perform ? { perform } : {}) })
  return {
    async run(argv, input = '') {
      Object.assign(said, { out: '', err: '' })
      io.input = Readable.from([Buffer.from(input)]) as unknown as NodeJS.ReadStream
      const code = await cli.run(argv)
      return { code, ...said }
    },
  }
}

export type Running = { readonly url: string; readonly data: string; readonly process: ChildProcess; stop(): Promise<void> }

const program = join(root, 'bin', 'countersign.js')

/** `countersign up` as a process. */
export async function startUp(data: string, env: Record<string, string> = {}): Promise<Running> {
  const args = [program, 'up', '--port', '0', '--data', data, '--log', 'error']
  const server = spawn(process.execPath, args, { cwd: tmpdir(), env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] })
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  let said = ''
  server.stdout.setEncoding('utf8').on('data', (part: string) => {
    said += part
    const url = /^countersign ready (\S+)$/m.exec(said)?.[1]
    if (url !== undefined) resolve(url)
  })
  server.on('error', reject).on('exit', () => reject(new Error(`the server did not start: ${said}`)))
  return {
    url: await promise,
    data,
    process: server,
    async stop() {
      if (server.exitCode !== null) return
      server.kill('SIGTERM')
      await once(server, 'exit')
    },
  }
}

const WAIT_MS = 60_000

async function ended(child: ChildProcess, said: { out: string; err: string }): Promise<Ran> {
  const late = setTimeout(() => child.kill('SIGKILL'), WAIT_MS)
  const [code] = (await once(child, 'close')) as [number | null]
  clearTimeout(late)
  return { code, ...said }
}

/** One command through pipes. */
export function runPiped(
  argv: readonly string[],
  { env, cwd, input = '' }: { env: Record<string, string>; cwd: string; input?: string },
): Promise<Ran> {
  const child = spawn(process.execPath, [program, ...argv], {
    cwd,
    env: { PATH: process.env['PATH']!, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const said = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (part: string) => (said.out += part))
  child.stderr.setEncoding('utf8').on('data', (part: string) => (said.err += part))
  child.stdin.on('error', () => undefined).end(input)
  return ended(child, said)
}

const quoted = (word: string): string => `'${word.replaceAll("'", String.raw`'\''`)}'`

/** The key to press, or else the thing to do, when a text has appeared on the terminal, and how long after that; after an empty text, at once. */
export type Press = readonly [on: string, keys: string | (() => Promise<unknown>), afterMs?: number]

/** One command in a pseudo-terminal of 100 columns, or one that does not know its size. Both outputs are one there. */
export const runInTerminal = (argv: readonly string[], presses: readonly Press[], place: Place): Promise<Ran> =>
  runShellInTerminal(`exec ${[process.execPath, program, ...argv].map(quoted).join(' ')}`, presses, place)

type Place = { env: Record<string, string>; cwd: string; columns?: number; rows?: number }

/** The same with a line as it is typed. */
export function runShellInTerminal(
  command: string,
  presses: readonly Press[],
  { env, cwd, columns = 100, rows = columns === 0 ? 0 : 40 }: Place,
): Promise<Ran> {
  const line = `stty cols ${columns} rows ${rows}; ${command}`
  const child = spawn('script', ['-qec', line, '/dev/null'], {
    cwd,
    env: { PATH: process.env['PATH']!, TERM: 'xterm-256color', SHELL: '/bin/sh', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const said = { out: '', err: '' }
  let seen = 0
  const waiting = [...presses]
  let isPressing = false
  const look = (): void => {
    // A person is not faster than this either.
    const [on, keys, afterMs = 100] = waiting[0] ?? []
    if (isPressing || on === undefined || !said.out.slice(seen).includes(on)) return
    seen = said.out.length
    waiting.shift()
    isPressing = true
    const pressed = (): void => {
      isPressing = false
      look()
    }
    setTimeout(() => {
      if (typeof keys === 'string') child.stdin.write(keys, pressed)
      else void keys!().finally(pressed)
    }, afterMs)
  }
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    said.out += part
    look()
  })
  child.stdin.on('error', () => undefined)
  return ended(child, said)
}

/** Ids, times, hashes and addresses differ each time. */
export const masked = (text: string): string =>
  text
    .replaceAll(/\b([a-z]+)_(?:[0-9A-HJKMNP-TV-Z]{26}|[0-9A-HJKMNP-TV-Z]{6})\b/g, '$1_ID')
    .replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ/g, 'TIME')
    .replaceAll(/\b(\d+[smhd] ago|now)\b/g, 'AGO')
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, 'TIME')
    .replaceAll(/http:\/\/127\.0\.0\.1:\d+/g, 'URL')
    .replaceAll(/cs_ID_[\w-]{43}|\bcs_[0-9A-Z]{26}_[\w-]{43}/g, 'KEY')
    .replaceAll(/(?<![\w-])[\w-]{43}(?![\w-])/g, 'HASH')
    .replaceAll(/ +$/gm, '')
