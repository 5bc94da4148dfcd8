// The published OpenAPI as public clients use it: filters, totals, the server's description of itself; and pages of other origins.
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { claimsOf, jwsOf, type Claims, type Jws } from '#protocols/execution/answering/receipt-format.ts'
import { cardOf } from '#protocols/execution/answering/shown-request.ts'
import type { Request } from '#protocols/execution/schema.ts'
import { assertRefused, hxpWorld, QUESTION, type HxpWorld } from '../../support/over-sockets/hxp-world.ts'

const idsIn = ({ json }: { json: any }): string[] => json.requests.map((one: { request_id: string }) => one.request_id)
const sorted = (ids: string[]): string[] => ids.toSorted()
const APPROVAL = { action: 'APPROVE', payload: { item: 'Pay' } }

test('a list is filtered by agent, by label and by every status, together, 20 at a time, with its total', async (t) => {
  const world = await hxpWorld(t)
  const made: string[] = []
  for (let i = 0; i < 23; i++) made.push((await world.ask('devin', i < 3 ? { project_id: 'launch' } : {})).request_id)
  const all = await world.http('devin', 'GET', '/requests')
  assert.equal(all.json.requests.length, 20)
  assert.equal(all.json.total, 23)
  const launch = await world.http('devin', 'GET', '/requests?project_id=launch')
  assert.deepEqual(idsIn(launch).toSorted(), made.slice(0, 3).toSorted())
  assert.equal(launch.json.total, 3)
  await world.resolve(made[0]!, 'Approve')
  const late = await world.ask('devin', { timeout_seconds: 60, fallback: 'fail', project_id: 'launch' })
  const held = await world.ask('devin', { timeout_seconds: 60, project_id: 'launch' })
  await world.expire(late.request_id, 61_000)
  await world.call('system', 'execution/request.expire', { request_id: held.request_id })
  const of = async (status: string): Promise<string[]> => {
    const answer = await world.http('devin', 'GET', `/requests?project_id=launch&status=${status}`)
    assert.equal(answer.json.total, answer.json.requests.length)
    return idsIn(answer)
  }
  assert.deepEqual(await of('completed'), [made[0]])
  assert.deepEqual((await of('expired')).toSorted(), sorted([late.request_id, held.request_id]))
  assert.deepEqual(await of('failed'), [late.request_id])
  assert.deepEqual((await of('pending')).toSorted(), sorted([...made.slice(1, 3), held.request_id]))
  assert.deepEqual(await of('assigned'), [])
  const foreign = await world.http('devin', 'GET', '/requests?agent_id=agent_robin')
  assert.deepEqual([foreign.status, foreign.json.requests, foreign.json.total], [200, [], 0])
  assert.equal((await world.http('devin', 'GET', '/requests?agent_id=agent_devin')).json.total, 25)
  assert.equal((await world.http('project', 'GET', '/requests?agent_id=agent_devin&project_id=launch')).json.total, 5)
  assertRefused(await world.http('devin', 'GET', '/requests?status=lost'), 400, 'invalid_request')
})

test('the inbox shows open items, most urgent first, by action too, and hides none behind old items', async (t) => {
  const world = await hxpWorld(t)
  for (let i = 0; i < 60; i++) await world.ask('devin', { priority: 'low' })
  const urgent = await world.ask('devin', { ...APPROVAL, priority: 'critical' })
  const done = await world.ask()
  await world.resolve(done.request_id, 'Approve')
  const { json } = await world.http('alice', 'GET', '/inbox')
  assert.equal(json.requests.length, 61)
  assert.deepEqual([json.total, json.unresolved], [61, 61])
  assert.equal(json.requests[0].request_id, urgent.request_id)
  assert.ok(json.requests.every(({ status }: any) => status === 'pending'))
  const approvals = await world.http('alice', 'GET', '/inbox?action=APPROVE')
  assert.deepEqual([idsIn(approvals), approvals.json.total], [[urgent.request_id], 1])
  assert.equal((await world.http('alice', 'GET', '/inbox?action=APPROVE&priority=low')).json.total, 0)
  assert.deepEqual(idsIn(await world.http('alice', 'GET', '/inbox?status=completed')), [done.request_id])
  assertRefused(await world.http('alice', 'GET', '/inbox?action=SHOUT'), 400, 'invalid_request')
})

