// Forgeries by a writer of the database without a key are found: an appended fact, a database that was put back and a changed seal are
// refused with RECORD_CHANGED and named, while servers run and at their start, on both stores. Earlier releases wrote no seals: their folders and
// databases are sealed when they are opened.
import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test, type TestContext } from 'node:test'
import { examineFolder } from '#apps/cli/remote/examine-folder.ts'
import { moveToFolder } from '#apps/server/database/move.ts'
import { wrappedValues } from '#stores/postgres/wrapped-values.ts'
import { inProcess } from '../support/as-processes/cli.ts'
import { inDatabase as inPostgres, isPostgresOff } from '../support/as-processes/postgres.ts'
import { createCaller, enroll, type Answer } from '../support/as-processes/server.ts'
import { dataFolder, runToEnd, start } from '../support/as-processes/server-process.ts'
import { SECRET, startServers, type Node } from '../support/as-processes/servers.ts'
import { forgeInFolder, forgeInPostgres } from '../support/faults/forgery.ts'
import { inDatabase, makeFolder, type Made } from '../support/faults/tampering.ts'

const isRefused = ({ status, body }: Answer): void => assert.deepEqual([status, body.error?.code], [503, 'RECORD_CHANGED'])
const healthOf = async (port: number): Promise<any> => (await fetch(`http://127.0.0.1:${port}/health`)).json()
async function eventually(what: string, is: () => Promise<boolean>): Promise<void> {
  for (let i = 0; !(await is()); i++) {
    assert.ok(i < 600, what)
    await new Promise((done) => setTimeout(done, 50))
  }
}

