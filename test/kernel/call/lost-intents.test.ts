// Calls whose commit has an unknown outcome say so. Of those that intend an effect nothing is done, and one that turns out to be there is
// concluded as unknown.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Actor } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import type { Line } from '#kernel/log/hash-chain.ts'
import type { Store } from '#kernel/log/store.ts'
import { memoryStore } from '#stores/memory.ts'
import { SCOPE, simProtocol } from '../../simulation/servers/protocol.ts'
import { seededEntropy } from '../../support/in-process/world.ts'

const alice: Actor = { id: 'user_alice', kind: 'human', projects: new Map([[SCOPE, 'member' as const]]) }

function kernelOn(store: Store, performed: unknown[] = []): Kernel {
  return createKernel({
    store,
    protocols: [simProtocol],
    contracts: [],
    directory: () => Promise.resolve(null),
    now: Date.now,
    sleep: () => sleep(1),
    entropy: seededEntropy(),
    asksPerMinute: null,
    perform: (port, request) => {
      performed.push(request)
      return Promise.resolve(port)
    },
  })
}

for (const isThere of [true, false])
  test(`an intent of unknown outcome that is ${isThere ? 'there is concluded' : 'not there leaves nothing'}, and is never done`, async () => {
    let isLost = true
    const performed: unknown[] = []
    const store = memoryStore({
      onWrite(_, apply) {
        if (!isLost) return apply()
        isLost = false
        if (isThere) apply()
        throw Object.assign(new Error('the connection was lost'), { failure: 'unknown' })
      },
    })
    const kernel = kernelOn(store, performed)
    const refused = await kernel.call('sim/act.begin', { by: 'one' }, alice).catch((error: unknown) => error)
    assert.ok(refused instanceof Refusal)
    assert.equal(refused.details?.['outcome'], 'unknown')
    for (let i = 0; i < 60; i++) await sleep(2)
    const facts = await store.facts({ by: 'position' }, { after: null, limit: 10 })
    assert.deepEqual(
      facts.map(({ line }) => (JSON.parse(line) as Line).action),
      isThere ? ['sim/act.begun', 'sim/act.ended'] : [],
    )
    assert.deepEqual(performed, [])
    kernel.release()
  })

test('a call of unknown outcome says so, also where its answer cannot be looked up', async () => {
  let isLost = false
  const memory = memoryStore({
    onWrite(_, apply) {
      apply()
      isLost = true
      throw Object.assign(new Error('the connection was lost'), { failure: 'unknown' })
    },
  })
  const store: Store = {
    ...memory,
    read: (keys) => (isLost ? Promise.reject(new Refusal('UNAVAILABLE', 'the database cannot be reached')) : memory.read(keys)),
  }
  const kernel = kernelOn(store)
  const refused = await kernel.call('sim/note.write', { id: 'a', by: 'one' }, alice, { key: 'k1' }).catch((error: unknown) => error)
  assert.ok(refused instanceof Refusal)
  assert.equal(refused.details?.['outcome'], 'unknown')
  kernel.release()
})