const bodies: [string, number, object][] = [
  ['a thousand', 1_030, { item: 'Pay', details: {} }],
  ['four megabytes', 300, { item: 'Pay', details: { text: 'x'.repeat(16_000) } }],
]
for (const [bound, count, payload] of bodies)
  test(`the inbox without a limit is whole up to ${bound}, and goes on from there`, async (t) => {
    const world = await hxpWorld(t, { terms: { asksOpenMax: null } })
    const made: string[] = []
    for (let i = 0; i < count; i++)
      made.push((await world.call('devin', 'execution/request.create', { action: 'APPROVE', payload })).request.id)
    const first = await world.http('alice', 'GET', '/inbox')
    const size = Buffer.byteLength(JSON.stringify(first.json.requests))
    assert.equal(first.json.total, count)
    if (count > 1_000) assert.equal(first.json.requests.length, 1_000)
    else assert.ok(size <= 4 * 1024 * 1024 && size > 3.5 * 1024 * 1024, `${size} bytes`)
    const rest = await world.http('alice', 'GET', `/inbox?cursor=${first.json.next_cursor}`)
    assert.equal(rest.json.next_cursor, undefined)
    assert.deepEqual([...idsIn(first), ...idsIn(rest)], made)
    assert.equal(idsIn(await world.http('alice', 'GET', '/inbox?limit=7')).length, 7)
    assert.deepEqual(idsIn(await world.http('alice', 'GET', '/inbox?offset=290')), made.slice(290))
  })

test('a snoozed item is not in the draft’s inbox, and not in its totals', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask()
  const other = await world.ask()
  await world.call('alice', 'execution/request.snooze', { request_id, until: '2026-01-02T00:00:00Z' })
  for (const query of ['', '?status=pending', '?priority=normal']) {
    const answer = await world.http('alice', 'GET', `/inbox${query}`)
    assert.deepEqual([idsIn(answer), answer.json.total, answer.json.unresolved], [[other.request_id], 1, 1], query)
  }
  const pooled = await world.ask('devin', { role: 'pool' })
  await world.call('alice', 'execution/request.claim', { request_id: pooled.request_id })
  await world.call('alice', 'execution/request.snooze', { request_id: pooled.request_id, until: '2026-01-01T00:10:00Z' })
  const answer = await world.http('alice', 'GET', '/inbox?status=assigned')
  assert.deepEqual([idsIn(answer), answer.json.total], [[], 0])
  assert.equal((await world.http('alice', 'GET', '/inbox')).json.total, 1)
})

test('GET /hxp names itself and its endpoints; a new rule is at the top; figures are numbers for both sides', async (t) => {
  const world = await hxpWorld(t)
  const about = (await world.http(null, 'GET', '/hxp')).json
  assert.equal(about.protocol, 'hxp')
  assert.deepEqual(about.endpoints, { agent: '/hxp/v1/requests', human: '/hxp/v1/inbox', admin: '/hxp/v1/delegation/rules' })
  const { json: rule } = await world.http('alice', 'POST', '/delegation/rules', { action: 'DECIDE', delegate_to: 'user_bob' })
  assert.deepEqual([rule.action, rule.delegate_to, rule.rule.delegate_to], ['DECIDE', 'user_bob', 'user_bob'])
  const { request_id } = await world.ask()
  world.advance(4_000)
  await world.resolve(request_id, 'Approve')
  await world.ask()
  const late = await world.ask('devin', { timeout_seconds: 60, fallback: 'fail' })
  await world.expire(late.request_id, 61_000)
  for (const who of ['devin', 'alice']) {
    const { json } = await world.http(who, 'GET', '/stats')
    const { total, pending, completed, expired, failed } = json
    assert.deepEqual({ total, pending, completed, expired, failed }, { total: 3, pending: 1, completed: 1, expired: 1, failed: 0 }, who)
    assert.equal(json.avg_duration_seconds, 4)
  }
})

