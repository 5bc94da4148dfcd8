// Sealing a secret to an agent in the person's browser: the server forwards it and cannot read it. Only WebCrypto, for browsers and Node.

/** The public key (RFC 8037) as `inbox.get` shows it. */
export type SealKey = { readonly kty: string; readonly crv: string; readonly x: string; readonly kid?: string }

const utf8 = new TextEncoder()
function base64url(bytes: Uint8Array): string {
  let binary = ''
  for (const byte of bytes) binary += String.fromCharCode(byte)
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
}
const bytesOf = (buffer: ArrayBuffer): Uint8Array<ArrayBuffer> => new Uint8Array(buffer)

const ALGORITHM = 'ECDH-ES+A256KW'

/** RFC 7518, 4.6.2: the wrapping key from the shared secret. */
async function wrappingKey(shared: Uint8Array): Promise<CryptoKey> {
  const name = utf8.encode(ALGORITHM)
  const info = new Uint8Array(4 + shared.length + 4 + name.length + 12)
  const view = new DataView(info.buffer)
  view.setUint32(0, 1)
  info.set(shared, 4)
  view.setUint32(4 + shared.length, name.length)
  info.set(name, 8 + shared.length)
  view.setUint32(info.length - 4, 256)
  const digest = await crypto.subtle.digest('SHA-256', info)
  return crypto.subtle.importKey('raw', digest, 'AES-KW', false, ['wrapKey'])
}

async function nameOf({ kid, crv, kty, x }: SealKey): Promise<string> {
  const text = `{"crv":${JSON.stringify(crv)},"kty":${JSON.stringify(kty)},"x":${JSON.stringify(x)}}`
  return kid ?? base64url(bytesOf(await crypto.subtle.digest('SHA-256', utf8.encode(text))))
}

/** A compact JWE for `request.resolve {sealed}`: the answer with a salt, so that its length and value cannot be guessed by trying. */
export async function sealAnswer(key: SealKey, value: string | number): Promise<string> {
  const to = await crypto.subtle.importKey('jwk', { kty: key.kty, crv: key.crv, x: key.x }, { name: 'X25519' }, false, [])
  const pair = (await crypto.subtle.generateKey({ name: 'X25519' }, true, ['deriveBits'])) as unknown as {
    privateKey: CryptoKey
    publicKey: CryptoKey
  }
  const shared = bytesOf(await crypto.subtle.deriveBits({ name: 'X25519', public: to }, pair.privateKey, 256))
  const { kty, crv, x } = await crypto.subtle.exportKey('jwk', pair.publicKey)
  const header = base64url(utf8.encode(JSON.stringify({ alg: ALGORITHM, enc: 'A256GCM', kid: await nameOf(key), epk: { kty, crv, x } })))
  const content = await crypto.subtle.generateKey({ name: 'AES-GCM', length: 256 }, true, ['encrypt'])
  const wrapped = bytesOf(await crypto.subtle.wrapKey('raw', content, await wrappingKey(shared), 'AES-KW'))
  const iv = crypto.getRandomValues(new Uint8Array(12))
  const salt = base64url(crypto.getRandomValues(new Uint8Array(32)))
  const plain = utf8.encode(JSON.stringify({ value, salt }))
  const sealed = bytesOf(await crypto.subtle.encrypt({ name: 'AES-GCM', iv, additionalData: utf8.encode(header) }, content, plain))
  const tag = sealed.length - 16
  return [header, base64url(wrapped), base64url(iv), base64url(sealed.subarray(0, tag)), base64url(sealed.subarray(tag))].join('.')
}
