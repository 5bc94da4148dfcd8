// Secrets through a real server with all its logging on, over HTTP and JSON-RPC, answered rightly and wrongly: afterwards none of them
// is anywhere in its data folder, its log, its figures, its streams, its answers or its record, in any form.
import assert from 'node:assert/strict'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { compactDecrypt } from 'jose'
import { WebSocket } from 'ws'
import { canariesIn, type Place } from '../support/laws/secret-scanner.ts'
import { rpcClient } from '../support/over-sockets/rpc.ts'
import { createCaller, enroll } from '../support/as-processes/server.ts'
import { dataFolder, start } from '../support/as-processes/server-process.ts'

type Way = 'http' | 'rpc' | 'batch' | 'hxp'
type Asked = { readonly input_type: string; readonly value: string | number; readonly wrong: unknown }
const digits = (count: number): string => Array.from(randomBytes(count), (byte) => 1 + (byte % 9)).join('')
const newSecrets = (): Asked[] => {
  const word = (): string => randomBytes(12).toString('hex')
  return [
    { input_type: 'text', value: `tekst "${word()}" žluťoučký кінь 馬 \\ ${word()}`, wrong: { text: `${word()} as an object` } },
    { input_type: 'text', value: `${word()}\n\t</script>&%`, wrong: [`${word()} in a list`] },
    { input_type: 'number', value: Number(digits(15)), wrong: `NaN${word()}` },
    { input_type: 'number', value: Number(digits(8)), wrong: `${word()}` },
    { input_type: 'url', value: `https://example.com/reset/${word()}?token=${word()}`, wrong: `javascript:${word()}` },
    { input_type: 'email', value: `${word()}@example.com`, wrong: `${word()} at example.com` },
  ]
}

/** The scanner wants longer ones; eight digits are looked for as they are. */
function sightings(secrets: readonly string[], place: Place): unknown[] {
  const short = secrets.filter((secret) => secret.length < 16)
  const long = secrets.filter((secret) => secret.length >= 16)
  const files = (place.folders ?? []).flatMap((folder) =>
    readdirSync(folder, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile())
      .map((entry): [string, Buffer] => [entry.name, readFileSync(join(entry.parentPath, entry.name))]),
  )
  const texts = Object.entries(place.texts ?? {}).map(([name, text]): [string, Buffer] => [name, Buffer.from(text as string)])
  const found = short.flatMap((secret) =>
    [...files, ...texts].flatMap(([name, bytes]) =>
      [Buffer.from(secret), Buffer.from(secret, 'utf16le'), Buffer.from(Buffer.from(secret).toString('hex'))].some((form) =>
        bytes.includes(form),
      )
        ? [{ canary: secret, where: name }]
        : [],
    ),
  )
  return [...found, ...canariesIn(long, place)]
}

type Posted = { readonly status: number; readonly headers: string; readonly text: string }
async function post(port: number, path: string, headers: Record<string, string>, body: string): Promise<Posted> {
  const { promise, resolve, reject } = Promise.withResolvers<Posted>()
  const sent = request({ host: '127.0.0.1', port, path, method: 'POST', headers }, (answer) => {
    let text = ''
    answer.on('data', (part) => (text += String(part)))
    answer.on('end', () => resolve({ status: answer.statusCode!, headers: JSON.stringify(answer.headers), text }))
  })
  sent.on('error', reject)
  sent.end(body)
  return promise
}

async function listening(t: TestContext, port: number, socket: string, admin: string, alice: string) {
  const heard = { sse: '', ws: '', rpc: '', inbox: '', room: '' }
  const sse = request({
    host: '127.0.0.1',
    port,
    path: '/v1/events?project_id=project_default',
    headers: { authorization: `Bearer ${admin}` },
  })
  sse.on('response', (answer) => answer.on('data', (part) => (heard.sse += String(part))).on('error', () => undefined))
  sse.on('error', () => undefined)
  sse.end()
  const inbox = request({ host: '127.0.0.1', port, path: '/v1/execution/inbox.follow', headers: { authorization: `Bearer ${alice}` } })
  inbox.on('response', (answer) => answer.on('data', (part) => (heard.inbox += String(part))).on('error', () => undefined))
  inbox.on('error', () => undefined)
  inbox.end()
  const ws = new WebSocket(`ws://127.0.0.1:${port}/v1/ws`, { headers: { authorization: `Bearer ${admin}` } })
  ws.on('message', (data: Buffer) => (heard.ws += data.toString()))
  await new Promise<void>((done, failed) => ws.once('open', () => done()).once('error', failed))
  ws.send(JSON.stringify({ subscribe: { stream: 'collaboration/audit.follow', input: { project_id: 'project_default' }, id: 'a' } }))
  const rpc = await rpcClient(socket, admin)
  rpc.socket.on('data', (text: string) => (heard.rpc += text))
  await rpc.call('rpc.follow', { stream: 'collaboration/audit.follow', input: { project_id: 'project_default' } })
  t.after(() => {
    sse.destroy()
    inbox.destroy()
    ws.terminate()
    rpc.socket.destroy()
  })
  return heard
}

