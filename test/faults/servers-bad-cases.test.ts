// Servers on an unsuitable PostgreSQL: behind a pooler, without room, without connections, of another locale, with another clock, or
// asked to hold what it cannot. Each case is refused or answered in words, and nothing is half done.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chownSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { asUser, inDatabase, isPostgresOff, newDatabase, sharedPostgres, startPostgres } from '../support/as-processes/postgres.ts'
import { enroll, type Answer } from '../support/as-processes/server.ts'
import { dataFolder, runToEnd } from '../support/as-processes/server-process.ts'
import { SECRET, startServers, type Node, type Servers } from '../support/as-processes/servers.ts'
import { smallDisk } from '../support/faults/small-disk.ts'
import { startPooler } from '../support/faults/transaction-pooler.ts'
import { send } from '../support/over-sockets/http-client.ts'

const ok = async (answer: Promise<Answer>): Promise<any> => {
  const { status, body } = await answer
  assert.equal(status, 200, JSON.stringify(body))
  return body
}
const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms))
async function until(what: string, isTrue: () => Promise<boolean>, ms = 30_000): Promise<void> {
  for (const end = performance.now() + ms; !(await isTrue()); await sleep(100)) assert.ok(performance.now() < end, what)
}
const create = (node: Node, key: string, goal: string): Promise<Answer> =>
  node.call(key, 'collaboration/task.create', { spec: { goal }, reviewers: ['user_alice'] })

/** Exactly what was acknowledged is there, and the record is whole. */
async function assertOnly(acknowledged: readonly string[], { url, nodes, adminKey }: Servers): Promise<void> {
  const rows = await inDatabase(url, `SELECT key FROM countersign.docs WHERE key LIKE 'collaboration.task/%' ORDER BY key`)
  assert.deepEqual(
    rows.map(({ key }) => String(key).slice('collaboration.task/'.length)),
    acknowledged.toSorted(),
  )
  assert.equal((await ok(nodes[0]!.call(adminKey, 'collaboration/audit.verify', {}))).valid, true)
}

/** Fills what is left by calls to both servers in turn, until one is refused. */
async function createUntilRefused(nodes: readonly Node[], key: string, acknowledged: string[]): Promise<Answer> {
  for (let i = 0; i < 2_000; i++) {
    const answer = await create(nodes[i % nodes.length]!, key, `Much ${randomBytes(limits.goalCharsMax / 2 - 5).toString('hex')}`)
    if (answer.status !== 200) return answer
    acknowledged.push(answer.body.task.id as string)
  }
  return assert.fail('nothing was refused')
}

describe('a pooler that gives each transaction another session is refused', { skip: isPostgresOff }, () => {
  test('one that has too few sessions to tell', async (t) => {
    const { url, drop } = await newDatabase()
    t.after(drop)
    const env = { COUNTERSIGN_DATABASE: await startPooler(t, url, 'last', 1), COUNTERSIGN_SECRET: SECRET }
    const { code, stderr } = await runToEnd(t, ['--port', '0', '--data', dataFolder(t)], { env })
    assert.match(stderr, /the database takes connections and does not answer: a pooler in front of it needs seven sessions for each server/)
    assert.equal(code, 1)
  })
  for (const order of ['first', 'last'] as const)
    test(`one that gives out the session that was given back ${order}`, async (t) => {
      const { url, drop } = await newDatabase()
      t.after(drop)
      const pooled = await startPooler(t, url, order)
      const env = { COUNTERSIGN_DATABASE: pooled, COUNTERSIGN_SECRET: SECRET }
      const { code, stderr } = await runToEnd(t, ['--port', '0', '--data', dataFolder(t)], { env })
      assert.match(stderr, /^countersign: \S+ is a pooler that gives each transaction another session: connect to PostgreSQL itself, or /)
      assert.equal(code, 1)
      const [row] = await inDatabase(url, `SELECT to_regnamespace('countersign') AS found`)
      assert.equal(row!['found'], null, 'nothing was made')
    })
})

/** A folder for a PostgreSQL, which does not run as root. */
function ownedPlace(below: string): string {
  const place = join(below, 'place')
  mkdirSync(place)
  if (asUser.uid !== undefined) chownSync(place, asUser.uid, asUser.gid)
  return place
}

