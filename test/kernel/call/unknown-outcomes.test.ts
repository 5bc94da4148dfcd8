// Calls whose commit has an unknown outcome say so. An effect that such a call intends is never performed; if the commit exists, the effect is
// concluded as unknown.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Actor } from '#kernel/declare/access.ts'
import { Refusal, StoreUnavailable } from '#kernel/declare/errors.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import type { Line } from '#kernel/log/hash-chain.ts'
import type { Store } from '#kernel/log/store.ts'
import { memoryStore } from '#stores/memory.ts'
import { SCOPE, simProtocol } from '../../simulation/servers/protocol.ts'
import { seededEntropy } from '../../support/in-process/world.ts'

const alice: Actor = { id: 'user_alice', kind: 'human', projects: new Map([[SCOPE, 'member' as const]]) }

function kernelOn(store: Store, performed: unknown[] = [], protocol = simProtocol): Kernel {
  return createKernel({
    store,
    protocols: [protocol],
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
  test(`an intent of unknown outcome that was ${isThere ? 'stored is concluded' : 'lost leaves nothing'}, and is never performed`, async () => {
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

type Trouble = { isLost: boolean; looks: number }
/** A store that writes, loses the way back, and then does what `after` says. */
function losingStore(after: (memory: Store, trouble: Trouble) => Partial<Store>): Store {
  const trouble: Trouble = { isLost: false, looks: 0 }
  const memory = memoryStore({
    onWrite(_, apply) {
      apply()
      trouble.isLost = true
      throw Object.assign(new Error('the connection was lost'), { failure: 'unknown' })
    },
  })
  return { ...memory, ...after(memory, trouble) }
}
const away = (): Refusal => new StoreUnavailable('the database cannot be reached', {})

const afterwards: Record<string, (memory: Store, trouble: Trouble) => Partial<Store>> = {
  'its answer cannot be looked up': (memory, trouble) => ({
    read: (keys) => (trouble.isLost ? Promise.reject(away()) : memory.read(keys)),
  }),
  'its answer is there, and cannot be read a second time': (memory, trouble) => ({
    read: (keys) => (trouble.isLost && ++trouble.looks > 1 ? Promise.reject(away()) : memory.read(keys)),
    peek: () => undefined,
  }),
  'its answer is there, and the way is lost before the next attempt': (memory, trouble) => ({
    fresh: () => (trouble.isLost ? Promise.reject(away()) : undefined),
  }),
}
for (const [what, after] of Object.entries(afterwards))
  test(`a call of unknown outcome says so, also if ${what}`, async () => {
    const kernel = kernelOn(losingStore(after))
    const refused = await kernel.call('sim/note.write', { id: 'a', by: 'one' }, alice, { key: 'k1' }).catch((error: unknown) => error)
    assert.ok(refused instanceof Refusal)
    assert.equal(refused.details?.['outcome'], 'unknown')
    kernel.release()
  })

test('a call whose answer cannot be read says that it may have been carried out, if it has changed something', async () => {
  const operations = simProtocol.operations.map((op) => (op.kind === 'command' ? { ...op, finish: () => Promise.reject(away()) } : op))
  const kernel = kernelOn(memoryStore(), [], { ...simProtocol, operations })
  const write = (): Promise<unknown> =>
    kernel.call('sim/note.write', { id: 'a', by: 'one' }, alice, { key: 'k1' }).catch((error: Refusal) => error.details?.['outcome'])
  assert.equal(await write(), 'unknown')
  assert.equal(await write(), 'unknown', 'the same call again')
  kernel.release()
})
