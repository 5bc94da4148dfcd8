// The log of a server: what it signs verifies by other means, its tiles are made again, and the start compares the record with it.
import assert from 'node:assert/strict'
import { createHash, createPublicKey, verify } from 'node:crypto'
import { cpSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { stopMark } from '#apps/server/record-log/files.ts'
import { rotateLogKey } from '#apps/server/record-log/key.ts'
import { keysIn } from '#apps/server/folder/key-files.ts'
import { taggerOf } from '#workers/keys/notary.ts'
import { logFolder, serve, type LogLines, type Served } from '../../../support/log/served.ts'

const sha = (...parts: readonly (string | Uint8Array)[]): Buffer => {
  const running = createHash('sha256')
  for (const part of parts) running.update(part)
  return running.digest()
}

/** RFC 6962, by its definition alone. */
function rootByHand(entries: readonly Uint8Array[]): Buffer {
  if (entries.length === 1) return sha(Uint8Array.of(0), entries[0]!)
  let split = 1
  while (split * 2 < entries.length) split *= 2
  return sha(Uint8Array.of(1), rootByHand(entries.slice(0, split)), rootByHand(entries.slice(split)))
}

/** The hashes of all facts by position, from the database itself. */
function entriesOf(folder: string): Buffer[] {
  const db = new DatabaseSync(join(folder, 'countersign.db'), { readOnly: true })
  const rows = db.prepare('SELECT hash FROM facts ORDER BY position').all() as { hash: string }[]
  db.close()
  return rows.map(({ hash }) => Buffer.from(hash, 'base64url'))
}

/** Ed25519 over the signed text, by the words of C2SP alone. */
function isSignedBy(note: string, vkey: string): boolean {
  const [, name, , encoded] = /^(.+)\+([0-9a-f]{8})\+(.+)$/.exec(vkey)!
  const key = Buffer.from(encoded!, 'base64')
  const cut = note.lastIndexOf('\n\n')
  const line = note
    .slice(cut + 2)
    .split('\n')
    .find((found) => found.startsWith(`\u2014 ${name} `))!
  const signature = Buffer.from(line.split(' ')[2]!, 'base64').subarray(4)
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: key.subarray(1).toString('base64url') }
  return verify(null, Buffer.from(note.slice(0, cut + 1)), createPublicKey({ key: jwk, format: 'jwk' }), signature)
}
const vkeyOf = async (served: Served): Promise<string> => /^log (\S+)\n/.exec(await served.text('/log/policy'))![1]!
const sizeIn = (note: string): number => Number(note.split('\n')[1])

const EVERY = ['--log-every', 'PT0.1S']
async function addProjects(served: Served, count: number, from = 0): Promise<void> {
  const ids = Array.from({ length: count }, (_, i) => `project_p${from + i}`)
  const answers = await Promise.all(ids.map((id) => served.call('identity/project.add', { id, name: 'P' })))
  for (const { status } of answers) assert.equal(status, 200)
}

async function stoppedFolder(t: TestContext, count = 5): Promise<string> {
  const folder = logFolder(t)
  const served = await serve(folder, EVERY)
  await addProjects(served, count)
  await served.covered()
  await served.stop()
  return folder
}

