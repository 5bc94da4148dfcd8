// Answers that are secrets: sealed, delivered once to the asking agent, erased; everything else holds a commitment.
import { sealAnswer, type SealKey } from '#sdk/seal.ts'
import assert from 'node:assert/strict'
import { createHash, generateKeyPairSync, randomBytes, type KeyObject } from 'node:crypto'
import { test } from 'node:test'
import { CompactEncrypt, compactDecrypt } from 'jose'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { Reply } from '#kernel/log/outbox-document.ts'
import { limits } from '#kernel/limits.ts'
import type { Notary } from '#kernel/ports/notary.ts'
import { duePrefix, END, idIn } from '#kernel/declare/schema.ts'
import { Secret } from '#protocols/execution/answering/secret.ts'
import { newRing } from '#workers/keys/key-ring.ts'
import { createNotary } from '#workers/keys/notary.ts'
import { createWorld, stateHash, type World } from '../../../support/in-process/world.ts'

const SECRET = 'hunter2 and more — ünïcödé'
const realNotary = (): Notary => {
  const ring = newRing('2026-01-01T00:00:00.000Z')
  return createNotary(randomBytes(32), () => ring)
}
const worldWith = (notary = realNotary()): Promise<World> => createWorld({ notary })

async function asked(world: World, more: object = {}, as = 'devin', about: object = {}): Promise<string> {
  const payload = { prompt: 'The deploy token, please', input_type: 'text', sensitive: true, ...more }
  return (await world.call(as, 'execution/request.create', { action: 'PROVIDE', payload, ...about })).request.id
}
const answer = (world: World, request_id: string, result: unknown = SECRET, as = 'alice'): Promise<any> =>
  world.call(as, 'execution/request.resolve', { request_id, result })
const take = (world: World, request_id: string, as = 'devin', key?: string): Promise<any> =>
  world.call(as, 'execution/secret.take', { request_id }, key === undefined ? {} : { key })
const commitment = (salt: string, text: string): string => createHash('sha256').update(`${salt}${text}`).digest('base64url')
const kept = async (world: World): Promise<number> => (await world.store.keys(`${Secret.kind}/`, `${Secret.kind}/${END}`, 10)).length
const timers = async (world: World): Promise<string[]> =>
  (await world.store.scan(duePrefix, duePrefix + END, 100)).filter((entry) => idIn(entry).startsWith(`${Secret.kind}/`))
/** Every document and every image of the record. */
async function everything(world: World): Promise<string> {
  const keys = await world.store.keys('', END, 10_000)
  const facts = await world.store.facts({ by: 'position' }, { after: null, limit: 10_000 })
  return JSON.stringify([keys, await world.store.read(keys), facts])
}

test('the receipt holds a commitment, the agent gets the answer once, and then it is gone', async () => {
  const world = await worldWith()
  const request_id = await asked(world)
  const { request, receipt } = await answer(world, request_id)
  assert.deepEqual(Object.keys(receipt.result).toSorted(), ['commitment', 'sealed_to', 'secret_id'])
  assert.match(receipt.result.secret_id, /^sec_/)
  assert.equal(receipt.result.sealed_to, 'server')
  assert.equal(request.status, 'completed')
  assert.deepEqual([await kept(world), (await timers(world)).length], [1, 1])
  const taken = await take(world, request_id)
  assert.equal(taken.value, SECRET)
  assert.equal(taken.sealed, null)
  assert.equal(Buffer.from(taken.salt, 'base64url').length, 32)
  assert.equal(commitment(taken.salt, SECRET), receipt.result.commitment)
  assert.deepEqual([await kept(world), (await timers(world)).length], [0, 0])
  await assert.rejects(take(world, request_id), { code: 'GONE' })
  const all = await everything(world)
  assert.ok(all.includes('secret.taken') && all.includes(receipt.result.commitment))
  for (const word of ['hunter2', taken.salt]) assert.ok(!all.includes(word), word)
})

test('the same answer twice has two commitments, whatever it is', async () => {
  const world = await worldWith()
  const [one, other] = [await answer(world, await asked(world)), await answer(world, await asked(world))]
  assert.notEqual(one.receipt.result.commitment, other.receipt.result.commitment)
  assert.equal(one.receipt.result.commitment.length, other.receipt.result.commitment.length)
  const short = await answer(world, await asked(world), 'x')
  assert.equal(JSON.stringify(short.receipt.result).length, JSON.stringify(one.receipt.result).length, 'not even its length shows')
})

