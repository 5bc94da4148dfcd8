// Tampering with a data folder while its server is stopped: each kind is found and named, and the server never acts on, shows or signs a
// document that differs from the record.
import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test, type TestContext } from 'node:test'
import { examineFolder } from '#apps/cli/remote/examine-folder.ts'
import { keysIn, ringFile } from '#apps/server/folder/key-files.ts'
import { hashOf, digestOf } from '#kernel/log/hash-chain.ts'
import { newRing } from '#workers/keys/key-ring.ts'
import { inProcess } from '../support/as-processes/cli.ts'
import { createCaller, startServer, type Answer } from '../support/as-processes/server.ts'
import { runToEnd, start } from '../support/as-processes/server-process.ts'
import { BYTES, inDatabase, makeFolder, type Made } from '../support/faults/tampering.ts'

let made: Made
before(async () => {
  made = await makeFolder()
})
after(() => made.remove())

const rows = (db: DatabaseSync, sql: string, ...args: (string | number)[]): any[] => db.prepare(sql).all(...args)
const row = (db: DatabaseSync, sql: string, ...args: (string | number)[]): any => db.prepare(sql).get(...args)
const newest = (db: DatabaseSync, like: string): any =>
  row(
    db,
    'SELECT d.key, d.version, d.image, i.text, i.salt, i.position FROM docs d JOIN images i ON i.id = d.image WHERE d.key LIKE ?',
    like,
  )
const factAt = (db: DatabaseSync, position: number): any => row(db, 'SELECT * FROM facts WHERE position = ?', position)
/** A text of its own for a document that a fact describes. */
const beside = (db: DatabaseSync, like: string, change: (text: string) => string): void => {
  const { key, text } = newest(db, like)
  assert.notEqual(change(text), text)
  db.prepare('UPDATE docs SET text = ? WHERE key = ?').run(change(text), key)
}
const rewritten = (db: DatabaseSync, position: number, change: (line: string) => string): void => {
  const line = change(factAt(db, position).line)
  db.prepare('UPDATE facts SET line = ?, hash = ? WHERE position = ?').run(line, hashOf(line), position)
}
const middle = (db: DatabaseSync): number => row(db, "SELECT position FROM facts WHERE scope = 'project_default' AND seq = 8").position
const put = (db: DatabaseSync, like: string): any => row(db, 'SELECT * FROM docs WHERE image IS NULL AND key LIKE ?', like)
const forgedPut = (db: DatabaseSync, like: string, from: string | RegExp, to: string): void => {
  const { key, text } = put(db, like)
  assert.notEqual(text.replace(from, to), text)
  db.prepare('UPDATE docs SET text = ? WHERE key = ?').run(text.replace(from, to), key)
}

