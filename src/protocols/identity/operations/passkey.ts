// Passkeys of people: enrolled, listed and removed, and the challenges that they sign. Agents have none. An enrolment that no enrolled
// passkey has signed counts after a day, and so does a reset by an owner, so that the person learns of it first.
import { Refusal } from '#kernel/declare/errors.ts'
import { image, put } from '#kernel/declare/facts.ts'
import { human, installationOwner, isWhole, role, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, freshProof, query, rule, type Context, type Read } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import type { Covered, NewCredential } from '#kernel/ports/passkeys.ts'
import { AssertionField, Credential } from '#kernel/signing/input.ts'
import { fact } from '../events.ts'
import { User, UserId, Timestamp } from '../schema.ts'
import { challengeFor, challengeIn, refuseAssertion } from '../passkey/check.ts'
import { exampleCredential } from '../passkey/example-credential.ts'
import {
  Challenge,
  counts,
  Enrolments,
  Passkey,
  PasskeyId,
  passkeyIdOf,
  passkeyView,
  type Passkey as Enrolled,
} from '../passkey/documents.ts'

/** A narrowed key cannot enrol or remove a person's passkeys. */
const themself = role<unknown>(
  'the person themself',
  (actor) =>
    actor.kind === 'human' && (isWhole(actor) || (actor.partial !== true && (actor.via === 'token' || actor.via === 'development'))),
)

const ADD = 'identity/passkey.add'
/** The content that a device signs to create a passkey, and that an enrolled passkey signs to vouch for the new one. */
const coveredFor = ({ id }: Actor, created: NewCredential | null): Covered => ({
  subject_digest: sha256(canonical({ user_id: id })),
  shown_digest: null,
  result_digest: sha256(canonical(created === null ? null : { alg: created.alg, credential_id: created.credential_id, jwk: created.jwk })),
})

type Given = { readonly created: NewCredential; readonly challenge: string }
async function givenIn(read: Read, credential: Credential, context: Context): Promise<Given> {
  const { clientDataJSON, attestationObject } = credential.response
  const { id: challenge, nonce } = await challengeIn(read, clientDataJSON, ADD, context)
  if (challengeFor(ADD, coveredFor(context.actor, null), nonce) !== challenge) refuseAssertion('its challenge is not one for a new passkey')
  const registration = { id: credential.id, client_data_json: clientDataJSON, attestation_object: attestationObject, challenge }
  const created = await context.passkeys.credentialOf(registration)
  if (typeof created === 'string') throw new Refusal('ASSERTION_INVALID', `credential: ${created}`, { field: 'credential' })
  return { created, challenge }
}

