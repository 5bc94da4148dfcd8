// Many answers in one call: each is independent, and answers exactly the shown version.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { memoryStore } from '#stores/memory.ts'
import { allOf, ask, item } from '../../../support/over-sockets/asking.ts'
import { liveWorld } from '../../../support/over-sockets/live.ts'
import { createWorld, settled, storeMakers } from '../../../support/in-process/world.ts'

const RESOLVE = 'execution/inbox.resolve'
type Shown = { request_id: string; digest: string }
const approved = ({ request_id, digest }: Shown): object => ({ request_id, digest, result: 'approved' })

for (const maker of storeMakers()) {
  describe(`many answers on ${maker.name}`, () => {
    after(() => maker.dispose())

    test('each is answered alone: what is decided, foreign, gone or unfit is said so and holds nothing up', async () => {
      const world = await createWorld({ store: maker.open() })
      for (const title of ['one', 'decided', 'changed', 'unfit', 'two']) await ask(world, 'devin', item(title))
      const [one, decided, changed, unfit, two] = (await allOf(world, 'alice')) as [Shown, Shown, Shown, Shown, Shown]
      const foreign = await ask(world, 'spy', item('foreign'))
      await world.call('alice', 'execution/request.resolve', { request_id: decided.request_id, result: 'rejected' })
      const { results } = await world.call('alice', RESOLVE, {
        answers: [
          approved(one),
          approved(decided),
          { ...approved(changed), digest: 'of something else' },
          approved({ request_id: foreign.id, digest: one.digest }),
          approved({ request_id: 'hxp_none', digest: one.digest }),
          { ...approved(unfit), result: 'perhaps' },
          { ...approved(two), result: 'rejected', reason: 'No.' },
          approved(one),
        ],
      })
      assert.deepEqual(
        results.map(({ request_id, ok, code }: { request_id: string; ok: boolean; code?: string }) => [request_id, ok, code]),
        [
          [one.request_id, true, undefined],
          [decided.request_id, false, 'ALREADY_RESOLVED'],
          [changed.request_id, false, 'CHANGED'],
          [foreign.id, false, 'NOT_FOUND'],
          ['hxp_none', false, 'NOT_FOUND'],
          [unfit.request_id, false, 'INVALID_RESULT'],
          [two.request_id, true, undefined],
          [one.request_id, false, 'ALREADY_RESOLVED'],
        ],
      )
      assert.equal(results[6].receipt.reason, 'No.')
      assert.match(results[0].receipt.signature, /^[\w-]+\.[\w-]+\.[\w-]+$/)
      assert.equal((await world.call('alice', 'execution/inbox.count')).open, 2)
      await settled()
      const facts = await world.store.facts({ by: 'position' }, { after: null, limit: 1_000 })
      const denials = facts.filter(({ line }) => line.includes('authorization.denied'))
      assert.equal(denials.length, 1, 'the reach for what is somebody else’s is written down')
      await world.close()
    })

    test('with a key a repeated call has one effect and the same receipts', async () => {
      const world = await createWorld({ store: maker.open() })
      for (const title of ['one', 'two']) await ask(world, 'devin', item(title))
      const answers = (await allOf(world, 'alice')).map(approved)
      const first = await world.call('alice', RESOLVE, { answers }, { key: 'k' })
      const facts = await world.store.head('project_default')
      assert.deepEqual(await world.call('alice', RESOLVE, { answers }, { key: 'k' }), first)
      assert.deepEqual(await world.store.head('project_default'), facts)
      assert.ok(first.results.every(({ ok }: { ok: boolean }) => ok))
      await ask(world, 'devin', item('three'))
      const [third] = (await allOf(world, 'alice')).map(approved)
      const before = await world.store.head('project_default')
      for (const others of [[answers[0], { ...answers[1], result: 'rejected' }], [...answers, third], [third]])
        await assert.rejects(world.call('alice', RESOLVE, { answers: others }, { key: 'k' }), {
          code: 'CONFLICT',
          details: { reason: 'idempotency_key_reused' },
        })
      assert.deepEqual(await world.store.head('project_default'), before, 'nothing of them was done')
      assert.equal((await world.call('bob', RESOLVE, { answers: [third] }, { key: 'k' })).results[0].ok, false, 'a key is its caller’s')
      await world.close()
    })
  })
}

