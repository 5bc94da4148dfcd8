// The cryptography of passkeys on the server. `@simplewebauthn/server` takes a registration apart, which is CBOR and certificates from
// outside; it is loaded with the first enrolment. Assertions are checked by the code that the SDK runs in browsers too.
import type { NewCredential, Passkeys, Registration, RelyingParty } from '#kernel/ports/passkeys.ts'
import { ALGORITHMS, type PasskeyJwk } from '#kernel/signing/assertion.ts'
import { importPasskey, webCryptoOf } from '#kernel/signing/web-crypto.ts'

const { subtle } = globalThis.crypto

type Cose = { get(label: number): unknown }
/** A public key as the device writes it (RFC 9053), as a JWK: 1 is the kind of the key, -1 its curve, -2 and -3 its point. */
function jwkOf(alg: number, cose: Cose): PasskeyJwk | null {
  const text = (label: number): string => Buffer.from(cose.get(label) as Uint8Array).toString('base64url')
  const [kind, curve] = [cose.get(1), cose.get(-1)]
  if (alg === -7 && kind === 2 && curve === 1) return { kty: 'EC', crv: 'P-256', x: text(-2), y: text(-3) }
  return alg === -8 && kind === 1 && curve === 6 ? { kty: 'OKP', crv: 'Ed25519', x: text(-2) } : null
}

async function readRegistration({
  id,
  rp_id,
  origins,
  ...given
}: Registration & { rp_id: string; origins: readonly string[] }): Promise<NewCredential | string> {
  const { verifyRegistrationResponse } = await import('@simplewebauthn/server')
  const { decodeCredentialPublicKey } = await import('@simplewebauthn/server/helpers')
  try {
    const { verified, registrationInfo } = await verifyRegistrationResponse({
      response: {
        id,
        rawId: id,
        type: 'public-key',
        response: { clientDataJSON: given.client_data_json, attestationObject: given.attestation_object },
        clientExtensionResults: {},
      },
      expectedChallenge: given.challenge,
      expectedOrigin: [...origins],
      expectedRPID: rp_id,
      requireUserVerification: true,
      supportedAlgorithmIDs: [...ALGORITHMS],
    })
    if (!verified) return 'its attestation is not genuine'
    const { credential, aaguid } = registrationInfo
    if (credential.id !== id) return 'its id differs from the id that the device gave'
    const cose: Cose = decodeCredentialPublicKey(credential.publicKey)
    const alg = cose.get(3) as number
    const jwk = jwkOf(alg, cose)
    if (jwk === null || !(await importPasskey(subtle, { alg, jwk, rp_id }))) return 'its key is neither ES256 on P-256 nor Ed25519'
    return {
      credential_id: id,
      alg,
      jwk,
      cose: Buffer.from(credential.publicKey).toString('base64url'),
      counter: credential.counter,
      aaguid,
    }
  } catch (error) {
    // The library throws an Error with a sentence for everything that is wrong with a registration.
    return (error as Error).message
  }
}

/** `party`: asked every time, because a server knows its own port only when it listens. */
export const createPasskeys = (party: () => RelyingParty): Passkeys => ({
  party,
  credentialOf(registration) {
    const { id: rp_id, origins } = party()
    return readRegistration({ ...registration, rp_id, origins })
  },
  ...webCryptoOf(subtle),
})
