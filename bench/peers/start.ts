// Starts of the peers, and the calls that their trips make.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, readdirSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { memoryEnv, memoryFlags } from '#apps/cli/serve.ts'
import { startPostgres, type PostgresServer } from '#test/support/as-processes/postgres.ts'
import { enroll, spawnServer, startServer } from '#test/support/as-processes/server.ts'
import { SECRET } from '#test/support/as-processes/servers.ts'
import { freePort } from '#test/support/harness/broker.ts'
import { answer, question } from '../hxp.ts'
import { getBytes, requestBytes } from '../load.ts'
import { installedPeer, type PeerName } from './install.ts'
import type { Peer, Running } from './peer.ts'

const MAIN = join(import.meta.dirname, '../../src/apps/server/main.ts')
const EXPRESS = join(import.meta.dirname, '../express.ts')
const READY_MS_MAX = 60_000
const WAIT_SECONDS = 30
const RESULT = JSON.stringify({ result: 'Approve' })
type Started = Awaited<ReturnType<typeof spawnServer>>

function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  } catch {
    // It was killed.
    return []
  }
}
const databasePids = ({ pid }: PostgresServer): number[] => [pid, ...childrenOf(pid)]

// --- Servers that speak HXP ----------------------------------------------------------------------------------------------------

const hxpCalls = (port: number, agent: string, person: string): Pick<Running, 'ask' | 'idOf' | 'wait' | 'again' | 'answer'> => ({
  ask: () => ({ port, request: requestBytes('/hxp/v1/requests', agent, question) }),
  idOf: (_, body) => /"request_id":"([^"]+)"/.exec(body)![1]!,
  wait: (id) => ({ port, request: getBytes(`/hxp/v1/requests/${id}?wait=${WAIT_SECONDS}`, agent) }),
  again: (id) => ({ port, request: getBytes(`/hxp/v1/requests/${id}?wait=${WAIT_SECONDS}`, agent) }),
  answer: (id) => ({ port, request: requestBytes(`/hxp/v1/requests/${id}/resolve`, person, answer) }),
})

export function ownOnSqlite(folder: string): Peer {
  let keys: { alice: string; devin: string }
  return {
    name: 'Countersign, SQLite',
    setting: 'WAL, synchronous=FULL',
    async start(isAgain) {
      const server = await startServer(folder)
      if (!isAgain) keys = await enroll(server.port, server.adminKey)
      const end = (signal: NodeJS.Signals) => () => server.end(signal)
      return { pids: () => [server.pid], ...hxpCalls(server.port, keys.devin, keys.alice), kill: end('SIGKILL'), stop: end('SIGTERM') }
    },
  }
}

export function ownOnPostgres(folder: string): Peer {
  let keys: { alice: string; devin: string }
  let database: PostgresServer
  return {
    name: 'Countersign, PostgreSQL',
    setting: 'fsync=on, synchronous_commit=on',
    async start(isAgain) {
      if (isAgain) await database.start()
      else database = await startPostgres()
      const server = await spawnServer([...memoryFlags, MAIN], {
        ...memoryEnv,
        COUNTERSIGN_DATA: folder,
        COUNTERSIGN_PORT: '0',
        COUNTERSIGN_LOG: 'error',
        COUNTERSIGN_QUOTA: 'off',
        COUNTERSIGN_REQUESTS_PER_MINUTE: 'off',
        COUNTERSIGN_DATABASE: database.url,
        COUNTERSIGN_SECRET: SECRET,
        COUNTERSIGN_NODE: 'a',
      })
      if (!isAgain) keys = await enroll(server.port, readFileSync(join(folder, 'admin.key'), 'utf8').trim())
      return {
        pids: () => [server.pid, ...databasePids(database)],
        ...hxpCalls(server.port, keys.devin, keys.alice),
        kill: async () => void (await Promise.all([server.end('SIGKILL'), database.kill()])),
        async stop() {
          await server.end('SIGTERM')
          await database.stop()
        },
      }
    },
  }
}

/** The calls of HXP by an Express server that keeps everything in a map. */
export const inMemory = (): Peer => ({
  name: 'HXP in memory (bench/express.ts)',
  setting: 'keeps nothing',
  async start() {
    const server = await spawnServer([EXPRESS])
    const end = (): Promise<void> => server.end('SIGKILL')
    return { pids: () => [server.pid], ...hxpCalls(server.port, 'agent', 'human'), kill: end, stop: end }
  },
})

// --- Peers with a driver -------------------------------------------------------------------------------------------------------

async function driverOf(name: PeerName, env: Record<string, string>): Promise<Started> {
  const folder = await installedPeer(name)
  return spawnServer([join(folder, `${name}.mjs`)], env)
}

