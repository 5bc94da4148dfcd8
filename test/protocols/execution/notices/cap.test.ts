// The cap on notices to one person in an hour: further notices wait and become one message.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { keyOf } from '#kernel/declare/schema.ts'
import { CURSOR, NoticeCursor } from '#protocols/execution/notices/notice.ts'
import { runNoticeChannel } from '#workers/notices/channel.ts'
import { receiver, until } from '../../../support/over-sockets/receiver.ts'
import { manualClock } from '../../../support/in-process/manual-clock.ts'
import { silent } from '../../../support/in-process/worker-world.ts'
import { createWorld } from '../../../support/in-process/world.ts'

const HOUR_MS = 3_600_000

test('notices above the cap become one digest when there is room again, without items decided in between', async (t) => {
  const [clock, { url, got }] = [manualClock(), await receiver(t)]
  const terms = { asksOpenMax: null, criticalPerHourMax: null, defaultSecondsMin: null, publicHooksOnly: false, noticesPerHourMax: 2 }
  const world = await createWorld({ now: clock.now, terms })
  const options = { allowsPrivate: true, attemptsMax: 3, random: () => 0, timeoutMs: 2_000 }
  const worker = runNoticeChannel(world.kernel, options, clock, silent)
  t.after(worker.stop)
  /** Loops of workers sleep by this clock. */
  const comes = (look: () => Promise<boolean> | boolean): Promise<boolean> =>
    until(async () => {
      await clock.advance(10)
      return look()
    })
  const ask = async (more: object = {}): Promise<string> =>
    (await world.call('devin', 'execution/request.create', { action: 'APPROVE', payload: { item: 'Go' }, ...more })).request.id
  const logged = async (): Promise<any[]> => (await world.call('alice', 'execution/notice.list')).items
  // It tells of what comes after its first look.
  await comes(async () => (await world.store.read([keyOf(NoticeCursor, CURSOR)]))[0] !== undefined)
  await world.call('alice', 'execution/channel.add', { endpoint: url })
  const ids: string[] = []
  for (let i = 0; i < 2; i++) {
    ids.push(await ask())
    await comes(async () => got.length === i + 1 && (await logged()).every(({ state }) => state === 'accepted'))
  }
  for (let i = 0; i < 4; i++) ids.push(await ask())
  await comes(async () => (await logged()).filter(({ held, state }) => held === 'cap' && state === 'waiting').length === 4)
  const critical = await ask({ priority: 'critical' })
  await comes(() => got.length === 3)
  assert.equal(got[2]!.body.data.request_id, critical, 'what is critical comes at once, alone')
  await world.call('alice', 'execution/request.resolve', { request_id: ids[3], result: 'rejected' })
  await clock.advance(HOUR_MS)
  await comes(() => got.length === 4)
  const { event, count, link, items } = got[3]!.body.data
  assert.deepEqual([event, count, link], ['digest', 3, '/inbox'])
  assert.deepEqual(new Set(items.map(({ request_id }: any) => request_id)), new Set([ids[2], ids[4], ids[5]]))
  await comes(async () => (await logged()).every(({ state }) => state !== 'waiting'))
  await clock.advance(HOUR_MS)
  assert.equal(got.length, 4, 'each was told once')
})
