// Receipts as the page checks them: good is what the server signed for this very request.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testJwks } from '../../support/in-process/notary.ts'
import { createWorld } from '../../support/in-process/world.ts'

test('a good receipt of another request is none of this one', async (t) => {
  const world = await createWorld({ now: Date.now })
  const answered = async (item: string): Promise<any> => {
    const { request } = await world.call('devin', 'execution/request.create', { action: 'APPROVE', payload: { item } })
    return world.call('alice', 'execution/request.resolve', { request_id: request.id, result: 'approved' })
  }
  const [one, other] = [await answered('One'), await answered('Another')]
  t.mock.method(globalThis, 'fetch', () => Promise.resolve(Response.json(testJwks)))
  const { checkReceipt } = await import('../../../src/web/server/receipts.ts')
  assert.equal((await checkReceipt(one.receipt, one.request.id)).ok, true)
  const verdict = await checkReceipt(other.receipt, one.request.id)
  assert.ok(!verdict.ok)
  assert.equal(verdict.reason, 'wrong_request')
})
