// From one person to another: handing over, escalating, and groups (X11; with a task H8).
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { inboxesOf } from '#protocols/execution/schema.ts'
import { APPROVE, DECIDE, person, requests, type Asked } from '../../../support/in-process/requests.ts'
import { raced } from '../../../support/in-process/stage.ts'

const of = (id: string): { request_id: string } => ({ request_id: id })
const small = (id: string): object => ({ request_id: id, result: 'Small' })
const onTask = async (): Promise<Asked & { id: string }> => {
  const asked = await requests(collaboration.scenes['in_progress'])
  const { id } = await asked.ask({ ...APPROVE, metadata: { task_id: asked.on.refs['task'].id } })
  return { ...asked, id }
}
const disabled = { user_id: 'user_rita', disabled: true }

describe('askers and deciders', () => {
  test('only agents and keys of projects ask, and it is a matter of who they are', async () => {
    const { refused } = await requests()
    for (const who of ['alice', 'owner', 'mallory', 'admin', 'system', 'deputy'])
      await refused('UNAUTHORIZED', who, 'request.create', DECIDE)
  })

  test('the routed person, the owner of the agent, a substitute and the owner of the installation answer, and nobody else', async () => {
    for (const [who, code] of Object.entries({
      alice: null,
      deputy: null,
      owner: null,
      bob: 'NOT_FOUND',
      rita: 'NOT_FOUND',
      mallory: 'NOT_FOUND',
      robin: 'NOT_FOUND',
      devin: 'UNAUTHORIZED',
      project: 'UNAUTHORIZED',
      admin: 'UNAUTHORIZED',
    })) {
      const { ask, call, refused } = await requests()
      const { id } = await ask(DECIDE)
      if (code === null) assert.equal((await call(who, 'request.resolve', small(id))).request.status, 'completed', who)
      else await refused(code, who, 'request.resolve', small(id))
    }
  })
})

describe('handing over', () => {
  test('makes it another person’s; who had it loses it, who answers for the agent never does', async () => {
    const { ask, call, refused, stored, facts } = await requests()
    const { id } = await ask(DECIDE)
    await call('alice', 'request.assign', { ...of(id), to: 'user_bob', reason: 'Bob pays.' })
    const { people, assigned_to, status } = await stored(id)
    assert.deepEqual({ people, assigned_to, status }, { people: ['user_bob'], assigned_to: 'user_bob', status: 'pending' })
    await call('bob', 'request.assign', { ...of(id), to: 'user_rita' })
    await refused('NOT_FOUND', 'bob', 'request.resolve', small(id))
    await refused('NOT_FOUND', 'bob', 'request.assign', { ...of(id), to: 'user_bob' })
    const [, first, second] = await facts(id)
    assert.deepEqual(
      [first.action, first.actor, first.detail],
      ['request.assigned', 'user_alice', { from: 'user_alice', reason: 'Bob pays.', to: 'user_bob' }],
    )
    assert.deepEqual(second.detail, { from: 'user_bob', reason: null, to: 'user_rita' })
    await call('alice', 'request.resolve', small(id))
    await refused('ALREADY_RESOLVED', 'rita', 'request.resolve', small(id))
    await refused('ALREADY_RESOLVED', 'rita', 'request.assign', { ...of(id), to: 'user_bob' })
  })

  test('a person who no longer has the item learns nothing more of it, not even by repeating a call', async () => {
    const { on, ask, call } = await requests()
    const { id } = await ask(DECIDE)
    await call('alice', 'request.assign', { ...of(id), to: 'user_bob' })
    const look = (): Promise<any> => on.call('bob', 'execution/request.await', of(id), 'the same key')
    assert.equal((await look()).request.status, 'pending')
    await call('alice', 'request.assign', { ...of(id), to: 'user_rita' })
    await call('rita', 'request.resolve', small(id))
    await assert.rejects(look(), { code: 'NOT_FOUND' })
  })

  test('restarts its deadline', async () => {
    const { on, ask, call } = await requests()
    const { id } = await ask(DECIDE)
    on.world.advance(100_000)
    await call('alice', 'request.assign', { ...of(id), to: 'user_bob' })
    on.world.advance(3_000)
    assert.equal((await call('bob', 'request.resolve', small(id))).receipt.duration_seconds, 3)
  })

  test('is for who may answer, and to active people of the project', async () => {
    const { ask, call, refused } = await requests()
    await call('system', 'identity/user.update', disabled)
    const { id } = await ask(DECIDE)
    for (const to of ['user_rita', 'user_mallory', 'user_nobody', 'agent_robin', 'agent_devin', 'group:x'])
      await refused('NOT_FOUND', 'alice', 'request.assign', { ...of(id), to })
    for (const who of ['bob', 'mallory', 'robin']) await refused('NOT_FOUND', who, 'request.assign', { ...of(id), to: 'user_bob' })
    for (const who of ['devin', 'admin', 'project', 'system'])
      await refused('UNAUTHORIZED', who, 'request.assign', { ...of(id), to: 'user_bob' })
  })

  test('takes it out of a pool for good, until it is given back', async () => {
    const { ask, call, pass, stored } = await requests()
    const { id } = await ask({ ...DECIDE, role: 'pool' })
    await call('bob', 'request.claim', { ...of(id), lease_seconds: 60 })
    await call('bob', 'request.assign', { ...of(id), to: 'user_rita' })
    assert.deepEqual(await pass(3_600), [])
    assert.deepEqual([(await stored(id)).status, inboxesOf(await stored(id))], ['assigned', ['user_rita']])
    await call('rita', 'request.release', of(id))
    assert.deepEqual(inboxesOf(await stored(id)), ['pool/project_default'])
  })

  test('never makes a person a decider of a task, and shows which of them decides', async () => {
    const { id, call, refused, stored } = await onTask()
    await refused('TASK_BOUND', 'alice', 'request.assign', { ...of(id), to: 'user_bob' })
    await call('alice', 'request.assign', { ...of(id), to: 'user_rita' })
    const { people, assigned_to } = await stored(id)
    assert.deepEqual({ people, assigned_to }, { people: ['user_alice', 'user_rita'], assigned_to: 'user_rita' })
    for (const who of ['bob', 'robin', 'mallory']) await refused('NOT_FOUND', who, 'request.assign', { ...of(id), to: 'user_alice' })
    await refused('UNAUTHORIZED', 'owner', 'request.assign', { ...of(id), to: 'user_alice' })
    assert.equal((await call('alice', 'request.get', of(id))).request.id, id)
  })

  test('races with an answer: it is decided once, by who had it', async () => {
    const { ask, call, stored } = await requests()
    for (let i = 0; i < 10; i++) {
      const { id } = await ask(DECIDE)
      await call('alice', 'request.assign', { ...of(id), to: 'user_bob' })
      const calls = [call('alice', 'request.assign', { ...of(id), to: 'user_rita' }), call('bob', 'request.resolve', small(id))]
      const outcomes = await raced(i % 2 ? calls : calls.toReversed(), ({ receipt }) => (receipt ? 'resolved' : 'assigned'))
      assert.ok(['ALREADY_RESOLVED,resolved', 'NOT_FOUND,assigned'].includes(outcomes.join()), outcomes.join())
      assert.equal((await stored(id)).people[0], outcomes[1] === 'resolved' ? 'user_bob' : 'user_rita')
    }
  })
})

