// Pools (HXP 0.1, 6.1; X10, X21): the first person of the project who claims an item holds it for a time.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { inboxesOf } from '#protocols/execution/schema.ts'
import { APPROVE, claimsIn, DECIDE, requests } from '../../../support/in-process/requests.ts'
import { raced } from '../../../support/in-process/stage.ts'

const pooled = { ...DECIDE, role: 'pool' }
const of = (id: string): { request_id: string } => ({ request_id: id })
const small = (id: string): object => ({ request_id: id, result: 'Small' })

describe('an item in a pool', () => {
  test('is shown to everyone of the project until a person claims it, and then to that person alone', async () => {
    const { ask, call, refused, stored, facts } = await requests()
    const { id, status, assigned_to } = await ask(pooled)
    assert.deepEqual({ status, assigned_to }, { status: 'pending', assigned_to: null })
    assert.deepEqual(inboxesOf(await stored(id)), ['pool/project_default'])
    for (const who of ['alice', 'rita', 'bob']) assert.equal((await call(who, 'request.get', of(id))).request.id, id)
    for (const who of ['mallory', 'spy', 'robin']) await refused('NOT_FOUND', who, 'request.get', of(id))

    const { request } = await call('bob', 'request.claim', { ...of(id), lease_seconds: 60 })
    assert.deepEqual([request.status, request.assigned_to, request.people], ['assigned', 'user_bob', ['user_bob']])
    assert.equal(Date.parse(request.claimed_until) - Date.parse(request.assigned_at), 60_000)
    assert.deepEqual(inboxesOf(await stored(id)), ['user_bob'])
    await refused('NOT_FOUND', 'rita', 'request.get', of(id))
    assert.deepEqual(
      (await facts(id)).map(({ action, actor }) => [action, actor]),
      [
        ['request.created', 'agent_devin'],
        ['request.claimed', 'user_bob'],
      ],
    )
  })

  test('is claimed for people of the project only, and only what is in a pool', async () => {
    const { ask, refused } = await requests()
    const { id } = await ask(pooled)
    for (const who of ['mallory', 'spy', 'robin']) await refused('NOT_FOUND', who, 'request.claim', of(id))
    for (const who of ['devin', 'admin', 'project', 'system']) await refused('UNAUTHORIZED', who, 'request.claim', of(id))
    const mine = await ask(DECIDE)
    await refused('PRECONDITION_FAILED', 'alice', 'request.claim', of(mine.id))
    await refused('NOT_FOUND', 'bob', 'request.claim', of(mine.id))
    for (const lease_seconds of [0, -1, 1.5, limits.claimSecondsMax + 1])
      await refused('INVALID_REQUEST', 'bob', 'request.claim', { ...of(id), lease_seconds })
  })

  test('belongs to the first claimer, and refuses a second claim or answer', async () => {
    const { ask, call, refused } = await requests()
    const { id } = await ask(pooled)
    await call('bob', 'request.claim', of(id))
    for (const who of ['rita', 'alice', 'owner']) await refused('ALREADY_CLAIMED', who, 'request.claim', of(id))
    await refused('ALREADY_CLAIMED', 'rita', 'request.resolve', small(id))
    await call('bob', 'request.resolve', small(id))
    await refused('ALREADY_RESOLVED', 'rita', 'request.resolve', small(id))
    await refused('ALREADY_RESOLVED', 'rita', 'request.claim', of(id))
    await refused('ALREADY_RESOLVED', 'bob', 'request.claim', of(id))
    for (const who of ['mallory', 'robin']) await refused('NOT_FOUND', who, 'request.resolve', small(id))
  })

  test('can be answered by the agent’s owner while another person has it', async () => {
    const { ask, call } = await requests()
    const { id } = await ask(pooled)
    await call('bob', 'request.claim', of(id))
    assert.equal((await call('alice', 'request.resolve', small(id))).request.status, 'completed')
  })

  test('is claimed by a direct answer', async () => {
    const { ask, call, stored } = await requests()
    const { id } = await ask(pooled)
    const { receipt } = await call('rita', 'request.resolve', small(id))
    const { people, assigned_to, assigned_at } = await stored(id)
    assert.deepEqual(
      { people, assigned_to, assigned_at },
      { people: ['user_rita'], assigned_to: 'user_rita', assigned_at: receipt.completed_at },
    )
    assert.equal(receipt.duration_seconds, 0)
  })

  test('has taken as long as from its claim to its answer', async () => {
    const { on, ask, call } = await requests()
    const { id } = await ask(pooled)
    on.world.advance(100_000)
    await call('bob', 'request.claim', of(id))
    on.world.advance(7_000)
    await call('bob', 'request.claim', of(id))
    on.world.advance(5_000)
    assert.equal((await call('bob', 'request.resolve', small(id))).receipt.duration_seconds, 12)
  })

  test('never tells the agent who took it, asked about it or answered it', async () => {
    const { ask, call } = await requests()
    const { id } = await ask(pooled)
    await call('bob', 'request.claim', of(id))
    await call('bob', 'request.question', { ...of(id), text: 'Why?' })
    const views = [
      await call('devin', 'request.get', of(id)),
      await call('project', 'request.get', of(id)),
      await call('devin', 'request.list'),
    ]
    views.push(
      await call('devin', 'request.reply', { ...of(id), text: 'So.' }),
      await call('devin', 'request.extend', { ...of(id), timeout_seconds: 9 }).catch(() => ({})),
    )
    const { receipt } = await call('bob', 'request.resolve', small(id))
    const shown = await call('devin', 'request.get', of(id))
    assert.doesNotMatch(JSON.stringify([...views, shown, receipt, claimsIn(shown.receipt)]), /user_bob/)
    assert.equal(shown.receipt.completed_by, receipt.completed_by)
    assert.match(receipt.completed_by, /^person_/)
    const second = await ask(pooled)
    assert.equal(
      (await call('bob', 'request.resolve', small(second.id))).receipt.completed_by,
      receipt.completed_by,
      'it is always the same',
    )
  })

  test('never names anybody by the name under which other receipts know them', async () => {
    const { ask, call } = await requests()
    const routed = await ask(DECIDE)
    const [known, pool] = [routed.id, (await ask(pooled)).id]
    const named = claimsIn((await call('alice', 'request.resolve', small(known))).receipt)
    const nameless = claimsIn((await call('alice', 'request.resolve', small(pool))).receipt)
    assert.equal(named.completed_by, 'user_alice')
    assert.equal(nameless.decided_by.sub, nameless.completed_by)
    assert.notEqual(nameless.decided_by.sub, named.decided_by.sub, 'whoever has both would know who answers in the pool')
  })

  test('is never what is bound to a task', async () => {
    const { ask, stored, call, refused, on } = await requests(collaboration.scenes['in_progress'])
    const { id } = await ask({ ...APPROVE, role: 'pool', metadata: { task_id: on.refs['task'].id } })
    assert.deepEqual(inboxesOf(await stored(id)), ['user_alice', 'user_rita'])
    await refused('NOT_FOUND', 'bob', 'request.claim', of(id))
    await refused('PRECONDITION_FAILED', 'alice', 'request.claim', of(id))
    assert.equal((await call('rita', 'request.get', of(id))).request.status, 'pending')
  })
})

