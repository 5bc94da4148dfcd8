// X27 and X28: every open question has somebody who can answer it and who sees it, whoever is switched off or leaves.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { SYSTEM } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { duePrefix, dueUntil, idIn, kindOf } from '#kernel/declare/schema.ts'
import { hxpWorld, QUESTION, type HxpWorld } from '../../../support/over-sockets/hxp-world.ts'
import { createWorld } from '../../../support/in-process/world.ts'

/** Makes the calls that are due by now, as the worker does. */
async function settle({ kernel, store }: HxpWorld): Promise<void> {
  for (let round = 0; round < 50; round++) {
    const due = (await store.scan(duePrefix, dueUntil(new Date(kernel.now()).toISOString()), 100)).map(idIn)
    if (due.length === 0) return
    for (const key of due) {
      const { call, input } = kindOf(key).due((await store.read([key]))[0]!.value)!
      await kernel.call(call, input, SYSTEM)
    }
  }
}

const worldOf = (t: TestContext) => hxpWorld(t)
const switchOff = async (world: HxpWorld, user_id: string): Promise<void> => {
  await world.call('admin', 'identity/user.update', { user_id, disabled: true })
  await settle(world)
}
const leaves = async (world: HxpWorld, subject: string): Promise<void> => {
  await world.call('admin', 'identity/project.leave', { project_id: 'project_default', subject })
  await settle(world)
}
const inbox = async (world: HxpWorld, as: string, query = ''): Promise<{ ids: string[]; total: number; unresolved: number }> => {
  const { json, status, text } = await world.http(as, 'GET', `/inbox${query}`)
  assert.equal(status, 200, text)
  return { ids: json.requests.map((one: { request_id: string }) => one.request_id), total: json.total, unresolved: json.unresolved }
}
const events = async (world: HxpWorld, id: string): Promise<{ action: string; actor: string; detail: any }[]> => {
  const facts = await world.store.facts({ by: 'scope', scope: 'project_default' }, { after: 0, limit: 500 })
  return facts.map(({ line }) => JSON.parse(line)).filter(({ subject }) => subject === `execution.request/${id}`)
}

test('the questions of a disabled person go to the next person who can answer', async (t) => {
  const world = await worldOf(t)
  const { request_id } = await world.ask()
  await switchOff(world, 'user_alice')
  assert.deepEqual(await inbox(world, 'owner'), { ids: [request_id], total: 1, unresolved: 1 })
  const { json } = await world.http('owner', 'GET', `/requests/${request_id}`)
  assert.equal(json.assigned_to, 'user_owner')
  const last = (await events(world, request_id)).at(-1)!
  assert.equal(last.action, 'execution/request.assigned')
  assert.equal(last.actor, 'agent_system')
  assert.deepEqual(last.detail, { from: 'user_alice', to: 'user_owner', reason: 'cannot_answer' })
  assert.equal((await world.resolve(request_id, 'Approve', {}, 'owner')).status, 200)
})

test('a substitute comes before the owners', async (t) => {
  const world = await worldOf(t)
  await world.call('alice', 'identity/substitute.add', { person: 'user_alice', substitute: 'user_bob', until: '2026-02-01T00:00:00Z' })
  const { request_id } = await world.ask()
  await switchOff(world, 'user_alice')
  assert.deepEqual(await inbox(world, 'bob'), { ids: [request_id], total: 1, unresolved: 1 })
  assert.deepEqual((await inbox(world, 'owner')).ids, [])
  assert.equal((await world.resolve(request_id, 'Deny', {}, 'bob')).status, 200)
})

