// X22 and X27: each number that somebody is told is the number of what they can list, whoever has left, come back or lost a task since.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Actor } from '#kernel/declare/access.ts'
import { createWorld, type World } from '../../../support/in-process/world.ts'
import { item } from '../../../support/over-sockets/asking.ts'

const STATUSES = [undefined, 'pending', 'assigned', 'completed', 'failed', 'cancelled', 'expired']

async function listedAs(world: World, actor: Actor, operation: string, input: object): Promise<{ ids: string[]; total: number }> {
  const ids: string[] = []
  let total = 0
  for (let cursor: string | null = null, isLast = false; !isLast; isLast = cursor === null) {
    const at: object = cursor === null ? {} : { cursor }
    const page: any = await world.kernel.call(operation, { limit: 3, ...input, ...at }, actor)
    ids.push(...(page.requests ?? page.items).map(({ id }: any) => id as string))
    total = page.total
    cursor = page.next_cursor
  }
  return { ids, total }
}

/** Every filter that the lists know, against the list itself; and the figures against the lists by status. */
async function agree(world: World, actor: Actor, operation: 'request.inbox' | 'request.list'): Promise<number> {
  const numbers: Record<string, number> = {}
  for (const status of STATUSES)
    for (const more of operation === 'request.list' ? [{}] : [{}, { priority: 'high' }, { action: 'APPROVE' }]) {
      const input = { ...(status === undefined ? {} : { status }), ...more }
      const { ids, total } = await listedAs(world, actor, `execution/${operation}`, input)
      const told = `${actor.id} ${operation} ${JSON.stringify(input)}`
      assert.equal(new Set(ids).size, ids.length, told)
      assert.equal(total, ids.length, told)
      if (Object.keys(more).length === 0) numbers[status ?? 'all'] = total
    }
  const { total, pending, completed, failed, expired, cancelled } = await statsOf(world, actor)
  const told = `${actor.id} request.stats`
  assert.equal(total, numbers['all'], told)
  assert.equal(pending, numbers['pending']! + numbers['assigned']!, told)
  assert.equal(completed, numbers['completed'], told)
  assert.equal(failed + expired, numbers['failed'], told)
  assert.equal(cancelled, numbers['cancelled'], told)
  return total
}

type Figures = Record<'total' | 'pending' | 'completed' | 'failed' | 'expired' | 'cancelled', number>
const statsOf = async (world: World, actor: Actor): Promise<Figures> =>
  (await world.kernel.call('execution/request.stats', {}, actor)) as Figures

async function ends(world: World, request_id: string, how: number): Promise<void> {
  if (how === 0) await world.kernel.call('execution/request.resolve', { request_id, result: 'approved' }, await now(world, 'alice'))
  if (how === 1) await world.kernel.call('execution/request.cancel', { request_id }, await now(world, 'devin'))
  if (how === 2) await world.call('system', 'execution/request.expire', { request_id })
}

async function full(): Promise<World> {
  const world = await createWorld()
  const join = (project_id: string, subject: string) =>
    world.call('admin', 'identity/project.join', { project_id, subject, role: subject === 'user_owner' ? 'owner' : 'member' })
  for (const subject of ['user_alice', 'agent_devin']) await join('project_other', subject)
  for (const project_id of ['project_default', 'project_other'])
    for (let i = 0; i < 16; i++) {
      const input = {
        action: 'APPROVE',
        project_id,
        priority: i % 2 === 0 ? 'high' : 'low',
        ...(i % 4 === 2 ? { timeout_seconds: 60, fallback: i % 8 === 2 ? 'fail' : 'pause' } : {}),
        ...(i % 8 === 7 ? { role: 'pool' } : {}),
        ...item(`number ${i}`),
      }
      const { request }: any = await world.kernel.call('execution/request.create', input, await now(world, 'devin'))
      if (i % 4 === 2) world.advance(120_000)
      if (i % 8 === 7) await world.kernel.call('execution/request.claim', { request_id: request.id }, await now(world, 'alice'))
      else if (i % 8 !== 3) await ends(world, request.id, i % 4)
    }
  return world
}

const as = (world: World, name: string): Actor => world.cast[name]!
/** As their credential makes them now. */
async function now(world: World, name: string): Promise<Actor> {
  const noun = name === 'devin' ? 'agent' : 'user'
  const subject: any = await world.call('admin', `identity/${noun}.get`, { [`${noun}_id`]: as(world, name).id })
  const { projects } = subject[noun]
  return { ...as(world, name), projects: new Map(projects.map(({ project_id, role }: any) => [project_id, role])) }
}

