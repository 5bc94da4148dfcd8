// The record against itself: every way to change it that a chain can show is found, at the start and while the server runs.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { hashOf } from '#kernel/log/hash-chain.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Store } from '#kernel/log/store.ts'
import { sqliteStore } from '#stores/sqlite.ts'
import { NOTHING_VERIFIED, runVerifier, verifyNow, type Checked, type Marker } from '#workers/upkeep/record-verifier.ts'
import { manualClock } from '../support/in-process/manual-clock.ts'
import { alice, toyKernel } from '../support/in-process/toy.ts'

const silent = { debug() {}, info() {}, warn() {}, error() {} }
const never = new AbortController().signal
/** Sleeping takes no time. */
const instant = { now: Date.now, sleep: () => Promise.resolve() }

/** A store with `count` facts of two chains (denials go to the system's), closed again. */
async function recorded(t: TestContext, count: number): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'store.db')
  const store = sqliteStore(path)
  await write(store, count)
  await store.close()
  return path
}
async function write(store: Store, count: number): Promise<void> {
  const kernel = toyKernel(store)
  for (let i = 1; i <= count; i++) {
    if (i % 9 === 0) await kernel.call('toy/note.keep', { id: `new-${i}` }, alice).catch(() => undefined)
    else await kernel.call('toy/note.write', { id: `note-${i % 5}`, text: `text ${i}` }, alice)
  }
}
async function verified(path: string, from: Marker = NOTHING_VERIFIED, bounds: object = {}, clock: Clock = instant): Promise<Checked> {
  const store = sqliteStore(path)
  try {
    return await verifyNow(store, from, clock, never, bounds)
  } finally {
    await store.close()
  }
}
function tamper(path: string, change: (db: DatabaseSync) => void): void {
  const db = new DatabaseSync(path)
  change(db)
  db.close()
}
const factAt = (db: DatabaseSync, position: number) =>
  db.prepare('SELECT * FROM facts WHERE position = ?').get(position) as { scope: string; seq: number; line: string; hash: string }

test('an untouched record is in order, and the marker is at its last fact', async (t) => {
  const path = await recorded(t, 450)
  const { marker, difference } = await verified(path)
  assert.equal(difference, null)
  assert.equal(marker.position, 450)
})

const changes: Record<string, { what: RegExp; change(db: DatabaseSync): void }> = {
  'a changed line': {
    what: /does not match its hash/,
    change: (db) => db.exec(`UPDATE facts SET line = replace(line, 'note.written', 'note.WRITTEN') WHERE position = 5`),
  },
  'a changed line with a new hash': {
    what: /not the fact that was sealed at its position/,
    change(db) {
      const line = factAt(db, 5).line.replace('user_alice', 'user_robin')
      db.prepare(`UPDATE facts SET line = ?, hash = ?, actor = 'user_robin' WHERE position = 5`).run(line, hashOf(line))
    },
  },
  'a line that is not JSON, with a fitting hash': {
    what: /cannot be read/,
    change: (db) => db.prepare('UPDATE facts SET line = ?, hash = ? WHERE position = 5').run('nonsense', hashOf('nonsense')),
  },
  'a deleted fact': { what: /are missing/, change: (db) => db.exec('DELETE FROM facts WHERE position = 5') },
  'a deleted fact with the gap closed': {
    what: /does not follow number 5/,
    change: (db) =>
      db.exec(`DELETE FROM images WHERE position = 5; DELETE FROM facts WHERE position = 5;
        UPDATE images SET position = position - 1 WHERE position > 5; UPDATE facts SET position = position - 1 WHERE position > 5`),
  },
  'two facts exchanged': {
    what: /belongs to another place/,
    change(db) {
      const [a, b] = [factAt(db, 5), factAt(db, 6)]
      const update = db.prepare('UPDATE facts SET line = ?, hash = ? WHERE position = ?')
      update.run(b.line, b.hash, 5)
      update.run(a.line, a.hash, 6)
    },
  },
  'a changed image': {
    what: /image of toy.note\/note-0 was changed/,
    change: (db) => db.exec(`UPDATE images SET text = replace(text, 'text 5', 'TEXT 5') WHERE position = 5`),
  },
  'a fact filed under somebody else': {
    what: /filed under another time, actor or task/,
    change: (db) => db.exec(`UPDATE facts SET actor = 'user_robin' WHERE position = 5`),
  },
  'a removed image': { what: /image is missing/, change: (db) => db.exec('DELETE FROM images WHERE position = 5') },
  'an added image': {
    what: /missing or was added/,
    change: (db) =>
      db.exec(`INSERT INTO images SELECT 1000, position, key, version + 100, previous, salt, text FROM images WHERE position = 5`),
  },
  'an image moved to another document': {
    what: /was exchanged/,
    change: (db) => db.exec(`UPDATE images SET key = 'toy.note/other' WHERE position = 5`),
  },
}

