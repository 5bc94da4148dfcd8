// The cost of reading, and the time for which an identity may be remembered.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAuthenticator } from '#apps/server/identity/authenticator.ts'
import { limits } from '#kernel/limits.ts'
import { scenes } from '#protocols/collaboration/examples.ts'
import { createWorld } from '../support/in-process/world.ts'

const HOUR_MS = 3_600_000

test('a page of large events ends after a megabyte of documents, and the pages together miss and repeat nothing', async () => {
  const world = await createWorld()
  const { task } = await world.play(scenes.in_progress)
  const uri = `data:text/plain,${'x'.repeat(120_000)}`
  for (let i = 0; i < 20; i++) {
    await world.call('devin', 'collaboration/artifact.commit', { task_id: task.id, final: false, payload: { kind: 'inline', uri } })
  }
  const seqs: number[] = []
  let pages = 0
  for (let cursor: string | null = null; pages === 0 || cursor !== null; pages++) {
    const page: any = await world.call('alice', 'collaboration/audit.query', { task_id: task.id, ...(cursor ? { cursor } : {}) })
    assert.ok(JSON.stringify(page).length < 3 * limits.pageBytesMax)
    seqs.push(...page.items.map((item: any) => item.seq))
    cursor = page.next_cursor
  }
  assert.ok(pages > 2, `${pages} pages`)
  assert.equal(seqs.length, 25)
  assert.deepEqual(
    seqs,
    [...new Set(seqs)].sort((a, b) => a - b),
  )
  assert.equal((await world.call('alice', 'collaboration/audit.replay', { task_id: task.id })).matches, true)
})

test('an artifact has a bounded number of versions', async () => {
  const world = await createWorld()
  const { task } = await world.play(scenes.in_progress)
  const commit = (more: object) =>
    world.call('devin', 'collaboration/artifact.commit', {
      task_id: task.id,
      final: false,
      payload: { kind: 'inline', uri: 'data:,x' },
      ...more,
    })
  const artifact_id = (await commit({})).artifact.id
  for (let n = 1; n < limits.versionsPerArtifactMax; n++) await commit({ artifact_id, parent_version: `v${n}` })
  const last = { artifact_id, parent_version: `v${limits.versionsPerArtifactMax}` }
  await assert.rejects(commit(last), { code: 'QUOTA_EXCEEDED' })
})

test('a cursor whose place was bent is refused', async () => {
  const world = await createWorld()
  await world.play(scenes.completed)
  const { next_cursor } = await world.call('admin', 'collaboration/audit.query', { limit: 1 })
  const bent = Buffer.from(`${Buffer.from(next_cursor, 'base64url').toString().slice(0, 12)}zz`).toString('base64url')
  await assert.rejects(world.call('admin', 'collaboration/audit.query', { limit: 1, cursor: bent }), { code: 'INVALID_REQUEST' })
})

test('an extension never shortens', async () => {
  const world = await createWorld()
  const { task } = await world.play(scenes.late.slice(0, 2))
  const extend = (max_duration: string) => world.call('alice', 'collaboration/task.extend', { task_id: task.id, max_duration })
  await assert.rejects(extend('PT30M'), { code: 'INVALID_SPEC' })
  assert.equal((await extend('PT2H')).task.max_duration, 'PT2H')
})

test('a remembered key ends with its revocation, and a substitute with their last day', async () => {
  const world = await createWorld()
  const { authenticate } = createAuthenticator(world.kernel)
  const { key, issued } = await world.call('admin', 'identity/key.issue', { subject: 'user_bob' })
  const who = async () => authenticate({ kind: 'bearer', token: key })
  const first = await who()
  assert.equal(await who(), first, 'it is remembered')
  const until = new Date(world.kernel.now() + HOUR_MS).toISOString()
  await world.call('alice', 'identity/substitute.add', { person: 'user_alice', substitute: 'user_bob', until })
  assert.equal((await who()).actsFor?.has('user_alice'), true)
  world.advance(2 * HOUR_MS)
  assert.equal((await who()).actsFor?.has('user_alice'), false)
  await who()
  await world.call('admin', 'identity/key.revoke', { key_id: issued.id })
  await assert.rejects(who(), { code: 'UNAUTHENTICATED' })
})
