// The feed of groups: nothing that was forgotten while it was on its way is passed over, and what was said may be said again.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createFeed, type FeedRow } from '#stores/postgres/feed.ts'

const rowsUpTo = (last: number, since: number): FeedRow[] =>
  Array.from({ length: last - since }, (_, i) => {
    const n = since + 1 + i
    return {
      groups: last,
      position: last * 10,
      image: 0,
      n,
      hash: null,
      hint: JSON.stringify({ position: n * 10, keys: [`k/${n}`], wakes: [] }),
    }
  })

test('each commit is published once, and none twice', () => {
  const feed = createFeed(5)
  assert.deepEqual(feed.take(rowsUpTo(7, 5), 5), { position: 70, keys: ['k/6', 'k/7'], wakes: [] })
  assert.equal(feed.since(), 7)
  assert.equal(feed.take(rowsUpTo(7, 5), 5), null)
})

test('commits in flight are still published when an outcome becomes unknown, and everything after them once more', () => {
  const feed = createFeed(5)
  feed.forget(5)
  assert.deepEqual(feed.take(rowsUpTo(7, 5), 5), { position: 70, keys: ['k/6', 'k/7'], wakes: [] }, 'a call waits at a barrier for them')
  assert.equal(feed.since(), 4, 'the group of unknown outcome is still to be told')
  assert.deepEqual(feed.take(rowsUpTo(7, 4), 4)?.keys, ['k/5', 'k/6', 'k/7'])
  assert.equal(feed.since(), 7)
})

test('rows that are no longer there: everything is forgotten', () => {
  const feed = createFeed(5)
  assert.deepEqual(feed.take(rowsUpTo(9, 7), 5), { position: 90, keys: 'all', wakes: 'all' })
})
