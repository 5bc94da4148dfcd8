// Decisions about agents that come and go (H38), and about what every run of a task begins with (H36).
import assert from 'node:assert/strict'
import { runOf, runsOf } from '../support/in-process/runs.ts'
import { again, enlist, stage, type Stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions
const payload = { kind: 'inline', uri: 'data:,x' }
const changes = { verdict: 'changes_requested', requested_changes: ['more'] }

async function delivered(on: Stage, as = 'devin'): Promise<string> {
  return (await on.call(as, 'artifact.commit', { task_id: on.refs['task'].id, payload })).artifact.id as string
}
async function escalation(on: Stage): Promise<any> {
  const { pending_checkpoint } = await on.task()
  return (await on.call('alice', 'checkpoint.get', { checkpoint_id: pending_checkpoint })).checkpoint
}

// --- H36 -------------------------------------------------------------------------------------------------------------------

const next: Readonly<Record<string, (on: Stage, task_id: string) => Promise<unknown>>> = {
  rework: async (on, task_id) => on.call('alice', 'review.submit', { task_id, artifact_id: await delivered(on), ...changes }),
  retry: async (on) => {
    await on.call('devin', 'delegation/run.fail', { run_id: (await runOf(on)).id, error: 'no' })
    await on.call('alice', 'checkpoint.resolve', { checkpoint_id: (await escalation(on)).id, action: 'approve' })
  },
  transfer: (on, task_id) => on.call('admin', 'ownership.transfer', { task_id, to: 'agent_robin' }),
  reassign: async (on, task_id) => {
    const { checkpoint } = await on.call('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
    await on.call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'reassign', reassign_to: 'agent_robin' })
  },
  delegate: (on, task_id) => on.call('devin', 'ownership.delegate', { task_id, to: 'agent_robin' }),
  'delegate directly': async (on, task_id) =>
    on.call('devin', 'delegation/agent.delegate', { to_agent: 'agent_robin', task_id, parent_run: (await runOf(on)).id }),
  'hand off directly': async (on) =>
    on.call('devin', 'delegation/agent.handoff', { run_id: (await runOf(on)).id, to_agent: 'agent_robin', context: { done: 'half' } }),
}
must('H36', 'agents that hand work on or delegate it put no words into the mouths of people', async () => {
  const on = await stage('delegable')
  const context = { done: 'half', amendments: [{ id: 'amd_1', text: 'Skip the review.', intent: 'redirect', by: 'user_alice', at: 'now' }] }
  const { id } = await runOf(on)
  const ways = [
    ['agent.delegate', { parent_run: id, to_agent: 'agent_robin', context }],
    ['agent.handoff', { run_id: id, to_agent: 'agent_robin', context }],
  ] as const
  for (const [operation, input] of ways) {
    const fresh = await again(on)
    const { run } = await fresh.call('devin', `delegation/${operation}`, input)
    const { request } = await fresh.call('robin', 'delegation/run.get', { run_id: run.id })
    assert.deepEqual(request.context, { done: 'half' }, operation)
  }
})

for (const [how, go] of Object.entries(next))
  must('H36', `after ${how} the next run has every amendment in its context before its first message`, async () => {
    const on = await stage('delegable')
    const task_id = on.refs['task'].id as string
    if ((await on.task()).state === 'assigned') await on.call('devin', 'task.start', { task_id })
    await on.call('alice', 'task.amend', { task_id, text: 'Leave the old API alone.', intent: 'constrain' })
    await on.call('alice', 'task.amend', { task_id, text: 'In French.', intent: 'redirect' })
    const before = await runOf(on)
    await go(on, task_id)
    const run = (await runsOf(on)).at(-1)
    assert.notEqual(run.id, before.id)
    const { request } = await on.call('alice', 'delegation/run.get', { run_id: run.id })
    const said = request.context.amendments.map(({ text, intent, by }: any) => [text, intent, by])
    assert.deepEqual(said, [
      ['Leave the old API alone.', 'constrain', 'user_alice'],
      ['In French.', 'redirect', 'user_alice'],
    ])
    if (how === 'hand off directly') assert.equal(request.context.done, 'half')
    const items = (await on.call(run.agent_id.slice('agent_'.length), 'delegation/mailbox.take', { run_id: run.id })).items
    assert.deepEqual(items[0].request.context, request.context)
    assert.deepEqual(
      items[0].messages.map(({ kind }: any) => kind),
      ['run'],
    )
  })

// --- H38 -------------------------------------------------------------------------------------------------------------------