for (const [name, { what, change }] of Object.entries(changes)) {
  test(`${name} is found and named`, async (t) => {
    const path = await recorded(t, 12)
    tamper(path, change)
    const { difference, marker } = await verified(path)
    assert.match(difference?.what ?? 'nothing', what)
    assert.equal(difference?.scope, 'project_toy')
    assert.ok(marker.position < 7)
  })
}

test('an image whose content is gone is a difference as long as no erasure is on the record', async (t) => {
  const path = await recorded(t, 12)
  tamper(path, (db) => db.exec('UPDATE images SET text = NULL WHERE position = 2'))
  assert.match((await verified(path)).difference?.what ?? '', /is gone, and no erasure is on the record/)
})

test('a verified stretch is compared with the marker instead of being verified again', async (t) => {
  const path = await recorded(t, 12)
  const { marker } = await verified(path)
  tamper(path, changes['a changed image']!.change)
  assert.equal((await verified(path, marker)).difference, null, 'history is a command of its own')
  tamper(path, (db) => db.exec(`UPDATE facts SET hash = 'other' WHERE position = 12`))
  assert.match((await verified(path, marker)).difference!.what, /not the fact that was verified before/)
})

test('a record that ends before the marker was cut', async (t) => {
  const path = await recorded(t, 12)
  const { marker } = await verified(path)
  tamper(path, (db) => db.exec('DELETE FROM images WHERE position > 10; DELETE FROM facts WHERE position > 10'))
  assert.match((await verified(path, marker)).difference!.what, /ends before position 12/)
})

test('the first fact after the marker must follow its own chain', async (t) => {
  const path = await recorded(t, 12)
  const { hash } = await verified(path).then(({ marker }) => marker)
  const store = sqliteStore(path)
  await write(store, 3)
  await store.close()
  tamper(path, (db) => {
    const line = factAt(db, 13).line.replace(/"prev":"[^"]*"/, '"prev":"forged"')
    db.prepare('UPDATE facts SET line = ?, hash = ? WHERE position = 13').run(line, hashOf(line))
  })
  assert.match((await verified(path, { position: 12, hash })).difference!.what, /does not follow the one before/)
})

test('behind a long backlog the newest facts are verified at the start and the marker waits for the rest', async (t) => {
  const path = await recorded(t, 30)
  tamper(path, changes['a changed line']!.change)
  const first = await verified(path, NOTHING_VERIFIED, { factsMax: 10 })
  assert.equal(first.difference, null)
  assert.deepEqual(first.marker, NOTHING_VERIFIED)
  tamper(path, (db) => db.exec(`UPDATE facts SET line = replace(line, 'note.written', 'note.WRITTEN') WHERE position = 25`))
  assert.match((await verified(path, NOTHING_VERIFIED, { factsMax: 10 })).difference!.what, /does not match its hash/)
})

test('a start waits only so long: what it did not come to is left to the server that runs', async (t) => {
  const path = await recorded(t, 700)
  let now = 0
  const slow = { ...instant, now: () => (now += 100) }
  const { marker, difference } = await verified(path, NOTHING_VERIFIED, { msMax: 250 }, slow)
  assert.equal(difference, null)
  assert.equal(marker.position, 400, 'two slices')
})

