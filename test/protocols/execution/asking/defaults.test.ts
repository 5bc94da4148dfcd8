// X29: an agent that lets its default decide says so, leaves people time, and the receipt names it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claimsOf, jwsOf, type Claims, type Jws } from '#protocols/execution/answering/receipt-format.ts'
import { assertRefused, hxpWorld, QUESTION } from '../../../support/over-sockets/hxp-world.ts'

const withDefault = (timeout_seconds: number) => ({
  ...QUESTION,
  timeout_seconds,
  fallback: 'default',
  payload: { ...QUESTION.payload, default_option: 'Approve' },
})

test('a default that would decide within a minute is refused, and nothing is stored (X29)', async (t) => {
  const world = await hxpWorld(t)
  for (const seconds of [1, 59]) {
    const answer = await world.http('devin', 'POST', '/requests', withDefault(seconds))
    assertRefused(answer, 400, 'invalid_request')
    assert.equal(answer.json.details.field, 'timeout_seconds')
    assert.match(answer.json.message, /at least 60 seconds/)
  }
  for (const seconds of [0, 60]) assert.equal((await world.http('devin', 'POST', '/requests', withDefault(seconds))).status, 201)
  assert.equal((await world.http('devin', 'POST', '/requests', { ...QUESTION, timeout_seconds: 1, fallback: 'fail' })).status, 201)
  assert.equal((await world.http('devin', 'GET', '/requests')).json.requests.length, 3)
})

test('the operator sets how long it is, or that it does not matter', async (t) => {
  const strict = await hxpWorld(t, { terms: { defaultSecondsMin: 300 } })
  assertRefused(await strict.http('devin', 'POST', '/requests', withDefault(299)), 400, 'invalid_request')
  const lax = await hxpWorld(t, { terms: { defaultSecondsMin: null } })
  assert.equal((await lax.http('devin', 'POST', '/requests', withDefault(1))).status, 201)
})

test('the signed basis names the default and comes before the result', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask('devin', withDefault(60))
  await world.expire(request_id)
  const { receipt } = (await world.http('devin', 'GET', `/requests/${request_id}`)).json
  assert.deepEqual(receipt.basis, { kind: 'default', id: 'fallback/default' })
  const names = Object.keys(receipt)
  assert.ok(names.indexOf('basis') < names.indexOf('result'))
  const claims = claimsOf(jwsOf(receipt.signature) as Jws) as Claims
  assert.deepEqual(claims.basis, receipt.basis)
  const { item } = await world.call('alice', 'execution/inbox.get', { request_id })
  assert.equal(item.ended.by_default, true)
})

test('a receipt names its server by origin and installation, and how long the answer took is signed (X30, X31)', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask()
  const { receipt } = (await world.resolve(request_id, 'Approve')).json
  const claims = claimsOf(jwsOf(receipt.signature) as Jws) as Claims
  assert.equal(claims.iss, 'http://127.0.0.1:3402#inst_of-the-tests')
  assert.equal(claims.duration_seconds, receipt.duration_seconds)
  const verify = async (given: object) => (await world.http('devin', 'POST', '/receipts/verify', { receipt: given })).json
  assert.equal((await verify(receipt)).valid, true)
  assert.deepEqual(await verify({ ...receipt, approved_by: 'the board' }), {
    valid: false,
    reason: 'not_signed',
    message: 'not signed, and no part of a receipt: approved_by',
  })
  assert.equal((await verify({ ...receipt, duration_seconds: 1_000 })).reason, 'changed')
  const twice = `{"receipt":${JSON.stringify(receipt).replace('{', '{"status":"failed",')}}`
  const answer = await world.http('devin', 'POST', '/receipts/verify', twice)
  assertRefused(answer, 400, 'invalid_request')
  assert.match(answer.json.message, /"status" appears twice/)
})
