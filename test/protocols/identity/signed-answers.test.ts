// Answers that people sign at tasks, and the receipts that carry their signatures: holders can check one, and the operator cannot make one.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verifyReceipt, type EnrolledPasskey } from '#sdk/receipt.ts'
import { enrol, signed, signFrom } from '../../support/passkeys/sign.ts'
import { createAuthenticator } from '../../support/passkeys/authenticator.ts'
import { linesOf, refusalOf } from '../../support/in-process/stage.ts'
import { inputOf } from '../../support/in-process/examples.ts'
import { testJwks, testNotary } from '../../support/in-process/notary.ts'
import { createWorld, type World } from '../../support/in-process/world.ts'
import { protocols } from '#protocols/index.ts'

const collaboration = protocols.find(({ name }) => name === 'collaboration')!
const [RESOLVE, AT_CHECKPOINT] = ['execution/request.resolve', 'collaboration/checkpoint.resolve']
const example = async (world: World, name: string): Promise<any> => {
  const op = collaboration.operations.find((each) => each.name === name)!
  return inputOf(op.example, await world.play(collaboration.scenes[op.example.given]!))
}
const enrolled = async (world: World, as: string): Promise<EnrolledPasskey[]> => (await world.call(as, 'identity/passkey.list')).items

for (const [operation, action] of [
  ['review.submit', 'collaboration/review.submitted'],
  ['grant.add', 'collaboration/grant.added'],
] as const)
  test(`${operation} counts only with a signature, which its fact holds`, async () => {
    const world = await createWorld()
    await signFrom(world, 'R5')
    const input = await example(world, operation)
    const name = `collaboration/${operation}`
    assert.equal((await refusalOf(world.call('alice', name, input))).code, 'PASSKEY_REQUIRED')
    const device = await enrol(world, 'alice')
    await world.call('alice', name, await signed(world, 'alice', device, name, input))
    const line = (await linesOf(world)).find((each) => each.action === action)
    assert.equal(line.detail.assertion.operation, name)
    assert.equal(line.detail.assertion.credential_id, device.id)
  })

test('A scope is forbidden without a signature, and a task begins with no grant that allows', async () => {
  const world = await createWorld()
  await signFrom(world, 'R5')
  const input = await example(world, 'grant.add')
  await world.call('alice', 'collaboration/grant.add', { ...input, decision: 'deny', uses: undefined })
  const task = { spec: { goal: 'Deploy', acceptance_criteria: ['it runs'] } }
  const grants = [{ scope: 'deploy', decision: 'allow', until: 'task' }]
  assert.equal((await refusalOf(world.call('alice', 'collaboration/task.create', { ...task, grants }))).code, 'PASSKEY_REQUIRED')
  await world.call('alice', 'collaboration/task.create', { ...task, grants: [{ ...grants[0]!, decision: 'deny' }] })
})

test('An answer at a checkpoint needs the signature that the item in the inbox needs, and its receipt carries it', async () => {
  const world = await createWorld()
  await signFrom(world, 'R1')
  const input = await example(world, 'checkpoint.resolve')
  assert.equal((await refusalOf(world.call('alice', AT_CHECKPOINT, input))).code, 'PASSKEY_REQUIRED')
  const device = await enrol(world, 'alice')
  const { item } = await world.call('alice', 'execution/inbox.get', { request_id: input.checkpoint_id.replace('ckpt_', 'hxp_') })
  const shown = { ...input, digest: item.digest }
  const other = await signed(world, 'alice', device, AT_CHECKPOINT, { ...shown, comment: 'Another word.' })
  const { assertion } = other as { assertion: object }
  assert.equal((await refusalOf(world.call('alice', AT_CHECKPOINT, { ...shown, assertion }))).code, 'ASSERTION_INVALID')
  await world.call('alice', AT_CHECKPOINT, await signed(world, 'alice', device, AT_CHECKPOINT, shown))
  const { receipt } = await world.call('alice', 'execution/request.get', { request_id: item.request_id })
  assert.equal(receipt.assertion.operation, AT_CHECKPOINT)
  const verdict = await verifyReceipt(receipt, { jwks: testJwks, passkeys: await enrolled(world, 'alice') })
  assert.ok(verdict.ok, JSON.stringify(verdict))
  assert.equal(verdict.claims.v, 2)
})

type Signed = { readonly world: World; readonly receipt: any; readonly passkeys: EnrolledPasskey[] }
async function signedReceipt(more: object = {}, answer: object = { result: 'approved' }): Promise<Signed> {
  const world = await createWorld()
  const device = await enrol(world, 'alice', createAuthenticator('EdDSA'))
  const asked = { action: 'APPROVE', risk: 'R4', payload: { item: 'Deploy?', details: { to: 'production' } }, ...more }
  const { request } = await world.call('devin', 'execution/request.create', asked)
  await world.call('alice', RESOLVE, await signed(world, 'alice', device, RESOLVE, { request_id: request.id, ...answer }))
  const { receipt } = await world.call('devin', 'execution/request.get', { request_id: request.id })
  return { world, receipt, passkeys: await enrolled(world, 'alice') }
}