describe('escalation', () => {
  const plan = (to: string[], after_seconds = 60): object => ({ escalate: { after_seconds, to } })

  test('comes when it was asked for, not before and once: more people, more urgent, and the first answer wins', async () => {
    const { ask, call, pass, stored, facts, waiting, refused } = await requests()
    const { id } = await ask({ ...DECIDE, ...plan(['user_bob']) })
    await refused('PRECONDITION_FAILED', 'system', 'request.escalate', of(id))
    await refused('NOT_FOUND', 'bob', 'request.resolve', small(id))
    assert.deepEqual(await pass(59), [])
    assert.deepEqual(await pass(2), ['request.escalated'])
    const { people, priority, assigned_to } = await stored(id)
    assert.deepEqual({ people, priority, assigned_to }, { people: ['user_alice', 'user_bob'], priority: 'high', assigned_to: 'user_alice' })
    assert.deepEqual((await facts(id)).at(-1).detail, { priority: 'high', to: ['user_bob'] })
    assert.deepEqual(await waiting(id), {})
    await refused('PRECONDITION_FAILED', 'system', 'request.escalate', of(id))
    await call('bob', 'request.resolve', small(id))
    await refused('ALREADY_RESOLVED', 'alice', 'request.resolve', small(id))
  })

  test('comes after a restart too, and not to who has answered', async () => {
    const first = await requests()
    const open = await first.ask({ ...DECIDE, ...plan(['user_bob']) })
    const answered = await first.ask({ ...DECIDE, ...plan(['user_bob']) })
    await first.call('alice', 'request.resolve', small(answered.id))
    const { pass, stored } = await first.restarted()
    assert.deepEqual(await pass(61), ['request.escalated'])
    assert.ok((await stored(open.id)).escalation?.at)
  })

  test('is refused immediately for unknown people and groups, and reads nothing if it is absent', async () => {
    const { ask, call, refused } = await requests()
    await call('system', 'identity/user.update', disabled)
    for (const to of ['user_rita', 'user_mallory', 'user_nobody', 'agent_robin', 'group:on-call', 'group:', 'group:../x'])
      assert.equal(
        (await refused('INVALID_REQUEST', 'devin', 'request.create', { ...DECIDE, ...plan(['user_bob', to]) })).details?.['field'],
        'escalate',
        to,
      )
    for (const escalate of [
      { after_seconds: 0, to: ['user_bob'] },
      { after_seconds: 60, to: [] },
      { after_seconds: 1e300, to: ['user_bob'] },
      { to: ['user_bob'] },
    ])
      await refused('INVALID_REQUEST', 'devin', 'request.create', { ...DECIDE, escalate })
    await call('owner', 'group.set', { name: 'on-call', members: ['user_bob'] })
    await ask({ ...DECIDE, ...plan(['group:on-call']) })
  })

  test('goes to the members that a group has at that time', async () => {
    const { ask, call, pass, stored } = await requests()
    await call('owner', 'group.set', { name: 'on-call', members: ['user_rita'] })
    await call('owner', 'group.set', { name: 'gone', members: ['user_rita'] })
    const { id } = await ask({ ...DECIDE, ...plan(['group:on-call', 'group:gone']) })
    await call('owner', 'group.set', { name: 'on-call', members: ['user_bob', 'user_owner'] })
    await call('owner', 'group.remove', { name: 'gone' })
    await call('system', 'identity/user.update', { user_id: 'user_owner', disabled: true })
    await pass(61)
    assert.deepEqual((await stored(id)).people, ['user_alice', 'user_bob'])
    assert.doesNotMatch(
      JSON.stringify(await call('devin', 'request.get', of(id))),
      /user_bob/,
      'the agent knows the group, not who is in it',
    )
  })

  test('finds no one when all have left, and only becomes more urgent', async () => {
    const { ask, call, pass, stored } = await requests()
    const { id } = await ask({ ...DECIDE, priority: 'low', ...plan(['user_rita']) })
    await call('system', 'identity/user.update', disabled)
    assert.deepEqual(await pass(61), ['request.escalated'])
    const { people, priority } = await stored(id)
    assert.deepEqual({ people, priority }, { people: ['user_alice'], priority: 'normal' })
  })

  test('of an agent never makes anything critical, since that is rationed; a person’s can', async () => {
    const { ask, call, pass, stored } = await requests()
    const { id } = await ask({ ...DECIDE, priority: 'high', ...plan(['user_bob']) })
    await pass(61)
    assert.equal((await stored(id)).priority, 'high')
    await call('alice', 'request.escalate', { ...of(id), to: ['user_rita'] })
    const { priority, people } = await stored(id)
    assert.deepEqual({ priority, people }, { priority: 'critical', people: ['user_alice', 'user_bob', 'user_rita'] })
    await call('rita', 'request.escalate', { ...of(id), to: ['user_owner'] })
    assert.equal((await stored(id)).priority, 'critical')
  })

  test('by a person does not take the place of the one that the agent asked for', async () => {
    const { ask, call, pass, stored } = await requests()
    const { id } = await ask({ ...DECIDE, ...plan(['user_rita']) })
    await call('alice', 'request.escalate', { ...of(id), to: ['user_bob'] })
    assert.deepEqual(await pass(61), ['request.escalated'])
    assert.deepEqual((await stored(id)).people, ['user_alice', 'user_bob', 'user_rita'])
  })

  test('is for people who are allowed to answer, and names a present person', async () => {
    const { ask, refused } = await requests()
    const { id } = await ask(DECIDE)
    await refused('INVALID_REQUEST', 'alice', 'request.escalate', of(id))
    await refused('NOT_FOUND', 'alice', 'request.escalate', { ...of(id), to: ['user_bob', 'user_mallory'] })
    for (const who of ['bob', 'mallory', 'robin']) await refused('NOT_FOUND', who, 'request.escalate', { ...of(id), to: ['user_bob'] })
    for (const who of ['devin', 'admin', 'project']) await refused('UNAUTHORIZED', who, 'request.escalate', { ...of(id), to: ['user_bob'] })
    await refused('PRECONDITION_FAILED', 'system', 'request.escalate', { ...of(id), to: ['user_bob'] })
  })

  test('stays with those whom it reached, through a pool and through other hands', async () => {
    const { ask, call, stored } = await requests()
    const { id } = await ask({ ...DECIDE, role: 'pool' })
    await call('alice', 'request.escalate', { ...of(id), to: ['user_rita'] })
    assert.deepEqual(inboxesOf(await stored(id)), ['pool/project_default', 'user_rita'])
    await call('bob', 'request.claim', of(id))
    assert.deepEqual(inboxesOf(await stored(id)), ['user_bob', 'user_rita'])
    await call('bob', 'request.assign', { ...of(id), to: 'user_alice' })
    assert.deepEqual(inboxesOf(await stored(id)), ['user_alice', 'user_rita'])
    await call('alice', 'request.release', of(id))
    assert.deepEqual(inboxesOf(await stored(id)), ['pool/project_default', 'user_rita'])
    await call('rita', 'request.resolve', small(id))
  })

  test(`never puts one request before more than ${limits.peoplePerRequestMax} people`, async () => {
    const { ask, call, pass, refused, stored } = await requests()
    const many = Array.from({ length: limits.peoplePerRequestMax }, (_, i) => `user_p${i}`)
    for (const id of many) await call('system', 'identity/user.add', { id, name: id })
    await call('owner', 'group.set', { name: 'all', members: many })
    const { id } = await ask({ ...DECIDE, ...plan(['group:all']) })
    await refused('QUOTA_EXCEEDED', 'alice', 'request.escalate', { ...of(id), to: ['group:all'] })
    await pass(61)
    assert.equal((await stored(id)).people.length, limits.peoplePerRequestMax)
  })

  test('of what is bound to a task stays with those who decide on the task', async () => {
    const { id, on, refused, call, stored } = await onTask()
    await refused('TASK_BOUND', 'alice', 'request.escalate', { ...of(id), to: ['user_bob'] })
    await call('alice', 'request.escalate', { ...of(id), to: ['user_rita'] })
    assert.deepEqual((await stored(id)).people, ['user_alice', 'user_rita'])
    const metadata = { task_id: on.refs['task'].id }
    await refused('INVALID_REQUEST', 'devin', 'request.create', { ...APPROVE, metadata, ...plan(['user_bob']) })
  })

  test('that an agent asked for on a task reaches only those who decide on it when the time comes', async () => {
    const { on, ask, call, pass, stored } = await requests(collaboration.scenes['in_progress'])
    const task_id = on.refs['task'].id
    const { id } = await ask({ ...APPROVE, metadata: { task_id }, ...plan(['user_rita', 'user_alice']) })
    await call('alice', 'collaboration/reviewer.remove', { task_id, user: 'user_rita' })
    assert.deepEqual(await pass(61), ['request.escalated'])
    const { escalated_to, priority } = await stored(id)
    assert.deepEqual({ escalated_to, priority }, { escalated_to: ['user_alice'], priority: 'high' })
  })
})

