// Promises of the kernel for every operation: one effect for one key, one winner of a race, a reason for every no.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { Line } from '#kernel/log/hash-chain.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { factOf, image } from '#kernel/declare/facts.ts'
import { anyone, type Actor } from '#kernel/declare/access.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { command, type Protocol } from '#kernel/declare/operation.ts'
import { doc, t } from '#kernel/declare/schema.ts'
import type { Store } from '#kernel/log/store.ts'
import { authenticate } from '#protocols/identity/authenticate.ts'
import { memoryDisk, memoryStore } from '#stores/memory.ts'
import { createWorld, seededEntropy, settled, stateHash, storeMakers, type World } from '../support/in-process/world.ts'

const DAY_MS = 86_400_000
const create = { spec: { goal: 'Fix it' } }
const actionsIn = async (store: Store): Promise<string[]> => {
  await settled()
  return (await store.facts({ by: 'position' }, { after: null, limit: 10_000 })).map(({ line }) => (JSON.parse(line) as Line).action)
}
const countIn = async (store: Store, action: string): Promise<number> => (await actionsIn(store)).filter((found) => found === action).length

/** Lets what is under way continue, and gives up after so many turns of the loop. */
async function turns(count: number): Promise<string> {
  for (let i = 0; i < count; i++) await settled()
  return 'still waiting'
}

describe('an idempotency key', () => {
  const CREATED = 'collaboration/task.created'
  const createTask = (world: World, key: string, as = 'alice', input: object = create) =>
    world.call(as, 'collaboration/task.create', input, { key })

  test('has one effect and one answer for at least seven days', async () => {
    const world = await createWorld()
    const answer = await createTask(world, 'k1')
    for (const passed of [0, DAY_MS, 6 * DAY_MS]) {
      world.advance(passed)
      for (let more = true; more;) ({ more } = await world.call('system', 'kernel/reply.forget'))
      assert.deepEqual(await createTask(world, 'k1'), answer)
    }
    assert.equal(await countIn(world.store, CREATED), 1)
  })

  test('is forgotten after its lifetime, and the key can be used again', async () => {
    const world = await createWorld()
    const { task } = await createTask(world, 'k1')
    await createTask(world, 'k2')
    world.advance(limits.replyMs + 60_000)
    await createTask(world, 'k3')
    assert.deepEqual(await world.call('system', 'kernel/reply.forget'), { forgotten: 2, more: false })
    assert.deepEqual(await world.call('system', 'kernel/reply.forget'), { forgotten: 0, more: false })
    assert.notEqual((await createTask(world, 'k1')).task.id, task.id)
    assert.equal(await countIn(world.store, CREATED), 4)
  })

  test('answers eight concurrent copies of a call with one effect', async () => {
    for (const maker of storeMakers()) {
      const world = await createWorld({ store: maker.open() })
      const answers = await Promise.all(Array.from({ length: 8 }, () => createTask(world, 'k1')))
      assert.equal(new Set(answers.map((answer) => JSON.stringify(answer))).size, 1)
      assert.equal(await countIn(world.store, CREATED), 1)
      await world.close()
      maker.dispose()
    }
  })

  test('gives the same answer to a second call that meets what the first one did', async () => {
    const inner = memoryStore()
    let first: Promise<unknown> | null = null
    let looks = 0
    // The second look at the task takes until the first call is answered.
    const store: Store = {
      ...inner,
      peek: () => undefined,
      async read(keys) {
        if (first !== null && keys[0]!.startsWith('collaboration.task/') && ++looks === 2) await first
        return inner.read(keys)
      },
    }
    const world = await createWorld({ store })
    const { task } = await world.call('alice', 'collaboration/task.create', create)
    await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
    const start = (): Promise<unknown> => world.call('devin', 'collaboration/task.start', { task_id: task.id }, { key: 'k3' })
    first = start()
    assert.deepEqual(await start(), await first)
    assert.equal(looks >= 2, true)
    assert.equal(await countIn(world.store, 'collaboration/task.started'), 1)
  })

  test('with another body or another operation is a CONFLICT and changes nothing', async () => {
    const world = await createWorld()
    const { task } = await createTask(world, 'k1')
    const before = await stateHash(world.store)
    await assert.rejects(createTask(world, 'k1', 'alice', { spec: { goal: 'Something else' } }), {
      code: 'CONFLICT',
      details: { reason: 'idempotency_key_reused' },
    })
    await assert.rejects(world.call('alice', 'collaboration/task.cancel', { task_id: task.id }, { key: 'k1' }), { code: 'CONFLICT' })
    assert.equal(await stateHash(world.store), before)
    await assert.rejects(createTask(world, 'k1', 'alice', { ...create, unknown_field: 'is refused before it is compared' }), {
      code: 'INVALID_REQUEST',
      details: { field: 'unknown_field' },
    })
  })

  test('belongs to its caller', async () => {
    const world = await createWorld()
    const answers = await Promise.all(['alice', 'bob'].map((as) => createTask(world, 'k1', as)))
    assert.notEqual(answers[0].task.id, answers[1].task.id)
  })

  test('is not used up by a refusal', async () => {
    const world = await createWorld()
    await assert.rejects(createTask(world, 'k1', 'alice', { spec: { goal: 'x' }, reviewers: ['user_nobody'] }), { code: 'NOT_FOUND' })
    assert.equal((await createTask(world, 'k1')).task.state, 'created')
  })

  test('never keeps a secret: the repeated answer has null in its place, and the store nothing of it', async () => {
    const world = await createWorld()
    const input = { subject: 'agent_devin', label: 'laptop' }
    const { key, issued } = await world.call('admin', 'identity/key.issue', input, { key: 'k1' })
    assert.match(key, /^cs_[0-9A-Z]{26}_[A-Za-z0-9_-]{43}$/)
    assert.deepEqual(await world.call('admin', 'identity/key.issue', input, { key: 'k1' }), { key: null, issued })
    const secret = key.slice(key.lastIndexOf('_', key.length - 43) + 1)
    const keys = await world.store.keys('', '\u{10FFFF}', 1_000)
    const stored = JSON.stringify([
      await world.store.read(keys),
      await world.store.facts({ by: 'position' }, { after: null, limit: 1_000 }),
    ])
    assert.equal(stored.includes(secret), false)
    assert.equal((await authenticate(world.store, { kind: 'bearer', token: key }, world.kernel.now())).id, 'agent_devin')
  })
})

