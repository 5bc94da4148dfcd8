// The draft's HTTP binding on a real socket: every status of 5.3 by name, every bad input of ours by name, and who may do what.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { coveredBy } from '#protocols/execution/answering/request-digest.ts'
import { openBlobs } from '#stores/blobs/index.ts'
import { memoryStore } from '#stores/memory.ts'
import { send, sendBytes } from '../../support/over-sockets/http-client.ts'
import { testNotary } from '#test/support/in-process/notary.ts'
import { assertRefused, hxpWorld, QUESTION } from '../../support/over-sockets/hxp-world.ts'
import { claimsIn } from '../../support/in-process/requests.ts'

const ULID = /^hxp_[0-9A-HJKMNP-TV-Z]{26}$/
const APPROVAL = { action: 'APPROVE', payload: { item: 'Deploy to production', details: { version: '2.1' } } }
const provide = (input_type: string, more: object = {}): object => ({
  action: 'PROVIDE',
  payload: { prompt: 'Which one?', input_type, ...more },
})

// --- 5.1 and 5.3: what works -----------------------------------------------------------------------------------------------

test('a polling client sees every change, and only those meant for it', async (t) => {
  const world = await hxpWorld(t)
  const { request_id, poll_url } = await world.ask('devin', { ...QUESTION, role: 'pool' })
  const look = async (who: string) => (await world.http(who, 'GET', poll_url)).json
  const first = await look('devin')
  assert.deepEqual(await look('devin'), first)
  await world.call('alice', 'execution/request.claim', { request_id })
  const [claimed, hers, again] = [await look('devin'), await look('alice'), await look('devin')]
  assert.deepEqual([first.status, claimed.status, hers.status], ['pending', 'assigned', 'assigned'])
  assert.deepEqual(again, claimed, 'what a person has looked at is not what the agent gets')
  assert.deepEqual([claimed.assigned_to, hers.assigned_to], [undefined, 'user_alice'], 'nobody in a pool is known by name')
  await world.call('alice', 'execution/request.question', { request_id, text: 'For how long?' })
  assert.deepEqual(
    (await look('devin')).thread.map(({ by, text }: { by: string; text: string }) => [by, text]),
    [['pool', 'For how long?']],
  )
  assert.equal((await look('alice')).thread[0].by, 'user_alice')
})

test('201: a request is created, and the answer says where to look and where to listen', async (t) => {
  const world = await hxpWorld(t)
  const answer = await world.http('devin', 'POST', '/requests', {
    action: 'DECIDE',
    role: 'owner',
    priority: 'normal',
    timeout_seconds: 3600,
    fallback: 'pause',
    agent_id: 'agent_devin',
    project_id: 'project_alpha',
    payload: {
      question: 'Approve $99/mo Stripe plan?',
      options: ['Approve', 'Deny'],
      context: 'Required for payment processing in Project Alpha.',
    },
  })
  assert.equal(answer.status, 201, answer.text)
  const { request_id, status, created_at, expires_at, poll_url, ws_url } = answer.json
  assert.deepEqual(Object.keys(answer.json), ['request_id', 'status', 'created_at', 'expires_at', 'poll_url', 'ws_url'])
  assert.match(request_id, ULID)
  assert.equal(status, 'pending')
  assert.equal(Date.parse(expires_at) - Date.parse(created_at), 3_600_000)
  assert.equal(poll_url, `/hxp/v1/requests/${request_id}`)
  assert.match(ws_url, new RegExp(`^ws://127\\.0\\.0\\.1:${world.port}/hxp/ws/${request_id}\\?ticket=[A-Za-z0-9_-]{24}$`))
  assert.equal(answer.headers['hxp-status'], 'pending')
  assert.equal(answer.headers['hxp-request-id'], request_id)
  assert.equal(answer.headers['location'], undefined, 'no redirect')

  const polled = await world.http('devin', 'GET', poll_url)
  assert.equal(polled.status, 200)
  const { assigned_to, assigned_at, kind, ...shown } = polled.json
  assert.deepEqual(shown, {
    request_id,
    status: 'pending',
    action: 'DECIDE',
    role: 'owner',
    priority: 'normal',
    timeout_seconds: 3600,
    fallback: 'pause',
    agent_id: 'agent_devin',
    metadata: {},
    created_at,
    expires_at,
    payload: {
      question: 'Approve $99/mo Stripe plan?',
      options: ['Approve', 'Deny'],
      context: 'Required for payment processing in Project Alpha.',
    },
    overdue: false,
    project_id: 'project_alpha',
  })
  assert.deepEqual([assigned_to, assigned_at, kind], ['user_alice', created_at, 'request'])
  assert.equal(polled.headers['hxp-status'], 'pending')
  assert.equal(polled.headers['hxp-request-id'], request_id)
})

test('omitted fields have their defaults, and absent fields stay absent', async (t) => {
  const world = await hxpWorld(t)
  const { request_id, expires_at } = await world.ask()
  assert.equal(expires_at, null)
  const { json } = await world.http('devin', 'GET', `/requests/${request_id}`)
  assert.deepEqual([json.role, json.priority, json.timeout_seconds, json.fallback], ['owner', 'normal', 0, 'pause'])
  assert.equal(json.agent_id, 'agent_devin')
  for (const name of ['project_id', 'receipt', 'tags']) assert.ok(!(name in json), name)
  const ours = await world.ask('devin', { project_id: 'project_default' })
  assert.equal((await world.http('devin', 'GET', ours.poll_url)).json.project_id, 'project_default', 'what was sent is shown')
})

test('200: a request is retrieved and resolved, and the receipt says so to both sides', async (t) => {
  const world = await hxpWorld(t)
  const { request_id, poll_url } = await world.ask()
  world.advance(90_000)
  const resolved = await world.http('alice', 'POST', `/requests/${request_id}/resolve`, { result: 'Approve', reason: null })
  assert.equal(resolved.status, 200, resolved.text)
  const { receipt } = resolved.json
  assert.deepEqual(
    [receipt.request_id, receipt.status, receipt.result, receipt.completed_by],
    [request_id, 'completed', 'Approve', 'user_alice'],
  )
  assert.equal(receipt.duration_seconds, 90)
  // 4.2, with the secret of the tests.
  const evidence = `${request_id}Approve${receipt.completed_at}a secret of the tests`
  assert.equal(receipt.evidence_hash, createHash('sha256').update(evidence).digest('hex'))
  assert.equal(typeof receipt.signature, 'string')
  assert.equal(resolved.headers['hxp-status'], 'completed')
  assert.equal(resolved.headers['hxp-request-id'], request_id)
  const polled = await world.http('devin', 'GET', poll_url)
  assert.equal(polled.json.status, 'completed')
  assert.deepEqual(polled.json.receipt, receipt)
  assert.equal(polled.headers['hxp-status'], 'completed')
})