type Kind = { readonly name: string; readonly named: RegExp; apply(db: DatabaseSync, folder: string): unknown }
const sql = (name: string, named: RegExp, text: string): Kind => ({
  name,
  named,
  apply: (db) => assert.ok(Number(db.prepare(text).run().changes) > 0, 'there was nothing to change'),
})
/** The parts of an entry are kept apart by a zero character, at which SQL's own functions end. */
const entryAdded = (db: DatabaseSync, prefix: string, from: string, to: string): void => {
  const found = rows(db, 'SELECT entry FROM entries').find(({ entry }) => entry.startsWith(prefix) && entry.includes(from))
  db.prepare('INSERT INTO entries VALUES (?)').run(found.entry.replace(from, to))
}
const kinds: readonly Kind[] = [
  // Facts
  {
    name: 'a line',
    named: /number 8: the line does not match its hash/,
    apply: (db) =>
      db.prepare("UPDATE facts SET line = replace(line, 'project_default', 'project_other') WHERE position = ?").run(middle(db)),
  },
  {
    name: 'a line with its hash',
    named: /does not follow/,
    apply: (db) => rewritten(db, middle(db), (line) => line.replace('"behalf":"agent_devin"', '"behalf":"user_rob"')),
  },
  {
    name: 'a hash',
    named: /does not match its hash/,
    apply: (db) => db.prepare("UPDATE facts SET hash = 'other' WHERE position = ?").run(middle(db)),
  },
  {
    name: 'the actor that a fact is filed under',
    named: /filed under another/,
    apply: (db) => db.prepare("UPDATE facts SET actor = 'user_rob' WHERE position = ?").run(middle(db)),
  },
  {
    name: 'the time that a fact is filed under',
    named: /filed under another/,
    apply: (db) => db.prepare("UPDATE facts SET at = '2020-01-01T00:00:00.000Z' WHERE position = ?").run(middle(db)),
  },
  {
    name: 'the task that a fact is filed under',
    named: /filed under another/,
    apply: (db) => db.prepare("UPDATE facts SET task = 'task_other' WHERE position = ?").run(middle(db)),
  },
  {
    name: 'the number of a fact',
    named: /does not follow number/,
    apply: (db) => db.prepare('UPDATE facts SET seq = 9999 WHERE position = ?').run(middle(db)),
  },
  {
    name: 'the project of a fact',
    named: /does not follow number/,
    apply: (db) => db.prepare("UPDATE facts SET scope = 'project_other' WHERE position = ?").run(middle(db)),
  },
  {
    name: 'the position of a fact',
    named: /are missing/,
    apply: (db) => db.prepare('UPDATE facts SET position = 99999 WHERE position = ?').run(middle(db)),
  },
  {
    name: 'a fact is deleted',
    named: /the facts at positions/,
    apply: (db) => db.prepare('DELETE FROM facts WHERE position = ?').run(middle(db)),
  },
  {
    name: 'a fact is deleted and the gap closed',
    named: /does not follow number/,
    apply(db) {
      const position = middle(db)
      db.prepare('DELETE FROM images WHERE position = ?').run(position)
      db.prepare('DELETE FROM facts WHERE position = ?').run(position)
      db.exec(
        `UPDATE facts SET position = position - 1 WHERE position > ${position}; UPDATE images SET position = position - 1 WHERE position > ${position}`,
      )
    },
  },
  {
    name: 'a fact is added at the end of a chain',
    named: /an image is missing|belongs to another place/,
    apply(db) {
      const { seq } = row(db, "SELECT max(seq) AS seq FROM facts WHERE scope = 'project_default'")
      const { position } = row(db, 'SELECT max(position) AS position FROM facts')
      db.prepare(
        `INSERT INTO facts SELECT ${position + 1}, scope, ${seq + 1}, at, actor, task, root, hash, line FROM facts WHERE position = ?`,
      ).run(middle(db))
    },
  },
  // Seals
  sql(
    'the tag of a seal',
    /the seal of its group was changed/,
    "UPDATE seals SET tag = 'other' WHERE last = (SELECT min(last) FROM seals)",
  ),
  sql(
    'the seal before a seal',
    /the seal of its group was changed/,
    "UPDATE seals SET before = 'other' WHERE last = (SELECT max(last) FROM seals)",
  ),
  sql(
    'a seal is deleted',
    /does not follow the one before it/,
    'DELETE FROM seals WHERE last = (SELECT min(last) FROM seals WHERE last > 5)',
  ),
  sql('the last seal is deleted', /it has no seal/, 'DELETE FROM seals WHERE last = (SELECT max(last) FROM seals)'),
  sql(
    'a seal is added behind the last',
    /the seal of positions \d+ to \d+ was changed/,
    "INSERT INTO seals SELECT last + 1, last + 1, tag, substr(hashes, 1, 43), 'other' FROM seals ORDER BY last DESC LIMIT 1",
  ),
  sql(
    'a fact stands before the first',
    /it is at position 0, before the first/,
    "INSERT INTO facts SELECT 0, 'system', 9999, at, actor, task, root, hash, line FROM facts WHERE position = 1",
  ),
  {
    name: 'a line with its hash and everything behind it',
    named: /it is not the fact that was sealed at its position/,
    apply(db) {
      const chain = rows(db, "SELECT position FROM facts WHERE scope = 'project_default' AND seq >= 8 ORDER BY seq")
      let [before, after] = ['', '']
      for (const { position } of chain) {
        const old = factAt(db, position).hash
        rewritten(db, position, (line) =>
          before === '' ? line.replace('"behalf":"agent_devin"', '"behalf":"user_rob"') : line.replace(before, after),
        )
        ;[before, after] = [old, factAt(db, position).hash]
      }
    },
  },
  {
    name: 'two facts are exchanged',
    named: /belongs to another place/,
    apply(db) {
      const [a, b] = [factAt(db, middle(db)), factAt(db, middle(db) + 1)]
      const set = db.prepare('UPDATE facts SET hash = ?, line = ? WHERE position = ?')
      set.run(a.hash, a.line, b.position)
      set.run(b.hash, b.line, a.position)
    },
  },
  sql(
    'the end of the record is cut off',
    /ends before position \d+, which was verified before/,
    'DELETE FROM facts WHERE position > (SELECT max(position) - 3 FROM facts)',
  ),
  {
    name: 'the end is cut off with its images and documents',
    named: /ends before position \d+, which was verified before/,
    apply(db) {
      const { position } = row(db, 'SELECT max(position) AS position FROM facts')
      for (const { key, previous, version } of rows(db, 'SELECT * FROM images WHERE position = ?', position)) {
        if (previous === null) db.prepare('DELETE FROM docs WHERE key = ?').run(key)
        else db.prepare('UPDATE docs SET image = ?, version = ? WHERE key = ?').run(previous, version - 1, key)
      }
      db.exec(`DELETE FROM images WHERE position = ${position}; DELETE FROM facts WHERE position = ${position}`)
    },
  },
  {
    name: 'a whole chain is gone, with everything of it',
    named: /project_blue.*(verified before)|positions \d+ to \d+ are missing/,
    apply(db) {
      for (const { position } of rows(db, "SELECT position FROM facts WHERE scope = 'project_blue'")) {
        for (const { key } of rows(db, 'SELECT key FROM images WHERE position = ?', position))
          db.prepare('DELETE FROM docs WHERE key = ?').run(key)
        db.exec(`DELETE FROM images WHERE position = ${position}; DELETE FROM facts WHERE position = ${position}`)
      }
    },
  },
  {
    name: 'the last fact of a chain with its image and its hash',
    named: /project_blue.*is not the fact that was verified before/,
    apply(db) {
      const last = row(db, "SELECT * FROM facts WHERE scope = 'project_blue' ORDER BY seq DESC LIMIT 1")
      const image = row(db, 'SELECT * FROM images WHERE position = ? ORDER BY id LIMIT 1', last.position)
      const text = image.text.replace('Paint it', 'Burn it')
      db.prepare('UPDATE images SET text = ? WHERE id = ?').run(text, image.id)
      rewritten(db, last.position, (line) => line.replace(digestOf(image.salt, image.text), digestOf(image.salt, text)))
    },
  },
  // Images
  {
    name: 'the newest image of a document',
    named: /identity.user\/user_alice.*(digest|was changed)/,
    apply: (db) =>
      db
        .prepare('UPDATE images SET text = replace(text, \'"member"\', \'"owner"\') WHERE id = ?')
        .run(newest(db, 'identity.user/user_alice').image),
  },
  {
    name: 'an old image',
    named: /was changed/,
    apply: (db) =>
      db
        .prepare("UPDATE images SET text = replace(text, 'goal', 'gaol') WHERE key = ? AND version = 1")
        .run(`collaboration.task/${made.task}`),
  },
  {
    name: 'the salt of an image',
    named: /was changed|digest/,
    apply: (db) => db.prepare("UPDATE images SET salt = 'other' WHERE key = ? AND version = 2").run(`collaboration.task/${made.task}`),
  },
  {
    name: 'the version of an image',
    named: /was exchanged|newest image/,
    apply: (db) => db.prepare('UPDATE images SET version = 99 WHERE key = ? AND version = 2').run(`collaboration.task/${made.task}`),
  },
  {
    name: 'the document of an image',
    named: /was exchanged/,
    apply: (db) =>
      db.prepare("UPDATE images SET key = 'collaboration.task/other' WHERE key = ? AND version = 2").run(`collaboration.task/${made.task}`),
  },
  {
    name: 'the fact of an image',
    named: /an image is missing/,
    apply: (db) => db.prepare('UPDATE images SET position = 1 WHERE key = ? AND version = 2').run(`collaboration.task/${made.task}`),
  },
  {
    name: 'the pointer to the image before',
    named: /does not lead to the one before/,
    apply: (db) => db.prepare('UPDATE images SET previous = 1 WHERE key = ? AND version = 3').run(`collaboration.task/${made.task}`),
  },
  {
    name: 'a pointer before the first image',
    named: /does not lead to the one before/,
    apply: (db) => db.prepare('UPDATE images SET previous = 1 WHERE key = ? AND version = 1').run(`collaboration.task/${made.task}`),
  },
  {
    name: 'the content of an old image is gone',
    named: /is gone, and no erasure/,
    apply: (db) => db.prepare('UPDATE images SET text = NULL WHERE key = ? AND version = 1').run(`collaboration.task/${made.task}`),
  },
  {
    name: 'the content of the newest image is gone',
    named: /is gone, and no erasure/,
    apply: (db) => db.prepare('UPDATE images SET text = NULL WHERE id = ?').run(newest(db, 'collaboration.task/%').image),
  },
  {
    name: 'an image is deleted',
    named: /an image is missing/,
    apply: (db) => db.prepare('DELETE FROM images WHERE key = ? AND version = 2').run(`collaboration.task/${made.task}`),
  },
  {
    name: 'an image is added',
    named: /newest image|was added/,
    apply: (db) =>
      db
        .prepare(
          'INSERT INTO images SELECT 99999, position, key, version + 50, previous, salt, text FROM images WHERE key = ? AND version = 1',
        )
        .run(`collaboration.task/${made.task}`),
  },
  {
    name: 'two images are exchanged',
    named: /was changed/,
    apply(db) {
      const [a, b] = rows(db, 'SELECT * FROM images WHERE key = ? ORDER BY version LIMIT 2', `collaboration.task/${made.task}`)
      const set = db.prepare('UPDATE images SET salt = ?, text = ? WHERE id = ?')
      set.run(a.salt, a.text, b.id)
      set.run(b.salt, b.text, a.id)
    },
  },
  // Documents that facts describe
  {
    name: 'the role of a person',
    named: /identity.user\/user_alice: a sealed image has a plain text beside/,
    apply: (db) =>
      beside(db, 'identity.user/user_alice', (text) =>
        text.replace('"member","seal', '"owner"').replace('"role":"member"', '"role":"owner"'),
      ),
  },
  {
    name: 'a revoked key',
    named: /identity.key\/\S+: a sealed image has a plain text beside/,
    apply: (db) => beside(db, `identity.key/${made.revoked.id}`, (text) => text.replace(/"revoked_at":"[^"]+"/, '"revoked_at":null')),
  },
  {
    name: 'the answer to a request',
    named: /execution.request\/\S+: a sealed image has a plain text beside/,
    apply: (db) => beside(db, `execution.request/${made.answered}`, (text) => text.replaceAll('"no"', '"yes"')),
  },
  {
    name: 'the question that an approver sees',
    named: /collaboration.checkpoint\/\S+: a sealed image has a plain text beside/,
    apply: (db) =>
      beside(db, `collaboration.checkpoint/${made.waiting.checkpoint}`, (text) =>
        text.replace('Deploy to production?', 'Water the plants?'),
      ),
  },
  {
    name: 'the name of a person',
    named: /identity.user\/user_alice: a sealed image has a plain text beside/,
    apply: (db) => beside(db, 'identity.user/user_alice', (text) => text.replace('Alice', 'Mallory')),
  },
  {
    name: 'the version of a document',
    named: /its row says version 77/,
    apply: (db) => db.exec("UPDATE docs SET version = 77 WHERE key = 'identity.user/user_alice'"),
  },
  {
    name: 'a document is set back to an earlier image',
    named: /does not name its newest image/,
    apply: (db) =>
      db
        .prepare('UPDATE docs SET image = (SELECT previous FROM images WHERE id = docs.image) WHERE key = ?')
        .run(`identity.key/${made.revoked.id}`),
  },
  {
    name: 'a document is set back to an earlier image and version',
    named: /does not name its newest image/,
    apply: (db) =>
      db
        .prepare('UPDATE docs SET version = version - 1, image = (SELECT previous FROM images WHERE id = docs.image) WHERE key = ?')
        .run(`identity.key/${made.revoked.id}`),
  },
  {
    name: 'a document names no image and has a text',
    named: /its row names no image/,
    apply: (db) => db.exec("UPDATE docs SET image = NULL, text = '{}' WHERE key = 'identity.user/user_alice'"),
  },
  sql(
    'the row of a document is deleted',
    /identity.user\/user_alice: its row is missing/,
    "DELETE FROM docs WHERE key = 'identity.user/user_alice'",
  ),
  sql('a row of an unknown kind is added', /there is no such kind/, "INSERT INTO docs VALUES ('evil.thing/one', 1, NULL, '{}', '')"),
  sql(
    'a person is added',
    /user_evil: its tag does not fit/,
    "INSERT INTO docs SELECT 'identity.user/user_evil', 1, NULL, replace(i.text, 'alice', 'evil'), '' FROM docs d JOIN images i ON i.id = d.image WHERE d.key = 'identity.user/user_alice'",
  ),
  // Documents that no fact describes
  {
    name: 'a remembered answer',
    named: /kernel.reply\/\S+: its tag does not fit/,
    apply: (db) => forgedPut(db, 'kernel.reply/%', /"at":"2/, '"at":"3'),
  },
  {
    name: 'an errand',
    named: /kernel.errand\/\S+: its tag does not fit/,
    apply: (db) => forgedPut(db, 'kernel.errand/%', '"call":"', '"call":"x'),
  },
  {
    name: 'the time of an errand',
    named: /kernel.errand\/\S+: its tag does not fit/,
    apply: (db) => forgedPut(db, 'kernel.errand/%', /"at":"2/, '"at":"3'),
  },
  sql('the tag of a document', /its tag does not fit/, "UPDATE docs SET tag = 'other' WHERE key LIKE 'kernel.reply/%'"),
  sql(
    'a document that no fact describes moves to another key',
    /its tag does not fit/,
    "UPDATE docs SET key = key || 'x' WHERE key = (SELECT min(key) FROM docs WHERE key LIKE 'kernel.reply/%')",
  ),
  sql(
    'an errand is deleted',
    /the index names a missing document/,
    "DELETE FROM docs WHERE key = (SELECT min(key) FROM docs WHERE key LIKE 'kernel.errand/%')",
  ),
  // Indexes and counts
  sql(
    'an index entry is deleted',
    /the index lacks its entry/,
    "DELETE FROM entries WHERE entry = (SELECT min(entry) FROM entries WHERE entry LIKE 'collaboration.task.%')",
  ),
  {
    name: 'an index entry is added',
    named: /the index holds it, but its document does not/,
    apply: (db) => entryAdded(db, 'collaboration.task.party', 'user_alice', 'user_rob'),
  },
  sql(
    'the time at which something is due',
    /the index (holds it, but its document does not|lacks its entry)/,
    "UPDATE entries SET entry = replace(entry, '202', '302') WHERE entry = (SELECT min(entry) FROM entries WHERE entry LIKE '~due%')",
  ),
  sql(
    'a count',
    /entries are counted, but there are/,
    'UPDATE counts SET count = count + 5 WHERE prefix = (SELECT min(prefix) FROM counts)',
  ),
  sql(
    'a count is deleted',
    /its entries are not counted/,
    'DELETE FROM counts WHERE prefix = (SELECT min(prefix) FROM counts WHERE count > 0)',
  ),
  sql(
    'a tally',
    /documents are counted, but there are/,
    "UPDATE counts SET count = count + 5 WHERE prefix = (SELECT min(prefix) FROM counts WHERE prefix LIKE 'execution.request.trends%')",
  ),
  // Files
  {
    name: 'the signing ring',
    named: /keys\/signing.json: the record names keys that are not in it/,
    apply: (_, folder) => writeFileSync(ringFile(keysIn(folder)), JSON.stringify(newRing('2026-01-01T00:00:00.000Z'))),
  },
  {
    name: 'the server key',
    named: /keys\/server.key: it is/,
    apply: (_, folder) => writeFileSync(join(folder, 'keys/server.key'), `${Buffer.alloc(32, 7).toString('base64url')}\n`),
  },
  {
    name: 'the bytes of an artifact',
    named: /collaboration.upload\/\S+: the bytes of sha256:\S+ are others/,
    apply: (_, folder) => writeFileSync(blobIn(folder), BYTES.replace('these', 'other')),
  },
  {
    name: 'the bytes of an artifact are deleted',
    named: /collaboration.upload\/\S+: the bytes of sha256:\S+ are not there/,
    apply: (_, folder) => rmSync(blobIn(folder)),
  },
]

function blobIn(folder: string): string {
  const hex = made.checksum.slice('sha256:'.length)
  return join(folder, 'blobs', hex.slice(0, 2), hex.slice(2, 4), hex)
}
function tampered({ apply }: Pick<Kind, 'apply'>): string {
  const folder = made.copy()
  inDatabase(folder, (db) => apply(db, folder))
  return folder
}
const kind = (name: string): Kind => kinds.find((one) => one.name === name)!

test('an unchanged folder is in order', async () => {
  assert.deepEqual((await examineFolder(made.copy(), () => undefined)).found, [])
})

describe('each kind of change is found and named', () => {
  for (const one of kinds) {
    test(one.name, async () => {
      const { found } = await examineFolder(tampered(one), () => undefined)
      assert.match(found.map(({ what, how }) => `${what}: ${how}`).join('\n'), one.named)
    })
  }
})

test('audit verify and doctor name it and end with code 1; the end of a chain is compared with what was verified before', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'countersign-home-'))
  t.after(() => rmSync(home, { recursive: true, force: true }))
  const cli = inProcess({ home, env: { COUNTERSIGN_URL: 'http://127.0.0.1:9' } })
  const role = tampered(kind('the role of a person'))
  const all = await cli.run(['audit', 'verify', '--all', '--data', role])
  assert.equal(all.code, 1)
  assert.match(all.out, /✖ identity.user\/user_alice: a sealed image has a plain text beside it/)
  const doctor = await cli.run(['doctor', '--data', role])
  assert.equal(doctor.code, 1)
  assert.match(doctor.out, /✖ record +identity.user\/user_alice: a sealed image has a plain text beside it/)
  const cut = await cli.run(['audit', 'verify', '--data', tampered(kind('the end of the record is cut off'))])
  assert.equal(cut.code, 1)
  assert.match(cut.out, /which was verified before/)
  const gone = await cli.run(['audit', 'verify', '--all', '--data', tampered(kind('a whole chain is gone, with everything of it'))])
  assert.match(gone.out, /project_blue, number \d+: the record of this project ends before/)
})