test('unknown fields are ignored and named, null fields count as absent, and none of them is stored', async (t) => {
  const world = await hxpWorld(t)
  const nulls = { role: null, priority: null, timeout_seconds: null, fallback: null, project_id: null, metadata: null, tags: null }
  const body = { ...QUESTION, ...nulls, colour: 'red', payload: { ...QUESTION.payload, contxt: 'x', context: null }, ödd: 1 }
  const answer = await world.http('devin', 'POST', '/requests', body)
  assert.equal(answer.status, 201, answer.text)
  assert.equal(answer.headers['hxp-ignored'], 'colour, ?dd, payload.contxt')
  const { json } = await world.http('devin', 'GET', `/requests/${answer.json.request_id}`)
  assert.ok(!JSON.stringify(json).includes('contxt'))
  // A dot is a letter of a name like any other.
  const dotted = await world.http('devin', 'POST', '/requests', { ...QUESTION, 'a.b': 1, 'payload.question': 'x' })
  assert.deepEqual([dotted.status, dotted.headers['hxp-ignored']], [201, 'a.b, payload.question'])
  const plain = await world.http('devin', 'POST', '/requests', QUESTION)
  assert.equal(plain.headers['hxp-ignored'], undefined)
  const resolved = await world.resolve(answer.json.request_id, 'Approve', { mood: 'good' })
  assert.equal(resolved.headers['hxp-ignored'], 'mood')
  const many = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`unknown${i}`.padEnd(200, 'x'), i]))
  const bounded = await world.http('devin', 'POST', '/requests', { ...QUESTION, ...many })
  assert.ok(String(bounded.headers['hxp-ignored']).length < 1_500)
  assert.equal((await world.http('devin', 'POST', '/requests', { ...APPROVAL, payload: { item: 'Pay', details: null } })).status, 201)
  const asked = await world.ask('devin', { action: 'PROVIDE', payload: { prompt: 'Mail?', input_type: 'email', validation: { max: 12 } } })
  assert.equal((await world.resolve(asked.request_id, 'somebody@example.com')).status, 422)
  assert.equal((await world.resolve(asked.request_id, 'a@example.com'.slice(1))).status, 422)
  assert.equal((await world.resolve(asked.request_id, 'a@example.co')).status, 200)
})

// --- Pages of other origins ----------------------------------------------------------------------------------------------------

const EVIL = `<img src=x onerror="steal('token')">&amp;\``
const foreign = { origin: 'https://pages.example' }
const cors = { http: { cors: { prefixes: ['/hxp'], origins: ['https://pages.example'], anyOrigin: false } } }
const stored = async (world: HxpWorld, id: string): Promise<Request> =>
  (await world.store.read([`execution.request/${id}`]))[0]!.value as Request

