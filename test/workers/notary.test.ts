// The notary with real keys: what it signs verifies elsewhere, what it seals only its reader opens, and no purpose shares a key.
import assert from 'node:assert/strict'
import { createHash, createHmac, createPublicKey, generateKeyPairSync, hkdfSync, randomBytes, verify } from 'node:crypto'
import { test } from 'node:test'
import { compactDecrypt, compactVerify, decodeProtectedHeader, importJWK, type JWK } from 'jose'
import { canonical } from '#kernel/log/canonical-json.ts'
import type { Value } from '#kernel/log/store.ts'
import { jwksOf, newRing, ringFrom, rotateRing, thumbprintOf, type KeyRing } from '#workers/keys/key-ring.ts'
import { createNotary } from '#workers/keys/notary.ts'
import { claims } from '../support/over-sockets/receipts.ts'

const AT = '2026-01-01T00:00:00.000Z'
const LATER = '2026-02-01T00:00:00.000Z'
const keyFor = (server: Uint8Array, purpose: string): Buffer => Buffer.from(hkdfSync('sha256', server, '', `countersign/1 ${purpose}`, 32))

function notaryWith(ring: KeyRing = newRing(AT), server: Uint8Array = randomBytes(32)) {
  let present = ring
  return { notary: createNotary(server, () => present), server, ring, rotate: () => (present = rotateRing(present, LATER)) }
}

test('evidence is what the draft says, with a secret of this server', () => {
  const { notary, server } = notaryWith()
  const secret = keyFor(server, 'evidence').toString('base64url')
  assert.equal(notary.evidence('hxp_1approved2026'), createHash('sha256').update(`hxp_1approved2026${secret}`).digest('hex'))
  assert.notEqual(notaryWith().notary.evidence('hxp_1approved2026'), notary.evidence('hxp_1approved2026'))
})

test('pseudonyms and commitments are stable, keyed, and share no key with each other', () => {
  const { notary, server } = notaryWith()
  assert.match(notary.pseudonym('user_alice'), /^person_[A-Za-z0-9_-]{22}$/)
  assert.equal(notary.pseudonym('user_alice'), createNotary(server, () => newRing(AT)).pseudonym('user_alice'), 'after a restart too')
  assert.notEqual(notary.pseudonym('user_alice'), notary.pseudonym('user_bob'))
  const unkeyed = createHash('sha256').update('user_alice').digest('base64url')
  assert.ok(!notary.pseudonym('user_alice').includes(unkeyed.slice(0, 22)))
  assert.equal(notary.commit('s3cret'), createHmac('sha256', keyFor(server, 'commitment')).update('s3cret').digest('base64url'))
  assert.notEqual(notary.commit('user_alice').slice(0, 22), notary.pseudonym('user_alice').slice('person_'.length))
})

test('a receipt is signed as a JWS over the canonical claims, always in the same way, and any library verifies it', async () => {
  const { notary, ring } = notaryWith()
  const jws = await notary.attest(claims())
  assert.equal(await notary.attest(claims()), jws)
  const { kid } = ring.current
  assert.deepEqual(decodeProtectedHeader(jws), { alg: 'EdDSA', kid, typ: 'receipt+jwt' })
  const [key] = jwksOf(ring).keys as JWK[]
  const { payload } = await compactVerify(jws, await importJWK(key!, 'EdDSA'), { algorithms: ['EdDSA'] })
  assert.equal(new TextDecoder().decode(payload), canonical(claims()))
  const shuffled = Object.fromEntries(Object.entries(claims()).toReversed()) as Value
  assert.equal(await notary.attest(shuffled), jws, 'the order of the fields does not matter')
  assert.deepEqual(await notary.verify(jws), claims())
})

test('concurrent signatures each cover their own claims', async () => {
  const { notary, ring } = notaryWith()
  const key = createPublicKey({ key: jwksOf(ring).keys[0] as JWK, format: 'jwk' } as never)
  const made = await Promise.all(Array.from({ length: 500 }, (_, i) => notary.attest(claims({ request_id: `hxp_${i % 250}` }))))
  assert.equal(new Set(made).size, 250)
  for (const [i, jws] of made.entries()) {
    const [header, payload, signature] = jws.split('.') as [string, string, string]
    assert.ok(verify(null, Buffer.from(`${header}.${payload}`), key, Buffer.from(signature, 'base64url')))
    assert.equal(JSON.parse(Buffer.from(payload, 'base64url').toString()).request_id, `hxp_${i % 250}`)
  }
})