// --- What a server does with it --------------------------------------------------------------------------------------------------

type Attacked = { call(bearer: string, operation: string, input: object): Promise<Answer>; port: number; health(): Promise<any> }
async function attacked(t: TestContext, one: Pick<Kind, 'apply'>): Promise<Attacked> {
  const server = await startServer(tampered(one))
  const { call, close } = createCaller(server.port)
  t.after(async () => {
    close()
    await server.end('SIGKILL')
  })
  const health = async (): Promise<any> => (await fetch(`http://127.0.0.1:${server.port}/health`)).json()
  return { call, port: server.port, health }
}
const isRefused = ({ status, body }: Answer): void => assert.deepEqual([status, body.error?.code], [503, 'RECORD_CHANGED'])

for (const name of ['the role of a person', 'the newest image of a document'])
  test(`a member does not become an owner by ${name}, no honest change seals it, and the server is not well`, async (t) => {
    const { call, health } = await attacked(t, kind(name))
    isRefused(await call(made.alice, 'identity/me.get', {}))
    isRefused(await call(made.alice, 'identity/user.add', { id: 'user_evil', name: 'Evil' }))
    isRefused(await call(made.admin, 'identity/user.update', { user_id: 'user_alice', name: 'Alice B.' }))
    const listed = await call(made.admin, 'identity/user.list', {})
    assert.equal(listed.status, 200, 'one document does not take the list away')
    assert.deepEqual(
      listed.body.items.map(({ id }: { id: string }) => id),
      ['user_owner'],
    )
    const { status, record } = await health()
    assert.deepEqual([status, record], ['degraded', 'changed'])
  })

