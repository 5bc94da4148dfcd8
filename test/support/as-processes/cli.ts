// The command line in this process, with outputs that can be read, and as processes of its own, with pipes or in a terminal.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { createProgram, type ProgramOptions } from '#apps/cli/program.ts'
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
  perform?: ProgramOptions['perform']
  env?: Record<string, string>
}): InProcess {
  const said = { out: '', err: '' }
  const output = (to: 'out' | 'err') => ({ write: (text: string | Uint8Array) => (said[to] += String(text)) })
  const io = { out: output('out'), err: output('err'), input: Readable.from([]) as unknown as NodeJS.ReadStream, env, cwd: home, home }
  const cli = createProgram({ io, specs: specsOf(protocols), nouns, version: '0.0.0', ...(perform ? { perform } : {}) })
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

/** A command that has to be killed fails its test: it waited for something that never came. */
async function ended(child: ChildProcess, said: { out: string; err: string }): Promise<Ran> {
  let isLate = false
  const late = setTimeout(() => (isLate = child.kill('SIGKILL')), WAIT_MS)
  const [code] = (await once(child, 'close')) as [number | null]
  clearTimeout(late)
  if (isLate) throw new Error(`the command did not end within ${WAIT_MS / 1000} s. Its output ends with:\n${tailOf(said)}`)
  return { code, ...said }
}
const tailOf = ({ out, err }: { out: string; err: string }): string => (out + err).slice(-3_000)

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

/** The key to press, or else the thing to do, when a text has appeared on the terminal, and how long after that; after an empty text, immediately. */
export type Press = readonly [on: string, keys: string | (() => Promise<unknown>), afterMs?: number]

/** One command in a pseudo-terminal of 100 columns, or one that does not know its size. Both outputs are one there. */
export const runInTerminal = (argv: readonly string[], presses: readonly Press[], place: Place): Promise<Ran> =>
  runShellInTerminal(lineOf(argv), presses, place)
/** The command as a shell takes it. */
export const lineOf = (argv: readonly string[]): string => `exec ${[process.execPath, program, ...argv].map(quoted).join(' ')}`

type Place = { env: Record<string, string>; cwd: string; columns?: number; rows?: number }

/** The same with a line as it is typed. */
export async function runShellInTerminal(command: string, presses: readonly Press[], place: Place): Promise<Ran> {
  const terminal = openTerminal(command, place)
  // A person is not faster than this either.
  for (const [on, keys, afterMs = 100] of presses) {
    if ((await terminal.until(on)) === null) break
    await new Promise((done) => setTimeout(done, afterMs))
    if (typeof keys === 'string') terminal.press(keys)
    else await keys()
  }
  return terminal.end()
}

export type Terminal = {
  /** Waits for a text after the last one that was waited for, and returns all that came until then; null: the command has ended. */
  until(text: string | RegExp): Promise<string | null>
  press(keys: string): void
  /** Waits for the end of the command. */
  end(): Promise<Ran>
}

/** A pseudo-terminal that stays open from one key to the next. */
export function openTerminal(command: string, { env, cwd, columns = 100, rows = columns === 0 ? 0 : 40 }: Place): Terminal {
  const line = `stty cols ${columns} rows ${rows}; ${command}`
  const child = spawn('script', ['-qec', line, '/dev/null'], {
    cwd,
    env: { PATH: process.env['PATH']!, TERM: 'xterm-256color', SHELL: '/bin/sh', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const said = { out: '', err: '' }
  let seen = 0
  child.stdout.setEncoding('utf8').on('data', (part: string) => (said.out += part))
  child.stdin.on('error', () => undefined)
  const closed = once(child, 'close')
  let isClosed = false
  void closed.then(() => (isClosed = true))
  return {
    async until(text) {
      const late = AbortSignal.timeout(WAIT_MS)
      for (;;) {
        const fresh = said.out.slice(seen)
        if (typeof text === 'string' ? fresh.includes(text) : text.test(fresh)) {
          seen = said.out.length
          return fresh
        }
        if (isClosed) return null
        await Promise.race([closed, once(child.stdout, 'data', { signal: late })]).catch(() => undefined)
        if (late.aborted) {
          child.kill('SIGKILL')
          throw new Error(`the terminal did not show ${String(text)} within ${WAIT_MS / 1000} s. Its output ends with:\n${tailOf(said)}`)
        }
      }
    },
    press: (keys) => void child.stdin.write(keys),
    end: () => (isClosed ? closed.then(([code]) => ({ code: code as number | null, ...said })) : ended(child, said)),
  }
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
