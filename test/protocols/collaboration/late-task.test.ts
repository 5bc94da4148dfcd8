// A task whose time is over stops its agent in every operation, also before the timer has noted it (H19).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { collaboration } from '#protocols/collaboration/index.ts'
import { delegation } from '#protocols/delegation/index.ts'
import { acting, runUnder } from '../../support/in-process/task-limits.ts'
import { operationsOf, stateHash } from '../../support/in-process/world.ts'

type Ids = { readonly task_id: string; readonly run_id: string; readonly artifact_id: string }
const payload = { kind: 'inline', uri: 'data:,x' }
const toRobin = { to_agent: 'agent_robin' }

/** Everything that an agent does to its task, with input that is right but for the time. */
const acts: Readonly<Record<string, (ids: Ids) => object>> = {
  'collaboration/checkpoint.raise': ({ task_id }) => ({ task_id, kind: 'approval', prompt: 'Go?' }),
  'collaboration/artifact.commit': ({ task_id }) => ({ task_id, payload }),
  'collaboration/artifact.reference': ({ task_id, artifact_id }) => ({ task_id, artifact_id, version: 'v1' }),
  'collaboration/ledger.write': ({ task_id }) => ({ task_id, key: 'k', value: 1 }),
  'collaboration/grant.use': ({ task_id }) => ({ task_id, scope: 'deploy:staging' }),
  'collaboration/ownership.delegate': ({ task_id }) => ({ task_id, to: 'agent_robin' }),
  'delegation/run.progress': ({ run_id }) => ({ run_id, percent: 50 }),
  'delegation/run.ask': ({ run_id }) => ({ run_id, message: 'Which branch?' }),
  'delegation/run.report': ({ run_id }) => ({ run_id, type: 'needs_approval', payload: { prompt: 'Go?' } }),
  'delegation/agent.delegate': ({ run_id, task_id }) => ({ parent_run: run_id, task_id, ...toRobin }),
  'delegation/agent.handoff': ({ run_id }) => ({ run_id, ...toRobin }),
  'delegation/capability.invoke': ({ run_id }) => ({ run_id, ref: { capability_id: 'cap:write', version: '1.0.0' } }),
}
/** Begins work: late in another scene. */
const starts = ['collaboration/task.start', 'delegation/run.start']
/** Takes bytes over HTTP only. */
const uploads = ['collaboration/artifact.upload']
/** Says that work ends, settles messages or keeps notes: nothing happens to the task but that its people are asked. */
const open = ['run.complete', 'run.fail', 'mailbox.ack', 'memo.put'].map((name) => `delegation/${name}`)

const ofAgents = new Set(['executor', 'executing agent', "the run's agent", 'the agent of the parent run'])

test('every operation of a task’s agent is known to stop at the end of its time, or known not to', () => {
  const found = operationsOf([collaboration, delegation]).filter(
    ({ op }) => op.kind === 'command' && op.callers.some(({ name }: { name: string }) => ofAgents.has(name)),
  )
  assert.deepEqual(found.map(({ name }) => name).toSorted(), [...Object.keys(acts), ...starts, ...uploads, ...open].toSorted())
})

for (const [message, spec, more, hasRung] of [
  ['max_duration is spent and no timer has rung', { constraints: { max_duration: 'PT1M' } }, {}, false],
  ['the deadline has passed and no timer has rung', {}, { deadline: '2030-01-01T00:00:00Z' }, false],
  ['max_duration is spent and the people are asked', { constraints: { max_duration: 'PT1M' } }, {}, true],
  ['the deadline has passed and the people are asked', {}, { deadline: '2030-01-01T00:00:00Z' }, true],
] as const) {
  test(`H19: ${message}: every act of the agent answers DEADLINE_EXCEEDED and changes nothing`, async () => {
    const { on } = await acting()
    const deadline = 'deadline' in more ? { deadline: new Date(on.world.kernel.now() + 60_000).toISOString() } : {}
    const { task_id, run_id } = await runUnder(on, spec, { delegable: true, ...deadline })
    const { artifact } = await on.world.call('devin', 'collaboration/artifact.commit', { task_id, payload, final: false })
    on.world.advance(120_000)
    if (hasRung) await on.world.call('system', 'collaboration/task.overdue', { task_id })
    const before = await stateHash(on.world.store)
    for (const [name, input] of Object.entries(acts))
      await assert.rejects(on.world.call('devin', name, input({ task_id, run_id, artifact_id: artifact.id })), (error: any) => {
        assert.equal(error.code, 'DEADLINE_EXCEEDED', `${name}: ${error.message}`)
        return true
      })
    assert.equal(await stateHash(on.world.store), before)
    await on.world.call('devin', 'delegation/memo.put', { run_id, key: 'k', value: 1 })
    await on.world.call('devin', 'delegation/run.fail', { run_id, error: 'out of time' })
    await on.close()
  })
}

test('H19: a late task is not begun either', async () => {
  const { on } = await acting()
  const deadline = new Date(on.world.kernel.now() + 60_000).toISOString()
  const { task } = await on.world.call('alice', 'collaboration/task.create', { spec: { goal: 'act' }, deadline })
  await on.world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  const { items } = await on.world.call('alice', 'delegation/run.list', { task_id: task.id })
  on.world.advance(120_000)
  const late = { code: 'DEADLINE_EXCEEDED' }
  await assert.rejects(on.world.call('devin', 'collaboration/task.start', { task_id: task.id }), late)
  await assert.rejects(on.world.call('devin', 'delegation/run.start', { run_id: items[0].id }), late)
  await on.close()
})