for (const name of [
  'a revoked key',
  'a document is set back to an earlier image',
  'a document is set back to an earlier image and version',
])
  test(`a revoked key does not come back: ${name}`, async (t) => {
    const { call } = await attacked(t, kind(name))
    isRefused(await call(made.revoked.key, 'identity/me.get', {}))
    assert.equal((await call(made.alice, 'identity/me.get', {})).status, 200)
  })

test('a stored "no" does not become "yes": no receipt is signed for it, and no inbox shows it', async (t) => {
  const { call } = await attacked(t, kind('the answer to a request'))
  isRefused(await call(made.devin, 'execution/request.get', { request_id: made.answered }))
  const inbox = await call(made.alice, 'execution/inbox.list', {})
  assert.equal(inbox.status, 200)
  assert.ok(!JSON.stringify(inbox.body).includes(made.answered))
})

test('a running server names its findings to administrators of every project, and to no one else', async (t) => {
  const { call, port } = await attacked(t, kind('the answer to a request'))
  isRefused(await call(made.devin, 'execution/request.get', { request_id: made.answered }))
  const finding = { what: `execution.request/${made.answered}`, how: 'a sealed image has a plain text beside it' }
  const must = async (operation: string, input: object): Promise<any> => (await call(made.admin, operation, input)).body
  const keyOf = async (subject: string): Promise<string> => (await must('identity/key.issue', { subject })).key
  await must('identity/user.add', { id: 'user_bob', name: 'Bob', project_id: null })
  await must('identity/project.join', { project_id: 'project_blue', subject: 'user_bob', role: 'owner' })
  const told = async (key: string, project_id = 'project_blue'): Promise<unknown[]> => {
    const { body } = await call(key, 'collaboration/audit.verify', { project_id })
    return [body.valid, body.findings, body.findings_total]
  }
  assert.deepEqual(await told(made.admin), [true, [finding], 1])
  assert.deepEqual(await told(await keyOf('user_owner'), 'system'), [true, [finding], 1])
  assert.deepEqual(await told(await keyOf('user_bob')), [true, [], null])

  const home = mkdtempSync(join(tmpdir(), 'countersign-home-'))
  t.after(() => rmSync(home, { recursive: true, force: true }))
  const env = { COUNTERSIGN_URL: `http://127.0.0.1:${port}`, COUNTERSIGN_KEY: made.admin }
  const { code, out } = await inProcess({ home, env }).run(['audit', 'verify', '--all'])
  assert.equal(code, 1)
  assert.ok(out.endsWith(`✖ ${finding.what}: ${finding.how}\n`), out)
})

