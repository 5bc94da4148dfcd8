// People with passkeys in a world of tests: they enrol devices in software, and sign calls.
import { createAuthenticator, type Authenticator, type Said } from './authenticator.ts'
import type { World } from '../in-process/world.ts'

export async function enrol(world: World, as: string, device = createAuthenticator()): Promise<Authenticator> {
  const { challenge } = await world.call(as, 'identity/passkey.challenge', { operation: 'passkey.add', input: {} })
  await world.call(as, 'identity/passkey.add', { credential: device.create(challenge) })
  return device
}

/** The input with the signature of a device. */
export async function signed(
  world: World,
  as: string,
  device: Authenticator,
  operation: string,
  input: object,
  said?: Said,
): Promise<object> {
  const { challenge, nonce } = await world.call(as, 'identity/passkey.challenge', { operation, input })
  return { ...input, assertion: { ...device.get(challenge, said), nonce } }
}

/** From this risk on, answers in the default project are signed. */
export const signFrom = (world: World, passkey_from: string): Promise<unknown> =>
  world.call('owner', 'execution/policy.set', { project_id: 'project_default', passkey_from })
