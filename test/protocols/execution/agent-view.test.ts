// The part of a request that agents see: one list, for answers and for the record. A field that is on neither list here is new: decide.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { collaboration } from '#protocols/collaboration/index.ts'
import { execution } from '#protocols/execution/index.ts'
import { forAgents, Request } from '#protocols/execution/schema.ts'
import type { Stream } from '#kernel/declare/operation.ts'
import { stage } from '../../support/in-process/stage.ts'

const seen =
  'id kind action role priority timeout_seconds fallback agent_id requester project_id label metadata tags payload created_at expires_at status assigned_to assigned_at overdue no_decider risk option_risks quorum escalation escalated_at remind_seconds reminders reminded_at asked_until thread callback task_id root_task_id session_id checkpoint_id artifact asked_by on_expiry notice'.split(
    ' ',
  )
const hidden = 'owner people gone asked_with details_order floor votes claimed_until escalated_to called snoozed approvers receipt'.split(
  ' ',
)

test('every field of a request is either shown to agents or hidden from them', () => {
  const fields = Object.keys(Request.schema.properties)
  assert.deepEqual(fields.toSorted(), [...seen, ...hidden].toSorted())
  const whole = Object.fromEntries(fields.map((field) => [field, field === 'votes' || field === 'thread' ? [] : field]))
  const { voted, ...shown } = forAgents(whole as unknown as Request)
  assert.deepEqual(Object.keys(shown).toSorted(), seen.toSorted())
  assert.equal(voted, 0)
  // A field that a later version adds.
  assert.deepEqual(forAgents({ id: 'req_1', young: 'user_alice' } as unknown as Request), { id: 'req_1' })
})

test('agents read in the record what their view shows, and people read the whole', async () => {
  const on = await stage(execution.scenes['task_in_progress'])
  const task_id = on.refs['task'].id as string
  const question = { action: 'DECIDE', payload: { question: 'Which colour?', options: ['Red', 'Blue'] }, metadata: { task_id } }
  const { request } = await on.call('devin', 'execution/request.create', question)
  const request_id = request.id as string
  await on.call('alice', 'execution/request.question', { request_id, text: 'For whom?' })
  await on.call('rita', 'execution/request.snooze', { request_id, until: new Date(on.world.kernel.now() + 3_600_000).toISOString() })
  await on.call('alice', 'execution/request.resolve', { request_id, result: 'Red' })

  const imagesIn = (events: any[]): object[] =>
    events
      .flatMap(({ before, after, changes, subject }) => [
        ...changes.filter(({ id }: any) => id === request_id).flatMap((change: any) => [change.before, change.after]),
        ...(subject.id === request_id ? [before, after] : []),
      ])
      .filter((image) => image !== null)
  const follow = collaboration.operations.find(({ name }) => name === 'audit.follow') as Stream
  const facts = await on.world.store.facts({ by: 'task', task: task_id }, { after: null, limit: 200 })
  const readBy = async (who: 'devin' | 'alice'): Promise<object[]> => {
    const queried = await on.call(who, 'audit.query', { task_id })
    const replayed = await on.call(who, 'audit.replay', { task_id })
    const audience = follow.audience!(on.world.cast[who]!)
    const followed = facts.map((fact) => (follow.view(fact, audience) as any).event)
    const parts = [queried.items, replayed.events, followed].map(imagesIn)
    assert.ok(parts.every(({ length }) => length >= 6))
    return parts.flat()
  }
  for (const image of await readBy('devin'))
    assert.deepEqual(
      Object.keys(image).filter((field) => !seen.includes(field)),
      [],
    )
  const whole = new Set((await readBy('alice')).flatMap((image) => Object.keys(image)))
  for (const field of ['people', 'owner', 'receipt', 'snoozed']) assert.ok(whole.has(field), field)
  const { request: got } = await on.call('devin', 'execution/request.get', { request_id })
  assert.deepEqual(
    Object.keys(got).filter((field) => !seen.includes(field)),
    [],
  )
})