describe('a claim', () => {
  test('goes back by hand', async () => {
    const { ask, call, refused, stored } = await requests()
    const { id } = await ask(pooled)
    await refused('PRECONDITION_FAILED', 'alice', 'request.release', of(id))
    await call('bob', 'request.claim', of(id))
    await refused('NOT_FOUND', 'rita', 'request.release', of(id))
    await refused('UNAUTHORIZED', 'devin', 'request.release', of(id))
    await call('bob', 'request.release', of(id))
    const { status, assigned_to, assigned_at, people, claimed_until } = await stored(id)
    assert.deepEqual({ status, assigned_to, assigned_at, people }, { status: 'pending', assigned_to: null, assigned_at: null, people: [] })
    assert.equal(claimed_until, undefined)
    await call('rita', 'request.claim', of(id))
  })

  test('ends by itself when its time is over, not before, and leaves no timer behind', async () => {
    const { ask, call, pass, stored, waiting, refused, facts } = await requests()
    const { id } = await ask(pooled)
    await call('bob', 'request.claim', { ...of(id), lease_seconds: 60 })
    await refused('PRECONDITION_FAILED', 'system', 'request.unclaim', of(id))
    assert.deepEqual(await pass(59), [])
    assert.deepEqual(await pass(2), ['request.released'])
    assert.equal((await stored(id)).status, 'pending')
    assert.deepEqual(await waiting(id), {})
    const last = (await facts(id)).at(-1)
    assert.deepEqual([last.actor, last.basis.kind, last.detail], ['agent_system', 'timer', { from: 'user_bob', why: 'lease_over' }])
    for (const who of ['bob', 'alice', 'owner', 'devin', 'admin']) await refused('UNAUTHORIZED', who, 'request.unclaim', of(id))
  })

  test('ends after a restart too', async () => {
    const first = await requests()
    const { id } = await first.ask(pooled)
    await first.call('bob', 'request.claim', { ...of(id), lease_seconds: 60 })
    const { pass, stored } = await first.restarted()
    assert.deepEqual(await pass(30), [])
    assert.deepEqual(await pass(31), ['request.released'])
    assert.equal((await stored(id)).assigned_to, null)
  })

  test('is made longer by who has it', async () => {
    const { ask, call, pass, stored } = await requests()
    const { id } = await ask(pooled)
    await call('bob', 'request.claim', { ...of(id), lease_seconds: 60 })
    await pass(50)
    await call('bob', 'request.claim', { ...of(id), lease_seconds: 60 })
    assert.deepEqual(await pass(30), [])
    assert.equal((await stored(id)).assigned_to, 'user_bob')
    assert.deepEqual(await pass(31), ['request.released'])
  })

  test('leaves no timer when it is answered, given back or withdrawn', async () => {
    const { ask, call, waiting } = await requests()
    for (const [who, end, input] of [
      ['bob', 'request.resolve', { result: 'Small' }],
      ['bob', 'request.release', {}],
      ['devin', 'request.cancel', {}],
    ] as const) {
      const { id } = await ask(pooled)
      await call('bob', 'request.claim', of(id))
      assert.deepEqual(Object.keys(await waiting(id)), ['unclaim'])
      await call(who, end, { ...of(id), ...input })
      assert.deepEqual(await waiting(id), {}, end)
    }
  })
})

