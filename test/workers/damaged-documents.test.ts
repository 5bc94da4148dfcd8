// Documents that differ from the record, as workers meet them: one is passed by or waited for, and never takes the others with it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { realClock } from '#apps/server/clock.ts'
import { Damaged, Refusal } from '#kernel/declare/errors.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import { Delivery } from '#kernel/log/outbox-document.ts'
import type { Store } from '#kernel/log/store.ts'
import { CURSOR, NoticeCursor } from '#protocols/execution/notices/notice.ts'
import { Request } from '#protocols/execution/schema.ts'
import { User } from '#protocols/identity/schema.ts'
import { memoryStore } from '#stores/memory.ts'
import { runNoticeChannel } from '#workers/notices/channel.ts'
import { runOutbox, type Channel } from '#workers/outbox.ts'
import { alice, toyKernel } from '../support/in-process/toy.ts'
import { manualClock } from '../support/in-process/manual-clock.ts'
import { silent } from '../support/in-process/worker-world.ts'
import { createWorld, type World } from '../support/in-process/world.ts'
import { receiver, until } from '../support/over-sockets/receiver.ts'

/** A store in which some documents differ from the record. */
function damaging(): { store: Store; bad: Set<string> } {
  const store = memoryStore()
  const bad = new Set<string>()
  const { read, peek } = store
  store.read = (keys) => {
    const found = keys.find((key) => bad.has(key))
    return found === undefined ? read.call(store, keys) : Promise.reject(new Damaged(found, 'a sealed image has a plain text beside it'))
  }
  if (peek) store.peek = (key) => (bad.has(key) ? undefined : peek.call(store, key))
  return { store, bad }
}

for (const ordered of [true, false])
  test(`a delivery that differs ${ordered ? 'holds its lane, which nothing in it overtakes' : 'is passed by'}, and no other lane waits`, async () => {
    const { store, bad } = damaging()
    const clock = manualClock()
    const kernel = toyKernel(store, { now: clock.now })
    const sent: string[] = []
    const send: Channel['send'] = ({ lane, body }) => Promise.resolve(void sent.push(`${lane}${(body as { order: string }).order}`))
    for (const lane of ['a', 'b']) await kernel.call('toy/note.post', { lane, orders: ['1', '2', '3'] }, alice)
    bad.add(keyOf(Delivery, 'post/a/2'))
    const worker = runOutbox(kernel, { name: 'post', ordered, window: 3, lanesMax: 4, backoffMs: () => 1_000, send }, clock, silent)
    await clock.advance(5_000)
    assert.deepEqual(sent.toSorted(), ordered ? ['a1', 'b1', 'b2', 'b3'] : ['a1', 'a3', 'b1', 'b2', 'b3'])
    assert.ok(clock.sleeps < 1_000, `${clock.sleeps} sleeps in 5 s: it does not spin`)
    bad.clear()
    await clock.advance(130_000)
    assert.deepEqual(
      sent.filter((name) => name.startsWith('a')),
      ordered ? ['a1', 'a2', 'a3'] : ['a1', 'a3', 'a2'],
    )
    await worker.stop()
  })

const asked = async (world: World): Promise<string> =>
  (await world.call('devin', 'execution/request.create', { action: 'APPROVE', payload: { item: 'Deploy' } })).request.id

for (const [what, key] of [
  ['the person who is told', keyOf(User, 'user_bob')],
  ['the place at which notices are', keyOf(NoticeCursor, CURSOR)],
] as const)
  test(`other subscribers still get their notices when this document differs: ${what}`, async (t) => {
    const { store, bad } = damaging()
    const [world, { url, got }] = [await createWorld({ now: Date.now, store }), await receiver(t)]
    for (const person of ['bob', 'alice']) await world.call(person, 'execution/channel.add', { endpoint: url })
    const options = { allowsPrivate: true, attemptsMax: 3, random: () => 0, timeoutMs: 300 }
    const before = runNoticeChannel(world.kernel, options, realClock, silent)
    await asked(world)
    await until(() => got.length > 0)
    await before.stop()
    bad.add(key)
    const request_id = await asked(world)
    const said: string[] = []
    const note = (fields: object, message: string): void => void said.push(`${message} ${JSON.stringify(fields)}`)
    const worker = runNoticeChannel(world.kernel, options, realClock, { ...silent, warn: note, error: note })
    t.after(worker.stop)
    if (what === 'the person who is told') await until(() => got.some(({ body }) => body.data.request_id === request_id))
    else {
      // It differs, so nothing is planned from it: that is said, and made good when it is mended.
      await until(() => said.some((message) => message.includes('could not record notices')))
      bad.clear()
      await until(() => got.some(({ body }) => body.data.request_id === request_id))
    }
  })

test('a call without a valid key, or a malformed one, gets its own refusal although the due document differs', async () => {
  const { store, bad } = damaging()
  const world = await createWorld({ store })
  const request_id = await asked(world)
  bad.add(keyOf(Request, request_id))
  const nobody = (): never => {
    throw new Refusal('UNAUTHENTICATED', 'a valid API key or session is required')
  }
  await assert.rejects(world.kernel.call('execution/request.get', { request_id }, nobody), { code: 'UNAUTHENTICATED' })
  await assert.rejects(world.call('devin', 'execution/request.get', { request_id, colour: 'red' }), { code: 'INVALID_REQUEST' })
  await assert.rejects(world.call('devin', 'execution/request.get', { request_id }), { code: 'RECORD_CHANGED' })
})