describe('a disk of the database that is full', { skip: isPostgresOff }, () => {
  test('where its tables are: changes are refused with a reason, reads answered, and writing resumes when there is room', async (t) => {
    const disk = smallDisk(t, '24m')
    if (!disk) return
    const database = await startPostgres()
    t.after(database.stop)
    await inDatabase(database.url, `CREATE TABLESPACE small LOCATION '${ownedPlace(disk.path)}'`)
    await inDatabase(database.url, 'CREATE DATABASE small TEMPLATE template0 TABLESPACE small')
    const servers = await startServers(t, 2, { url: database.url.replace(/postgres$/, 'small') })
    const { alice } = await enroll(servers.nodes[0]!.port, servers.adminKey)
    const acknowledged: string[] = [(await ok(create(servers.nodes[0]!, alice, 'Before'))).task.id]
    disk.fill()
    const refused = await createUntilRefused(servers.nodes, alice, acknowledged)
    assert.deepEqual(
      [refused.status, refused.body.error.code, refused.body.error.message],
      [503, 'UNAVAILABLE', 'the disk of the database is full: nothing was changed'],
    )
    for (const node of servers.nodes) await ok(node.call(alice, 'collaboration/task.get', { task_id: acknowledged[0] }))
    disk.free()
    for (const node of servers.nodes)
      await until('there is room again', async () => {
        const { status, body } = await create(node, alice, 'With room')
        if (status === 200) acknowledged.push(body.task.id as string)
        return status === 200
      })
    await assertOnly(acknowledged, servers)
  })

  test('altogether, so that it ends: servers say that it is not there, and go on when it is started again', async (t) => {
    const disk = smallDisk(t, '16m')
    if (!disk) return
    // Its log is there: a server of PostgreSQL that cannot write it ends.
    const wal = ownedPlace(disk.path)
    const settings = { max_wal_size: '1GB', checkpoint_timeout: '30min' }
    const database = await startPostgres({ settings, initdb: ['--locale=C', '--wal-segsize=1', '--waldir', wal] })
    t.after(database.stop)
    const servers = await startServers(t, 2, { url: database.url })
    const { alice } = await enroll(servers.nodes[0]!.port, servers.adminKey)
    const acknowledged: string[] = []
    disk.fill()
    const refused = await createUntilRefused(servers.nodes, alice, acknowledged)
    assert.deepEqual([refused.status, refused.body.error.code], [503, 'UNAVAILABLE'], JSON.stringify(refused.body))
    assert.match(
      refused.body.error.message as string,
      /^the (disk of the database is full|database cannot be reached|connection to the database was lost)/,
    )
    for (const { port } of servers.nodes)
      await until('a balancer sees it', async () => (await send(port, '/ready', { method: 'GET' })).status === 503)
    disk.free()
    await database.kill()
    await database.start()
    for (const node of servers.nodes)
      await until('itis back', async () => {
        const { status, body } = await create(node, alice, 'With room')
        if (status === 200) acknowledged.push(body.task.id as string)
        return status === 200
      })
    // An answer that was lost on its way may have been written: its outcome was said to be unknown.
    const isUnknown = refused.body.error.details.outcome === 'unknown'
    if (!isUnknown) await assertOnly(acknowledged, servers)
  })
})

