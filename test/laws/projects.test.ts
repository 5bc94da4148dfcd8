// Lists over projects: each that defaults to the default project accepts `all_projects`, and counts the projects that it leaves out.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Actor, ProjectRole } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { createWorld, operationsOf, protocols, type World } from '../support/in-process/world.ts'

/** Exceptions. A chain belongs to one project, so its readers name one; people, agents and items are listed over all projects by default. */
const exceptions = [
  'collaboration/audit.query',
  'identity/user.list',
  'identity/agent.list',
  'execution/request.list',
  'execution/inbox.list',
  'execution/channel.list', // lists channels of one person, agent or project
  'gate/policy.suggest', // suggests rules for one policy
]

type Schema = { readonly properties?: Readonly<Record<string, unknown>> }
const fieldsOf = (schema: unknown): readonly string[] => Object.keys((schema as Schema).properties ?? {})
const lists = operationsOf(protocols)
  .filter(({ op, name }) => op.kind === 'query' && fieldsOf(op.input).includes('project_id') && !exceptions.includes(name))
  .filter(({ op }) => fieldsOf(op.output).includes('items'))
  .map(({ op, name }) => ({ name, input: fieldsOf(op.input), output: fieldsOf(op.output) }))

test('every list of a project can be asked over all projects', () => {
  assert.ok(lists.length >= 7, lists.map(({ name }) => name).join(' '))
  for (const { name, input, output } of lists) {
    assert.ok(input.includes('all_projects'), `${name} takes all_projects`)
    assert.ok(output.includes('more_projects'), `${name} answers with more_projects`)
  }
})

const personIn = (id: string, roles: Readonly<Record<string, ProjectRole>>): Actor => ({
  id,
  kind: 'human',
  projects: new Map(Object.entries(roles)),
})
const alice = personIn('user_alice', { project_default: 'member', project_blue: 'owner', project_green: 'member' })
const bob = personIn('user_bob', { project_default: 'member', project_blue: 'member', project_green: 'member', project_red: 'owner' })

async function worldOfProjects(): Promise<World> {
  const world = await createWorld()
  for (const name of ['blue', 'green', 'red']) await world.call('admin', 'identity/project.add', { id: `project_${name}`, name })
  return world
}
async function created(world: World, actor: Actor, project_id: string, goal: string): Promise<string> {
  const { task } = (await world.kernel.call('collaboration/task.create', { project_id, spec: { goal } }, actor)) as { task: { id: string } }
  return task.id
}

test('every such list takes a project, all, or the default, never two of them, and counts the projects that it leaves out', async () => {
  const world = await worldOfProjects()
  const owner = personIn('user_owner', { project_default: 'owner', project_blue: 'owner', project_green: 'owner' })
  for (const { name } of lists) {
    const ask = (input: object, actor = owner) => world.kernel.call(name, input, actor) as Promise<{ more_projects?: number }>
    assert.equal((await ask({})).more_projects, 2, name)
    assert.equal((await ask({ project_id: 'project_blue' })).more_projects, undefined, name)
    assert.equal((await ask({ all_projects: true })).more_projects, undefined, name)
    await assert.rejects(ask({ project_id: 'project_blue', all_projects: true }), { code: 'INVALID_REQUEST', message: /not both/ }, name)
    await assert.rejects(ask({ project_id: 'project_red' }), { code: 'NOT_FOUND' }, name)
    await assert.rejects(ask({}, personIn('user_owner', { project_blue: 'owner' })), { code: 'NOT_FOUND', message: /all_projects/ }, name)
    const many = Object.fromEntries(Array.from({ length: limits.projectsPerListMax + 3 }, (_, i) => [`project_${i}`, 'owner'] as const))
    assert.equal((await ask({ all_projects: true }, personIn('user_owner', many))).more_projects, 3, name)
  }
  await world.close()
})

test('tasks of all projects are listed page by page in order, each once, and only readable ones', async () => {
  const world = await worldOfProjects()
  const expected: string[] = []
  const inTurn = ['project_default', 'project_blue', 'project_green']
  for (let i = 0; i < 12; i++) expected.push(await created(world, alice, inTurn[i % 3]!, `own ${i}`))
  const inBlue = await created(world, bob, 'project_blue', 'in a project that alice owns')
  await created(world, bob, 'project_green', 'in a project where alice is a member')
  await created(world, bob, 'project_red', 'in a project that alice is not in')
  for (const order of ['newest', 'oldest'] as const) {
    const found: string[] = []
    for (let cursor: string | undefined; ;) {
      const input = { all_projects: true, limit: 5, order, ...(cursor === undefined ? {} : { cursor }) }
      const page = (await world.kernel.call('collaboration/task.list', input, alice)) as {
        items: { id: string }[]
        next_cursor: string | null
      }
      assert.ok(page.items.length <= 5)
      found.push(...page.items.map(({ id }) => id))
      if (page.next_cursor === null) break
      cursor = page.next_cursor
    }
    assert.deepEqual(order === 'oldest' ? found : found.toReversed(), [...expected, inBlue])
  }
  const everything = (await world.call('admin', 'collaboration/task.list', { all_projects: true })) as { items: unknown[] }
  assert.equal(everything.items.length, 15)
  await world.close()
})
