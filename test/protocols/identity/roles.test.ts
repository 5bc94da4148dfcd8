// Roles of people: an auditor reads everything and changes nothing, a viewer reads a project, and neither is asked. The table of every operation is in
// laws/matrix.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAuthenticator } from '#apps/server/identity/authenticator.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { APPROVE, requests, type Asked } from '../../support/in-process/requests.ts'
import { refusalOf } from '../../support/in-process/stage.ts'
import { createWorld, operationsOf, protocols, stateHash, type World } from '../../support/in-process/world.ts'

const PROJECT = { project_id: 'project_default' }

/** Calls with a key of this person, resolved again for each call, as a server does. */
async function holding(world: World, subject: string, more: object = {}) {
  const { key: token } = await world.call('admin', 'identity/key.issue', { subject, ...more })
  const { authenticate } = createAuthenticator(world.kernel)
  const actor = async (): Promise<Actor> => authenticate({ kind: 'bearer', token })
  return { actor, call: (name: string, input: object = {}): Promise<any> => world.kernel.call(name, input, actor) }
}
const withOtto = async (world: World): Promise<void> => {
  await world.call('owner', 'identity/user.add', { id: 'user_otto', name: 'Otto', project_id: null, role: 'auditor' })
}
const join = (it: Asked, subject: string, role: string): Promise<any> =>
  it.call('owner', 'identity/project.join', { ...PROJECT, subject, role })

test('an auditor reads, verifies and exports the whole record of every project', async () => {
  const it = await requests()
  await withOtto(it.on.world)
  const { id } = await it.ask(APPROVE)
  const { task } = await it.call('alice', 'collaboration/task.create', { spec: { goal: 'Fix it', acceptance_criteria: ['it works'] } })
  const otto = await holding(it.on.world, 'user_otto')
  assert.equal((await otto.call('collaboration/task.get', { task_id: task.id })).task.id, task.id)
  assert.equal((await otto.call('execution/request.get', { request_id: id })).request.people[0], 'user_alice')
  assert.equal((await otto.call('identity/project.list')).items.length, 2)
  for (const project_id of ['project_default', 'project_other', 'system']) {
    assert.equal((await otto.call('collaboration/audit.verify', { project_id })).valid, true, project_id)
    // The other project has no facts yet, so there is nothing to export.
    if (project_id !== 'project_other') assert.notEqual((await otto.call('collaboration/audit.export', { project_id })).ndjson, '')
  }
  assert.ok((await otto.call('identity/key.list', { subject: 'user_otto' })).items.length === 1)
  assert.deepEqual((await otto.call('execution/inbox.list')).items, [])
  const { role, owner, all_projects } = await otto.call('identity/me.get')
  assert.deepEqual([role, owner, all_projects], ['auditor', false, true])
})

test('an auditor is refused every command but those of their own session, before anything is read', async () => {
  const world = await createWorld()
  await withOtto(world)
  const otto = await (await holding(world, 'user_otto')).actor()
  const before = await stateHash(world.store)
  const open: string[] = []
  for (const { name, op } of operationsOf(protocols)) {
    if (op.kind !== 'command') continue
    if (op.isForAuditors === true) open.push(name)
    // Unknown ids: the refusal says nothing about what there is.
    else {
      const input = typeof op.example.input === 'function' ? null : op.example.input
      const refusal = input === null ? null : await refusalOf(world.kernel.call(name, input, otto))
      if (refusal !== null) assert.deepEqual([refusal.code, refusal.message.startsWith('auditors read')], ['UNAUTHORIZED', true], name)
    }
  }
  assert.deepEqual(open.toSorted(), ['execution/request.await', 'identity/session.close', 'identity/ticket.issue'])
  assert.equal(await stateHash(world.store), before)
})

test('a key of one project makes an auditor a viewer of it, and a role that is taken away ends with the next call', async () => {
  const world = await createWorld()
  await withOtto(world)
  const [whole, narrow] = [await holding(world, 'user_otto'), await holding(world, 'user_otto', PROJECT)]
  assert.equal((await whole.call('identity/project.list')).items.length, 2)
  assert.deepEqual(
    (await narrow.call('identity/project.list')).items.map(({ id }: { id: string }) => id),
    ['project_default'],
  )
  assert.equal((await narrow.call('collaboration/audit.verify', PROJECT)).valid, true)
  assert.equal((await refusalOf(narrow.call('collaboration/audit.verify', { project_id: 'project_other' }))).code, 'NOT_FOUND')
  assert.equal((await refusalOf(narrow.call('identity/subject.list'))).code, 'UNAUTHORIZED')
  assert.equal(
    (await refusalOf(narrow.call('identity/ticket.issue').then(() => narrow.call('execution/rule.remove', { rule_id: 'x' })))).code,
    'UNAUTHORIZED',
  )
  await world.call('owner', 'identity/user.update', { user_id: 'user_otto', role: 'member' })
  assert.deepEqual((await whole.call('identity/project.list')).items, [])
  assert.equal((await refusalOf(narrow.call('collaboration/audit.verify', PROJECT))).code, 'NOT_FOUND')
})

