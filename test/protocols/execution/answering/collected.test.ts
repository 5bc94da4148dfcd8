// Answers that an agent collects: each answer counts exactly once.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld, stateHash } from '../../../support/in-process/world.ts'

test('An answer is collected once, by the agent that asked, and the receipt stays as it was', async () => {
  const world = await createWorld()
  const payload = { question: 'Ship it?', options: ['yes', 'no'] }
  const { request } = await world.call('devin', 'execution/request.create', { action: 'DECIDE', payload })
  const request_id = request.id
  await assert.rejects(world.call('devin', 'execution/request.collect', { request_id }), { code: 'PRECONDITION_FAILED' })
  const { receipt } = await world.call('alice', 'execution/request.resolve', { request_id, result: 'yes' })
  const before = await stateHash(world.store)
  for (const [who, code] of [
    ['alice', 'UNAUTHORIZED'],
    ['robin', 'NOT_FOUND'],
  ] as const)
    await assert.rejects(world.call(who, 'execution/request.collect', { request_id }), { code })
  assert.equal(await stateHash(world.store), before)
  const both = await Promise.allSettled([1, 2].map(() => world.call('devin', 'execution/request.collect', { request_id })))
  assert.deepEqual(both.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  await assert.rejects(world.call('devin', 'execution/request.collect', { request_id }), { code: 'GONE' })
  assert.deepEqual((await world.call('devin', 'execution/request.get', { request_id })).receipt, receipt)
})
