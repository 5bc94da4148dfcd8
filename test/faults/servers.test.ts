// Several servers under load, of which some die, pause or are restarted, and their PostgreSQL, which dies and is followed by its standby: nothing
// that was acknowledged is lost, and the record is whole.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { after, before, describe, test, type TestContext } from 'node:test'
import { inDatabase, isPostgresOff, startPostgres, type PostgresServer } from '../support/as-processes/postgres.ts'
import { copyOf } from '../support/faults/postgres-copy.ts'
import { sampleOf } from '../support/as-processes/postgres-stores.ts'
import { enroll } from '../support/as-processes/server.ts'
import { dataFolder, runToEnd } from '../support/as-processes/server-process.ts'
import { SECRET, startServers, type Node, type Servers } from '../support/as-processes/servers.ts'
import { assertKept, startLoad, type Load } from '../support/as-processes/servers-load.ts'
import { send } from '../support/over-sockets/http-client.ts'

const rounds = (all: number, some: number): number => sampleOf(Array.from({ length: all }), some).length
/** Beyond what a lease lasts without being renewed. */
const PAUSE_MS = sampleOf([1, 2], 1).length === 1 ? 2_000 : 10_000
const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms))

/** An address that stays the same whichever server is behind it, as a virtual address or a load balancer is. */
type Address = { readonly url: string; moveTo(next: PostgresServer): void }
async function addressOf(t: Pick<TestContext, 'after'>, first: PostgresServer): Promise<Address> {
  let port = first.port
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const database = connect(port, '127.0.0.1')
    for (const [one, other] of [
      [client, database],
      [database, client],
    ] as const) {
      sockets.add(one)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        sockets.delete(one)
        other.destroy()
      })
      one.pipe(other)
    }
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    url: `postgres://postgres@127.0.0.1:${(server.address() as AddressInfo).port}/postgres`,
    moveTo(next) {
      port = next.port
      for (const socket of sockets) socket.destroy()
    },
  }
}

async function holderOf(nodes: readonly Node[], lease: string): Promise<Node | undefined> {
  for (const node of nodes) {
    const { text } = await send(node.port, '/metrics', { method: 'GET' })
    if (text.includes(`countersign_lease{name="${lease}"} 1`)) return node
  }
  return undefined
}

type Scene = { readonly servers: Servers; readonly alice: string; living: Node[]; again(node: Node, name: string): Promise<void> }

async function sceneOn(t: Pick<TestContext, 'after'>, url: string): Promise<Scene> {
  const servers = await startServers(t, 3, { url })
  const { alice } = await enroll(servers.nodes[0]!.port, servers.adminKey)
  const scene: Scene = {
    servers,
    alice,
    living: [...servers.nodes],
    async again(node, name) {
      const next = await servers.add(name, { data: node.data })
      scene.living = [...scene.living.filter((one) => one !== node), next]
    },
  }
  return scene
}

/** Anything that a scene opens is closed from the last to the first, when all of its tests are over. */
type Closing = Pick<TestContext, 'after'> & { close(): Promise<void> }
function closing(): Closing {
  const all: (() => unknown)[] = []
  return {
    after: ((work: () => unknown) => void all.push(work)) as TestContext['after'],
    async close() {
      for (const work of all.toReversed()) await work()
    },
  }
}

