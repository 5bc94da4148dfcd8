// The key that secret answers to an agent are sealed to: public, strictly checked, and never a private one.
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import { compactDecrypt } from 'jose'
import { directory } from '#protocols/identity/directory.ts'
import type { Read } from '#kernel/declare/operation.ts'
import type { Value } from '#kernel/log/store.ts'
import { newRing } from '#workers/keys/key-ring.ts'
import { createNotary } from '#workers/keys/notary.ts'
import { linesOf, refusalOf, stage } from '../../support/in-process/stage.ts'
import { createWorld, stateHash } from '../../support/in-process/world.ts'

const SET = 'identity/agent.seal_key'
const newPair = () => {
  const { publicKey, privateKey } = generateKeyPairSync('x25519')
  return { jwk: publicKey.export({ format: 'jwk' }) as { kty: string; crv: string; x: string }, privateKey }
}
const rawRead = (read: (id: string) => Promise<Value | null>): Read => ({ raw: (_: unknown, id: string) => read(id) }) as unknown as Read

test('an agent sets, changes and removes its key; others read it; the record says so', async () => {
  const world = await createWorld()
  const { jwk, privateKey } = newPair()
  const { agent } = await world.call('devin', SET, { agent_id: 'agent_devin', jwk: { ...jwk, use: 'enc', kid: 'mine' } })
  assert.deepEqual(agent.seal_key, { ...jwk, kid: 'mine' }, 'what is no part of the key is not kept')
  const seen = (await world.call('alice', 'identity/agent.get', { agent_id: 'agent_devin' })).agent
  assert.deepEqual(seen.seal_key, agent.seal_key)
  const subject = await directory(
    rawRead(() => Promise.resolve(seen)),
    'agent_devin',
  )
  const notary = createNotary(Buffer.alloc(32, 1), () => newRing('2026-01-01T00:00:00.000Z'))
  const opened = await compactDecrypt(await notary.seal('hunter2', subject!.sealKey), privateKey)
  assert.equal(new TextDecoder().decode(opened.plaintext), 'hunter2')
  const other = newPair().jwk
  assert.deepEqual((await world.call('alice', SET, { agent_id: 'agent_devin', jwk: other })).agent.seal_key, other)
  assert.equal((await world.call('admin', SET, { agent_id: 'agent_devin', jwk: null })).agent.seal_key, null)
  const set = (await linesOf(world)).filter(({ action }) => action === 'identity/agent.seal_key_set')
  assert.deepEqual(
    set.map(({ actor, basis }) => [actor, basis.id]),
    [
      ['agent_devin', 'the agent itself'],
      ['user_alice', 'keeper'],
      ['service_admin', 'administrator'],
    ],
  )
  await world.call('alice', 'identity/agent.update', { agent_id: 'agent_devin', name: 'Other' })
})

test('agents that were registered before there were such keys have none', async () => {
  const world = await createWorld()
  const { agent } = await world.call('alice', 'identity/agent.get', { agent_id: 'agent_robin' })
  assert.ok(!('seal_key' in agent))
  const of = async (found: Value): Promise<unknown> =>
    (
      await directory(
        rawRead(() => Promise.resolve(found)),
        String(found['id']),
      )
    )?.sealKey
  assert.equal(await of(agent), null)
  assert.equal(await of({ ...agent, seal_key: null }), null)
  assert.equal(await of({ id: 'user_alice', kind: 'human', projects: [], acts_for: [] }), null)
})

test('a private key, a weak one, and what is no X25519 key at all are refused and leave nothing behind', async () => {
  const on = await stage()
  const { jwk, privateKey } = newPair()
  const secret = privateKey.export({ format: 'jwk' })
  const weak = [
    '00'.repeat(32),
    `01${'00'.repeat(31)}`,
    'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800',
    '5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157',
    `ec${'ff'.repeat(30)}7f`,
    `ed${'ff'.repeat(30)}7f`,
    `ee${'ff'.repeat(30)}7f`,
    // The same with the bit that does not count.
    `${'00'.repeat(31)}80`,
    `ec${'ff'.repeat(31)}`,
  ].map((hex) => ({ ...jwk, x: Buffer.from(hex, 'hex').toString('base64url') }))
  const before = await stateHash(on.world.store)
  const cases: [unknown, RegExp][] = [
    [secret, /private half/],
    [{ ...jwk, d: null }, /private half/],
    [{ ...jwk, d: '' }, /private half/],
    ...weak.map((one): [unknown, RegExp] => [one, /small order/]),
    [{ ...jwk, crv: 'Ed25519' }, /./],
    [{ ...jwk, kty: 'EC', crv: 'P-256' }, /./],
    [{ ...jwk, x: jwk.x.slice(1) }, /32 bytes/],
    [{ ...jwk, x: `${jwk.x}A` }, /32 bytes/],
    [{ ...jwk, x: `${jwk.x}=` }, /32 bytes/],
    [{ ...jwk, x: `${'A'.repeat(42)}B` }, /32 bytes/],
    [{ ...jwk, x: 1 }, /./],
    [{ ...jwk, kid: 'k'.repeat(101) }, /./],
    [{ ...jwk, kid: '' }, /./],
    [{}, /./],
    ['x', /./],
    [[jwk], /./],
    [undefined, /./],
  ]
  for (const [given, message] of cases) {
    const refusal = await refusalOf(on.call('devin', SET, { agent_id: 'agent_devin', jwk: given }))
    assert.equal(refusal.code, 'INVALID_REQUEST', JSON.stringify(given))
    assert.match(refusal.message, message)
    assert.ok(!JSON.stringify([refusal.message, refusal.details]).includes(String(secret.d)))
  }
  assert.equal(await stateHash(on.world.store), before)
})

test('a key that is narrowed to a project does not change what the agent is everywhere', async () => {
  const world = await createWorld()
  const narrowed = { ...world.cast['devin']!, narrowed: true }
  const calling = world.kernel.call(SET, { agent_id: 'agent_devin', jwk: newPair().jwk }, narrowed)
  await assert.rejects(calling, { code: 'UNAUTHORIZED' })
})
