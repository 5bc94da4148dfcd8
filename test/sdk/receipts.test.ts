// Receipts in the hands of somebody else: what is genuine verifies without a server, and whatever was changed, forged or made up is told
// so, in words, without an exception and in bounded time.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHmac, createPrivateKey, createPublicKey, randomBytes, sign, type KeyObject } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { limits } from '#kernel/limits.ts'
import type { Doubt } from '#protocols/execution/answering/receipt-format.ts'
import { canonicalDigest, verifyReceipt, type VerifyOptions } from '#sdk/index.ts'
import { jwksOf, newRing, rotateRing } from '#workers/keys/key-ring.ts'
import { createNotary } from '#workers/keys/notary.ts'
import { root, temporary } from '../support/as-processes/cli.ts'
import { testJwks, testNotary } from '../support/in-process/notary.ts'
import { claims, receiptOf } from '../support/over-sockets/receipts.ts'

const ring = newRing('2026-01-01T00:00:00.000Z')
const jwks = jwksOf(ring)
const notary = createNotary(randomBytes(32), () => ring)
const [publicJwk] = jwks.keys as [{ kid: string; x: string }]
const genuine = await receiptOf(notary)
const jws = genuine['signature'] as string
const [header, payload, signature] = jws.split('.') as [string, string, string]

const encoded = (value: unknown): string => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

async function doubted(receipt: unknown, reason: Doubt, options: Partial<VerifyOptions> = {}, fields?: readonly string[]): Promise<void> {
  const verdict = await verifyReceipt(receipt, { jwks, ...options })
  assert.ok(!verdict.ok, `${reason} was expected`)
  assert.equal(verdict.reason, reason, verdict.words)
  assert.match(verdict.words, /^[a-z].{5,}[^.]$/i)
  if (fields) assert.deepEqual(verdict.fields, fields)
}

describe('a genuine receipt', () => {
  test('verifies, and says what was signed and what was not', async () => {
    const verdict = await verifyReceipt(genuine, { jwks, audience: 'agent_devin', issuer: 'http://127.0.0.1:3402' })
    assert.deepEqual(verdict, { ok: true, claims: claims(), unsigned: ['duration_seconds'] })
    assert.deepEqual(await verifyReceipt({ status: 'completed', receipt: genuine }, { jwks }), verdict, 'within the answer that it came in')
    assert.equal((await verifyReceipt(await receiptOf(testNotary), { jwks: testJwks })).ok, true)
  })

  test('verifies with results of every kind, a reference, a reason, and without a result', async () => {
    const some = [
      { result: 'Ja, ü \u2028 "quoted"' },
      { result: 0 },
      { result: false },
      { result: ['a', { b: [1.5, null] }] },
      { result: 'rejected', reason: 'not now' },
      { result: undefined, result_ref: 'sec_01M7GMWX16CYD5TMA0423FKEE5' },
      { result: undefined, status: 'expired', decided_by: { sub: null, kind: 'system', via: null } },
    ]
    for (const one of some) {
      const of = Object.fromEntries(Object.entries(claims(one)).filter(([, value]) => value !== undefined)) as ReturnType<typeof claims>
      const verdict = await verifyReceipt(await receiptOf(notary, of), { jwks })
      assert.deepEqual(verdict, { ok: true, claims: of, unsigned: ['duration_seconds'] })
    }
  })

  test('verifies after a rotation, with the old key for what was before and with the new one for what comes', async () => {
    const next = rotateRing(ring, '2026-01-16T00:00:00.000Z')
    assert.equal((await verifyReceipt(genuine, { jwks: jwksOf(next) })).ok, true)
    const fresh = await receiptOf(
      createNotary(randomBytes(32), () => next),
      claims({ completed_at: '2026-01-20T00:00:00.000Z' }),
    )
    assert.equal((await verifyReceipt(fresh, { jwks: jwksOf(next) })).ok, true)
    await doubted(fresh, 'unknown_key')
    // The old private key was copied before it was destroyed.
    const stolen = await receiptOf(notary, claims({ completed_at: '2026-01-17T00:00:00.000Z' }))
    await doubted(stolen, 'retired_key', { jwks: jwksOf(next) })
    const noticedLate = await receiptOf(notary, claims({ completed_at: '2026-01-16T00:00:05.000Z' }))
    assert.equal((await verifyReceipt(noticedLate, { jwks: jwksOf(next) })).ok, true, 'the server took a few seconds to notice')
  })

  test('answers the request that it names, digested as the server digests it', async () => {
    const request = { action: 'APPROVE', agent_id: 'agent_devin', payload: { context: 'Deploy?' }, created_at: '2026-01-15T10:00:00.000Z' }
    const covered = { ...request, expires_at: null, request_id: 'hxp_1' }
    const receipt = await receiptOf(notary, claims({ request_digest: sha256(canonical(covered)) }))
    assert.equal(await canonicalDigest(covered), sha256(canonical(covered)))
    // As the draft's binding shows it, as the operations do, and as the whole answer; what came later does not count.
    const shown = [
      { ...request, request_id: 'hxp_1', status: 'completed' },
      { ...request, id: 'hxp_1' },
      { request: { ...request, id: 'hxp_1', expires_at: '2026-01-16T00:00:00.000Z', asked_until: null } },
    ]
    for (const one of shown) assert.equal((await verifyReceipt(receipt, { jwks, request: one })).ok, true)
    await doubted(receipt, 'wrong_request', { request: { ...covered, payload: { context: 'Deploy!' } } })
    const requestDigest = (given: unknown): string => sha256(canonical((given as { core: unknown }).core))
    assert.equal((await verifyReceipt(receipt, { jwks, request: { core: covered, seen: 1 }, requestDigest })).ok, true)
    await doubted(receipt, 'wrong_request', { request: { core: 1n }, requestDigest })
    await doubted(receipt, 'wrong_request', { request: null })
  })
})

