// Hashes and signatures of passkeys by WebCrypto, which Node and browsers have.
import { ALGORITHMS, type AssertionCrypto, type PasskeyKey } from './assertion.ts'

const algorithmOf = (alg: number) => (alg === ALGORITHMS[0] ? { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } : { name: 'Ed25519' })

/** null: it is no key of its algorithm. */
export const importPasskey = (subtle: SubtleCrypto, { alg, jwk }: PasskeyKey): Promise<CryptoKey | null> =>
  subtle.importKey('jwk', { ...jwk }, algorithmOf(alg), false, ['verify']).catch(() => null)

export const webCryptoOf = (subtle: SubtleCrypto): AssertionCrypto => ({
  sha256: async (bytes) => new Uint8Array(await subtle.digest('SHA-256', bytes)),
  async isSigned(key, bytes, signature) {
    const imported = await importPasskey(subtle, key)
    return imported !== null && subtle.verify(algorithmOf(key.alg), imported, signature, bytes)
  },
})
