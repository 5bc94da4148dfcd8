// The collector of bytes, where several servers share them: what another one came to refer to just now is seen before anything goes.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Blobs } from '#kernel/ports/blobs.ts'
import type { Store } from '#kernel/log/store.ts'
import { collect } from '#workers/upkeep/blob-collector.ts'

test('the collector checks behind the read barrier whether bytes are unused', async () => {
  let isFresh = false
  const store = {
    fresh: () => Promise.resolve(void (isFresh = true)),
    // A number from before the other server wrote.
    count: () => Promise.resolve(isFresh ? 1 : 0),
  } as unknown as Store
  const blobs = {
    list: (after: string | null) => Promise.resolve(after === null ? [{ checksum: `sha256:${'0'.repeat(64)}`, size: 1, at: 0 }] : []),
    remove: async (_: string, isUnused: () => Promise<boolean>) => isUnused(),
  } as unknown as Blobs
  const clock = { now: () => Date.parse('2030-01-01T00:00:00.000Z'), sleep: () => Promise.resolve() }
  assert.equal(await collect(store, blobs, clock, new AbortController().signal), 0)
})
