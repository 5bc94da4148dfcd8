// Several servers on one PostgreSQL: each sees what any other has acknowledged, and the others take over the work of one that dies.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chmodSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { realClock } from '#apps/server/clock.ts'
import { openSharedStorage } from '#apps/server/database/shared-storage.ts'
import type { StorageParts } from '#apps/server/storage.ts'
import type { Batch } from '#kernel/log/store.ts'
import { postgresStore } from '#stores/postgres/index.ts'
import { postgresBlobs } from '#stores/postgres/blobs.ts'
import { blobPool, createPins } from '#stores/postgres/pins.ts'
import { freePort, isPostgresOff, inDatabase, newDatabase, sharedPostgres, startPostgres } from '../../support/as-processes/postgres.ts'
import { enroll } from '../../support/as-processes/server.ts'
import { dataFolder, runToEnd } from '../../support/as-processes/server-process.ts'
import { SECRET, startServers, type Node } from '../../support/as-processes/servers.ts'
import { batchOf } from '../../support/in-process/batches.ts'
import { send } from '../../support/over-sockets/http-client.ts'

const ok = async (answer: Promise<{ status: number; body: any }>): Promise<any> => {
  const { status, body } = await answer
  assert.equal(status, 200, JSON.stringify(body))
  return body
}
const create = (node: Node, key: string, goal = 'Fix it'): Promise<any> =>
  ok(node.call(key, 'collaboration/task.create', { spec: { goal }, reviewers: ['user_alice'] }))

describe('three servers on one database', { skip: isPostgresOff }, () => {
  test('start concurrently on an empty one, and answer as one', async (t) => {
    const { nodes, adminKey, url } = await startServers(t, 3)
    const [a, b, c] = nodes as [Node, Node, Node]
    const { alice } = await enroll(a.port, adminKey)
    await t.test('health names the store, the node and the durability', async () => {
      const found = await Promise.all(nodes.map(({ port }) => send(port, '/health', { method: 'GET' })))
      assert.deepEqual(
        found.map(({ status, json }) => [status, json.store, json.durability]),
        [1, 2, 3].map(() => [200, 'postgres', 'single']),
      )
      assert.deepEqual(new Set(found.map(({ json }) => json.node)), new Set(['node-1', 'node-2', 'node-3']))
      assert.equal(new Set(found.map(({ json }) => json.installation)).size, 1)
    })
    await t.test('an acknowledged change is visible to the others immediately', async () => {
      for (let i = 0; i < 24; i++) {
        const [one, other] = [nodes[i % 3]!, nodes[(i + 1) % 3]!]
        const { task } = await create(one, alice, `Goal ${i}`)
        assert.equal((await ok(other.call(alice, 'collaboration/task.get', { task_id: task.id }))).task.spec.goal, `Goal ${i}`)
        await ok(other.call(alice, 'collaboration/task.assign', { task_id: task.id, assignee: 'user_alice' }))
        assert.equal((await ok(one.call(alice, 'collaboration/task.get', { task_id: task.id }))).task.executor, 'user_alice')
      }
    })
    await t.test('a key that was revoked on one is refused on the others', async () => {
      for (let i = 0; i < 8; i++) {
        const { key, issued } = await ok(a.call(adminKey, 'identity/key.issue', { subject: 'agent_devin', label: `k${i}` }))
        await ok(b.call(key, 'identity/me.get'))
        await ok(a.call(adminKey, 'identity/key.revoke', { key_id: issued.id }))
        assert.equal((await b.call(key, 'identity/me.get')).status, 401)
      }
    })
    await t.test('an idempotency key is one on all servers', async () => {
      const made = await Promise.all(
        nodes.map((node) => node.call(alice, 'collaboration/task.create', { spec: { goal: 'Once' }, reviewers: ['user_alice'] }, 'once')),
      )
      assert.equal(new Set(made.map(({ body }) => body.task?.id)).size, 1)
    })
    await t.test('a login link and a session of one work on the others', async () => {
      const signed = await send(b.port, a.link, { method: 'GET' })
      assert.equal(signed.status, 303)
      const cookie = String(signed.headers['set-cookie']).split(';')[0]!
      assert.equal((await send(c.port, '/v1/identity/me.get', { headers: { cookie } })).json.id, 'user_owner')
      assert.equal((await send(c.port, a.link, { method: 'GET' })).status, 401, 'once')
    })
    await t.test('one that is killed is not missed, and its record is whole', async () => {
      const { task } = await create(c, alice, 'Last words')
      await c.end('SIGKILL')
      assert.equal((await ok(a.call(alice, 'collaboration/task.get', { task_id: task.id }))).task.id, task.id)
      await create(b, alice, 'After it')
      const verified = await ok(a.call(adminKey, 'collaboration/audit.verify', {}))
      assert.equal(verified.valid, true)
      const [{ gaps }] = (await inDatabase(url, 'SELECT max(position) - count(*) AS gaps FROM countersign.facts')) as [{ gaps: string }]
      assert.equal(Number(gaps), 0)
    })
  })

  test('the bytes of an upload are in the database, in chunks', async (t) => {
    const { nodes, adminKey, url } = await startServers(t, 2)
    const { alice } = await enroll(nodes[0]!.port, adminKey)
    const bytes = randomBytes(700_000)
    const { task } = await create(nodes[0]!, alice)
    const address = (node: Node, name: string, query: string): string => `http://127.0.0.1:${node.port}/v1/collaboration/${name}?${query}`
    const headers = { authorization: `Bearer ${alice}`, 'content-type': 'application/octet-stream' }
    const put = await fetch(address(nodes[0]!, 'artifact.upload', `task_id=${task.id}`), { method: 'PUT', headers, body: bytes })
    const { checksum } = (await put.json()) as { checksum: string }
    assert.equal(put.status, 200)
    const pool = blobPool(url, 'test')
    t.after(() => pool.end())
    const blobs = postgresBlobs(pool, createPins(pool))
    const read = async (range?: { first: number; last: number }): Promise<Buffer> =>
      Buffer.concat(await Array.fromAsync((await blobs.open(checksum, range))!))
    assert.ok((await read()).equals(bytes))
    assert.ok((await read({ first: 262_140, last: 524_300 })).equals(bytes.subarray(262_140, 524_301)))
    assert.equal(await blobs.check(checksum), 'sound')
    const [row] = await inDatabase(url, 'SELECT count(*) AS n, sum(length(bytes)) AS size FROM countersign.blob_chunks')
    assert.deepEqual([Number(row!['n']), Number(row!['size'])], [3, 700_000])
  })
})