const add = command({
  name: 'passkey.add',
  summary:
    'Add a passkey of yours. The first one counts immediately; a further one if an enrolled passkey signs it, otherwise after a day.',
  draft: 'ours: a person signs with a device of their own (WebAuthn, 7.1)',
  input: t.Object({
    credential: t.Optional(Credential),
    label: t.Optional(t.String({ maxLength: limits.labelCharsMax })),
    ...AssertionField,
  }),
  output: t.Object({ passkey: passkeyView.schema }),
  callers: [themself],
  requires: [freshProof()],
  audit: 'passkey.added',
  async load(read, { credential }, context) {
    const { actor } = context
    if (actor.kind !== 'human') return { given: null, taken: false, before: null }
    const given = credential === undefined ? null : await givenIn(read, credential, context)
    return {
      given,
      taken: given !== null && (await read.raw(Passkey, passkeyIdOf(given.created.credential_id))) !== null,
      before: await read.raw(Enrolments, actor.id),
    }
  },
  signs: ({ given }, _, { actor }) => ({ project_id: null, risk: 'never', toSign: () => coveredFor(actor, given?.created ?? null) }),
  decide({ given, taken, before }, { credential, label = '' }, { actor, now, passkeys, signature }) {
    if (given === null) throw new Refusal('INVALID_REQUEST', 'credential is required', { field: 'credential' })
    if (taken) throw new Refusal('CONFLICT', 'this passkey is enrolled already, or was removed: make another one on the device')
    const { credential_id, alg, jwk, cose, aaguid } = given.created
    const isFirst = before === null || (before.reset_from !== null && before.reset_from <= now)
    const isImmediate = isFirst || signature !== null
    const passkey: Enrolled = {
      id: passkeyIdOf(credential_id),
      user_id: actor.id,
      label,
      credential_id,
      alg,
      jwk,
      cose,
      rp_id: passkeys.party().id,
      transports: credential?.response.transports ?? [],
      aaguid,
      created_at: now,
      counted_from: isImmediate ? now : timestampOf(Date.parse(now) + limits.passkeyDelayMs),
      signed_by: signature === null ? null : passkeyIdOf(signature.credential_id),
      removed_at: null,
    }
    const enrolments: Enrolments = {
      id: actor.id,
      first_at: before?.first_at ?? now,
      reset_from: isFirst ? null : (before?.reset_from ?? null),
    }
    const { rp_id, counted_from } = passkey
    const detail = {
      credential_id,
      alg,
      jwk,
      cose,
      rp_id,
      counted_from,
      is_first: isFirst,
      ...(signature === null ? {} : { assertion: signature }),
    }
    const max = limits.passkeysPerPersonMax
    return {
      facts: [fact('passkey.added', [image(Passkey, passkey), image(Enrolments, enrolments)], { detail })],
      puts: [put(Challenge, given.challenge, null)],
      atMost: [
        { doc: Passkey, index: 'user', prefix: [actor.id], max, message: `a person has at most ${max} passkeys, removed ones included` },
      ],
      output: { passkey: passkeyView.of(passkey) },
    }
  },
  example: {
    given: 'empty',
    as: 'alice',
    input: { credential: exampleCredential('3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'), label: 'laptop' },
    // A challenge is made for one person, and used once.
    refused: 'ASSERTION_INVALID',
  },
})

/** The passkeys that the actor can see. */
async function passkeysOf(read: Read, person: string): Promise<Enrolled[]> {
  const listed = await read.list(Passkey, 'user', [[person]], { limit: limits.passkeysPerPersonMax })
  const found = await Promise.all(listed.map(({ id }) => read.maybe(Passkey, id)))
  return found.filter((passkey) => passkey !== null)
}

const list = query({
  name: 'passkey.list',
  summary: 'List your passkeys, removed ones included, and the site that new ones are made for. An owner lists those of any person.',
  draft: 'ours: a person signs with a device of their own',
  input: t.Object({ person: t.Optional(UserId) }),
  output: t.Object({
    items: t.Array(t.Object({ ...passkeyView.schema.properties, counts: t.Boolean({ description: 'its signatures count now' }) })),
    rp_id: t.String({ description: 'the host name that passkeys are made for: a browser offers them on pages of it' }),
  }),
  callers: [human],
  async load(read, { person }, { actor }) {
    const whose = person ?? actor.id
    if (actor.kind === 'human') await read(User, whose)
    return { found: await passkeysOf(read, whose) }
  },
  view: ({ found }, _, { now, passkeys }) => ({
    items: found.map((passkey) => ({ ...passkeyView.of(passkey), counts: counts(passkey, now) })),
    rp_id: passkeys.party().id,
  }),
  example: { given: 'withPasskey', as: 'alice', input: {} },
})

type OfPasskey = { readonly passkey: Enrolled }
const itsPerson = role<OfPasskey>('the person themself', (actor, { passkey }) => themself.is(actor, null) && passkey.user_id === actor.id)

const remove = command({
  name: 'passkey.remove',
  summary: 'Remove a passkey of yours: its signatures do not count from now on. What it has signed stays as it is.',
  draft: 'ours: a person signs with a device of their own',
  input: t.Object({ passkey_id: PasskeyId }),
  output: t.Object({ passkey: passkeyView.schema }),
  callers: [itsPerson],
  requires: [
    freshProof(),
    rule<OfPasskey>(
      'PRECONDITION_FAILED',
      'the passkey is not removed yet',
      ({ passkey }, _, { now }) => passkey.removed_at === null || now < passkey.removed_at,
      'the passkey was removed already',
    ),
  ],
  audit: 'passkey.removed',
  load: async (read, { passkey_id }) => ({ passkey: await read(Passkey, passkey_id) }),
  decide({ passkey }, _, { now }) {
    const removed: Enrolled = { ...passkey, removed_at: now }
    const { credential_id, jwk } = passkey
    return {
      facts: [fact('passkey.removed', [image(Passkey, removed)], { detail: { credential_id, jwk, removed_at: now } })],
      output: { passkey: passkeyView.of(removed) },
    }
  },
  example: { given: 'withPasskey', as: 'alice', input: ({ passkey }) => ({ passkey_id: passkey.id }) },
})

