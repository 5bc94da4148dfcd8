// Ways to sign in without a link from an owner: a key typed into the page, or a link mailed to a confirmed address.
import type { Device, Opened } from '#bindings/http/browser/login.ts'
import { SYSTEM, type Actor } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { END, idIn, keyOf, prefixOf } from '#kernel/declare/schema.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import type { Credential } from '#protocols/identity/authenticate.ts'
import { createRation, networkOf } from './ration.ts'
import { Channel, Hook, isReady } from '#protocols/execution/notices/notice.ts'

const PORTION = 500
const SEARCHES_MAX = 20

/** Confirmed e-mail channels with this address that were added with all the rights of their person. */
async function channelsAt({ store }: Kernel, address: string): Promise<string[]> {
  const lowerAddress = address.toLowerCase()
  const prefix = prefixOf(Channel, 'person', [])
  const found: string[] = []
  for (let place = prefix, seen = 0; seen < limits.channelsSearchedMax;) {
    const entries = await store.scan(place, prefix + END, PORTION)
    if (entries.length === 0) break
    const ids = entries.map(idIn)
    const channels = await store.read(ids.map((id) => keyOf(Channel, id)))
    const hooks = await store.read(ids.map((id) => keyOf(Hook, id)))
    for (const [i, id] of ids.entries()) {
      const [channel, endpoint] = [channels[i]?.value as Channel | undefined, hooks[i]?.value['endpoint']]
      const isIt = channel?.signs_in === true && isReady(channel) && typeof endpoint === 'string' && endpoint.toLowerCase() === lowerAddress
      if (isIt) found.push(id)
    }
    seen += entries.length
    place = entries.at(-1)!
  }
  return found
}

export type SignIn = {
  /** Whether links can be mailed. */
  readonly mails: boolean
  /** Opens a session for the person of a key. `person`: the person for whom the page was opened, if any. */
  openByKey(key: string, device: Device, person: string | undefined): Promise<Opened>
  /** Mails a link to the person with this confirmed address, if there is one. False: too many links were asked for from there. */
  mailLink(address: string, from: string, request_id: string | null): boolean
}

type Parts = {
  readonly mails: boolean
  authenticate(credential: Credential): Actor | Promise<Actor>
  open(token: string, device: Device): Promise<Opened>
  readonly log: { warn(fields: object, message: string): void }
}

export function createSignIn(kernel: Kernel, { mails, authenticate, open, log }: Parts): SignIn {
  const fromAddress = createRation(limits.linksPerAddressMax, kernel.now)
  const toChannel = createRation(limits.linksPerPersonMax, kernel.now)

  /** One search at a time, so that requests of strangers cannot add up. */
  let searching: Promise<unknown> = Promise.resolve()
  let waiting = 0
  async function mail(address: string, request_id: string | null): Promise<void> {
    for (const channel_id of await channelsAt(kernel, address))
      if (toChannel(channel_id)) await kernel.call('execution/channel.sign_in', { channel_id, request_id }, SYSTEM)
  }

  return {
    mails,
    async openByKey(key, device, person) {
      const actor = await authenticate({ kind: 'bearer', token: key })
      if (actor.kind !== 'human')
        throw new Refusal(
          'UNAUTHORIZED',
          `this key is of ${actor.id}, which is not a person: the page is for people, so use a key of your own`,
        )
      if (actor.narrowed === true)
        throw new Refusal('UNAUTHORIZED', 'this key ends, or is for one project only, so it opens no session: use a full key or a link')
      if (person !== undefined && person !== actor.id)
        throw new Refusal('OTHER_PERSON', `this key is of ${actor.id}, and this page was opened for ${person}: use a key of ${person}`)
      const { token } = (await kernel.call('identity/login.issue', { user_id: actor.id }, actor)) as { token: string }
      return open(token, device)
    },
    mailLink(address, from, request_id) {
      if (!fromAddress(networkOf(from)) || waiting >= SEARCHES_MAX) return false
      waiting++
      // The answer does not wait for the search: its duration would reveal whether the address is known.
      searching = searching
        .then(() => mail(address, request_id))
        .catch((error: unknown) => log.warn({ err: error }, 'a sign-in link could not be mailed'))
        .finally(() => waiting--)
      return true
    },
  }
}