test(
  'a database that takes no more connections: calls are refused in words, and answered when it does',
  { skip: isPostgresOff },
  async (t) => {
    const server = (await sharedPostgres())!
    const { url, drop } = await newDatabase()
    t.after(drop)
    const role = `few_${randomBytes(4).toString('hex')}`
    const name = new URL(url).pathname.slice(1)
    await inDatabase(server, `CREATE ROLE ${role} LOGIN CONNECTION LIMIT 20`)
    t.after(async () => {
      await drop()
      await inDatabase(server, `DROP ROLE ${role}`)
    })
    await inDatabase(server, `ALTER DATABASE ${name} OWNER TO ${role}`)
    const own = new URL(url)
    own.username = role
    const servers = await startServers(t, 2, { url: own.href })
    const { alice } = await enroll(servers.nodes[0]!.port, servers.adminKey)
    const first = (await ok(create(servers.nodes[0]!, alice, 'Before'))).task.id as string
    await inDatabase(server, `ALTER ROLE ${role} CONNECTION LIMIT 0`)
    await inDatabase(server, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${role}'`)
    for (const node of servers.nodes) {
      for (const { status, body } of [
        await create(node, alice, 'Refused'),
        await node.call(alice, 'collaboration/task.get', { task_id: first }),
      ])
        assert.deepEqual(
          [status, body.error?.code, body.error?.message],
          [503, 'UNAVAILABLE', 'the database takes no more connections: nothing was changed'],
        )
      assert.equal((await send(node.port, '/ready', { method: 'GET' })).status, 503)
    }
    // By then the keys were looked for, which stayed as they were.
    await sleep(2_500)
    await inDatabase(server, `ALTER ROLE ${role} CONNECTION LIMIT 20`)
    for (const node of servers.nodes) {
      const lines = node.stderr().split('\n').slice(0, -1)
      assert.ok(lines.length > 0)
      for (const line of lines) assert.match(line, /"node":"node-\d".*(the store cannot write|the database takes no more connections)/)
      assert.doesNotMatch(node.stderr(), /"err"|keys were changed/)
    }
    const after = await Promise.all(servers.nodes.map(async (node) => (await ok(create(node, alice, 'After'))).task.id as string))
    await assertOnly([first, ...after], { ...servers, url })
  },
)

test('a database of another locale: pages of a list follow the order of bytes, on each server', { skip: isPostgresOff }, async (t) => {
  const server = (await sharedPostgres())!
  const name = `icu_${randomBytes(6).toString('hex')}`
  await inDatabase(server, `CREATE DATABASE ${name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de' LOCALE 'C'`)
  t.after(() => inDatabase(server, `DROP DATABASE ${name} WITH (FORCE)`))
  const url = new URL(server)
  url.pathname = `/${name}`
  const { nodes, adminKey } = await startServers(t, 2, { url: url.href })
  const ids = ['user_Z', 'user_a', 'user_B', 'user_b', 'user_1', 'user_x-', 'user_Zz', 'user_zz', 'user_owner']
  for (const id of ids) if (id !== 'user_owner') await ok(nodes[0]!.call(adminKey, 'identity/user.add', { id, name: id }))
  for (const node of nodes) {
    const found: string[] = []
    for (let cursor: string | null = null; ;) {
      const page = await ok(node.call(adminKey, 'identity/user.list', { limit: 2, ...(cursor === null ? {} : { cursor }) }))
      found.push(...page.items.map(({ id }: { id: string }) => id))
      cursor = page.next_cursor as string | null
      if (cursor === null) break
    }
    assert.deepEqual(found, ids.toSorted(), 'each once')
  }
})

test('the longest keys that are taken fit, controls keep their place, and NUL is refused in words', { skip: isPostgresOff }, async (t) => {
  const { nodes, adminKey } = await startServers(t, 2)
  const [a, b] = nodes as [Node, Node]
  const { alice } = await enroll(a.port, adminKey)
  const task_id = (await ok(create(a, alice, 'Write down'))).task.id as string
  // Four bytes each, and such as stand for NUL in the database.
  const keys = ['\u{1f600}', '\u{1}', '\u{2}'].map((one) => one.repeat(limits.ledgerKeyCharsMax)).concat('\u{1}\u{2}', '\u{1}')
  for (const [i, key] of keys.entries()) await ok(a.call(alice, 'collaboration/ledger.write', { task_id, key, value: i }))
  for (const [i, key] of keys.entries())
    assert.equal((await ok(b.call(alice, 'collaboration/ledger.read', { key }))).entry.value, i, 'the other server finds it')
  const { status, body } = await b.call(alice, 'collaboration/ledger.write', { task_id, key: 'a\0b', value: 1 })
  assert.deepEqual([status, body.error.message], [400, 'a text holds the character NUL'])
  assert.equal((await ok(a.call(adminKey, 'collaboration/audit.verify', {}))).valid, true)
})

test(
  'clocks an hour apart: the log says so, no lease changes hands, and times along the record never go back',
  { skip: isPostgresOff },
  async (t) => {
    const servers = await startServers(t, 1)
    const [a] = servers.nodes as [Node]
    const { alice } = await enroll(a.port, servers.adminKey)
    const ahead = encodeURIComponent('const now = Date.now; Date.now = () => now() + 3600000')
    const b = await servers.add('ahead', { env: { NODE_OPTIONS: `--import=data:text/javascript,${ahead}` } })
    assert.match(
      b.stderr(),
      /"level":"warn".*the clock of this server is 3600 s ahead of that of the database, so deadlines fire early or late/,
    )
    assert.equal(a.stderr(), '')
    const acknowledged: string[] = []
    for (let i = 0; i < 8; i++) {
      const [one, other] = i % 2 === 0 ? [a, b] : [b, a]
      const task_id = (await ok(create(one, alice, `Goal ${i}`))).task.id as string
      acknowledged.push(task_id)
      await ok(other.call(alice, 'collaboration/task.get', { task_id }))
    }
    await sleep(3_500)
    const leases = async (node: Node): Promise<string[]> =>
      (await send(node.port, '/metrics', { method: 'GET' })).text.split('\n').filter((line) => /^countersign_lease.* 1$/.test(line))
    assert.ok((await leases(a)).length > 5, 'it keeps what it had')
    assert.deepEqual(await leases(b), [])
    const [row] = await inDatabase(
      servers.url,
      `SELECT count(*) AS n FROM (SELECT line::json->>'at' AS at, lag(line::json->>'at') OVER (PARTITION BY line::json->>'scope' ORDER BY position) AS before
       FROM countersign.facts) AS pairs WHERE at < before`,
    )
    assert.equal(Number(row!['n']), 0)
    await assertOnly(acknowledged, servers)
  },
)
