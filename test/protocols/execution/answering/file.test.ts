// Files as answers: who may send and fetch them, what the request allows, what the receipt says, and what becomes of those that no
// answer names. Over real sockets and a real folder of bytes.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { createHttp } from '#bindings/http/index.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { openBlobs } from '#stores/blobs/index.ts'
import { collect } from '#workers/upkeep/blob-collector.ts'
import { cast, createWorld, stateHash } from '../../../support/in-process/world.ts'

const DAY_MS = 24 * 3_600_000
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
const pdf = Buffer.from('%PDF-1.7 the signed contract')

async function served(t: TestContext) {
  const path = mkdtempSync(join(tmpdir(), 'countersign-files-'))
  t.after(() => rmSync(path, { recursive: true, force: true }))
  const blobs = await openBlobs(path, { fatal: (error) => assert.fail(String(error)) })
  const world = await createWorld({ blobs })
  const http = createHttp({
    kernel: world.kernel,
    authenticate: ({ token }): Promise<Actor> =>
      cast[token] ? Promise.resolve(cast[token]) : Promise.reject(new Refusal('UNAUTHENTICATED', 'no')),
    logins: { open: () => Promise.reject(new Error('none')), close: () => Promise.resolve() },
    log: { level: 'error', debug() {}, error: (fields) => assert.fail(JSON.stringify(fields)) },
    version: '1',
    hosts: [],
    proxied: false,
    health: () => ({}),
    bytes: { blobs, bytesMax: 1024 * 1024 },
  })
  const port = await http.listen(0, '127.0.0.1')
  t.after(http.stop)

  const ask = async (validation?: object): Promise<string> => {
    const payload = { prompt: 'The signed contract, please', input_type: 'file', ...(validation ? { validation } : {}) }
    return (await world.call('devin', 'execution/request.create', { action: 'PROVIDE', payload })).request.id
  }
  async function send(as: string, request_id: string, bytes: Uint8Array, fields: Record<string, string> = {}) {
    const query = new URLSearchParams({ request_id, name: 'contract.pdf', ...fields })
    const answer = await fetch(`http://127.0.0.1:${port}/v1/execution/file.add?${query.toString()}`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${as}`, 'content-type': 'application/octet-stream' },
      body: new Uint8Array(bytes),
    })
    return { status: answer.status, json: (await answer.json()) as any }
  }
  async function fetched(as: string, artifact_id: string) {
    const answer = await fetch(`http://127.0.0.1:${port}/v1/execution/file.get?artifact_id=${artifact_id}`, {
      headers: { authorization: `Bearer ${as}` },
    })
    return { status: answer.status, headers: answer.headers, bytes: Buffer.from(await answer.arrayBuffer()) }
  }
  const resolve = (request_id: string, result: unknown, as = 'alice'): Promise<any> =>
    world.call(as, 'execution/request.resolve', { request_id, result })
  const stored = async (): Promise<number> => (await blobs.list(null, 100)).length
  const signal = new AbortController().signal
  const collected = (): Promise<number> =>
    collect(world.store, blobs, { now: () => Date.now() + 2 * DAY_MS, sleep: () => Promise.resolve() }, signal)
  return { world, blobs, ask, send, fetched, resolve, stored, collected }
}

