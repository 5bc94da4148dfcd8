// One request as it changes: what each reader hears of it, who may follow it, and where it continues.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { keyOf } from '#kernel/declare/schema.ts'
import { Request } from '#protocols/execution/schema.ts'
import { ask, item } from '../../../support/over-sockets/asking.ts'
import { createWorld, type World } from '../../../support/in-process/world.ts'

const FOLLOW = 'execution/request.follow'

/** The items that a reader is shown of the record as it is. */
async function heardBy(world: World, who: string, request_id: string): Promise<any[]> {
  const { of, op, input, audience, sees } = await world.kernel.admit(FOLLOW, { request_id }, world.cast[who]!)
  const heard: unknown[] = []
  for (const fact of await world.store.facts(of, { after: null, limit: 1_000 }))
    if (op.wants!(input, fact) && (await sees!(fact))) heard.push(op.view(fact, audience))
  return heard
}
const eventsIn = (heard: readonly any[]): unknown[] => heard.flatMap(({ events }) => events)

describe('following a request', () => {
  test('each change is streamed once, an agent gets no name out of a pool, and no other request is in the stream', async () => {
    const world = await createWorld()
    const { id: request_id } = await ask(world, 'devin', { role: 'pool', ...item('anybody') })
    await ask(world, 'devin', { role: 'pool', ...item('another') })
    await world.call('bob', 'execution/request.claim', { request_id })
    await world.call('bob', 'execution/request.release', { request_id })
    await world.call('bob', 'execution/request.resolve', { request_id, result: 'approved' })
    assert.deepEqual(eventsIn(await heardBy(world, 'devin', request_id)), [
      { event: 'assigned', assigned_to: null },
      { event: 'released' },
      { event: 'completed' },
    ])
    assert.deepEqual(eventsIn(await heardBy(world, 'bob', request_id))[0], { event: 'assigned', assigned_to: 'user_bob' })
    assert.deepEqual(
      (await heardBy(world, 'devin', request_id)).map(({ status }) => status),
      ['pending', 'assigned', 'pending', 'completed'],
    )
    await world.close()
  })

  test('a follower without access gets NOT_FOUND, and no state that it is not allowed to read', async () => {
    const world = await createWorld()
    const { id: request_id } = await ask(world, 'devin', { role: 'pool', ...item('anybody') })
    for (const who of ['robin', 'spy', 'mallory'])
      await assert.rejects(world.kernel.admit(FOLLOW, { request_id }, world.cast[who]!), { code: 'NOT_FOUND' }, who)
    const rita = await world.kernel.admit(FOLLOW, { request_id }, world.cast['rita']!)
    await world.call('bob', 'execution/request.claim', { request_id })
    const facts = await world.store.facts(rita.of, { after: null, limit: 1_000 })
    const about = facts.filter((fact) => rita.op.wants!(rita.input, fact))
    const verdicts: boolean[] = []
    for (const fact of about) verdicts.push(await rita.sees!(fact))
    assert.deepEqual(verdicts, [true, false], 'what bob has claimed is his')
    await assert.rejects(rita.again(), { code: 'NOT_FOUND' })
    assert.equal(rita.about, keyOf(Request, request_id))
    await world.close()
  })
})