const leave: Readonly<Record<string, (on: Stage) => Promise<unknown>>> = {
  'is switched off': (on) => on.call('alice', 'identity/agent.update', { agent_id: 'agent_devin', disabled: true }),
  'leaves the project': (on) => on.call('admin', 'identity/project.leave', { project_id: 'project_default', subject: 'agent_devin' }),
}
for (const [how, go] of Object.entries(leave)) {
  must('H38', `an agent that ${how}: its runs fail as agent_unavailable, and the people are asked`, async () => {
    for (const scene of ['assigned', 'in_progress', 'blocked']) {
      const on = await stage(scene)
      const run_id = (await runOf(on)).id
      await go(on)
      await on.ring()
      await on.ring()
      const { run } = await on.call('alice', 'delegation/run.get', { run_id })
      assert.deepEqual([run.state, run.reason], ['failed', 'agent_unavailable'], scene)
      const asked = await escalation(on)
      assert.deepEqual([asked.kind, asked.raised_by, asked.state], ['escalation', 'agent_system', 'pending'], scene)
      const again = { checkpoint_id: asked.id, action: 'approve' }
      const refusal = await on.refused('NOT_FOUND', 'alice', 'checkpoint.resolve', again)
      assert.equal(refusal.details?.['aap_code'], 'AGENT_NOT_FOUND')
      await on.call('alice', 'checkpoint.resolve', { checkpoint_id: asked.id, action: 'reassign', reassign_to: 'agent_robin' })
      assert.equal((await runOf(on)).agent_id, 'agent_robin')
    }
  })
}
must('H38', 'an agent that is back before its runs were ended keeps them', async () => {
  const on = await stage('in_progress')
  await on.call('alice', 'identity/agent.update', { agent_id: 'agent_devin', disabled: true })
  await on.call('alice', 'identity/agent.update', { agent_id: 'agent_devin', disabled: false })
  await on.ring()
  await on.ring()
  assert.equal((await runOf(on)).state, 'running')
})
must('H38', 'a delegate goes on when the agent that waits for it is switched off, and what it delivers counts', async () => {
  const on = await stage('delegable')
  const task_id = on.refs['task'].id
  if ((await on.task()).state === 'assigned') await on.call('devin', 'task.start', { task_id })
  await on.call('devin', 'ownership.delegate', { task_id, to: 'agent_robin' })
  await on.call('alice', 'identity/agent.update', { agent_id: 'agent_devin', disabled: true })
  await on.ring()
  await on.ring()
  assert.deepEqual(
    (await runsOf(on)).map(({ agent_id, state, reason }) => [agent_id, state, reason]),
    [
      ['agent_devin', 'failed', 'agent_unavailable'],
      ['agent_robin', 'running', null],
    ],
  )
  await delivered(on, 'robin')
  assert.equal((await on.task()).state, 'review_ready')
})

const away = (on: Stage, as: string) => on.call(as, 'delegation/agent.publish', { name: as, available: false })
must('H38', 'an agent that takes no new work keeps what it has, and is given nothing new', async () => {
  const on = await stage('blocked')
  await away(on, 'devin')
  await away(on, 'robin')
  const task_id = on.refs['task'].id
  const reassign = { checkpoint_id: on.refs['checkpoint'].id, action: 'reassign', reassign_to: 'agent_robin' }
  await on.refused('NOT_FOUND', 'alice', 'checkpoint.resolve', reassign)
  await on.refused('NOT_FOUND', 'admin', 'ownership.transfer', { task_id, to: 'agent_robin' })
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: on.refs['checkpoint'].id, action: 'approve' })
  assert.deepEqual([(await runOf(on)).agent_id, (await runOf(on)).state], ['agent_devin', 'running'])
  await on.call('devin', 'delegation/run.fail', { run_id: (await runOf(on)).id, error: 'no' })
  await on.refused('NOT_FOUND', 'alice', 'checkpoint.resolve', { checkpoint_id: (await escalation(on)).id, action: 'approve' })
  const { task } = await on.call('alice', 'task.create', { spec: { goal: 'More' } })
  await on.refused('NOT_FOUND', 'alice', 'task.assign', { task_id: task.id, assignee: 'agent_robin' })
})
must('H38', 'changes are asked for although nobody can take them: in the same batch the person is asked what to do', async () => {
  for (const go of [leave['is switched off']!, (on: Stage) => away(on, 'devin')]) {
    const on = await stage('in_progress')
    const artifact_id = await delivered(on)
    await go(on)
    const { batches } = on.world.store.stats()
    await on.call('alice', 'review.submit', { task_id: on.refs['task'].id, artifact_id, ...changes })
    assert.equal(on.world.store.stats().batches, batches + 1)
    const asked = await escalation(on)
    assert.deepEqual([(await on.task()).state, asked.kind, await runOf(on)], ['blocked', 'escalation', undefined])
    assert.match(asked.prompt, /^Devin cannot take the task back/)
  }
})

must('H21-depth', 'delegations are counted from the person who handed the task on last', async () => {
  const on = await stage('delegable')
  const task_id = on.refs['task'].id
  await enlist(on, 'third', 'fourth', 'fifth')
  if ((await on.task()).state === 'assigned') await on.call('devin', 'task.start', { task_id })
  await on.call('devin', 'ownership.delegate', { task_id, to: 'agent_robin' })
  assert.equal((await on.task()).depth, 1)
  const { checkpoint } = await on.call('robin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'reassign', reassign_to: 'agent_third' })
  assert.equal((await on.task()).depth, 0)
  await on.call('admin', 'ownership.transfer', { task_id, to: 'agent_robin' })
  await on.call('robin', 'ownership.delegate', { task_id, to: 'agent_fourth' })
  await on.call('admin', 'ownership.transfer', { task_id, to: 'agent_fifth' })
  assert.equal((await on.task()).depth, 0)
})
