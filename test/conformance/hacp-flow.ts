// HACP 0.1.0: the reference flow, arrow for arrow, and its reconstruction from the record alone.
import assert from 'node:assert/strict'
import { stage, type Stage } from '../support/in-process/stage.ts'
import { hacp } from './hacp-cited.ts'

const { must } = hacp

/** The state of the task, who holds it, and what the step answered. */
async function play({ call, refs, task }: Stage): Promise<string[]> {
  const seen: string[] = []
  const note = async (step: string): Promise<void> => {
    const { state, ownership } = await task()
    seen.push(`${step}: ${state}, ${ownership.assignee}`)
  }
  const spec = { goal: 'Fix the login bug', acceptance_criteria: ['tests pass'] }
  refs['task'] = (await call('alice', 'task.create', { type: 'code', spec })).task
  const task_id = refs['task'].id
  await note('task.create')
  await call('alice', 'task.assign', { task_id, assignee: 'agent_devin' })
  await note('task.assign')
  await call('devin', 'task.start', { task_id })
  await note('task.start')
  const { checkpoint } = await call('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'May I touch the session table?' })
  await note('checkpoint.raise')
  const notices = await call('alice', 'checkpoint.list', {})
  assert.deepEqual(
    notices.items.map((item: any) => item.id),
    [checkpoint.id],
    'the checkpoint waits for alice',
  )
  await call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
  await note('checkpoint.resolve')
  const { artifact } = await call('devin', 'artifact.commit', { task_id, type: 'patch', payload: { kind: 'inline', uri: 'data:,v1' } })
  await note(`artifact.commit(${artifact.version})`)
  const of = { task_id, artifact_id: artifact.id }
  await call('alice', 'review.submit', { ...of, verdict: 'changes_requested', requested_changes: ['handle an empty password'] })
  await note('review.submit(changes)')
  const second = await call('devin', 'artifact.commit', { ...of, parent_version: 'v1', payload: { kind: 'inline', uri: 'data:,v2' } })
  await note(`artifact.commit(${second.artifact.version})`)
  await call('alice', 'review.submit', { ...of, verdict: 'approved' })
  await note('review.submit(approved)')
  await call('devin', 'ledger.write', { task_id, key: 'login/fixed-in', value: { artifact_id: artifact.id, version: 'v2' } })
  await note('ledger.write')
  return seen
}

must('H-FLOW-01', 'the reference flow runs as the figure shows it', async () => {
  assert.deepEqual(await play(await stage()), [
    'task.create: created, user_alice',
    'task.assign: assigned, agent_devin',
    'task.start: in_progress, agent_devin',
    'checkpoint.raise: blocked, user_alice',
    'checkpoint.resolve: in_progress, agent_devin',
    'artifact.commit(v1): review_ready, user_alice',
    'review.submit(changes): in_progress, agent_devin',
    'artifact.commit(v2): review_ready, user_alice',
    'review.submit(approved): completed, user_alice',
    'ledger.write: completed, user_alice',
  ])
})

must('H-FLOW-02', 'audit.replay tells the flow event by event and rebuilds the task as it is stored', async () => {
  const flow = await stage()
  await play(flow)
  const { task, events, documents, matches, difference } = await flow.call('alice', 'audit.replay', { task_id: flow.refs['task'].id })
  assert.deepEqual(
    events.filter((event: any) => !/^(run|request)\./.test(event.action)).map((event: any) => `${event.actor} ${event.action}`),
    [
      'user_alice task.created',
      'user_alice task.assigned',
      'agent_devin task.started',
      'agent_devin task.checkpoint.raised',
      'user_alice task.checkpoint.resolved',
      'agent_devin artifact.committed',
      'user_alice review.submitted',
      'agent_devin artifact.committed',
      'user_alice review.submitted',
      'agent_system task.completed',
      'agent_devin ledger.written',
    ],
  )
  assert.deepEqual(task, await flow.task())
  assert.deepEqual([matches, difference], [true, null])
  assert.deepEqual(documents.map((one: any) => one.kind).toSorted(), [
    'artifact',
    'artifact',
    'artifact_head',
    'checkpoint',
    'ledger',
    // Three of the inbox, two of the runs.
    'request',
    'request',
    'request',
    'request',
    'request',
    'review',
    'review',
    'run',
    'run',
    'task',
    'work',
  ])
})

must('H-FLOW-02', 'a replay names the first event that is not what was recorded', async () => {
  const flow = await stage()
  await play(flow)
  const { disk, call, refs } = flow
  const task_id = refs['task'].id
  const { events } = await call('alice', 'audit.replay', { task_id })
  const started = events.find((event: any) => event.action === 'task.started')
  const { position } = disk.facts.find((fact) => fact.scope === 'project_default' && fact.seq === started.seq)!
  const i = disk.images.findIndex((image) => image.position === position)
  disk.images[i] = { ...disk.images[i]!, text: disk.images[i]!.text.replace('in_progress', 'completed') }
  const { matches, difference } = await call('alice', 'audit.replay', { task_id })
  assert.deepEqual([matches, difference.seq], [false, started.seq])
})
