// The notary: it signs and seals with the keys of this server. No other component has them: operations with a key run here, and only results leave.
import { createHmac, createPrivateKey, createPublicKey, hash, hkdfSync, sign, verify, type KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import { CompactEncrypt, compactDecrypt, importJWK } from 'jose'
import { createCache } from '#kernel/log/cache/document-cache.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import type { Notary } from '#kernel/ports/notary.ts'
import { claimsOf, isAfter, jwsOf, RECEIPT_ALGORITHM, RECEIPT_TYPE } from '#protocols/execution/answering/receipt-format.ts'
import type { Value } from '#kernel/log/store.ts'
import { thumbprintOf, type KeyRing } from './key-ring.ts'

/** A derived key for each purpose: a leak of one reveals nothing about the others. */
const derivedFrom = (serverKey: Uint8Array, purpose: string): Buffer =>
  Buffer.from(hkdfSync('sha256', serverKey, '', `countersign/1 ${purpose}`, 32))

/** The name of a server key: nothing can be derived from it. */
export const serverKeyId = (serverKey: Uint8Array): string => derivedFrom(serverKey, 'id').toString('base64url').slice(0, 22)

const BLOCK = 64
/**
 * Tags for documents that no fact describes: HMAC with SHA-256 (RFC 2104), whose inner digest goes on as text. Written out because it is made for
 * every such document that is written and read, and takes a third of the time of an object of the runtime.
 */
export function taggerOf(serverKey: Uint8Array): (text: string) => string {
  const key = derivedFrom(serverKey, 'tag').toString('base64url')
  const padKey = (pad: number): string =>
    String.fromCharCode(...Array.from({ length: BLOCK }, (_, i) => (i < key.length ? key.charCodeAt(i) : 0) ^ pad))
  const [inner, outer] = [padKey(0x36), padKey(0x5c)]
  return (text) => hash('sha256', outer + hash('sha256', inner + text, 'base64url'), 'base64url')
}

type Deliver = () => void
let signed: Deliver[] = []

/**
 * Signs on the threads of the runtime, which costs the main thread a quarter of a signature of its own. The signatures of one turn of the event
 * loop are delivered together, so that their answers are sent together.
 */
const signText = (text: string, key: KeyObject): Promise<Buffer> =>
  new Promise((done, failed) =>
    sign(null, Buffer.from(text), key, (error, bytes) => {
      if (signed.push(() => (error ? failed(error) : done(bytes))) === 1) setImmediate(handOut)
    }),
  )

function handOut(): void {
  const all = signed
  signed = []
  for (const run of all) run()
}

const verified = promisify(verify)

const SERVER_KEY_BYTES = 32
/** About 2,500 receipts that are read again and again while an agent polls. */
const SIGNATURES_BYTES_MAX = 4 * 1024 * 1024
/** A signature and what the memory needs around it. */
const ENTRY_BYTES = 300

const base64url = (text: string): string => Buffer.from(text).toString('base64url')

/** `ring` is read every time, because a rotation replaces it. */
export function createNotary(serverKey: Uint8Array, ring: () => KeyRing, issuer = (): string => 'countersign'): Notary {
  if (serverKey.length !== SERVER_KEY_BYTES) throw new RangeError(`a server key has ${SERVER_KEY_BYTES} bytes`)
  const deriveKey = (purpose: string): Buffer => derivedFrom(serverKey, purpose)
  const evidenceSecret = deriveKey('evidence').toString('base64url')
  const [pseudonyms, commitments, seals] = [deriveKey('pseudonym'), deriveKey('commitment'), deriveKey('seal')]
  const signatures = createCache<Promise<string>>(SIGNATURES_BYTES_MAX)
  const signer = signerIn(ring)

  async function signatureOver(text: string, key: KeyObject): Promise<string> {
    const known = signatures.get(text)
    if (known !== undefined) return known
    const signature = signText(text, key).then((bytes) => bytes.toString('base64url'))
    signatures.set(text, signature, text.length + ENTRY_BYTES)
    signature.catch(() => signatures.delete(text))
    return signature
  }

  return {
    issuer,
    evidence: (text) => hash('sha256', text + evidenceSecret, 'hex'),
    pseudonym: (id) => `person_${createHmac('sha256', pseudonyms).update(id).digest('base64url').slice(0, 22)}`,
    commit: (text) => createHmac('sha256', commitments).update(text).digest('base64url'),
    async attest(claims) {
      const { header, key } = signer()
      const text = `${header}.${base64url(canonical(claims))}`
      return `${text}.${await signatureOver(text, key)}`
    },
    async verify(jws) {
      const read = jwsOf(jws)
      if (!read.ok) return null
      const { current, retired } = ring()
      const found = [current, ...retired].find(({ kid }) => kid === read.kid)
      if (!found) return null
      const { kty, crv, x } = found.jwk
      const key = createPublicKey({ key: { kty, crv, x }, format: 'jwk' })
      const claims = (await verified(null, Buffer.from(read.signed), key, read.signature)) ? claimsOf(read) : null
      return claims === null || ('retired_at' in found && isAfter(found.retired_at, claims)) ? null : claims
    },
    async grant(claims) {
      const { tokenHeader, key } = signer()
      const text = `${tokenHeader}.${base64url(canonical(claims))}`
      return `${text}.${(await signText(text, key)).toString('base64url')}`
    },
    async granted(jws) {
      const { current, retired } = ring()
      return tokenClaims(jws, [current, ...retired])
    },
    seal: (text, to) => (to === null ? sealedHere(text, seals) : sealedTo(text, to)),
    async open(sealed) {
      const opened = await compactDecrypt(sealed, seals, {
        keyManagementAlgorithms: ['A256KW'],
        contentEncryptionAlgorithms: ['A256GCM'],
      }).catch(() => {
        throw new Refusal('UNAVAILABLE', 'the sealed data cannot be opened with the keys of this server')
      })
      return new TextDecoder().decode(opened.plaintext)
    },
  }
}

/** The present key, ready to sign with, and the header that names it; made once for each ring. */
type Signer = { readonly header: string; readonly tokenHeader: string; readonly key: KeyObject }
function signerIn(ring: () => KeyRing): () => Signer {
  let of: KeyRing | undefined
  let signer: Signer
  return () => {
    const present = ring()
    if (present !== of) {
      const { kid, jwk } = present.current
      const headerOf = (typ: string): string => base64url(JSON.stringify({ alg: RECEIPT_ALGORITHM, kid, typ }))
      signer = { header: headerOf(RECEIPT_TYPE), tokenHeader: headerOf(TOKEN_TYPE), key: createPrivateKey({ key: jwk, format: 'jwk' }) }
      of = present
    }
    return signer
  }
}

/** The type of session tokens between harnesses: a receipt cannot pass for a token, or a token for a receipt. */
const TOKEN_TYPE = 'hcp-session+jwt'

/** A retired key still verifies its tokens: a token ends at its own expiry. */
async function tokenClaims(
  jws: string,
  keys: readonly { readonly kid: string; readonly jwk: KeyRing['retired'][number]['jwk'] }[],
): Promise<Value | null> {
  const parts = jws.length > limits.sessionTokenCharsMax ? [] : jws.split('.')
  const [head, body, signature] = parts
  if (parts.length !== 3 || !head || !body || !signature) return null
  try {
    const { alg, kid, typ } = JSON.parse(Buffer.from(head, 'base64url').toString()) as Record<string, unknown>
    const found = keys.find((key) => key.kid === kid)
    if (alg !== RECEIPT_ALGORITHM || typ !== TOKEN_TYPE || !found) return null
    const { kty, crv, x } = found.jwk
    const key = createPublicKey({ key: { kty, crv, x }, format: 'jwk' })
    if (!(await verified(null, Buffer.from(`${head}.${body}`), key, Buffer.from(signature, 'base64url')))) return null
    return JSON.parse(Buffer.from(body, 'base64url').toString()) as Value
  } catch {
    return null
  }
}

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

/** Encrypts each text under its own key, which is sealed beside it: erasing the text erases the key. */
const sealedHere = (text: string, key: Uint8Array): Promise<string> =>
  new CompactEncrypt(bytesOf(text)).setProtectedHeader({ alg: 'A256KW', enc: 'A256GCM' }).encrypt(key)

async function sealedTo(text: string, to: Value): Promise<string> {
  const jwk = to as { readonly kty: string; readonly crv: string; readonly x: string; readonly kid?: string }
  const alg = 'ECDH-ES+A256KW'
  const key = await importJWK({ kty: jwk.kty, crv: jwk.crv, x: jwk.x }, alg)
  const kid = jwk.kid ?? thumbprintOf(jwk)
  return new CompactEncrypt(bytesOf(text)).setProtectedHeader({ alg, enc: 'A256GCM', kid }).encrypt(key)
}

/** Signs a text such as an agent card with the current key: the protected header and the signature of a JWS without its payload. */
export function signDetached({ current: { kid, jwk } }: KeyRing, text: string): { readonly protected: string; readonly signature: string } {
  const header = Buffer.from(canonical({ alg: 'EdDSA', kid, typ: 'JOSE' })).toString('base64url')
  const input = Buffer.from(`${header}.${Buffer.from(text).toString('base64url')}`)
  return { protected: header, signature: sign(null, input, createPrivateKey({ key: jwk, format: 'jwk' })).toString('base64url') }
}
