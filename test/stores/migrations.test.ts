// A database of an earlier format is brought to the present one: what later formats find by an index is found in it as well.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { collaboration } from '#protocols/collaboration/index.ts'
import { CURRENT_FORMAT } from '#stores/migrations.ts'
import { sqliteStore } from '#stores/sqlite.ts'
import { refusalOf } from '../support/in-process/stage.ts'
import { createWorld } from '../support/in-process/world.ts'

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
        .with(3, entry.split('\0')[3] === '0' ? '0' : '1')
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

test('a task that differs from the record is named, and the file stays as it was', async (t) => {
  const { db, file, task_id } = await ofFormat2(t)
  db.prepare("UPDATE images SET text = replace(text, 'agent_robin', 'agent_devin') WHERE key = ?").run(`collaboration.task/${task_id}`)
  db.close()
  assert.throws(() => sqliteStore(file), new RegExp(`not brought to format 3 .*collaboration.task/${task_id}: its image does not match`))
  assert.deepEqual(inputsIn(file), { n: 0, format: 2 })
})

test('format 5 enters what people own and for whom they stand in, as a new database does', async (t) => {
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
