// A backup of the database of running servers, taken under load as docs/servers.md says, and restored: everything that was acknowledged before it
// began is there, with its keys and its bytes, and the record is whole.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { inDatabase, isPostgresOff, startPostgres } from '../support/as-processes/postgres.ts'
import { copyOf } from '../support/faults/postgres-copy.ts'
import { enroll } from '../support/as-processes/server.ts'
import { dataFolder, runToEnd } from '../support/as-processes/server-process.ts'
import { startServers, type Node } from '../support/as-processes/servers.ts'
import { startLoad } from '../support/as-processes/servers-load.ts'

test('a backup that was taken under load is restored, and is whole', { skip: isPostgresOff }, async (t) => {
  const settings = { wal_level: 'replica', wal_keep_size: '64MB' }
  const database = await startPostgres({ settings })
  t.after(database.stop)
  const servers = await startServers(t, 2, { url: database.url })
  const [a] = servers.nodes as [Node]
  const { alice } = await enroll(a.port, servers.adminKey)
  const bytes = randomBytes(400_000)
  const { body } = await a.call(alice, 'collaboration/task.create', { spec: { goal: 'Kept' }, reviewers: ['user_alice'] })
  const task = body.task.id as string
  const headers = { authorization: `Bearer ${alice}`, 'content-type': 'application/octet-stream' }
  const address = (port: number, rest: string): string => `http://127.0.0.1:${port}/v1/collaboration/${rest}`
  const sent = await fetch(address(a.port, `artifact.upload?task_id=${task}`), { method: 'PUT', headers, body: bytes })
  const { checksum } = (await sent.json()) as { checksum: string }
  assert.equal(sent.status, 200)

  const load = startLoad(() => servers.nodes, alice)
  const acknowledged = async (count: number): Promise<void> => {
    while (load.acknowledged.size < count) await new Promise((done) => setTimeout(done, 20))
  }
  await acknowledged(20)
  const before = [...load.acknowledged]
  const copy = await copyOf(database, settings, { meanwhile: () => acknowledged(before.length + 20) })
  t.after(copy.stop)
  await load.stop()
  assert.deepEqual(load.strange, [])

  await t.test('another secret does not open it', async () => {
    const env = { COUNTERSIGN_DATABASE: copy.url, COUNTERSIGN_SECRET: Buffer.alloc(32, 9).toString('base64url') }
    const { code, stderr } = await runToEnd(t, ['--port', '0', '--data', dataFolder(t)], { env })
    assert.deepEqual([code, /COUNTERSIGN_SECRET is not the secret/.test(stderr)], [1, true], stderr)
  })
  await t.test('under its own everything is there', async (inner) => {
    const restored = await startServers(inner, 1, { url: copy.url })
    const [node] = restored.nodes as [Node]
    const ids = new Set((await inDatabase(copy.url, `SELECT key FROM countersign.docs`)).map(({ key }) => String(key).split('/')[1]))
    assert.deepEqual(
      [task, ...before].filter((id) => !ids.has(id)),
      [],
      'acknowledged before the backup began',
    )
    const verified = await node.call(servers.adminKey, 'collaboration/audit.verify', {})
    assert.deepEqual([verified.status, verified.body.valid], [200, true], JSON.stringify(verified.body))
    const [{ gaps }] = (await inDatabase(copy.url, 'SELECT max(position) - count(*) AS gaps FROM countersign.facts')) as [{ gaps: string }]
    assert.equal(Number(gaps), 0)
    const [row] = await inDatabase(
      copy.url,
      `SELECT string_agg(c.bytes, '' ORDER BY c.n) AS bytes FROM countersign.blob_chunks c JOIN countersign.blobs b ON b.id = c.blob
       WHERE b.checksum = $1`,
      [checksum],
    )
    assert.ok((row!['bytes'] as Buffer).equals(bytes))
    // It continues from there.
    assert.equal((await node.call(alice, 'collaboration/task.create', { spec: { goal: 'After' } })).status, 200)
  })
})
