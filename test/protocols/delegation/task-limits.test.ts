// Limits of a task hold for everything that its agent does through the runtime, not only for deliveries.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Actor } from '#kernel/declare/access.ts'
import { delegation } from '#protocols/delegation/index.ts'
import { acting, runUnder } from '../../support/in-process/task-limits.ts'
import { stage } from '../../support/in-process/stage.ts'
import { cast, stateHash } from '../../support/in-process/world.ts'

test('H19: after the deadline an agent invokes nothing', async () => {
  const { on, ran, invoke } = await acting()
  const { run_id } = await runUnder(on, {}, { deadline: new Date(on.world.kernel.now() + 60_000).toISOString() })
  on.world.advance(120_000)
  await assert.rejects(invoke(run_id), { code: 'DEADLINE_EXCEEDED' })
  assert.equal(ran(), 0)
  await on.close()
})

test('a key for another project takes nothing of this one, and leaves its attempts alone', async () => {
  const { on } = await acting()
  const { run_id } = await runUnder(on, {})
  const narrowed = { ...cast['devin']!, narrowed: true, projects: new Map([['project_other', 'member' as const]]) }
  assert.deepEqual(await on.world.kernel.call('delegation/mailbox.take', {}, narrowed), { items: [] })
  await assert.rejects(on.world.kernel.call('delegation/mailbox.extend', { runs: [{ run_id, attempt: 0 }] }, narrowed), {
    code: 'RUN_NOT_FOUND',
  })
  await on.close()
})

test('while a person is asked, the agent cannot put another in its place', async () => {
  const { on } = await acting()
  const { run_id, task_id } = await runUnder(on, {}, { delegable: true })
  await on.world.call('devin', 'collaboration/checkpoint.raise', { task_id, kind: 'approval', prompt: 'May I?' })
  await assert.rejects(on.world.call('devin', 'delegation/agent.handoff', { run_id, to_agent: 'agent_robin' }), {
    code: 'PRECONDITION_FAILED',
  })
  await on.close()
})

test('H19: after the deadline an agent hands nothing off; the system still may', async () => {
  const { on } = await acting()
  const deadline = new Date(on.world.kernel.now() + 60_000).toISOString()
  const { run_id } = await runUnder(on, {}, { delegable: true, deadline })
  on.world.advance(120_000)
  const over = { run_id, to_agent: 'agent_robin' }
  const before = await stateHash(on.world.store)
  await assert.rejects(on.world.call('devin', 'delegation/agent.handoff', over), { code: 'DEADLINE_EXCEEDED' })
  assert.equal(await stateHash(on.world.store), before)
  assert.equal((await on.world.call('system', 'delegation/agent.handoff', over)).run.agent_id, 'agent_robin')
  await on.close()
})

const elsewhere = (as: string): Actor => ({ ...cast[as]!, narrowed: true, projects: new Map([['project_other', 'member' as const]]) })

test('a key for another project is not let in by what another key of the same agent has done before', async () => {
  const { on } = await acting()
  const { task_id } = await runUnder(on, {})
  const { kernel } = on.world
  const write = ['collaboration/ledger.write', { task_id, key: 'colour', value: 'red', expected_version: 0 }] as const
  await kernel.call(...write, cast['devin']!, { key: 'once' })
  // Repeated, it is let in whatever has changed since; without its key it is not.
  await kernel.check(...write, cast['devin']!, { key: 'once' })
  await assert.rejects(kernel.check(...write, cast['devin']!), { code: 'CONFLICT' })
  await assert.rejects(kernel.check(...write, elsewhere('devin'), { key: 'once' }), { code: 'NOT_FOUND' })
  await on.close()
})

test('the log of deliveries shows a key what belongs to its projects', async () => {
  const on = await stage(delegation.scenes['posted'])
  const run_id = on.refs['run'].id as string
  const outcome = { run_id, number: 1, attempt: 1, state: 'accepted', status: 204, duration_ms: 1, error: null }
  await on.call('system', 'delegation/mailbox.push', { run_id, number: 1 })
  await on.call('system', 'delegation/delivery.record', outcome)
  const listed = async (actor: Actor): Promise<string[]> =>
    ((await on.world.kernel.call('delegation/delivery.list', {}, actor)) as { items: any[] }).items.map((one) => one.run_id as string)
  assert.deepEqual(await listed(cast['robin']!), [run_id])
  assert.deepEqual(await listed(elsewhere('robin')), [])
})