test('a former member of the project is neither asked nor counted', async (t) => {
  const world = await worldOf(t)
  const before = await world.ask()
  await leaves(world, 'user_alice')
  const after = await world.ask('devin', { priority: 'critical' })
  assert.deepEqual(await inbox(world, 'alice'), { ids: [], total: 0, unresolved: 0 })
  assert.deepEqual(await inbox(world, 'owner'), { ids: [after.request_id, before.request_id], total: 2, unresolved: 2 })
  const created = await events(world, after.request_id)
  assert.deepEqual(
    created.map(({ action, actor }) => [action, actor]),
    [
      ['execution/request.created', 'agent_devin'],
      ['execution/request.assigned', 'agent_system'],
    ],
  )
  assert.equal((await world.call('owner', 'execution/inbox.count')).open, 2)
})

test('without any person, asking is refused and changes nothing', async (t) => {
  const world = await worldOf(t)
  for (const who of ['user_rita', 'user_bob', 'user_owner', 'user_alice']) await switchOff(world, who)
  for (const role of ['owner', 'delegate', 'pool']) {
    const answer = await world.http('devin', 'POST', '/requests', { ...QUESTION, role })
    assert.equal(answer.status, 409, answer.text)
    assert.equal(answer.json.error, 'no_recipient')
  }
})

test('a question that no member can answer goes to the installation owner, even outside of the project', async (t) => {
  const world = await worldOf(t)
  const { request_id } = await world.ask('spy')
  await switchOff(world, 'user_mallory')
  assert.deepEqual(await inbox(world, 'owner'), { ids: [request_id], total: 1, unresolved: 1 })
  const pooled = await world.ask('spy', { role: 'pool' })
  assert.deepEqual((await inbox(world, 'owner', '?status=assigned')).ids, [pooled.request_id])
  assert.equal((await world.resolve(request_id, 'Approve', {}, 'owner')).status, 200)
  assert.equal((await world.resolve(pooled.request_id, 'Approve', {}, 'owner')).status, 200)
})

test('a pool gets back an item whose claimer can no longer answer', async (t) => {
  const world = await worldOf(t)
  const { request_id } = await world.ask('devin', { role: 'pool' })
  await world.call('bob', 'execution/request.claim', { request_id })
  await switchOff(world, 'user_bob')
  assert.deepEqual((await inbox(world, 'rita')).ids, [request_id])
  const { json } = await world.http('devin', 'GET', `/requests/${request_id}`)
  assert.equal(json.status, 'pending')
})

test('a pool item goes to a person outside when the last member is gone', async (t) => {
  const world = await worldOf(t)
  const { request_id } = await world.ask('spy', { role: 'pool' })
  const other = await world.ask('spy', { role: 'pool' })
  await switchOff(world, 'user_mallory')
  assert.deepEqual((await inbox(world, 'owner', '?status=assigned')).ids, [request_id, other.request_id])
  assert.equal((await world.resolve(request_id, 'Approve', {}, 'owner')).status, 200)
  await world.call('admin', 'identity/user.update', { user_id: 'user_mallory', disabled: false })
  const third = await world.ask('spy', { role: 'pool' })
  await world.call('admin', 'identity/project.leave', { project_id: 'project_other', subject: 'user_mallory' })
  await settle(world)
  assert.deepEqual((await inbox(world, 'owner', '?status=assigned')).ids, [other.request_id, third.request_id])
})

test('a called-in person who left is not called in again by a reassignment', async (t) => {
  const world = await worldOf(t)
  const { request_id } = await world.ask('devin', { role: 'pool' })
  await world.call('alice', 'execution/request.escalate', { request_id, to: ['user_bob'] })
  await switchOff(world, 'user_bob')
  await world.call('alice', 'execution/request.claim', { request_id })
  await world.call('alice', 'execution/request.release', { request_id })
  const { request } = await world.call('owner', 'execution/request.get', { request_id })
  assert.deepEqual(request.people, [])
})

// --- Bound to a task -----------------------------------------------------------------------------------------------------------

