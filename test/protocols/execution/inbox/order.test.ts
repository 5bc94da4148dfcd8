// One order of what is open, on every list: critical first, then what is late or was escalated, then by priority; among those the greater
// risk, the earlier deadline, the greater age.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { APPROVE, requests } from '../../../support/in-process/requests.ts'

type Asked = {
  readonly priority: 'critical' | 'high' | 'normal' | 'low'
  readonly risk: string | null
  readonly minutes: number | null
  readonly state: 'plain' | 'overdue' | 'escalated'
}

const asked = fc.record({
  priority: fc.constantFrom('critical', 'high', 'normal', 'low'),
  risk: fc.constantFrom(null, 'R1', 'R2', 'R3', 'R4', 'R5'),
  minutes: fc.constantFrom(null, 90, 120),
  state: fc.constantFrom('plain', 'plain', 'overdue', 'escalated'),
}) as fc.Arbitrary<Asked>

/** Written without a look at the code: each place as a list of parts, the smaller first. */
function placeOf({ priority, risk, expires_at, created_at, overdue, escalated_at }: any): string {
  const isPressing = overdue || escalated_at !== undefined
  const gravity = ['R5', 'R4', 'R3', 'R2', 'R1', undefined].indexOf(risk)
  const rank = ['critical', 'high', 'normal', 'low'].indexOf(priority)
  return [priority === 'critical' ? 0 : 1, isPressing ? 0 : 1, rank, gravity, expires_at ?? '9999', created_at].join(' ')
}

test('every list of open items has the one order', { timeout: 120_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(asked, { minLength: 4, maxLength: 10 }), async (all) => {
      const on = await requests()
      for (const { priority, risk, minutes, state } of all) {
        const timeout_seconds = state === 'overdue' ? 60 : (minutes ?? 0) * 60
        const { id } = await on.ask({ ...APPROVE, priority, ...(risk === null ? {} : { risk }), timeout_seconds })
        if (state === 'escalated') await on.call('alice', 'request.escalate', { request_id: id, to: ['user_bob'] })
        on.on.world.advance(1_000)
      }
      await on.pass(70)
      const stored = async (ids: readonly string[]): Promise<any[]> => Promise.all(ids.map((id) => on.stored(id)))
      const { items } = await on.call('alice', 'inbox.list', { limit: 200 })
      const ids = items.map(({ request_id }: any) => request_id as string)
      const places = (await stored(ids)).map(placeOf)
      assert.deepEqual(places, places.toSorted())
      assert.equal(ids.length, all.length)
      const rows = await on.call('alice', 'inbox.list', { view: 'row', order: 'urgency' })
      assert.deepEqual(
        rows.items.map(({ request_id }: any) => request_id),
        ids,
      )
      // The draft's list shows the same, page by page.
      const paged: string[] = []
      for (let cursor: string | null | undefined; cursor !== null;) {
        const page: any = await on.call('alice', 'request.inbox', { limit: 3, ...(cursor === undefined ? {} : { cursor }) })
        paged.push(...page.requests.map(({ id }: any) => id))
        cursor = page.next_cursor
      }
      assert.deepEqual(paged, ids)
      for (const { request_id, overdue, escalated } of items) {
        const { overdue: isLate, escalated_at } = await on.stored(request_id)
        assert.deepEqual([overdue, escalated], [isLate, escalated_at !== undefined])
      }
    }),
    { numRuns: 12 },
  )
})
