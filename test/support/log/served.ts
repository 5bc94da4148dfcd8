// A server in this process with its log, for tests of the log: a data folder, calls with the admin key, and reads of /log.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { createLog } from '#apps/server/log.ts'
import { startServer, type Server } from '#apps/server/server.ts'
import { readConfig } from '#apps/server/settings/config.ts'

export function logFolder(t: Pick<TestContext, 'after'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-log-'))
  t.after(async () => {
    for (const stop of users.get(folder) ?? []) await stop()
    rmSync(folder, { recursive: true, force: true })
  })
  return folder
}
/** Ends of what uses a folder, before it is removed. */
const users = new Map<string, (() => Promise<void>)[]>()
export const noteUser = (folder: string, stop: () => Promise<void>): void => void users.set(folder, [...(users.get(folder) ?? []), stop])

export type Served = {
  readonly server: Server
  readonly url: string
  call(operation: string, input?: object): Promise<any>
  get(path: string, headers?: Record<string, string>): Promise<Response>
  text(path: string): Promise<string>
  health(): Promise<any>
  /** The checkpoint once it covers every fact. */
  covered(): Promise<string>
  stop(): Promise<void>
}

export const logConfig = (folder: string, args: readonly string[] = []) => {
  const startup = readConfig(['--data', folder, '--port', '0', '--socket', 'off', '--log', 'silent', '--web', 'off', ...args], {})
  if (startup.kind !== 'start') throw new Error('it does not start a server')
  return startup.config
}

/** Lines of the log that the tests look at. */
export type LogLines = { readonly level: string; readonly message: string; readonly fields: object }[]

export async function serve(folder: string, args: readonly string[] = [], lines: LogLines = []): Promise<Served> {
  const server = await startServer(logConfig(folder, args), { log: hearing(lines), onFatal: () => undefined })
  const key = readFileSync(join(folder, 'admin.key'), 'utf8').trim()
  const get = (path: string, headers: Record<string, string> = {}): Promise<Response> => fetch(`${server.url}${path}`, { headers })
  let stopped: Promise<void> | undefined
  const stop = (): Promise<void> => (stopped ??= server.stop())
  noteUser(folder, stop)
  const served: Served = {
    server,
    url: server.url,
    async call(operation, input = {}) {
      const response = await fetch(`${server.url}/v1/${operation}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(input),
      })
      return { status: response.status, ...((await response.json()) as object) }
    },
    get,
    text: async (path) => (await get(path)).text(),
    health: async () => (await get('/health')).json(),
    async covered() {
      for (;;) {
        const { log } = await served.health()
        const position = await server.kernel.store.position()
        if (log === null) throw new Error('there is no log')
        if (log.signed === position && log.witnessed === position) return served.text('/log/checkpoint')
        await new Promise((done) => setTimeout(done, 20))
      }
    },
    stop,
  }
  return served
}

function hearing(lines: LogLines): ReturnType<typeof createLog> {
  const log = createLog('silent')
  const noting =
    (level: string) =>
    (fields: object, message: string): void =>
      void lines.push({ level, message, fields })
  const heard = { ...log, warn: noting('warn'), error: noting('error'), info: noting('info'), debug: () => undefined, level: 'silent' }
  return Object.assign(heard, { child: () => heard }) as unknown as ReturnType<typeof createLog>
}
