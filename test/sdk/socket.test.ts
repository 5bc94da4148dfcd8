// Streams over one WebSocket: many at once, from a cursor on, through a server that goes away, and refused in the words of the server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createClient } from '#sdk/index.ts'
import { liveWorld, until } from '../support/over-sockets/live.ts'

test('everything that a client follows comes over one socket, and goes on from its place', async (t) => {
  const world = await liveWorld(t)
  const { key } = await world.keyOf('owner')
  const client = createClient({ url: `http://127.0.0.1:${world.port}`, key, streams: 'socket' })
  t.after(() => client.close())
  let opened = 0
  const native = globalThis.WebSocket
  t.mock.property(
    globalThis,
    'WebSocket',
    class extends native {
      constructor(url: string | URL) {
        super(url)
        opened++
      }
    },
  )
  const seen: Record<string, { cursor: string; id: string }[]> = { a: [], b: [] }
  const leaving = new AbortController()
  let isOpen = 0
  const reading = Object.keys(seen).map(async (name) => {
    const options = { after: 'latest', signal: leaving.signal, onOpen: () => void isOpen++ }
    for await (const { cursor, item } of client.follow('collaboration/audit.follow', {}, options))
      seen[name]!.push({ cursor, id: (item as { event?: { id: string }; id?: string }).event?.id ?? '' })
  })
  await until(() => isOpen === 2, 'both are open')
  for (let i = 0; i < 5; i++)
    await world.call('alice', 'collaboration/task.create', { spec: { goal: `work ${i}`, acceptance_criteria: ['done'] } })
  await until(() => seen['a']!.length === 5 && seen['b']!.length === 5, 'all five on both')
  assert.equal(opened, 1)
  assert.deepEqual(seen['a'], seen['b'])
  leaving.abort()
  await Promise.all(reading)
  const again: string[] = []
  for await (const { item } of client.follow('collaboration/audit.follow', {}, { after: seen['a']![2]!.cursor })) {
    again.push((item as { event: { id: string } }).event.id)
    if (again.at(-1) === seen['a']![4]!.id) break
  }
  assert.deepEqual(
    again.slice(-2),
    seen['a']!.slice(3).map(({ id }) => id),
  )
  await assert.rejects(
    async () => {
      for await (const _ of client.follow('collaboration/audit.follow', { task_id: 'task_none' })) break
    },
    { code: 'NOT_FOUND' },
  )
})

test('a key that is not good opens no socket', async (t) => {
  const world = await liveWorld(t)
  const client = createClient({ url: `http://127.0.0.1:${world.port}`, key: 'csk_wrong', streams: 'socket' })
  t.after(() => client.close())
  await assert.rejects(
    async () => {
      for await (const _ of client.follow('collaboration/audit.follow', {})) break
    },
    { code: 'UNAUTHENTICATED' },
  )
})