describe('a data folder', () => {
  let made: Made
  before(async () => {
    made = await makeFolder()
  })
  after(() => made.remove())

  async function running(t: TestContext, folder: string, args: readonly string[] = []) {
    const server = await start(t, ['--data', folder, '--log', 'error', ...args])
    const { call, close } = createCaller(server.port)
    t.after(close)
    return { ...server, call }
  }
  const said = async (t: TestContext, folder: string): Promise<string> => {
    const { code, stderr } = await runToEnd(t, ['--port', '0', '--data', folder])
    assert.equal(code, 1, stderr)
    return stderr
  }
  const foundIn = async (folder: string): Promise<string> =>
    (await examineFolder(folder, () => undefined)).found.map(({ what, how }) => `${what}: ${how}`).join('\n')

  test('a fact that was appended at rest: no start, named by an examination, and nothing is done with it', async (t) => {
    const folder = made.copy()
    forgeInFolder(folder)
    assert.match(await said(t, folder), /RECORD_CHANGED: the record in \S+ was changed: project system, number \d+: it has no seal/)
    assert.match(await foundIn(folder), /project system, number \d+: it has no seal: no server of this installation wrote it/)
    assert.match(await foundIn(folder), /identity.user\/user_alice: it has no seal/)
    const { call, port } = await running(t, folder, ['--skip-verify'])
    isRefused(await call(made.alice, 'identity/me.get', {}))
    const { body } = await call(made.admin, 'collaboration/audit.verify', { project_id: 'system' })
    assert.deepEqual([body.valid, body.difference?.what], [false, 'it has no seal: no server of this installation wrote it'])
    assert.equal((await healthOf(port)).record, 'changed')
  })

  test('a fact that is appended under a running server: it is not acted on, and nothing is written on top of it', async (t) => {
    const folder = made.copy()
    const { call, port } = await running(t, folder)
    assert.equal((await healthOf(port))['record.anchor'], 'kept')
    forgeInFolder(folder)
    isRefused(await call(made.admin, 'identity/project.add', { id: 'project_top', name: 'On top' }))
    // The cache was cleared since then.
    isRefused(await call(made.alice, 'identity/me.get', {}))
    assert.equal((await healthOf(port)).record, 'changed')
    const { body } = await call(made.admin, 'collaboration/audit.verify', { project_id: 'system' })
    assert.equal(body.valid, false)
    assert.ok(
      body.findings.some(({ what }: { what: string }) => what === 'record'),
      JSON.stringify(body.findings),
    )
  })

  /** The database alone, as it was before the last change. */
  async function putBack(t: TestContext): Promise<{ folder: string; whole: string }> {
    const [folder, whole] = [made.copy(), made.copy()]
    const { call, end } = await running(t, folder)
    assert.equal((await call(made.admin, 'identity/project.add', { id: 'project_late', name: 'Late' })).status, 200)
    await end()
    for (const end of ['', '-wal', '-shm']) rmSync(join(folder, `countersign.db${end}`), { force: true })
    cpSync(join(whole, 'countersign.db'), join(folder, 'countersign.db'))
    return { folder, whole }
  }

  test('a database that was put back alone: no start, until its operator accepts it, and that is on the record', async (t) => {
    const { folder, whole } = await putBack(t)
    // The marker would notice it too; the anchor alone must.
    const marker = readFileSync(join(folder, 'verified.json'))
    rmSync(join(folder, 'verified.json'))
    assert.match(await said(t, folder), /it ends at position \d+, and this server has seen position \d+: it was put back/)
    assert.match(await foundIn(folder), /record: it ends at position \d+, and this server has seen position \d+/)
    writeFileSync(join(folder, 'verified.json'), marker)
    const { code, out } = await inProcess({ home: dataFolder(t), env: {} }).run(['audit', 'accept', '--data', folder])
    assert.equal(code, 0, out)
    const { call, port, end } = await running(t, folder)
    const { body } = await call(made.admin, 'collaboration/audit.query', { project_id: 'system', limit: 100 })
    assert.ok(JSON.stringify(body).includes('record.accepted'), JSON.stringify(body))
    assert.equal((await healthOf(port)).record, 'verified')
    await end()
    assert.equal(await foundIn(folder), '')
    // A folder that was restored as a whole has its own anchor.
    assert.equal((await healthOf((await running(t, whole)).port))['record.anchor'], 'kept')
  })

  test('accepting a restored record is for one store: the data folder, or with COUNTERSIGN_DATABASE the database', async (t) => {
    const folder = made.copy()
    const [own, shared] = [join(folder, 'anchor.json'), join(folder, 'anchor.postgres.json')]
    cpSync(own, shared)
    const isAccepted = (file: string): boolean => JSON.parse(readFileSync(file, 'utf8')).accepted === true
    const accept = (env: Record<string, string>) => inProcess({ home: dataFolder(t), env }).run(['audit', 'accept', '--data', folder])
    const first = await accept({})
    assert.match(first.out, /next start on the data folder .*\n.*set COUNTERSIGN_DATABASE to accept the record of the database/)
    assert.deepEqual([isAccepted(own), isAccepted(shared)], [true, false])
    assert.match((await accept({ COUNTERSIGN_DATABASE: 'postgres://127.0.0.1/x' })).out, /next start on the database /)
    assert.deepEqual([isAccepted(own), isAccepted(shared)], [true, true])
    rmSync(shared)
    assert.notEqual((await accept({ COUNTERSIGN_DATABASE: 'postgres://127.0.0.1/x' })).code, 0)
  })

  test('tables restored under a running server: every fresh read is refused', async (t) => {
    const [folder, old] = [made.copy(), made.copy()]
    const { call, port } = await running(t, folder)
    assert.equal((await call(made.admin, 'identity/project.add', { id: 'project_late', name: 'Late' })).status, 200)
    const db = new DatabaseSync(join(folder, 'countersign.db'), { timeout: 5_000 })
    db.exec(`ATTACH '${join(old, 'countersign.db')}' AS old; BEGIN IMMEDIATE`)
    for (const table of ['facts', 'seals', 'images', 'docs', 'entries', 'counts'])
      db.exec(`DELETE FROM main.${table}; INSERT INTO main.${table} SELECT * FROM old.${table}`)
    db.exec('COMMIT')
    db.close()
    isRefused(await call(made.admin, 'identity/project.add', { id: 'project_later', name: 'Later' }))
    for (let i = 0; i < 2; i++) isRefused(await call(made.alice, 'collaboration/task.get', { task_id: made.task }))
    assert.equal((await healthOf(port)).record, 'changed')
  })

  test('removed seals are not made again, even with an older format number', async (t) => {
    for (const forget of [() => undefined, (folder: string) => rmSync(join(folder, 'anchor.json'))]) {
      const folder = made.copy()
      forgeInFolder(folder)
      forget(folder)
      inDatabase(folder, (db) => db.exec('DROP TABLE seals; PRAGMA user_version = 9'))
      assert.match(
        await said(t, folder),
        /not brought to format 10 .*seals: they are gone, and this installation has sealed its record before/,
      )
    }
  })

  test('a folder without seals, of the release before, is sealed when it is opened', async (t) => {
    const folder = made.copy()
    inDatabase(folder, (db) => db.exec('DROP TABLE seals; PRAGMA user_version = 9'))
    for (const file of ['anchor.json', 'keys/sealed']) rmSync(join(folder, file))
    const { call, end } = await running(t, folder)
    assert.equal((await call(made.alice, 'identity/me.get', {})).status, 200)
    assert.equal((await call(made.alice, 'collaboration/task.create', { spec: { goal: 'Go on' } })).status, 200)
    await end()
    assert.equal(await foundIn(folder), '')
    for (const file of ['anchor.json', 'keys/sealed']) assert.ok(existsSync(join(folder, file)))
    forgeInFolder(folder)
    assert.match(await said(t, folder), /it has no seal/)
  })

  test('a restored backup from before there were seals is sealed after its operator accepts it', async (t) => {
    const folder = made.copy()
    inDatabase(folder, (db) => db.exec('DROP TABLE seals; PRAGMA user_version = 9'))
    assert.match(await said(t, folder), /seals: they are gone/)
    assert.equal((await inProcess({ home: dataFolder(t), env: {} }).run(['audit', 'accept', '--data', folder])).code, 0)
    const { call, end } = await running(t, folder)
    assert.equal((await call(made.alice, 'identity/me.get', {})).status, 200)
    await end()
    assert.equal(await foundIn(folder), '')
  })

  test('a folder without seals whose record differs is named, and not sealed', async (t) => {
    const folder = made.copy()
    inDatabase(folder, (db) => {
      db.exec('DROP TABLE seals; PRAGMA user_version = 9')
      db.exec("UPDATE facts SET line = replace(line, 'user_owner', 'user_alice') WHERE position = 3")
    })
    for (const file of ['anchor.json', 'keys/sealed']) rmSync(join(folder, file))
    assert.match(await said(t, folder), /not brought to format 10 .*: the line does not match its hash/)
    inDatabase(folder, (db) => assert.equal((db.prepare('PRAGMA user_version').get() as any).user_version, 9))
  })

  test('a server key that was lost and replaced seals the record again', async (t) => {
    const folder = made.copy()
    rmSync(join(folder, 'keys/server.key'))
    assert.match(await said(t, folder), /server.key is missing/)
    assert.equal((await inProcess({ home: dataFolder(t), env: {} }).run(['receipt', 'rotate', '--lost', '--data', folder])).code, 0)
    const readOnly = await runToEnd(t, ['--port', '0', '--data', folder, '--read-only'])
    assert.deepEqual([readOnly.code, /server.key was replaced, .*: start once without --read-only/.test(readOnly.stderr)], [1, true])
    const { call, end } = await running(t, folder)
    assert.equal((await call(made.alice, 'identity/me.get', {})).status, 200)
    await end()
    assert.equal(await foundIn(folder), '')
    assert.equal(existsSync(join(folder, 'keys/replaced')), false)
    await running(t, folder)
  })

  test('a new server key stays a new one until the anchor names it, whenever a start is cut off', async (t) => {
    const folder = made.copy()
    rmSync(join(folder, 'keys/server.key'))
    assert.equal((await inProcess({ home: dataFolder(t), env: {} }).run(['receipt', 'rotate', '--lost', '--data', folder])).code, 0)
    // As if the process had died before its first anchor: a folder in the place of the file that is written.
    mkdirSync(join(folder, 'anchor.json.new'))
    await (await running(t, folder)).end('SIGKILL')
    rmdirSync(join(folder, 'anchor.json.new'))
    const { end } = await running(t, folder)
    await end()
    assert.equal(existsSync(join(folder, 'keys/replaced')), false)
  })
})

