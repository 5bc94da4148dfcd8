// Saved filters: named questions to one's own inbox.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { allOf, ask, item, titlesOf } from '../../../support/over-sockets/asking.ts'
import { createWorld } from '../../../support/in-process/world.ts'

const SAVE = 'execution/filter.save'

test('a filter is asked by its name, more words count more, and a changed filter ends its cursors', async () => {
  const world = await createWorld()
  await ask(world, 'devin', { priority: 'high', ...item('devin high') })
  await ask(world, 'robin', { priority: 'high', ...item('robin high') })
  await ask(world, 'robin', item('robin'))
  await world.call('alice', SAVE, { name: 'robins', query: { agent_id: 'agent_robin' } })
  assert.deepEqual(titlesOf(await allOf(world, 'alice', { filter: 'robins', limit: 1 })), ['robin high', 'robin'])
  assert.deepEqual(titlesOf(await allOf(world, 'alice', { filter: 'robins', priority: 'high' })), ['robin high'])
  assert.deepEqual(titlesOf(await allOf(world, 'alice', { filter: 'robins', agent_id: 'agent_devin' })), ['devin high'])
  const { next_cursor: cursor } = await world.call('alice', 'execution/inbox.list', { filter: 'robins', limit: 1 })
  await world.call('alice', SAVE, { name: 'robins', query: { agent_id: 'agent_devin' } })
  await assert.rejects(world.call('alice', 'execution/inbox.list', { filter: 'robins', limit: 1, cursor }), { code: 'INVALID_REQUEST' })
  await world.close()
})

test("they are each person's own, few, and gone when they are removed", async () => {
  const world = await createWorld()
  const namesOf = async (who: string): Promise<string[]> =>
    (await world.call(who, 'execution/filter.list')).items.map(({ name }: { name: string }) => name)
  await world.call('alice', SAVE, { name: 'mine', query: { priority: 'high' } })
  assert.deepEqual([await namesOf('alice'), await namesOf('bob')], [['mine'], []])
  await assert.rejects(world.call('bob', 'execution/inbox.list', { filter: 'mine' }), { code: 'NOT_FOUND' })
  await assert.rejects(world.call('deputy', 'execution/filter.remove', { name: 'mine' }), { code: 'NOT_FOUND' })
  await world.call('alice', 'execution/filter.remove', { name: 'mine' })
  assert.deepEqual(await namesOf('alice'), [])

  for (let i = 0; i < limits.filtersMax; i++) await world.call('alice', SAVE, { name: `f${i}`, query: { kind: 'review' } })
  await assert.rejects(world.call('alice', SAVE, { name: 'one more', query: { kind: 'review' } }), { code: 'QUOTA_EXCEEDED' })
  await world.call('alice', SAVE, { name: 'f0', query: { priority: 'low' } })
  assert.equal((await namesOf('alice')).length, limits.filtersMax)
  await world.close()
})

test('two filters saved concurrently are both there', async () => {
  const world = await createWorld()
  await Promise.all(['a', 'b', 'c'].map((name) => world.call('alice', SAVE, { name, query: { kind: 'review' } })))
  assert.equal((await world.call('alice', 'execution/filter.list')).items.length, 3)
  await world.close()
})

test('a query that no inbox takes is no filter', async () => {
  const world = await createWorld()
  for (const input of [
    { name: '', query: { kind: 'review' } },
    { name: 'x' },
    { name: 'x', query: { prioritty: 'high' } },
    { name: 'x', query: { priority: 'urgent' } },
    { name: 'x', query: null },
    { name: 'x', query: { person: 'user_bob', kind: 'review' } },
    { name: 'x', query: { filter: 'y', kind: 'review' } },
  ])
    await assert.rejects(world.call('alice', SAVE, input), { code: 'INVALID_REQUEST' })
  await world.close()
})
