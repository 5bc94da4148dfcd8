// A database of an earlier format is brought to the present one: what later formats find by an index is found in it as well.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, statSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import type { Found, Store } from '#kernel/log/store.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { delegation } from '#protocols/delegation/index.ts'
import { CURRENT_FORMAT } from '#stores/migrations.ts'
import { sqliteStore } from '#stores/sqlite.ts'
import { createExamination } from '#workers/upkeep/examination.ts'
import { smallDisk } from '../support/faults/small-disk.ts'
import { refusalOf } from '../support/in-process/stage.ts'
import { createWorld } from '../support/in-process/world.ts'

const PAGE = 4_096
const INPUTS = "entry > 'collaboration.task.input' AND entry < 'collaboration.task.inpuu'"

/** A file of format 2 in which robin executes a task with an input, and that input. */
async function ofFormat2(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-migrations-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'countersign.db')
  const world = await createWorld({ store: sqliteStore(file) })
  const { artifact } = await world.play(collaboration.scenes['review_ready']!)
  const input = { kind: 'artifact', id: artifact.id, version: 'v1' }
  const spec = { goal: 'Go on from it', inputs: [input, input, { kind: 'resource', id: 'wiki' }] }
  const { task } = await world.call('alice', 'collaboration/task.create', { spec })
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_robin' })
  await world.call('alice', 'collaboration/task.create', { spec })
  await world.store.close()
  const db = new DatabaseSync(file)
  const { changes } = db.prepare(`DELETE FROM entries WHERE ${INPUTS}`).run()
  db.exec('PRAGMA user_version = 2')
  return { db, file, changes, task_id: task.id as string, version: { artifact_id: artifact.id as string, version: 'v1' } }
}

function inputsIn(file: string): object {
  const db = new DatabaseSync(file)
  const found = db
    .prepare(`SELECT count(*) AS n, (SELECT user_version FROM pragma_user_version) AS format FROM entries WHERE ${INPUTS}`)
    .get()
  db.close()
  return { ...found }
}

const opened = (file: string) => createWorld({ store: sqliteStore(file), populated: false, startMs: Date.UTC(2026, 1), seed: 2 })

test('format 3 enters which inputs an executor may read, as a new database does', async (t) => {
  const { db, file, changes, version } = await ofFormat2(t)
  db.close()
  const world = await opened(file)
  await world.call('robin', 'collaboration/artifact.get', version)
  assert.equal((await refusalOf(world.call('bob', 'collaboration/artifact.get', version))).code, 'NOT_FOUND')
  await world.store.close()
  assert.deepEqual([inputsIn(file), changes], [{ n: 1, format: CURRENT_FORMAT }, 1])
})

test('format 9 lists open requests in the one order, as a new database does', async (t) => {
  const { db, file } = await ofFormat2(t)
  db.close()
  const world = await opened(file)
  for (const priority of ['low', 'high', 'critical', 'normal'])
    await world.call('devin', 'execution/request.create', { action: 'APPROVE', payload: { item: priority, details: {} }, priority })
  await world.store.close()
  const urgent = "entry > 'execution.request.open' AND entry < 'execution.request.opeo'"
  const entries = (database: DatabaseSync): object[] => database.prepare(`SELECT entry FROM entries WHERE ${urgent} ORDER BY entry`).all()
  const before = new DatabaseSync(file)
  const wanted = entries(before)
  assert.ok(wanted.length >= 4)
  const older = before.prepare('UPDATE entries SET entry = ? WHERE entry = ?')
  for (const { entry } of wanted as { entry: string }[])
    older.run(
      entry
        .split('\0')
        .with(4, entry.split('\0')[4] === '0' ? '0' : '1')
        .join('\0'),
      entry,
    )
  assert.notDeepEqual(entries(before), wanted)
  before.exec('PRAGMA user_version = 8')
  before.close()
  await (await opened(file)).store.close()
  const after = new DatabaseSync(file)
  assert.deepEqual(entries(after), wanted)
  after.close()
})

/** Index entries and counts of requests. */
const requestRows = (database: DatabaseSync): object[] =>
  database
    .prepare(
      `SELECT entry AS row, 0 AS count FROM entries WHERE entry LIKE 'execution.request.%'
       UNION SELECT prefix, count FROM counts WHERE prefix LIKE 'execution.request.%' AND count <> 0 ORDER BY row`,
    )
    .all()

function requestRowsIn(file: string): object[] {
  const db = new DatabaseSync(file)
  const rows = requestRows(db)
  db.close()
  return rows
}

