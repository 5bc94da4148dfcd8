// Following the record: in order, without gaps, only what may be read, also when the right to read ends in between.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { Actor } from '#kernel/declare/access.ts'
import { scenes } from '#protocols/collaboration/examples.ts'
import { cast, createWorld, storeMakers, type World } from '../support/in-process/world.ts'

type Item = { place: number; item: { event: { action: string } } }

/** Reads items until there are enough of them. */
async function take(
  world: World,
  caller: Actor | (() => Promise<Actor>),
  input: object,
  count: number,
  from: number | null = null,
): Promise<Item[]> {
  const stop = new AbortController()
  const items: Item[] = []
  for await (const followed of world.kernel.follow('collaboration/audit.follow', input, caller, { after: from, signal: stop.signal })) {
    items.push(followed as Item)
    if (items.length === count) stop.abort()
  }
  return items
}
const actionsOf = (items: Item[]): string[] => items.map(({ item }) => item.event.action)

for (const maker of storeMakers()) {
  describe(`streams on ${maker.name}`, () => {
    after(() => maker.dispose())

    test('a follower gets past and new events, in order, and resumes from any cursor', async () => {
      const world = await createWorld({ store: maker.open() })
      const { task } = await world.play(scenes.created)
      const following = take(world, cast['alice']!, { task_id: task.id }, 5)
      await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
      await world.call('devin', 'collaboration/task.start', { task_id: task.id })
      const items = await following
      assert.deepEqual(actionsOf(items), ['task.created', 'task.assigned', 'run.delegated', 'task.started', 'run.started'])
      const rest = await take(world, cast['alice']!, { task_id: task.id }, 3, items[0]!.place)
      assert.deepEqual(actionsOf(rest), ['task.assigned', 'run.delegated', 'task.started'])
      await world.close()
    })

    test('a foreign document cannot be followed', async () => {
      const world = await createWorld({ store: maker.open() })
      const { task } = await world.play(scenes.created)
      await assert.rejects(take(world, cast['mallory']!, { task_id: task.id }, 1), { code: 'NOT_FOUND' })
      await assert.rejects(take(world, cast['bob']!, {}, 1), { code: 'UNAUTHORIZED' })
      await assert.rejects(take(world, cast['alice']!, { task_id: 7 as unknown as string }, 1), { code: 'INVALID_REQUEST' })
      assert.throws(() => world.kernel.follow('collaboration/task.get', {}, cast['alice']!, { after: null, signal: AbortSignal.abort() }), {
        code: 'NOT_FOUND',
      })
      await world.close()
    })

    test('a reviewer who was taken off the task gets no further event', async () => {
      const world = await createWorld({ store: maker.open() })
      const { task } = await world.play(scenes.created)
      const seen: string[] = []
      const following = (async () => {
        const { signal } = new AbortController()
        for await (const { item } of world.kernel.follow('collaboration/audit.follow', { task_id: task.id }, cast['rita']!, {
          after: null,
          signal,
        })) {
          seen.push((item as Item['item']).event.action)
        }
      })()
      await world.call('alice', 'collaboration/reviewer.remove', { task_id: task.id, user: 'user_rita' })
      await assert.rejects(following, { code: 'NOT_FOUND' })
      assert.deepEqual(seen, ['task.created'])
      await world.close()
    })
  })
}