test('the served checkpoint has the root of all facts and a signature of the key in the policy, checked without our code', async (t) => {
  const folder = logFolder(t)
  const served = await serve(folder, [...EVERY, '--log-origin', 'greenhouse.example/log'])
  await addProjects(served, 3)
  const note = await served.covered()
  const entries = entriesOf(folder)
  assert.equal(note.split('\n\n')[0], `greenhouse.example/log\n${entries.length}\n${rootByHand(entries).toString('base64')}`)
  const vkey = await vkeyOf(served)
  assert.equal(isSignedBy(note, vkey), true)
  assert.equal(isSignedBy(note.replace(/\n\d+\n/, '\n999\n'), vkey), false)
  const [, id, key] = vkey.split('+')
  assert.equal(
    sha(`greenhouse.example/log\n`, Buffer.from([key, ...vkey.split('+').slice(3)].join('+'), 'base64'))
      .toString('hex')
      .slice(0, 8),
    id,
  )
  const { log } = await served.health()
  assert.deepEqual(log, {
    origin: 'greenhouse.example/log',
    size: entries.length,
    signed: entries.length,
    witnessed: entries.length,
    witnesses: [],
  })
  const tile = Buffer.from(await (await served.get(`/log/tile/0/000.p/${entries.length}`)).arrayBuffer())
  assert.deepEqual(tile, Buffer.concat(entries.map((entry) => sha(Uint8Array.of(0), entry))))
  const shown = await served.get('/log/checkpoint')
  assert.deepEqual(
    [shown.headers.get('content-type'), shown.headers.get('access-control-allow-origin')],
    ['text/plain; charset=utf-8', '*'],
  )
  for (const path of [
    '/log/tile/0/001',
    '/log/tile/0/0',
    `/log/tile/0/000.p/${entries.length + 1}`,
    '/log/tile/9/000',
    '/log/nothing',
    '/log',
  ])
    assert.equal((await served.get(path)).status, 404, path)
  assert.equal((await fetch(`${served.url}/log/checkpoint`, { method: 'POST' })).status, 405)
})

test('a proof of an uncovered fact is signed immediately, and its text is a C2SP proof of the entry', async (t) => {
  const served = await serve(logFolder(t), ['--log-every', 'PT1H'])
  await served.covered()
  await addProjects(served, 2)
  const position = await served.server.kernel.store.position()
  assert.ok((await served.health()).log.signed < position, 'the interval has not passed')
  const proof = await served.call('collaboration/audit.proof', { project_id: 'system', seq: position })
  assert.deepEqual([proof.status, proof.index, proof.size], [200, position - 1, position])
  const [head, note] = [proof.text.slice(0, proof.text.indexOf('\n\n')), proof.text.slice(proof.text.indexOf('\n\n') + 2)]
  const [version, index, ...hashes] = head.split('\n')
  assert.deepEqual([version, index], ['c2sp.org/tlog-proof@v1', `index ${position - 1}`])
  assert.deepEqual([note, hashes], [proof.checkpoint, proof.proof])
  assert.equal(isSignedBy(note, await vkeyOf(served)), true)
  // RFC 9162, 2.1.3.2.
  let [fn, sn, root] = [position - 1, position - 1, sha(Uint8Array.of(0), sha(proof.line))]
  for (const hash of hashes) {
    const other = Buffer.from(hash, 'base64')
    if (fn % 2 === 1 || fn === sn) {
      root = sha(Uint8Array.of(1), other, root)
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [fn >> 1, sn >> 1]
    } else root = sha(Uint8Array.of(1), root, other)
    ;[fn, sn] = [fn >> 1, sn >> 1]
  }
  assert.equal(root.toString('base64'), note.split('\n')[2])
  const none = await served.call('collaboration/audit.proof', { project_id: 'system', seq: 1_000_000 })
  assert.deepEqual([none.status, none.error.code], [404, 'NOT_FOUND'])
})

test('with --log-public off the log is for owners and administrators', async (t) => {
  const folder = logFolder(t)
  const served = await serve(folder, [...EVERY, '--log-public', 'off'])
  await served.covered()
  assert.equal((await served.get('/log/checkpoint')).status, 401)
  const key = readFileSync(join(folder, 'admin.key'), 'utf8').trim()
  const shown = await served.get('/log/checkpoint', { authorization: `Bearer ${key}` })
  assert.deepEqual([shown.status, shown.headers.get('access-control-allow-origin')], [200, null])
  await served.call('identity/user.add', { id: 'user_member', name: 'M' })
  const { key: secret } = await served.call('identity/key.issue', { subject: 'user_member' })
  assert.equal((await served.get('/log/checkpoint', { authorization: `Bearer ${secret}` })).status, 403)
})