test('a viewer reads the whole project, and changes nothing in it', async () => {
  const it = await requests()
  await join(it, 'user_bob', 'viewer')
  const { id } = await it.ask({ ...APPROVE, role: 'pool' })
  const bob = await holding(it.on.world, 'user_bob')
  const { task } = await it.call('alice', 'collaboration/task.create', { spec: { goal: 'Fix it', acceptance_criteria: ['it works'] } })
  assert.deepEqual(
    (await bob.call('collaboration/task.list')).items.map((one: { id: string }) => one.id),
    [task.id],
  )
  assert.equal((await bob.call('execution/request.get', { request_id: id })).request.id, id)
  assert.notEqual((await bob.call('collaboration/audit.export', PROJECT)).ndjson, '')
  assert.deepEqual((await bob.call('execution/inbox.list')).items, [], 'nothing is before a viewer')
  const before = await stateHash(it.on.world.store)
  for (const [name, input] of Object.entries({
    'execution/request.claim': { request_id: id },
    'execution/request.resolve': { request_id: id, result: 'approved' },
    'collaboration/task.create': { spec: { goal: 'More', acceptance_criteria: ['done'] } },
    'identity/agent.add': { name: 'Mine', owner: 'user_bob', project_id: 'project_default' },
    'execution/group.set': { name: 'mine', members: ['user_bob'] },
  }))
    assert.equal((await refusalOf(bob.call(name, input))).code, 'UNAUTHORIZED', name)
  assert.equal(await stateHash(it.on.world.store), before)
})

test('a person who becomes a viewer or an auditor is asked no more, and the next person is (X27)', async () => {
  for (const change of [
    { name: 'identity/project.join', input: { ...PROJECT, subject: 'user_alice', role: 'viewer' } },
    { name: 'identity/user.update', input: { user_id: 'user_alice', role: 'auditor' } },
  ]) {
    const it = await requests()
    const { id } = await it.ask(APPROVE)
    await it.call('owner', change.name, change.input)
    await it.call('system', 'recipient.check', { person: 'user_alice' })
    assert.deepEqual((await it.stored(id)).people, ['user_owner'], change.name)
    assert.deepEqual((await it.stored((await it.ask(APPROVE)).id)).people, ['user_owner'], 'nor are they asked again')
    const refusal = await it.refused('NOT_FOUND', 'owner', 'collaboration/task.create', {
      spec: { goal: 'Review', acceptance_criteria: ['done'] },
      reviewers: ['user_alice'],
    })
    assert.match(refusal.message, /no active person or agent user_alice/)
  }
})

test('a viewer who stands in for a person does not decide in their place', async () => {
  const it = await requests()
  const { id } = await it.ask(APPROVE)
  await it.call('alice', 'identity/substitute.add', { person: 'user_alice', substitute: 'user_bob', until: '2027-01-01T00:00:00Z' })
  const bob = await holding(it.on.world, 'user_bob')
  assert.equal((await bob.call('execution/inbox.list')).items.length, 1)
  await join(it, 'user_bob', 'viewer')
  assert.equal((await bob.call('execution/inbox.list')).items.length, 0)
  assert.equal((await refusalOf(bob.call('execution/request.resolve', { request_id: id, result: 'approved' }))).code, 'UNAUTHORIZED')
})

test('agents have the role member, and roles have the names of the table', async () => {
  const it = await requests()
  for (const role of ['owner', 'viewer'])
    assert.match(
      (await it.refused('PRECONDITION_FAILED', 'owner', 'identity/project.join', { ...PROJECT, subject: 'agent_devin', role })).message,
      /give an agent the role member/,
    )
  await it.refused('INVALID_REQUEST', 'owner', 'identity/user.update', { user_id: 'agent_devin', role: 'auditor' })
  await it.refused('INVALID_REQUEST', 'owner', 'identity/user.update', { user_id: 'user_bob', role: 'viewer' })
  await it.refused('INVALID_REQUEST', 'owner', 'identity/project.join', { ...PROJECT, subject: 'user_bob', role: 'auditor' })
})
