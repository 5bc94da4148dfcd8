// kill -9 while agents ask and people answer over HXP, again and again on the same data: what was acknowledged is there word for word,
// its receipt still verifies, a retry has one effect, and what was due meanwhile is done.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { send, type Answer } from '../support/over-sockets/http-client.ts'
import { numbers } from '../support/laws/mutations.ts'
import { enroll, startServer, type Keys, type ServerProcess } from '../support/as-processes/server.ts'

const ROUNDS = 6
const CLIENTS = 6
const SEED = Number(process.env['CRASH_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const folder = mkdtempSync(join(tmpdir(), 'countersign-crash-hxp-'))
const pick = numbers(SEED)

let server: ServerProcess
let keys: Keys
let agent = new Agent({ keepAlive: true })

/** One call of a client: it is repeated under its key until it is answered. */
type Step = { readonly tag: string; readonly what: 'create' | 'resolve' | 'cancel'; readonly id: string; readonly result: string }
type Client = { readonly name: number; asked: number; step: Step; unanswered: boolean }
type Acknowledged = Step & { readonly body: any }

const acknowledged: Acknowledged[] = []
const clients: Client[] = Array.from({ length: CLIENTS }, (_, name) => ({ name, asked: 0, step: asking(name, 0), unanswered: false }))
let retried = 0

before(async () => {
  server = await startServer(join(folder, 'data'))
  keys = await enroll(server.port, server.adminKey)
})
after(async () => {
  agent.destroy()
  await server.end('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

function asking(name: number, asked: number): Step {
  return { tag: `c${name}-${asked}`, what: 'create', id: '', result: pick(2) === 0 ? 'yes' : 'no' }
}

function call(as: 'alice' | 'devin', method: string, path: string, body?: object, key?: string): Promise<Answer> {
  const headers = {
    authorization: `Bearer ${keys[as]}`,
    ...(body ? { 'content-type': 'application/json' } : {}),
    ...(key === undefined ? {} : { 'idempotency-key': key }),
  }
  return send(server.port, `/hxp/v1${path}`, { method, headers, agent, ...(body ? { body: JSON.stringify(body) } : {}) })
}

function perform({ tag, what, id, result }: Step): Promise<Answer> {
  if (what === 'create') {
    const payload = { question: `Go on with ${tag}?`, options: ['yes', 'no'] }
    return call('devin', 'POST', '/requests', { action: 'DECIDE', timeout_seconds: 3_600, tags: [tag], payload }, `${tag}-create`)
  }
  if (what === 'cancel') return call('devin', 'POST', `/requests/${id}/cancel`, { reason: tag }, `${tag}-cancel`)
  return call('alice', 'POST', `/requests/${id}/resolve`, { result, reason: tag }, `${tag}-resolve`)
}

function goOn(client: Client, body: any): void {
  const { step } = client
  acknowledged.push({ ...step, body })
  if (step.what === 'create') client.step = { ...step, what: pick(5) === 0 ? 'cancel' : 'resolve', id: body.request_id }
  else client.step = asking(client.name, ++client.asked)
}

async function work(client: Client): Promise<void> {
  for (;;) {
    let answer: Answer
    try {
      answer = await perform(client.step)
    } catch {
      client.unanswered = true
      return
    }
    assert.equal(answer.status, client.step.what === 'create' ? 201 : 200, answer.text)
    goOn(client, answer.json)
  }
}

/** Without the ticket in the address of the socket, which is new in each answer. */
const lasting = ({ ws_url: _, ...body }: any): unknown => body

async function assertKept({ what, body, tag, result }: Acknowledged): Promise<void> {
  const { status, json } = await call('devin', 'GET', `/requests/${body.request_id}`)
  assert.equal(status, 200, `${what} of ${tag}`)
  assert.deepEqual(json.tags, [tag])
  if (what === 'create') return assert.equal(json.created_at, body.created_at)
  assert.deepEqual(json.receipt, body.receipt, `the receipt of ${tag} is what it was`)
  assert.deepEqual([json.status, json.receipt.result], what === 'cancel' ? ['cancelled', null] : ['completed', result])
  const verified = await call('devin', 'POST', '/receipts/verify', { receipt: body.receipt })
  assert.equal(verified.json.valid, true, verified.text)
}

test(`${ROUNDS} times kill -9: acknowledged answers and receipts are there, retries have one effect, timers go on (seed ${SEED})`, async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const before = acknowledged.length
    const payload = { item: 'Nobody looks', details: {} }
    const timed = await call('devin', 'POST', '/requests', { action: 'APPROVE', timeout_seconds: 1, fallback: 'fail', payload })
    const working = clients.map(work)
    await new Promise((done) => setTimeout(done, 50 + pick(500)))
    await server.end('SIGKILL')
    agent.destroy()
    await Promise.all(working)
    server = await startServer(join(folder, 'data'))
    agent = new Agent({ keepAlive: true })
    for (const one of acknowledged.slice(before)) await assertKept(one)
    for (const client of clients.filter(({ unanswered }) => unanswered)) {
      client.unanswered = false
      retried++
      const [first, second] = [await perform(client.step), await perform(client.step)]
      assert.ok(first.status < 300, first.text)
      assert.deepEqual(lasting(second.json), lasting(first.json))
      goOn(client, first.json)
    }
    const { json } = await call('devin', 'GET', `/requests/${timed.json.request_id}?wait=20`)
    assert.deepEqual([json.status, json.receipt.reason, json.receipt.completed_by], ['failed', 'timeout', 'system:timeout'])
    assert.ok(json.receipt.completed_at >= timed.json.expires_at, 'not before its time')
  }
  assert.ok(acknowledged.length > 20 * ROUNDS && retried > ROUNDS, `${acknowledged.length} acknowledged, ${retried} retried`)
})

test('every call had one effect: one request for each, and one receipt', async () => {
  const seen = new Map<string, string>()
  const receipts = new Set<string>()
  for (let cursor = ''; ;) {
    const { json } = await call('devin', 'GET', `/requests?limit=200${cursor}`)
    for (const { request_id, tags } of json.requests) {
      if (tags === undefined) continue
      assert.equal(seen.get(tags[0]), undefined, `${tags[0]} was asked twice`)
      seen.set(tags[0], request_id)
    }
    if (json.next_cursor === undefined) break
    cursor = `&cursor=${encodeURIComponent(json.next_cursor)}`
  }
  for (const { tag, what, body } of acknowledged) {
    assert.equal(seen.get(tag), body.request_id)
    if (what !== 'create') receipts.add(body.receipt.receipt_id)
  }
  assert.equal(receipts.size, acknowledged.filter(({ what }) => what !== 'create').length)
})