test('the question that an approver sees cannot be another one than the record has', async (t) => {
  const { call } = await attacked(t, kind('the question that an approver sees'))
  isRefused(await call(made.alice, 'collaboration/checkpoint.get', { checkpoint_id: made.waiting.checkpoint }))
  isRefused(await call(made.alice, 'collaboration/checkpoint.resolve', { checkpoint_id: made.waiting.checkpoint, action: 'approve' }))
})

test('an image whose content is gone is left out of lists, and the others are shown', async (t) => {
  const { call } = await attacked(t, kind('the content of the newest image is gone'))
  const { status, body } = await call(made.alice, 'collaboration/task.list', {})
  assert.equal(status, 200)
  assert.ok(body.items.length >= 2)
})

test('a forged index entry shows its document to no one', async (t) => {
  const { call } = await attacked(t, {
    apply: (db) => entryAdded(db, 'identity.key.subject', 'user_alice', 'user_owner'),
  })
  const { body } = await call(made.admin, 'identity/key.list', { subject: 'user_owner' })
  assert.deepEqual(body.items, [])
})

test('changed bytes break off, missing ones are refused with a message, and both are reported', async (t) => {
  const path = `/v1/collaboration/artifact.download?artifact_id=${made.artifact}`
  const headers = { authorization: `Bearer ${made.alice}` }
  const get = (port: number, range = {}): Promise<Response> =>
    fetch(`http://127.0.0.1:${port}${path}`, { headers: { ...headers, ...range } })
  const isKept = async (answer: Response): Promise<void> => {
    isRefused({ status: answer.status, body: await answer.json() })
    assert.deepEqual([answer.headers.get('etag'), answer.headers.get('content-disposition')], [null, null])
  }
  const changed = await attacked(t, kind('the bytes of an artifact'))
  await assert.rejects((await get(changed.port)).text(), 'the answer has begun, and breaks off')
  await isKept(await get(changed.port))
  assert.equal((await changed.health()).status, 'degraded')
  const short = await attacked(t, { apply: (_, folder) => writeFileSync(blobIn(folder), 'few bytes') })
  await isKept(await get(short.port))
  const part = await attacked(t, kind('the bytes of an artifact'))
  await isKept(await get(part.port, { range: 'bytes=40-60' }))
  const gone = await attacked(t, kind('the bytes of an artifact are deleted'))
  await isKept(await get(gone.port))
})