const Counter = doc('kerneltest.counter', t.Object({ id: t.String(), n: t.Integer() }), { scopeOf: () => 'project_a' })
const events = { 'counter.bumped': Counter }
const fact = factOf(events)
const bump = command({
  name: 'counter.bump',
  summary: 'Count up each of these, in this order.',
  draft: 'ours: a toy',
  input: t.Object({ ids: t.Array(t.String()) }),
  output: t.Object({ total: t.Integer() }),
  callers: [anyone],
  requires: [],
  audit: 'counter.bumped',
  async load(read, { ids }) {
    const found = []
    for (const id of ids) found.push({ id, n: (await read.maybe(Counter, id))?.n ?? 0 })
    return { found }
  },
  decide({ found }) {
    const [first, ...rest] = found.map(({ id, n }) => image(Counter, { id, n: n + 1 }))
    return { facts: [fact('counter.bumped', [first!, ...rest])], output: { total: found.reduce((sum, { n }) => sum + n + 1, 0) } }
  },
  example: { given: 'empty', as: 'alice', input: { ids: ['a'] } },
})
const counters: Protocol = { name: 'toy', title: 'Counters', version: '1', operations: [bump], events, codes: {}, scenes: { empty: [] } }
const alice: Actor = { id: 'user_alice', kind: 'human', projects: new Map([['project_a', 'member']]) }

function counting(store: Store): Kernel {
  let now = Date.UTC(2026, 0, 1)
  return createKernel({
    store,
    protocols: [counters],
    contracts: [],
    directory: () => Promise.resolve(null),
    now: () => ++now,
    entropy: seededEntropy(),
    asksPerMinute: null,
  })
}

for (const maker of storeMakers()) {
  describe(`callers who want the same document on ${maker.name}`, () => {
    after(() => maker.dispose())

    test('64 concurrent calls all succeed, and every one of them counts', async () => {
      const kernel = counting(maker.open())
      const answers = await Promise.all(Array.from({ length: 64 }, () => kernel.call('toy/counter.bump', { ids: ['a'] }, alice)))
      assert.deepEqual(
        answers.map(({ total }) => total).toSorted((a, b) => a - b),
        Array.from({ length: 64 }, (_, i) => i + 1),
      )
      assert.equal((await actionsIn(kernel.store)).length, 64)
      assert.ok(kernel.stats().conflicts > 0, 'they did meet')
      await kernel.store.close()
    })

    test('64 who want two of them in opposite orders all succeed, without a deadlock', async () => {
      const kernel = counting(maker.open())
      await Promise.all(
        Array.from({ length: 64 }, (_, i) => kernel.call('toy/counter.bump', { ids: i % 2 === 0 ? ['a', 'b'] : ['b', 'a'] }, alice)),
      )
      const { total } = await kernel.call('toy/counter.bump', { ids: ['a', 'b'] }, alice)
      assert.equal(total, 2 * 65)
      await kernel.store.close()
    })

    test('64 who want three of four in every order all succeed', async () => {
      const kernel = counting(maker.open())
      const names = ['a', 'b', 'c', 'd']
      await Promise.all(
        Array.from({ length: 64 }, (_, i) =>
          kernel.call('toy/counter.bump', { ids: [0, 1, 2].map((k) => names[(i * (1 + (i % 3)) + k) % 4]!) }, alice),
        ),
      )
      assert.equal((await actionsIn(kernel.store)).length, 64)
      await kernel.store.close()
    })
  })
}