test('no secret is seen anywhere', async (t) => {
  const data = dataFolder(t)
  const server = await start(t, ['--data', data, '--log', 'debug', '--quota', 'off'])
  const { port } = server
  const admin = readFileSync(join(data, 'admin.key'), 'utf8').trim()
  const keys = await enroll(port, admin)
  const http = createCaller(port)
  t.after(http.close)
  const answers: string[] = []
  const call = async (bearer: string, operation: string, input: object, key?: string) => {
    const answer = await http.call(bearer, operation, input, key)
    answers.push(JSON.stringify(answer.body))
    return answer
  }
  const { key: robin } = (
    await http
      .call(admin, 'identity/agent.add', { id: 'agent_robin', name: 'Robin', owner: 'user_alice' })
      .then(() => http.call(admin, 'identity/key.issue', { subject: 'agent_robin' }))
  ).body
  const { publicKey, privateKey } = generateKeyPairSync('x25519')
  await call(robin, 'identity/agent.seal_key', { agent_id: 'agent_robin', jwk: publicKey.export({ format: 'jwk' }) })
  const heard = await listening(t, port, join(data, 'countersign.sock'), admin, keys.alice)
  const people = await rpcClient(join(data, 'countersign.sock'), keys.alice)
  const agents = await rpcClient(join(data, 'countersign.sock'), keys.devin)
  t.after(() => [people, agents].map(({ socket }) => socket.destroy()))

  const secrets: (string | number)[] = []
  const mistakes: string[] = []
  const taken: string[] = []
  const bearer = { authorization: `Bearer ${keys.alice}`, 'content-type': 'application/json' }

  /** Hears what becomes of one request, as the draft's clients do. */
  async function room(agent: string, request_id: string): Promise<void> {
    const ws = new WebSocket(`ws://127.0.0.1:${port}/hxp/ws/${request_id}`, { headers: { authorization: `Bearer ${agent}` } })
    ws.on('message', (data: Buffer) => (heard.room += data.toString()))
    t.after(() => ws.terminate())
    await new Promise<void>((done, failed) => ws.once('open', () => done()).once('error', failed))
  }

  /** One of the ways to answer; each answer is kept, to be searched. */
  async function resolveOver(over: Way, request_id: string, result: unknown, key: string | undefined) {
    const input = { request_id, result }
    if (over === 'http') return call(keys.alice, 'execution/request.resolve', input, key)
    if (over === 'batch') {
      const { body: shown } = await call(keys.alice, 'execution/inbox.get', { request_id })
      const { body } = await call(keys.alice, 'execution/inbox.resolve', { answers: [{ ...input, digest: shown.item.digest }] }, key)
      return { status: body.results?.[0].ok ? 200 : 422, body: body.results?.[0] }
    }
    if (over === 'hxp') {
      const headers = { ...bearer, ...(key === undefined ? {} : { 'idempotency-key': key }) }
      const posted = await post(port, `/hxp/v1/requests/${request_id}/resolve`, headers, JSON.stringify({ result, reason: null }))
      answers.push(JSON.stringify(posted), posted.text)
      const body = JSON.parse(posted.text)
      return { status: posted.status, body: { receipt: body.receipt ?? body } }
    }
    const message = await people.call(
      'execution/request.resolve',
      key === undefined ? input : { ...input, _meta: { idempotency_key: key } },
    )
    answers.push(JSON.stringify(message))
    return { status: message.error ? message.error.data.status : 200, body: message.result }
  }

  async function through(agent: string, over: Way, key: string | undefined, { input_type, value, wrong }: Asked) {
    secrets.push(value)
    mistakes.push(/[0-9a-f]{24}/.exec(JSON.stringify(wrong))![0])
    const payload = { prompt: 'The token, please', input_type, sensitive: true }
    const { body: made } = await call(agent, 'execution/request.create', { action: 'PROVIDE', payload })
    const request_id: string = made.request.id
    const resolve = (result: unknown, more: string | undefined) => resolveOver(over, request_id, result, more)
    await room(agent, request_id)
    await resolve(wrong, key === undefined ? undefined : `${key}-wrong`)
    // Bodies that are no JSON, that lie, and that come from those who may not.
    const raw = JSON.stringify({ request_id, result: value })
    for (const body of [
      raw.slice(0, -1),
      `${raw}${raw}`,
      raw.replace('"result"', '"result":1,"result"'),
      raw.replace('{', '{"by":"user_bob",'),
    ])
      answers.push(JSON.stringify(await post(port, '/v1/execution/request.resolve', bearer, body)))
    answers.push(JSON.stringify(await post(port, '/v1/execution/request.resolve', { ...bearer, authorization: 'Bearer nobody' }, raw)))
    await call(keys.devin, 'execution/request.resolve', { request_id, result: value })
    people.write(`{"jsonrpc":"2.0","id":"x","method":"execution/request.resolve","params":${raw}]\n`)
    const { status, body } = await resolve(value, key)
    assert.equal(status, 200, JSON.stringify(body))
    assert.deepEqual(Object.keys(body.receipt.result).toSorted(), ['commitment', 'sealed_to', 'secret_id'])
    if (key !== undefined) {
      await resolve(value, key)
      await resolve('another', key)
    }
    await resolve(value, undefined)
    await call(agent, 'execution/request.get', { request_id })
    await call(keys.alice, 'execution/request.await', { request_id, wait: 0 })
    return { request_id, receipt: body.receipt }
  }

  for (const over of ['http', 'rpc', 'batch', 'hxp'] as const) {
    for (const key of [undefined, `key-${over}`]) {
      for (const [i, secret] of newSecrets().entries()) {
        const { request_id } = await through(keys.devin, over, key && `${key}-${i}`, secret)
        // The last of each stays where it is: the ciphertext is in the database when it is searched.
        if (i === 5) continue
        const { status, body } = await http.call(keys.devin, 'execution/secret.take', { request_id }, `take-${over}-${String(key)}-${i}`)
        assert.equal(status, 200, JSON.stringify(body))
        assert.equal(body.value, secret.value)
        taken.push(body.salt)
        await call(keys.devin, 'execution/secret.take', { request_id }, `take-${over}-${String(key)}-${i}`)
        assert.equal((await call(keys.devin, 'execution/secret.take', { request_id })).status, 410)
        assert.notEqual((await call(keys.alice, 'execution/secret.take', { request_id })).status, 200)
      }
    }
  }
  const [sealed] = newSecrets()
  const { request_id } = await through(robin, 'http', 'sealed', sealed!)
  const { body: jwe } = await call(robin, 'execution/secret.take', { request_id })
  const opened = JSON.parse(new TextDecoder().decode((await compactDecrypt(jwe.sealed, privateKey)).plaintext))
  assert.equal(opened.value, sealed!.value)
  taken.push(opened.salt)

  // Texts that are no secret are found by the same means: else their silence would prove nothing.
  const decoy = `no secret ${randomBytes(12).toString('hex')} žluť`
  const asked = await http.call(keys.devin, 'execution/request.create', {
    action: 'PROVIDE',
    payload: { prompt: 'What?', input_type: 'text' },
  })
  await room(keys.devin, asked.body.request.id)
  await http.call(keys.alice, 'execution/request.resolve', { request_id: asked.body.request.id, result: decoy })

  const record: string[] = []
  for (let cursor: string | null | undefined; cursor !== null;) {
    const { body } = await http.call(admin, 'collaboration/audit.query', {
      project_id: 'project_default',
      limit: 200,
      ...(cursor === undefined ? {} : { cursor }),
    })
    record.push(JSON.stringify(body))
    cursor = body.next_cursor as string | null
  }
  const figures = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  for (let i = 0; i < 500 && Object.values(heard).some((text) => !text.includes(asked.body.request.id)); i++)
    await new Promise((done) => setTimeout(done, 10))
  for (const [name, text] of Object.entries(heard)) assert.ok(text.includes(asked.body.request.id), `${name} has come to the end`)

  const canaries = [...secrets.map(String), ...mistakes, ...taken]
  const texts = () => ({
    answers: answers.join('\n'),
    record: record.join('\n'),
    figures,
    log: server.stderr(),
    out: server.stdout(),
    ...heard,
  })
  assert.ok(canaries.length > 50 && server.stderr().length > 1_000, 'there was something to search')
  assert.deepEqual(sightings(canaries, { folders: [data], texts: texts() }), [], 'while it runs: database, WAL, keys, blobs')
  await server.end('SIGTERM')
  assert.deepEqual(sightings(canaries, { folders: [data], texts: texts() }), [], 'and when it has stopped')
  const found = sightings([decoy], { folders: [data], texts: texts() }).map((one) => (one as { where: string }).where)
  for (const where of ['countersign.db', 'record', 'sse', 'ws', 'rpc', 'room'])
    assert.ok(found.includes(where), `${where} was searched: ${found.join()}`)
})
