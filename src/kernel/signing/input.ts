// The inputs `assertion` and `credential`: what a browser gives for a signature by passkey and for a new one, as their `toJSON()` writes
// it.
import { t, type Static } from '../declare/schema.ts'
import { withAdded } from '../declare/unknown-fields.ts'
import { limits } from '../limits.ts'

const part = (description: string) => t.String({ maxLength: limits.assertionCharsMax, description: `${description}, in base64url` })
/** The other members of the form of WebAuthn. They are accepted and not used. */
const others = ['rawId', 'type', 'authenticatorAttachment', 'clientExtensionResults']

export const Assertion = withAdded(
  t.Object(
    {
      id: part('the id of the credential'),
      response: withAdded(
        t.Object({
          clientDataJSON: part('what the browser says about the call'),
          authenticatorData: part('what the device says about it'),
          signature: part('the signature of the device over both'),
        }),
        'userHandle',
      ),
      nonce: t.Optional(part('the nonce that passkey.challenge answered')),
    },
    { description: 'the signature of your passkey over the challenge of passkey.challenge: PublicKeyCredential.toJSON()' },
  ),
  ...others,
)
export type Assertion = Static<typeof Assertion>
/** The field of an operation that can be signed. */
export const AssertionField = { assertion: t.Optional(Assertion) }

export const Credential = withAdded(
  t.Object(
    {
      id: part('the id of the credential'),
      response: withAdded(
        t.Object({
          clientDataJSON: part('what the browser says about the call'),
          attestationObject: t.String({
            maxLength: limits.attestationCharsMax,
            description: 'the new public key as the device gives it, in base64url',
          }),
          transports: t.Optional(
            t.Array(t.String({ maxLength: 40 }), { maxItems: 10, description: 'how the browser reaches the device, such as usb' }),
          ),
        }),
        'authenticatorData',
        'publicKey',
        'publicKeyAlgorithm',
      ),
    },
    { description: 'the new passkey: PublicKeyCredential.toJSON()' },
  ),
  ...others,
)
export type Credential = Static<typeof Credential>

/** A checked assertion as the record and receipts keep it. */
export const SignatureFields = t.Object(
  {
    operation: t.String({ description: 'the call that was signed' }),
    subject_digest: t.String({ description: 'the digest of what it is about' }),
    shown_digest: t.Union([t.String(), t.Null()], { description: 'the digest of the card that the person saw' }),
    result_digest: t.String({ description: 'the digest of the answer, with its reason' }),
    said: t.Optional(
      t.Object({
        word: t.String({ description: 'the word of the decision' }),
        digest: t.String({ description: 'the digest of the whole answer' }),
      }),
    ),
    nonce: t.String({ description: 'the nonce of the challenge' }),
    credential_id: t.String({ description: 'the passkey that signed, as its device knows it' }),
    client_data_json: t.String({ description: 'what the browser said about the call' }),
    authenticator_data: t.String({ description: 'what the device said about it' }),
    signature: t.String({ description: 'the signature of the device over both' }),
  },
  { description: "the person's own signature, by passkey, in base64url" },
)