describe('a refusal', () => {
  test('for want of authority is written down, within bounds, and changes no document', async () => {
    const world = await createWorld()
    const { task } = await world.call('alice', 'collaboration/task.create', create)
    const before = await stateHash(world.store)
    const tries = limits.denialsPerMinute + 20
    for (let i = 0; i < tries; i++) {
      await assert.rejects(world.call('bob', 'collaboration/task.cancel', { task_id: task.id }), { code: 'NOT_FOUND' })
    }
    assert.equal(await countIn(world.store, 'kernel/authorization.denied'), limits.denialsPerMinute)
    assert.equal(world.kernel.stats().denials, tries)
    assert.equal(await stateHash(world.store), before)
    world.advance(60_000)
    await assert.rejects(world.call('bob', 'collaboration/task.cancel', { task_id: task.id }), { code: 'NOT_FOUND' })
    assert.equal(await countIn(world.store, 'kernel/authorization.denied'), limits.denialsPerMinute + 1)
  })

  test('does not wait until it is written down: what is hidden answers as soon as what is not there', async () => {
    let open = (): void => undefined
    const gate = new Promise<void>((done) => (open = done))
    let isShut = false
    const store = memoryStore({ onWrite: async (_, apply) => (isShut ? gate : Promise.resolve()).then(apply) })
    const world = await createWorld({ store })
    const { task } = await world.call('alice', 'collaboration/task.create', create)
    isShut = true
    for (const task_id of [task.id, 'task_none', task.id]) {
      const refused = world.call('bob', 'collaboration/task.cancel', { task_id }).then(
        () => 'done',
        (error: Refusal) => error.code,
      )
      assert.equal(await Promise.race([refused, turns(20)]), 'NOT_FOUND')
    }
    open()
    await settled()
    assert.equal(await countIn(store, 'kernel/authorization.denied'), 2)
  })

  test('that was answered is in the record when the store is closed', async () => {
    const disk = memoryDisk()
    const world = await createWorld({ store: memoryStore({ disk }) })
    const { task } = await world.call('alice', 'collaboration/task.create', create)
    for (const as of ['bob', 'devin', 'mallory'])
      await assert.rejects(world.call(as, 'collaboration/task.get', { task_id: task.id }), { code: 'NOT_FOUND' })
    await world.close()
    assert.equal(disk.facts.filter(({ line }) => line.includes('kernel/authorization.denied')).length, 3)
  })

  test('of a body that names another sender says so', async () => {
    const world = await createWorld()
    for (const lie of [{ principal: 'user_bob' }, { actor: 'user_bob' }, { by: 'agent_devin' }, { ownership: { principal: 'user_bob' } }]) {
      await assert.rejects(world.call('alice', 'collaboration/task.create', { ...create, ...lie }), { code: 'UNAUTHORIZED' })
    }
    const { task } = await world.call('alice', 'collaboration/task.create', { ...create, principal: 'user_alice', actor: 'user_alice' })
    assert.equal(task.ownership.principal, 'user_alice')
  })

  test('of an unknown operation is NOT_FOUND', async () => {
    const world = await createWorld()
    for (const name of ['', 'task.create', 'collaboration/task.none', 'collaboration/__proto__', 'constructor']) {
      await assert.rejects(world.call('alice', name), (error: Refusal) => error instanceof Refusal && error.code === 'NOT_FOUND')
    }
  })
})

test('a credential that was revoked between the look and the commit does not win', async () => {
  const world = await createWorld()
  const { key, issued } = await world.call('admin', 'identity/key.issue', { subject: 'user_alice' })
  const look = () => authenticate(world.store, { kind: 'bearer', token: key }, world.kernel.now())
  const actor = await look()
  let asked = 0
  const caller = (): Promise<Actor> => (asked++ === 0 ? Promise.resolve(actor) : look())
  await world.call('admin', 'identity/key.revoke', { key_id: issued.id })
  await assert.rejects(world.kernel.call('collaboration/task.create', create, caller), { code: 'UNAUTHENTICATED' })
  assert.equal(await countIn(world.store, 'collaboration/task.created'), 0)
})
