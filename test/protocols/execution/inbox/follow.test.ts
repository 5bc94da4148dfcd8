// The inbox as it changes: only for the readers that a change concerns, from any position on, and at no cost for others.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Actor } from '#kernel/declare/access.ts'
import type { Store } from '#kernel/log/store.ts'
import { scenes } from '#protocols/collaboration/examples.ts'
import { memoryStore } from '#stores/memory.ts'
import { ask, item } from '../../../support/over-sockets/asking.ts'
import { liveWorld, pause, until } from '../../../support/over-sockets/live.ts'
import { createWorld, type World } from '../../../support/in-process/world.ts'

const FOLLOW = 'execution/inbox.follow'
const RESOLVE = 'execution/request.resolve'

type Seen = { place: number; item: { event: string; request_id: string; item: { title: string; digest: string } } }
/** The record as an actor is shown it now, up to a last item that they see for certain. */
async function seenBy(world: World, caller: Actor, from: number | null = null): Promise<Seen[]> {
  const { sees, op } = await world.kernel.admit(FOLLOW, {}, caller)
  const seen: Seen[] = []
  for (const fact of await world.store.facts({ by: 'position' }, { after: from, limit: 1_000 }))
    if (op.wants!({}, fact) && (await sees!(fact))) seen.push({ place: fact.position, item: op.view(fact, '') as Seen['item'] })
  return seen
}
const wordsOf = (seen: readonly Seen[]): string[] => seen.map(({ item: { event, item: about } }) => `${event} ${about.title}`)

