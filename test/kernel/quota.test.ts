// The quota of one agent: changes and questions a minute, and open questions.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Refusal } from '#kernel/declare/errors.ts'
import { createQuota } from '#kernel/call/quota/quota.ts'
import { createKernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { prefixOf } from '#kernel/declare/schema.ts'
import { Checkpoint } from '#protocols/collaboration/schema.ts'
import { memoryDisk, memoryStore } from '#stores/memory.ts'
import { alice, toyProtocol } from '../support/in-process/toy.ts'
import { createWorld, settled, type World } from '../support/in-process/world.ts'

/** An agent's task in progress, made before anything is counted. */
async function working(world: World): Promise<string> {
  const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal: 'x' } })
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  await world.call('devin', 'collaboration/task.start', { task_id: task.id })
  return task.id
}
const write = (world: World, as: string, task_id: string, key?: string): Promise<any> =>
  world.call(as, 'collaboration/ledger.write', { task_id, key: 'k', value: 1 }, key === undefined ? {} : { key })
const exceeded = (retry_after: number) => ({ code: 'QUOTA_EXCEEDED', details: { retry_after } })

test('an agent’s changes are bounded per minute, and the refusal says when to retry', async () => {
  const world = await createWorld({ changesPerMinute: 20 })
  const task_id = await working(world)
  for (let i = 1; i < 20; i++) await write(world, 'devin', task_id)
  await assert.rejects(write(world, 'devin', task_id), exceeded(3))
  await assert.rejects(world.call('devin', 'collaboration/checkpoint.raise', { task_id, kind: 'approval', prompt: '?' }), exceeded(3))
  assert.equal((await world.call('devin', 'collaboration/task.get', { task_id })).task.state, 'in_progress', 'reading is free')
  for (let i = 0; i < 30; i++) await write(world, 'alice', task_id)
  await assert.rejects(world.call('robin', 'collaboration/task.start', { task_id }), { code: 'NOT_FOUND' }, 'others have their own')
  world.advance(3_000)
  await write(world, 'devin', task_id)
  await assert.rejects(write(world, 'devin', task_id), exceeded(3))
  await world.close()
})

test('refused calls count too: they are work for the server', async () => {
  const world = await createWorld({ changesPerMinute: 5 })
  for (let i = 0; i < 5; i++) await assert.rejects(write(world, 'devin', 'task_none'), { code: 'NOT_FOUND' })
  await assert.rejects(write(world, 'devin', 'task_none'), exceeded(12))
  await world.close()
})

test('a call that lost a race pays once, and one that is repeated under its key pays nothing', async () => {
  for (const quota of [{ changesPerMinute: 2 }, { asksPerMinute: 1 }]) {
    const world = await createWorld(quota)
    const task_id = await working(world)
    const { conflicts } = world.kernel.stats()
    const raising = { task_id, kind: 'approval', prompt: '?' }
    const [, raised] = await Promise.all([
      world.call('alice', 'collaboration/task.amend', { task_id, text: 'Slowly.', intent: 'clarify' }),
      world.call('devin', 'collaboration/checkpoint.raise', raising, { key: 'one' }),
    ])
    assert.equal(world.kernel.stats().conflicts, conflicts + 1, 'it did lose')
    assert.deepEqual(await world.call('devin', 'collaboration/checkpoint.raise', raising, { key: 'one' }), raised)
    await assert.rejects(world.call('devin', 'collaboration/checkpoint.raise', raising, { key: 'two' }), { code: 'QUOTA_EXCEEDED' })
    await world.close()
  }
})

test('without a quota nothing is counted', async () => {
  const world = await createWorld()
  const task_id = await working(world)
  for (let i = 0; i < 2 * limits.changesPerMinute; i++) await write(world, 'devin', task_id)
  await world.close()
})

test('so many questions of one agent may be open at a time', async () => {
  const disk = memoryDisk()
  const first = await createWorld({ store: memoryStore({ disk }) })
  const [task_id, other] = [await working(first), await working(first)]
  // As if it had asked all the others in tasks of their own.
  disk.counts.set(prefixOf(Checkpoint, 'open', ['agent_devin']), limits.asksOpenMax - 1)
  const world = await createWorld({ store: memoryStore({ disk }), populated: false, startMs: first.kernel.now() + 1, seed: 2 })
  const raising = (task: string): Promise<any> =>
    world.call('devin', 'collaboration/checkpoint.raise', { task_id: task, kind: 'approval', prompt: '?' })
  const { checkpoint } = await raising(task_id)
  await assert.rejects(raising(other), { code: 'QUOTA_EXCEEDED', message: /at most 1000 questions of one agent may be open/ })
  await world.call('alice', 'collaboration/checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
  await raising(other)
  await world.close()
})

test('reads made while a query was queued are charged before it is answered', async () => {
  const queue: (() => void)[] = []
  const kernel = createKernel({
    store: memoryStore(),
    protocols: [toyProtocol()],
    contracts: [],
    directory: () => Promise.resolve(null),
    now: () => 0,
    entropy: (count) => new Uint8Array(count),
    asksPerMinute: null,
    readsPerMinute: 100,
    turns: { admit: () => undefined, begin: () => new Promise((go) => queue.push(go)), end: () => queue.shift()?.() },
  })
  await kernel.call('toy/note.write', { id: 'long', text: 'x'.repeat(190_000) }, alice)
  const get = (id: string): Promise<unknown> => kernel.call('toy/note.get', { id: 'long' }, { ...alice, id })
  // Each costs nearly half of what a minute brings, and all were asked for while nothing was owed.
  const outcomes = Promise.allSettled([get('user_bob'), get('user_bob'), get('user_bob'), get('user_bob'), get('user_carol')])
  await settled()
  queue.shift()!()
  assert.deepEqual(
    (await outcomes).map((one) => (one.status === 'fulfilled' ? 'read' : (one.reason as Refusal).code)),
    ['read', 'read', 'read', 'QUOTA_EXCEEDED', 'read'],
  )
})

test('an actor that exceeded its read quota while queued does not read on', () => {
  const quota = createQuota({ asksPerMinute: 10, readsPerMinute: 100, now: () => 0 })
  quota.read('agent_a')
  quota.stillPays('agent_a')
  quota.charge('agent_a', 150)
  assert.throws(() => quota.stillPays('agent_a'), { code: 'QUOTA_EXCEEDED' })
  quota.stillPays('agent_b')
})