async function taskOf(world: HxpWorld, reviewers: string[] = []): Promise<string> {
  const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal: 'Fix the login bug' }, reviewers })
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  await world.call('devin', 'collaboration/task.start', { task_id: task.id })
  return task.id
}
const raised = async (world: HxpWorld, task_id: string): Promise<string> => {
  const { checkpoint } = await world.call('devin', 'collaboration/checkpoint.raise', { task_id, kind: 'approval', prompt: 'Deploy?' })
  return `hxp_${checkpoint.id.slice(5)}`
}
test('a reviewer answers for a task whose principal is gone', async (t) => {
  const world = await worldOf(t)
  const id = await raised(world, await taskOf(world, ['user_rita']))
  await leaves(world, 'user_alice')
  assert.deepEqual(await inbox(world, 'alice'), { ids: [], total: 0, unresolved: 0 })
  const { json } = await world.http('rita', 'GET', `/requests/${id}`)
  assert.equal(json.assigned_to, 'user_rita')
  assert.equal((await world.resolve(id, 'approved', {}, 'rita')).status, 200)
})

test('a task without a decider is shown to the owners of the project, who name a substitute and cannot answer themselves', async (t) => {
  const world = await worldOf(t)
  const task_id = await taskOf(world)
  const id = await raised(world, task_id)
  await leaves(world, 'user_alice')
  const { item } = await world.call('owner', 'execution/inbox.get', { request_id: id })
  assert.equal(item.no_decider, true)
  assert.match(item.effects.approve, /name a substitute for user_alice/)
  const listed = await world.call('owner', 'execution/inbox.list')
  assert.deepEqual(
    listed.items.map(({ request_id }: any) => request_id),
    [id],
  )
  const { open, no_decider } = await world.call('owner', 'execution/inbox.count')
  assert.deepEqual({ open, no_decider }, { open: 1, no_decider: 1 })
  assert.deepEqual(await inbox(world, 'owner'), { ids: [id], total: 1, unresolved: 1 })
  assert.equal((await world.resolve(id, 'approved', {}, 'owner')).status, 404)
  assert.deepEqual((await inbox(world, 'bob')).ids, [])

  const until = '2026-02-01T00:00:00Z'
  const naming = { person: 'user_alice', substitute: 'user_bob', until }
  await assert.rejects(world.call('rita', 'identity/substitute.add', { ...naming, project_id: 'project_default' }), { code: 'NOT_FOUND' })
  await world.call('owner', 'identity/substitute.add', { ...naming, project_id: 'project_default' })
  await settle(world)
  assert.deepEqual((await inbox(world, 'owner')).ids, [])
  assert.deepEqual(await inbox(world, 'bob'), { ids: [id], total: 1, unresolved: 1 })
  assert.equal((await world.resolve(id, 'approved', {}, 'bob')).status, 200)
})

test('a substitute for one project acts nowhere else, and not for a person who is present', async (t) => {
  const world = await worldOf(t)
  const until = '2026-02-01T00:00:00Z'
  await world.call('admin', 'identity/project.join', { project_id: 'project_other', subject: 'user_bob' })
  const owned = { ...world.cast['owner']!, owner: false }
  const naming = { person: 'user_alice', substitute: 'user_bob', until, project_id: 'project_default' }
  await assert.rejects(world.kernel.call('identity/substitute.add', naming, owned), { code: 'UNAUTHORIZED' })
  const elsewhere = { person: 'user_mallory', substitute: 'user_bob', until, project_id: 'project_default' }
  await world.kernel.call('identity/substitute.add', elsewhere, owned)
  const { request_id } = await world.ask('spy')
  assert.equal((await world.resolve(request_id, 'Approve', {}, 'bob')).status, 404)
  assert.deepEqual((await inbox(world, 'bob')).ids, [])
})

