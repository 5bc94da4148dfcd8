// Passkeys: enrolment, signed answers, and every assertion that does not count.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { enrol, signed, signFrom } from '../../support/passkeys/sign.ts'
import { createAuthenticator, WITHOUT_VERIFICATION, type Said } from '../../support/passkeys/authenticator.ts'
import { linesOf, refusalOf } from '../../support/in-process/stage.ts'
import { createWorld, stateHash, type World } from '../../support/in-process/world.ts'

const RESOLVE = 'execution/request.resolve'
const DAY_MS = 86_400_000
const ask = async (world: World, more: object = {}): Promise<string> => {
  const input = { action: 'APPROVE', risk: 'R4', payload: { item: 'Deploy?', details: { to: 'production' } }, ...more }
  return (await world.call('devin', 'execution/request.create', input)).request.id
}
const yes = (request_id: string): { request_id: string; result: string } => ({ request_id, result: 'approved' })

for (const alg of ['ES256', 'EdDSA'] as const)
  test(`an answer of R4 counts only with the signature of a passkey: ${alg}`, async () => {
    const world = await createWorld()
    await signFrom(world, 'R4')
    const input = yes(await ask(world))
    const required = await refusalOf(world.call('alice', RESOLVE, input))
    assert.equal(required.code, 'PASSKEY_REQUIRED')
    const device = await enrol(world, 'alice', createAuthenticator(alg))
    await world.call('alice', RESOLVE, await signed(world, 'alice', device, 'request.resolve', input))
    const [lower] = [await ask(world, { risk: 'R3' })]
    await world.call('alice', RESOLVE, yes(lower))
    const added = (await linesOf(world)).find(({ action }) => action === 'identity/passkey.added')
    assert.equal(added.detail.jwk.kty, alg === 'ES256' ? 'EC' : 'OKP')
    assert.equal(added.detail.is_first, true)
  })

test('a vote counts only with a signature, and the policy of the installation holds in every project', async () => {
  const world = await createWorld()
  await world.call('owner', 'execution/policy.set', { installation: true, passkey_from: 'R4' })
  const input = yes(await ask(world, { quorum: { n: 2, of: ['user_alice', 'user_rita'] } }))
  assert.equal((await refusalOf(world.call('rita', RESOLVE, input))).code, 'PASSKEY_REQUIRED')
  for (const who of ['alice', 'rita']) {
    const device = await enrol(world, who)
    await world.call(who, RESOLVE, await signed(world, who, device, RESOLVE, input))
  }
  const { receipt } = await world.call('devin', 'execution/request.get', { request_id: input.request_id })
  assert.equal(receipt.result, 'approved')
})

test('each assertion about something else is refused, and changes nothing', async (t) => {
  const world = await createWorld()
  await signFrom(world, 'R4')
  const [alice, rita] = [await enrol(world, 'alice'), await enrol(world, 'rita')]
  const quorum = { quorum: { n: 2, of: ['user_alice', 'user_rita'] } }
  const [input, other] = [yes(await ask(world, quorum)), yes(await ask(world, quorum))]
  const sign = (by = alice, said?: Said, about: object = input, as = 'alice') => signed(world, as, by, RESOLVE, about, said)
  const assertionOf = async (given: Promise<object>) => ((await given) as { assertion: object }).assertion
  const cases: Record<string, () => Promise<object>> = {
    'of another request': async () => ({ ...input, assertion: await assertionOf(sign(alice, {}, other)) }),
    'of another result': async () => ({ ...input, result: 'rejected', reason: 'no', assertion: await assertionOf(sign()) }),
    'with another reason': async () => ({ ...input, reason: 'because', assertion: await assertionOf(sign()) }),
    'of another person': () => sign(rita),
    'for the challenge of another person': async () => ({ ...input, assertion: await assertionOf(sign(rita, {}, input, 'rita')) }),
    'from another origin': () => sign(alice, { origin: 'http://localhost:9999' }),
    'for another site': () => sign(alice, { rp: 'evil.example' }),
    'without user verification': () => sign(alice, { flags: WITHOUT_VERIFICATION }),
    'from a frame': () => sign(alice, { crossOrigin: true }),
    'of a registration': () => sign(alice, { type: 'webauthn.create' }),
    'of a device that nobody enrolled': () => sign(createAuthenticator()),
    'with another nonce': async () => ({ ...input, assertion: { ...(await assertionOf(sign())), nonce: 'bm9uY2U' } }),
    'with a counter that went back': async () => {
      const used = yes(await ask(world))
      await world.call('alice', RESOLVE, await sign(alice, { counter: 50 }, used))
      return sign(alice, { counter: 49 })
    },
  }
  for (const [name, make] of Object.entries(cases))
    await t.test(name, async () => {
      const wrong = await make()
      const before = await stateHash(world.store)
      const refusal = await refusalOf(world.call('alice', RESOLVE, wrong))
      assert.equal(refusal.code, 'ASSERTION_INVALID', refusal.message)
      assert.equal(await stateHash(world.store), before)
    })
})