describe('following the inbox', () => {
  test('it tells what comes and what goes, with what an answer is held against', async () => {
    const world = await createWorld()
    const { id: request_id } = await ask(world, 'devin', item('mine'))
    const [first] = await seenBy(world, world.cast['alice']!)
    await world.call('alice', RESOLVE, { request_id, result: 'approved', digest: first!.item.item.digest })
    await ask(world, 'robin', item('another'))
    const seen = await seenBy(world, world.cast['alice']!)
    assert.deepEqual(wordsOf(seen), ['created mine', 'completed mine', 'created another'])
    assert.deepEqual(wordsOf(await seenBy(world, world.cast['alice']!, seen[1]!.place)), ['created another'])
    await world.close()
  })

  test("nobody hears of others' items, whoever they are", async () => {
    const world = await createWorld()
    await ask(world, 'devin', item('of alice'))
    await ask(world, 'spy', item('of mallory'))
    for (const [who, message] of [
      ['alice', ['created of alice']],
      ['deputy', ['created of alice']],
      ['mallory', ['created of mallory']],
      ['bob', []],
      ['rita', []],
      ['owner', []],
    ] as const)
      assert.deepEqual(wordsOf(await seenBy(world, world.cast[who]!)), message, who)
    for (const who of ['devin', 'project', 'admin', 'system'])
      await assert.rejects(world.kernel.admit(FOLLOW, {}, world.cast[who]!), { code: 'UNAUTHORIZED' }, who)
    await world.close()
  })

  test('the followers of a pool hear that another person claimed the item', async () => {
    const world = await createWorld()
    const { id: request_id } = await ask(world, 'devin', { role: 'pool', ...item('anybody') })
    await world.call('bob', RESOLVE, { request_id, result: 'approved' })
    for (const who of ['alice', 'bob', 'rita'])
      assert.deepEqual(wordsOf(await seenBy(world, world.cast[who]!)), ['created anybody', 'completed anybody'], who)
    assert.deepEqual(await seenBy(world, world.cast['mallory']!), [])
    await world.close()
  })

  test('a snooze is visible to the person who set it alone', async () => {
    const world = await createWorld()
    const quorum = { n: 2, of: ['user_alice', 'user_bob'] }
    const { id: request_id } = await ask(world, 'devin', { quorum, ...item('both') })
    await world.call('bob', 'execution/request.snooze', { request_id, until: new Date(world.kernel.now() + 60_000).toISOString() })
    assert.deepEqual(wordsOf(await seenBy(world, world.cast['bob']!)), ['created both', 'snoozed both'])
    assert.deepEqual(wordsOf(await seenBy(world, world.cast['alice']!)), ['created both'])
    await world.close()
  })

  test('followers who left the project, or who are not allowed to read the task, hear nothing more', async () => {
    const world = await createWorld()
    const { task } = await world.play(scenes.in_progress)
    await ask(world, 'devin', { metadata: { task_id: task.id }, ...item('for the task') })
    await ask(world, 'devin', item('mine'))
    assert.deepEqual(wordsOf(await seenBy(world, world.cast['alice']!)), ['created for the task', 'created mine'])
    assert.deepEqual(await seenBy(world, { ...world.cast['alice']!, projects: new Map() }), [])
    // The item names them, the task does not know them: the task counts.
    const other = await createWorld()
    const { task: theirs } = await other.play(scenes.in_progress)
    await ask(other, 'devin', { metadata: { task_id: theirs.id }, ...item('reviewed') })
    const [fact] = (await other.store.facts({ by: 'position' }, { after: null, limit: 1_000 })).filter(({ line }) =>
      line.includes('execution/request.created'),
    )
    const forged = { ...fact!, images: [{ ...fact!.images[0]!, text: fact!.images[0]!.text!.replaceAll('user_alice', 'user_bob') }] }
    const { sees } = await other.kernel.admit(FOLLOW, {}, other.cast['bob']!)
    assert.equal(await sees!(forged), false)
    await world.close()
    await other.close()
  })

  test('a fact that does not concern a follower costs it no read', async () => {
    const store = memoryStore()
    let reads = 0
    const counting: Store = { ...store, peek: () => undefined, read: (keys) => (reads++, store.read(keys)) }
    const world = await createWorld({ store: counting })
    const { task } = await world.play(scenes.in_progress)
    await ask(world, 'devin', { metadata: { task_id: task.id } })
    for (let i = 0; i < 20; i++) await ask(world, 'devin', item(`${i}`))
    reads = 0
    assert.deepEqual(await seenBy(world, world.cast['bob']!), [])
    assert.equal(reads, 0)
    assert.equal((await seenBy(world, world.cast['alice']!)).length, 21)
    assert.equal(reads, 1, 'the task, once')
    await world.close()
  })

  test('it is carried as server-sent events and over a WebSocket, and goes on from a cursor', async (t) => {
    const world = await liveWorld(t)
    const { key } = await world.keyOf('alice')
    const other = await world.keyOf('bob')
    const stream = await world.events(key, `/v1/${FOLLOW}`)
    const silent = await world.events(other.key, `/v1/${FOLLOW}`)
    assert.equal(stream.status, 200)
    const { id: request_id } = await ask(world, 'devin', item('mine'))
    await until(() => stream.frames.length === 1, 'one event')
    await world.call('alice', RESOLVE, { request_id, result: 'approved' })
    await until(() => stream.frames.length === 2, 'two events')
    assert.deepEqual(
      stream.frames.map(({ event, data }) => [event, data.event, data.request_id]),
      [
        ['request.created', 'created', request_id],
        ['request.completed', 'completed', request_id],
      ],
    )
    const rest = await world.events(key, `/v1/${FOLLOW}?after=${stream.frames[0]!.id}`)
    await until(() => rest.frames.length === 1, 'the rest')
    assert.equal(rest.frames[0]!.data.event, 'completed')
    const socket = await world.socket(key)
    socket.send({ subscribe: { stream: FOLLOW, input: {}, id: 's', after: null } })
    await until(() => socket.said.some((message) => JSON.stringify(message).includes('completed')), 'the same over a socket')
    await pause(50)
    assert.deepEqual(silent.frames, [])
  })

  test('a key that is revoked hears nothing more', async (t) => {
    const world = await liveWorld(t)
    const { key, id } = await world.keyOf('alice')
    const stream = await world.events(key, `/v1/${FOLLOW}`)
    await ask(world, 'devin', item('before'))
    await until(() => stream.frames.length === 1, 'one event')
    await world.call('system', 'identity/key.revoke', { key_id: id })
    await until(() => stream.isOver(), 'the stream ends')
    assert.ok(!stream.frames.some(({ data }) => data.item?.title === 'after'))
  })
})