test('missing, cut and changed tiles are made again and named, at a start and for a proof', async (t) => {
  const folder = await stoppedFolder(t, 530)
  const tile = (n: string): string => join(folder, 'log', 'tile', '0', n)
  const whole = readFileSync(tile('000'))
  assert.deepEqual([whole.length, existsSync(tile('001')), existsSync(tile('002'))], [8_192, true, false])
  rmSync(tile('000'))
  const changed = readFileSync(tile('001'))
  changed[77]! ^= 1
  writeFileSync(tile('001'), changed)
  const lines: LogLines = []
  const served = await serve(folder, EVERY, lines)
  const named = (): string[] =>
    lines.filter(({ message }) => /made again/.test(message)).map(({ fields }) => (fields as { tile: string }).tile)
  assert.deepEqual(named().toSorted(), ['tile/0/000', 'tile/0/001'])
  assert.deepEqual(readFileSync(tile('000')), whole)
  assert.equal((await served.health()).record, 'verified')
  const note = await served.covered()
  assert.equal(note.split('\n')[2], rootByHand(entriesOf(folder)).toString('base64'))
  assert.equal((await served.get('/log/tile/0/000')).status, 200)
})

const refused = async (t: TestContext, folder: string, args: readonly string[] = []): Promise<string> =>
  serve(folder, [...EVERY, ...args]).then(
    () => assert.fail('the server started'),
    (error: Error) => `${error.name}: ${error.message}`,
  )

test('a start refuses a record that is shorter than the log, with another root, or longer than its clean stop', async (t) => {
  const folder = await stoppedFolder(t)
  const [later, other] = [logFolder(t), await stoppedFolder(t)]
  cpSync(folder, later, { recursive: true })
  const served = await serve(later, EVERY)
  await addProjects(served, 3, 50)
  await served.covered()
  await served.stop()
  const withDatabaseOf = (from: string, log: string): string => {
    const copy = logFolder(t)
    cpSync(from, copy, { recursive: true })
    rmSync(join(copy, 'log'), { recursive: true })
    cpSync(join(log, 'log'), join(copy, 'log'), { recursive: true })
    return copy
  }
  const shorter = withDatabaseOf(folder, later)
  assert.match(
    await refused(t, shorter),
    /StartError: RECORD_CHANGED: .*it ends at position \d+, and the log has signed \d+ facts: it was put back/,
  )
  const open = await serve(shorter, [...EVERY, '--skip-verify'])
  assert.deepEqual([(await open.health()).log, (await open.health()).record], [null, 'changed'])
  assert.match(
    (await open.call('collaboration/audit.proof', { project_id: 'system', seq: 1 })).error.message,
    /this server keeps no log now/,
  )
  await open.stop()
  const longer = withDatabaseOf(later, folder)
  assert.match(await refused(t, longer), /RECORD_CHANGED: .*and the last stop signed \d+ facts: no server of this folder wrote the rest/)
  // After a crash it may have grown.
  stopMark(longer).remove()
  await (await serve(longer, EVERY)).stop()
  // The same name and key over another record.
  const mixed = logFolder(t)
  cpSync(other, mixed, { recursive: true })
  cpSync(join(folder, 'log'), join(mixed, 'log'), { recursive: true })
  stopMark(mixed).remove()
  assert.match(await refused(t, mixed), /StartError: .*the last checkpoint of the log|RECORD_CHANGED/)
})

test('a record that was rewritten with every key of the server is found by its own log', async (t) => {
  const folder = await stoppedFolder(t, 300)
  rewrite(folder, 200)
  assert.match(
    await refused(t, folder),
    /RECORD_CHANGED: .*(the fact at position 200 is not the one|facts are not those) that the log has signed/,
  )
  // Without the tiles they are made from the record, and lead to another root.
  rmSync(join(folder, 'log', 'tile'), { recursive: true })
  assert.match(await refused(t, folder), /RECORD_CHANGED: .*its first \d+ facts are not those that the log has signed/)
})