test('numbers, links and addresses are secrets, too, and stay what they are', async () => {
  const world = await worldWith()
  const cases: [string, unknown, unknown][] = [
    ['number', '73190264', 73_190_264],
    ['url', 'https://example.com/reset?token=7f3', 'https://example.com/reset?token=7f3'],
    ['email', 'hidden@example.com', 'hidden@example.com'],
  ]
  for (const [input_type, given, value] of cases) {
    const request_id = await asked(world, { input_type })
    const { receipt } = await answer(world, request_id, given)
    const taken = await take(world, request_id)
    assert.equal(taken.value, value)
    assert.equal(commitment(taken.salt, String(value)), receipt.result.commitment)
  }
})

test('to an agent with a key it is sealed in a form that this server cannot open', async () => {
  const notary = realNotary()
  const world = await worldWith(notary)
  const { publicKey, privateKey } = generateKeyPairSync('x25519')
  await world.call('devin', 'identity/agent.seal_key', { agent_id: 'agent_devin', jwk: publicKey.export({ format: 'jwk' }) })
  const request_id = await asked(world)
  const { receipt } = await answer(world, request_id)
  assert.equal(receipt.result.sealed_to, 'agent')
  const taken = await take(world, request_id)
  assert.deepEqual([taken.value, taken.salt], [null, null])
  await assert.rejects(notary.open(taken.sealed))
  const { plaintext } = await compactDecrypt(taken.sealed, privateKey)
  const { value, salt } = JSON.parse(new TextDecoder().decode(plaintext))
  assert.equal(value, SECRET)
  assert.equal(commitment(salt, value), receipt.result.commitment)
  await assert.rejects(take(world, request_id), { code: 'GONE' })
})

test('a value that a person sealed is never seen by this server, which takes it for the agent’s current key alone', async () => {
  const world = await worldWith(realNotary())
  const { publicKey, privateKey } = generateKeyPairSync('x25519')
  const early = await asked(world)
  await assert.rejects(world.call('alice', 'execution/request.resolve', { request_id: early, sealed: 'a.b.c.d.e' }), {
    code: 'INVALID_REQUEST',
  })
  const jwk = publicKey.export({ format: 'jwk' })
  await world.call('devin', 'identity/agent.seal_key', { agent_id: 'agent_devin', jwk })
  const request_id = await asked(world)
  const { seal_key } = await world.call('alice', 'execution/inbox.get', { request_id })
  assert.equal(seal_key.x, jwk.x)
  const sealed = await sealAnswer(seal_key, SECRET)
  const other = await sealAnswer(generateKeyPairSync('x25519').publicKey.export({ format: 'jwk' }) as SealKey, SECRET)
  for (const odd of [{ sealed: other }, { sealed: 'x' }, { sealed, result: SECRET }, {}])
    await assert.rejects(world.call('alice', 'execution/request.resolve', { request_id, ...odd }), { code: 'INVALID_REQUEST' })
  const { receipt } = await world.call('alice', 'execution/request.resolve', { request_id, sealed })
  assert.deepEqual([receipt.result.sealed_to, receipt.result.sealed_by], ['agent', 'person'])
  assert.ok(!(await everything(world)).includes('hunter2'))
  const taken = await take(world, request_id)
  const { plaintext } = await compactDecrypt(taken.sealed, privateKey)
  assert.equal(JSON.parse(new TextDecoder().decode(plaintext)).value, SECRET)
  assert.equal(sha256(taken.sealed), receipt.result.commitment)
})