const reset = command({
  name: 'passkey.reset',
  summary: 'For a person who has lost every device: after a day their passkeys no longer count, and the next one counts immediately.',
  draft: 'ours: a person signs with a device of their own',
  input: t.Object({ person: UserId }),
  output: t.Object({ items: t.Array(passkeyView.schema), from: Timestamp }),
  callers: [installationOwner],
  requires: [
    freshProof(),
    rule<{ enrolments: Enrolments | null }>(
      'PRECONDITION_FAILED',
      'the person has a passkey',
      ({ enrolments }) => enrolments !== null,
      'the person has never had a passkey: they can add one',
    ),
  ],
  audit: 'passkey.reset',
  async load(read, { person }) {
    await read(User, person)
    const found = await passkeysOf(read, person)
    return { enrolments: await read.raw(Enrolments, person), live: found.filter(({ removed_at }) => removed_at === null) }
  },
  decide({ enrolments, live }, { person }, { now }) {
    const from = timestampOf(Date.parse(now) + limits.passkeyDelayMs)
    const next: Enrolments = { ...enrolments!, reset_from: from }
    const ended = live.map((passkey): Enrolled => ({ ...passkey, removed_at: from }))
    const detail = { person, from, credential_ids: ended.map(({ credential_id }) => credential_id) }
    return {
      facts: [fact('passkey.reset', [image(Enrolments, next), ...ended.map((passkey) => image(Passkey, passkey))], { detail })],
      output: { items: ended.map(passkeyView.of), from },
    }
  },
  example: { given: 'withPasskey', as: 'owner', input: { person: 'user_alice' } },
})

const challenge = command({
  name: 'passkey.challenge',
  summary:
    'Ask for the challenge that a passkey signs for one call of yours, within five minutes. Its input is checked as the call itself would.',
  draft: 'ours: the challenge is over the canonical JSON of what is decided',
  input: t.Object({
    operation: t.String({ minLength: 1, maxLength: limits.idCharsMax, description: 'the call, such as request.resolve' }),
    input: t.Object({}, { additionalProperties: true, description: 'its input, without assertion' }),
  }),
  output: t.Object({ challenge: t.String(), nonce: t.String(), expires_at: Timestamp }),
  callers: [human],
  requires: [],
  audit: null,
  async load(read, { operation, input }, { actor, now }) {
    if (actor.kind !== 'human') return { covered: null, stale: [] }
    const listed = await read.list(Challenge, 'user', [[actor.id]], { limit: limits.challengesOpenMax })
    return {
      covered: await read.signable(operation, input),
      stale: listed.filter(({ at }) => at.split('\0')[0]! <= now),
    }
  },
  decide({ covered, stale }, _, { actor, now, secret }) {
    const { operation } = covered!
    const nonce = secret()
    const id = challengeFor(operation, covered!, nonce)
    const expires_at = timestampOf(Date.parse(now) + limits.challengeMs)
    const max = limits.challengesOpenMax
    return {
      facts: [],
      puts: [
        put(Challenge, id, { id, user_id: actor.id, operation, nonce, expires_at }),
        // Unused challenges stay until the next one of the same person deletes them.
        ...stale.map((old) => put(Challenge, old.id, null)),
      ],
      atMost: [
        { doc: Challenge, index: 'user', prefix: [actor.id], max, message: `at most ${max} challenges wait for a signature at a time` },
      ],
      output: { challenge: id, nonce, expires_at },
    }
  },
  example: { given: 'empty', as: 'alice', input: { operation: 'passkey.add', input: {} } },
})

export const passkeyOperations = [add, list, remove, reset, challenge]
