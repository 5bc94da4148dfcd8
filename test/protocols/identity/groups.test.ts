// Groups of issuers that are linked to groups of projects: the last sign-in says who is in them, the links say what that gives, and both are conditions
// of every commit.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAuthenticator } from '#apps/server/identity/authenticator.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { linesOf, refusalOf } from '../../support/in-process/stage.ts'
import { APPROVE, requests } from '../../support/in-process/requests.ts'
import { createWorld, type World, type WorldOptions } from '../../support/in-process/world.ts'

const issuer = 'https://login.example.com'
const PROJECT = { project_id: 'project_default' }
const finance = { ...PROJECT, name: 'finance', issuer, claim: 'grp-finance' }
const spec = { goal: 'Fix it', acceptance_criteria: ['it works'] }

const worldOf = (options: WorldOptions = {}): Promise<World> => createWorld({ doesErrands: true, ...options })

/** A person of an issuer who is in no project of ours; `call` resolves their session for each call. */
async function signedIn(world: World, sub: string, groups: readonly string[]) {
  const open = async (now: readonly string[]): Promise<any> =>
    world.call('system', 'identity/subject.sign_in', { issuer, sub, create: true, groups: now })
  const { session, user } = await open(groups)
  const { authenticate } = createAuthenticator(world.kernel)
  const actor = async (): Promise<Actor> => authenticate({ kind: 'session', token: session })
  return {
    id: user.id as string,
    actor,
    signsIn: open,
    call: (name: string, input: object = {}): Promise<any> => world.kernel.call(name, input, actor),
    projects: async (): Promise<unknown> => ((await world.kernel.call('identity/me.get', {}, actor)) as { projects: unknown }).projects,
  }
}
const asMember = [{ project_id: 'project_default', role: 'member' }]

test('a linked group gives its people a role, at their next sign-in and where they have signed in before', async () => {
  const world = await worldOf()
  const before = await signedIn(world, 'carl', ['grp-finance', 'all'])
  assert.deepEqual(await before.projects(), [])
  await world.call('owner', 'identity/group.link', finance)
  assert.deepEqual(await before.projects(), asMember)
  const after = await signedIn(world, 'dora', ['grp-finance'])
  assert.deepEqual(await after.projects(), asMember)
  assert.deepEqual(await (await signedIn(world, 'emil', ['grp-sales'])).projects(), [])
  await after.call('collaboration/task.create', { spec })
  const { items } = await world.call('owner', 'execution/group.list')
  assert.deepEqual(
    items.map(({ name, members, linked, by_sign_in }: any) => [name, members, linked, by_sign_in.toSorted()]),
    [['finance', [], [{ issuer, claim: 'grp-finance', role: 'member' }], [before.id, after.id].toSorted()]],
  )
  const { items: forAgents } = await world.call('devin', 'execution/group.list')
  assert.deepEqual(forAgents[0].linked, [], 'agents learn nothing of the issuer')
  const { items: people } = await world.call('owner', 'identity/user.list', PROJECT)
  assert.ok(
    people.some(({ id }: { id: string }) => id === before.id),
    'they are people of the project',
  )
})

test('a person who signs in without the group, or whose account is unlinked, loses the role; one of their own stays', async () => {
  const world = await worldOf()
  await world.call('owner', 'identity/group.link', { ...finance, role: 'owner' })
  const [carl, dora] = [await signedIn(world, 'carl', ['grp-finance']), await signedIn(world, 'dora', ['grp-finance'])]
  await world.call('owner', 'identity/project.join', { ...PROJECT, subject: carl.id, role: 'viewer' })
  assert.deepEqual(await carl.projects(), [{ project_id: 'project_default', role: 'owner' }], 'the stronger one counts')
  await carl.signsIn([])
  assert.deepEqual(await carl.projects(), [{ project_id: 'project_default', role: 'viewer' }])
  await world.call('admin', 'identity/subject.unlink', { issuer, sub: 'dora' })
  const { user } = await world.call('owner', 'identity/user.get', { user_id: dora.id })
  assert.deepEqual(user.by_groups, [])
})

test('unlinking takes the role away in the same moment: from the next call, and from one that is being decided', async () => {
  // Without errands, only the link itself says so.
  const world = await worldOf({ doesErrands: false })
  await world.call('owner', 'identity/group.link', finance)
  const carl = await signedIn(world, 'carl', ['grp-finance'])
  const outdated = await carl.actor()
  await world.call('owner', 'identity/group.unlink', finance)
  assert.deepEqual(await carl.projects(), [])
  assert.equal((await refusalOf(carl.call('collaboration/task.create', { spec }))).code, 'NOT_FOUND')
  assert.equal((await refusalOf(world.kernel.call('collaboration/task.create', { spec }, outdated))).code, 'CONFLICT')
  await world.call('system', 'identity/group.spread', {
    link: [...(outdated.proof?.keys() ?? [])].find((key) => key.includes('glink_'))!.split('/')[1]!,
  })
  const { user } = await world.call('owner', 'identity/user.get', { user_id: carl.id })
  assert.deepEqual(user.by_groups, [])
  const refusal = await refusalOf(world.call('owner', 'identity/group.unlink', finance))
  assert.deepEqual([refusal.code, /is not linked to finance/.test(refusal.message)], ['NOT_FOUND', true])
})