describe('a receipt that is not what it claims', () => {
  test('every field that is signed is held against the signature', async () => {
    const changes: Record<string, unknown> = {
      request_id: 'hxp_other',
      status: 'expired',
      result: 'rejected',
      reason: 'because',
      completed_by: 'person_somebodyelse',
      completed_at: '2026-01-15T10:00:06.000Z',
      evidence_hash: '00'.repeat(32),
      receipt_id: 'rcp_other',
      key_id: 'other',
      action: 'DECIDE',
      aud: 'agent_robin',
    }
    for (const [field, value] of Object.entries(changes)) {
      await doubted({ ...genuine, [field]: value }, 'changed', {}, [field])
      const { [field]: _, ...without } = genuine
      if (field in genuine) await doubted(without, 'changed', {}, [field])
    }
    await doubted({ ...genuine, status: 'failed', result: null }, 'changed', {}, ['status', 'result'])
    await doubted({ ...genuine, result: { approved: true } }, 'changed', {}, ['result'])
    await doubted({ ...genuine, completed_by: null }, 'changed', {}, ['completed_by'])
    await doubted({ ...genuine, approved_by: 'the board' }, 'not_signed', {}, ['approved_by'])
    const { words } = (await verifyReceipt({ ...genuine, result: 'rejected' }, { jwks })) as { words: string }
    assert.equal(words, 'not what was signed: result')
  })

  test('made out to another agent, or issued by another server', async () => {
    await doubted(genuine, 'wrong_audience', { audience: 'agent_robin' })
    await doubted(genuine, 'wrong_issuer', { issuer: 'https://other.example' })
  })

  test('no algorithm but the one is ever tried', async () => {
    const hmac = (head: string, key: string | Buffer): string =>
      `${head}.${payload}.${createHmac('sha256', key).update(`${head}.${payload}`).digest('base64url')}`
    const headOf = (changes: object): string => encoded({ alg: 'EdDSA', kid: publicJwk.kid, typ: 'receipt+jwt', ...changes })
    const spki = createPublicKey({ key: publicJwk, format: 'jwk' }).export({ format: 'pem', type: 'spki' })
    const none = headOf({ alg: 'none' })
    const hs = headOf({ alg: 'HS256' })
    for (const forged of [
      `${none}.${payload}.`,
      `${none}.${payload}.${signature}`,
      hmac(hs, publicJwk.x),
      hmac(hs, Buffer.from(publicJwk.x, 'base64url')),
      hmac(hs, spki),
      `${headOf({ alg: 'ES256' })}.${payload}.${signature}`,
      `${headOf({ alg: 'eddsa' })}.${payload}.${signature}`,
      `${headOf({ alg: ['EdDSA'] })}.${payload}.${signature}`,
    ])
      await doubted({ ...genuine, signature: forged }, 'wrong_algorithm')
    for (const more of [{ crit: ['exp'] }, { b64: false }, { jwk: publicJwk }, { jku: 'https://evil.example' }, { typ: 'JWT' }, { kid: 1 }])
      await doubted({ ...genuine, signature: `${headOf(more)}.${payload}.${signature}` }, 'not_a_receipt')
  })

  test('a foreign key under the name of ours verifies nothing', async () => {
    const other = newRing('2026-01-01T00:00:00.000Z')
    const forged = await receiptOf(createNotary(randomBytes(32), () => other))
    await doubted(forged, 'unknown_key')
    const renamed = [
      encoded({ alg: 'EdDSA', kid: publicJwk.kid, typ: 'receipt+jwt' }),
      ...(forged['signature'] as string).split('.').slice(1),
    ]
    await doubted({ ...genuine, signature: renamed.join('.') }, 'bad_signature')
    // Signed with our key, but as something else: a header of the same key over other words.
    const signer = notaryKey()
    const text = `${header}.${encoded({ v: 1, hello: 'world' })}`
    await doubted({ ...genuine, signature: `${text}.${sign(null, Buffer.from(text), signer).toString('base64url')}` }, 'not_a_receipt')
  })

  test('keys that are none are no keys', async () => {
    for (const bad of [
      null,
      undefined,
      1,
      'x',
      [],
      {},
      { keys: null },
      { keys: [null, 1, { kid: 1 }] },
      { keys: [{ kid: publicJwk.kid }] },
    ])
      await doubted(genuine, 'unknown_key', { jwks: bad })
    await doubted(genuine, 'unknown_key', { jwks: { keys: [{ ...publicJwk, crv: 'X25519' }] } })
    await doubted(genuine, 'unsupported', { jwks: { keys: [{ ...publicJwk, x: 'AAAA' }] } })
  })
})