test('the digest of a request is that of its receipt, also if it was given more time', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask('devin', { timeout_seconds: 600 })
  await world.call('alice', 'execution/request.extend', { request_id, timeout_seconds: 6_000 })
  await world.resolve(request_id, 'Approve')
  const { json } = await world.http('devin', 'GET', `/requests/${request_id}`)
  assert.equal(claimsIn(json.receipt).request_digest, sha256(canonical(coveredBy(json))))
})

test('cancel works by POST and by DELETE, with a receipt', async (t) => {
  const world = await hxpWorld(t)
  for (const [method, path] of [
    ['POST', '/cancel'],
    ['DELETE', ''],
  ] as const) {
    const { request_id } = await world.ask()
    const cancelled = await world.http('devin', method, `/requests/${request_id}${path}`)
    assert.equal(cancelled.status, 200, cancelled.text)
    assert.deepEqual([cancelled.json.request_id, cancelled.json.status], [request_id, 'cancelled'])
    assert.equal(cancelled.json.receipt.status, 'cancelled')
    assert.equal(cancelled.headers['hxp-status'], 'cancelled')
    const twice = await world.resolve(request_id, 'Approve')
    assertRefused(twice, 409, 'already_resolved')
    assert.match(
      twice.json.message,
      /^already closed: withdrawn, by agent_devin, (just now|\d+ seconds? ago)$/,
      'what happened, not what should be',
    )
    assert.equal((await world.http('devin', 'GET', `/requests/${request_id}`)).json.status, 'cancelled')
  }
})

test('a request that expired: pause stays pending and overdue, fail has failed, default has completed; GET is 200 for each', async (t) => {
  const world = await hxpWorld(t)
  const stateAfter = async (more: object): Promise<any> => {
    const { request_id, poll_url } = await world.ask('devin', { timeout_seconds: 60, ...more })
    await world.expire(request_id)
    const { status, json } = await world.http('devin', 'GET', poll_url)
    assert.equal(status, 200)
    return json
  }
  const paused = await stateAfter({ fallback: 'pause' })
  assert.deepEqual([paused.status, paused.overdue, 'receipt' in paused], ['pending', true, false])
  assert.equal((await world.resolve(paused.request_id, 'Deny')).status, 200, 'it can still be answered')
  const failed = await stateAfter({ fallback: 'fail' })
  assert.deepEqual([failed.status, failed.receipt.status, failed.receipt.reason], ['failed', 'failed', 'timeout'])
  const taken = await stateAfter({ fallback: 'default', payload: { ...QUESTION.payload, default_option: 'Deny' } })
  assert.deepEqual([taken.status, taken.receipt.result, taken.receipt.completed_by], ['completed', 'Deny', 'system:fallback'])
})

// --- 5.3: what is refused --------------------------------------------------------------------------------------------------

test('400: invalid requests are refused, each with its field, and nothing is stored', async (t) => {
  const world = await hxpWorld(t)
  const options = (count: number): object => ({
    payload: { question: 'Which?', options: Array.from({ length: count }, (_, i) => `number ${i}`) },
  })
  let deep: unknown = 'x'
  for (let i = 0; i < 30; i++) deep = { deep }
  const bad: Record<string, unknown> = {
    'an unknown action': { action: 'SIGN' },
    'an action in small letters': { action: 'decide' },
    'an unknown role': { role: 'boss' },
    'an unknown priority': { priority: 'urgent' },
    'an unknown fallback': { fallback: 'approve' },
    '1 option': options(1),
    '7 options': options(7),
    'duplicate options': { payload: { question: 'Which?', options: ['Same', 'Same'] } },
    'options that are no strings': { payload: { question: 'Which?', options: [1, 2] } },
    'a default that is none of the options': { payload: { ...QUESTION.payload, default_option: 'Maybe' } },
    'fallback default without a default': { fallback: 'default', timeout_seconds: 60 },
    'default on APPROVE': { ...APPROVAL, fallback: 'default', timeout_seconds: 60 },
    'context of 501 characters': { payload: { ...QUESTION.payload, context: 'x'.repeat(501) } },
    'a question of 301 characters': { payload: { ...QUESTION.payload, question: 'x'.repeat(301) } },
    'a negative timeout': { timeout_seconds: -1 },
    'a fractional timeout': { timeout_seconds: 1.5 },
    'a timeout that is text': { timeout_seconds: '60' },
    'a timeout of 1e300': { timeout_seconds: 1e300 },
    'a timeout beyond ten years': { timeout_seconds: limits.timeoutSecondsMax + 1 },
    'a catastrophic pattern': provide('text', { validation: { pattern: '(a+)+$(?=b)' } }),
    'an unknown input type': provide('password'),
    'payload: null': { payload: null },
    'a payload that is a list': { payload: [] },
    'no payload': { payload: undefined },
    'details of more than 16 KiB': { action: 'APPROVE', payload: { item: 'x', details: { note: 'x'.repeat(17_000) } } },
    'details nested deep': { action: 'APPROVE', payload: { item: 'x', details: { deep } } },
  }
  const before = world.store.stats().position
  for (const [name, more] of Object.entries(bad)) {
    const answer = await world.http('devin', 'POST', '/requests', { ...QUESTION, ...(more as object) })
    assert.equal(answer.status, 400, `${name}: ${answer.text}`)
    assertRefused(answer, 400, 'invalid_request')
  }
  const raw: Record<string, string> = {
    'malformed JSON': '{"action": "DECIDE",',
    'a timeout of NaN': '{"action":"DECIDE","timeout_seconds":NaN,"payload":{}}',
    'no object': '"DECIDE"',
    'a list': '[]',
    null: 'null',
    'a key twice': '{"action":"DECIDE","action":"APPROVE","payload":{"question":"x","options":["a","b"]}}',
    '10 kB of nesting': `{"action":"DECIDE","payload":${'['.repeat(5_000)}${']'.repeat(5_000)}}`,
    'bytes that are no text': '\u0000\u0001',
  }
  for (const [name, body] of Object.entries(raw)) {
    const answer = await world.http('devin', 'POST', '/requests', body)
    assert.equal(answer.status, 400, `${name}: ${answer.text}`)
    assertRefused(answer, 400, 'invalid_request')
  }
  assertRefused(await world.http('devin', 'POST', '/requests'), 400, 'invalid_request')
  assertRefused(await world.http('devin', 'POST', '/requests', QUESTION, { 'idempotency-key': 'not ascii \u00e9' }), 400, 'invalid_request')
  for (const query of ['wait=soon', 'wait=-1', 'wait=1.5'])
    assertRefused(await world.http('devin', 'GET', `/requests/hxp_X?${query}`), 400, 'invalid_request')
  for (const query of ['limit=0', 'limit=ten', 'status=lost', 'cursor=nonsense', 'offset=-1'])
    assertRefused(await world.http('devin', 'GET', `/requests?${query}`), 400, 'invalid_request')
  assertRefused(await world.http('alice', 'GET', '/inbox?priority=urgent'), 400, 'invalid_request')
  assert.equal(world.store.stats().position, before, 'nothing was recorded')
})

