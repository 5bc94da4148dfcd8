// Rules for approvals: who answers what agents ask from a risk on, how many have to agree, and who must not, at every place where a question is answered.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SYSTEM } from '#kernel/declare/access.ts'
import { duePrefix, dueUntil, idIn, kindOf } from '#kernel/declare/schema.ts'
import { requests, person, APPROVE, DECIDE, type Asked } from '../../../support/in-process/requests.ts'
import { refusalOf } from '../../../support/in-process/stage.ts'

const PROJECT = { project_id: 'project_default' }
const setRules = (it: Asked, approvals: readonly object[], where: object = PROJECT): Promise<any> =>
  it.call('owner', 'policy.set', { ...where, approvals })
const finance = (it: Asked, ...members: string[]): Promise<any> => it.call('owner', 'group.set', { name: 'finance', members })
const R4 = { ...APPROVE, risk: 'R4' }
const byRita = { from_risk: 'R4', by: { people: ['user_rita'] } }
const answer = (it: Asked, as: any, request_id: string, result = 'approved') => it.call(as, 'request.resolve', { request_id, result })

/** Errands, as the worker does them. */
async function settle({ on: { world } }: Asked): Promise<void> {
  for (;;) {
    const due = (await world.store.scan(duePrefix, dueUntil(new Date(world.kernel.now()).toISOString()), 100)).map(idIn)
    if (due.length === 0) return
    for (const key of due) {
      const { call, input } = kindOf(key).due((await world.store.read([key]))[0]!.value)!
      await world.kernel.call(call, input, SYSTEM)
    }
  }
}

