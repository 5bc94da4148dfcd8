// When a run has been taken, and when it has started (A13).
import assert from 'node:assert/strict'
import { delegation } from '#protocols/delegation/index.ts'
import { runOf, runsOf, take } from '../support/in-process/runs.ts'
import { linesOf, stage, type Stage } from '../support/in-process/stage.ts'
import { acting, runUnder } from '../support/in-process/task-limits.ts'
import { aap } from './aap-cited.ts'

const { must } = aap
const payload = { kind: 'inline', uri: 'data:,x' }

/** The facts of the runs of a task, as `action run`, in order. */
async function lifeOf(on: Stage): Promise<string[]> {
  const runs = (await runsOf(on)).map(({ id }) => id as string)
  return (await linesOf(on.world))
    .filter(({ action, subject }) => action.startsWith('delegation/run.') && runs.some((id) => subject.endsWith(id)))
    .map(({ action, subject }) => `${action.slice('delegation/run.'.length)} ${runs.findIndex((id) => subject.endsWith(id)) + 1}`)
}

must('A13', 'a run that nobody has taken is running and queued; taking it ends that and adds no fact', async () => {
  const on = await stage('assigned')
  const before = await runOf(on)
  assert.deepEqual([before.state, before.queued, before.started_at], ['running', true, null])
  const facts = (await linesOf(on.world)).length
  await take(on, 'devin')
  const { run } = await on.call('alice', 'delegation/run.get', { run_id: before.id })
  assert.deepEqual([run.state, run.queued, run.started_at], ['running', false, null])
  assert.equal((await on.task()).state, 'assigned')
  assert.equal((await linesOf(on.world)).length, facts)
})
must('A13', 'a run that its agent begins without taking it is not queued, and one that was given back is not queued again', async () => {
  const on = await stage('assigned')
  await on.call('devin', 'task.start', { task_id: on.refs['task'].id })
  assert.equal((await runOf(on)).queued, false)
  const other = await stage('assigned')
  const [item] = await take(other, 'devin')
  await other.call('devin', 'delegation/mailbox.release', { runs: [{ run_id: item.run.id, attempt: item.attempt }] })
  assert.equal((await runOf(other)).queued, false)
})
must('A13', 'a run that is posted to a webhook is queued until the receiver has accepted it', async () => {
  const on = await stage(delegation.scenes['posted'])
  const run_id = on.refs['run'].id
  const queued = async (): Promise<boolean> => (await on.call('admin', 'delegation/run.get', { run_id })).run.queued
  const { item } = await on.call('system', 'delegation/mailbox.push', { run_id, number: 1 })
  const outcome = { run_id, number: 1, attempt: item.attempt, duration_ms: 1 }
  await on.call('system', 'delegation/delivery.record', { ...outcome, state: 'waiting', status: 503, error: 'it answered 503' })
  assert.equal(await queued(), true)
  await on.call('system', 'delegation/delivery.record', { ...outcome, state: 'accepted', status: 204, error: null })
  assert.equal(await queued(), false)
})
must('A13', 'run.started is emitted once for every run, also for an agent that only works on its task', async () => {
  const on = await stage('assigned')
  const task_id = on.refs['task'].id
  await on.call('devin', 'task.start', { task_id })
  const { artifact } = await on.call('devin', 'artifact.commit', { task_id, payload })
  const again = { verdict: 'changes_requested', requested_changes: ['more'] }
  await on.call('alice', 'review.submit', { task_id, artifact_id: artifact.id, ...again })
  const { checkpoint } = await on.call('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
  const next = { artifact_id: artifact.id, parent_version: 'v1', payload }
  await on.call('devin', 'artifact.commit', { task_id, ...next })
  await on.call('alice', 'review.submit', { task_id, artifact_id: artifact.id, ...again })
  await on.call('devin', 'artifact.commit', { task_id, ...next, parent_version: 'v2' })
  assert.deepEqual(
    await lifeOf(on),
    ['delegated 1', 'started 1', 'completed 1']
      .concat(['delegated 2', 'started 2', 'blocked 2', 'resumed 2', 'completed 2'])
      .concat(['delegated 3', 'started 3', 'completed 3']),
  )
  for (const run of await runsOf(on)) assert.notEqual(run.started_at, null)
})
const bytes = { checksum: 'sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824', size: 5 }
/** Acts of an agent, each as the first of a run after changes were requested. */
const acts: Readonly<Record<string, (on: Stage, task_id: string, run_id: string) => Promise<unknown>>> = {
  'ledger.write': (on, task_id) => on.call('devin', 'ledger.write', { task_id, key: 'k', value: 1 }),
  'artifact.upload': (on, task_id) => on.call('devin', 'artifact.upload', { task_id, ...bytes }),
  'artifact.reference': async (on, task_id) => {
    const { artifacts } = await on.task()
    await on.call('devin', 'artifact.reference', { task_id, artifact_id: artifacts[0], version: 'v1' })
  },
  'grant.use': async (on, task_id) => {
    await on.call('alice', 'grant.add', { task_id, scope: 'deploy:staging', decision: 'allow', until: 'task' })
    await on.call('devin', 'grant.use', { task_id, scope: 'deploy:staging' })
  },
  'ownership.delegate': (on, task_id) => on.call('devin', 'ownership.delegate', { task_id, to: 'agent_robin' }),
  'run.progress': (on, _, run_id) => on.call('devin', 'delegation/run.progress', { run_id, percent: 5 }),
  'run.report': (on, _, run_id) =>
    on.call('devin', 'delegation/run.report', { run_id, type: 'needs_approval', payload: { prompt: 'Deploy?' } }),
  'run.complete': (on, _, run_id) => on.call('devin', 'delegation/run.complete', { run_id }),
  'run.fail': (on, _, run_id) => on.call('devin', 'delegation/run.fail', { run_id, error: 'no' }),
  'agent.handoff': (on, _, run_id) => on.call('devin', 'delegation/agent.handoff', { run_id, to_agent: 'agent_robin' }),
  'agent.delegate': (on, task_id, parent_run) =>
    on.call('devin', 'delegation/agent.delegate', { to_agent: 'agent_robin', task_id, parent_run }),
}
for (const [name, act] of Object.entries(acts))
  must('A13', `${name} begins a run that was not begun`, async () => {
    const on = await stage('delegable')
    const task_id = on.refs['task'].id as string
    if ((await on.task()).state === 'assigned') await on.call('devin', 'task.start', { task_id })
    const { artifact } = await on.call('devin', 'artifact.commit', { task_id, payload })
    const again = { verdict: 'changes_requested', requested_changes: ['more'] }
    await on.call('alice', 'review.submit', { task_id, artifact_id: artifact.id, ...again })
    const { id } = await runOf(on)
    await act(on, task_id, id)
    const own = (await lifeOf(on)).filter((line) => line.endsWith(' 2'))
    assert.deepEqual(own.slice(0, 2), ['delegated 2', 'started 2'])
    assert.equal(own.filter((line) => line === 'started 2').length, 1)
  })
must('A13', 'capability.invoke begins a run that was not begun', async () => {
  const { on, invoke } = await acting()
  const { task_id } = await runUnder(on, {})
  const { artifact } = await on.world.call('devin', 'collaboration/artifact.commit', { task_id, payload })
  const again = { artifact_id: artifact.id, verdict: 'changes_requested', requested_changes: ['more'] }
  await on.world.call('alice', 'collaboration/review.submit', { task_id, ...again })
  const last = async (): Promise<any> => (await on.world.call('alice', 'delegation/run.list', { task_id })).items.at(-1)
  const { id, started_at } = await last()
  assert.equal(started_at, null)
  assert.equal((await invoke(id)).ok, true)
  assert.notEqual((await last()).started_at, null)
  assert.equal((await linesOf(on.world)).filter(({ action, subject }) => action.endsWith('run.started') && subject.endsWith(id)).length, 1)
  await on.close()
})
must('A13', 'a run that is ended before its agent has done anything has never started', async () => {
  const on = await stage('assigned')
  await on.call('alice', 'task.cancel', { task_id: on.refs['task'].id })
  assert.deepEqual(await lifeOf(on), ['delegated 1', 'failed 1'])
  const [run] = await runsOf(on)
  assert.deepEqual([run.queued, run.started_at], [false, null])
})
