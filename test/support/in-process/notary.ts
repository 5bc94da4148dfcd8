// A notary with fixed public test keys: the same input gives the same output in every run.
import { createHash, createHmac, createPrivateKey, createPublicKey, sign, verify } from 'node:crypto'
import { canonical } from '#kernel/log/canonical-json.ts'
import type { Notary } from '#kernel/ports/notary.ts'
import { claimsOf, jwsOf } from '#protocols/execution/answering/receipt-format.ts'
import type { Value } from '#kernel/log/store.ts'

// PKCS#8 wrapping of 32 bytes: an Ed25519 key has no other parts.
const key = createPrivateKey({
  key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.alloc(32, 7)]),
  format: 'der',
  type: 'pkcs8',
})
const encoded = (value: unknown): string => Buffer.from(typeof value === 'string' ? value : canonical(value)).toString('base64url')
const keyed = (text: string): string => createHmac('sha256', 'a secret of the tests').update(text).digest('base64url')

export const testNotary: Notary = {
  issuer: () => 'http://127.0.0.1:3402#inst_of-the-tests',
  evidence: (text) => createHash('sha256').update(`${text}a secret of the tests`).digest('hex'),
  pseudonym: (id) => `person_${keyed(`pseudonym ${id}`).slice(0, 22)}`,
  commit: keyed,
  attest(claims) {
    const signed = `${encoded({ alg: 'EdDSA', kid: 'test', typ: 'receipt+jwt' })}.${encoded(claims)}`
    return Promise.resolve(`${signed}.${sign(null, Buffer.from(signed), key).toString('base64url')}`)
  },
  verify(jws) {
    const read = jwsOf(jws)
    const isOurs = read.ok && verify(null, Buffer.from(read.signed), createPublicKey(key), read.signature)
    return Promise.resolve(isOurs ? (claimsOf(read) as Value | null) : null)
  },
  grant(claims) {
    const signed = `${encoded({ alg: 'EdDSA', kid: 'test', typ: 'hcp-session+jwt' })}.${encoded(claims)}`
    return Promise.resolve(`${signed}.${sign(null, Buffer.from(signed), key).toString('base64url')}`)
  },
  granted(jws) {
    const [head = '', body = '', signature = ''] = jws.split('.')
    const isOurs =
      Buffer.from(head, 'base64url').includes('hcp-session+jwt') &&
      verify(null, Buffer.from(`${head}.${body}`), createPublicKey(key), Buffer.from(signature, 'base64url'))
    return Promise.resolve(isOurs ? (JSON.parse(Buffer.from(body, 'base64url').toString()) as Value) : null)
  },
  seal: (text, to) => Promise.resolve(`sealed ${to === null ? 'here' : 'for the agent'} ${Buffer.from(text).toString('base64url')}`),
  open: (sealed) => Promise.resolve(Buffer.from(sealed.split(' ').at(-1)!, 'base64url').toString()),
}

/** The keys that this notary would publish. */
export const testJwks = { keys: [{ ...createPublicKey(key).export({ format: 'jwk' }), kid: 'test', use: 'sig', alg: 'EdDSA' }] }
