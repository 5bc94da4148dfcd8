// The tail of the live streams: facts left over after a pause are published immediately, not with the next poll.
import assert from 'node:assert/strict'
import { setImmediate as turn } from 'node:timers/promises'
import { test } from 'node:test'
import { createTail } from '#bindings/live/tail.ts'
import type { Store, StoredFact } from '#kernel/log/store.ts'
import type { Tail as RecordTail } from '#kernel/log/tail.ts'

const lineAt = (position: number): string =>
  JSON.stringify({ scope: 'project_a', actor: position === 2 ? 'user_b' : 'user_a', task: null, root: null, subject: 'toy.note/a' })

test('a rest that is over before it began leaves nothing behind', async (t) => {
  const told: number[] = []
  let heard: Parameters<RecordTail['follow']>[0] = () => undefined
  const store = {
    stats: () => ({ position: 0 }),
    facts: (_: unknown, { after, limit }: { after: number; limit: number }) =>
      Promise.resolve(Array.from({ length: limit }, (_, i) => ({ position: after + 1 + i, line: lineAt(after + 1 + i) }) as StoredFact)),
  } as unknown as Store
  const record = {
    follow(follower: typeof heard) {
      heard = follower
      return () => undefined
    },
  } as unknown as RecordTail
  // Telling takes two milliseconds, and one passes with every look at the clock.
  let ms = 0
  t.mock.method(performance, 'now', () => ++ms)
  const tail = createTail(store, record, {
    isAnyWatched: () => true,
    isWatched: (route) => route.includes('user_a'),
    take: ({ position }) => void told.push(position),
    flush: () => void ms++,
    failed: (error) => assert.fail(String(error)),
  })
  heard(
    [1, 2, 3].map((position) => ({
      position,
      scope: 'project_a',
      fact: { actor: position === 2 ? 'user_b' : 'user_a', task: null, root: null, subject: 'toy.note/a' },
    })) as unknown as Parameters<typeof heard>[0],
  )
  for (let i = 0; i < 20; i++) await turn()
  tail.stop()
  assert.deepEqual(told, [1, 3])
})