describe('a rule for approvals', () => {
  test('asks those whom it names, from its risk on, and lets nobody else answer', async () => {
    const it = await requests()
    await setRules(it, [byRita])
    const [below, from] = [await it.ask({ ...APPROVE, risk: 'R3' }), await it.ask(R4)]
    assert.deepEqual((await it.stored(below.id)).people, ['user_alice'])
    const { people, assigned_to, approval } = await it.stored(from.id)
    assert.deepEqual([people, assigned_to], [['user_rita'], 'user_rita'])
    assert.deepEqual(approval, { rules: [{ ...byRita, set_by: 'project_default' }], n: 1, excluded: [] })
    for (const who of ['alice', 'owner'])
      await it.refused('UNAUTHORIZED', who, 'request.resolve', { request_id: from.id, result: 'approved' })
    for (const operation of ['request.assign', 'request.escalate'])
      await it.refused('UNAUTHORIZED', 'rita', operation, {
        request_id: from.id,
        to: operation === 'request.assign' ? 'user_bob' : ['user_bob'],
      })
    const { receipt } = await answer(it, 'rita', from.id)
    assert.equal(receipt.result, 'approved')
    await answer(it, 'alice', below.id)
  })

  test('holds whatever an agent asks for: a choice, a pool, a delegate, and a risk that a floor raised', async () => {
    const it = await requests()
    await it.call('owner', 'policy.set', { ...PROJECT, approvals: [byRita], floors: [{ tag: 'pay', risk: 'R4' }] })
    for (const more of [
      { ...DECIDE, risk: 'R4' },
      { ...R4, role: 'pool' },
      { ...R4, role: 'delegate' },
      { ...APPROVE, tags: ['pay'] },
    ]) {
      const { id } = await it.ask(more)
      assert.deepEqual((await it.stored(id)).people, ['user_rita'], JSON.stringify(more))
      await it.refused('NOT_FOUND', 'bob', 'request.claim', { request_id: id })
    }
    const { message } = await refusalOf(
      it.ask({ ...DECIDE, risk: 'R4', fallback: 'default', payload: { ...DECIDE.payload, default_option: 'None' } }),
    )
    assert.match(message, /so no timeout does/)
  })

  test('of several in one policy, the one that begins at the greatest risk applies; project and installation hold together', async () => {
    const it = await requests()
    await setRules(it, [{ from_risk: 'R2', by: { people: ['user_rita', 'user_bob'] } }, byRita])
    await setRules(it, [{ from_risk: 'R3', by: { people: ['user_bob', 'user_alice'] } }], { installation: true })
    const askedAt = async (risk: string) => (await it.stored((await it.ask({ ...APPROVE, risk })).id)).people
    assert.deepEqual(await askedAt('R2'), ['user_rita', 'user_bob'])
    assert.deepEqual(await askedAt('R3'), ['user_bob'])
    assert.equal((await refusalOf(it.ask(R4))).code, 'NO_RECIPIENT')
  })

  test('wants a quorum of them, and the first of them decides nothing', async () => {
    const it = await requests()
    await finance(it, 'user_rita', 'user_bob', 'user_owner')
    await setRules(it, [{ from_risk: 'R4', by: { groups: ['finance'] }, quorum: 2 }])
    const { id } = await it.ask(R4)
    assert.deepEqual((await it.stored(id)).quorum, { n: 2, of: ['user_rita', 'user_bob', 'user_owner'] })
    assert.equal((await answer(it, 'rita', id)).request.status, 'pending')
    assert.equal((await refusalOf(answer(it, 'rita', id))).code, 'ALREADY_VOTED')
    assert.equal((await answer(it, 'owner', id)).request.status, 'completed')
    // What cannot be counted is answered by one of them.
    const provide = await it.ask({ action: 'PROVIDE', risk: 'R4', payload: { prompt: 'Which port?', input_type: 'text' } })
    assert.equal((await answer(it, 'bob', provide.id, '8080')).request.status, 'completed')
  })

  test("narrows an agent's own quorum, and never makes it smaller", async () => {
    const it = await requests()
    await setRules(it, [{ from_risk: 'R4', by: { people: ['user_rita', 'user_bob'] }, quorum: 2 }])
    const { id } = await it.ask({ ...R4, quorum: { n: 1, of: ['user_alice', 'user_rita', 'user_bob'] } })
    assert.deepEqual((await it.stored(id)).quorum, { n: 2, of: ['user_rita', 'user_bob'] })
    await it.refused('UNAUTHORIZED', 'alice', 'request.resolve', { request_id: id, result: 'approved' })
    assert.equal((await refusalOf(it.ask({ ...R4, quorum: { n: 1, of: ['user_alice', 'user_rita'] } }))).code, 'NO_RECIPIENT')
  })

  test("separates duties: the agent's owner does not answer, not even as a substitute", async () => {
    const it = await requests()
    await setRules(it, [{ from_risk: 'R4', by: { people: ['user_alice', 'user_bob'] }, excludes: ['agent_owner'] }])
    const { id } = await it.ask(R4)
    const { people, approval } = await it.stored(id)
    assert.deepEqual([people, approval!.excluded], [['user_bob'], [{ id: 'user_alice', as: 'agent_owner' }]])
    const alice = person('user_alice', ['user_bob'])
    assert.equal((await refusalOf(answer(it, alice, id))).code, 'UNAUTHORIZED')
    assert.equal((await answer(it, 'bob', id)).request.status, 'completed')
  })

  test('is part of the card and of its digest', async () => {
    const it = await requests()
    await setRules(it, [byRita])
    const { id } = await it.ask(R4)
    const { item } = await it.call('rita', 'inbox.get', { request_id: id })
    assert.deepEqual(item.card.approval.rules, [{ ...byRita, set_by: 'project_default' }])
    assert.deepEqual(item.approval, {
      words: '1 of Rita Reviewer, by the rules of project_default',
      n: 1,
      groups: [],
      people: [{ id: 'user_rita', name: 'Rita Reviewer' }],
      excluded: [],
      set_by: ['project_default'],
    })
    const { request } = await it.call('devin', 'request.get', { request_id: id })
    assert.equal(request.approval, undefined, 'agents do not learn the rules')
  })

  test('keeps a person out who leaves its group, and lets one in who joins it', async () => {
    const it = await requests()
    await finance(it, 'user_rita')
    await setRules(it, [{ from_risk: 'R4', by: { groups: ['finance'] } }])
    const { id } = await it.ask(R4)
    await finance(it, 'user_bob')
    await it.refused('UNAUTHORIZED', 'rita', 'request.resolve', { request_id: id, result: 'approved' })
    await settle(it)
    assert.deepEqual((await it.stored(id)).people, ['user_bob'])
    await it.call('owner', 'group.remove', { name: 'finance' })
    await settle(it)
    const left = await it.stored(id)
    assert.deepEqual([left.people, left.no_decider], [[], true])
    const { item } = await it.call('owner', 'inbox.get', { request_id: id })
    assert.match(item.effects.approve, /the rules for approvals leave none/)
    assert.equal((await refusalOf(it.ask(R4))).code, 'NO_RECIPIENT')
    await finance(it, 'user_rita')
    await settle(it)
    assert.equal((await answer(it, 'rita', id)).request.status, 'completed')
  })

  test('ends a quorum that its people have left (X28), and a substitute votes for one who is gone (X27)', async () => {
    const it = await requests()
    await setRules(it, [{ from_risk: 'R4', by: { people: ['user_rita', 'user_bob'] }, quorum: 2 }])
    const { id } = await it.ask(R4)
    await it.call('admin', 'identity/substitute.add', { person: 'user_rita', substitute: 'user_alice', until: '2027-01-01T00:00:00Z' })
    await it.call('admin', 'identity/user.update', { user_id: 'user_rita', disabled: true })
    await settle(it)
    assert.deepEqual((await it.stored(id)).people.toSorted(), ['user_alice', 'user_bob'])
    await answer(it, person('user_alice', ['user_rita']), id)
    await it.call('owner', 'identity/project.join', { ...PROJECT, subject: 'user_bob', role: 'viewer' })
    await settle(it)
    const { status, receipt } = await it.stored(id)
    assert.deepEqual([status, receipt!.reason, receipt!.completed_by], ['failed', 'no_quorum', 'system:quorum'])
  })
})