/** Another actor in one line, with all hashes, seals and marks after it, as an operator with server.key can make them. */
function rewrite(folder: string, position: number): void {
  const key = Buffer.from(readFileSync(join(keysIn(folder), 'server.key'), 'utf8').trim(), 'base64url')
  const tag = taggerOf(key)
  const db = new DatabaseSync(join(folder, 'countersign.db'))
  const heads = new Map<string, string>()
  const hashes: string[] = []
  for (const fact of db.prepare('SELECT position, scope, line FROM facts ORDER BY position').all() as {
    position: number
    scope: string
    line: string
  }[]) {
    const sealed = JSON.parse(fact.line)
    const actor = fact.position === position ? 'service_other' : sealed.actor
    const line = fact.line
      .replace(`"actor":"${sealed.actor}"`, `"actor":"${actor}"`)
      .replace(`"prev":"${sealed.prev}"`, `"prev":"${heads.get(fact.scope) ?? ''}"`)
    const hash = createHash('sha256').update(line).digest('base64url')
    db.prepare('UPDATE facts SET line = ?, hash = ?, actor = ? WHERE position = ?').run(line, hash, actor, fact.position)
    heads.set(fact.scope, hash)
    hashes.push(hash)
  }
  let before = ''
  for (const { first, last } of db.prepare('SELECT first, last FROM seals ORDER BY last').all() as { first: number; last: number }[]) {
    const all = hashes.slice(first - 1, last).join('')
    const made = tag(`seal ${first} ${last} ${before} ${all}`)
    db.prepare('UPDATE seals SET hashes = ?, before = ?, tag = ? WHERE last = ?').run(all, before, made, last)
    before = made
  }
  db.close()
  for (const file of ['anchor.json', 'verified.json']) rmSync(join(folder, file), { force: true })
}

test('the name is fixed with the first fact, and another key is refused', async (t) => {
  const folder = await stoppedFolder(t)
  assert.match(
    await refused(t, folder, ['--log-origin', 'other.example/log']),
    /ConfigError: --log-origin is other.example\/log, and the log is called/,
  )
  const file = join(keysIn(folder), 'log.json')
  renameSync(file, `${file}.away`)
  assert.match(await refused(t, folder), /StartError: \S+log.json is missing\. Restore the folder keys/)
  cpSync(join(keysIn(await stoppedFolder(t)), 'log.json'), file)
  assert.match(await refused(t, folder), /keys\/log.json in \S+ is not the one that the record names/)
  renameSync(`${file}.away`, file)
  await (await serve(folder, EVERY)).stop()
})

test('a rotated key signs within seconds, and the record names it with the earlier one', async (t) => {
  const folder = logFolder(t)
  const served = await serve(folder, EVERY)
  await served.covered()
  const before = await vkeyOf(served)
  await rotateLogKey(keysIn(folder), Date.now())
  while ((await vkeyOf(served)) === before) await new Promise((done) => setTimeout(done, 50))
  await addProjects(served, 1)
  const note = await served.covered()
  assert.equal(isSignedBy(note, await vkeyOf(served)), true)
  const events = await served.call('collaboration/audit.query', { project_id: 'system', action: 'log.recorded' })
  assert.deepEqual(
    events.items.map(({ after }: any) => after.keys.length),
    [1, 2],
  )
  await served.stop()
  await (await serve(folder, EVERY)).stop()
})

for (const facts of [1, 70])
  test(`a restored backup that is ${facts} facts behind and was accepted begins another log, which names the last checkpoint of the one before`, async (t) => {
    const folder = await stoppedFolder(t)
    const backup = logFolder(t)
    cpSync(folder, backup, { recursive: true })
    const served = await serve(folder, EVERY)
    await addProjects(served, facts, 70)
    const last = await served.covered()
    await served.stop()
    for (const name of ['countersign.db', 'countersign.db-wal', 'countersign.db-shm', 'verified.json'])
      rmSync(join(folder, name), { force: true })
    cpSync(join(backup, 'countersign.db'), join(folder, 'countersign.db'))
    assert.match(await refused(t, folder), /RECORD_CHANGED/)
    const anchor = join(folder, 'anchor.json')
    writeFileSync(anchor, JSON.stringify({ ...JSON.parse(readFileSync(anchor, 'utf8')), accepted: true }))
    const again = await serve(folder, EVERY)
    const note = await again.covered()
    assert.equal(note.split('\n')[0], `${last.split('\n')[0]}-2`)
    assert.equal(sizeIn(note), entriesOf(folder).length)
    const { items } = await again.call('collaboration/audit.query', { project_id: 'system', action: 'log.recorded', order: 'newest' })
    assert.equal(items[0].after.before, last)
    await again.stop()
    await (await serve(folder, EVERY)).stop()
  })