/** A file of format 10 with two requests, and the rows that format 11 has for them. */
async function ofFormat10(t: TestContext): Promise<{ file: string; wanted: object[] }> {
  const { db, file } = await ofFormat2(t)
  db.close()
  const world = await opened(file)
  const ask = { action: 'APPROVE', payload: { item: 'a plan', details: {} } }
  await world.call('devin', 'execution/request.create', ask)
  const { request } = await world.call('devin', 'execution/request.create', ask)
  await world.call('alice', 'execution/request.resolve', { request_id: request.id, result: 'approved' })
  await world.store.close()
  const before = new DatabaseSync(file)
  const wanted = requestRows(before)
  // As format 10 had it: an entry for each outcome, a second one for each open request, and counts that are gone.
  const [open] = before.prepare("SELECT entry FROM entries WHERE entry LIKE 'execution.request.open%'").all() as [{ entry: string }]
  const old = before.prepare('INSERT INTO entries VALUES (?)')
  old.run(open.entry.replace('.open', '.urgent'))
  old.run(`execution.request.outcomes\0agent_devin\0project_default\0completed\0${request.id}`)
  before.exec("DELETE FROM counts WHERE prefix LIKE 'execution.request.trends%'; PRAGMA user_version = 10")
  before.close()
  assert.notDeepEqual(requestRowsIn(file), wanted)
  return { file, wanted }
}

test('format 11 counts requests without entries and leaves one entry in each inbox, as a new database does', async (t) => {
  const { file, wanted } = await ofFormat10(t)
  await (await opened(file)).store.close()
  assert.deepEqual(requestRowsIn(file), wanted)
})

test('format 12 finds runs by the agent that delegated them, as a new database does', async (t) => {
  const { db, file } = await ofFormat2(t)
  db.close()
  const world = await opened(file)
  const { run } = await world.play(delegation.scenes['delegated']!)
  await world.store.close()
  const rows = (database: DatabaseSync): object[] =>
    database
      .prepare(
        `SELECT entry AS row, 0 AS count FROM entries WHERE entry LIKE 'delegation.run.%'
         UNION SELECT prefix, count FROM counts WHERE prefix LIKE 'delegation.run.%' AND count <> 0 ORDER BY row`,
      )
      .all()
  const before = new DatabaseSync(file)
  const wanted = rows(before)
  assert.equal(before.prepare("DELETE FROM entries WHERE entry LIKE 'delegation.run.delegated%'").run().changes, 1)
  before.exec('PRAGMA user_version = 11')
  before.close()
  const later = await opened(file)
  const { items } = await later.call('devin', 'delegation/run.list', { agent_id: 'agent_robin' })
  assert.deepEqual(
    items.map(({ id }: { id: string }) => id),
    [run.id],
  )
  await later.store.close()
  const after = new DatabaseSync(file)
  assert.deepEqual(rows(after), wanted)
  after.close()
})

/** Everything that a migration writes. */
function allRowsIn(file: string): object {
  const db = new DatabaseSync(file)
  const rows = [
    'SELECT key, version, text FROM docs',
    'SELECT * FROM entries',
    'SELECT * FROM counts WHERE count <> 0',
    'SELECT first, last FROM seals',
  ].map((sql) => db.prepare(`${sql} ORDER BY 1`).all())
  db.close()
  return rows
}
function valueIn(file: string, sql: string): unknown {
  const db = new DatabaseSync(file)
  const [value] = Object.values(db.prepare(sql).get()!)
  db.close()
  return value
}
const formatOf = (file: string): unknown => valueIn(file, 'PRAGMA user_version')
const integrityOf = (file: string): unknown => valueIn(file, 'PRAGMA integrity_check')
async function foundIn(store: Store): Promise<readonly Found[]> {
  const examination = createExamination({ store })
  while (!(await examination.next(1_000, Date)));
  return examination.found()
}

/** Opens the file in a process that dies at one place of its migration. */
function dieWhile(file: string, script: string): void {
  const dying = `
    import { DatabaseSync } from 'node:sqlite'
    import { sqliteStore } from '#stores/sqlite.ts'
    import '#protocols/index.ts'
    const { exec } = DatabaseSync.prototype
    const die = () => process.kill(process.pid, 'SIGKILL')
    DatabaseSync.prototype.exec = function (sql) {
      ${script}
    }
    sqliteStore(${JSON.stringify(file)})`
  const { signal, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', dying], {
    cwd: join(import.meta.dirname, '../..'),
  })
  assert.equal(signal, 'SIGKILL', stderr.toString())
}

