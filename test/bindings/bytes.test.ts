// Artifact bytes over real sockets: what may be sent and fetched by whom, and what a bad sender, reader or disk leaves behind.
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { request, type ClientRequest, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { test, type TestContext } from 'node:test'
import { createHttp, type HttpBounds } from '#bindings/http/index.ts'
import type { Blobs } from '#kernel/ports/blobs.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { duePrefix, END, idIn } from '#kernel/declare/schema.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { openBlobs } from '#stores/blobs/index.ts'
import { collect } from '#workers/upkeep/blob-collector.ts'
import { runTimers } from '#workers/timers.ts'
import { cast, createWorld, stateHash, type World, type WorldOptions } from '../support/in-process/world.ts'

const BYTES_MAX = 1024 * 1024
const UPLOAD = '/v1/collaboration/artifact.upload'
const DOWNLOAD = '/v1/collaboration/artifact.download'
const checksumOf = (bytes: Uint8Array): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
const query = (fields: object): string =>
  new URLSearchParams(Object.entries(fields).map(([name, value]) => [name, String(value)])).toString()

type Answer = { readonly status: number; readonly headers: IncomingMessage['headers']; readonly bytes: Buffer; readonly json: any }
type Sending = { readonly headers?: Record<string, string | number>; readonly method?: string }
type Served = {
  readonly world: World
  readonly blobs: Blobs
  readonly path: string
  readonly port: number
  readonly refs: Record<string, any>
  readonly logged: string[]
  readonly revoked: Set<string>
  upload(as: string, bytes: Uint8Array, fields?: object, sending?: Sending): Promise<Answer>
  /** Begins an upload and leaves the rest to the test. */
  begin(as: string, fields: object, headers?: Sending['headers']): { outgoing: ClientRequest; answer: Promise<Answer> }
  download(as: string, fields: object, sending?: Sending): Promise<Answer>
  call(as: string, operation: string, input: object): Promise<any>
  /** Nothing is stored, nothing is half written. */
  assertEmpty(): Promise<void>
}

async function served(
  t: TestContext,
  scene = 'in_progress',
  bounds: Partial<HttpBounds> = {},
  bytesMax = BYTES_MAX,
  around = (blobs: Blobs): Blobs => blobs,
  options: WorldOptions = {},
): Promise<Served> {
  const path = mkdtempSync(join(tmpdir(), 'countersign-bytes-'))
  t.after(() => rmSync(path, { recursive: true, force: true }))
  const blobs = around(await openBlobs(path, { fatal: (error) => assert.fail(String(error)) }))
  const world = await createWorld({ blobs, ...options })
  const refs = await world.play(collaboration.scenes[scene]!)
  const logged: string[] = []
  const revoked = new Set<string>()
  const note = (fields: object, message: string): void => void logged.push(`${message} ${String((fields as { err?: unknown }).err)}`)
  const http = createHttp({
    kernel: world.kernel,
    authenticate: ({ token }): Promise<Actor> =>
      cast[token] && !revoked.has(token) ? Promise.resolve(cast[token]) : Promise.reject(new Refusal('UNAUTHENTICATED', 'no')),
    logins: { open: () => Promise.reject(new Error('none')), close: () => Promise.resolve() },
    log: { level: 'info', debug: note, error: note },
    version: '1',
    hosts: [],
    proxied: false,
    health: () => ({}),
    bytes: { blobs, bytesMax },
    bounds,
  })
  const port = await http.listen(0, '127.0.0.1')
  t.after(http.stop)

  const open = (
    as: string,
    url: string,
    { method = 'GET', headers = {} }: Sending,
  ): { outgoing: ClientRequest; answer: Promise<Answer> } => {
    const authorization = as === '' ? {} : { authorization: `Bearer ${as}` }
    const outgoing = request({ host: '127.0.0.1', port, path: url, method, agent: false, headers: { ...authorization, ...headers } })
    const answer = new Promise<Answer>((done, failed) => {
      outgoing.on('error', failed)
      outgoing.on('response', (incoming: IncomingMessage) => {
        const chunks: Buffer[] = []
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
        incoming.on('error', failed)
        incoming.on('end', () => {
          const bytes = Buffer.concat(chunks)
          const isJson = incoming.headers['content-type']?.startsWith('application/json') && bytes.length > 0
          done({ status: incoming.statusCode!, headers: incoming.headers, bytes, json: isJson ? JSON.parse(String(bytes)) : undefined })
        })
      })
    })
    answer.catch(() => undefined)
    return { outgoing, answer }
  }
  const octets = { 'content-type': 'application/octet-stream' }
  return {
    world,
    blobs,
    path,
    port,
    refs,
    logged,
    revoked,
    upload(as, bytes, fields = {}, { headers = {}, method = 'PUT' } = {}) {
      const { outgoing, answer } = open(as, `${UPLOAD}?${query({ task_id: refs['task']?.id, ...fields })}`, {
        method,
        headers: { ...octets, ...headers },
      })
      outgoing.end(bytes)
      return answer
    },
    begin: (as, fields, headers = {}) =>
      open(as, `${UPLOAD}?${query({ task_id: refs['task'].id, ...fields })}`, { method: 'PUT', headers: { ...octets, ...headers } }),
    download(as, fields, sending = {}) {
      const { outgoing, answer } = open(as, `${DOWNLOAD}?${query(fields)}`, sending)
      outgoing.end()
      return answer
    },
    call: (as, operation, input) => world.kernel.call(`collaboration/${operation}`, input, cast[as]!),
    async assertEmpty() {
      assert.deepEqual(readdirSync(join(path, 'incoming')), [])
      assert.deepEqual(await blobs.list(null, 10), [])
    },
  }
}

function assertRefused({ status, json }: Answer, expected: number, code: string): void {
  assert.deepEqual([status, json?.error?.code], [expected, code], JSON.stringify(json))
}
/** Waits for something that happens on the other side. */
async function eventually(holds: () => boolean | Promise<boolean>, message: string): Promise<void> {
  for (let i = 0; i < 200; i++) {
    if (await holds()) return
    await new Promise((done) => setTimeout(done, 10))
  }
  assert.fail(message)
}
const incoming = ({ path }: Served): number => readdirSync(join(path, 'incoming')).length

async function committed(served: Served, bytes: Uint8Array, fields: object = {}, payload: object = {}): Promise<any> {
  const { json } = await served.upload('devin', bytes, fields)
  const { artifact } = await served.call('devin', 'artifact.commit', {
    task_id: served.refs['task'].id,
    payload: { kind: 'blob', uri: json.uri, ...payload },
  })
  return artifact
}

// --- Sending -----------------------------------------------------------------------------------------------------------------

test('bytes are sent, named by a commit as verified, and fetched as they were', async (t) => {
  const it = await served(t)
  const bytes = randomBytes(700_000)
  const sent = await it.upload('devin', bytes, {
    checksum: checksumOf(bytes),
    size: bytes.length,
    name: 'model.bin',
    media_type: 'application/x-model',
  })
  assert.equal(sent.status, 200)
  assert.deepEqual(sent.json, { uri: `cas:${checksumOf(bytes)}`, checksum: checksumOf(bytes), size: bytes.length })
  const { artifact } = await it.call('devin', 'artifact.commit', {
    task_id: it.refs['task'].id,
    payload: { kind: 'blob', uri: sent.json.uri },
  })
  assert.deepEqual(artifact.payload, {
    kind: 'blob',
    uri: sent.json.uri,
    checksum: checksumOf(bytes),
    size: bytes.length,
    verified: true,
    name: 'model.bin',
    media_type: 'application/x-model',
  })
  const got = await it.download('alice', { artifact_id: artifact.id, version: 'v1' })
  assert.equal(got.status, 200)
  assert.ok(got.bytes.equals(bytes))
  const described = await it.call('rita', 'artifact.download', { artifact_id: artifact.id })
  assert.deepEqual(described, {
    uri: sent.json.uri,
    checksum: checksumOf(bytes),
    size: bytes.length,
    media_type: 'application/x-model',
    name: 'model.bin',
    verified: true,
  })
  const { items } = await it.call('admin', 'audit.query', { task_id: it.refs['task'].id })
  assert.ok(items.some((event: any) => event.action === 'artifact.uploaded' && event.actor === 'agent_devin'))
})

test('neither checksum nor size need be known beforehand, and there may be no bytes at all', async (t) => {
  const it = await served(t)
  const { outgoing, answer } = it.begin('devin', {})
  outgoing.write('hello ')
  outgoing.end('world')
  assert.equal((await answer).json.checksum, checksumOf(Buffer.from('hello world')))
  assert.deepEqual([(await it.upload('devin', new Uint8Array())).json.size], [0])
})

test('a sender waits while the store does, however much it has, and then all of it arrives', async (t) => {
  const BYTES = 192 * 1024 * 1024
  const slow = Promise.withResolvers<void>()
  async function* held(source: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
    for await (const chunk of source) {
      await slow.promise
      yield chunk
    }
  }
  const around = (blobs: Blobs): Blobs => ({ ...blobs, put: (source, announced, max) => blobs.put(held(source), announced, max) })
  const it = await served(t, 'in_progress', {}, BYTES, around)
  const { outgoing, answer } = it.begin('devin', {}, { 'content-length': BYTES })
  const portion = Buffer.alloc(1024 * 1024, 7)
  let taken = 0
  const send = (): void => {
    if (taken < BYTES)
      outgoing.write(portion, () => {
        taken += portion.length
        send()
      })
    else outgoing.end()
  }
  send()
  // The system's own buffers take all that is taken.
  for (let before = -1; before < taken; await new Promise((done) => setTimeout(done, 300))) before = taken
  assert.ok(taken < BYTES / 2, `${taken} bytes were taken`)
  slow.resolve()
  const { status, json } = await answer
  assert.equal(status, 200)
  assert.equal(json.size, BYTES)
  const hash = createHash('sha256')
  for (let at = 0; at < BYTES; at += portion.length) hash.update(portion)
  assert.equal(json.checksum, `sha256:${hash.digest('hex')}`)
})

const hello = Buffer.from('hello')
const lies: readonly [
  message: string,
  fields: object,
  headers: Record<string, string | number>,
  body: Uint8Array,
  status: number,
  code: string,
][] = [
  ['whose size is not their Content-Length', { size: 6 }, { 'content-length': 5 }, hello, 400, 'INVALID_REQUEST'],
  ['that are longer than announced', { size: 4 }, { 'transfer-encoding': 'chunked' }, hello, 400, 'INVALID_REQUEST'],
  ['that are shorter than announced', { size: 6 }, { 'transfer-encoding': 'chunked' }, hello, 400, 'INVALID_REQUEST'],
  ['that are not what was announced', { checksum: checksumOf(Buffer.from('other')) }, {}, hello, 400, 'INVALID_REQUEST'],
  ['that say they are too many', {}, {}, new Uint8Array(BYTES_MAX + 1), 413, 'TOO_LARGE'],
  ['that turn out to be too many', {}, { 'transfer-encoding': 'chunked' }, new Uint8Array(BYTES_MAX + 1), 413, 'TOO_LARGE'],
  ['whose checksum is no checksum', { checksum: 'md5:00' }, {}, hello, 400, 'INVALID_SPEC'],
  ['whose size is no number', { size: 'many' }, {}, hello, 400, 'INVALID_REQUEST'],
  ['of a false kind', {}, { 'content-type': 'application/json' }, hello, 415, 'INVALID_REQUEST'],
  ['that are packed', {}, { 'content-encoding': 'gzip' }, hello, 415, 'INVALID_REQUEST'],
  ['with a path for a name', { name: '../../etc/passwd' }, {}, hello, 400, 'INVALID_SPEC'],
  ['with a name that is turned around', { name: 'evil\u202egnp.exe' }, {}, hello, 400, 'INVALID_SPEC'],
  ['for a task that does not exist', { task_id: 'task_none' }, {}, hello, 404, 'NOT_FOUND'],
  ['of somebody who says to be another', { by: 'user_alice' }, {}, hello, 403, 'UNAUTHORIZED'],
]
for (const [message, fields, headers, body, status, code] of lies) {
  test(`bytes ${message} are refused, and nothing of them stays`, async (t) => {
    const it = await served(t)
    const before = await stateHash(it.world.store)
    assertRefused(await it.upload('devin', body, fields, { headers }), status, code)
    await it.assertEmpty()
    assert.equal(await stateHash(it.world.store), before)
    assert.equal((await it.upload('devin', hello)).status, 200, 'the next upload is taken')
  })
}

test('a client refused mid-upload can send on, gets the answer, and can use the connection again', async (t) => {
  const it = await served(t)
  const head = `PUT ${UPLOAD}?task_id=${it.refs['task'].id} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer devin\r\ncontent-type: application/octet-stream\r\n`
  const text = await new Promise<string>((done) => {
    let got = ''
    const socket = connect(it.port, '127.0.0.1')
    socket.write(`${head}transfer-encoding: chunked\r\n\r\n1000000\r\n`)
    socket.write(new Uint8Array(0x1000000))
    socket.write('\r\n0\r\n\r\nGET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n')
    socket.on('data', (chunk) => (got += String(chunk)))
    socket.on('error', () => undefined)
    socket.on('close', () => done(got))
  })
  assert.deepEqual(text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 413', 'HTTP/1.1 200'])
})

const strangers: readonly [who: string, status: number, code: string][] = [
  ['', 401, 'UNAUTHENTICATED'],
  ['nobody', 401, 'UNAUTHENTICATED'],
  ['mallory', 404, 'NOT_FOUND'], // a person of another project
  ['spy', 404, 'NOT_FOUND'], // an agent of another project
  ['bob', 404, 'NOT_FOUND'], // a person of the project who is not on the task
  ['robin', 404, 'NOT_FOUND'], // an agent of the project that works on other tasks
  ['owner', 403, 'UNAUTHORIZED'], // may read, not send
  ['admin', 403, 'UNAUTHORIZED'],
]
for (const [who, status, code] of strangers) {
  test(`${who === '' ? 'no credential' : who} is refused with ${status} before any byte is taken`, async (t) => {
    const it = await served(t)
    const { outgoing, answer } = it.begin(who, {}, { 'content-length': 1000, expect: '100-continue' })
    let invited = false
    outgoing.on('continue', () => (invited = true))
    outgoing.flushHeaders()
    assertRefused(await answer, status, code)
    assert.equal(invited, false)
    outgoing.destroy()
    await it.assertEmpty()
  })
}

test('a client that expects 100-continue is invited to send', async (t) => {
  const it = await served(t)
  for (const who of ['devin', 'alice', 'rita']) {
    const { outgoing, answer } = it.begin(who, {}, { 'content-length': 5, expect: '100-continue' })
    outgoing.on('continue', () => outgoing.end('hello'))
    outgoing.flushHeaders()
    assert.equal((await answer).status, 200)
  }
})

test('a task that has ended takes no bytes', async (t) => {
  const it = await served(t, 'completed')
  assertRefused(await it.upload('devin', hello), 409, 'PRECONDITION_FAILED')
  await it.assertEmpty()
})

test('knowing a checksum is not having the bytes: without them nothing is taken', async (t) => {
  const it = await served(t)
  await it.upload('devin', hello)
  const body = JSON.stringify({ task_id: it.refs['task'].id, checksum: checksumOf(hello), size: 5 })
  const answer = await it.upload('devin', Buffer.from(body), {}, { method: 'POST', headers: { 'content-type': 'application/json' } })
  assertRefused(answer, 400, 'INVALID_REQUEST')
  assert.match(answer.json.error.message, /takes bytes/)
})

test('an upload that is cut in the middle leaves nothing, logs nothing and frees its place', async (t) => {
  const it = await served(t)
  for (let i = 0; i < limits.uploadsPerActorMax + 1; i++) {
    const { outgoing } = it.begin('devin', {}, { 'content-length': 500_000 })
    outgoing.write(new Uint8Array(100_000))
    await eventually(() => incoming(it) === 1, 'the upload begins')
    outgoing.destroy()
    await eventually(() => incoming(it) === 0, 'what had come is removed')
  }
  await it.assertEmpty()
  assert.deepEqual(it.logged, [])
  assert.equal((await it.upload('devin', hello)).status, 200)
})

test('a key that is revoked while the bytes come does not refer to them any more', async (t) => {
  const it = await served(t)
  const { outgoing, answer } = it.begin('devin', {}, { 'content-length': 10 })
  outgoing.write('01234')
  await eventually(() => incoming(it) === 1, 'the upload begins')
  it.revoked.add('devin')
  outgoing.end('56789')
  assertRefused(await answer, 401, 'UNAUTHENTICATED')
  await it.assertEmpty()
})

test('bytes that may be on the record stay: what became of their reference is unknown', async (t) => {
  const it = await served(t)
  const { call } = it.world.kernel
  const unknown = new Refusal('UNAVAILABLE', 'whether it was written is not known yet', { retry_after: 5, outcome: 'unknown' })
  Object.assign(it.world.kernel, {
    async call(...asked: Parameters<typeof call>) {
      await call(...asked)
      throw unknown
    },
  })
  assertRefused(await it.upload('devin', hello), 503, 'UNAVAILABLE')
  assert.equal((await it.blobs.list(null, 10)).length, 1)
})

test('one actor has only so many uploads under way; others go on', async (t) => {
  const it = await served(t)
  const begun = Array.from({ length: limits.uploadsPerActorMax }, () => it.begin('devin', {}, { 'content-length': 10 }))
  for (const { outgoing } of begun) outgoing.write('01234')
  await eventually(() => incoming(it) === limits.uploadsPerActorMax, 'they begin')
  const refused = await it.upload('devin', hello)
  assertRefused(refused, 429, 'QUOTA_EXCEEDED')
  assert.equal(refused.headers['retry-after'], '1')
  assert.equal((await it.upload('alice', hello)).status, 200)
  for (const { outgoing } of begun) outgoing.end('56789')
  for (const { answer } of begun) assert.equal((await answer).status, 200)
  assert.equal((await it.upload('devin', hello)).status, 200)
})

test('a sender that keeps sending may take its time, one that drips or stops may not', async (t) => {
  const it = await served(t, 'in_progress', { requestMs: 400 })
  const sendIn = async (portion: Uint8Array, times: number): Promise<Answer> => {
    const { outgoing, answer } = it.begin('devin', {}, { 'content-length': portion.length * times })
    let over = false
    const settled = answer.finally(() => (over = true))
    settled.catch(() => undefined)
    for (let i = 0; i < times && !over; i++) {
      outgoing.write(portion)
      await new Promise((done) => setTimeout(done, 60))
    }
    return settled
  }
  assert.equal((await sendIn(randomBytes(limits.uploadProgressBytesMin), 15)).status, 200)
  assertRefused(await sendIn(new Uint8Array(1), 100), 408, 'INVALID_REQUEST')
  const { outgoing, answer } = it.begin('devin', {}, { 'content-length': 100_000 })
  outgoing.write(new Uint8Array(50_000))
  assertRefused(await answer, 408, 'INVALID_REQUEST')
  await eventually(() => incoming(it) === 0, 'what had come is removed')
})

test('the same idempotency key has one effect and one answer, and is refused with other bytes', async (t) => {
  const it = await served(t)
  const headers = { 'idempotency-key': 'once' }
  const first = await it.upload('devin', hello, {}, { headers })
  await it.call('alice', 'task.cancel', { task_id: it.refs['task'].id })
  const again = await it.upload('devin', hello, {}, { headers })
  assert.deepEqual([again.status, again.json], [200, first.json])
  assertRefused(await it.upload('devin', Buffer.from('other'), {}, { headers }), 409, 'CONFLICT')
  assert.deepEqual(
    (await it.blobs.list(null, 10)).map(({ checksum }) => checksum),
    [checksumOf(hello)],
  )
})

// --- Naming ------------------------------------------------------------------------------------------------------------------

for (const kind of ['blob', 'diff', 'inline', 'ref']) {
  test(`a payload of kind ${kind} may name uploaded bytes, of this task only, and says the truth about them`, async (t) => {
    const it = await served(t)
    const task_id = it.refs['task'].id
    const commit = (payload: object) => it.call('devin', 'artifact.commit', { task_id, final: false, payload: { kind, ...payload } })
    const uri = `cas:${checksumOf(hello)}`
    await assert.rejects(commit({ uri, checksum: checksumOf(hello), size: 5 }), { code: 'INVALID_SPEC' }, 'they were not sent yet')
    const other = await it.world.play(collaboration.scenes['in_progress']!)
    await it.upload('devin', hello, { task_id: other['task'].id })
    await assert.rejects(commit({ uri }), { code: 'INVALID_SPEC' }, 'they were sent for another task')
    await it.upload('devin', hello)
    await assert.rejects(commit({ uri, size: 6 }), { code: 'INVALID_SPEC' })
    await assert.rejects(commit({ uri, checksum: checksumOf(Buffer.from('other')) }), { code: 'INVALID_SPEC' })
    await assert.rejects(commit({ uri: `${uri}00` }), { code: 'INVALID_SPEC' })
    await assert.rejects(commit({ uri: 'cas:../../etc/passwd' }), { code: 'INVALID_SPEC' })
    const { artifact } = await commit({ uri })
    assert.deepEqual(artifact.payload, { kind, uri, checksum: checksumOf(hello), size: 5, verified: true })
  })
}

test('a ref whose bytes were never sent stays unverified, and is neither fetched nor redirected to', async (t) => {
  const it = await served(t)
  const payload = { kind: 'ref', uri: 'https://example.com/a.bin', checksum: checksumOf(hello), size: 5 }
  const { artifact } = await it.call('devin', 'artifact.commit', { task_id: it.refs['task'].id, payload })
  assert.equal(artifact.payload.verified, false)
  const answer = await it.download('alice', { artifact_id: artifact.id })
  assertRefused(answer, 409, 'PRECONDITION_FAILED')
  assert.equal(answer.headers.location, undefined)
})

test('a person’s edit may name bytes that they have sent', async (t) => {
  const it = await served(t, 'blocked_with_artifact')
  const { json } = await it.upload('alice', hello, { name: 'better.txt' })
  const input = {
    task_id: it.refs['task'].id,
    artifact_id: it.refs['artifact'].id,
    parent_version: 'v1',
    payload: { kind: 'blob', uri: json.uri },
  }
  const { artifact } = await it.call('alice', 'artifact.edit', input)
  assert.equal(String((await it.download('devin', { artifact_id: artifact.id })).bytes), 'hello')
})

test('a name that is given to the same bytes later does not change what was committed', async (t) => {
  const it = await served(t)
  const { json } = await it.upload('devin', hello, { name: 'first.txt' })
  const commit = { task_id: it.refs['task'].id, final: false, payload: { kind: 'blob', uri: json.uri } }
  const { artifact: first } = await it.call('devin', 'artifact.commit', commit)
  await it.upload('devin', hello, { name: 'second.txt' })
  const { artifact: second } = await it.call('devin', 'artifact.commit', commit)
  assert.equal((await it.call('alice', 'artifact.download', { artifact_id: first.id })).name, 'first.txt')
  assert.equal((await it.call('alice', 'artifact.download', { artifact_id: second.id })).name, 'second.txt')
})

// --- Fetching ----------------------------------------------------------------------------------------------------------------

test('bytes are answered as an attachment that no browser shows, sniffs or runs', async (t) => {
  const it = await served(t)
  const page = Buffer.from('<script>alert(1)</script>')
  const artifact = await committed(it, page, { name: 'Übersicht "100%" (1).html', media_type: 'text/html' })
  const { headers } = await it.download('alice', { artifact_id: artifact.id })
  assert.equal(headers['content-type'], 'application/octet-stream')
  assert.equal(
    headers['content-disposition'],
    `attachment; filename="_bersicht _100__ (1).html"; filename*=UTF-8''%C3%9Cbersicht%20%22100%25%22%20%281%29.html`,
  )
  assert.equal(headers['x-content-type-options'], 'nosniff')
  assert.equal(headers['content-security-policy'], "default-src 'none'; frame-ancestors 'none'; sandbox")
  assert.equal(headers['cross-origin-resource-policy'], 'same-origin')
  assert.equal(headers['etag'], `"${checksumOf(page)}"`)
  assert.equal(headers['accept-ranges'], 'bytes')
  assert.equal(headers['content-length'], String(page.length))
})

const ranges: readonly [range: string, status: number, content: string | null, body: string | null][] = [
  ['bytes=0-0', 206, 'bytes 0-0/10', '0'],
  ['bytes=2-4', 206, 'bytes 2-4/10', '234'],
  ['bytes=7-', 206, 'bytes 7-9/10', '789'],
  ['bytes=-3', 206, 'bytes 7-9/10', '789'],
  ['bytes=-30', 206, 'bytes 0-9/10', '0123456789'],
  ['bytes=5-99', 206, 'bytes 5-9/10', '56789'],
  ['bytes=10-', 416, 'bytes */10', null],
  ['bytes=-0', 416, 'bytes */10', null],
  ['bytes=0-1,4-5', 200, null, '0123456789'],
  ['bytes=4-2', 200, null, '0123456789'],
  ['bytes=-', 200, null, '0123456789'],
  ['lines=1-2', 200, null, '0123456789'],
  ['bytes=9999999999999999999-', 200, null, '0123456789'],
]
for (const source of ['uploaded', 'inline']) {
  test(`${source} bytes can be fetched in parts, looked at, and compared`, async (t) => {
    const it = await served(t)
    const digits = Buffer.from('0123456789')
    const artifact =
      source === 'uploaded'
        ? await committed(it, digits)
        : await committed(it, hello, {}, { kind: 'inline', uri: 'data:text/plain;base64,MDEyMzQ1Njc4OQ==' })
    const fields = { artifact_id: artifact.id }
    for (const [range, status, content, body] of ranges) {
      const answer = await it.download('alice', fields, { headers: { range } })
      assert.deepEqual([answer.status, answer.headers['content-range'] ?? null], [status, content], range)
      if (body === null) assert.equal(answer.json.error.code, 'INVALID_REQUEST')
      else assert.equal(String(answer.bytes), body, range)
    }
    const etag = `"${checksumOf(digits)}"`
    const changed = await it.download('alice', fields, { headers: { range: 'bytes=0-1', 'if-range': '"other"' } })
    assert.deepEqual([changed.status, String(changed.bytes)], [200, '0123456789'])
    assert.equal((await it.download('alice', fields, { headers: { range: 'bytes=0-1', 'if-range': etag } })).status, 206)
    const same = await it.download('alice', fields, { headers: { 'if-none-match': `"x", ${etag}` } })
    assert.deepEqual([same.status, same.bytes.length, same.headers.etag], [304, 0, etag])
    const looked = await it.download('alice', fields, { method: 'HEAD' })
    assert.deepEqual([looked.status, looked.headers['content-length'], looked.bytes.length], [200, '10', 0])
    assert.equal((await it.download('alice', fields, { method: 'HEAD', headers: { range: 'bytes=1-2' } })).headers['content-length'], '2')
  })
}

test('a reader without access to the artifact finds nothing, also by its checksum', async (t) => {
  const it = await served(t)
  const artifact = await committed(it, hello)
  for (const who of ['mallory', 'spy', 'bob', 'robin'])
    assertRefused(await it.download(who, { artifact_id: artifact.id }), 404, 'NOT_FOUND')
  assertRefused(await it.download('', { artifact_id: artifact.id }), 401, 'UNAUTHENTICATED')
  for (const who of ['alice', 'rita', 'devin', 'owner', 'admin'])
    assert.equal(String((await it.download(who, { artifact_id: artifact.id })).bytes), 'hello')
})

test('a bad query is refused in words', async (t) => {
  const it = await served(t)
  const artifact = await committed(it, hello)
  assertRefused(await it.download('alice', {}), 400, 'INVALID_REQUEST')
  assertRefused(await it.download('alice', { artifact_id: artifact.id, version: 'v9' }), 404, 'NOT_FOUND')
  const { outgoing, answer } = it.begin('devin', {})
  outgoing.destroy()
  await assert.rejects(answer)
  const twice = await new Promise<number>((done) =>
    request({ port: it.port, path: `${DOWNLOAD}?artifact_id=a&artifact_id=b`, headers: { authorization: 'Bearer alice' } }, (got) =>
      done(got.resume().statusCode!),
    ).end(),
  )
  assert.equal(twice, 400)
})

test('readers that do not read are let go, so that they hold no files open', async (t) => {
  const it = await served(t, 'in_progress', { readMs: 300 }, 32 * BYTES_MAX)
  // More than the system buffers for a reader that has stopped.
  const artifact = await committed(it, Buffer.alloc(24 * BYTES_MAX))
  const look = async (): Promise<number> =>
    (await it.download('alice', { artifact_id: artifact.id }, { headers: { range: 'bytes=0-1' } })).status
  const sockets = Array.from({ length: limits.downloadsPerActorMax }, () => {
    const socket = connect(it.port, '127.0.0.1').pause()
    socket.write(`GET ${DOWNLOAD}?artifact_id=${artifact.id} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer alice\r\n\r\n`)
    return socket
  })
  await eventually(async () => (await look()) === 429, 'one actor has only so many downloads')
  await eventually(async () => (await look()) === 206, 'their places are free again')
  for (const socket of sockets) socket.destroy()
})

test('a reader that is gone before its bytes are opened holds no place and no file', async (t) => {
  let gate: Promise<void> = Promise.resolve()
  const opened: AsyncIterable<Uint8Array>[] = []
  const around = (blobs: Blobs): Blobs => ({
    ...blobs,
    async open(checksum, range) {
      await gate
      const stream = await blobs.open(checksum, range)
      if (stream) opened.push(stream)
      return stream
    },
  })
  const it = await served(t, 'in_progress', {}, BYTES_MAX, around)
  const artifact = await committed(it, Buffer.alloc(BYTES_MAX / 2, 1))
  const leave = (): Promise<void> =>
    new Promise((gone) => {
      const socket = connect(it.port, '127.0.0.1')
      socket.write(`GET ${DOWNLOAD}?artifact_id=${artifact.id} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer alice\r\n\r\n`)
      setTimeout(() => socket.destroy(), 30)
      socket.once('close', () => gone())
    })
  const { promise, resolve } = Promise.withResolvers<void>()
  gate = promise
  for (let i = 0; i <= limits.downloadsPerActorMax; i += 8) await Promise.all(Array.from({ length: 8 }, leave))
  resolve()
  await eventually(() => Promise.resolve(opened.length > 0 && opened.every((one) => (one as Readable).destroyed)), 'the files are closed')
  assert.equal((await it.download('alice', { artifact_id: artifact.id })).status, 200)
  assert.deepEqual(it.logged, [])
})

test('downloads are charged to the read quota of their actor alone', async (t) => {
  const it = await served(t, 'in_progress', {}, BYTES_MAX, undefined, { readsPerMinute: 40 })
  const artifact = await committed(it, Buffer.alloc(BYTES_MAX, 1))
  const get = async (as: string, sending?: Sending): Promise<number> =>
    (await it.download(as, { artifact_id: artifact.id }, sending)).status
  assert.deepEqual([await get('alice'), await get('alice'), await get('alice')], [200, 200, 200])
  assert.equal(await get('alice'), 429)
  for (let i = 0; i < 20; i++)
    assert.equal(await get('devin', { headers: { range: 'bytes=0-9' } }), 206, 'a few bytes cost no more than the call')
})

// --- What nothing refers to --------------------------------------------------------------------------------------------------

const later = (ms: number) => ({ now: () => Date.now() + ms, sleep: () => Promise.resolve() })
const { signal } = new AbortController()
const DAY_MS = 24 * 3_600_000

test('bytes that no artifact names in a day are forgotten, and then removed; those that one names stay', async (t) => {
  const it = await served(t)
  const kept = await committed(it, hello, {}, {})
  const other = await it.world.play(collaboration.scenes['in_progress']!)
  const task_id = other['task'].id
  const lost = Buffer.from('lost')
  await it.upload('devin', lost, { task_id })
  const sizes = async () => (await it.blobs.list(null, 10)).map(({ size }) => size).toSorted((a, b) => a - b)
  assert.equal(await collect(it.world.store, it.blobs, later(2 * DAY_MS), signal), 0, 'somebody may still name them')
  const due = await it.world.store.scan(duePrefix, duePrefix + END, 100)
  assert.equal(due.filter((entry) => idIn(entry).startsWith('collaboration.upload/')).length, 1, 'only what is not named waits for a time')

  it.world.advance(DAY_MS + 60_000)
  const clock = { now: it.world.kernel.now, sleep: (ms: number) => new Promise<void>((done) => setTimeout(done, Math.min(ms, 5))) }
  const log = { debug() {}, info() {}, warn() {}, error() {} }
  const timers = runTimers(it.world.kernel, clock, log)
  const expired = async () =>
    (await it.call('admin', 'audit.query', { task_id })).items.some((event: any) => event.action === 'artifact.upload_expired')
  await eventually(expired, 'the upload expires')
  await timers.stop()
  await assert.rejects(it.call('devin', 'artifact.commit', { task_id, payload: { kind: 'blob', uri: `cas:${checksumOf(lost)}` } }), {
    code: 'INVALID_SPEC',
  })

  assert.equal(await collect(it.world.store, it.blobs, later(0), signal), 0, 'what just came is left alone')
  assert.equal(await collect(it.world.store, it.blobs, later(2 * DAY_MS), signal), 1)
  assert.deepEqual(await sizes(), [5])
  assert.equal(String((await it.download('alice', { artifact_id: kept.id })).bytes), 'hello')
  assert.equal((await it.upload('devin', lost, { task_id })).status, 200)
  assert.deepEqual(await sizes(), [4, 5])
})

test('bytes that one task forgot stay as long as another one names them', async (t) => {
  const it = await served(t)
  await committed(it, hello)
  const other = await it.world.play(collaboration.scenes['in_progress']!)
  await it.upload('devin', hello, { task_id: other['task'].id })
  it.world.advance(2 * DAY_MS)
  await it.world.call('system', 'collaboration/upload.expire', { task_id: other['task'].id, checksum: checksumOf(hello) })
  assert.equal(await collect(it.world.store, it.blobs, later(2 * DAY_MS), signal), 0)
})

test('bytes that are sent again just before the collector takes them stay', async (t) => {
  const it = await served(t)
  const { checksum } = (await it.upload('devin', hello)).json
  const task_id = it.refs['task'].id
  it.world.advance(2 * DAY_MS)
  await it.world.call('system', 'collaboration/upload.expire', { task_id, checksum })
  const late: Blobs = {
    ...it.blobs,
    async remove(of, isUnused) {
      assert.equal((await it.upload('devin', hello)).status, 200)
      return it.blobs.remove(of, isUnused)
    },
  }
  assert.equal(await collect(it.world.store, late, later(2 * DAY_MS), signal), 0)
  assert.equal(await it.blobs.size(checksum), 5)
})

test('bytes that an artifact names stay, also when they are sent once more and not named again', async (t) => {
  const it = await served(t)
  await committed(it, hello)
  await it.upload('devin', hello).then(({ status }) => assert.equal(status, 200))
  it.world.advance(2 * DAY_MS)
  const expiring = it.world.call('system', 'collaboration/upload.expire', { task_id: it.refs['task'].id, checksum: checksumOf(hello) })
  await assert.rejects(expiring, { code: 'PRECONDITION_FAILED' })
})

// --- A whole server ----------------------------------------------------------------------------------------------------------

type Running = {
  readonly child: ChildProcess
  readonly port: number
  readonly folder: string
  call(operation: string, input: object, key?: string): Promise<any>
  put(task_id: string, key: string, body: ReadableStream | Uint8Array): Promise<Response>
}

/** `prefix`: what the shell does before it becomes the server. */
async function started(t: TestContext, folder: string, prefix = ''): Promise<Running> {
  const run = `${prefix} exec "$0" src/apps/server/main.ts --port 0 --log error --data "$1"`
  const child = spawn('sh', ['-c', run, process.execPath, folder], {
    cwd: new URL('../..', import.meta.url).pathname,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => child.kill('SIGKILL'))
  let text = ''
  await new Promise<void>((done) => child.stdout.on('data', (chunk) => /ready .*\n/.test((text += String(chunk))) && done()))
  const port = Number(/:(\d+)\n/.exec(text)![1])
  const url = `http://127.0.0.1:${port}/v1/`
  const admin = readFileSync(join(folder, 'admin.key'), 'utf8').trim()
  return {
    child,
    port,
    folder,
    async call(operation, input, key = admin) {
      const answer = await fetch(url + operation, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(input),
      })
      assert.equal(answer.status, 200, `${operation}: ${await answer.clone().text()}`)
      return answer.json()
    },
    put: (task_id, key, body) =>
      fetch(`${url}collaboration/artifact.upload?task_id=${task_id}`, {
        method: 'PUT',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/octet-stream' },
        body,
        duplex: 'half',
      }),
  }
}

/** A task in progress and the key of its agent. */
async function atWork({ call }: Running): Promise<{ task_id: string; key: string; alice: string }> {
  await call('identity/user.add', { id: 'user_alice', name: 'Alice' })
  await call('identity/agent.add', { id: 'agent_devin', name: 'Devin', owner: 'user_alice' })
  const { key: alice } = await call('identity/key.issue', { subject: 'user_alice' })
  const { key } = await call('identity/key.issue', { subject: 'agent_devin' })
  const { task } = await call('collaboration/task.create', { type: 'code', spec: { goal: 'Fix it' } }, alice)
  await call('collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' }, alice)
  await call('collaboration/task.start', { task_id: task.id }, key)
  return { task_id: task.id, key, alice }
}

const temporary = (t: TestContext): string => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-server-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
const half = ({ folder }: Running): number => readdirSync(join(folder, 'blobs', 'incoming')).length

test('a server that is killed during an upload starts again with all that it had acknowledged and nothing else', async (t) => {
  const folder = temporary(t)
  const first = await started(t, folder)
  const { task_id, key, alice } = await atWork(first)
  const acknowledged = (await (await first.put(task_id, key, hello)).json()) as { uri: string }
  let over = false
  const drip = (controller: ReadableStreamDefaultController): void =>
    over ? controller.close() : controller.enqueue(new Uint8Array(20_000))
  const endless = new ReadableStream({ pull: (controller) => new Promise((done) => setTimeout(() => done(drip(controller)), 5)) })
  const cut = first.put(task_id, key, endless).catch((error: unknown) => error)
  await eventually(() => half(first) === 1, 'the upload begins')
  const gone = new Promise((done) => first.child.once('close', done))
  first.child.kill('SIGKILL')
  await gone
  over = true
  assert.ok((await cut) instanceof Error)
  assert.equal(half(first), 1, 'it lies there half written')

  const second = await started(t, folder)
  assert.equal(half(second), 0)
  const { artifact } = await second.call(
    'collaboration/artifact.commit',
    { task_id, payload: { kind: 'blob', uri: acknowledged.uri } },
    key,
  )
  const got = await fetch(`http://127.0.0.1:${second.port}${DOWNLOAD}?artifact_id=${artifact.id}`, {
    headers: { authorization: `Bearer ${alice}` },
  })
  assert.equal(await got.text(), 'hello')
})

test('a server whose disk fills up during an upload says so, keeps nothing of it and continues', async (t) => {
  // Files of at most 4 or 8 MiB, as the shell counts: the limit is the system's own.
  const server = await started(t, temporary(t), 'ulimit -f 8192;')
  const { task_id, key } = await atWork(server)
  const answer = await server.put(task_id, key, new Uint8Array(16 * 1024 * 1024))
  assert.deepEqual(
    [answer.status, ((await answer.json()) as any).error.code, answer.headers.get('retry-after')],
    [503, 'UNAVAILABLE', '60'],
  )
  assert.equal(half(server), 0)
  assert.equal((await server.put(task_id, key, hello)).status, 200)
})

test('the description of the API says how bytes are sent and fetched', async (t) => {
  const it = await served(t)
  const { paths } = (await (await fetch(`http://127.0.0.1:${it.port}/openapi.json`)).json()) as any
  assert.deepEqual(Object.keys(paths[UPLOAD]), ['put'])
  assert.ok(paths[UPLOAD].put.requestBody.content['application/octet-stream'])
  assert.deepEqual(
    paths[UPLOAD].put.parameters.filter((one: any) => one.required).map((one: any) => one.name),
    ['task_id'],
  )
  assert.deepEqual(Object.keys(paths[DOWNLOAD]), ['post', 'get', 'head'])
  assert.ok(paths[DOWNLOAD].get.responses[206].content['application/octet-stream'])
})