test('when a substitution ends, the question is looked at again', async (t) => {
  const world = await worldOf(t)
  const id = await raised(world, await taskOf(world))
  await leaves(world, 'user_alice')
  const until = '2026-01-02T00:00:00Z'
  await world.call('owner', 'identity/substitute.add', {
    person: 'user_alice',
    substitute: 'user_bob',
    until,
    project_id: 'project_default',
  })
  await settle(world)
  assert.deepEqual((await inbox(world, 'bob')).ids, [id])
  world.advance(2 * 86_400_000)
  await settle(world)
  assert.deepEqual((await inbox(world, 'bob')).ids, [])
  assert.deepEqual((await inbox(world, 'owner')).ids, [id])
  await world.call('admin', 'identity/project.join', { project_id: 'project_default', subject: 'user_alice' })
  await settle(world)
  assert.deepEqual(await inbox(world, 'alice'), { ids: [id], total: 1, unresolved: 1 })
  assert.equal((await world.resolve(id, 'approved')).status, 200)
})

test('a question raised without a possible decider goes to the owners immediately', async (t) => {
  const world = await worldOf(t)
  const task_id = await taskOf(world)
  await leaves(world, 'user_alice')
  const bound = await world.ask('devin', { metadata: { task_id } })
  assert.deepEqual((await inbox(world, 'owner')).ids, [bound.request_id])
  const { json } = await world.http('devin', 'GET', `/requests/${bound.request_id}`)
  assert.equal(json.no_decider, true)
})

// --- Quorum --------------------------------------------------------------------------------------------------------------------

const quorumOf = (n: number, of: string[], action = 'APPROVE') =>
  action === 'APPROVE' ? { action, payload: { item: 'Pay the invoice' }, quorum: { n, of } } : { ...QUESTION, quorum: { n, of } }

for (const action of ['APPROVE', 'DECIDE'])
  test(`a quorum that lost a voter and cannot be reached fails without a rejection: ${action}`, async (t) => {
    const world = await worldOf(t)
    const { request_id } = await world.ask('devin', quorumOf(2, ['user_alice', 'user_bob'], action))
    await switchOff(world, 'user_bob')
    const { json } = await world.http('devin', 'GET', `/requests/${request_id}`)
    assert.equal(json.status, 'failed')
    assert.equal(json.receipt.reason, 'no_quorum')
    assert.equal(json.receipt.completed_by, 'system:quorum')
    assert.equal(json.receipt.result, null)
    const late = await world.resolve(request_id, action === 'APPROVE' ? 'approved' : 'Approve')
    assert.match(late.json.message, /^already closed: enough votes can no longer be reached, by system:quorum, /)
  })

test('a quorum continues with the substitute of a voter who left, as long as each votes once', async (t) => {
  const world = await worldOf(t)
  await world.call('bob', 'identity/substitute.add', { person: 'user_bob', substitute: 'user_owner', until: '2026-02-01T00:00:00Z' })
  const { request_id } = await world.ask('devin', quorumOf(2, ['user_alice', 'user_bob']))
  await switchOff(world, 'user_bob')
  assert.equal((await world.resolve(request_id, 'approved')).json.status, 'pending')
  assert.deepEqual((await inbox(world, 'owner')).ids, [request_id])
  assert.equal((await world.resolve(request_id, 'approved', {}, 'owner')).json.status, 'completed')
})

test('one substitute cannot give the votes of two', async (t) => {
  const world = await worldOf(t)
  for (const person of ['alice', 'bob'])
    await world.call(person, 'identity/substitute.add', {
      person: `user_${person}`,
      substitute: 'user_owner',
      until: '2026-02-01T00:00:00Z',
    })
  const { request_id } = await world.ask('devin', quorumOf(2, ['user_alice', 'user_bob']))
  await switchOff(world, 'user_bob')
  assert.equal((await world.http('devin', 'GET', `/requests/${request_id}`)).json.status, 'pending')
  await switchOff(world, 'user_alice')
  assert.equal((await world.http('devin', 'GET', `/requests/${request_id}`)).json.status, 'failed')
})

