// A device in software (WebAuthn): it makes passkeys and signs challenges, and each part of what it says can be wrong on purpose.
import { createHash, generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto'

const sha256 = (data: string | Buffer): Buffer => createHash('sha256').update(data).digest()
const b64 = (data: string | Buffer): string => Buffer.from(data).toString('base64url')

export type Said = {
  readonly origin?: string
  readonly rp?: string
  readonly type?: string
  readonly flags?: number
  readonly counter?: number
  readonly crossOrigin?: boolean
}
const [PRESENT, VERIFIED, ATTESTED] = [1, 4, 64]
export const WITHOUT_VERIFICATION = PRESENT
const ORIGIN = 'http://localhost:3402'

/** CBOR for what an attestation holds: numbers below 24 and bytes. */
const cborBytes = (bytes: Buffer): Buffer =>
  Buffer.concat([
    bytes.length < 256 ? Buffer.from([0x58, bytes.length]) : Buffer.from([0x59, bytes.length >> 8, bytes.length & 255]),
    bytes,
  ])
const cborText = (text: string): Buffer => Buffer.concat([Buffer.from([0x60 + text.length]), Buffer.from(text)])

function coseOf(key: KeyObject): Buffer {
  const { kty, x, y } = key.export({ format: 'jwk' })
  const [px, py] = [Buffer.from(x!, 'base64url'), Buffer.from(y ?? '', 'base64url')]
  // COSE (RFC 9053): kind, algorithm, curve, and the point.
  return kty === 'EC'
    ? Buffer.concat([Buffer.from('a501020326200121', 'hex'), cborBytes(px), Buffer.from('22', 'hex'), cborBytes(py)])
    : Buffer.concat([Buffer.from('a401010327200621', 'hex'), cborBytes(px)])
}

export function createAuthenticator(alg: 'ES256' | 'EdDSA' = 'ES256') {
  const { privateKey, publicKey } = alg === 'ES256' ? generateKeyPairSync('ec', { namedCurve: 'P-256' }) : generateKeyPairSync('ed25519')
  const id = randomBytes(20)
  let counter = 0
  const dataOf = ({ rp = 'localhost', flags = PRESENT | VERIFIED, counter: said }: Said, more = 0): Buffer => {
    const count = Buffer.alloc(4)
    count.writeUInt32BE(said ?? ++counter)
    return Buffer.concat([sha256(rp), Buffer.from([flags | more]), count])
  }
  const clientOf = (type: string, challenge: string, said: Said): string =>
    JSON.stringify({ type: said.type ?? type, challenge, origin: said.origin ?? ORIGIN, crossOrigin: said.crossOrigin ?? false })
  return {
    id: b64(id),
    publicKey,
    /** A registration with an attestation of the kind `none`, as `PublicKeyCredential.toJSON()` gives it. */
    create(challenge: string, said: Said = {}) {
      const attested = Buffer.concat([Buffer.alloc(16), Buffer.from([0, id.length]), id, coseOf(publicKey)])
      const data = Buffer.concat([dataOf({ counter: 0, ...said }, ATTESTED), attested])
      const object = [cborText('fmt'), cborText('none'), cborText('attStmt'), Buffer.from([0xa0]), cborText('authData'), cborBytes(data)]
      return {
        id: b64(id),
        rawId: b64(id),
        type: 'public-key',
        authenticatorAttachment: 'platform',
        clientExtensionResults: {},
        response: {
          clientDataJSON: b64(clientOf('webauthn.create', challenge, said)),
          attestationObject: b64(Buffer.concat([Buffer.from([0xa3]), ...object])),
          transports: ['internal'],
        },
      }
    },
    /** An assertion, as `PublicKeyCredential.toJSON()` gives it. */
    get(challenge: string, said: Said = {}) {
      const data = dataOf(said)
      const client = clientOf('webauthn.get', challenge, said)
      const covered = Buffer.concat([data, sha256(client)])
      return {
        id: b64(id),
        rawId: b64(id),
        type: 'public-key',
        clientExtensionResults: {},
        response: {
          clientDataJSON: b64(client),
          authenticatorData: b64(data),
          signature: b64(sign(alg === 'ES256' ? 'sha256' : null, covered, privateKey)),
        },
      }
    },
  }
}
export type Authenticator = ReturnType<typeof createAuthenticator>