test('to a page of another origin nothing that an agent wrote is markup, on every path for people', async (t) => {
  const world = await hxpWorld(t, cors)
  const { request_id } = await world.ask('devin', {
    action: 'APPROVE',
    tags: [EVIL],
    metadata: { '<b onload=x>': EVIL },
    payload: { item: EVIL, context: EVIL, details: { "<img src=x onerror=alert('1')>": { deep: [EVIL] } } },
  })
  for (const path of ['/inbox', `/requests/${request_id}`]) {
    const answer = await world.http('alice', 'GET', path, undefined, foreign)
    assert.equal(answer.status, 200)
    assert.ok(!/[<>&`']|\\\\/.test(answer.text), answer.text)
    assert.match(answer.text, /＜img src=x onerror=＂steal/)
    for (const others of [{}, { origin: `http://127.0.0.1:${world.port}` }])
      assert.match((await world.http('alice', 'GET', path, undefined, others)).text, /<img src=x/)
  }
  assert.match(
    (await world.http('devin', 'GET', `/requests/${request_id}`, undefined, foreign)).text,
    /<img src=x/,
    'agents read what they wrote',
  )
  const refused = await world.http('alice', 'POST', `/requests/${request_id}/resolve`, { result: '<b>' }, foreign)
  assert.ok(!/[<>&`']/.test(refused.text), refused.text)
  const { receipt } = (await world.http('alice', 'POST', `/requests/${request_id}/resolve`, { result: 'approved' }, foreign)).json
  const claims = claimsOf(jwsOf(receipt.signature) as Jws) as Claims
  const request = await stored(world, request_id)
  assert.equal(claims.shown_digest, sha256(canonical(cardOf(request, 'page'))), 'the digest covers what was shown there')
  assert.notEqual(claims.shown_digest, sha256(canonical(cardOf(request))))
})

test('an answer in the form that the page got counts for the option behind it', async (t) => {
  const world = await hxpWorld(t, cors)
  const options = [`Don't`, 'Do <it>']
  const { request_id } = await world.ask('devin', { payload: { question: 'Well?', options } })
  const { json } = await world.http('alice', 'GET', '/inbox', undefined, foreign)
  const [first] = json.requests[0].payload.options
  assert.equal(first, 'Don＇t')
  const answer = await world.http('alice', 'POST', `/requests/${request_id}/resolve`, { result: first }, foreign)
  assert.equal(answer.status, 200, answer.text)
  assert.equal((await stored(world, request_id)).receipt!.result, `Don't`)
  const alike = { ...QUESTION, payload: { question: 'Well?', options: ['Do <it>', 'Do ＜it＞'] } }
  const refused = await world.http('devin', 'POST', '/requests', alike)
  assertRefused(refused, 400, 'invalid_request')
  assert.equal(refused.json.details.field, 'payload.options')
})

test('a page of another origin gets a claim as a DECIDE with the three verdicts, every other client as it is', async (t) => {
  const world = await hxpWorld(t, cors)
  const payload = { claim: 'It can be restored', evidence: [{ kind: 'link', uri: 'https://files.example.com/<log>', title: 'Log' }], context: 'Weekly.' } // prettier-ignore
  const { request_id } = await world.ask('devin', { action: 'VERIFY', payload })
  const seen = async (as: string, path: string, headers: object): Promise<any> => {
    const { json } = await world.http(as, 'GET', path, undefined, headers as Record<string, string>)
    return json.requests?.[0] ?? json
  }
  for (const path of ['/inbox', '/inbox?action=DECIDE', `/requests/${request_id}`, `/requests/${request_id}`]) {
    const page = await seen('alice', path, foreign)
    assert.deepEqual([page.action, page.payload.question, page.payload.options], ['DECIDE', payload.claim, ['confirmed', 'refuted', 'cannot_tell']], path) // prettier-ignore
    assert.match(page.payload.context, /^Weekly\.\nEvidence: Log: https:\/\/files\.example\.com\/＜log＞$/)
  }
  for (const [as, path, headers] of [
    ['alice', '/inbox?action=VERIFY', {}],
    ['alice', `/requests/${request_id}`, { origin: `http://127.0.0.1:${world.port}` }],
    ['devin', `/requests/${request_id}`, foreign],
    ['devin', '/requests', {}],
  ] as const) {
    const { action, payload: found } = await seen(as, path, headers)
    assert.deepEqual([action, found], ['VERIFY', payload], path)
  }
  assertRefused(await world.http('alice', 'POST', `/requests/${request_id}/resolve`, { result: 'yes' }, foreign), 422, 'invalid_result')
  const { receipt } = (await world.http('alice', 'POST', `/requests/${request_id}/resolve`, { result: 'cannot_tell' }, foreign)).json
  assert.equal(receipt.result, 'cannot_tell')
  const claims = claimsOf(jwsOf(receipt.signature) as Jws) as Claims
  assert.equal(claims.shown_digest, sha256(canonical(cardOf(await stored(world, request_id), 'page'))))
  assert.equal((cardOf(await stored(world, request_id), 'page') as { action: string }).action, 'DECIDE')
})

test('a socket of a page hears nothing that is markup either', async (t) => {
  const world = await hxpWorld(t, { http: { ...cors.http, live: { origins: ['https://pages.example'] } } })
  const { request_id } = await world.ask()
  const page = await world.listen(`/hxp/ws/${request_id}`, 'alice', { headers: foreign })
  const own = await world.listen(`/hxp/ws/${request_id}`, 'alice')
  await world.call('alice', 'execution/request.question', { request_id, text: 'Why?' })
  await world.call('devin', 'execution/request.reply', { request_id, text: EVIL })
  await world.resolve(request_id, 'Approve')
  await Promise.all([page.closed(), own.closed()])
  const texts = ({ heard }: { heard: any[] }): string => JSON.stringify(heard.find(({ event }) => event === 'reply'))
  assert.match(texts(own), /<img/)
  assert.ok(!/[<>&`']/.test(texts(page)), texts(page))
})

// --- Time, hosts, hooks ----------------------------------------------------------------------------------------------------------

test('a read judges by the clock as a write does', async (t) => {
  const world = await hxpWorld(t)
  const failing = await world.ask('devin', { timeout_seconds: 60, fallback: 'fail' })
  const taking = await world.ask('devin', {
    timeout_seconds: 60,
    fallback: 'default',
    payload: { ...QUESTION.payload, default_option: 'Deny' },
  })
  const waiting = await world.ask('devin', { timeout_seconds: 60 })
  world.advance(61_000)
  const got = async (id: string, query = ''): Promise<any> => (await world.http('devin', 'GET', `/requests/${id}${query}`)).json
  const failed = await got(failing.request_id)
  assert.deepEqual([failed.status, failed.receipt.reason], ['failed', 'timeout'])
  assert.equal((await got(taking.request_id, '?wait=1')).receipt.result, 'Deny')
  const held = await got(waiting.request_id)
  assert.deepEqual([held.status, held.overdue], ['pending', true])
  assert.equal((await world.resolve(failing.request_id, 'Approve')).status, 408)
})

test('people see hidden characters in request.inbox as escapes', async (t) => {
  const world = await hxpWorld(t)
  await world.ask('devin', { payload: { ...QUESTION.payload, context: 'safe\u202Eelif' } })
  const { requests } = await world.call('alice', 'execution/request.inbox', {})
  assert.equal(requests[0].payload.context, String.raw`safe\u{202E}elif`)
})

test('ws_url has the configured origin, for every requested host', async (t) => {
  const world = await hxpWorld(t, { http: { origin: 'https://hxp.example.com' } })
  const first = await world.http('devin', 'POST', '/requests', QUESTION, { 'idempotency-key': 'one' })
  const again = await world.http('devin', 'POST', '/requests', QUESTION, { 'idempotency-key': 'one', host: 'hxp.example.com' })
  for (const { json } of [first, again]) assert.match(json.ws_url, /^wss:\/\/hxp\.example\.com\/hxp\/ws\/hxp_\w+\?ticket=/)
})

test('an address that can never be called is refused when it is registered', async (t) => {
  const world = await hxpWorld(t, { terms: { publicHooksOnly: true } })
  const never = ['http://example.com/x', 'https://127.0.0.1/x', 'https://[::1]/x', 'https://10.1.2.3/', 'https://localhost/', 'https://0x7f.1/', 'https://[::ffff:10.0.0.1]/', 'https://intranet/', 'https://example.com:0/', 'https://192.168.0.1./', 'https://[fd00::1]/', 'https://a.internal/'] // prettier-ignore
  for (const endpoint of never) {
    await assert.rejects(world.call('devin', 'execution/channel.add', { endpoint }), { code: 'INVALID_REQUEST' }, endpoint)
    await assert.rejects(world.call('alice', 'execution/channel.add', { endpoint }), { code: 'INVALID_REQUEST' }, endpoint)
    const card = { name: 'Devin', reach: 'webhook', endpoint }
    await assert.rejects(world.call('devin', 'delegation/agent.publish', card), { code: 'INVALID_REQUEST' }, endpoint)
  }
  for (const endpoint of ['https://example.com/x', 'https://93.184.216.34/', 'https://[2606:4700::1111]/'])
    await world.call('devin', 'execution/channel.add', { endpoint })
  const lax = await hxpWorld(t)
  await lax.call('devin', 'execution/channel.add', { endpoint: 'http://127.0.0.1:8080/x' })
})

test('two Host headers are refused, and headers that are too large have a message at the top', async (t) => {
  const world = await hxpWorld(t)
  const raw = (text: string): Promise<string> =>
    new Promise((done, failed) => {
      const socket = connect(world.port, '127.0.0.1', () => socket.write(text))
      let heard = ''
      socket.on('data', (part: Buffer) => (heard += part.toString()))
      socket.on('close', () => done(heard))
      socket.on('error', failed)
    })
  const twice = await raw('GET /hxp HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n')
  assert.match(twice, /^HTTP\/1\.1 400 /)
  assert.match(twice, /two Host headers/)
  const large = await raw(`GET /hxp/v1/inbox HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ${'x'.repeat(100_000)}\r\n\r\n`)
  assert.match(large, /^HTTP\/1\.1 431 /)
  const body = JSON.parse(large.slice(large.indexOf('\r\n\r\n')))
  assert.equal(body.message, body.error.message)
})