test('a start that is killed while it migrates leaves the file as it was, and the next one migrates it', async (t) => {
  const { file, wanted } = await ofFormat10(t)
  const old = requestRowsIn(file)
  // Dies when every row is written and nothing is committed.
  dieWhile(file, "if (sql.includes('user_version = 11')) die(); return exec.call(this, sql)")
  assert.deepEqual(requestRowsIn(file), old)
  await (await opened(file)).store.close()
  assert.deepEqual(requestRowsIn(file), wanted)
})

for (const [when, format, script] of [
  ['before a step in the middle is committed', 6, "if (sql.includes('user_version = 7;')) die(); return exec.call(this, sql)"],
  ['right after it is committed', 7, "exec.call(this, sql); if (sql.includes('user_version = 7;')) die()"],
] as const)
  test(`a start that is killed ${when} leaves whole steps alone, and the next one does the others`, async (t) => {
    const { db, file } = await ofFormat2(t)
    db.close()
    const whole = `${file}-whole`
    cpSync(file, whole)
    await (await opened(whole)).store.close()
    dieWhile(file, script)
    assert.deepEqual([formatOf(file), integrityOf(file)], [format, 'ok'])
    await (await opened(file)).store.close()
    assert.deepEqual(allRowsIn(file), allRowsIn(whole))
    const store = sqliteStore(file)
    assert.deepEqual(await foundIn(store), [])
    await store.close()
  })

test('a disk that becomes full at any place of a migration leaves whole steps, and the next start with room does the others', async (t) => {
  const disk = smallDisk(t, '4m')
  if (!disk) return
  const { db, file } = await ofFormat2(t)
  db.close()
  const whole = `${file}-whole`
  cpSync(file, whole)
  await (await opened(whole)).store.close()
  const small = join(disk.path, 'countersign.db')
  const formats = new Set<unknown>()
  for (let pages = 0, isDone = false; !isDone; pages += 3) {
    for (const name of [small, `${small}-wal`, `${small}-shm`]) rmSync(name, { force: true })
    cpSync(file, small)
    disk.fill()
    const filling = join(disk.path, 'filling')
    truncateSync(filling, statSync(filling).size - pages * PAGE)
    try {
      await sqliteStore(small).close()
      isDone = true
    } catch (error) {
      assert.match((error as Error).message, /full|disk I\/O error|unable to open/, String(pages))
    }
    disk.free()
    formats.add(formatOf(small))
    assert.equal(integrityOf(small), 'ok')
    await sqliteStore(small).close()
    assert.deepEqual(allRowsIn(small), allRowsIn(whole))
  }
  assert.ok(formats.size > 2 && formats.has(2) && formats.has(CURRENT_FORMAT), [...formats].join())
})

test('a task that differs from the record is named, and the file stays as it was', async (t) => {
  const { db, file, task_id } = await ofFormat2(t)
  db.prepare("UPDATE images SET text = replace(text, 'agent_robin', 'agent_devin') WHERE key = ?").run(`collaboration.task/${task_id}`)
  db.close()
  assert.throws(() => sqliteStore(file), new RegExp(`not brought to format 3 .*collaboration.task/${task_id}: its image does not match`))
  assert.deepEqual(inputsIn(file), { n: 0, format: 2 })
})

test('format 5 indexes owned agents and substitutions as a new database does', async (t) => {
  const { db, file } = await ofFormat2(t)
  db.close()
  const world = await opened(file)
  await world.call('alice', 'identity/substitute.add', { person: 'user_alice', substitute: 'user_bob', until: '2026-12-01T00:00:00Z' })
  await world.store.close()
  const entries = (database: DatabaseSync): object[] =>
    database.prepare("SELECT entry FROM entries WHERE entry > 'identity.user.' AND entry < 'identity.user/' ORDER BY entry").all()
  const before = new DatabaseSync(file)
  const wanted = entries(before)
  for (const name of ['active', 'owner', 'substitute'])
    assert.ok(
      before.prepare('DELETE FROM entries WHERE entry > ? AND entry < ?').run(`identity.user.${name}\0`, `identity.user.${name}\x01`)
        .changes > 0,
    )
  before.exec('PRAGMA user_version = 4')
  before.close()
  await sqliteStore(file).close()
  const after = new DatabaseSync(file)
  assert.deepEqual(entries(after), wanted)
  after.close()
})