const notaryKey = (): KeyObject => createPrivateKey({ key: ring.current.jwk, format: 'jwk' })

describe('hostile input', () => {
  test('values that are no receipt', async () => {
    let nested: unknown = 'x'
    for (let i = 0; i < 50_000; i++) nested = [nested]
    const circular: Record<string, unknown> = { ...genuine }
    circular['result'] = circular
    const trap = { ...genuine, get result(): never { throw new Error('no') } } // oxfmt-ignore
    for (const bad of [null, undefined, 1, 'x', [], {}, { receipt: {} }, { receipt: { receipt: genuine } }, { signature: 1 }, nested])
      await doubted(bad, 'not_a_receipt')
    for (const bad of [{ ...genuine, result: nested }, circular, trap, { ...genuine, result: 1n }]) await doubted(bad, 'not_a_receipt')
    for (const text of [
      '',
      '.',
      '..',
      '...',
      'a.b',
      `${jws}.x`,
      `.${payload}.${signature}`,
      `${header}..${signature}x`,
      ` ${jws}`,
      `${jws}\n`,
    ])
      await doubted({ ...genuine, signature: text }, 'not_a_receipt')
  })

  test('a megabyte is refused immediately', async () => {
    const long = 'A'.repeat(1024 * 1024)
    const began = performance.now()
    for (const text of [
      long,
      `${header}.${long}.${signature}`,
      `${long}.${payload}.${signature}`,
      `${header}.${payload}.${long}`,
      '.'.repeat(1024 * 1024),
    ])
      await doubted({ ...genuine, signature: text }, 'not_a_receipt')
    const most = 'A'.repeat(limits.receiptCharsMax - header.length - signature.length - 2)
    await doubted({ ...genuine, signature: `${header}.${most}.${signature}` }, 'bad_signature')
    await doubted({ ...genuine, request_id: long }, 'changed')
    await doubted(
      Object.fromEntries([...Object.entries(genuine), ...Array.from({ length: 100_000 }, (_, i) => [`f${i}`, i])]),
      'not_a_receipt',
    )
    assert.ok(performance.now() - began < 2_000)
  })

  test('no change of a single character, cut, or repetition goes unnoticed', async () => {
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \0ü'
    const changed = fc.oneof(
      fc
        .tuple(fc.nat({ max: jws.length - 1 }), fc.constantFrom(...alphabet.split('')))
        .map(([at, to]) => jws.slice(0, at) + to + jws.slice(at + 1)),
      fc.nat({ max: jws.length - 1 }).map((at) => jws.slice(0, at)),
      fc.nat({ max: jws.length }).map((at) => jws.slice(0, at) + jws.slice(at - 1)),
      fc.string({ unit: 'binary', maxLength: 200 }),
    )
    await fc.assert(
      fc.asyncProperty(changed, async (text) => {
        const verdict = await verifyReceipt({ ...genuine, signature: text }, { jwks })
        assert.equal(verdict.ok, text === jws)
      }),
      { numRuns: 600 },
    )
  })

  test('any other input gets a verdict and no exception', async () => {
    const hostile = fc.record({
      receipt: fc.oneof(
        fc.anything({ withBigInt: true, withMap: true, withNullPrototype: true }),
        fc.dictionary(fc.constantFrom(...Object.keys(genuine)), fc.anything()),
      ),
      jwks: fc.oneof(
        fc.anything(),
        fc.constant(jwks),
        fc.record({ keys: fc.array(fc.dictionary(fc.constantFrom('kty', 'kid', 'x', 'crv'), fc.anything())) }),
      ),
    })
    await fc.assert(
      fc.asyncProperty(hostile, async ({ receipt, jwks: keys }) => {
        assert.equal((await verifyReceipt(receipt, { jwks: keys })).ok, false)
        const mixed = typeof receipt === 'object' ? { ...genuine, ...receipt } : genuine
        await verifyReceipt(mixed, { jwks: keys })
      }),
      { numRuns: 300 },
    )
    assert.equal(Object.keys(Object.prototype).length, 0)
  })
})