test('a challenge is good once, for five minutes, in whichever tab it is used first', async () => {
  const world = await createWorld()
  await signFrom(world, 'R4')
  const device = await enrol(world, 'alice')
  const quorum = { quorum: { n: 2, of: ['user_alice', 'user_rita'] } }
  const input = yes(await ask(world, quorum))
  const [one, two] = [await signed(world, 'alice', device, RESOLVE, input), await signed(world, 'alice', device, RESOLVE, input)]
  const both = await Promise.allSettled([world.call('alice', RESOLVE, one), world.call('alice', RESOLVE, two)])
  assert.deepEqual(both.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  const again = yes(await ask(world))
  const old = await signed(world, 'alice', device, RESOLVE, again)
  world.advance(5 * 60_000)
  assert.equal((await refusalOf(world.call('alice', RESOLVE, old))).code, 'ASSERTION_INVALID')
  const fresh = await signed(world, 'alice', device, RESOLVE, again)
  await world.call('alice', RESOLVE, fresh)
  const replayed = { ...yes(await ask(world)), assertion: (fresh as { assertion: object }).assertion }
  assert.equal((await refusalOf(world.call('alice', RESOLVE, replayed))).code, 'ASSERTION_INVALID')
})

test('an item that changed between showing and signing is not answered', async () => {
  const world = await createWorld()
  await signFrom(world, 'R4')
  const device = await enrol(world, 'alice')
  const request_id = await ask(world)
  const { item } = await world.call('alice', 'execution/inbox.get', { request_id })
  const input = await signed(world, 'alice', device, RESOLVE, yes(request_id))
  await world.call('alice', 'execution/request.question', { request_id, text: 'Which version?' })
  assert.equal((await refusalOf(world.call('alice', RESOLVE, input))).code, 'ASSERTION_INVALID')
  const changed = await refusalOf(
    world.call('alice', 'identity/passkey.challenge', { operation: RESOLVE, input: { ...yes(request_id), digest: item.digest } }),
  )
  assert.equal(changed.code, 'CHANGED')
})

test('a further passkey counts when an enrolled one signs it, otherwise after a day; a removed one counts no more', async () => {
  const world = await createWorld()
  await signFrom(world, 'R4')
  const first = await enrol(world, 'alice')
  const [late, vouched] = [createAuthenticator(), createAuthenticator('EdDSA')]
  await enrol(world, 'alice', late)
  const answer = async (device = first): Promise<unknown> =>
    world.call('alice', RESOLVE, await signed(world, 'alice', device, RESOLVE, yes(await ask(world))))
  assert.match((await refusalOf(answer(late))).message, /counts from/)
  world.advance(DAY_MS)
  await answer(late)
  const { challenge } = await world.call('alice', 'identity/passkey.challenge', { operation: 'passkey.add', input: {} })
  await world.call(
    'alice',
    'identity/passkey.add',
    await signed(world, 'alice', first, 'passkey.add', { credential: vouched.create(challenge) }),
  )
  await answer(vouched)
  const { items } = await world.call('alice', 'identity/passkey.list')
  assert.equal(items.length, 3)
  const { id } = items.find((one: { credential_id: string }) => one.credential_id === first.id)
  await world.call('alice', 'identity/passkey.remove', { passkey_id: id })
  assert.match((await refusalOf(answer())).message, /was removed/)
  // A person who has ever had a passkey cannot begin again without a delay.
  for (const one of items) if (one.id !== id) await world.call('alice', 'identity/passkey.remove', { passkey_id: one.id })
  const next = await enrol(world, 'alice')
  assert.match((await refusalOf(answer(next))).message, /counts from/)
})

test('a reset by an owner counts after a day: then the old passkeys count no more, and the next one counts immediately', async () => {
  const world = await createWorld()
  await signFrom(world, 'R4')
  const lost = await enrol(world, 'alice')
  const answer = async (device = lost): Promise<unknown> =>
    world.call('alice', RESOLVE, await signed(world, 'alice', device, RESOLVE, yes(await ask(world))))
  assert.equal((await refusalOf(world.call('rita', 'identity/passkey.reset', { person: 'user_alice' }))).code, 'UNAUTHORIZED')
  await world.call('owner', 'identity/passkey.reset', { person: 'user_alice' })
  await answer()
  world.advance(DAY_MS)
  assert.match((await refusalOf(answer())).message, /was removed/)
  await answer(await enrol(world, 'alice'))
})

test('the threshold is lowered only with a signature, and by nobody below an owner', async () => {
  const world = await createWorld()
  await signFrom(world, 'R4')
  const lower = { project_id: 'project_default', passkey_from: 'R5' }
  for (const passkey_from of ['R5', 'off', null])
    assert.equal((await refusalOf(world.call('owner', 'execution/policy.set', { ...lower, passkey_from }))).code, 'PASSKEY_REQUIRED')
  assert.equal((await refusalOf(world.call('alice', 'execution/policy.set', lower))).code, 'UNAUTHORIZED')
  assert.equal((await refusalOf(world.call('alice', 'execution/policy.set', { passkey_from: 'R5' }))).code, 'INVALID_REQUEST')
  await signFrom(world, 'R3')
  const device = await enrol(world, 'owner')
  await world.call('owner', 'execution/policy.set', await signed(world, 'owner', device, 'policy.set', { ...lower, passkey_from: 'off' }))
  await world.call('alice', RESOLVE, yes(await ask(world)))
})

test('a passkey is not for an agent, not enrolled twice, and not removed by another person', async () => {
  const world = await createWorld()
  const device = await enrol(world, 'alice')
  const add = async (as: string): Promise<unknown> => {
    const { challenge } = await world.call(as, 'identity/passkey.challenge', { operation: 'passkey.add', input: {} })
    return world.call(as, 'identity/passkey.add', { credential: device.create(challenge) })
  }
  assert.equal((await refusalOf(add('devin'))).code, 'UNAUTHORIZED')
  assert.equal((await refusalOf(add('alice'))).code, 'CONFLICT')
  assert.equal((await refusalOf(add('rita'))).code, 'CONFLICT')
  const { items } = await world.call('alice', 'identity/passkey.list')
  assert.equal((await refusalOf(world.call('rita', 'identity/passkey.remove', { passkey_id: items[0].id }))).code, 'NOT_FOUND')
  const { challenge } = await world.call('bob', 'identity/passkey.challenge', { operation: 'passkey.add', input: {} })
  for (const said of [{ flags: WITHOUT_VERIFICATION }, { rp: 'evil.example' }, { origin: 'http://evil.example' }, { type: 'webauthn.get' }])
    assert.equal(
      (await refusalOf(world.call('bob', 'identity/passkey.add', { credential: createAuthenticator().create(challenge, said) }))).code,
      'ASSERTION_INVALID',
    )
  const none = await refusalOf(world.call('bob', 'identity/passkey.challenge', { operation: 'request.decline', input: {} }))
  assert.equal(none.code, 'INVALID_REQUEST')
})