describe('a rule that leaves nobody', () => {
  const cases: readonly [string, object, RegExp][] = [
    ['an unknown group', { by: { groups: ['nobody'] } }, /approvals\.0\.by\.groups: there is no group nobody/],
    ['a person of another project', { by: { people: ['user_mallory'] } }, /approvals\.0\.by\.people: user_mallory is no person/],
    ['an agent', { by: { people: ['agent_devin'] } }, /agent_devin is no person/],
    ['no one', { by: {} }, /approvals\.0\.by: name groups or people/],
    ['a quorum that is too large', { by: { people: ['user_bob'] }, quorum: 2 }, /approvals\.0\.quorum: only 1 people/],
    [
      'the owner of the agents alone, who is excluded',
      { by: { people: ['user_alice'] }, excludes: ['agent_owner'] },
      /user_alice answers for an agent/,
    ],
  ]
  for (const [name, rule, message] of cases)
    test(`is refused: ${name}`, async () => {
      const it = await requests()
      const refusal = await it.refused('INVALID_REQUEST', 'owner', 'policy.set', { ...PROJECT, approvals: [{ from_risk: 'R4', ...rule }] })
      assert.match(refusal.message, message)
    })

  test('is refused where two rules begin at one risk, and for a person who sets rules of their own', async () => {
    const it = await requests()
    await it.refused('INVALID_REQUEST', 'owner', 'policy.set', { ...PROJECT, approvals: [byRita, byRita] })
    await it.refused('INVALID_REQUEST', 'alice', 'policy.set', { approvals: [byRita] })
    await it.refused('UNAUTHORIZED', 'alice', 'policy.set', { ...PROJECT, approvals: [byRita] })
    await it.refused('INVALID_REQUEST', 'owner', 'policy.set', {
      installation: true,
      approvals: [{ from_risk: 'R1', by: { groups: ['none'] } }],
    })
  })
})