test('items of several projects are answered in one call, each in the chain of its own', async () => {
  const world = await createWorld()
  Object.assign(world.cast, {
    both: {
      ...world.cast['mallory'],
      actsFor: new Set(['user_alice']),
      projects: new Map([
        ['project_other', 'owner'],
        ['project_default', 'member'],
      ]),
    },
  })
  await ask(world, 'devin')
  await ask(world, 'spy')
  const { results } = await world.call('both', RESOLVE, { answers: (await allOf(world, 'both')).map(approved) })
  assert.deepEqual(
    results.map(({ ok }: { ok: boolean }) => ok),
    [true, true],
  )
  for (const scope of ['project_default', 'project_other']) assert.equal((await world.store.head(scope)).seq, 2)
  await world.close()
})

test('two people answer one item concurrently: one is first, the other sees it decided', async () => {
  const world = await createWorld()
  for (let i = 0; i < 20; i++) await ask(world, 'devin', item(`${i}`))
  const answers = (await allOf(world, 'alice')).map(approved)
  const both = await Promise.all([
    world.call('alice', RESOLVE, { answers }),
    world.call('deputy', RESOLVE, { answers: answers.toReversed() }),
  ])
  const results = both.flatMap(({ results: some }) => some as { ok: boolean; code?: string }[])
  assert.equal(results.filter(({ ok }) => ok).length, 20)
  assert.equal(results.filter(({ code }) => code === 'ALREADY_RESOLVED').length, 20)
  await world.close()
})

test('it takes between one and so many answers, each with a digest, from people only', async () => {
  const world = await createWorld()
  await ask(world, 'devin')
  const [shown] = await allOf(world, 'alice')
  const { digest: _, ...blind } = approved(shown) as Shown
  for (const answers of [[], [blind], Array.from({ length: limits.answersMax + 1 }, () => approved(shown)), null, 'all'])
    await assert.rejects(world.call('alice', RESOLVE, { answers }), { code: 'INVALID_REQUEST' })
  for (const who of ['devin', 'project', 'admin', 'system'])
    await assert.rejects(world.call(who, RESOLVE, { answers: [approved(shown)] }), { code: 'UNAUTHORIZED' }, who)
  assert.equal((await world.call('alice', 'execution/inbox.count')).open, 1)
  await world.close()
})

test('an answer that may have been taken is said to be one, and the others are not', async () => {
  let isLost = false
  const store = memoryStore({
    onWrite(_, apply) {
      apply()
      if (!isLost) return
      isLost = false
      throw Object.assign(new Error('the connection was lost'), { failure: 'unknown' })
    },
  })
  const world = await createWorld({ store })
  for (const title of ['one', 'two']) await ask(world, 'devin', item(title))
  const answers = (await allOf(world, 'alice')).map(approved)
  isLost = true
  const { results } = await world.call('alice', RESOLVE, { answers })
  assert.deepEqual(
    results.map(({ ok, code, outcome }: { ok: boolean; code?: string; outcome?: string }) => [ok, code, outcome]),
    [
      [false, 'UNAVAILABLE', 'unknown'],
      [true, undefined, undefined],
    ],
  )
  await world.close()
})

test('it works over HTTP like every other operation', async (t) => {
  const world = await liveWorld(t)
  await ask(world, 'devin')
  const { key } = await world.keyOf('alice')
  const answered = await fetch(`http://127.0.0.1:${world.port}/v1/${RESOLVE}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ answers: (await allOf(world, 'alice')).map(approved) }),
  })
  assert.equal(answered.status, 200)
  const { results } = (await answered.json()) as { results: { ok: boolean }[] }
  assert.deepEqual(
    results.map(({ ok }) => ok),
    [true],
  )
})
