// N of M (issue: distinct people, the requester excluded): one vote each, until the question is decided or cannot be decided.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { limits } from '#kernel/limits.ts'
import { APPROVE, claimsIn, DECIDE, person, requests, type Asked } from '../../../support/in-process/requests.ts'
import { raced } from '../../../support/in-process/stage.ts'

const of = (id: string): { request_id: string } => ({ request_id: id })
const people = ['user_alice', 'user_bob', 'user_rita']
const quorum = (n: number, who: readonly string[] = people): object => ({ quorum: { n, of: who } })
const vote = ({ call }: Asked, who: string, id: string, result: string, reason?: string): Promise<any> =>
  call(who, 'request.resolve', { ...of(id), result, ...(reason === undefined ? {} : { reason }) })

describe('a quorum', () => {
  test('approves with its last approval, and the receipt says how each person voted, without names', async () => {
    const on = await requests()
    const { id } = await on.ask({ ...APPROVE, ...quorum(2) })
    const first = await vote(on, 'alice', id, 'approved')
    assert.deepEqual([first.request.status, first.receipt], ['pending', undefined])
    assert.equal((await on.call('devin', 'request.get', of(id))).request.voted, 1)
    await vote(on, 'bob', id, 'rejected', 'Too late today.')
    const { request, receipt } = await vote(on, 'rita', id, 'approved')
    assert.deepEqual([request.status, receipt.result, receipt.reason], ['completed', 'approved', undefined])
    const claims = claimsIn(receipt)
    // The name of the last one would tell who is behind one of the pseudonyms.
    assert.deepEqual([receipt.completed_by, claims.completed_by], [claims.decided_by.sub, claims.decided_by.sub])
    assert.doesNotMatch(JSON.stringify(claims), /user_/)
    assert.deepEqual(claims.quorum, { n: 2, of: 3 })
    assert.deepEqual(
      claims.votes.map(({ result }: any) => result),
      ['approved', 'rejected', 'approved'],
    )
    assert.equal(new Set(claims.votes.map(({ sub }: any) => sub)).size, 3)
    assert.equal(claims.votes[2].sub, claims.decided_by.sub)
    assert.doesNotMatch(JSON.stringify(claims.votes), /user_/)
    const { id: other } = await on.ask(DECIDE)
    const named = claimsIn((await on.call('alice', 'request.resolve', { ...of(other), result: 'Small' })).receipt)
    assert.ok(
      claims.votes.every(({ sub }: any) => sub !== named.decided_by.sub),
      'a receipt with a name tells nothing about votes',
    )
    assert.deepEqual(
      (await on.facts(id)).map(({ action, actor }) => [action, actor]),
      [
        ['request.created', 'agent_devin'],
        ['request.voted', 'user_alice'],
        ['request.voted', 'user_bob'],
        ['request.completed', 'user_rita'],
      ],
    )
  })

  test('rejects as soon as it cannot approve any more, with the reasons of all who were against', async () => {
    const on = await requests()
    const { id } = await on.ask({ ...APPROVE, ...quorum(2) })
    await vote(on, 'alice', id, 'rejected', 'Too late today.')
    const { receipt } = await vote(on, 'bob', id, 'rejected', 'No tests.')
    assert.deepEqual([receipt.status, receipt.result, receipt.reason], ['completed', 'rejected', 'Too late today.\nNo tests.'])
    await on.refused('ALREADY_RESOLVED', 'rita', 'request.resolve', { ...of(id), result: 'approved' })
  })

  test('keeps the reasons of many within the bound of one', async () => {
    const on = await requests()
    const { id } = await on.ask({ ...APPROVE, ...quorum(2) })
    await vote(on, 'alice', id, 'rejected', `${'x'.repeat(limits.reasonCharsMax - 3)}`)
    const { receipt } = await vote(on, 'bob', id, 'rejected', '🙂🙂')
    assert.ok(receipt.reason.length <= limits.reasonCharsMax && receipt.reason.endsWith('…') && receipt.reason.isWellFormed())
  })

  test('decides for what enough of them chose, and fails when nothing can get there any more', async () => {
    const on = await requests()
    const won = await on.ask({ ...DECIDE, ...quorum(2) })
    for (const [who, result] of [
      ['alice', 'Small'],
      ['bob', 'Large'],
    ] as const)
      await vote(on, who, won.id, result)
    assert.deepEqual((await vote(on, 'rita', won.id, 'Large')).receipt.result, 'Large')

    const lost = await on.ask({ ...DECIDE, ...quorum(3) })
    await vote(on, 'alice', lost.id, 'Small')
    const { request, receipt } = await vote(on, 'bob', lost.id, 'Large')
    assert.deepEqual([request.status, receipt.reason, receipt.result, receipt.completed_by], ['failed', 'no_quorum', null, 'system:quorum'])
    assert.equal((await on.facts(lost.id)).at(-1).action, 'request.failed')
    await on.refused('ALREADY_RESOLVED', 'rita', 'request.resolve', { ...of(lost.id), result: 'Small' })
  })

  test('is decided by those who are named, and by nobody else, not even the agent’s owner', async () => {
    const on = await requests()
    const { id } = await on.ask({ ...APPROVE, ...quorum(1, ['user_bob', 'user_rita']) })
    for (const who of ['alice', 'owner', 'devin', 'project', 'admin'])
      await on.refused('UNAUTHORIZED', who, 'request.resolve', { ...of(id), result: 'approved' })
    for (const who of ['mallory', 'robin']) await on.refused('NOT_FOUND', who, 'request.resolve', { ...of(id), result: 'approved' })
    for (const operation of ['request.assign', 'request.escalate'])
      await on.refused('PRECONDITION_FAILED', 'bob', operation, {
        ...of(id),
        to: operation === 'request.assign' ? 'user_alice' : ['user_alice'],
      })
    await vote(on, 'bob', id, 'approved')
  })

  test('answers a vote that is repeated under its key in the same words, also when it is decided since', async () => {
    const on = await requests()
    const { id } = await on.ask({ ...APPROVE, ...quorum(2) })
    const call = (): Promise<any> => on.on.call('alice', 'execution/request.resolve', { ...of(id), result: 'approved' }, 'one')
    const first = await call()
    await vote(on, 'bob', id, 'approved')
    assert.deepEqual(await call(), first)
    assert.equal((await on.call('alice', 'request.get', of(id))).receipt.result, 'approved')
  })

  test('takes one vote per person, also of a substitute', async () => {
    const on = await requests()
    const again = (who: Parameters<Asked['call']>[0], id: string): Promise<unknown> =>
      assert.rejects(on.call(who, 'request.resolve', { ...of(id), result: 'approved' }), { code: 'ALREADY_VOTED' })
    // Bob has a vote of his own, so he gives that one, and never a second.
    const both = (await on.ask({ ...APPROVE, ...quorum(2) })).id
    await vote(on, 'deputy', both, 'approved')
    assert.deepEqual(
      (await on.stored(both)).votes?.map(({ by, in_place_of }) => [by, in_place_of]),
      [['user_bob', undefined]],
    )
    await again('deputy', both)
    await again('bob', both)
    await vote(on, 'alice', both, 'approved')

    // Bob has none of his own: he gives Alice's, and then neither of them has one left.
    const one = (await on.ask({ ...APPROVE, ...quorum(2, ['user_alice', 'user_rita']) })).id
    await vote(on, 'deputy', one, 'approved')
    const [given] = (await on.stored(one)).votes!
    assert.deepEqual([given!.by, given!.in_place_of], ['user_bob', 'user_alice'])
    assert.equal((await on.facts(one)).at(-1).behalf, 'user_alice')
    await again('alice', one)
    await again('deputy', one)
    // A substitute of two of them is still one person.
    await again(person('user_bob', ['user_alice', 'user_rita']), one)
    const { receipt } = await vote(on, 'rita', one, 'approved')
    assert.equal(claimsIn(receipt).votes.length, 2)
    assert.notEqual(claimsIn(receipt).votes[0].in_place_of, undefined)

    // Another substitute gives the vote that is left.
    const two = (await on.ask({ ...APPROVE, ...quorum(2, ['user_alice', 'user_rita']) })).id
    await vote(on, 'alice', two, 'approved')
    await on.call(person('user_bob', ['user_alice', 'user_rita']), 'request.resolve', { ...of(two), result: 'approved' })
    assert.equal((await on.stored(two)).status, 'completed')
  })

  test('is refused immediately if it makes no sense', async () => {
    const { call, refused } = await requests()
    await call('system', 'identity/user.add', { id: 'user_off', name: 'Off' })
    await call('system', 'identity/user.update', { user_id: 'user_off', disabled: true })
    for (const odd of [
      quorum(0),
      quorum(4),
      quorum(1, []),
      quorum(1.5),
      quorum(1, ['user_bob', 'user_bob']),
      quorum(1, ['user_bob', 'agent_devin']),
      quorum(1, ['user_bob', 'agent_robin']),
      quorum(1, ['user_bob', 'user_mallory']),
      quorum(1, ['user_bob', 'user_nobody']),
      { ...quorum(2), role: 'pool' },
      { ...quorum(2), escalate: { after_seconds: 60, to: ['user_owner'] } },
      { ...quorum(2), metadata: { task_id: 'task_x' } },
    ])
      await refused('INVALID_REQUEST', 'devin', 'request.create', { ...APPROVE, ...odd })
    const provide = { action: 'PROVIDE', payload: { prompt: 'Name?', input_type: 'text' } }
    await refused('INVALID_REQUEST', 'devin', 'request.create', { ...provide, ...quorum(2) })
    // A person who is switched off does not vote; the others may be enough (X27).
    await refused('NO_RECIPIENT', 'devin', 'request.create', { ...APPROVE, ...quorum(2, ['user_bob', 'user_off']) })
    await call('devin', 'execution/request.create', { ...APPROVE, ...quorum(1, ['user_bob', 'user_off']) })
  })

  test('ends by its deadline like everything else, and votes on what is over are late', async () => {
    const on = await requests()
    const { id } = await on.ask({ ...APPROVE, ...quorum(2), fallback: 'fail', timeout_seconds: 60 })
    await vote(on, 'alice', id, 'approved')
    assert.deepEqual(await on.pass(61), ['request.failed'])
    await on.refused('EXPIRED', 'bob', 'request.resolve', { ...of(id), result: 'approved' })
    assert.equal(claimsIn((await on.call('devin', 'request.get', of(id))).receipt).votes.length, 1)
  })

  test('counts every vote when all come at the same time', async () => {
    for (let i = 0; i < 10; i++) {
      const on = await requests()
      const { id } = await on.ask({ ...APPROVE, ...quorum(3) })
      const message = await raced(
        ['alice', 'bob', 'rita', 'alice', 'bob', 'rita'].map((who) => vote(on, who, id, 'approved')),
        ({ receipt }) => (receipt ? 'decided' : 'voted'),
      )
      assert.deepEqual(
        message.filter((word) => !word.startsWith('ALREADY_')),
        ['decided', 'voted', 'voted'],
      )
      assert.equal((await on.stored(id)).votes?.length, 3)
    }
  })

  test('always ends as a count of the votes says, and never later than it could', async () => {
    const options = DECIDE.payload.options
    const ballots = fc.record({
      n: fc.integer({ min: 1, max: 3 }),
      votes: fc.array(fc.constantFrom(...options), { minLength: 3, maxLength: 3 }),
    })
    await fc.assert(
      fc.asyncProperty(ballots, async ({ n, votes }) => {
        const on = await requests()
        const { id } = await on.ask({ ...DECIDE, ...quorum(n) })
        const cast: string[] = []
        for (const [i, result] of votes.entries()) {
          const most = Math.max(0, ...options.map((option) => cast.filter((one) => one === option).length))
          const isOver = most >= n || most + (3 - cast.length) < n
          assert.equal((await on.stored(id)).receipt !== undefined, isOver)
          if (isOver) break
          await vote(on, ['alice', 'bob', 'rita'][i]!, id, result)
          cast.push(result)
        }
        const { receipt } = await on.stored(id)
        const winner = options.find((option) => cast.filter((one) => one === option).length >= n) ?? null
        assert.deepEqual([receipt?.result, receipt?.status], [winner, winner === null ? 'failed' : 'completed'])
      }),
      { numRuns: 60 },
    )
  })
})