describe('a task', () => {
  const spec = { goal: 'Deploy', acceptance_criteria: ['it runs'] }
  const started = async (it: Asked, more: object = {}) => {
    const { task } = await it.call('alice', 'collaboration/task.create', { spec, ...more })
    await it.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
    await it.call('devin', 'collaboration/task.start', { task_id: task.id })
    return task.id as string
  }
  const raised = async (it: Asked, task_id: string) => {
    await it.call('owner', 'policy.set', { ...PROJECT, floors: [{ scope: 'deploy', risk: 'R4' }] })
    const proposed_actions = [{ id: 'a', kind: 'deploy', summary: 'to production', risk: 'high' }]
    const { checkpoint } = await it.call('devin', 'collaboration/checkpoint.raise', {
      task_id,
      kind: 'approval',
      prompt: 'Deploy?',
      proposed_actions,
    })
    return { checkpoint, item: await it.stored(`hxp_${checkpoint.id.slice(5)}`) }
  }

  test('is refused without a principal or a reviewer who could decide', async () => {
    const it = await requests()
    await setRules(it, [byRita])
    const refusal = await it.refused('NO_RECIPIENT', 'alice', 'collaboration/task.create', { spec })
    assert.match(refusal.message, /from R4 on, one of user_rita has to approve/)
    await it.call('alice', 'collaboration/task.create', { spec, reviewers: ['user_rita'] })
    await setRules(it, [{ ...byRita, quorum: 2, by: { people: ['user_rita', 'user_alice'] }, excludes: ['principal'] }])
    await it.refused('NO_RECIPIENT', 'alice', 'collaboration/task.create', { spec, reviewers: ['user_rita'] })
  })

  test('has its checkpoint answered by those of its people whom the rule names, in the inbox and at the checkpoint', async () => {
    const it = await requests()
    const task_id = await started(it, { reviewers: ['user_rita'] })
    await setRules(it, [byRita])
    const { checkpoint, item } = await raised(it, task_id)
    assert.deepEqual(item.people, ['user_rita'])
    await it.refused('UNAUTHORIZED', 'alice', 'request.resolve', { request_id: item.id, result: 'approved' })
    const refusal = await it.refused('UNAUTHORIZED', 'alice', 'collaboration/checkpoint.resolve', {
      checkpoint_id: checkpoint.id,
      action: 'approve',
    })
    assert.match(refusal.message, /the rules for approvals name the people/)
    await it.call('rita', 'collaboration/checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
    assert.equal((await it.stored(item.id)).status, 'completed')
  })

  test('waits without a decider once nobody is left, and goes on with a new reviewer', async () => {
    const it = await requests()
    const task_id = await started(it)
    await setRules(it, [{ ...byRita, excludes: ['principal'] }])
    const { item } = await raised(it, task_id)
    assert.deepEqual([item.people, item.no_decider], [[], true])
    await it.call('alice', 'collaboration/reviewer.add', { task_id, user: 'user_rita' })
    assert.deepEqual((await it.stored(item.id)).people, ['user_rita'])
    await answer(it, 'rita', item.id)
    const { task } = await it.call('alice', 'collaboration/task.get', { task_id })
    assert.equal(task.state, 'in_progress')
  })

  test('needs as many of its people as the rule says, and they vote in the inbox alone', async () => {
    const it = await requests()
    const task_id = await started(it, { reviewers: ['user_rita'] })
    await setRules(it, [{ from_risk: 'R4', by: { people: ['user_rita', 'user_alice'] }, quorum: 2 }])
    const { checkpoint, item } = await raised(it, task_id)
    assert.deepEqual(item.quorum, { n: 2, of: ['user_alice', 'user_rita'] })
    await it.refused('UNAUTHORIZED', 'rita', 'collaboration/checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
    assert.equal((await answer(it, 'rita', item.id)).request.status, 'pending')
    await it.call('alice', 'collaboration/reviewer.remove', { task_id, user: 'user_rita' })
    assert.equal((await it.stored(item.id)).status, 'pending', 'the people of a task can still change')
    assert.equal((await answer(it, 'alice', item.id)).request.status, 'completed')
  })

  test('keeps the principal out of the questions about calls of the task, also before it has begun', async () => {
    const it = await requests()
    const { task } = await it.call('alice', 'collaboration/task.create', { spec, reviewers: ['user_rita'] })
    await it.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
    await setRules(it, [{ from_risk: 'R4', by: { people: ['user_rita', 'user_alice'] }, excludes: ['principal'] }])
    const gate = { version: 1, default: 'ask', rules: [{ id: 'big', tool: 'pay/*', risk: 'R4', then: 'ask' }] }
    await it.call('owner', 'policy.set', { installation: true, gate })
    const propose = { server: 'pay', tool: 'send', arguments: {}, client: { name: 'test' }, task_id: task.id }
    const { request_id } = await it.call('devin', 'gate/call.propose', propose)
    assert.deepEqual((await it.stored(request_id)).people, ['user_rita'])
  })

  test('lets no person decide alone if several have to agree and too few are left', async () => {
    const it = await requests()
    const task_id = await started(it)
    await setRules(it, [{ from_risk: 'R4', by: { people: ['user_rita', 'user_alice'] }, quorum: 2 }])
    const { checkpoint, item } = await raised(it, task_id)
    assert.equal(item.no_decider, true)
    await it.refused('UNAUTHORIZED', 'alice', 'collaboration/checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
    await it.refused('NOT_FOUND', 'alice', 'request.resolve', { request_id: item.id, result: 'approved' })
    await it.refused('UNAUTHORIZED', 'owner', 'request.resolve', { request_id: item.id, result: 'approved' })
    assert.equal((await it.stored(item.id)).status, 'pending')
  })

  test('lets a grant spare the question only if the person who gave it could answer it alone', async () => {
    const it = await requests()
    const task_id = await started(it, { reviewers: ['user_rita'] })
    await it.call('alice', 'collaboration/grant.add', { task_id, scope: 'deploy', decision: 'allow', until: 'task' })
    const question = { ...R4, payload: { ...APPROVE.payload, scope: 'deploy' }, metadata: { task_id } }
    await setRules(it, [byRita])
    assert.equal((await it.ask(question)).status, 'pending')
  })
})
