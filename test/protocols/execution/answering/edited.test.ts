// Edit, then approve (X33), and answers that are held against the digest of what was shown.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { ask } from '../../../support/over-sockets/asking.ts'
import { createWorld, type World } from '../../../support/in-process/world.ts'

const RESOLVE = 'execution/request.resolve'
const details_schema = {
  type: 'object',
  properties: { amount: { type: 'integer', minimum: 0, maximum: 100 }, to: { type: 'string', pattern: '^[a-z]+$' } },
  required: ['amount', 'to'],
  additionalProperties: false,
}
const payload = { item: 'Pay', details: { amount: 99, to: 'bob' }, details_schema }
const stateOf = async (world: World, request_id: string): Promise<any> => world.call('alice', 'execution/request.get', { request_id })

describe('edited details', () => {
  test('are checked against the schema, recorded in the receipt, and signed', async () => {
    const world = await createWorld()
    const { id } = await ask(world, 'devin', { payload })
    const edited = { amount: 40, to: 'bob' }
    const { receipt } = await world.call('alice', RESOLVE, { request_id: id, result: 'approved', edited })
    assert.deepEqual(receipt.edited, edited)
    assert.equal(receipt.result, 'approved')
    const claims = JSON.parse(Buffer.from(receipt.signature.split('.')[1], 'base64url').toString())
    assert.deepEqual(claims.edited, edited)
    const verified = await world.call('devin', 'execution/receipt.verify', { receipt })
    assert.equal(verified.valid, true)
    const forged = await world.call('devin', 'execution/receipt.verify', { receipt: { ...receipt, edited: { amount: 41, to: 'bob' } } })
    assert.equal(forged.valid, false)
    await world.close()
  })

  test('that break the schema change nothing, whatever they are', async () => {
    const world = await createWorld()
    const { id } = await ask(world, 'devin', { payload })
    const before = await stateOf(world, id)
    const isFit = (value: any): boolean =>
      Object.keys(value).toSorted().join() === 'amount,to' &&
      Number.isInteger(value.amount) &&
      value.amount >= 0 &&
      value.amount <= 100 &&
      typeof value.to === 'string' &&
      /^[a-z]+$/.test(value.to)
    const anyValue = fc.oneof(fc.integer({ min: -10, max: 200 }), fc.string(), fc.boolean(), fc.constant(null))
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.constantFrom('amount', 'to', 'more'), anyValue, { noNullPrototype: true }), async (edited) => {
        fc.pre(!isFit(edited))
        await assert.rejects(world.call('alice', RESOLVE, { request_id: id, result: 'approved', edited }), { code: 'INVALID_REQUEST' })
      }),
      { numRuns: 80, seed: 33 },
    )
    assert.deepEqual(await stateOf(world, id), before)
    await world.close()
  })

  test('go with an agent’s own approval alone: not with a rejection, a quorum, no schema or another protocol’s item', async () => {
    const world = await createWorld()
    const edited = { amount: 1, to: 'bob' }
    const refused = async (request_id: string, result: string, message: RegExp): Promise<void> => {
      const before = await stateOf(world, request_id)
      await assert.rejects(world.call('alice', RESOLVE, { request_id, result, edited }), { code: 'INVALID_REQUEST', message: message })
      assert.deepEqual(await stateOf(world, request_id), before)
    }
    await refused((await ask(world, 'devin', { payload })).id, 'rejected', /approved alone/)
    await refused((await ask(world, 'devin')).id, 'approved', /no details_schema/)
    const quorum = { n: 1, of: ['user_alice', 'user_bob'] }
    await assert.rejects(
      world.call('alice', RESOLVE, { request_id: (await ask(world, 'devin', { payload, quorum })).id, result: 'approved', edited }),
      { code: 'INVALID_REQUEST', message: /quorum/ },
    )
    const decide = { action: 'DECIDE', payload: { question: 'Which?', options: ['a', 'b'] } }
    await refused((await ask(world, 'devin', decide)).id, 'a', /approval/)
    await world.close()
  })

  test('a schema that its own details do not fit, that cannot be used or that answers later is refused', async () => {
    const world = await createWorld()
    for (const odd of [{ not: {} }, { type: 'nonsense' }, { $ref: 'https://example.com/x' }, { ...details_schema, $async: true }])
      await assert.rejects(ask(world, 'devin', { payload: { ...payload, details_schema: odd } }), { code: 'INVALID_REQUEST' })
    await world.close()
  })
})

describe('a digest', () => {
  test('of something else is refused on every side, and says what changed', async () => {
    const world = await createWorld()
    const { id } = await ask(world, 'devin')
    const { item } = await world.call('alice', 'execution/inbox.get', { request_id: id })
    await world.call('alice', 'execution/request.question', { request_id: id, text: 'Why?' })
    await assert.rejects(world.call('alice', RESOLVE, { request_id: id, result: 'approved', digest: item.digest }), (error: any) => {
      assert.equal(error.code, 'CHANGED')
      assert.deepEqual(error.details.changed, ['thread'])
      return true
    })
    // The question, the reply and another question: what was shown is three changes ago.
    await world.call('devin', 'execution/request.reply', { request_id: id, text: 'Because.' })
    await world.call('alice', 'execution/request.question', { request_id: id, text: 'Really?' })
    await assert.rejects(world.call('alice', RESOLVE, { request_id: id, result: 'approved', digest: item.digest }), {
      code: 'CHANGED',
      message: /\(thread\)/,
    })
    const of = (digest: string) => world.call('alice', RESOLVE, { request_id: id, result: 'approved', digest })
    await assert.rejects(of('of-nothing'), (error: any) => error.code === 'CHANGED' && error.details.changed.length === 0)
    await world.close()
  })

  test('holds at the checkpoint and at the review as in the inbox', async () => {
    const world = await createWorld()
    const { scenes } = await import('#protocols/collaboration/examples.ts')
    const { checkpoint } = await world.play(scenes.blocked)
    const request_id = `hxp_${checkpoint.id.slice(5)}`
    const { item } = await world.call('alice', 'execution/inbox.get', { request_id })
    const answer = { checkpoint_id: checkpoint.id, action: 'approve' }
    await assert.rejects(world.call('alice', 'collaboration/checkpoint.resolve', { ...answer, digest: 'x' }), { code: 'CHANGED' })
    assert.equal((await stateOf(world, request_id)).request.status, 'pending')
    await world.call('alice', 'collaboration/checkpoint.resolve', { ...answer, digest: item.digest })
    await world.close()
    const other = await createWorld()
    const { task, artifact } = await other.play(scenes.review_ready)
    const [review] = (await other.call('alice', 'execution/inbox.list', { kind: 'review' })).items
    const verdict = { task_id: task.id, artifact_id: artifact.id, verdict: 'approved' }
    await assert.rejects(other.call('alice', 'collaboration/review.submit', { ...verdict, digest: 'x' }), { code: 'CHANGED' })
    const done = await other.call('alice', 'collaboration/review.submit', { ...verdict, digest: review.digest })
    assert.equal(done.task.state, 'completed')
    await other.close()
  })
})