test('totals and figures equal those of the lists, for every person and every filter', async () => {
  const world = await full()
  assert.equal(await agree(world, await now(world, 'alice'), 'request.inbox'), 32)
  assert.equal(await agree(world, await now(world, 'devin'), 'request.list'), 32)
  for (const name of ['bob', 'rita', 'owner', 'deputy']) await agree(world, as(world, name), 'request.inbox')
  await world.close()
})

test('a former member, and a key for one project, count the rest alone', async () => {
  const world = await full()
  for (const subject of ['user_alice', 'agent_devin'])
    await world.call('admin', 'identity/project.leave', { project_id: 'project_other', subject })
  await world.call('system', 'execution/recipient.check', { person: 'user_alice' })
  assert.equal(await agree(world, await now(world, 'alice'), 'request.inbox'), 16)
  assert.equal(await agree(world, await now(world, 'devin'), 'request.list'), 16)
  const partial: Actor = { ...(await now(world, 'alice')), partial: true, projects: new Map([['project_other', 'member']]) }
  await agree(world, partial, 'request.inbox')
  await world.close()
})

test('answers about a task count for those who are allowed to read the task', async () => {
  const world = await createWorld()
  const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal: 'Fix the login bug' }, reviewers: ['user_rita'] })
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  await world.call('devin', 'collaboration/task.start', { task_id: task.id })
  const raised = { task_id: task.id, kind: 'approval', prompt: 'Deploy?' }
  const { checkpoint } = await world.call('devin', 'collaboration/checkpoint.raise', raised)
  await world.call('rita', 'collaboration/checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
  for (const name of ['alice', 'rita']) assert.equal(await agree(world, as(world, name), 'request.inbox'), 1)
  // One who answered in somebody's place reads the task no longer than that.
  await world.call('alice', 'identity/substitute.add', { person: 'user_alice', substitute: 'user_bob', until: '2026-02-01T00:00:00Z' })
  const second = await world.call('devin', 'collaboration/checkpoint.raise', raised)
  const deputy: Actor = { ...as(world, 'bob'), actsFor: new Set(['user_alice']) }
  await world.kernel.call('collaboration/checkpoint.resolve', { checkpoint_id: second.checkpoint.id, action: 'approve' }, deputy)
  assert.equal(await agree(world, deputy, 'request.inbox'), 2)
  assert.equal(await agree(world, as(world, 'bob'), 'request.inbox'), 0)
  await world.close()
})

test('a substitute for one project lists and counts the items of that project, and nothing else of the absent person', async () => {
  const world = await full()
  // Bob owns the other project and may read all of it: in Alice's place he stands in the first one alone.
  const deputy: Actor = {
    ...as(world, 'bob'),
    projects: new Map([
      ['project_default', 'member'],
      ['project_other', 'owner'],
    ]),
    actsForIn: new Map([['project_default', new Set(['user_alice'])]]),
  }
  assert.equal(await agree(world, deputy, 'request.inbox'), 16)
  const listOf = async (actor: Actor, input: object): Promise<string[]> => {
    const { items }: any = await world.kernel.call('execution/inbox.list', { limit: 200, ...input }, actor)
    return items.map(({ request_id }: any) => request_id)
  }
  for (const filter of [{}, { status: 'closed' }, { priority: 'low' }, { project_id: 'project_default' }]) {
    const wanted = await listOf(await now(world, 'alice'), { ...filter, project_id: 'project_default' })
    const shown = await listOf(deputy, filter)
    assert.ok(wanted.length > 0)
    assert.deepEqual(shown, wanted, JSON.stringify(filter))
    const { open, acting_for }: any = await world.kernel.call('execution/inbox.count', filter, deputy)
    if (Object.keys(filter).length > 0) assert.equal(open, wanted.length, JSON.stringify(filter))
    else assert.deepEqual({ open, acting_for }, { open: 0, acting_for: [{ person: 'user_alice', open: wanted.length }] })
  }
  // In her place everywhere, but not in all of her projects: the others are neither listed nor counted.
  const guest: Actor = { ...as(world, 'bob'), actsFor: new Set(['user_alice']) }
  const { acting_for }: any = await world.kernel.call('execution/inbox.count', {}, guest)
  assert.deepEqual(acting_for, [{ person: 'user_alice', open: (await listOf(guest, {})).length }])
  await world.close()
})