test('401: no credential, a wrong one, a revoked one, and one of the wrong kind', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask()
  for (const as of [null, 'dev-agent-key', 'cs_nothing'])
    for (const [method, path] of [
      ['POST', '/requests'],
      ['GET', '/requests'],
      ['GET', `/requests/${request_id}`],
      ['GET', '/inbox'],
      ['POST', `/requests/${request_id}/resolve`],
      ['POST', `/requests/${request_id}/cancel`],
      ['GET', '/delegation/rules'],
      ['GET', '/stats'],
      ['POST', '/receipts/verify'],
    ] as const) {
      const answer = await world.http(as, method, path, method === 'POST' ? QUESTION : undefined)
      assertRefused(answer, 401, 'unauthorized')
      assert.equal(answer.headers['www-authenticate'], 'Bearer realm="countersign"')
    }
  assertRefused(await world.http(null, 'GET', '/stats', undefined, { authorization: 'Basic eDp5' }), 401, 'unauthorized')
  const forPeople = [
    ['GET', '/inbox'],
    ['POST', `/requests/${request_id}/resolve`],
    ['GET', '/delegation/rules'],
    ['POST', '/delegation/rules'],
    ['PUT', '/delegation/rules'],
    ['DELETE', '/delegation/rules/rule_1'],
  ] as const
  for (const [method, path] of forPeople)
    for (const as of ['devin', 'project'])
      assertRefused(
        await world.http(as, method, path, ['GET', 'DELETE'].includes(method) ? undefined : { result: 'Approve' }),
        401,
        'unauthorized',
      )
  for (const [method, path] of [
    ['POST', '/requests'],
    ['GET', '/requests'],
    ['POST', `/requests/${request_id}/cancel`],
    ['DELETE', `/requests/${request_id}`],
  ] as const)
    assertRefused(await world.http('alice', method, path, method === 'POST' ? QUESTION : undefined), 401, 'unauthorized')
  assertRefused(await world.http('devin', 'POST', '/requests', { ...QUESTION, agent_id: 'agent_robin' }), 401, 'unauthorized')
  assertRefused(await world.http('project', 'POST', '/requests', { ...QUESTION, agent_id: 'agent_spy' }), 401, 'unauthorized')
  await world.call('system', 'identity/key.revoke', { key_id: world.keyIds['devin']! })
  assertRefused(await world.http('devin', 'GET', `/requests/${request_id}`), 401, 'unauthorized')
  assert.equal((await world.http('alice', 'GET', `/requests/${request_id}`)).json.status, 'pending', 'nothing happened to it')
})

test('404: unknown ids, invalid ids and foreign ids', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask()
  const nowhere = ['hxp_01M7GMWX16CYD5TMA0423FKEE4', '%00', 'a%2Fb', '..', 'x'.repeat(81), `${request_id}/nothing`]
  for (const id of nowhere) assertRefused(await world.http('devin', 'GET', `/requests/${id}`), 404, 'not_found')
  for (const as of ['robin', 'spy', 'mallory', 'bob'])
    assertRefused(await world.http(as, 'GET', `/requests/${request_id}`), 404, 'not_found')
  for (const as of ['robin', 'spy']) {
    assertRefused(await world.http(as, 'POST', `/requests/${request_id}/cancel`), 404, 'not_found')
    assertRefused(await world.http(as, 'DELETE', `/requests/${request_id}`), 404, 'not_found')
  }
  for (const as of ['bob', 'rita', 'mallory']) assertRefused(await world.resolve(request_id, 'Approve', {}, as), 404, 'not_found')
  const theirs = await world.ask('devin', { quorum: { n: 1, of: ['user_bob', 'user_rita'] } })
  assert.equal((await world.http('alice', 'GET', theirs.poll_url)).status, 200, 'she answers for the agent')
  assertRefused(await world.resolve(theirs.request_id, 'Approve'), 404, 'not_found')
  for (const path of ['/hxp/v2/requests', '/hxp/v1', '/hxp/v1/nothing', '/hxp/v1/requests/a/b/c'])
    assertRefused(await world.http('devin', 'GET', path), 404, 'not_found')
  assert.equal((await world.http('devin', 'GET', '/hxpx')).status, 404, 'a path beside it is not ours')
  assert.equal((await world.http('devin', 'GET', `/requests/${request_id}`)).json.status, 'pending')
})

test('the routed person and the installation owner read and answer, and no one else', async (t) => {
  const world = await hxpWorld(t)
  const first = await world.ask()
  for (const as of ['devin', 'project', 'alice', 'owner']) assert.equal((await world.http(as, 'GET', first.poll_url)).status, 200, as)
  assert.equal((await world.resolve(first.request_id, 'Approve', {}, 'owner')).status, 200)
  const second = await world.http('project', 'POST', '/requests', { ...QUESTION, agent_id: 'agent_devin' })
  assert.equal(second.status, 201, second.text)
  assert.equal((await world.http('devin', 'GET', second.json.poll_url)).json.agent_id, 'agent_devin')
  assert.equal((await world.http('project', 'POST', `/requests/${second.json.request_id}/cancel`)).status, 200)
})

test('409: resolving twice, cancelling what is resolved, and a key that came before with another body', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask()
  assert.equal((await world.resolve(request_id, 'Approve')).status, 200)
  assertRefused(await world.resolve(request_id, 'Approve'), 409, 'already_resolved')
  assertRefused(await world.resolve(request_id, 'Deny', {}, 'owner'), 409, 'already_resolved')
  assertRefused(await world.http('devin', 'POST', `/requests/${request_id}/cancel`), 409, 'already_resolved')
  const key = { 'idempotency-key': 'one' }
  assert.equal((await world.http('devin', 'POST', '/requests', QUESTION, key)).status, 201)
  assertRefused(await world.http('devin', 'POST', '/requests', APPROVAL, key), 409, 'conflict')
  const seen = await world.ask()
  assertRefused(await world.resolve(seen.request_id, 'Approve', { digest: 'of something else' }), 409, 'changed')
})

