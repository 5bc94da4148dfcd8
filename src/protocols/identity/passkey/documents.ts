// Passkeys: the public keys of people's own devices, and the challenges that these sign. Only a fact enrols or removes a key.
import { SYSTEM_SCOPE, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { doc, index, nullable, pick, t, type Static } from '#kernel/declare/schema.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { Timestamp, UserId } from '../schema.ts'

const seenBy = (who: string, actor: Actor): boolean => who === actor.id || (actor.kind === 'human' && actor.owner === true)
export const PasskeyId = t.String({ maxLength: limits.idCharsMax, description: 'the id of a passkey, pk_…' })
const base64url = t.String({ maxLength: limits.assertionCharsMax })

export const Passkey = doc(
  'identity.passkey',
  t.Object({
    id: PasskeyId,
    user_id: UserId,
    label: t.String({ maxLength: limits.labelCharsMax }),
    credential_id: { ...base64url, description: 'the id of the credential, as the device knows it' },
    alg: t.Integer({ description: 'its algorithm as COSE numbers it: -7 is ES256, -8 is EdDSA' }),
    jwk: t.Object(
      { kty: t.String(), crv: t.String(), x: t.String(), y: t.Optional(t.String()) },
      { description: 'its public key as a JWK (RFC 7517)' },
    ),
    cose: { ...base64url, description: 'the same key as the device sent it (COSE), in base64url' },
    rp_id: t.String({ maxLength: limits.labelCharsMax, description: 'the host name that it signs for' }),
    transports: t.Array(t.String({ maxLength: 40 }), { maxItems: 10, description: 'how a browser reaches the device' }),
    aaguid: t.String({ maxLength: 40, description: 'the model of the device, as it says' }),
    created_at: Timestamp,
    counted_from: { ...Timestamp, description: 'from when on its signatures count' },
    signed_by: nullable({ ...PasskeyId, description: 'the enrolled passkey that signed its enrolment' }),
    removed_at: nullable({ ...Timestamp, description: 'from when on its signatures do not count any more' }),
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: (passkey, actor) => seenBy(passkey.user_id, actor),
    indexes: { user: index((passkey) => [[passkey.user_id]], 1) },
  },
)
export type Passkey = Static<typeof Passkey.schema>
/** The id follows from the credential, so that no credential is enrolled twice, by any person. */
export const passkeyIdOf = (credential_id: string): string => `pk_${sha256(credential_id)}`
export const counts = ({ counted_from, removed_at }: Passkey, now: string): boolean =>
  counted_from <= now && (removed_at === null || now < removed_at)

export const passkeyView = pick(Passkey.schema, [
  'id',
  'user_id',
  'label',
  'credential_id',
  'alg',
  'jwk',
  'rp_id',
  'transports',
  'aaguid',
  'created_at',
  'counted_from',
  'signed_by',
  'removed_at',
])

/** Whether a person has ever had a passkey. The first one counts immediately; two that are enrolled at a time are not both the first. */
export const Enrolments = doc(
  'identity.enrolments',
  t.Object({
    id: UserId,
    first_at: Timestamp,
    /** From when on all passkeys enrolled before an owner's reset do not count, and the next one counts immediately. */
    reset_from: nullable(Timestamp),
  }),
  { scopeOf: () => SYSTEM_SCOPE, visibleTo: ({ id }, actor) => seenBy(id, actor) },
)
export type Enrolments = Static<typeof Enrolments.schema>

/** The signature counter of a device, if it has one: it never decreases. */
export const PasskeyUse = doc('identity.passkey_use', t.Object({ id: PasskeyId, counter: t.Integer(), used_at: Timestamp }), {
  scopeOf: () => SYSTEM_SCOPE,
  visibleTo: () => false,
})

/** A challenge for one call of one person. The device signs its id, and its use deletes it. */
export const Challenge = doc(
  'identity.challenge',
  t.Object({
    id: t.String(),
    user_id: UserId,
    operation: t.String(),
    nonce: t.String(),
    expires_at: Timestamp,
  }),
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: () => false,
    indexes: { user: index((challenge) => [[challenge.user_id, challenge.expires_at]], 1) },
  },
)
export type Challenge = Static<typeof Challenge.schema>