test('the example of docs/receipts.md runs, and ends with an error for what is not genuine', () => {
  const folder = temporary('example')
  const [, example] = /```ts\n(.*?)```/s.exec(readFileSync(join(root, 'docs', 'receipts.md'), 'utf8'))!
  writeFileSync(join(folder, 'verify.ts'), example!.replace("'countersign'", `'${join(root, 'src/sdk/index.ts')}'`))
  writeFileSync(join(folder, 'jwks.json'), JSON.stringify(jwks))
  const run = (receipt: unknown): string => {
    writeFileSync(join(folder, 'receipt.json'), JSON.stringify(receipt))
    return execFileSync(process.execPath, ['verify.ts'], { cwd: folder, encoding: 'utf8', stdio: 'pipe' })
  }
  assert.equal(run(genuine), 'completed approved\n')
  assert.throws(() => run({ ...genuine, result: 'rejected' }), /not what was signed: result \[changed\]/)
})

test('a process that may not use the network verifies with what was saved', () => {
  const folder = temporary('offline')
  writeFileSync(join(folder, 'receipt.json'), JSON.stringify(genuine))
  writeFileSync(join(folder, 'jwks.json'), JSON.stringify(jwks))
  const program = `
    import { readFileSync } from 'node:fs'
    import { verifyReceipt } from '${join(root, 'src/sdk/receipt.ts')}'
    const read = (name) => JSON.parse(readFileSync('${folder}/' + name, 'utf8'))
    const verdict = await verifyReceipt(read('receipt.json'), { jwks: read('jwks.json') })
    const net = await fetch('http://127.0.0.1:3999').then(() => 'open', (error) => error.cause?.code ?? error.code)
    console.log(JSON.stringify({ ok: verdict.ok, net }))`
  const args = ['--permission', '--allow-fs-read=*', '--input-type=module', '-e', program]
  const said = execFileSync(process.execPath, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  assert.deepEqual(JSON.parse(said), { ok: true, net: 'ERR_ACCESS_DENIED' })
})