test('after a rotation the new key signs, the old one verifies what was before, and no one can sign with it again', async () => {
  const { notary, ring, rotate } = notaryWith()
  const before = await notary.attest(claims())
  const next = rotate()
  const after = await notary.attest(claims())
  assert.equal(decodeProtectedHeader(before).kid, ring.current.kid)
  assert.equal(decodeProtectedHeader(after).kid, next.current.kid)
  assert.deepEqual(await notary.verify(before), claims())
  assert.deepEqual(await notary.verify(after), claims())
  assert.ok(!JSON.stringify(next).includes(ring.current.jwk.d), 'the private half is gone')
  // Somebody who kept a copy of the old private key.
  const thief = createNotary(randomBytes(32), () => ring)
  assert.equal(await notary.verify(await thief.attest(claims({ completed_at: '2026-03-01T00:00:00.000Z' }))), null)
  for (const forged of ['', 'a.b.c', before.slice(0, -2), `${before}A`, await notaryWith().notary.attest(claims())])
    assert.equal(await notary.verify(forged), null)
  assert.equal(await notary.verify(await notary.attest({ v: 1, something: 'else' })), null, 'signed, and no receipt')
})

test('a ring says whose halves do not fit, whose name is wrong, and whose retired key is still private', () => {
  const ring = rotateRing(newRing(AT), LATER)
  assert.deepEqual(ringFrom(JSON.stringify(ring)), ring)
  assert.equal(ring.current.kid, thumbprintOf(ring.current.jwk))
  const [old] = ring.retired as [KeyRing['retired'][number]]
  assert.equal(old.retired_at, LATER)
  const { current } = ring
  const other = newRing(AT).current
  const wrong: Record<string, unknown> = {
    'no key ring': { v: 2 },
    'no private key': { ...ring, current: { ...current, jwk: null } },
    'halves do not fit': { ...ring, current: { ...current, jwk: { ...current.jwk, x: other.jwk.x }, kid: other.kid } },
    'not the one that its name says': { ...ring, current: { ...current, kid: other.kid } },
    'has a private half': { ...ring, retired: [{ ...old, jwk: other.jwk, kid: other.kid }] },
    'or no date': { ...ring, retired: [{ ...old, retired_at: 'yesterday' }] },
    'is twice in it': { ...ring, retired: [old, old] },
  }
  for (const [message, value] of Object.entries(wrong)) assert.throws(() => ringFrom(JSON.stringify(value)), new RegExp(message), message)
  for (const text of ['', '{', 'null', '[]', '1', '{"v":1,"current":{},"retired":[]}']) assert.throws(() => ringFrom(text))
  assert.equal(rotateRing(newRing(LATER), AT).retired[0]!.retired_at, LATER, 'a clock that stepped back retires nothing before it was made')
})

test('only the agent can open a secret sealed for it, and the server cannot', async () => {
  const { notary } = notaryWith()
  const pair = generateKeyPairSync('x25519')
  const { kty, crv, x } = pair.publicKey.export({ format: 'jwk' }) as { kty: string; crv: string; x: string }
  const sealed = await notary.seal('hunter2 ü', { kty, crv, x })
  const { kid, ...header } = decodeProtectedHeader(sealed)
  assert.equal(kid, thumbprintOf({ kty, crv, x }))
  assert.deepEqual([header.alg, (header as { enc?: string }).enc], ['ECDH-ES+A256KW', 'A256GCM'])
  const opened = await compactDecrypt(sealed, pair.privateKey)
  assert.equal(new TextDecoder().decode(opened.plaintext), 'hunter2 ü')
  await assert.rejects(notary.open(sealed), { code: 'UNAVAILABLE' })
  await assert.rejects(compactDecrypt(sealed, generateKeyPairSync('x25519').privateKey))
  assert.equal(decodeProtectedHeader(await notary.seal('x', { kty, crv, x, kid: 'mine' })).kid, 'mine')
})

test('a sealed value opens here, never encrypts to the same bytes twice, and is rejected under another key or after a change', async () => {
  const { notary, server } = notaryWith()
  const [one, two] = [await notary.seal('hunter2', null), await notary.seal('hunter2', null)]
  assert.notEqual(one, two)
  assert.equal(await notary.open(one), 'hunter2')
  assert.equal(await createNotary(server, () => newRing(AT)).open(two), 'hunter2', 'after a restart and a rotation too')
  assert.ok(!one.includes(Buffer.from('hunter2').toString('base64url')))
  const parts = one.split('.')
  for (let i = 0; i < parts.length; i++) {
    const changed = parts.with(i, parts[i]!.startsWith('A') ? `B${parts[i]!.slice(1)}` : `A${parts[i]!.slice(1)}`).join('.')
    await assert.rejects(notary.open(changed), { code: 'UNAVAILABLE' }, `part ${i}`)
  }
  await assert.rejects(notaryWith().notary.open(one), { code: 'UNAVAILABLE' })
  await assert.rejects(notary.open(''), { code: 'UNAVAILABLE' })
})
