// The part of a request that agents see is the same in answers and in the record.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { collaboration } from '#protocols/collaboration/index.ts'
import { execution } from '#protocols/execution/index.ts'
import { agentView } from '#protocols/execution/schema.ts'
import type { Stream } from '#kernel/declare/operation.ts'
import { stage } from '../../support/in-process/stage.ts'

const seen = Object.keys(agentView.schema.properties)
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
