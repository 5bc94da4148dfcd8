// An exported project on each store: genuine for the verifier, in pages of any size, and only for those who keep the record.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordedKeys } from '#apps/server/folder/key-files.ts'
import { scenes } from '#protocols/collaboration/examples.ts'
import { newRing } from '#workers/keys/key-ring.ts'
import { createNotary } from '#workers/keys/notary.ts'
import { verifyBundle } from '#sdk/bundle/verify.ts'
import { storeMakers, createWorld, type World } from '../../support/in-process/world.ts'
import { worldLogKey } from '../../support/log/world-log.ts'

async function exported(world: World, input: object): Promise<string> {
  let text = ''
  for (let cursor: string | undefined; ;) {
    const page = await world.call('admin', 'collaboration/audit.export', { ...input, ...(cursor === undefined ? {} : { cursor }) })
    text += page.ndjson
    if (page.next_cursor === null) return text
    cursor = page.next_cursor
  }
}

for (const { name, open, dispose } of storeMakers())
  test(`a project and its tasks are genuine on the store ${name}`, async (t) => {
    const [server, ring] = [new Uint8Array(32).fill(7), newRing('2026-01-01T00:00:00.000Z')]
    const world = await createWorld({ store: open(), notary: createNotary(server, () => ring) })
    await world.call('system', 'identity/keys.record', recordedKeys(server, ring))
    t.after(async () => {
      await world.close()
      dispose()
    })
    const policy = `log ${worldLogKey().keys[0].text}\nquorum none\n`
    const { task } = await world.play(scenes.completed)
    for (let i = 0; i < 3; i++) await world.play(scenes.completed)
    for (const input of [{}, { project_id: 'system' }, { id: task.id }, { id: 'user_alice' }]) {
      const verdict = await verifyBundle(await exported(world, input), policy)
      assert.ok(verdict.genuine, `${JSON.stringify(input)}: ${JSON.stringify(verdict)}`)
    }
    await assert.rejects(world.call('mallory', 'collaboration/audit.export', { id: task.id }), {
      code: 'NOT_FOUND',
      message: `there is nothing called ${task.id} on the record`,
    })
    await assert.rejects(world.call('mallory', 'collaboration/audit.export', { id: 'task_none' }), {
      code: 'NOT_FOUND',
      message: 'there is nothing called task_none on the record',
    })
    await assert.rejects(world.call('alice', 'collaboration/audit.export', { id: task.id }), { code: 'UNAUTHORIZED' })
  })