/** A verifier over the store of a file, with what it saved and told. */
function watched(path: string, from: Marker = NOTHING_VERIFIED) {
  const store = sqliteStore(path)
  const clock = manualClock()
  const saved: Marker[] = []
  const told: string[] = []
  const log = { ...silent, error: (_: object, message: string) => void told.push(message) }
  const file = { read: () => Promise.resolve(null), write: (marker: Marker) => Promise.resolve(void saved.push(marker)) }
  return { store, clock, saved, told, verifier: runVerifier(store, from, file, clock, log) }
}

test('behind a backlog the record is being verified, until what was there at the start is; what comes later does not change that', async (t) => {
  const path = await recorded(t, 700)
  const { verifier, store, clock } = watched(path)
  assert.equal(verifier.record(), 'verifying')
  await clock.advance(100)
  assert.equal(verifier.record(), 'verifying')
  await write(store, 100)
  await clock.advance(10_000)
  assert.equal(verifier.record(), 'verified')
  await write(store, 50)
  assert.equal(verifier.record(), 'verified', 'these were sealed by this very process')
  tamper(path, (db) =>
    db.exec(`UPDATE facts SET line = replace(line, 'note.written', 'note.WRITTEN') WHERE position = (SELECT max(position) FROM facts)`),
  )
  await clock.advance(10_000)
  assert.equal(verifier.record(), 'changed')
  await verifier.stop()
  await store.close()
})

test('on an idle server it rests less', async (t) => {
  const rests = async (writes: boolean, isBusy: boolean): Promise<number> => {
    const path = await recorded(t, 700)
    const store = sqliteStore(path)
    const slept: number[] = []
    let now = 0
    // Each look at this clock is 10 ms later than the last one, so that a slice takes 10 ms.
    const clock: Clock = {
      now: () => (now += 10),
      async sleep(ms) {
        slept.push(ms)
        if (writes) await write(store, 1)
      },
    }
    const file = { read: () => Promise.resolve(null), write: () => Promise.resolve() }
    const verifier = runVerifier(store, NOTHING_VERIFIED, file, clock, silent, undefined, undefined, () => () => isBusy)
    while (slept.length < 3) await new Promise((done) => setImmediate(done))
    await verifier.stop()
    await store.close()
    return slept[1]!
  }
  assert.equal(await rests(false, false), 100)
  assert.equal(await rests(true, false), 1_000)
  assert.equal(await rests(false, true), 1_000, 'those who only read are not held up either')
})

test('a stop verifies the rest, so that the next start has nothing to do, and reports its findings', async (t) => {
  const path = await recorded(t, 0)
  const first = watched(path)
  await first.clock.advance(100)
  await write(first.store, 450)
  await first.verifier.stop()
  await first.store.close()
  assert.equal(first.saved.at(-1)?.position, 450)
  const second = watched(path, first.saved.at(-1))
  await second.clock.advance(100)
  await write(second.store, 20)
  tamper(path, (db) => db.exec(`UPDATE facts SET line = replace(line, 'note.written', 'note.WRITTEN') WHERE position = 460`))
  await second.verifier.stop()
  await second.store.close()
  assert.equal(second.saved.at(-1)?.position, 459)
  assert.match(second.told.join(), /the record was changed/)
})

test('the marker of a running server follows the record in slices, and the verifier reports a change', async (t) => {
  const path = await recorded(t, 0)
  const { verifier, store, clock, saved, told } = watched(path)
  await write(store, 450)
  await clock.advance(6_000)
  assert.equal(verifier.state().marker.position, 450)
  assert.equal(saved.at(-1)?.position, 450)
  assert.ok(clock.sleeps >= 3, 'it rests between slices')
  await write(store, 20)
  tamper(path, (db) => db.exec(`UPDATE facts SET line = replace(line, 'note.written', 'note.WRITTEN') WHERE position = 455`))
  await clock.advance(6_000)
  assert.equal(verifier.state().difference?.seq, factSeq(path, 455))
  assert.match(told.join(), /the record was changed/)
  await verifier.stop()
  await store.close()
  assert.equal(saved.at(-1)?.position, 454)
})
function factSeq(path: string, position: number): number {
  const db = new DatabaseSync(path, { readOnly: true })
  const { seq } = factAt(db, position)
  db.close()
  return seq
}