for (const name of [
  'the signing ring',
  'the server key',
  'the last fact of a chain with its image and its hash',
  'the end of the record is cut off',
])
  test(`there is no start with this changed: ${name}`, async (t) => {
    const { code, stderr } = await runToEnd(t, ['--port', '0', '--data', tampered(kind(name))])
    assert.equal(code, 1)
    assert.match(stderr, /is not the one that the record names|the record in \S+ was changed/)
  })

test('a server that runs finds it in its round, says it again at the next start, and is well again when it is mended', async (t) => {
  const folder = tampered(kind('an old image'))
  const first = await start(t, ['--data', folder, '--log', 'error'])
  const health = async (port: number): Promise<any> => (await fetch(`http://127.0.0.1:${port}/health`)).json()
  for (let i = 0; i < 600 && (await health(first.port)).status === 'ok'; i++) await new Promise((done) => setTimeout(done, 50))
  assert.equal((await health(first.port)).record, 'changed')
  assert.match(first.stderr(), /this differs from the record: project project_default, number 1: the image of collaboration.task/)
  await first.end()
  const second = await start(t, ['--data', folder, '--log', 'error'])
  assert.equal((await health(second.port)).status, 'degraded')
  assert.match(second.stderr(), /this differs from the record: project project_default, number 1/)
  await second.end()
})

