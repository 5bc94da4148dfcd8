// Steps: calls that are part of the batch of another one. All are carried out or none, in the chains that they belong to, with the checks of a call of
// their own.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { isPostgresOff } from '../../support/as-processes/postgres.ts'
import { postgresMaker } from '../../support/as-processes/postgres-stores.ts'
import { createWorld, stateHash, storeMakers, type World } from '../../support/in-process/world.ts'

type Steps = { call: string; input: object }[]
const apply = (world: World, steps: Steps, as = 'owner', part = 'installation'): Promise<any> =>
  world.call(as, 'identity/config.apply', { name: 'test', part, owns: [], steps })
const person = { call: 'identity/user.add', input: { id: 'user_nora', name: 'Nora', project_id: null } }
const join = (project_id: string, subject: string, role: string) => ({
  call: 'identity/project.join',
  input: { project_id, subject, role },
})
const group = (project_id: string, members: string[]) => ({ call: 'execution/group.set', input: { project_id, name: 'on-call', members } })
const blue: Steps = [
  { call: 'identity/project.add', input: { id: 'project_blue', name: 'Blue' } },
  person,
  join('project_blue', 'user_nora', 'member'),
  group('project_blue', ['user_nora', 'user_owner']),
  { call: 'execution/policy.set', input: { project_id: 'project_blue', floors: [{ risk: 'R3' }] } },
]

for (const { name, open, dispose } of [...storeMakers(), ...(isPostgresOff ? [] : [postgresMaker()])]) {
  after(dispose)
  test(`${name}: steps in two chains are one batch, and both chains verify`, async () => {
    const world = await createWorld({ store: await open() })
    const { batches } = world.store.stats()
    await apply(world, blue)
    assert.equal(world.store.stats().batches - batches, 1)
    const rename = { call: 'identity/user.update', input: { user_id: 'user_nora', name: 'Nora N.' } }
    await apply(world, [rename, group('project_blue', ['user_nora'])])
    const owner = { ...world.cast['owner']!, projects: new Map([['project_blue', 'owner']] as const) }
    const { items }: any = await world.kernel.call('collaboration/audit.query', { project_id: 'project_blue' }, owner)
    assert.deepEqual(
      items.map(({ action, seq, cause, actor }: any) => [action, seq, cause, actor]),
      [
        ['group.set', 1, null, 'user_owner'],
        ['group.set', 2, null, 'user_owner'],
      ],
    )
    for (const project_id of ['system', 'project_blue']) {
      const verified: any = await world.kernel.call('collaboration/audit.verify', { project_id }, owner)
      assert.equal(verified.valid, true)
    }
    await world.close()
  })

  test(`${name}: a refused step undoes those before it, and is named`, async () => {
    const world = await createWorld({ store: await open() })
    const before = await stateHash(world.store)
    await assert.rejects(apply(world, [...blue, group('project_blue', ['user_mallory'])]), {
      code: 'NOT_FOUND',
      details: { field: 'members', step: 5 },
    })
    assert.equal(await stateHash(world.store), before)
    await apply(world, blue)
    await world.close()
  })
}

test('a step is authorized for the caller, with the rights that earlier steps gave and took', async () => {
  const world = await createWorld()
  await assert.rejects(apply(world, [person], 'alice', 'project_default'), { code: 'UNAUTHORIZED' })
  await assert.rejects(apply(world, [group('project_default', ['user_bob'])], 'admin'), { code: 'UNAUTHORIZED' })
  const floors = { call: 'execution/policy.set', input: { project_id: 'project_default', floors: [{ risk: 'R2' }] } }
  await assert.rejects(apply(world, [join('project_default', 'user_owner', 'member'), floors]), { code: 'UNAUTHORIZED' })
  await apply(world, [floors, join('project_default', 'user_owner', 'member')])
  // Of another project, whose owner can change that one alone.
  await assert.rejects(apply(world, [person], 'mallory', 'project_other'), { code: 'UNAUTHORIZED' })
  await apply(world, [group('project_other', ['user_mallory'])], 'mallory', 'project_other')
})

test('a key of one project gets no rights by steps that it did not have', async () => {
  const world = await createWorld()
  const partial = { ...world.cast['owner']!, owner: false, narrowed: true, partial: true }
  const input = { name: 'test', part: 'project_default', owns: [], steps: [person] }
  await assert.rejects(world.kernel.call('identity/config.apply', input, partial), { code: 'UNAUTHORIZED' })
})

test('a step that needs a signature is refused without one', async () => {
  const world = await createWorld()
  const policy = (passkey_from: string) => ({ call: 'execution/policy.set', input: { project_id: 'project_default', passkey_from } })
  await apply(world, [policy('R3')])
  await assert.rejects(apply(world, [policy('R5')]), { code: 'PASSKEY_REQUIRED' })
})

test('only commands that configure can be steps, with the input of their own', async () => {
  const world = await createWorld()
  const refusals: readonly (readonly [string, object, RegExp])[] = [
    ['execution/request.resolve', {}, /cannot be a step/],
    ['identity/config.apply', { name: 'a', part: 'installation', owns: [], steps: [] }, /cannot be a step/],
    ['identity/user.list', {}, /cannot be a step/],
    ['nothing/at.all', {}, /cannot be a step/],
    ['identity/user.add', { name: 'Nora', rolle: 'owner' }, /rolle is not a field here/],
    ['identity/user.add', { name: '' }, /name/],
  ]
  const before = await stateHash(world.store)
  for (const [call, input, message] of refusals)
    await assert.rejects(apply(world, [{ call, input }]), (error: any) => message.test(error.message) && error.details.step === 0, call)
  assert.equal(await stateHash(world.store), before)
})

test('more steps than consequences of one call are possible, up to their bound', async () => {
  const world = await createWorld()
  const people = Array.from({ length: 2 * limits.consequencesMax }, (_, i) => ({
    call: 'identity/user.add',
    input: { name: `Person ${i}` },
  }))
  await apply(world, people)
  await assert.rejects(
    apply(
      world,
      Array.from({ length: limits.configStepsMax + 1 }, () => person),
    ),
    { code: 'INVALID_REQUEST' },
  )
})