describe('at the same time', () => {
  test('one of many claims wins, and the others learn that', async () => {
    const { ask, call, stored } = await requests()
    for (let i = 0; i < 10; i++) {
      const { id } = await ask(pooled)
      const message = await raced(
        ['alice', 'rita', 'bob', 'owner'].map((who) => call(who, 'request.claim', of(id))),
        () => 'claimed',
      )
      assert.deepEqual(message, ['ALREADY_CLAIMED', 'ALREADY_CLAIMED', 'ALREADY_CLAIMED', 'claimed'])
      assert.equal((await stored(id)).people.length, 1)
    }
  })

  test('one of many answers wins, and the others learn that it is decided', async () => {
    const { ask, call, facts } = await requests()
    for (let i = 0; i < 10; i++) {
      const { id } = await ask(pooled)
      const outcomes = await raced(
        ['alice', 'rita', 'bob'].map((who) => call(who, 'request.resolve', small(id))),
        () => 'resolved',
      )
      assert.deepEqual(outcomes, ['ALREADY_RESOLVED', 'ALREADY_RESOLVED', 'resolved'])
      assert.equal((await facts(id)).length, 2)
    }
  })

  test('of a claim and an answer the first wins, and never both of two people', async () => {
    const { ask, call, stored } = await requests()
    for (let i = 0; i < 10; i++) {
      const { id } = await ask(pooled)
      const calls = [call('rita', 'request.claim', of(id)), call('bob', 'request.resolve', small(id))]
      const outcomes = await raced(i % 2 ? calls : calls.toReversed(), ({ receipt }) => (receipt ? 'resolved' : 'claimed'))
      const { status, people } = await stored(id)
      assert.ok(['ALREADY_CLAIMED,claimed', 'ALREADY_RESOLVED,resolved'].includes(outcomes.join()), outcomes.join())
      assert.deepEqual([status, people], outcomes[1] === 'claimed' ? ['assigned', ['user_rita']] : ['completed', ['user_bob']])
    }
  })

  test('of an answer and the end of a claim both may happen, in one order or the other', async () => {
    const { on, ask, call, stored } = await requests()
    for (let i = 0; i < 10; i++) {
      const { id } = await ask(pooled)
      await call('bob', 'request.claim', { ...of(id), lease_seconds: 1 })
      on.world.advance(2_000)
      const calls = [call('system', 'request.unclaim', of(id)), call('bob', 'request.resolve', small(id))]
      const message = await raced(i % 2 ? calls : calls.toReversed(), ({ receipt }) => (receipt ? 'resolved' : 'unclaimed'))
      assert.ok(['PRECONDITION_FAILED,resolved', 'resolved,unclaimed'].includes(message.join()), message.join())
      assert.equal((await stored(id)).status, 'completed')
    }
  })
})
