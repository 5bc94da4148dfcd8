// The server as its users run it: a process with flags, signals and an exit code.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'

const MAIN = join(import.meta.dirname, '../../../src/apps/server/main.ts')

export function dataFolder(t: Pick<TestContext, 'after'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'data')
}

export type Ended = { readonly code: number | null; readonly stdout: string; readonly stderr: string }
export type Running = {
  readonly port: number
  readonly child: ChildProcess
  readonly link: string
  stdout(): string
  stderr(): string
  /** Sends the signal and waits for the end. */
  end(signal?: NodeJS.Signals): Promise<Ended>
  ended(): Promise<Ended>
}

type Options = {
  readonly env?: Record<string, string>
  readonly node?: readonly string[]
  /** Shell words to run before it. */
  readonly first?: string
  /** The login link is not asked for. */
  readonly link?: false
}

type Launched = Pick<Running, 'child' | 'ended' | 'stdout' | 'stderr'> & { readonly closed: Promise<unknown> }

/** Starts it, and waits for nothing. */
export function launch(t: Pick<TestContext, 'after'>, args: readonly string[], options: Options): Launched {
  const { env = {}, node = [], first = ':' } = options
  const shellArgs = ['-c', `${first}; exec "$0" "$@"`, process.execPath, ...node, MAIN, ...args]
  const child = spawn('sh', shellArgs, { env: { PATH: process.env['PATH'], ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (chunk) => (stdout += String(chunk)))
  child.stderr.on('data', (chunk) => (stderr += String(chunk)))
  const closed = once(child, 'close') as Promise<[number | null]>
  t.after(() => child.kill('SIGKILL'))
  const ended = async (): Promise<Ended> => ({ code: (await closed)[0], stdout, stderr })
  return { child, closed, ended, stdout: () => stdout, stderr: () => stderr }
}

/** Runs it to its end. */
export const runToEnd = (t: Pick<TestContext, 'after'>, args: readonly string[], options: Options = {}): Promise<Ended> =>
  launch(t, args, options).ended()

/** Starts it, on a free port unless one is given, and waits until it says that it is ready. */
export async function start(t: Pick<TestContext, 'after'>, args: readonly string[], options: Options = {}): Promise<Running> {
  const usual = [...(args.includes('--port') ? [] : ['--port', '0']), ...(options.link === false ? [] : ['--link'])]
  const { child, closed, ended, stdout, stderr } = launch(t, [...usual, ...args], options)
  let over = false
  void closed.then(() => (over = true))
  while (!/^Next, in another terminal:\n/m.test(stdout())) {
    if (over) throw new Error(`the server ended before it was ready: ${stderr()}`)
    await new Promise((done) => setTimeout(done, 10))
  }
  const port = Number(/^countersign ready https?:\/\/(?:127\.0\.0\.1|0\.0\.0\.0):(\d+)\n/.exec(stdout())?.[1])
  const link = /https?:\S+\/login\?token=\S+/.exec(stdout())?.[0] ?? ''
  return {
    port,
    child,
    link: link.slice(link.indexOf('/login')),
    stdout,
    stderr,
    ended,
    end(signal = 'SIGTERM') {
      child.kill(signal)
      return ended()
    },
  }
}