test('422: a result that does not fit is refused, and the request stays open', async (t) => {
  const world = await hxpWorld(t)
  const tries: [string, object, object, unknown][] = [
    ['a result outside the options', QUESTION, { result: 'Maybe' }, 'Approve'],
    ['an option in other letters', QUESTION, { result: 'approve' }, 'Approve'],
    ['a result that is no string', QUESTION, { result: ['Approve'] }, 'Approve'],
    ['a word that is neither approved nor rejected', APPROVAL, { result: 'yes' }, 'approved'],
    [
      'a rejection without the required reason',
      { action: 'APPROVE', payload: { item: 'x', details: {}, reject_requires_reason: true } },
      { result: 'rejected' },
      'approved',
    ],
    ['a number that is text', provide('number'), { result: 'forty-two' }, '42'],
    ['an e-mail that is not one', provide('email'), { result: 'not an address' }, 'a@example.com'],
    ['a URL that is not one', provide('url'), { result: 'not a url' }, 'https://example.com/'],
    ['a value that is not allowed', provide('selection', { validation: { allowed_values: ['a', 'b'] } }), { result: 'c' }, 'a'],
    ['a text that does not fit its pattern', provide('text', { validation: { pattern: '^[0-9]+$' } }), { result: 'x' }, '7'],
  ]
  for (const [name, asked, answer, good] of tries) {
    const { request_id } = await world.ask('devin', asked)
    const refused = await world.http('alice', 'POST', `/requests/${request_id}/resolve`, answer)
    assert.equal(refused.status, 422, `${name}: ${refused.text}`)
    assertRefused(refused, 422, 'invalid_result')
    assert.equal((await world.resolve(request_id, good)).status, 200, `${name}: a good one is taken`)
  }
  const { request_id } = await world.ask()
  assertRefused(await world.http('alice', 'POST', `/requests/${request_id}/resolve`, {}), 400, 'invalid_request')
})

test('408: resolving what ended by its deadline, again and again without harm', async (t) => {
  const world = await hxpWorld(t)
  const { request_id, poll_url } = await world.ask('devin', { timeout_seconds: 60, fallback: 'fail' })
  world.advance(61_000)
  // Before the timer has fired it is as late as after it.
  assertRefused(await world.resolve(request_id, 'Approve'), 408, 'expired')
  await world.expire(request_id, 0)
  const { receipt } = (await world.http('devin', 'GET', poll_url)).json
  for (let i = 0; i < 3; i++) assertRefused(await world.resolve(request_id, 'Approve'), 408, 'expired')
  assertRefused(await world.http('devin', 'POST', `/requests/${request_id}/cancel`), 408, 'expired')
  assert.deepEqual((await world.http('devin', 'GET', poll_url)).json.receipt, receipt)
})

test('413: a body that is too large, announced or not', async (t) => {
  const world = await hxpWorld(t)
  const body = JSON.stringify({ ...QUESTION, metadata: { note: 'x'.repeat(limits.bodyBytesMax) } })
  assertRefused(await world.http('devin', 'POST', '/requests', body), 413, 'too_large')
  assertRefused(await world.http('devin', 'POST', '/requests', body, { 'transfer-encoding': 'chunked' }), 413, 'too_large')
  const pieces = await world.http('devin', 'POST', '/requests', JSON.stringify(QUESTION), { 'transfer-encoding': 'chunked' })
  assert.equal(pieces.status, 201, 'one that is sent in pieces is as good as any')
})

test('429: quotas say when to come again', async (t) => {
  const world = await hxpWorld(t, { asksPerMinute: null, changesPerMinute: 3 })
  for (let i = 0; i < 3; i++) await world.ask()
  const refused = await world.http('devin', 'POST', '/requests', QUESTION)
  assertRefused(refused, 429, 'rate_limited')
  assert.match(String(refused.headers['retry-after']), /^[1-9]\d*$/)
  const bounded = await hxpWorld(t, { terms: { asksOpenMax: 1, criticalPerHourMax: 1 } })
  await bounded.ask('devin', { priority: 'critical' })
  for (const priority of ['normal', 'critical']) {
    const answer = await bounded.http('devin', 'POST', '/requests', { ...QUESTION, priority })
    assertRefused(answer, 429, 'rate_limited')
    assert.ok(Number(answer.headers['retry-after']) > 0)
  }
  await bounded.ask('robin', { priority: 'critical' })
})

test('503: a store that cannot write says so, and reads still work', async (t) => {
  let isFull = false
  const store = memoryStore({
    onWrite(_, apply) {
      if (isFull) throw Object.assign(new Error('the disk is full'), { failure: 'full' })
      apply()
    },
  })
  const world = await hxpWorld(t, { store })
  const { request_id } = await world.ask()
  isFull = true
  const refused = await world.http('devin', 'POST', '/requests', QUESTION)
  assertRefused(refused, 503, 'unavailable')
  assert.ok(Number(refused.headers['retry-after']) > 0)
  assert.equal((await world.http('devin', 'GET', `/requests/${request_id}`)).json.status, 'pending')
})

test('waiting clients are answered when the server stops', async (t) => {
  const world = await hxpWorld(t)
  const waiting = world.ask().then(({ poll_url }) => world.http('devin', 'GET', `${poll_url}?wait=30`))
  await new Promise((done) => setTimeout(done, 50))
  world.kernel.release()
  assert.equal((await waiting).json.status, 'pending', 'whoever waits is answered')
})

test('a receipt is verified: ours as it is, and nothing that was changed or made up', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask()
  const { receipt } = (await world.http('alice', 'POST', `/requests/${request_id}/resolve`, { result: 'Approve' })).json
  const verify = (body: unknown) => world.http('devin', 'POST', '/receipts/verify', body)
  const good = (await verify({ receipt })).json
  assert.deepEqual([good.valid, good.claims.request_id, good.claims.result], [true, request_id, 'Approve'])
  assert.deepEqual((await verify({ receipt: { ...receipt, result: 'Deny' } })).json.reason, 'changed')
  const [header, payload, signature] = receipt.signature.split('.')
  const forged = `${header}.${payload}.${signature.replace(/^./, (first: string) => (first === 'A' ? 'B' : 'A'))}`
  assert.deepEqual((await verify({ receipt: { ...receipt, signature: forged } })).json.reason, 'bad_signature')
  assert.deepEqual((await verify({ receipt: {} })).json.valid, false)
  for (const body of [{}, { receipt: null }, { receipt: 'x' }, null]) assertRefused(await verify(body), 400, 'invalid_request')
})

