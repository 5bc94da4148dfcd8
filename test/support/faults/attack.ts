// Clients that send requests without reading responses, an honest client, and the memory of the server process during the attack.
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { readFileSync } from 'node:fs'
import { memoryFlags } from '#apps/cli/serve.ts'
import { createCaller, enroll, spawnServer, type ServerProcess } from '../as-processes/server.ts'

const MAIN = join(import.meta.dirname, '../../../src/apps/server/main.ts')

export type Target = ServerProcess & { readonly alice: string; readonly devin: string; readonly socket: string }

/** With the quotas that it has by default. */
export async function target(data: string, env: Record<string, string> = {}): Promise<Target> {
  const started = await spawnServer([...memoryFlags, MAIN], {
    MALLOC_ARENA_MAX: '1',
    COUNTERSIGN_DATA: data,
    COUNTERSIGN_PORT: '0',
    COUNTERSIGN_LOG: 'error',
    ...env,
  })
  const adminKey = readFileSync(join(data, 'admin.key'), 'utf8').trim()
  return { ...started, ...(await enroll(started.port, adminKey)), adminKey, socket: join(data, 'countersign.sock') }
}

/** Tasks of one agent, so many and so long that a page of them is a megabyte. */
export async function fill({ port, alice }: Target, tasks = 200, chars = 5_000): Promise<void> {
  const { call, close } = createCaller(port)
  const one = async (i: number): Promise<void> => {
    const created = await call(alice, 'collaboration/task.create', { spec: { goal: `${i} `.padEnd(chars, 'long words ') } })
    const assigned = await call(alice, 'collaboration/task.assign', { task_id: created.body.task.id, assignee: 'agent_devin' })
    if (assigned.status !== 200) throw new Error(`task.assign answered ${assigned.status}: ${JSON.stringify(assigned.body)}`)
  }
  for (let i = 0; i < tasks; i += 20) await Promise.all(Array.from({ length: 20 }, (_, n) => one(i + n)))
  close()
}

const listRequest = (bearer: string): string => {
  const body = '{"limit":200}'
  return `POST /v1/collaboration/task.list HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${bearer}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
}

/** Connections that send these words and never read. */
export async function deaf(
  to: { port: number } | { path: string },
  count: number,
  message: string,
): Promise<{ sockets: Socket[]; end(): void }> {
  const sockets: Socket[] = []
  const open = (): Promise<void> =>
    new Promise((done, failed) => {
      const socket = connect('port' in to ? { port: to.port, host: '127.0.0.1' } : to)
      socket.once('connect', () => {
        socket.off('error', failed).on('error', () => undefined)
        socket.write(message)
        done()
      })
      socket.once('error', failed)
      socket.pause()
      sockets.push(socket)
    })
  for (let i = 0; i < count; i += 100) await Promise.all(Array.from({ length: Math.min(100, count - i) }, open))
  return { sockets, end: () => sockets.forEach((socket) => socket.destroy()) }
}

export type Heard = { readonly times: number[]; readonly failures: string[] }

/** An honest caller: sends a small call, reads the response and repeats, for at least `ms` and `callsMin` calls. */
export async function honest({ port, alice }: Target, ms: number, callsMin = 0): Promise<Heard> {
  const { call, close } = createCaller(port)
  const heard: Heard = { times: [], failures: [] }
  const until = performance.now() + ms
  while (performance.now() < until || heard.times.length < callsMin) {
    const began = performance.now()
    try {
      const { status, body } = await Promise.race([
        call(alice, 'collaboration/task.create', { spec: { goal: 'something else' } }),
        new Promise<never>((_, late) => setTimeout(late, 60_000, new Error('no answer for a minute')).unref()),
      ])
      if (status !== 200) heard.failures.push(`${status} ${JSON.stringify(body)}`)
    } catch (error) {
      heard.failures.push(String(error))
      break
    }
    heard.times.push(performance.now() - began)
    await new Promise((done) => setTimeout(done, 20))
  }
  close()
  return heard
}

/** The peak memory of a process in MB, as Linux reports it; 0 on other systems. */
export function peakMb(pid: number): number {
  try {
    return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1_024
  } catch (error) {
    // Linux removes the entry when the process ends, which is an error here; other systems have none.
    if (process.platform === 'linux') throw error
    return 0
  }
}

/** Attacks with one agent's key, or without any key. Tests run them, and `npm run bench -- attack` measures them. */
export type Attack = {
  readonly name: string
  /** Whether the attack needs enough data to request long pages. */
  readonly isFilled: boolean
  run(server: Pick<Target, 'port' | 'devin'>): ReturnType<typeof deaf>
}
export const attacks: readonly Attack[] = [
  {
    name: '150 connections send 60 requests for long pages ahead and read nothing',
    isFilled: true,
    run: (server) => deaf(server, 150, listRequest(server.devin).repeat(60)),
  },
  {
    name: '2,500 connections ask for one long page each and read nothing',
    isFilled: true,
    run: (server) => deaf(server, 2_500, listRequest(server.devin)),
  },
  {
    name: 'one connection sends 2,000 requests ahead and reads nothing',
    isFilled: true,
    run: (server) => deaf(server, 1, listRequest(server.devin).repeat(2_000)),
  },
  {
    name: '1,000 connections without a credential ask for the description 20 times and read nothing',
    isFilled: false,
    run: (server) => deaf(server, 1_000, 'GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(20)),
  },
]