test('a file that was sent is named by the answer, and the receipt says what it is (X5)', async (t) => {
  const it = await served(t)
  const request_id = await it.ask({ max_bytes: 1_000, media_types: ['application/pdf'] })
  const sent = await it.send('alice', request_id, pdf, { media_type: 'application/pdf' })
  assert.equal(sent.status, 200, JSON.stringify(sent.json))
  const reference = {
    artifact_id: sent.json.artifact_id,
    version: 'v1',
    name: 'contract.pdf',
    media_type: 'application/pdf',
    size: pdf.length,
    sha256: sha256(pdf),
  }
  assert.match(sent.json.artifact_id, /^art_/)
  assert.deepEqual(sent.json, reference)
  for (const who of ['devin', 'project'])
    assert.equal((await it.fetched(who, reference.artifact_id)).status, 404, 'what is laid out is not handed over yet')
  const { receipt } = await it.resolve(request_id, { artifact_id: reference.artifact_id, version: 'v1' })
  assert.deepEqual(receipt.result, reference)
  const claims = JSON.parse(Buffer.from(receipt.signature.split('.')[1], 'base64url').toString())
  assert.deepEqual(claims.result, reference, 'and the signature covers it')
  for (const who of ['devin', 'alice', 'owner', 'admin', 'project']) {
    const got = await it.fetched(who, reference.artifact_id)
    assert.deepEqual([got.status, got.bytes.equals(pdf)], [200, true], who)
    assert.match(got.headers.get('content-disposition')!, /contract\.pdf/)
    assert.equal(got.headers.get('content-type'), 'application/octet-stream')
  }
  for (const who of ['rita', 'bob', 'mallory', 'robin', 'spy'])
    assert.equal((await it.fetched(who, reference.artifact_id)).status, 404, who)
})

test('the id alone names the file, too', async (t) => {
  const it = await served(t)
  const request_id = await it.ask()
  const { json } = await it.send('alice', request_id, pdf)
  const { receipt } = await it.resolve(request_id, json.artifact_id)
  assert.equal(receipt.result.sha256, sha256(pdf))
  assert.equal(receipt.result.media_type, null)
})

test('an answer names a file of this very request, in its one version, or it is none', async (t) => {
  const it = await served(t)
  const [mine, other] = [await it.ask(), await it.ask()]
  const { json } = await it.send('alice', mine, pdf)
  const { json: foreign } = await it.send('alice', other, pdf)
  const before = await stateHash(it.world.store)
  for (const result of [
    foreign.artifact_id,
    'art_nothing',
    { artifact_id: json.artifact_id, version: 'v2' },
    { artifact_id: mine },
    { version: 'v1' },
    '',
    null,
    7,
  ])
    await assert.rejects(it.resolve(mine, result), { code: 'INVALID_RESULT' }, JSON.stringify(result))
  assert.equal(await stateHash(it.world.store), before)
  await it.resolve(mine, json.artifact_id)
  await assert.rejects(it.resolve(mine, json.artifact_id), { code: 'ALREADY_RESOLVED' })
})

test('a file that the request does not allow is refused, and leaves no bytes behind', async (t) => {
  const it = await served(t)
  const small = await it.ask({ max_bytes: 10, media_types: ['image/*', 'application/pdf'] })
  const cases: [object, number, string, Uint8Array?][] = [
    [{ media_type: 'application/pdf' }, 413, 'TOO_LARGE'],
    [{ media_type: 'application/pdf', size: String(pdf.length) }, 413, 'TOO_LARGE'],
    [{ media_type: 'text/plain' }, 422, 'INVALID_RESULT', Buffer.from('x')],
    [{ media_type: 'imagery/png' }, 422, 'INVALID_RESULT', Buffer.from('x')],
    [{}, 422, 'INVALID_RESULT', Buffer.from('x')],
    [{ media_type: 'image/png', name: 'a/b.png' }, 400, 'INVALID_REQUEST', Buffer.from('x')],
    [{ media_type: 'image/png', name: 'evil\u202Egnp.exe' }, 400, 'INVALID_REQUEST', Buffer.from('x')],
    [{ media_type: 'image/png', name: '..' }, 400, 'INVALID_REQUEST', Buffer.from('x')],
    [{ media_type: 'image/png', checksum: `sha256:${'0'.repeat(64)}` }, 400, 'INVALID_REQUEST', Buffer.from('x')],
    [{ media_type: 'image/png', size: '2' }, 400, 'INVALID_REQUEST', Buffer.from('x')],
  ]
  for (const [fields, status, code, bytes = pdf] of cases) {
    const answer = await it.send('alice', small, bytes, fields as Record<string, string>)
    assert.deepEqual([answer.status, answer.json.error?.code ?? answer.json.code], [status, code], JSON.stringify(fields))
  }
  assert.equal(await it.stored(), 0)
  const fit = await it.send('alice', small, Buffer.from('0123456789'), { media_type: 'IMAGE/PNG; charset=binary' })
  assert.equal(fit.status, 200, JSON.stringify(fit.json))
})

