// From a credential to an actor, on every real store: which credentials are refused, which actor the others name, and with which rights.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import type { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { authenticate } from '#protocols/identity/authenticate.ts'
import { HOUR_MS, refusalOf } from '../support/in-process/stage.ts'
import { createWorld, stateHash, storeMakers, type World } from '../support/in-process/world.ts'

const spec = { goal: 'Fix the login bug' }

function keyring(world: World) {
  const who = (token: string, kind: 'bearer' | 'session' = 'bearer'): Promise<Actor> =>
    authenticate(world.store, { kind, token }, world.kernel.now())
  return {
    who,
    async issue(subject: string, more: object = {}): Promise<{ token: string; id: string }> {
      const { key, issued } = await world.call('system', 'identity/key.issue', { subject, ...more })
      return { token: key, id: issued.id }
    },
    async nobody(calling: Promise<unknown>): Promise<void> {
      const { code, message }: Refusal = await refusalOf(calling)
      assert.deepEqual([code, message], ['UNAUTHENTICATED', 'a valid API key or session is required'])
    },
  }
}

for (const maker of storeMakers()) {
  describe(`credentials on ${maker.name}`, () => {
    after(() => maker.dispose())
    const open = async (): Promise<World & ReturnType<typeof keyring>> => {
      const world = await createWorld({ store: maker.open() })
      return { ...world, ...keyring(world) }
    }

    test('a key makes its subject, as it is registered, and nothing that the call says', async () => {
      const { issue, who, kernel, close } = await open()
      const alice = await who((await issue('user_alice')).token)
      assert.deepEqual(
        [alice.id, alice.kind, alice.owner, [...(alice.projects as Map<string, string>)]],
        ['user_alice', 'human', false, [['project_default', 'member']]],
      )
      const devin = await who((await issue('agent_devin')).token)
      assert.deepEqual([devin.id, devin.kind, devin.owner, devin.via], ['agent_devin', 'agent', false, 'key'])
      const owner = await who((await issue('user_owner')).token)
      assert.deepEqual([owner.kind, owner.owner], ['human', true])
      const admin = await who((await issue('service_admin')).token)
      assert.deepEqual([admin.id, admin.kind, admin.projects], ['service_admin', 'service', 'all'])
      assert.equal((await kernel.call('collaboration/task.create', { spec }, alice)).task.ownership.principal, 'user_alice')
      await close()
    })

    test('a key that is wrong in any way authenticates no one, with one and the same message', async () => {
      const { issue, who, nobody, close } = await open()
      const { token, id } = await issue('user_alice')
      const wrong = [
        '',
        'cs_',
        token.slice(0, -1),
        `${token}x`,
        token.replace(/.$/, (c) => (c === 'A' ? 'B' : 'A')),
        token.toLowerCase(),
        ` ${token}`,
      ]
      wrong.push(`cs_${id.slice(4)}_${'A'.repeat(43)}`, `cs_01J0K7M4N8Y7Q2W3E4R5T6Y7V8_${'A'.repeat(43)}`, id, 'x'.repeat(10_000))
      for (const one of wrong) await nobody(who(one))
      await nobody(who(token, 'session'))
      assert.equal((await who(token)).id, 'user_alice')
      await close()
    })

    test('a revoked key is refused from the next call on', async () => {
      const world = await open()
      const { token, id } = await world.issue('user_alice')
      await world.who(token)
      await world.call('alice', 'identity/key.revoke', { key_id: id })
      await world.nobody(world.who(token))
      await world.close()
    })

    test('a key that is revoked while its call is under way cannot win', async () => {
      const { issue, who, nobody, call, kernel, store, close } = await open()
      const { token, id } = await issue('user_alice')
      let asked = 0
      const slow = async (): Promise<Actor> => {
        const actor = await who(token)
        if (asked++ === 0) await call('alice', 'identity/key.revoke', { key_id: id })
        return actor
      }
      const creating = kernel.call('collaboration/task.create', { spec }, slow)
      await nobody(creating)
      assert.equal(asked, 1, 'the second attempt finds nobody to ask for')
      assert.deepEqual(await store.keys('collaboration.', 'collaboration.\u{10FFFF}', 10), [], 'and nothing was written')
      await close()
    })

    test('a disabled person and a disabled agent are refused, even in the middle of a call, until they are enabled again', async () => {
      const { issue, who, nobody, call, close } = await open()
      for (const [subject, update] of [
        ['user_bob', { call: 'identity/user.update', of: { user_id: 'user_bob' } }],
        ['agent_devin', { call: 'identity/agent.update', of: { agent_id: 'agent_devin' } }],
      ] as const) {
        const { token } = await issue(subject)
        await call('admin', update.call, { ...update.of, disabled: true })
        await nobody(who(token))
        const issuing = call('admin', 'identity/key.issue', { subject })
        assert.equal((await refusalOf(issuing)).code, 'PRECONDITION_FAILED')
        await call('admin', update.call, { ...update.of, disabled: false })
        assert.equal((await who(token)).id, subject)
      }
      await close()
    })

    test('a key ends at its time, to the millisecond', async () => {
      const world = await open()
      const ends = world.kernel.now() + HOUR_MS
      const { token } = await world.issue('user_alice', { expires_at: new Date(ends).toISOString() })
      assert.equal((await authenticate(world.store, { kind: 'bearer', token }, ends - 1)).id, 'user_alice')
      await world.nobody(authenticate(world.store, { kind: 'bearer', token }, ends))
      for (const expires_at of ['2020-01-01T00:00:00Z', 'soon', ''])
        assert.equal(
          (await refusalOf(world.call('admin', 'identity/key.issue', { subject: 'user_alice', expires_at }))).code,
          'INVALID_REQUEST',
        )
      await world.close()
    })

    test('a key that is narrowed to a project carries that project only, and cannot be traded for a wider one', async () => {
      const { issue, who, kernel, call, store, close } = await open()
      await call('admin', 'identity/project.join', { project_id: 'project_other', subject: 'user_owner', role: 'owner' })
      const { token } = await issue('user_owner', { project_id: 'project_other' })
      const narrow = await who(token)
      assert.deepEqual([[...(narrow.projects as Map<string, string>)], narrow.owner], [[['project_other', 'owner']], false])
      const before = await stateHash(store)
      const attempts: [string, object, string][] = [
        ['collaboration/task.create', { spec }, 'NOT_FOUND'],
        ['collaboration/task.list', {}, 'NOT_FOUND'],
        ['collaboration/audit.query', { project_id: 'system' }, 'UNAUTHORIZED'],
        ['identity/user.add', { name: 'Eve', project_id: 'project_other' }, 'UNAUTHORIZED'],
        ['identity/key.issue', { subject: 'user_owner' }, 'UNAUTHORIZED'],
        ['identity/key.issue', { subject: 'user_owner', project_id: 'project_default' }, 'UNAUTHORIZED'],
        ['identity/login.issue', { user_id: 'user_owner' }, 'UNAUTHORIZED'],
        ['identity/key.issue', { subject: 'service_admin' }, 'UNAUTHORIZED'],
      ]
      for (const [operation, input, code] of attempts) {
        const refusal = await refusalOf(kernel.call(operation, input, narrow))
        assert.equal(refusal.code, code, `${operation} ${JSON.stringify(input)}: ${refusal.message}`)
      }
      assert.equal(await stateHash(store), before)
      const elsewhere = await issue('user_alice', { project_id: 'project_other' })
      assert.deepEqual(
        [...((await who(elsewhere.token)).projects as Map<string, string>)],
        [],
        'a project that is not theirs gives nothing',
      )
      await close()
    })

    test('a key that ends issues no credential that outlives it', async () => {
      const { issue, who, kernel, store, close } = await open()
      const before = await stateHash(store)
      const { token } = await issue('user_owner', { expires_at: '2026-02-01T00:00:00Z' })
      const ending = await who(token)
      assert.notEqual(await stateHash(store), before)
      for (const [operation, input] of [
        ['identity/key.issue', { subject: 'user_owner' }],
        ['identity/key.issue', { subject: 'agent_devin' }],
        ['identity/login.issue', { user_id: 'user_owner' }],
      ] as const) {
        assert.equal((await refusalOf(kernel.call(operation, input, ending))).code, 'UNAUTHORIZED')
      }
      assert.equal(
        (await kernel.call('identity/user.add', { name: 'Nora' }, ending)).user.name,
        'Nora',
        'what it may do otherwise it still may',
      )
      await close()
    })

    test('of the projects of others one sees those that one is in', async () => {
      const { call, close } = await open()
      const { member } = await call('mallory', 'identity/project.join', { project_id: 'project_other', subject: 'user_bob' })
      assert.deepEqual(member.projects, [{ project_id: 'project_other', role: 'member' }])
      const seen = await call('alice', 'identity/user.get', { user_id: 'user_bob' })
      assert.deepEqual(seen.user.projects, [{ project_id: 'project_default', role: 'member' }])
      const { items } = await call('alice', 'identity/user.list')
      assert.equal(JSON.stringify(items).includes('project_other'), false)
      assert.equal((await call('admin', 'identity/user.get', { user_id: 'user_bob' })).user.projects.length, 2)
      await close()
    })

    test('a key of a project reads all of it and decides nothing', async () => {
      const { issue, who, kernel, play, close } = await open()
      const refs = await play(collaboration.scenes['blocked']!)
      const project = await who((await issue('project_default')).token)
      assert.deepEqual([project.id, project.kind], ['project_default', 'service'])
      assert.equal((await kernel.call('collaboration/task.list', {}, project)).items.length, 1)
      assert.ok((await kernel.call('collaboration/audit.query', {}, project)).items.length > 3)
      for (const [operation, input] of [
        ['checkpoint.resolve', { checkpoint_id: refs['checkpoint'].id, action: 'approve' }],
        ['task.cancel', { task_id: refs['task'].id }],
        ['task.create', { spec }],
      ] as const)
        assert.equal((await refusalOf(kernel.call(`collaboration/${operation}`, input, project))).code, 'UNAUTHORIZED', operation)
      await close()
    })

    test('a login link opens one session, once; the session ends when it is closed, idle or old', async () => {
      const world = await open()
      const { store, who, nobody, call } = world
      const opened = async (): Promise<{ session: string; session_id: string; token: string }> => {
        const { token } = await call('admin', 'identity/login.issue', { user_id: 'user_alice' })
        return { ...(await call('system', 'identity/session.open', { token })), token }
      }
      const first = await opened()
      assert.equal((await who(first.session, 'session')).via, 'session')
      await nobody(who(first.session, 'bearer'))
      assert.equal((await refusalOf(call('system', 'identity/session.open', { token: first.token }))).code, 'UNAUTHENTICATED')
      await call('alice', 'identity/session.close', { session_id: first.session_id })
      await nobody(who(first.session, 'session'))
      const second = await opened()
      const now = world.kernel.now()
      await authenticate(store, { kind: 'session', token: second.session }, now + limits.sessionIdleMs - 1_000)
      await nobody(authenticate(store, { kind: 'session', token: second.session }, now + limits.sessionIdleMs + 1_000))
      const { token } = await call('admin', 'identity/login.issue', { user_id: 'user_alice' })
      world.advance(limits.loginMs + 1_000)
      assert.equal((await refusalOf(call('system', 'identity/session.open', { token }))).code, 'UNAUTHENTICATED')
      await world.close()
    })

    test('keys that have expired are neither shown nor counted, and the next one that is issued puts them away', async () => {
      const world = await open()
      const { call, issue, store, nobody, who } = world
      const subject = 'agent_devin'
      const listed = async (): Promise<string[]> =>
        (await call('alice', 'identity/key.list', { subject, limit: 200 })).items.map(({ id }: { id: string }) => id)
      const kept = await issue(subject)
      const expires_at = new Date(world.kernel.now() + HOUR_MS).toISOString()
      const ending: { token: string; id: string }[] = []
      for (let i = 1; i < limits.keysPerSubjectMax; i++) ending.push(await issue(subject, { expires_at }))
      assert.equal((await listed()).length, limits.keysPerSubjectMax)
      assert.equal((await refusalOf(issue(subject))).code, 'QUOTA_EXCEEDED', 'while they are good they count')
      world.advance(2 * HOUR_MS)
      assert.deepEqual(await listed(), [kept.id])
      const next = await issue(subject)
      assert.deepEqual(await listed(), [kept.id, next.id])
      for (const { token } of ending) await nobody(who(token))
      const rows = await store.read(ending.map(({ id }) => `identity.key/${id}`))
      assert.ok(rows.every((row) => row?.value['revoked_at'] !== null))
      for (let i = 2; i < limits.keysPerSubjectMax; i++) await issue(subject)
      assert.equal((await refusalOf(issue(subject))).code, 'QUOTA_EXCEEDED')
      await world.close()
    })

    test('only sessions that are still good are listed, and the next one that is opened puts the others away', async () => {
      const world = await open()
      const { call, store } = world
      const opened = async (): Promise<string> => {
        const { token } = await call('admin', 'identity/login.issue', { user_id: 'user_alice' })
        return (await call('system', 'identity/session.open', { token })).session_id
      }
      const listed = async (): Promise<string[]> =>
        (await call('alice', 'identity/session.list', {})).items.map(({ id }: { id: string }) => id)
      const [idle, used] = [await opened(), await opened()]
      assert.deepEqual(await listed(), [idle, used])
      world.advance(limits.sessionIdleMs - 60_000)
      await call('system', 'identity/session.touch', { session_id: used })
      world.advance(120_000)
      assert.deepEqual(await listed(), [used])
      // In use the whole day, and over in the evening all the same.
      for (let ms = 0; ms < limits.sessionMs; ms += limits.sessionIdleMs / 2) {
        await call('system', 'identity/session.touch', { session_id: used })
        world.advance(limits.sessionIdleMs / 2)
      }
      assert.deepEqual(await listed(), [])
      const next = await opened()
      assert.deepEqual(await listed(), [next])
      const rows = await store.read([idle, used, next].map((id) => `identity.session/${id}`))
      assert.deepEqual(
        rows.map((row) => row!.value['closed_at'] !== null),
        [true, true, false],
      )
      await world.close()
    })
  })
}