const driverCalls = (port: number): Pick<Running, 'ask' | 'idOf' | 'wait' | 'again' | 'answer'> => ({
  ask: (id) => ({ port, request: requestBytes(`/ask/${id}`, null, '') }),
  idOf: (id) => id,
  wait: (id) => ({ port, request: requestBytes(`/wait/${id}`, null, '') }),
  again: (id) => ({ port, request: requestBytes(`/again/${id}`, null, '') }),
  answer: (id) => ({ port, request: requestBytes(`/answer/${id}`, null, RESULT) }),
})

/** A library that keeps its state in a file of the agent's own process. */
export const withFile = (name: 'mastra' | 'openai', title: string, setting: string, folder: string): Peer => ({
  name: title,
  setting,
  async start() {
    mkdirSync(folder, { recursive: true })
    const driver = await driverOf(name, { PEER_DATA: folder })
    const end = (signal: NodeJS.Signals) => () => driver.end(signal)
    return { pids: () => [driver.pid], ...driverCalls(driver.port), kill: end('SIGKILL'), stop: end('SIGKILL') }
  },
})

/** A library that keeps its state in a PostgreSQL of its own. */
export function withPostgres(name: 'dbos' | 'langgraph', title: string, setting: string): Peer {
  let database: PostgresServer
  return {
    name: title,
    setting,
    async start(isAgain) {
      if (isAgain) await database.start()
      else database = await startPostgres()
      const driver = await driverOf(name, { PEER_DATABASE: database.url })
      return {
        pids: () => [driver.pid, ...databasePids(database)],
        ...driverCalls(driver.port),
        kill: async () => void (await Promise.all([driver.end('SIGKILL'), database.kill()])),
        async stop() {
          await driver.end('SIGKILL')
          await database.stop()
        },
      }
    },
  }
}

// --- Restate -------------------------------------------------------------------------------------------------------------------

export function restate(folder: string): Peer {
  let ports: { ingress: number; admin: number; node: number; service: number }
  return {
    name: 'Restate',
    setting: 'its defaults: replicated log on one node, fsync of its write-ahead log',
    async start(isAgain) {
      const home = await installedPeer('restate')
      if (!isAgain) ports = { ingress: await freePort(), admin: await freePort(), node: await freePort(), service: await freePort() }
      const server = await restateServer(home, folder, ports)
      const driver = await driverOf('restate', { PEER_PORT: String(ports.service), PEER_INGRESS: String(ports.ingress) })
      if (!isAgain) await register(ports)
      const port = ports.ingress
      const end = async (): Promise<void> => void (await Promise.all([driver.end('SIGKILL'), server.end()]))
      return {
        pids: () => [driver.pid, server.pid],
        ...driverCalls(driver.port),
        idOf: (_, body) => (JSON.parse(body) as { result: string }).result,
        answer: (id) => ({ port, request: requestBytes(`/restate/awakeables/${id}/resolve`, null, RESULT) }),
        kill: end,
        stop: end,
      }
    },
  }
}

async function restateServer(home: string, folder: string, ports: Record<'ingress' | 'admin' | 'node', number>) {
  const scope = join(home, 'node_modules/@restatedev')
  const program = readdirSync(scope)
    .map((name) => join(scope, name, 'bin/restate-server'))
    .find((path) => existsSync(path))
  if (program === undefined) throw new Error('there is no restate-server for this platform')
  const env = {
    PATH: process.env['PATH'] ?? '',
    RESTATE_BASE_DIR: folder,
    RESTATE_LISTEN_MODE: 'tcp',
    RESTATE_BIND_ADDRESS: `127.0.0.1:${ports.node}`,
    RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${ports.node}`,
    RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ports.ingress}`,
    RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${ports.admin}`,
    RESTATE_NODE_NAME: 'peers',
    RESTATE_LOG_FILTER: 'error',
    DO_NOT_TRACK: '1',
  }
  const child = spawn(program, ['--no-logo'], { env, stdio: ['ignore', 'ignore', 'pipe'] })
  let output = ''
  child.stderr.on('data', (part) => (output = (output + String(part)).slice(-4_000)))
  const until = performance.now() + READY_MS_MAX
  for (;;) {
    if (child.exitCode !== null || performance.now() > until) throw new Error(`restate-server is not ready: ${output}`)
    if (await isOk(`http://127.0.0.1:${ports.ingress}/restate/health`)) break
    await new Promise((done) => setTimeout(done, 50))
  }
  return {
    pid: child.pid!,
    async end() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
    },
  }
}

const isOk = (url: string): Promise<boolean> =>
  fetch(url).then(
    ({ ok }) => ok,
    () => false,
  )

async function register({ admin, service }: Record<'admin' | 'service', number>): Promise<void> {
  const body = JSON.stringify({ uri: `http://127.0.0.1:${service}` })
  const until = performance.now() + READY_MS_MAX
  for (;;) {
    const answered = await fetch(`http://127.0.0.1:${admin}/deployments`, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    }).catch(() => null)
    if (answered?.ok === true) return
    if (performance.now() > until) throw new Error(`Restate did not take the service: ${(await answered?.text()) ?? 'no answer'}`)
    await new Promise((done) => setTimeout(done, 200))
  }
}