describe('groups', () => {
  test('are set by owners of the project, and readable by every member', async () => {
    const { call, refused } = await requests()
    const group = { name: 'on-call', members: ['user_rita', 'user_bob'] }
    await call('owner', 'group.set', group)
    for (const who of ['alice', 'devin', 'project', 'admin'])
      assert.deepEqual(
        (await call(who, 'group.list')).items.map(({ members }: any) => members),
        [group.members],
        who,
      )
    for (const who of ['alice', 'devin', 'project', 'admin']) {
      await refused('UNAUTHORIZED', who, 'group.set', group)
      await refused('UNAUTHORIZED', who, 'group.remove', { name: 'on-call' })
    }
    for (const who of ['mallory', 'spy']) {
      await refused('NOT_FOUND', who, 'group.list', {})
      await refused('NOT_FOUND', who, 'group.set', group)
    }
    await call('mallory', 'group.set', { project_id: 'project_other', name: 'on-call', members: ['user_mallory'] })
    assert.equal((await call('owner', 'group.list')).items.length, 1)
    await call('owner', 'group.remove', { name: 'on-call' })
    assert.deepEqual((await call('alice', 'group.list')).items, [])
    await refused('NOT_FOUND', 'owner', 'group.remove', { name: 'on-call' })
    await call('owner', 'group.set', group)
  })

  test('hold active people of the project', async () => {
    const { call, refused } = await requests()
    await call('system', 'identity/user.update', disabled)
    for (const member of ['user_rita', 'user_mallory', 'agent_devin', 'user_nobody'])
      await refused('NOT_FOUND', 'owner', 'group.set', { name: 'g', members: ['user_bob', member] })
    for (const input of [
      { name: 'g', members: [] },
      { name: 'a b', members: ['user_bob'] },
      { name: 'g', members: ['user_bob', 'user_bob'] },
    ])
      await refused('INVALID_REQUEST', 'owner', 'group.set', input)
  })

  test(`are at most ${limits.groupsPerProjectMax} in a project`, async () => {
    const { call, refused } = await requests()
    for (let i = 0; i < limits.groupsPerProjectMax; i++) await call('owner', 'group.set', { name: `g${i}`, members: ['user_bob'] })
    await refused('QUOTA_EXCEEDED', 'owner', 'group.set', { name: 'more', members: ['user_bob'] })
    await call('owner', 'group.set', { name: 'g0', members: [person('user_alice').id] })
  })
})
