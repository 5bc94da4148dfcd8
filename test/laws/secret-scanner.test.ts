// The scanner that looks for secrets must find them in every form, or its silence would prove nothing.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { canariesIn, formsOf } from '../support/laws/secret-scanner.ts'
import { dataFolder } from '../support/as-processes/server-process.ts'

const newCanary = (): string => `canary ${randomBytes(12).toString('hex')} "ü/+&`

test('a secret is found in every form, at every place of a text', () => {
  const canary = newCanary()
  const bytes = Buffer.from(canary)
  const hidden: Record<string, string> = {
    raw: canary,
    hex: bytes.toString('hex'),
    HEX: bytes.toString('hex').toUpperCase(),
    uri: encodeURIComponent(canary),
    form: new URLSearchParams({ q: canary }).toString(),
    json: JSON.stringify({ canary }),
    twice: JSON.stringify({ inner: JSON.stringify({ canary }) }),
    ascii: JSON.stringify(canary).replaceAll('ü', String.raw`\u00fc`),
    utf16: Buffer.from(canary, 'utf16le').toString('latin1'),
  }
  for (let before = 0; before < 7; before++)
    for (const encoding of ['base64', 'base64url'] as const)
      hidden[`${encoding} ${before}`] = Buffer.concat([randomBytes(before), bytes, randomBytes(5)]).toString(encoding)
  for (const [name, text] of Object.entries(hidden)) {
    const where = `before ${text} behind`
    const found = canariesIn([canary], { texts: { [name]: name === 'utf16' ? Buffer.from(where, 'latin1') : where } })
    assert.notEqual(found.length, 0, `${name} is not found`)
    assert.equal(found[0]!.where, name)
    assert.equal(found[0]!.canary, canary)
  }
})

test('a clean text has no findings, and each secret is reported by its own name', () => {
  const [one, other] = [newCanary(), newCanary()]
  const noise = randomBytes(1_000_000)
  assert.deepEqual(canariesIn([one, other], { texts: { noise, base64: noise.toString('base64'), hex: noise.toString('hex') } }), [])
  const found = canariesIn([one, other], { texts: { log: `{"msg":${JSON.stringify(other)}}` } })
  assert.deepEqual([...new Set(found.map(({ canary }) => canary))], [other])
  assert.throws(() => formsOf('short'), RangeError)
})

test('a folder is searched to its last file: database, WAL, blobs, whatever lies deep', (t) => {
  const folder = dataFolder(t)
  const canary = newCanary()
  mkdirSync(join(folder, 'blobs', 'ab'), { recursive: true })
  writeFileSync(join(folder, 'blobs', 'ab', 'bytes'), Buffer.concat([randomBytes(10_000), Buffer.from(canary), randomBytes(100)]))
  const db = new DatabaseSync(join(folder, 'a.db'))
  db.exec('PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x TEXT)')
  db.prepare('INSERT INTO t VALUES (?)').run(canary)
  const seen = (): string[] => [...new Set(canariesIn([canary], { folders: [folder] }).map(({ where }) => where))].toSorted()
  assert.deepEqual(seen(), ['a.db-wal', 'blobs/ab/bytes'])
  db.close()
  assert.deepEqual(seen(), ['a.db', 'blobs/ab/bytes'])
})

test('a secret that a page of the database cuts in two is found wherever it is cut', (t) => {
  const folder = dataFolder(t)
  mkdirSync(folder, { recursive: true })
  const canary = newCanary()
  const db = new DatabaseSync(join(folder, 'cut.db'))
  db.exec('CREATE TABLE t (x TEXT)')
  const insert = db.prepare('INSERT INTO t VALUES (?)')
  for (let at = 0; at < 100; at++) {
    db.exec('DELETE FROM t; VACUUM')
    insert.run('x'.repeat(8_000 + at) + canary + 'y'.repeat(5_000))
    assert.notEqual(canariesIn([canary], { folders: [folder] }).length, 0, `cut after ${at}`)
  }
  db.close()
})