// --- Lists -----------------------------------------------------------------------------------------------------------------

test('the inbox: critical first, then by age; filters; totals that are exact', async (t) => {
  const world = await hxpWorld(t)
  const made: Record<string, string> = {}
  for (const priority of ['low', 'normal', 'critical', 'high', 'normal', 'critical'] as const) {
    const { request_id } = await world.ask('devin', { priority })
    made[request_id] = priority
  }
  const { request_id: claimed } = await world.ask('devin', { role: 'pool', priority: 'high' })
  const page = await world.http('alice', 'GET', '/inbox')
  assert.equal(page.status, 200, page.text)
  assert.deepEqual(
    page.json.requests.map((one: any) => one.priority),
    ['critical', 'critical', 'high', 'high', 'normal', 'normal', 'low'],
  )
  assert.deepEqual([page.json.total, page.json.unresolved], [7, 7])
  const ids: string[] = page.json.requests.map((one: any) => one.request_id)
  assert.ok(ids[0]! < ids[1]!, 'the older first')
  assert.ok(ids.includes(claimed), 'what waits in the pool is everybody’s')
  for (const one of page.json.requests)
    for (const field of ['request_id', 'status', 'action', 'priority', 'agent_id', 'created_at', 'payload']) assert.ok(field in one, field)

  const [first, second] = ids
  await world.resolve(first!, 'Approve')
  await world.http('devin', 'POST', `/requests/${second!}/cancel`)
  const counts = async (query: string): Promise<[number, number, number]> => {
    const { json } = await world.http('alice', 'GET', `/inbox?${query}`)
    return [json.requests.length, json.total, json.unresolved]
  }
  assert.deepEqual(await counts(''), [5, 5, 5], 'what has ended is not in it')
  assert.deepEqual(await counts('status=pending'), [5, 5, 5])
  assert.deepEqual(await counts('status=assigned'), [0, 0, 0])
  assert.deepEqual(await counts('status=completed'), [1, 1, 0])
  assert.deepEqual(await counts('status=cancelled'), [1, 1, 0])
  assert.deepEqual(await counts('status=failed'), [0, 0, 0])
  assert.deepEqual(await counts('priority=critical'), [0, 0, 0])
  assert.deepEqual(await counts('status=pending&priority=high'), [2, 2, 2])
  assert.deepEqual(await counts('status=completed&priority=critical'), [1, 1, 0])
  assert.deepEqual(await counts('status=completed&priority=low'), [0, 0, 0])
  assert.deepEqual(await counts('status=&priority='), [5, 5, 5], 'a filter that says nothing is none')
  assert.deepEqual((await world.http('bob', 'GET', '/inbox')).json.total, 1, 'others see the pool')
  assert.deepEqual((await world.http('mallory', 'GET', '/inbox')).json, { requests: [], total: 0, unresolved: 0 })
})

test('totals stay exact for what is snoozed, for substitutes and for keys of one project', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask('devin', { priority: 'high' })
  await world.ask('devin', { priority: 'low' })
  await world.ask('devin', { quorum: { n: 2, of: ['user_alice', 'user_bob'] } })
  const until = new Date(Date.parse('2026-01-01') + 24 * 3_600_000).toISOString()
  await world.call('alice', 'execution/request.snooze', { request_id, until })
  const counts = async (actor: Actor, input: object): Promise<number[]> => {
    const { requests, total, unresolved } = await world.kernel.call('execution/request.inbox', input, actor)
    return [requests.length, total, unresolved]
  }
  const alice = world.cast['alice']!
  assert.deepEqual(await counts(alice, {}), [2, 2, 2])
  assert.deepEqual(await counts(alice, { priority: 'high' }), [0, 0, 0], 'what is snoozed is put off')
  assert.deepEqual(await counts(alice, { priority: 'low', status: 'pending' }), [1, 1, 1])
  assert.deepEqual(await counts(world.cast['deputy']!, {}), [2, 2, 2], 'each once, though two inboxes have it')
  const pooled = await world.ask('devin', { role: 'pool', priority: 'critical' })
  await world.call('bob', 'execution/request.claim', { request_id: pooled.request_id })
  const bob = world.cast['bob']!
  assert.deepEqual(await counts(bob, { status: 'assigned' }), [1, 1, 1])
  assert.deepEqual(await counts(bob, { status: 'assigned', priority: 'critical' }), [1, 1, 1])
  assert.deepEqual(await counts(bob, { status: 'pending' }), [1, 1, 1])
  assert.deepEqual(await counts(bob, {}), [2, 2, 2])
  await world.call('bob', 'execution/request.release', { request_id: pooled.request_id })
  await world.call('alice', 'execution/request.escalate', { request_id: pooled.request_id, to: ['user_bob'] })
  assert.deepEqual(await counts(bob, {}), [2, 2, 2], 'in the pool and with bob, and counted once')
  assert.deepEqual(await counts(bob, { priority: 'critical', status: 'pending' }), [1, 1, 1])
  const elsewhere: Actor = { ...alice, partial: true, projects: new Map([['project_other', 'member']]) }
  assert.deepEqual(await counts(elsewhere, {}), [0, 0, 0])
  assert.deepEqual(await counts({ ...alice, partial: true }, { priority: 'low' }), [1, 1, 1])
})

test('pages: by cursor and by offset, none twice and none lost, 100 at most', async (t) => {
  const world = await hxpWorld(t)
  for (let i = 0; i < 105; i++) await world.ask('devin', { priority: i % 2 ? 'high' : 'low' })
  const walk = async (as: string, path: string, limit: number): Promise<string[]> => {
    const ids: string[] = []
    for (let cursor = ''; ;) {
      const { json } = await world.http(as, 'GET', `${path}?limit=${limit}${cursor}`)
      ids.push(...json.requests.map((one: any) => one.request_id))
      if (!json.next_cursor) return ids
      cursor = `&cursor=${encodeURIComponent(json.next_cursor)}`
    }
  }
  for (const [as, path] of [
    ['alice', '/inbox'],
    ['devin', '/requests'],
  ] as const) {
    const ids = await walk(as, path, 10)
    assert.equal(new Set(ids).size, 105)
    assert.equal(ids.length, 105)
    const whole = await world.http(as, 'GET', `${path}?limit=1000`)
    assert.deepEqual(
      whole.json.requests.map((one: any) => one.request_id),
      ids.slice(0, 100),
      'a limit beyond 100 is 100',
    )
    const further = await world.http(as, 'GET', `${path}?limit=10&offset=100`)
    assert.deepEqual(
      further.json.requests.map((one: any) => one.request_id),
      ids.slice(100),
    )
    assert.deepEqual((await world.http(as, 'GET', `${path}?offset=500`)).json.requests, [])
  }
})

