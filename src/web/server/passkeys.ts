// Passkeys of this person: the device signs a call, or makes a new passkey. The server says what is signed.
import { CountersignError, type CallName, type Client, type Input } from '#sdk/index.ts'

type Assertion = NonNullable<Input<'execution/request.resolve'>['assertion']>
type Credential = NonNullable<Input<'identity/passkey.add'>['credential']>

const refuse = (message: string): never => {
  throw new CountersignError({ code: 'NOT_SIGNED', status: null, message, retryable: false })
}

/** The address at which this page can ask for passkeys; null: it is this one. A browser has none for an IP address. */
export function siteOf(rp_id: string): string | null {
  const { hostname, protocol, port, pathname } = location
  if (hostname === rp_id || hostname.endsWith(`.${rp_id}`)) return null
  return `${protocol}//${rp_id}${port === '' ? '' : `:${port}`}${pathname}`
}

async function passkeysOf(client: Client) {
  const { items, rp_id } = await client.call('identity/passkey.list', {})
  const site = siteOf(rp_id)
  if (site !== null) refuse(`passkeys work at ${site}: open the page there`)
  if (typeof PublicKeyCredential === 'undefined' || !('parseRequestOptionsFromJSON' in PublicKeyCredential))
    refuse('this browser has no passkeys: update it, or use another one')
  return { items, rp_id }
}

/** A device that was dismissed, timed out or refused is not an error of the page. */
async function askDevice<T>(work: Promise<T | null>): Promise<T> {
  const found = await work.catch(() => refuse('nothing was signed: your device was dismissed, or waited too long. Try again'))
  return found ?? refuse('nothing was signed: the browser gave no signature. Try again')
}

export async function signatureOver<N extends CallName>(client: Client, operation: N, input: Input<N>): Promise<Assertion> {
  const { items, rp_id } = await passkeysOf(client)
  const usable = items.filter(({ counts }) => counts)
  if (usable.length === 0)
    refuse(
      items.some(({ removed_at }) => removed_at === null)
        ? 'this counts only with your passkey, and yours does not count yet: Settings, Passkeys says from when on'
        : 'this counts only with your passkey, and you have none: add one in Settings, Passkeys',
    )
  const { challenge, nonce } = await client.call('identity/passkey.challenge', { operation, input: { ...input } })
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON({
    challenge,
    rpId: rp_id,
    userVerification: 'required',
    allowCredentials: usable.map(({ credential_id: id }) => ({ type: 'public-key', id })),
  })
  const credential = await askDevice(navigator.credentials.get({ publicKey }))
  return { ...((credential as PublicKeyCredential).toJSON() as Assertion), nonce }
}

/** A new passkey on this device. Devices that are enrolled already are left out by the browser. */
export async function newCredential(client: Client, person: { readonly id: string; readonly name: string }): Promise<Credential> {
  const { items, rp_id } = await passkeysOf(client)
  const { challenge } = await client.call('identity/passkey.challenge', { operation: 'identity/passkey.add', input: {} })
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON({
    challenge,
    rp: { id: rp_id, name: 'Countersign' },
    user: { id: btoa(person.id).replaceAll('=', ''), name: person.id, displayName: person.name },
    pubKeyCredParams: [-7, -8].map((alg) => ({ type: 'public-key', alg })),
    authenticatorSelection: { userVerification: 'required', residentKey: 'preferred' },
    attestation: 'none',
    excludeCredentials: items.filter(({ removed_at }) => removed_at === null).map(({ credential_id: id }) => ({ type: 'public-key', id })),
  })
  const credential = await askDevice(navigator.credentials.create({ publicKey }))
  return (credential as PublicKeyCredential).toJSON() as Credential
}