describe('a PostgreSQL that servers share', { skip: isPostgresOff }, () => {
  const TABLES = ['head', 'delegated_groups', 'chains', 'facts', 'seals', 'images', 'docs', 'entries', 'counts', 'wrapped']
  const copyTables = (url: string): Promise<unknown> =>
    inPostgres(url, `CREATE SCHEMA old; ${TABLES.map((name) => `CREATE TABLE old.${name} AS TABLE countersign.${name}`).join(';')}`)
  const putTablesBack = (url: string): Promise<unknown> =>
    inPostgres(
      url,
      `BEGIN; ${TABLES.map((name) => `DELETE FROM countersign.${name}; INSERT INTO countersign.${name} SELECT * FROM old.${name}`).join(';')}; COMMIT`,
    )
  const envOf = (url: string): Record<string, string> => ({ COUNTERSIGN_DATABASE: url, COUNTERSIGN_SECRET: SECRET })
  const said = async (t: TestContext, url: string, data: string): Promise<string> => {
    const { code, stderr } = await runToEnd(t, ['--port', '0', '--data', data], { env: envOf(url) })
    assert.equal(code, 1, stderr)
    return stderr
  }

  test('a fact that is appended: refused by every running server, named, and no start', async (t) => {
    const servers = await startServers(t, 2)
    const [a, b] = servers.nodes as [Node, Node]
    // Of two that start concurrently, one creates the record and the other finds it.
    const anchors = await Promise.all([a, b].map(async ({ port }) => (await healthOf(port))['record.anchor']))
    assert.ok(anchors.includes('kept'), anchors.join())
    const { alice } = await enroll(a.port, servers.adminKey)
    for (const node of [a, b]) assert.equal((await node.call(alice, 'identity/me.get')).status, 200)
    await forgeInPostgres(servers.url, true)
    for (const node of [a, b]) {
      isRefused(await node.call(alice, 'identity/me.get'))
      isRefused(await node.call(servers.adminKey, 'identity/project.add', { id: 'project_top', name: 'On top' }))
      const { body } = await node.call(servers.adminKey, 'collaboration/audit.verify', { project_id: 'system' })
      assert.deepEqual([body.valid, body.difference?.what], [false, 'it has no seal: no server of this installation wrote it'])
      assert.equal((await healthOf(node.port)).record, 'changed')
    }
    await a.end()
    assert.match(await said(t, servers.url, a.data), /RECORD_CHANGED: .*project system, number \d+: it has no seal/)
    assert.match(await said(t, servers.url, dataFolder(t)), /RECORD_CHANGED/)
  })

  test('a foreign row without a reference makes the next commit fail and is named', async (t) => {
    const servers = await startServers(t, 1)
    const [a] = servers.nodes as [Node]
    await enroll(a.port, servers.adminKey)
    await forgeInPostgres(servers.url, false)
    isRefused(await a.call(servers.adminKey, 'identity/project.add', { id: 'project_top', name: 'On top' }))
    const { body } = await a.call(servers.adminKey, 'collaboration/audit.verify', { project_id: 'system' })
    assert.equal(body.valid, false)
    await eventually('it is not named', async () => (await healthOf(a.port)).record === 'changed')
  })

  test('tables that were put back: refused while servers run and at a start, until it is accepted; a new server has no anchor', async (t) => {
    const servers = await startServers(t, 2)
    const [a, b] = servers.nodes as [Node, Node]
    const { alice } = await enroll(a.port, servers.adminKey)
    await copyTables(servers.url)
    assert.equal((await a.call(alice, 'collaboration/task.create', { spec: { goal: 'Forgotten' } })).status, 200)
    // Each rests on a commit of its own: groups of others that were seen alone may be lost in a failover.
    assert.equal((await b.call(alice, 'collaboration/task.create', { spec: { goal: 'Forgotten too' } })).status, 200)
    assert.equal((await a.call(alice, 'collaboration/task.create', { spec: { goal: 'Last' } })).status, 200)
    await putTablesBack(servers.url)
    for (const node of [a, b]) {
      isRefused(await node.call(alice, 'identity/me.get'))
      assert.equal((await healthOf(node.port)).record, 'changed')
    }
    await Promise.all([a.end(), b.end()])
    assert.match(await said(t, servers.url, a.data), /it ends at position \d+, and this server has seen position \d+: it was put back/)
    const fresh = await servers.add('node-3')
    assert.equal((await healthOf(fresh.port))['record.anchor'], 'none')
    await fresh.end()
    assert.equal((await inProcess({ home: dataFolder(t), env: {} }).run(['audit', 'accept', '--data', a.data])).code, 0)
    const again = await servers.add('node-4', { data: a.data })
    assert.equal((await again.call(alice, 'identity/me.get')).status, 200)
    const { body } = await again.call(servers.adminKey, 'collaboration/audit.query', { project_id: 'system', limit: 100 })
    assert.ok(JSON.stringify(body).includes('record.accepted'))
  })

  test('a database of the release before is sealed by the first server, and one that was sealed is not sealed again', async (t) => {
    const servers = await startServers(t, 1)
    const [a] = servers.nodes as [Node]
    const { alice } = await enroll(a.port, servers.adminKey)
    await a.end()
    const { url } = servers
    const unseal = `DROP TABLE countersign.seals; ALTER TABLE countersign.head DROP COLUMN seal;
      ALTER TABLE countersign.delegated_groups RENAME TO groups; DELETE FROM countersign.migrations WHERE n >= 5`
    const gone = /RECORD_CHANGED: .*seals: they are gone, and this installation has sealed its record before/
    await inPostgres(url, unseal)
    assert.match(await said(t, url, dataFolder(t)), gone)
    // As the release before left it: its server key says nothing of seals.
    await inPostgres(url, unseal)
    const query = (async (_: string, text: string, values: unknown[]) =>
      inPostgres(url, text.replace(/(FROM|INTO|UPDATE) wrapped/, '$1 countersign.wrapped'), values)) as Parameters<typeof wrappedValues>[0]
    const values = wrappedValues(query, Buffer.from(SECRET, 'base64url'))
    const { text, version } = (await values.read('server key'))!
    assert.ok(await values.write('server key', text.replace(' sealed', ''), version))
    // The mark went with the seals; the anchor did not, and nothing is sealed on its folder's behalf.
    assert.match(await said(t, url, a.data), gone)
    assert.deepEqual(await inPostgres(url, 'SELECT 1 FROM countersign.seals'), [])
    const cli = inProcess({ home: dataFolder(t), env: envOf(url) })
    assert.match((await cli.run(['admin-key', '--data', a.data])).err, gone)
    assert.deepEqual(await inPostgres(url, 'SELECT 1 FROM countersign.seals'), [])
    const settings = { url, secret: { name: 'COUNTERSIGN_SECRET', text: SECRET }, blobs: null, isReplicatedOnly: false }
    const target = join(dataFolder(t), 'moved')
    await assert.rejects(
      moveToFolder(settings, target, () => undefined),
      /is not sealed yet: start a server with its data folder/,
    )
    assert.ok(!existsSync(join(target, 'countersign.db')))
    assert.deepEqual(await inPostgres(url, 'SELECT 1 FROM countersign.seals'), [])
    const [one, two] = await Promise.all([servers.add('node-5'), servers.add('node-6')])
    for (const node of [one, two]) assert.equal((await node.call(alice, 'identity/me.get')).status, 200)
    assert.equal((await two.call(alice, 'collaboration/task.create', { spec: { goal: 'Go on' } })).status, 200)
    const { body } = await one.call(servers.adminKey, 'collaboration/audit.verify', { project_id: 'system' })
    assert.equal(body.valid, true)
    assert.match((await values.read('server key'))!.text, / sealed$/)
    // A restored backup from before there were seals: the operator accepts it for a server with an anchor.
    for (const node of [one, two]) await node.end()
    await inPostgres(url, unseal)
    assert.equal((await cli.run(['audit', 'accept', '--data', a.data])).code, 0)
    const restored = await servers.add('node-7', { data: a.data })
    assert.equal((await restored.call(alice, 'identity/me.get')).status, 200)
  })

  test('a server that has committed nothing knows the seal of its anchor: tables that are put back then answer nothing', async (t) => {
    const servers = await startServers(t, 1)
    const [a] = servers.nodes as [Node]
    const { alice } = await enroll(a.port, servers.adminKey)
    await copyTables(servers.url)
    assert.equal((await a.call(alice, 'collaboration/task.create', { spec: { goal: 'Forgotten' } })).status, 200)
    await a.end()
    const reader = await servers.add('node-2', { data: a.data, args: ['--read-only'] })
    assert.equal((await reader.call(alice, 'identity/me.get')).status, 200)
    await putTablesBack(servers.url)
    isRefused(await reader.call(alice, 'identity/me.get'))
  })
})