test('counts that were changed by hand change no row of an inbox, and an examination names each of them and nothing else', async (t) => {
  let [wanted, changes]: [string[], number] = [[], 0]
  const changed = {
    apply(db: DatabaseSync) {
      wanted = rows(db, "SELECT entry FROM entries WHERE entry LIKE 'execution.request.open%'").map(({ entry }) => entry.split('\0').at(-1))
      changes = Number(db.prepare("UPDATE counts SET count = count + 7 WHERE prefix LIKE 'execution.request.%'").run().changes)
    },
  }
  const { found } = await examineFolder(tampered(changed), () => undefined)
  assert.ok(changes > 2)
  assert.equal(found.length, changes)
  for (const { what, how } of found) {
    assert.match(what, /^execution\.request\./)
    assert.match(how, /^\d+ (?:entries|documents) are counted, but there are \d+$/)
  }
  const { call } = await attacked(t, changed)
  const { items } = (await call(made.alice, 'execution/inbox.list', {})).body
  assert.ok(wanted.length > 0)
  assert.deepEqual(items.map(({ request_id }: { request_id: string }) => request_id).toSorted(), [...new Set(wanted)].toSorted())
})

// --- A folder of the format before -----------------------------------------------------------------------------------------------

const FIXTURES = join(import.meta.dirname, '../fixtures')
/** `format-1-stuck`: questions that wait for a person who was switched off, and in a pool that all people had left. */
function earlier(t: TestContext, name = 'format-1'): string {
  const root = mkdtempSync(join(tmpdir(), 'countersign-format-'))
  t.after(() => rmSync(root, { recursive: true, force: true }))
  cpSync(join(FIXTURES, name), join(root, 'data'), { recursive: true })
  return join(root, 'data')
}

test('a folder of format 1 is opened, works, and is in order afterwards', async (t) => {
  const folder = earlier(t)
  const { alice, revoked, waiting, answered, devin } = JSON.parse(readFileSync(join(folder, 'credentials.json'), 'utf8'))
  const server = await startServer(folder)
  const { call, close } = createCaller(server.port)
  assert.equal((await call(alice, 'collaboration/task.get', { task_id: waiting })).status, 200)
  assert.equal((await call(revoked, 'identity/me.get', {})).status, 401)
  const { body } = await call(devin, 'execution/request.get', { request_id: answered })
  assert.ok(JSON.stringify(body).includes('"no"'))
  assert.equal((await call(alice, 'collaboration/task.create', { spec: { goal: 'Go on' } })).status, 200)
  close()
  await server.end('SIGTERM')
  assert.deepEqual((await examineFolder(folder, () => undefined)).found, [])
})