test('a link with another role replaces the first, and the same link again changes nothing', async () => {
  const world = await worldOf()
  const carl = await signedIn(world, 'carl', ['grp-finance'])
  await world.call('owner', 'identity/group.link', finance)
  const written = (await linesOf(world)).length
  await world.call('owner', 'identity/group.link', finance)
  assert.equal((await linesOf(world)).length, written)
  await world.call('owner', 'identity/group.link', { ...finance, role: 'viewer' })
  assert.deepEqual(await carl.projects(), [{ project_id: 'project_default', role: 'viewer' }])
  const actions = (await linesOf(world)).slice(written).map(({ action }: { action: string }) => action)
  assert.deepEqual(actions, ['identity/group.linked', 'identity/user.grouped'])
})

test('an owner links groups of their own projects alone, and every input has its bound', async () => {
  const world = await worldOf()
  const by = async (as: string, more: object): Promise<string> =>
    (await refusalOf(world.call(as, 'identity/group.link', { ...finance, ...more }))).code
  assert.equal(await by('alice', {}), 'UNAUTHORIZED')
  assert.equal(await by('mallory', {}), 'NOT_FOUND')
  assert.equal(await by('owner', { project_id: 'project_none' }), 'NOT_FOUND')
  assert.equal(await by('owner', { role: 'auditor' }), 'INVALID_REQUEST')
  assert.equal(await by('owner', { claim: 'x'.repeat(limits.groupClaimCharsMax + 1) }), 'INVALID_REQUEST')
  assert.equal(await by('owner', { name: 'two words' }), 'INVALID_REQUEST')
  for (let i = 0; i < limits.linksPerGroupMax; i++) await world.call('owner', 'identity/group.link', { ...finance, claim: `g${i}` })
  assert.equal(await by('owner', { claim: 'one-more' }), 'QUOTA_EXCEEDED')
  for (let i = 0; i < limits.placesPerClaimMax; i++)
    await world.call('owner', 'identity/group.link', { ...finance, name: `n${i}`, claim: 'wide' })
  assert.equal(await by('owner', { name: 'more', claim: 'wide' }), 'QUOTA_EXCEEDED')
  // A person in more groups than one document holds is in the first of them.
  await Promise.all(
    Array.from({ length: limits.placesPerClaimMax }, (_, i) =>
      world.call('owner', 'identity/group.link', { ...finance, name: `w${i}`, claim: 'wider' }),
    ),
  )
  for (let i = 0; i < 5; i++) await world.call('owner', 'identity/group.link', { ...finance, name: `v${i}`, claim: 'widest' })
  const { user } = await world.call('system', 'identity/subject.sign_in', {
    issuer,
    sub: 'carl',
    create: true,
    groups: ['wide', 'wider', 'widest'],
  })
  assert.equal(user.by_groups.length, limits.groupsPerPersonMax)
})

test('more people than one batch takes follow a link', async () => {
  const world = await worldOf()
  const count = limits.groupSpreadMax + 5
  for (let i = 0; i < count; i++)
    await world.call('system', 'identity/subject.sign_in', { issuer, sub: `s${i}`, create: true, groups: ['grp-finance'] })
  await world.call('owner', 'identity/group.link', finance)
  const { items } = await world.call('owner', 'identity/user.list', { ...PROJECT, limit: 200 })
  assert.equal(items.filter(({ by_groups }: any) => by_groups !== undefined).length, count)
})

test('people of a linked group answer by a rule for approvals, come to open questions, and leave them', async () => {
  const it = await requests()
  const { world } = it.on
  await it.call('owner', 'identity/group.link', finance)
  const carl = await signedIn(world, 'carl', ['grp-finance'])
  await it.call('owner', 'policy.set', { ...PROJECT, approvals: [{ from_risk: 'R4', by: { groups: ['finance'] } }] })
  const { id } = await it.ask({ ...APPROVE, risk: 'R4' })
  assert.deepEqual((await it.stored(id)).people, [carl.id])
  // Errands leave errands: one looks at the items of the person, the next at those of the group.
  const doErrands = async (): Promise<void> => {
    for (let round = 0; round < 4; round++) await it.on.ring()
  }
  await doErrands()
  const dora = await signedIn(world, 'dora', ['grp-finance'])
  await doErrands()
  assert.deepEqual((await it.stored(id)).people.toSorted(), [carl.id, dora.id].toSorted())
  await carl.signsIn([])
  assert.equal((await refusalOf(carl.call('execution/request.resolve', { request_id: id, result: 'approved' }))).code, 'NOT_FOUND')
  assert.equal((await dora.call('execution/request.resolve', { request_id: id, result: 'approved' })).request.status, 'completed')
})
