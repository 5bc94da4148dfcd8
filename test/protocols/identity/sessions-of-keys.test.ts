// A session that a key opened ends with that key: every way to open one, with every way that ends a key.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { revokeAdminKeys } from '#apps/server/folder/first-start.ts'
import { createAuthenticator, type Authenticator } from '#apps/server/identity/authenticator.ts'
import { SYSTEM, type Actor } from '#kernel/declare/access.ts'
import { ADMIN_SERVICE } from '#protocols/identity/schema.ts'
import { refusalOf } from '../../support/in-process/stage.ts'
import { createWorld, type World } from '../../support/in-process/world.ts'

type Scene = {
  readonly world: World
  readonly sessions: Authenticator
  /** The key, and the actor that it stands for. */
  readonly key: string
  readonly holder: Actor
}
const device = { browser: 'Firefox on Android', address: '192.0.2.7', remember: true }

async function linkFor({ world }: Scene, user_id: string, actor: Actor): Promise<string> {
  return ((await world.kernel.call('identity/login.issue', { user_id }, actor)) as { token: string }).token
}

async function throughLink(scene: Scene, user_id: string, actor: Actor): Promise<() => Promise<Actor>> {
  const { session } = await scene.sessions.open(await linkFor(scene, user_id, actor), device)
  return async () => scene.sessions.authenticate({ kind: 'session', token: session })
}

/** Each answers the actor of a session, as long as it is one. `own`: only the key of a person opens it. */
const ways: Readonly<Record<string, { readonly own?: boolean; open(scene: Scene): Promise<() => Promise<Actor>> }>> = {
  'a typed key': {
    own: true,
    async open({ sessions, key }) {
      const { session } = await sessions.openByKey(key, device, undefined)
      return async () => sessions.authenticate({ kind: 'session', token: session })
    },
  },
  'a link for the holder': { own: true, open: (scene) => throughLink(scene, scene.holder.id, scene.holder) },
  'a link for somebody else': { open: (scene) => throughLink(scene, 'user_bob', scene.holder) },
  'a link that was not used yet': {
    async open(scene) {
      const token = await linkFor(scene, 'user_bob', scene.holder)
      return async () => {
        if ((await scene.sessions.whoseLink(token)) !== null) return scene.holder
        await scene.sessions.open(token, device)
        throw new Error('a link opened a session and belonged to nobody')
      }
    },
  },
  'a link that such a session made': {
    open: async (scene) => throughLink(scene, 'user_bob', await (await throughLink(scene, 'user_bob', scene.holder))()),
  },
  'a ticket of such a session': {
    async open(scene) {
      const actor = await (await throughLink(scene, 'user_bob', scene.holder))()
      const { ticket } = (await scene.world.kernel.call('identity/ticket.issue', {}, actor)) as { ticket: string }
      return scene.sessions.redeem(ticket)
    },
  },
}

const idOfKey = (key: string): string => `key_${key.split('_')[1]}`
/** `of`: whose keys it ends. */
const ends: Readonly<Record<string, { readonly of: readonly string[]; end(scene: Scene): Promise<unknown> }>> = {
  'key.revoke': {
    of: ['user_alice', ADMIN_SERVICE],
    end: ({ world, key }) => world.kernel.call('identity/key.revoke', { key_id: idOfKey(key) }, SYSTEM),
  },
  'switching its person off': {
    of: ['user_alice'],
    end: ({ world }) => world.kernel.call('identity/user.update', { user_id: 'user_alice', disabled: true }, SYSTEM),
  },
  'another admin key': { of: [ADMIN_SERVICE], end: ({ world }) => revokeAdminKeys(world.kernel) },
}

async function sceneOf(subject: string): Promise<Scene> {
  const world = await createWorld()
  await world.kernel.call('identity/user.update', { user_id: 'user_alice', role: 'owner' }, SYSTEM)
  const { key } = (await world.kernel.call('identity/key.issue', { subject }, SYSTEM)) as { key: string }
  const sessions = createAuthenticator(world.kernel)
  return { world, sessions, key, holder: await sessions.authenticate({ kind: 'bearer', token: key }) }
}

for (const [how, { of, end }] of Object.entries(ends))
  for (const subject of of)
    for (const [name, { own = false, open }] of Object.entries(ways).filter(([, way]) => way.own !== true || subject !== ADMIN_SERVICE))
      test(`${how} ends ${name}, opened with a key of ${subject}`, async () => {
        const scene = await sceneOf(subject)
        const actor = await open(scene)
        // A session of the same person that no key opened continues.
        const other = await throughLink(scene, own ? scene.holder.id : 'user_bob', SYSTEM)
        assert.ok((await actor()).id)
        await end(scene)
        assert.equal((await refusalOf(actor()))?.code, 'UNAUTHENTICATED')
        if (how === 'switching its person off' && own) return
        const { items } = (await scene.world.kernel.call('identity/session.list', {}, await other())) as { items: { current: boolean }[] }
        assert.deepEqual(
          items.map(({ current }) => current),
          [true],
          'sessions that ended are not listed',
        )
      })