describe('under load, nothing acknowledged is lost', { skip: isPostgresOff }, () => {
  const open = closing()
  let database: PostgresServer
  let scene: Scene
  let load: Load
  let names = 0
  before(async () => {
    database = await startPostgres()
    open.after(database.stop)
    scene = await sceneOn(open, database.url)
    load = startLoad(() => scene.living, scene.alice)
  })
  after(open.close)

  for (let round = 1; round <= rounds(30, 5); round++)
    test(`kill -9 of a server, ${round}`, async () => {
      await sleep(300)
      const killed = scene.living[round % scene.living.length]!
      await killed.end('SIGKILL')
      await scene.again(killed, `killed-${++names}`)
    })

  for (let round = 1; round <= rounds(10, 2); round++)
    test(`kill -9 of PostgreSQL, ${round}: servers go on by themselves`, async () => {
      await sleep(300)
      await database.kill()
      await database.start()
      const before = load.acknowledged.size
      await until('calls are answered again', () => Promise.resolve(load.acknowledged.size >= before + 3), 60_000)
    })

  test('SIGSTOP of the server that holds the leases: another takes them over, and the paused one knows that it lost them', async () => {
    let holder: Node | undefined
    await until('one holds them', async () => (holder = await holderOf(scene.living, 'timers')) !== undefined)
    const others = scene.living.filter((node) => node !== holder)
    scene.living = others
    holder!.child.kill('SIGSTOP')
    await until('another one holds them', async () => (await holderOf(others, 'timers')) !== undefined, 40_000)
    await sleep(PAUSE_MS)
    holder!.child.kill('SIGCONT')
    scene.living = [...others, holder!]
    await until('it knows that it lost them', async () => {
      const { text } = await send(holder!.port, '/metrics', { method: 'GET' })
      return text.includes('countersign_lease{name="timers"} 0')
    })
    await sleep(1_000)
    const holding = await Promise.all(scene.living.map((node) => holderOf([node], 'timers')))
    assert.ok(holding.filter((node) => node !== undefined).length <= 1, 'one at a time')
  })

  for (const which of ['first', 'second', 'third'])
    test(`a rolling restart, the ${which}: every call is answered`, async () => {
      const [node] = scene.living as [Node]
      scene.living = scene.living.slice(1)
      await sleep(100)
      assert.equal((await node.end('SIGTERM')).code, 0)
      await scene.again(node, `restarted-${++names}`)
    })

  test('everything is there, once, and the record is whole', async (t) => {
    await load.stop()
    t.diagnostic(`${load.acknowledged.size} acknowledged, the slowest after ${Math.round(load.slowestMs())} ms`)
    await assertKept(database.url, scene.living[0]!, scene.servers.adminKey, load)
  })
})

describe('a failover to a synchronous standby under load, with waits for it that are cancelled', { skip: isPostgresOff }, () => {
  const open = closing()
  const settings = { wal_level: 'replica', max_wal_senders: '5', hot_standby: 'on', wal_keep_size: '256MB' }
  let primary: PostgresServer
  let address: Address
  let scene: Scene
  before(async () => {
    primary = await startPostgres({ settings })
    open.after(() => primary.stop())
    address = await addressOf(open, primary)
    scene = await sceneOn(open, address.url)
  })
  after(open.close)

  for (let round = 1; round <= rounds(10, 1); round++)
    test(`round ${round}: nothing acknowledged is lost`, async (t) => {
      const standby = await copyOf(primary, settings, { standby: true })
      await inDatabase(primary.url, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
      await inDatabase(primary.url, 'SELECT pg_reload_conf()')
      await until('it is replicated', async () => {
        const [row] = await inDatabase(primary.url, `SELECT count(*) AS n FROM pg_stat_replication WHERE sync_state = 'sync'`)
        return Number(row!['n']) === 1
      })
      if (round === 1) {
        const env = { COUNTERSIGN_DATABASE: standby.url, COUNTERSIGN_SECRET: SECRET }
        const { code, stderr } = await runToEnd(t, ['--port', '0', '--data', dataFolder(t)], { env })
        assert.deepEqual([code, /it can only be read: it is a standby/.test(stderr)], [1, true], stderr)
      }
      const load = startLoad(() => scene.living, scene.alice)
      await until('calls are answered', () => Promise.resolve(load.acknowledged.size > 3), 30_000)
      // A commit of now is here alone, and would be lost with this server.
      await standby.halt()
      for (let i = 0; i < 5; i++) {
        await sleep(100)
        await inDatabase(primary.url, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
      }
      await primary.kill()
      await standby.start()
      await inDatabase(standby.url, 'SELECT pg_promote()')
      await inDatabase(standby.url, `ALTER SYSTEM SET synchronous_standby_names = ''`)
      await inDatabase(standby.url, 'SELECT pg_reload_conf()')
      const gone = primary
      primary = standby
      address.moveTo(standby)
      const before = load.acknowledged.size
      await until('the servers go on', () => Promise.resolve(load.acknowledged.size > before + 3), 60_000)
      await load.stop()
      t.diagnostic(`${load.acknowledged.size} acknowledged, the slowest after ${Math.round(load.slowestMs())} ms`)
      await assertKept(standby.url, scene.living[0]!, scene.servers.adminKey, load)
      await gone.stop()
    })
})

async function until(what: string, isTrue: () => Promise<boolean>, ms = 20_000): Promise<void> {
  for (const end = performance.now() + ms; !(await isTrue());) {
    assert.ok(performance.now() < end, what)
    await sleep(100)
  }
}
