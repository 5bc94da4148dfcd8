// Sessions: how long each kind lasts, what a remembered device may do without a fresh sign-in, and how they are told apart.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAuthenticator } from '#apps/server/identity/authenticator.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { refusalOf } from '../../support/in-process/stage.ts'
import { createWorld, stateHash, type World } from '../../support/in-process/world.ts'

const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE

async function signedIn(world: World, user_id: string, remember: boolean) {
  const sessions = createAuthenticator(world.kernel)
  const { token } = await world.call('admin', 'identity/login.issue', { user_id })
  assert.equal(await sessions.whoseLink(token), user_id)
  const { session } = await sessions.open(token, { browser: 'Firefox on Android', address: '192.0.2.7', remember })
  assert.equal(await sessions.whoseLink(token), null, 'a link that was used names nobody')
  const actor = async (): Promise<Actor> => sessions.authenticate({ kind: 'session', token: session })
  return { actor, call: async (operation: string, input: object = {}): Promise<any> => world.kernel.call(operation, input, await actor()) }
}

const isOut = async (actor: () => Promise<Actor>): Promise<boolean> => (await refusalOf(actor()))?.code === 'UNAUTHENTICATED'

test('an ordinary session ends after 30 idle minutes; a remembered device after 30 days, used or not', async () => {
  const world = await createWorld()
  const [usual, remembered] = [await signedIn(world, 'user_alice', false), await signedIn(world, 'user_alice', true)]
  world.advance(limits.sessionIdleMs + 1_000)
  assert.ok(await isOut(usual.actor))
  assert.equal((await remembered.actor()).id, 'user_alice')
  world.advance(29 * DAY)
  assert.equal((await remembered.actor()).id, 'user_alice')
  world.advance(DAY)
  assert.ok(await isOut(remembered.actor))
})

test('sessions say their browser, address, whether they are remembered, and which one asks; one that was closed is over', async () => {
  const world = await createWorld()
  const [usual, remembered] = [await signedIn(world, 'user_alice', false), await signedIn(world, 'user_alice', true)]
  const { items } = await remembered.call('identity/session.list')
  assert.deepEqual(
    items.map(({ browser, address, remembered: isRemembered, current }: any) => [browser, address, isRemembered, current]),
    [
      ['Firefox on Android', '192.0.2.7', undefined, false],
      ['Firefox on Android', '192.0.2.7', true, true],
    ],
  )
  assert.ok(items.every((item: object) => !('digest' in item)))
  await usual.call('identity/session.close', { session_id: items[1].id })
  assert.ok(await isOut(remembered.actor))
})

/** Each way to answer something of R4, from either side, and each way to get more rights than the device has. */
const ways: Readonly<Record<string, (world: World) => Promise<readonly [string, object]>>> = {
  'request.resolve': async (world) => ['execution/request.resolve', { request_id: await asked(world, 'R4'), result: 'approved' }],
  'request.resolve of R5': async (world) => ['execution/request.resolve', { request_id: await asked(world, 'R5'), result: 'rejected' }],
  'request.decline': async (world) => ['execution/request.decline', { request_id: await asked(world, 'R4'), reason: 'not now' }],
  'checkpoint.resolve': async (world) => [
    'collaboration/checkpoint.resolve',
    { checkpoint_id: await blocked(world), action: 'choose', choice: 'a' },
  ],
  'checkpoint.decline': async (world) => ['collaboration/checkpoint.decline', { checkpoint_id: await blocked(world), reason: 'not now' }],
  'key.issue': () => Promise.resolve(['identity/key.issue', { subject: 'agent_devin' }]),
  'login.issue': () => Promise.resolve(['identity/login.issue', { user_id: 'user_alice' }]),
  'substitute.add': () =>
    Promise.resolve(['identity/substitute.add', { person: 'user_alice', substitute: 'user_bob', until: '2026-02-01T00:00:00Z' }]),
  'policy.set': () => Promise.resolve(['execution/policy.set', { floors: [] }]),
}

async function asked(world: World, risk: string): Promise<string> {
  const { request } = await world.call('devin', 'execution/request.create', {
    action: 'APPROVE',
    payload: { item: 'Delete it', details: {} },
    risk,
  })
  return request.id
}

async function blocked(world: World): Promise<string> {
  const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal: 'Ship it', acceptance_criteria: [] } })
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  await world.call('devin', 'collaboration/task.start', { task_id: task.id })
  const { checkpoint } = await world.call('devin', 'collaboration/checkpoint.raise', {
    task_id: task.id,
    kind: 'choice',
    prompt: 'Where to?',
    options: [
      { id: 'a', label: 'Production', risk: 'high' },
      { id: 'b', label: 'Staging', risk: 'low' },
    ],
  })
  return checkpoint.id
}

for (const [name, way] of Object.entries(ways))
  test(`a remembered device needs a sign-in of the last 15 minutes for ${name}; an ordinary session does not`, async () => {
    const world = await createWorld()
    const remembered = await signedIn(world, 'user_alice', true)
    world.advance(limits.proofMs)
    const usual = await signedIn(world, 'user_alice', false)
    world.advance(limits.proofMs)
    const [operation, input] = await way(world)
    await remembered.actor() // its use is noted before anything is compared
    const before = await stateHash(world.store)
    const refused = await refusalOf(remembered.call(operation, input))
    assert.deepEqual([refused.code, /sign in again/.test(refused.message)], ['PROOF_REQUIRED', true], refused.message)
    assert.equal(await stateHash(world.store), before)
    await usual.call(operation, input)
  })

test('up to R3 a remembered device decides; the record says that it was one', async () => {
  const world = await createWorld()
  const remembered = await signedIn(world, 'user_alice', true)
  world.advance(DAY)
  for (const risk of ['R1', 'R3']) {
    const { request } = await remembered.call('execution/request.resolve', { request_id: await asked(world, risk), result: 'approved' })
    assert.equal(request.status, 'completed')
  }
  const fresh = await signedIn(world, 'user_alice', true)
  const { receipt } = await fresh.call('execution/request.resolve', { request_id: await asked(world, 'R5'), result: 'approved' })
  assert.equal(receipt.status, 'completed')
})