test('any JOSE library seals an answer: with ECDH-ES alone, and without the name of the key', async () => {
  const world = await worldWith(realNotary())
  const { publicKey, privateKey } = generateKeyPairSync('x25519')
  await world.call('devin', 'identity/agent.seal_key', { agent_id: 'agent_devin', jwk: publicKey.export({ format: 'jwk' }) })
  const sealing = (alg: string, to: KeyObject = publicKey, more: object = {}): Promise<string> =>
    new CompactEncrypt(new TextEncoder().encode(JSON.stringify({ value: SECRET, salt: 's' })))
      .setProtectedHeader({ alg, enc: 'A256GCM', ...more })
      .encrypt(to)
  const refused = await asked(world)
  const onOtherCurve = await sealing('ECDH-ES', generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey)
  for (const odd of [onOtherCurve, await sealing('ECDH-ES', publicKey, { kid: 'another' }), await sealing('ECDH-ES+A128KW')])
    await assert.rejects(world.call('alice', 'execution/request.resolve', { request_id: refused, sealed: odd }), {
      code: 'INVALID_REQUEST',
    })
  for (const alg of ['ECDH-ES', 'ECDH-ES+A256KW']) {
    const request_id = await asked(world)
    const { receipt } = await world.call('alice', 'execution/request.resolve', { request_id, sealed: await sealing(alg) })
    assert.equal(receipt.result.sealed_by, 'person')
    const { plaintext } = await compactDecrypt((await take(world, request_id)).sealed, privateKey)
    assert.equal(JSON.parse(new TextDecoder().decode(plaintext)).value, SECRET)
  }
})

test('a repeated call with the same key answers that it was taken, without the secret', async () => {
  const world = await worldWith()
  const request_id = await asked(world)
  await answer(world, request_id)
  assert.equal((await take(world, request_id, 'devin', 'k')).value, SECRET)
  const { value, salt, sealed, secret_id } = await take(world, request_id, 'devin', 'k')
  assert.deepEqual([value, salt, sealed], [null, null, null])
  assert.match(secret_id, /^sec_/)
  assert.ok(!(await everything(world)).includes('hunter2'))
})

test('the stored answer of a repeated call cannot be guessed', async () => {
  const world = await worldWith()
  const request_id = await asked(world, { input_type: 'number' })
  const input = { request_id, result: 1234 }
  await world.call('alice', 'execution/request.resolve', input, { key: 'k' })
  const [key] = await world.store.keys(`${Reply.kind}/`, `${Reply.kind}/${END}`, 1)
  const { digest } = (await world.store.read([key!]))[0]!.value as { digest: string }
  assert.notEqual(digest, sha256(`execution/request.resolve ${canonical(input)}`))
  await world.call('alice', 'execution/request.resolve', input, { key: 'k' })
  await assert.rejects(world.call('alice', 'execution/request.resolve', { ...input, result: 1235 }, { key: 'k' }), { code: 'CONFLICT' })
})

test('goes to one of two concurrent takers', async () => {
  const world = await worldWith()
  const request_id = await asked(world)
  await answer(world, request_id)
  const came = await Promise.allSettled(Array.from({ length: 8 }, () => take(world, request_id)))
  assert.equal(came.filter(({ status }) => status === 'fulfilled').length, 1)
  for (const one of came) if (one.status === 'rejected') assert.equal(one.reason.code, 'GONE')
})

test('only the agent that asked takes it', async () => {
  const world = await worldWith()
  const request_id = await asked(world)
  await answer(world, request_id)
  const before = await stateHash(world.store)
  for (const who of ['alice', 'owner', 'admin', 'system', 'project'])
    await assert.rejects(take(world, request_id, who), { code: 'UNAUTHORIZED' }, who)
  for (const who of ['robin', 'rita', 'bob', 'mallory', 'spy'])
    await assert.rejects(take(world, request_id, who), { code: 'NOT_FOUND' }, who)
  assert.equal(await stateHash(world.store), before)
  assert.equal((await take(world, request_id)).value, SECRET)
})

test('a secret asked with a project key is for that key and for the agent itself', async () => {
  const world = await worldWith()
  const ask = (): Promise<string> => asked(world, {}, 'project', { agent_id: 'agent_devin' })
  const [one, other] = [await ask(), await ask()]
  for (const id of [one, other]) await answer(world, id)
  await assert.rejects(take(world, one, 'robin'), { code: 'NOT_FOUND' })
  assert.equal((await take(world, one, 'project')).value, SECRET)
  assert.equal((await take(world, other, 'devin')).value, SECRET)
})

test('there is nothing to take before the answer, after a withdrawal, and if nothing was secret', async () => {
  const world = await worldWith()
  const open = await asked(world)
  await assert.rejects(take(world, open), { code: 'PRECONDITION_FAILED' })
  await world.call('devin', 'execution/request.cancel', { request_id: open })
  await assert.rejects(take(world, open), { code: 'PRECONDITION_FAILED' })
  const plain = await asked(world, { sensitive: false })
  assert.equal((await answer(world, plain)).receipt.result, SECRET)
  await assert.rejects(take(world, plain), { code: 'PRECONDITION_FAILED' })
})

