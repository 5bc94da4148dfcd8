// A bare durable server as a lower bound: one fact in a hash chain, one document and one index entry for each call, in groups on disk, and
// a signature under each receipt. It checks no credentials, shapes or rights and has no timers, inbox or events.
import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import fastify from 'fastify'

const db = new DatabaseSync(join(process.argv[2]!, 'bare.db'))
db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
CREATE TABLE facts (seq INTEGER PRIMARY KEY, hash TEXT NOT NULL, line TEXT NOT NULL) STRICT;
CREATE TABLE docs (id TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE entries (entry TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;`)
const [begin, commit] = [db.prepare('BEGIN IMMEDIATE'), db.prepare('COMMIT')]
const addFact = db.prepare('INSERT INTO facts VALUES (?, ?, ?)')
const putDoc = db.prepare('INSERT OR REPLACE INTO docs VALUES (?, ?)')
const addEntry = db.prepare('INSERT OR IGNORE INTO entries VALUES (?)')

type Change = { readonly id: string; readonly doc: object; readonly entry: string; readonly done: () => void }
let waiting: Change[] = []
let seq = 0
let prev = ''

/** Everything that arrived in this turn in one transaction. */
function write(): void {
  const changes = waiting
  waiting = []
  begin.run()
  for (const { id, doc, entry } of changes) {
    const text = JSON.stringify(doc)
    const line = JSON.stringify({ seq: ++seq, at: new Date().toISOString(), action: 'put', id, digest: sha256(text), prev })
    prev = sha256(line)
    addFact.run(seq, prev, line)
    putDoc.run(id, text)
    addEntry.run(entry)
  }
  commit.run()
  for (const { done } of changes) done()
}
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
function durable(id: string, doc: object, entry: string): Promise<void> {
  return new Promise((done) => {
    if (waiting.push({ id, doc, entry, done }) === 1) setImmediate(write)
  })
}

let ids = 0
const newId = (): string => `${Date.now().toString(36)}${String(++ids).padStart(8, '0')}`
const docs = new Map<string, Record<string, unknown>>()
const { privateKey } = generateKeyPairSync('ed25519')
let handOvers: (() => void)[] = []
/** Those that are ready in one turn are handed out together, as ours are: answers that leave one by one wake the client one by one. */
const signed = (text: string): Promise<Buffer> =>
  new Promise((done) =>
    sign(null, Buffer.from(text), privateKey, (_, bytes) => {
      if (handOvers.push(() => done(bytes)) === 1) setImmediate(handOut)
    }),
  )
function handOut(): void {
  const all = handOvers
  handOvers = []
  for (const handOver of all) handOver()
}
const header = Buffer.from('{"alg":"EdDSA"}').toString('base64url')

const app = fastify({ logger: false })
app.post('/task', async (request) => {
  const id = `task_${newId()}`
  const task = { id, status: 'created', created_at: new Date().toISOString(), ...(request.body as object) }
  await durable(id, task, `task/created/${id}`)
  return { task }
})
app.post('/hxp/v1/requests', async (request, reply) => {
  const request_id = `hxp_${newId()}`
  const created_at = new Date().toISOString()
  const asked = { request_id, status: 'pending', created_at, ...(request.body as object) }
  await durable(request_id, asked, `open/${request_id}`)
  docs.set(request_id, asked)
  return reply.code(201).send({ request_id, status: 'pending', created_at, poll_url: `/hxp/v1/requests/${request_id}` })
})
app.post('/hxp/v1/requests/:id/resolve', async (request) => {
  const { id } = request.params as { id: string }
  const { result } = request.body as { result: string }
  const completed_at = new Date().toISOString()
  const evidence_hash = sha256(`${id}${result}${completed_at}secret`)
  const receipt = { request_id: id, status: 'completed', result, completed_by: 'user_alice', completed_at, evidence_hash }
  const done = { ...docs.get(id), status: 'completed', receipt }
  await durable(id, done, `done/${id}`)
  docs.delete(id)
  const text = `${header}.${Buffer.from(JSON.stringify(receipt)).toString('base64url')}`
  return { receipt: { ...receipt, signature: `${text}.${(await signed(text)).toString('base64url')}` } }
})
await app.listen({ port: 0, host: '127.0.0.1' })
console.log(`bare ready http://127.0.0.1:${(app.server.address() as AddressInfo).port}`)