const envFor = (url: string, more: Record<string, string> = {}): Record<string, string> => ({
  COUNTERSIGN_DATABASE: url,
  COUNTERSIGN_SECRET: SECRET,
  COUNTERSIGN_LOG: 'warn',
  ...more,
})
const refused = async (t: TestContext, env: Record<string, string>, message: RegExp, args: readonly string[] = []): Promise<void> => {
  const { code, stderr } = await runToEnd(t, ['--port', '0', '--data', dataFolder(t), ...args], { env })
  assert.match(stderr, message)
  assert.equal(code, 1)
}

function withPassword(url: string, password: string): string {
  const given = new URL(url)
  given.password = password
  return given.href
}

describe('a start is refused in words', { skip: isPostgresOff }, () => {
  test('with another secret, which is named', async (t) => {
    const { url } = await startServers(t, 1)
    const other = Buffer.alloc(32, 8).toString('base64url')
    await refused(
      t,
      envFor(url, { COUNTERSIGN_SECRET: other }),
      /COUNTERSIGN_SECRET is not the secret that the keys in this database were wrapped under/,
    )
    await refused(t, envFor(url, { COUNTERSIGN_SECRET: 'short' }), /COUNTERSIGN_SECRET does not hold a secret: it must be 32 bytes/)
  })
  test('without a database, and without that database', async (t) => {
    const server = (await sharedPostgres())!
    await refused(t, envFor(`postgres://postgres@127.0.0.1:${await freePort()}/none`), /the database cannot be used: .*ECONNREFUSED/)
    const missing = new URL(server)
    missing.pathname = '/not_there'
    await refused(t, envFor(missing.href), /the database does not exist/)
  })
  test('of a newer schema', async (t) => {
    const { url } = await startServers(t, 1)
    await inDatabase(url, 'INSERT INTO countersign.migrations (n) VALUES (1000)')
    await refused(t, envFor(url), /schema 1000 by a newer Countersign/)
  })
  test('read-only, without fsync, not replicated although that is required, and in another encoding', async (t) => {
    const { url, drop } = await newDatabase()
    t.after(drop)
    await refused(t, envFor(url), /no standby confirms its commits/, ['--require-replicated'])
    const name = new URL(url).pathname.slice(1)
    await inDatabase(url, `ALTER DATABASE ${name} SET default_transaction_read_only = on`)
    await refused(t, envFor(url), /it can only be read/)
    const other = await startPostgres({ settings: { fsync: 'off' }, initdb: ['--locale=C', '-E', 'LATIN1'] })
    t.after(other.stop)
    await refused(t, envFor(other.url), /its encoding is LATIN1, not UTF8/)
  })
  test('without a password, with another one, and without fsync', async (t) => {
    const file = `${dataFolder(t)}-password`
    writeFileSync(file, 'hush', { mode: 0o644 })
    chmodSync(dirname(file), 0o755)
    const utf = await startPostgres({ settings: { fsync: 'off' }, initdb: ['--locale=C', '-A', 'scram-sha-256', '--pwfile', file] })
    t.after(utf.stop)
    await refused(t, envFor(utf.url), /the database wants a password, and the URL has none/)
    await refused(t, envFor(withPassword(utf.url, 'wrong')), /the database refuses the password/)
    await refused(t, envFor(withPassword(utf.url, 'hush')), /its fsync is off/)
  })
  test('with too many connections', async (t) => {
    const server = (await sharedPostgres())!
    const { url, drop } = await newDatabase()
    t.after(drop)
    const role = `few_${randomBytes(4).toString('hex')}`
    await inDatabase(server, `CREATE ROLE ${role} LOGIN CONNECTION LIMIT 1`)
    t.after(() => inDatabase(server, `DROP ROLE ${role}`))
    const other = new URL(url)
    other.username = role
    await refused(t, envFor(other.href), /the database takes no more connections \(too many connections for role/)
    const [row] = await inDatabase(url, `SELECT to_regnamespace('countersign') AS found`)
    assert.equal(row!['found'], null, 'nothing was made')
  })
})

test('a database of another locale is read in the order of bytes', { skip: isPostgresOff }, async (t) => {
  const server = (await sharedPostgres())!
  const name = `icu_${randomBytes(6).toString('hex')}`
  await inDatabase(server, `CREATE DATABASE ${name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de' LOCALE 'C'`)
  t.after(() => inDatabase(server, `DROP DATABASE ${name} WITH (FORCE)`))
  const url = new URL(server)
  url.pathname = `/${name}`
  const store = await postgresStore(url.href)
  t.after(() => store.close())
  const words = ['Z', 'a', '\u{e4}', 'B', '_', 'b', '~', '1']
  const entering = (word: string): Batch =>
    batchOf({ create: new Set([`k/${word}`]), puts: [{ key: `k/${word}`, value: {}, text: '{}' }], add: [`e\0${word}`] })
  for (const word of words) await store.commit(entering(word))
  const inBytes = words.toSorted((one, two) => Buffer.compare(Buffer.from(one), Buffer.from(two)))
  assert.deepEqual(
    await store.scan('e\0', 'e\u{1}', 20),
    inBytes.map((word) => `e\0${word}`),
  )
  assert.deepEqual(
    await store.keys('k/', 'k0', 20),
    inBytes.map((word) => `k/${word}`),
  )
})

test('a clock an hour away from the database’s is reported in the log', { skip: isPostgresOff }, async (t) => {
  const { url, drop } = await newDatabase()
  t.after(drop)
  const said: string[] = []
  const parts = {
    clock: { ...realClock, now: () => Date.now() + 3_600_000 },
    log: { warn: (_: object, message: string) => said.push(message) },
    findings: { add: () => undefined },
    folder: { path: '/none' },
    config: { skipVerify: false, readOnly: false },
    onFatal: assert.fail,
  } as unknown as StorageParts
  const settings = { url, secret: { name: 'COUNTERSIGN_SECRET', text: SECRET }, blobs: null, isReplicatedOnly: false }
  const storage = await openSharedStorage(parts, settings, 'node-1')
  for (const worker of storage.workers) await worker.stop()
  await storage.close()
  assert.match(said.join(), /^the clock of this server is 3600 s ahead of that of the database/)
})
