// A start on a disk that has no room left: stored data can be read, changes are refused, and nothing needs repair.
// On one that may only be read there is no start.
import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Refusal } from '#kernel/declare/errors.ts'
import { sqliteStore } from '#stores/sqlite.ts'
import { createExamination } from '#workers/upkeep/examination.ts'
import { createWorld } from '../support/in-process/world.ts'
import { smallDisk, type Disk } from '../support/faults/small-disk.ts'
import { send, type Answer } from '../support/over-sockets/http-client.ts'
import { runToEnd, start, type Running } from '../support/as-processes/server-process.ts'

const placeOn = (disk: Disk): string => join(disk.path, 'data')

const call = (server: Running, disk: Disk, name: string, body: object): Promise<Answer> => {
  const authorization = `Bearer ${readFileSync(join(placeOn(disk), 'admin.key'), 'utf8').trim()}`
  return send(server.port, `/v1/${name}`, { headers: { authorization, 'content-type': 'application/json' }, body: JSON.stringify(body) })
}

/** Reads, is refused a change, and changes again as soon as there is room. */
async function assertServes(server: Running, disk: Disk, id: string): Promise<void> {
  assert.equal((await call(server, disk, 'identity/user.get', { user_id: 'user_first' })).json.user.name, 'First')
  const refused = await call(server, disk, 'identity/user.add', { id, name: 'N'.repeat(200) })
  assert.deepEqual([refused.status, refused.json.error.code], [503, 'UNAVAILABLE'])
  disk.free()
  assert.equal((await call(server, disk, 'identity/user.add', { id, name: 'N' })).status, 200, 'nothing has to be restarted')
}

test('it starts after a stop, reads, and writes when there is room; each time', async (t) => {
  const disk = smallDisk(t)
  if (!disk) return
  const first = await start(t, ['--data', placeOn(disk)])
  assert.equal((await call(first, disk, 'identity/user.add', { id: 'user_first', name: 'First' })).status, 200)
  assert.equal((await first.end()).code, 0)
  for (const id of ['user_second', 'user_third']) {
    disk.fill()
    // A stop with a full disk may leave the log of the database there, and then the next start needs no room.
    const isLogThere = existsSync(join(placeOn(disk), 'countersign.db-wal'))
    assert.ok(id !== 'user_second' || !isLogThere)
    const server = await start(t, ['--data', placeOn(disk)])
    if (!isLogThere)
      assert.match(server.stderr(), /"level":"warn".*the disk seems to be full .*: the reserve in the data folder was given up/)
    // It gave up a little of its own to open the database: now nothing is left.
    disk.fill()
    await assertServes(server, disk, id)
    disk.fill()
    assert.equal((await server.end()).code, 0, 'it stops with a full disk as with any other')
    disk.free()
  }
})

test('it starts after it was killed, and says that it could make no link and could not note what it verified', async (t) => {
  const disk = smallDisk(t)
  if (!disk) return
  const first = await start(t, ['--data', placeOn(disk)])
  assert.equal((await call(first, disk, 'identity/user.add', { id: 'user_first', name: 'First' })).status, 200)
  rmSync(join(placeOn(disk), 'reserve'), { force: true })
  disk.fill()
  await first.end('SIGKILL')
  const server = await start(t, ['--data', placeOn(disk)])
  assert.match(
    server.stdout(),
    /^countersign ready http:\S+\nNo login link could be made; the log says why\.\nThe admin key is in \S+\nNext, in another terminal:\n/,
  )
  assert.match(server.stderr(), /"level":"warn".*no login link could be made: the disk is full/)
  assert.match(server.stderr(), /"level":"warn".*ENOSPC.*could not save how far the record is verified/)
  await assertServes(server, disk, 'user_second')
})

test('a first start says in one sentence that there is no room', async (t) => {
  const disk = smallDisk(t)
  if (!disk) return
  disk.fill()
  const { code, stdout, stderr } = await runToEnd(t, ['--data', placeOn(disk), '--port', '0', '--log', 'silent'])
  assert.deepEqual([code, stdout], [1, ''])
  assert.match(stderr, /^countersign: keys cannot be written to .*: ENOSPC: no space left.*\n$/)
})

test('a folder that may only be read is named in one sentence, and serves again when it may be written', async (t) => {
  const disk = smallDisk(t)
  if (!disk) return
  assert.equal((await (await start(t, ['--data', placeOn(disk)])).end()).code, 0)
  disk.remount('ro')
  const { code, stdout, stderr } = await runToEnd(t, ['--data', placeOn(disk), '--port', '0'])
  assert.deepEqual([code, stdout], [1, ''])
  assert.match(stderr, /^[^\n]*the data folder .* cannot be written: EROFS[^\n]*\(see --data\)\n$/)
  disk.remount('rw')
  assert.equal((await (await start(t, ['--data', placeOn(disk)])).end()).code, 0)
})

test('at whichever page a database becomes full, a question is asked and answered as a whole or not at all, with its counts', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-full-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'countersign.db')
  await (await createWorld({ store: sqliteStore(file) })).store.close()
  const base = statSync(file).size / 4_096
  const refusedAt = new Set<string>()
  for (let pages = 0; pages < 24; pages++) {
    const copy = join(folder, `${pages}.db`)
    cpSync(file, copy)
    const store = sqliteStore(copy, { pagesMax: base + pages })
    const world = await createWorld({ store, populated: false, startMs: Date.UTC(2026, 1), seed: 2 })
    const open = new Set<string>()
    const ask = { action: 'APPROVE', payload: { item: 'a plan', details: { why: 'w'.repeat(1_500) } } }
    for (let at = 'asking', n = 0; ; n++)
      try {
        at = 'asking'
        const { request } = await world.call('devin', 'execution/request.create', ask)
        open.add(request.id)
        if (n % 2 === 0) continue
        at = 'answering'
        await world.call('alice', 'execution/request.resolve', { request_id: request.id, result: 'approved' })
        open.delete(request.id)
      } catch (error) {
        assert.equal((error as Refusal).code, 'UNAVAILABLE', String(error))
        refusedAt.add(at)
        break
      }
    const examination = createExamination({ store })
    while (!(await examination.next(1_000, Date)));
    assert.deepEqual(examination.found(), [])
    const { items } = await world.call('alice', 'execution/inbox.list', { limit: 100 })
    assert.deepEqual(new Set(items.map(({ request_id }: { request_id: string }) => request_id)), open)
    await store.close()
    rmSync(copy)
  }
  assert.deepEqual([...refusedAt].toSorted(), ['answering', 'asking'])
})