test('timers of a folder of format 5 become times of their documents, and go off', async (t) => {
  const folder = earlier(t, 'format-5')
  const told = JSON.parse(readFileSync(join(folder, 'credentials.json'), 'utf8'))
  const server = await startServer(folder)
  const { call, close } = createCaller(server.port)
  const until = async (operation: string, input: object, is: (body: any) => boolean): Promise<void> => {
    for (let i = 0; !is((await call(told.alice, operation, input)).body); i++) {
      assert.ok(i < 200, `${operation} ${JSON.stringify(input)} does not change`)
      await new Promise((done) => setTimeout(done, 50))
    }
  }
  // All three were due since the folder was recorded.
  await until('collaboration/task.get', { task_id: told.late }, ({ task }) => task.overdue)
  await until('collaboration/checkpoint.get', { checkpoint_id: told.checkpoint }, ({ checkpoint }) => checkpoint.overdue)
  await until('execution/inbox.get', { request_id: told.request }, ({ item }) => item.overdue)
  assert.equal((await call(told.alice, 'collaboration/task.get', { task_id: told.far })).body.task.overdue, false)
  close()
  await server.end('SIGTERM')
  inDatabase(folder, (db) => {
    const left = db.prepare("SELECT entry FROM entries WHERE entry LIKE '~due%'").all() as { entry: string }[]
    const kinds = left.map(({ entry }) => entry.split('\0')[2]!.split('/')[0]!)
    assert.deepEqual(kinds.filter((kind) => kind === 'kernel.errand').length, 2, 'somebody stands in, and no more')
    assert.deepEqual(
      kinds.filter((kind) => kind !== 'kernel.errand'),
      ['collaboration.task'],
      'only the task of 2030 still waits for its time',
    )
    assert.deepEqual(db.prepare("SELECT key FROM docs WHERE key LIKE 'kernel.delivery/call/%'").all(), [])
  })
  assert.deepEqual((await examineFolder(folder, () => undefined)).found, [])
})

test('questions without a decider in a folder of format 1 are examined when it is opened', async (t) => {
  const folder = earlier(t, 'format-1-stuck')
  const told = JSON.parse(readFileSync(join(folder, 'credentials.json'), 'utf8'))
  const server = await startServer(folder)
  const { call, close } = createCaller(server.port)
  const found = async (as: string, name: string): Promise<any> => {
    for (let i = 0; i < 200; i++) {
      const { body } = await call(told[as], 'execution/request.get', { request_id: told[name] })
      if (body.request && (body.request.assigned_to !== 'user_alice' || body.request.status === 'failed')) return body.request
      await new Promise((done) => setTimeout(done, 50))
    }
    throw new Error(`${name} still waits for user_alice`)
  }
  assert.equal((await found('owner', 'plain')).assigned_to, 'user_owner')
  assert.equal((await found('owner', 'pooled')).assigned_to, 'user_owner')
  assert.equal((await found('rita', 'bound')).assigned_to, 'user_rita')
  assert.equal((await found('bob', 'quorum')).status, 'failed')
  const { body } = await call(told.owner, 'execution/request.inbox', { status: 'pending' })
  assert.deepEqual([body.requests.map(({ id }: any) => id), body.total], [[told.plain], 1])
  const stats = (await call(told.devin, 'execution/request.stats', {})).body
  assert.deepEqual([stats.total, stats.pending, stats.completed, stats.failed], [4, 2, 1, 1])
  close()
  await server.end('SIGTERM')
  assert.deepEqual((await examineFolder(folder, () => undefined)).found, [])
})

test('a document that was put into a folder of format 1 by hand is named and not sealed', async (t) => {
  const folder = earlier(t)
  inDatabase(folder, (db) => {
    const { key, text } = row(
      db,
      "SELECT d.key, i.text FROM docs d JOIN images i ON i.id = d.image WHERE d.key LIKE 'identity.user/%' LIMIT 1",
    )
    const forged = String(text).replaceAll(String(key).split('/')[1]!, 'user_evil')
    db.prepare("INSERT INTO docs (key, version, image, text) VALUES ('identity.user/user_evil', 1, NULL, ?)").run(forged)
  })
  const { code, stderr } = await runToEnd(t, ['--port', '0', '--data', folder])
  assert.equal(code, 1)
  assert.match(stderr, /not brought to format 2 .* identity.user\/user_evil: no fact describes it/)
})

test('a folder of format 1 in which a document differs is named and stays as it is', async (t) => {
  const folder = earlier(t)
  inDatabase(folder, (db) => beside(db, 'identity.user/user_alice', (text) => text.replace('"role":"member"', '"role":"owner"')))
  const { code, stderr } = await runToEnd(t, ['--port', '0', '--data', folder])
  assert.equal(code, 1)
  assert.match(stderr, /not brought to format 2 .* identity.user\/user_alice: a sealed image has a plain text beside it/)
  inDatabase(folder, (db) => assert.equal(row(db, 'PRAGMA user_version').user_version, 1))
  const forced = await start(t, ['--data', folder, '--skip-verify', '--log', 'error'])
  const { call, close } = createCaller(forced.port)
  const { alice } = JSON.parse(readFileSync(join(folder, 'credentials.json'), 'utf8'))
  isRefused(await call(alice, 'identity/me.get', {}))
  close()
  await forced.end()
})