test('an agent lists its own, the latest first, by status', async (t) => {
  const world = await hxpWorld(t)
  const ids: string[] = []
  for (let i = 0; i < 4; i++) ids.push((await world.ask()).request_id)
  await world.ask('robin')
  await world.resolve(ids[0]!, 'Approve')
  await world.http('devin', 'POST', `/requests/${ids[1]!}/cancel`)
  const listed = async (query: string): Promise<string[]> =>
    (await world.http('devin', 'GET', `/requests?${query}`)).json.requests.map((one: any) => one.request_id)
  assert.deepEqual(await listed(''), ids.toReversed())
  assert.deepEqual(await listed('status=pending'), [ids[3], ids[2]])
  assert.deepEqual(await listed('status=completed'), [ids[0]])
  assert.deepEqual(await listed('status=cancelled'), [ids[1]])
  assert.deepEqual(await listed('status=failed'), [])
})

test('stats: counts of the asking person', async (t) => {
  const world = await hxpWorld(t)
  const ids: string[] = []
  for (const priority of ['critical', 'normal', 'normal']) ids.push((await world.ask('devin', { priority })).request_id)
  await world.resolve(ids[1]!, 'Deny')
  const figures = { expired: 0, failed: 0, cancelled: 0, avg_duration_seconds: 0 }
  const devins = { total: 3, unresolved: 2, pending: 2, completed: 1, ...figures }
  assert.deepEqual((await world.http('devin', 'GET', '/stats')).json, devins)
  assert.deepEqual((await world.http('robin', 'GET', '/stats')).json, { total: 0, unresolved: 0, pending: 0, completed: 0, ...figures })
  assert.deepEqual((await world.http('alice', 'GET', '/stats')).json, {
    ...devins,
    by_status: { pending: 2, assigned: 0, completed: 1, failed: 0, cancelled: 0 },
    by_priority: { critical: 1, high: 0, normal: 1, low: 0 },
  })
  assert.deepEqual((await world.http('project', 'GET', '/stats?agent_id=agent_devin')).json, devins)
  assertRefused(await world.http('project', 'GET', '/stats?agent_id=agent_spy'), 404, 'not_found')
})

test('stats: what an agent asks in another project is not counted for the key of this one', async (t) => {
  const world = await hxpWorld(t)
  for (const project_id of ['project_other', 'project_default'])
    await world.call('system', 'identity/project.join', { project_id, subject: 'agent_devin', role: 'member' })
  await world.ask('devin', { project_id: 'project_other' })
  await world.ask('devin')
  const { key } = await world.call('system', 'identity/key.issue', { subject: 'agent_devin', project_id: 'project_default' })
  assert.equal((await world.http('devin', 'GET', '/stats')).json.total, 2)
  assert.equal((await world.http('project', 'GET', '/stats?agent_id=agent_devin')).json.total, 1)
  assert.equal((await world.http(key, 'GET', '/stats')).json.total, 1)
})

// --- Waiting, repeating, and the rest of HTTP --------------------------------------------------------------------------------

test('?wait= answers when the request has ended, or pending when it runs out', async (t) => {
  const world = await hxpWorld(t)
  const { request_id, poll_url } = await world.ask()
  const began = performance.now()
  const vain = await world.http('devin', 'GET', `${poll_url}?wait=1`)
  assert.deepEqual([vain.status, vain.json.status], [200, 'pending'])
  assert.ok(performance.now() - began >= 900)
  const waiting = world.http('devin', 'GET', `${poll_url}?wait=999999`)
  await new Promise((done) => setTimeout(done, 50))
  await world.resolve(request_id, 'Deny')
  const { status, json, headers } = await waiting
  assert.deepEqual([status, json.status, json.receipt.result, headers['hxp-status']], [200, 'completed', 'Deny', 'completed'])
  assert.equal((await world.http('devin', 'GET', `${poll_url}?wait=30`)).json.status, 'completed', 'what has ended is answered at once')
})

test('a client that goes away ends its wait', async (t) => {
  const world = await hxpWorld(t)
  const { poll_url } = await world.ask()
  const socket = connect(world.port, '127.0.0.1')
  socket.write(`GET ${poll_url}?wait=60 HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${world.keys.devin}\r\n\r\n`)
  for (let i = 0; i < 200 && world.kernel.stats().waiting === 0; i++) await new Promise((done) => setTimeout(done, 10))
  assert.equal(world.kernel.stats().waiting, 1)
  socket.destroy()
  for (let i = 0; i < 200 && world.kernel.stats().waiting === 1; i++) await new Promise((done) => setTimeout(done, 10))
  assert.equal(world.kernel.stats().waiting, 0)
})

test('Idempotency-Key: a repeated create, resolve or cancel is the same one', async (t) => {
  const world = await hxpWorld(t)
  const repeat = async (as: string, path: string, body: unknown, key: string) =>
    Promise.all([1, 2, 3].map(() => world.http(as, 'POST', path, body, { 'idempotency-key': key })))
  const created = await repeat('devin', '/requests', QUESTION, 'create')
  assert.deepEqual(
    created.map(({ status }) => status),
    [201, 201, 201],
  )
  assert.equal(new Set(created.map(({ json }) => json.request_id)).size, 1)
  const id: string = created[0]!.json.request_id
  const resolved = await repeat('alice', `/requests/${id}/resolve`, { result: 'Approve' }, 'resolve')
  assert.deepEqual(
    resolved.map(({ status, json }) => [status, json.receipt.receipt_id]),
    Array.from({ length: 3 }, () => [200, resolved[0]!.json.receipt.receipt_id]),
  )
  const again = await world.http('devin', 'POST', '/requests', QUESTION, { 'idempotency-key': 'create' })
  assert.deepEqual([again.status, again.json.request_id, again.json.status], [201, id, 'pending'])
  const other = await world.ask()
  const cancelled = await repeat('devin', `/requests/${other.request_id}/cancel`, {}, 'cancel')
  assert.deepEqual(
    cancelled.map(({ status }) => status),
    [200, 200, 200],
  )
})