test('A receipt that a person has signed is genuine with their passkey, and without it by its digests', async () => {
  const { receipt, passkeys } = await signedReceipt({}, { result: 'rejected', reason: 'Not today.' })
  for (const options of [{}, { passkeys }]) {
    const verdict = await verifyReceipt(receipt, { jwks: testJwks, ...options })
    assert.ok(verdict.ok, JSON.stringify(verdict))
    assert.deepEqual(verdict.claims.assertion, receipt.assertion)
  }
  const unknown = await verifyReceipt(receipt, { jwks: testJwks, passkeys: [] })
  assert.equal(!unknown.ok && unknown.reason, 'unknown_passkey')
})

test('An edited approval and a secret keep digests that a holder can check', async () => {
  const details_schema = { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] }
  const edited = await signedReceipt(
    { payload: { item: 'Deploy?', details: { to: 'production' }, details_schema } },
    { result: 'approved', edited: { to: 'staging' } },
  )
  const secret = await signedReceipt(
    { action: 'PROVIDE', payload: { prompt: 'The code', input_type: 'text', sensitive: true } },
    { result: '1234' },
  )
  for (const { receipt, passkeys } of [edited, secret]) {
    const verdict = await verifyReceipt(receipt, { jwks: testJwks, passkeys })
    assert.ok(verdict.ok, JSON.stringify(verdict))
  }
})

test('An operator with every key of the server cannot change what a person has signed', async (t) => {
  const { world, receipt, passkeys } = await signedReceipt()
  const genuine = await verifyReceipt(receipt, { jwks: testJwks, passkeys })
  assert.ok(genuine.ok)
  const { claims } = genuine
  const assertion = claims.assertion!
  const flipped = (text: string): string => (text.startsWith('A') ? 'B' : 'A') + text.slice(1)
  const other = await signedReceipt({ payload: { item: 'Delete?', details: {} } })
  const cases: Record<string, object> = {
    'another result': { result: 'rejected' },
    'another reason': { reason: 'sure' },
    'edited details': { edited: { to: 'staging' } },
    'another request': { request_digest: flipped(claims.request_digest) },
    'another card': { shown_digest: flipped(claims.shown_digest!) },
    'the signature of another answer': { assertion: other.receipt.assertion },
    'another nonce': { assertion: { ...assertion, nonce: flipped(assertion.nonce) } },
    'another signature': { assertion: { ...assertion, signature: flipped(assertion.signature) } },
    'another operation': { assertion: { ...assertion, operation: 'collaboration/grant.add' } },
    'a word for the answer': { assertion: { ...assertion, said: { word: 'approve', digest: assertion.result_digest } } },
  }
  for (const [name, changes] of Object.entries(cases))
    await t.test(name, async () => {
      const signature = await testNotary.attest({ ...claims, ...changes })
      const { signature: _, ...rest } = { ...receipt, ...changes }
      const shown = { ...rest, signature, key_id: 'test' }
      const verdict = await verifyReceipt(shown, { jwks: testJwks, passkeys })
      assert.equal(!verdict.ok && verdict.reason, 'wrong_assertion', JSON.stringify(verdict))
    })
  const { assertion: _, ...without } = receipt
  const taken = await verifyReceipt(without, { jwks: testJwks })
  assert.deepEqual(!taken.ok && taken.fields, ['assertion'])
  assert.equal((await world.call('alice', 'execution/receipt.verify', { receipt })).valid, true)
})

test('Of a pool and of votes a receipt carries digests, so that pseudonyms stay pseudonyms', async () => {
  const world = await createWorld()
  const quorum = { quorum: { n: 2, of: ['user_alice', 'user_rita'] } }
  const asked = { action: 'APPROVE', risk: 'R4', payload: { item: 'Deploy?', details: {} }, ...quorum }
  const { request } = await world.call('devin', 'execution/request.create', asked)
  for (const who of ['alice', 'rita']) {
    const device = await enrol(world, who)
    await world.call(who, RESOLVE, await signed(world, who, device, RESOLVE, { request_id: request.id, result: 'approved' }))
  }
  const { receipt } = await world.call('devin', 'execution/request.get', { request_id: request.id })
  const verdict = await verifyReceipt(receipt, { jwks: testJwks })
  assert.ok(verdict.ok, JSON.stringify(verdict))
  const { votes, v } = verdict.claims as unknown as { v: number; votes: { assertion_digest: string }[] }
  assert.equal(v, 2)
  assert.ok(votes.every(({ assertion_digest }) => /^[\w-]{43}$/.test(assertion_digest)))
  assert.ok(!JSON.stringify(verdict.claims).includes('credential_id'))
})