test('only those who may answer send files, only where one is asked for, and not once it is decided', async (t) => {
  const it = await served(t)
  const request_id = await it.ask()
  for (const [who, status] of Object.entries({ devin: 403, robin: 404, rita: 404, mallory: 404, admin: 403, project: 403, nobody: 401 }))
    assert.equal((await it.send(who, request_id, pdf)).status, status, who)
  assert.equal((await it.send('deputy', request_id, pdf)).status, 200, 'who stands in for her')
  const { json } = await it.send('alice', request_id, pdf)
  await it.resolve(request_id, json.artifact_id)
  assert.equal((await it.send('alice', request_id, pdf)).status, 409)
  const text = await it.world.call('devin', 'execution/request.create', {
    action: 'PROVIDE',
    payload: { prompt: 'Which?', input_type: 'text' },
  })
  assert.equal((await it.send('alice', text.request.id, pdf)).status, 409)
  const plain = { request_id, name: 'x', checksum: `sha256:${sha256(pdf)}`, size: pdf.length }
  await assert.rejects(it.world.kernel.call('execution/file.add', plain, cast['alice']!), { code: 'INVALID_REQUEST' })
})

test('a request takes a bounded number of files, also of concurrent uploads', async (t) => {
  const it = await served(t)
  const request_id = await it.ask()
  const add = (i: number): Promise<string> =>
    it.world
      .call('alice', 'execution/file.add', { request_id, name: `${i}.txt`, checksum: `sha256:${sha256(Buffer.from(`${i}`))}`, size: 1 })
      .then(
        () => 'added',
        (error: { code: string }) => error.code,
      )
  const came = await Promise.all(Array.from({ length: limits.filesPerRequestMax + 10 }, (_, i) => add(i)))
  assert.equal(came.filter((one) => one === 'added').length, limits.filesPerRequestMax)
  assert.deepEqual([...new Set(came)].toSorted(), ['QUOTA_EXCEEDED', 'added'])
})

test('a file that no answer names is removed with its bytes after a day, and a named one stays', async (t) => {
  const it = await served(t)
  const request_id = await it.ask()
  const { json: chosen } = await it.send('alice', request_id, pdf)
  const { json: draft } = await it.send('alice', request_id, Buffer.from('a draft'))
  await it.resolve(request_id, chosen.artifact_id)
  assert.equal(await it.collected(), 0, 'an answer might still have named the draft')
  await assert.rejects(it.world.call('system', 'execution/file.expire', { artifact_id: draft.artifact_id }), {
    code: 'PRECONDITION_FAILED',
  })
  it.world.advance(limits.uploadMs)
  const { file } = await it.world.call('system', 'execution/file.expire', { artifact_id: draft.artifact_id })
  assert.equal(file.state, 'expired')
  await assert.rejects(it.world.call('system', 'execution/file.expire', { artifact_id: chosen.artifact_id }), {
    code: 'PRECONDITION_FAILED',
  })
  assert.equal((await it.fetched('alice', draft.artifact_id)).status, 410)
  assert.equal(await it.collected(), 1)
  assert.equal(await it.stored(), 1)
  assert.equal((await it.fetched('devin', chosen.artifact_id)).bytes.equals(pdf), true)
})

test('a file whose bytes are lost answers nothing', async (t) => {
  const it = await served(t)
  const request_id = await it.ask()
  const { json } = await it.send('alice', request_id, pdf)
  await it.blobs.remove(`sha256:${sha256(pdf)}`, () => Promise.resolve(true))
  await assert.rejects(it.resolve(request_id, json.artifact_id), { code: 'INVALID_RESULT' })
})
