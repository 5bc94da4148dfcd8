// The credential of the examples: a passkey of `localhost`. An attestation of the kind `none` holds a public key and no signature, so this
// one fits every challenge.

const ID = 'ZXhhbXBsZS1jcmVkZW50aWFs'
const ATTESTATION =
  'o2NmbXRkbm9uZWdhdHRTdG10oGhhdXRoRGF0YViWSZYN5YgOjGh0NBcPZHZgW4_krrmihjLHmVzzuoMdl2NFAAAAAAAAAAAAAAAAAAAAAAAAAAAAEmV4YW1wbGUtY3JlZGVudGlhbKUBAgMmIAEhWCAeGFMv1HVMAvMEHZx1zrM7g__YGsfOT-iCzLHJi8WJbiJYIKRsMRxOL_QN2Wo2U-bkVEXTLf5Ibs7XXHqQxqGIgcCj'

export const exampleCredential = (challenge: string) => ({
  id: ID,
  response: {
    clientDataJSON: Buffer.from(JSON.stringify({ type: 'webauthn.create', challenge, origin: 'http://localhost:3402' })).toString(
      'base64url',
    ),
    attestationObject: ATTESTATION,
  },
})