test('GET /hxp tells what this is, without a credential', async (t) => {
  const world = await hxpWorld(t)
  for (const path of ['/hxp', '/hxp/', '/hxp?x=1']) {
    const answer = await send(world.port, path, { method: 'GET' })
    assert.equal(answer.status, 200)
    assert.deepEqual([answer.json.name, answer.json.version, answer.json.protocol], ['countersign', '1.2.3', 'hxp'])
    assert.deepEqual(answer.json.actions, ['DECIDE', 'APPROVE', 'PROVIDE', 'VERIFY'])
  }
})

test('methods: HEAD is GET without its body, OPTIONS tells, everything else is 405 with Allow; a slash at the end does not matter', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask()
  const head = await world.http('devin', 'HEAD', `/requests/${request_id}`)
  assert.deepEqual([head.status, head.text, head.headers['hxp-status']], [200, '', 'pending'])
  assert.ok(Number(head.headers['content-length']) > 100)
  const options = await world.http(null, 'OPTIONS', '/requests')
  assert.deepEqual([options.status, options.headers['allow']], [200, 'GET, POST'])
  for (const [method, path, allow] of [
    ['PUT', '/requests', 'GET, POST'],
    ['PATCH', `/requests/${request_id}`, 'GET, DELETE'],
    ['GET', `/requests/${request_id}/resolve`, 'POST'],
    ['POST', '/inbox', 'GET'],
    ['POST', '/hxp', 'GET'],
  ] as const) {
    const answer = await world.http('devin', method, path)
    assertRefused(answer, 405, 'method_not_allowed')
    assert.equal(answer.headers['allow'], allow)
  }
  assert.equal((await world.http('devin', 'GET', `/requests/${request_id}/`)).status, 200)
  assert.equal((await world.http('devin', 'POST', '/requests/', QUESTION)).status, 201)
})

test('every answer has the headers that every answer has, and none is HTML', async (t) => {
  const world = await hxpWorld(t)
  for (const answer of [
    await world.http('devin', 'POST', '/requests', QUESTION),
    await world.http('devin', 'GET', '/nothing'),
    await world.http(null, 'GET', '/inbox'),
    await world.http('devin', 'POST', '/requests', 'x'),
  ]) {
    assert.match(String(answer.headers['content-type']), /^application\/json/)
    assert.equal(answer.headers['cache-control'], 'no-store')
    assert.equal(answer.headers['x-content-type-options'], 'nosniff')
  }
  assertRefused(await world.http('devin', 'GET', '/requests', undefined, { host: 'evil.example.com' }), 421, 'invalid_request')
  assertRefused(await world.http('devin', 'POST', '/requests', QUESTION, { expect: 'foo' }), 417, 'invalid_request')
  assertRefused(
    await world.http('devin', 'POST', '/requests', 'a=b', { 'content-type': 'application/x-www-form-urlencoded' }),
    415,
    'invalid_request',
  )
  const charset = await world.http('devin', 'POST', '/requests', QUESTION, { 'content-type': 'application/json; charset=utf-8' })
  assert.equal(charset.status, 201)
  assert.match(await sendBytes(world.port, 'nonsense\r\n\r\n'), /^HTTP\/1\.1 400 [^]*"message"/)
  assert.deepEqual(world.logged, [])
})

test('ws_url follows the host that was asked for, and TLS if a proxy ends it', async (t) => {
  const plain = await hxpWorld(t)
  const named = await plain.http('devin', 'POST', '/requests', QUESTION, { host: 'hxp.example.com' })
  assert.match(named.json.ws_url, /^ws:\/\/hxp\.example\.com\/hxp\/ws\/hxp_/)
  const proxied = await hxpWorld(t, { http: { proxied: true } })
  const forwarded = await proxied.http('devin', 'POST', '/requests', QUESTION, { 'x-forwarded-host': 'hxp.example.com' })
  assert.match(forwarded.json.ws_url, /^wss:\/\/hxp\.example\.com\/hxp\/ws\/hxp_/)
})

test('a bug is logged and answered without its cause', async (t) => {
  const notary = { ...testNotary, attest: () => Promise.reject(new Error('a secret cause')) }
  const world = await hxpWorld(t, { notary })
  const { request_id } = await world.ask()
  const answer = await world.http('alice', 'POST', `/requests/${request_id}/resolve`, { result: 'Approve' })
  assertRefused(answer, 500, 'internal')
  assert.ok(!answer.text.includes('secret'))
  assert.match(world.logged.join(), /a secret cause/)
})

test('delegation rules: list, add, order, remove', async (t) => {
  const world = await hxpWorld(t)
  const rules = async (): Promise<any[]> => (await world.http('alice', 'GET', '/delegation/rules')).json.rules
  assert.deepEqual(await rules(), [])
  for (const rule of [
    { action: 'APPROVE', tag: 'finance', delegate_to: 'user_rita' },
    { action: 'DECIDE', project_id: 'project_beta', delegate_to: 'user_bob' },
  ])
    assert.equal((await world.http('alice', 'POST', '/delegation/rules', rule)).status, 201)
  assertRefused(await world.http('alice', 'POST', '/delegation/rules', { action: 'APPROVE' }), 400, 'invalid_request')
  const [first, second] = await rules()
  assert.equal((await world.http('alice', 'PUT', '/delegation/rules', { order: [second.id, first.id] })).status, 200)
  assert.deepEqual(
    (await rules()).map(({ id }) => id),
    [second.id, first.id],
  )
  assertRefused(await world.http('bob', 'DELETE', `/delegation/rules/${first.id}`), 404, 'not_found')
  assert.equal((await world.http('alice', 'DELETE', `/delegation/rules/${first.id}`)).status, 200)
  assert.equal((await rules()).length, 1)
})