test('a quorum that is asked for counts the substitutes of those who cannot answer, and is refused if they are too few', async (t) => {
  const world = await worldOf(t)
  await switchOff(world, 'user_bob')
  const ask = (n: number, of: string[]) => world.http('devin', 'POST', '/requests', quorumOf(n, of))
  const without = await ask(2, ['user_alice', 'user_bob'])
  assert.deepEqual([without.status, without.json.error], [409, 'no_recipient'], without.text)
  assert.match(without.text, /user_bob cannot answer/)
  assert.equal((await ask(1, ['user_alice', 'user_bob'])).status, 201)
  // Nobody is a substitute who votes as themself already.
  const naming = { person: 'user_bob', until: '2026-02-01T00:00:00Z' }
  await world.call('admin', 'identity/substitute.add', { ...naming, substitute: 'user_alice' })
  assert.equal((await ask(2, ['user_alice', 'user_bob'])).status, 409)
  await world.call('admin', 'identity/substitute.add', { ...naming, substitute: 'user_owner' })
  const { json, status, text } = await ask(2, ['user_alice', 'user_bob'])
  assert.equal(status, 201, text)
  assert.ok((await inbox(world, 'owner')).ids.includes(json.request_id))
  assert.equal((await world.resolve(json.request_id, 'approved')).json.status, 'pending')
  assert.equal((await world.resolve(json.request_id, 'approved', {}, 'owner')).json.status, 'completed')
  // Of people outside the project, and of nobody at all, the same is said.
  for (const stranger of ['user_mallory', 'user_unknown']) {
    const answer = await ask(1, ['user_alice', stranger])
    assert.equal(answer.status, 400, answer.text)
    assert.match(answer.text, new RegExp(`${stranger} is not a person of the project`))
  }
})

test('a quorum that votes made impossible is rejected, with the reasons', async (t) => {
  const world = await worldOf(t)
  const { request_id } = await world.ask('devin', quorumOf(2, ['user_alice', 'user_bob']))
  const { json } = await world.resolve(request_id, 'rejected', { reason: 'Too much.' })
  assert.equal(json.receipt.result, 'rejected')
  assert.equal(json.receipt.reason, 'Too much.')
})

test('the replacement of a person is found by reading few of many people', async () => {
  const world = await createWorld()
  const many = Array.from({ length: 2 * limits.peopleSoughtMax }, (_, i) => `user_m${i}`)
  const until = (day: number): string => `2026-02-0${day}T00:00:00Z`
  const person = 'user_alice'
  for (const id of many) {
    await world.call('admin', 'identity/user.add', { id, name: id })
    await world.call('admin', 'identity/substitute.add', { person, substitute: id, until: until(1) })
  }
  await world.call('admin', 'identity/substitute.add', { person, substitute: 'user_bob', until: until(9), project_id: 'project_default' })
  world.advance(Date.parse(until(2)) - world.kernel.now())
  await world.call('admin', 'identity/user.update', { user_id: person, disabled: true })

  const looked = new Set<string>()
  const { read, peek } = world.store
  const note = (key: string): void => {
    if (key.startsWith('identity.user/')) looked.add(key)
  }
  world.store.read = (keys) => (keys.forEach(note), read.call(world.store, keys))
  if (peek) world.store.peek = (key) => (note(key), peek.call(world.store, key))
  const askedOf = async (input: object): Promise<string | null> => {
    looked.clear()
    const { request }: any = await world.call('devin', 'execution/request.create', { ...QUESTION, ...input })
    assert.ok(looked.size <= limits.peopleSoughtMax, `${looked.size} people were looked at for ${JSON.stringify(input)}`)
    return request.assigned_to
  }
  assert.equal(await askedOf({}), 'user_bob')
  assert.equal(await askedOf({ role: 'pool' }), null)
  await world.call('admin', 'identity/substitute.remove', { person, substitute: 'user_bob', project_id: 'project_default' })
  assert.equal(await askedOf({}), 'user_owner')
  await world.close()
})