test('after a quarter of an hour it is gone, also before its timer has come', async () => {
  const world = await worldWith()
  const request_id = await asked(world)
  await answer(world, request_id)
  await assert.rejects(world.call('system', 'execution/secret.expire', { request_id }), { code: 'PRECONDITION_FAILED' })
  world.advance(limits.secretMs)
  await assert.rejects(take(world, request_id), { code: 'GONE' })
  assert.equal(await kept(world), 1)
  await world.call('system', 'execution/secret.expire', { request_id })
  assert.deepEqual([await kept(world), (await timers(world)).length], [0, 0])
  await assert.rejects(world.call('system', 'execution/secret.expire', { request_id }), { code: 'PRECONDITION_FAILED' })
  assert.ok((await everything(world)).includes('secret.expired'))
})

test('a value that cannot be sealed changes nothing, and the person can answer again', async () => {
  const notary = realNotary()
  let broken = true
  const world = await worldWith({
    ...notary,
    seal: (text, to) => (broken ? Promise.reject(new Error(`cannot seal ${text}`)) : notary.seal(text, to)),
  })
  const request_id = await asked(world)
  const before = await stateHash(world.store)
  await assert.rejects(answer(world, request_id), (error: { code: string; message: string; details?: unknown; cause?: unknown }) => {
    assert.equal(error.code, 'UNAVAILABLE')
    assert.doesNotMatch(JSON.stringify([error.message, error.details, error.cause]), /hunter2/)
    return true
  })
  assert.equal(await stateHash(world.store), before)
  broken = false
  await answer(world, request_id)
  assert.equal((await take(world, request_id)).value, SECRET)
})

test('an invalid secret is refused without being repeated, and a late one is refused as late', async () => {
  const world = await worldWith()
  const request_id = await asked(world, { validation: { pattern: '^[0-9]+$' } })
  await assert.rejects(answer(world, request_id), (error: { code: string; message: string }) => {
    assert.equal(error.code, 'INVALID_RESULT')
    assert.doesNotMatch(error.message, /hunter2/)
    return true
  })
  await answer(world, request_id, '123')
  await assert.rejects(answer(world, request_id, '456'), { code: 'ALREADY_RESOLVED' })
  assert.equal((await take(world, request_id)).value, '123')
})

test('a secret that a task waits for is given in the inbox; the task learns that it was, and at its checkpoint nothing is taken', async () => {
  const world = await worldWith()
  const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal: 'Deploy' } })
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  await world.call('devin', 'collaboration/task.start', { task_id: task.id })
  const request_id = await asked(world, {}, 'devin', { metadata: { task_id: task.id } })
  const { checkpoint_id } = (await world.call('alice', 'execution/request.get', { request_id })).request
  const before = await stateHash(world.store)
  const there = { checkpoint_id, action: 'provide', input: SECRET }
  await assert.rejects(world.call('alice', 'collaboration/checkpoint.resolve', there), { code: 'PRECONDITION_FAILED' })
  assert.equal(await stateHash(world.store), before)
  await answer(world, request_id)
  assert.ok(!(await everything(world)).includes('hunter2'))
  const { checkpoint } = await world.call('alice', 'collaboration/checkpoint.get', { checkpoint_id })
  assert.equal(checkpoint.state, 'resolved')
  assert.deepEqual(JSON.parse(checkpoint.resolution.input), { request_id })
  assert.equal((await take(world, request_id)).value, SECRET)
})

test('a value provided at the checkpoint of a request must match the request', async () => {
  const world = await worldWith()
  const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal: 'Deploy' } })
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  await world.call('devin', 'collaboration/task.start', { task_id: task.id })
  const request_id = await asked(world, { input_type: 'number', sensitive: false }, 'devin', { metadata: { task_id: task.id } })
  const { checkpoint_id } = (await world.call('alice', 'execution/request.get', { request_id })).request
  const give = (input: string): Promise<any> =>
    world.call('alice', 'collaboration/checkpoint.resolve', { checkpoint_id, action: 'provide', input })
  await assert.rejects(give('many'), { code: 'INVALID_SPEC' })
  await give('42')
  assert.equal((await world.call('devin', 'execution/request.get', { request_id })).receipt.result, 42)
})