test('a file is sent for a request that asks for one, and the answer names it', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-test-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const blobs = await openBlobs(folder, { fatal: (error) => assert.fail(String(error)) })
  const world = await hxpWorld(t, { blobs, http: { bytes: { blobs, bytesMax: 1_000 } } })
  const payload = { prompt: 'The signed contract', input_type: 'file', validation: { media_types: ['text/plain'], max_bytes: 20 } }
  const { request_id } = await world.ask('devin', { action: 'PROVIDE', payload })
  const put = (as: 'alice' | 'bob' | 'devin', type: string, body: string) =>
    send(world.port, `/hxp/v1/requests/${request_id}/files?name=contract.txt`, {
      headers: { authorization: `Bearer ${world.keys[as]}`, 'content-type': type },
      body,
    })
  for (const [as, type, bytes, status] of [
    ['devin', 'text/plain', 'signed', 401],
    ['bob', 'text/plain', 'signed', 404],
    ['alice', 'image/png', 'signed', 422],
    ['alice', 'text/plain', 'x'.repeat(21), 413],
    ['alice', 'text/plain', 'x'.repeat(2_000), 413],
  ] as const)
    assert.equal((await put(as, type, bytes)).status, status, `${as} ${type} ${bytes.length}`)
  const sent = await put('alice', 'text/plain', 'signed')
  assert.equal(sent.status, 201)
  const file = sent.json
  const { receipt } = (await world.resolve(request_id, { artifact_id: file.artifact_id, version: file.version })).json
  const { artifact_id, name, size, sha256 } = receipt.result
  const digest = createHash('sha256').update('signed').digest('hex')
  assert.deepEqual([artifact_id, name, size, sha256], [file.artifact_id, 'contract.txt', 6, digest])
})

test('a secret is handed over once, to the agent that asked, and is gone', async (t) => {
  const world = await hxpWorld(t)
  const payload = { prompt: 'The API key', input_type: 'text', sensitive: true }
  const { request_id } = await world.ask('devin', { action: 'PROVIDE', payload })
  const { receipt } = (await world.resolve(request_id, 'sk-123')).json
  assert.ok(!JSON.stringify(receipt).includes('sk-123'))
  const take = (as: string) => world.http(as, 'POST', `/requests/${request_id}/secret`, {})
  assertRefused(await take('alice'), 401, 'unauthorized')
  assertRefused(await take('robin'), 404, 'not_found')
  const taken = (await take('devin')).json
  assert.equal(taken.value, 'sk-123')
  assert.equal(createHash('sha256').update(`${taken.salt}sk-123`).digest('base64url'), receipt.result.commitment)
  assertRefused(await take('devin'), 410, 'gone')
})

test('agent text reaches people as every surface shows it, and the agent as it was written', async (t) => {
  const world = await hxpWorld(t)
  const hostile = 'pay \u202Ekcab\u200B'
  const visible = 'pay \\u{202E}kcab\\u{200B}'
  const payload = { ...QUESTION.payload, context: hostile }
  const { request_id } = await world.ask('devin', { payload, tags: [hostile], metadata: { agent_task: hostile } })
  const partsOf = (shown: any) => [shown.payload.context, shown.tags[0], shown.metadata.agent_task]
  const listed = (await world.http('alice', 'GET', '/inbox')).json.requests.find((one: any) => one.request_id === request_id)
  const got = (await world.http('alice', 'GET', `/requests/${request_id}`)).json
  for (const shown of [listed, got]) assert.deepEqual(partsOf(shown), [visible, visible, visible])
  assert.deepEqual(partsOf((await world.http('devin', 'GET', `/requests/${request_id}`)).json), [hostile, hostile, hostile])
  // The operation shows the request unchanged, because any reader compares a receipt with it.
  const { receipt } = (await world.resolve(request_id, 'Approve')).json
  const fetched = (await world.call('alice', 'execution/request.get', { request_id })).request
  const { request_digest } = JSON.parse(Buffer.from(receipt.signature.split('.')[1], 'base64url').toString())
  assert.equal(sha256(canonical(coveredBy(fetched))), request_digest)
  const after = (await world.http('alice', 'GET', `/requests/${request_id}`)).json
  assert.deepEqual(partsOf(after), [visible, visible, visible])
})

test('the key of a project says whose requests it means', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask('project', { agent_id: 'agent_devin' })
  for (const path of ['/requests', '/stats']) {
    const refused = await world.http('project', 'GET', path)
    assert.deepEqual([refused.status, refused.json.details.field], [400, 'agent_id'])
  }
  const { requests } = (await world.http('project', 'GET', '/requests?agent_id=agent_devin')).json
  assert.deepEqual(
    requests.map((one: any) => one.request_id),
    [request_id],
  )
  assert.equal((await world.http('project', 'GET', '/stats?agent_id=agent_devin')).json.total, 1)
})

test('after its deadline no answer beats the timer: 408 if it fails then, 409 if it takes its default', async (t) => {
  const world = await hxpWorld(t)
  const late = async (more: object) => {
    const { request_id } = await world.ask('devin', { timeout_seconds: 60, ...more })
    world.advance(60_001)
    const { status, json } = await world.resolve(request_id, 'Approve')
    return [status, json.error]
  }
  assert.deepEqual(await late({ fallback: 'fail' }), [408, 'expired'])
  assert.deepEqual(await late({ fallback: 'default', payload: { ...QUESTION.payload, default_option: 'Deny' } }), [409, 'already_resolved'])
  assert.deepEqual(await late({ fallback: 'pause' }), [200, undefined])
})

test('a refusal states the fact, not the rule', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask()
  const told = async (name: string, as: string, more: object = {}): Promise<string> => {
    const refused = await world.call(as, `execution/${name}`, { request_id, ...more }).catch((error: Error) => error)
    assert.ok(refused instanceof Error, name)
    return refused.message
  }
  assert.equal(await told('request.unsnooze', 'alice'), 'you have not snoozed it')
  assert.equal(await told('request.reply', 'devin', { text: 'Yes.' }), 'no question waits for a reply')
  assert.equal(await told('request.claim', 'alice'), 'the request was not put to a pool: there is nothing to claim')
  await world.resolve(request_id, 'Approve')
  assert.equal(
    (await told('request.resolve', 'alice', { result: 'Deny' })).replace(/\d+ seconds? ago/, 'just now'),
    'already closed: Approve, by user_alice, just now',
  )
  // Whatever has no words of its own.
  assert.match(await told('request.expire', 'system'), /^the request is not open$/)
})

test('ten years at most, and a reason that can be seen', async (t) => {
  const world = await hxpWorld(t)
  const YEAR = 365.25 * 24 * 3_600
  assert.equal((await world.http('devin', 'POST', '/requests', { ...QUESTION, timeout_seconds: 10 * YEAR })).status, 201)
  assert.equal((await world.http('devin', 'POST', '/requests', { ...QUESTION, timeout_seconds: 10 * YEAR + 1 })).status, 400)
  const { request_id } = await world.ask('devin', { action: 'APPROVE', payload: { item: 'x', reject_requires_reason: true } })
  for (const reason of [' ', '\u200B', '\u2800\u00A0\uFE0F'])
    assert.equal((await world.resolve(request_id, 'rejected', { reason })).status, 422, JSON.stringify(reason))
  assert.equal((await world.resolve(request_id, 'rejected', { reason: 'No.' })).status, 200)
})
