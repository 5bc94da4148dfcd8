// A daemon as a process of its own, and a client that speaks its wire line by line, for tests.
import { spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const PROGRAM = join(import.meta.dirname, '../../../src/apps/device/main.ts')

export type Any = any
export type Ready = {
  device_id: string
  socket: string
  sockets: Record<string, string>
  listen: string | null
  wss: string | null
  board: string
}

export type Daemon = {
  readonly folder: string
  readonly data: string
  readonly ready: Ready
  readonly process: ChildProcess
  stderr(): string
  lines(): Any[]
  kill(signal: NodeJS.Signals): Promise<number | null>
  start(options?: readonly string[]): Promise<Daemon>
  end(): Promise<void>
}

export type DaemonOptions = {
  readonly folder?: string
  readonly policies?: object
  readonly profile?: object
  readonly options?: readonly string[]
}

/** The last words of a process that does not come up. */
export class NotStarted extends Error {
  override name = 'NotStarted'
  readonly code: number | null
  constructor(code: number | null, message: string) {
    super(message)
    this.code = code
  }
}

export async function startDaemon(given: DaemonOptions = {}): Promise<Daemon> {
  const folder = given.folder ?? mkdtempSync(join(tmpdir(), 'countersign-device-'))
  const data = join(folder, 'data')
  const args = ['--data', data, '--log', 'warn']
  for (const name of ['policies', 'profile'] as const) {
    if (given[name] === undefined) continue
    writeFileSync(join(folder, `${name}.json`), JSON.stringify(given[name]))
    args.push(`--${name}`, join(folder, `${name}.json`))
  }
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', PROGRAM, ...args, ...(given.options ?? [])], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'] },
  })
  let [out, err] = ['', '']
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text))
  const ended = new Promise<number | null>((done) => child.once('exit', done))
  const ready = await new Promise<Ready>((done, failed) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      out += text
      const found = /^countersign device ready (.*)\n/.exec(out)
      if (found) done(JSON.parse(found[1]!) as Ready)
    })
    void ended.then((code) =>
      setTimeout(() => {
        if (given.folder === undefined && out === '') rmSync(folder, { recursive: true, force: true })
        failed(new NotStarted(code, err))
      }, 50),
    )
  })
  const daemon: Daemon = {
    folder,
    data,
    ready,
    process: child,
    stderr: () => err,
    lines: () =>
      readFileSync(join(data, 'audit.ndjson'), 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    async kill(signal) {
      child.kill(signal)
      return ended
    },
    start: (options) => startDaemon({ ...given, folder, ...(options ? { options } : {}) }),
    async end() {
      child.kill('SIGKILL')
      await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
  return daemon
}

export type Client = {
  readonly socket: Socket
  /** The answer to a call: its result, or its error. */
  call(method: string, params?: object): Promise<Any>
  /** The result, or an exception with the error. */
  ask(method: string, params?: object): Promise<Any>
  /** Lines as they are; the next answer that no call waits for. */
  raw(text: string | Uint8Array): void
  next(): Promise<Any>
  readonly events: Any[]
  open(): Promise<string>
  run(session_id: string, steps: readonly object[], more?: object): Promise<Any>
  finished(session_id: string, task_id: string): Promise<Any>
  close(): void
}

export function clientOn(socket: Socket): Client {
  const waiting = new Map<number, (message: Any) => void>()
  const loose: Any[] = []
  const takers: ((message: Any) => void)[] = []
  const events: Any[] = []
  let text = ''
  let last = 0
  socket.setEncoding('utf8').on('error', () => undefined)
  socket.on('data', (chunk: string) => {
    text += chunk
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n')) {
      const message = JSON.parse(text.slice(0, at))
      text = text.slice(at + 1)
      if (message.method === 'task.event') events.push(message.params)
      else if (waiting.has(message.id)) {
        waiting.get(message.id)!(message)
        waiting.delete(message.id)
      } else if (takers.length > 0) takers.shift()!(message)
      else loose.push(message)
    }
  })
  const client: Client = {
    socket,
    events,
    call: (method, params = {}) =>
      new Promise((done) => {
        const id = ++last
        waiting.set(id, done)
        socket.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
      }),
    async ask(method, params = {}) {
      const { result, error } = await client.call(method, params)
      if (error) throw Object.assign(new Error(JSON.stringify(error)), { error })
      return result
    },
    raw: (bytes) => void socket.write(bytes),
    next: () => new Promise((done) => (loose.length > 0 ? done(loose.shift()) : takers.push(done))),
    open: async () => (await client.ask('session.open', { client_name: 'test', client_version: '1.0.0' })).session_id as string,
    async run(session_id, steps, more = {}) {
      const { task_id } = await client.ask('task.submit', { session_id, task: { intent: 'a test', steps, ...more } })
      return client.finished(session_id, task_id)
    },
    async finished(session_id, task_id) {
      for (;;) {
        const task = await client.ask('task.get', { session_id, task_id })
        if (task.finished_at !== null) return task
        await new Promise((done) => setTimeout(done, 5))
      }
    },
    close: () => socket.destroy(),
  }
  return client
}

export const clientAt = (path: string): Promise<Client> =>
  new Promise((done, failed) => {
    const socket = connect(path)
    socket.once('connect', () => done(clientOn(socket)))
    socket.once('error', failed)
  })
