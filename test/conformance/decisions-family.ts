// Decisions about parents and children: how the end of a task ends all below it (H37).
import assert from 'node:assert/strict'
import { limits } from '#kernel/limits.ts'
import { runOf, runsOf, take } from '../support/in-process/runs.ts'
import { HOUR_MS, stage, type Stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions
const spec = { goal: 'A part' }
const payload = { kind: 'inline', uri: 'data:,x' }

/** Below the task of the scene: one child in each state that a task at work can have, and one in review with a child of its own. */
async function family(): Promise<{ on: Stage; task_id: string; ids: Record<string, string> }> {
  const on = await stage('delegable')
  const task_id = on.refs['task'].id as string
  const ids: Record<string, string> = {}
  const part = async (name: string): Promise<string> => {
    const { child } = await on.call('devin', 'ownership.delegate', { task_id, to: 'agent_robin', spec, delegable: true })
    return (ids[name] = child.id as string)
  }
  ids['created'] = (await on.call('alice', 'task.create', { spec, parent_task: task_id })).task.id
  await part('assigned')
  await on.call('robin', 'task.start', { task_id: await part('in_progress') })
  await on.call('robin', 'task.start', { task_id: await part('blocked') })
  await on.call('robin', 'checkpoint.raise', { task_id: ids['blocked'], kind: 'approval', prompt: 'Go?' })
  await on.call('robin', 'task.start', { task_id: await part('review_ready') })
  ids['below'] = (await on.call('alice', 'task.create', { spec, parent_task: ids['review_ready'] })).task.id
  on.refs['artifact'] = (await on.call('robin', 'artifact.commit', { task_id: ids['review_ready'], payload })).artifact
  await on.call('robin', 'task.start', { task_id: await part('plan') })
  on.refs['plan'] = (await on.call('robin', 'artifact.commit', { task_id: ids['plan'], payload, kind: 'plan' })).artifact
  return { on, task_id, ids }
}

const ends: Readonly<Record<string, (on: Stage, task_id: string) => Promise<unknown>>> = {
  parent_cancelled: (on, task_id) => on.call('alice', 'task.cancel', { task_id }),
  'parent_ended after an approval': (on, task_id) => reviewed(on, task_id, 'approved'),
  'parent_ended after a rejection': (on, task_id) => reviewed(on, task_id, 'rejected'),
  'parent_ended after a reject at a checkpoint': async (on, task_id) => {
    const { checkpoint } = await on.call('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
    await on.call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'reject' })
  },
}
async function reviewed(on: Stage, task_id: string, verdict: string): Promise<void> {
  const { artifact } = await on.call('devin', 'artifact.commit', { task_id, payload })
  await on.call('alice', 'review.submit', { task_id, artifact_id: artifact.id, verdict })
}

for (const [how, end] of Object.entries(ends)) {
  const reason = how.split(' ')[0]
  must(['H37-ends', 'H37-review'], `${how}: what is at work below ends with it, in one batch; what is in review stays`, async () => {
    const { on, task_id, ids } = await family()
    await end(on, task_id)
    for (const name of ['created', 'assigned', 'in_progress', 'blocked', 'below']) {
      const { state, outcome, outcome_reason, pending_checkpoint } = await on.task(ids[name])
      assert.deepEqual([state, outcome, outcome_reason, pending_checkpoint], ['completed', 'cancelled', reason, null], name)
      assert.equal(await runOf(on, ids[name]), undefined, name)
    }
    for (const name of ['review_ready', 'plan']) assert.equal((await on.task(ids[name])).state, 'review_ready', name)
    const [run] = await runsOf(on, ids['in_progress'])
    assert.deepEqual([run.state, run.reason, run.error], ['failed', 'cancelled', reason])
  })
}

must('H37-review', 'under an ended task nothing goes back to work: changes and plans are CONFLICT, an end is taken', async () => {
  for (const verdict of ['approved', 'rejected']) {
    const { on, task_id, ids } = await family()
    const { artifact, plan } = on.refs
    const changes = { verdict: 'changes_requested', requested_changes: ['more'] }
    await on.call('alice', 'task.cancel', { task_id })
    await on.refused('CONFLICT', 'alice', 'review.submit', { task_id: ids['review_ready'], artifact_id: artifact.id, ...changes })
    for (const one of [changes, { verdict: 'approved' }])
      await on.refused('CONFLICT', 'alice', 'review.submit', { task_id: ids['plan'], artifact_id: plan.id, ...one })
    await on.call('alice', 'review.submit', { task_id: ids['review_ready'], artifact_id: artifact.id, verdict })
    assert.equal((await on.task(ids['review_ready'])).state, verdict === 'approved' ? 'completed' : 'rejected')
    // Otherwise no caller could ever end it.
    await on.call('alice', 'review.submit', { task_id: ids['plan'], artifact_id: plan.id, verdict: 'rejected' })
    assert.equal((await on.task(ids['plan'])).state, 'rejected')
  }
})

must('H37-begin', 'below an ended task nothing is created, whoever tries, nor below what is in review under it', async () => {
  const { on, task_id, ids } = await family()
  await on.call('alice', 'task.cancel', { task_id })
  for (const parent_task of [task_id, ids['created'], ids['review_ready']])
    await on.refused('PRECONDITION_FAILED', 'alice', 'task.create', { spec, parent_task })
  await on.refused('PRECONDITION_FAILED', 'owner', 'task.create', { spec, parent_task: task_id })
})

must('H37-begin', 'a new attempt after a rejected task works, may be sent back, and ends with the tasks above it', async () => {
  const { on, task_id, ids } = await family()
  const rejected = ids['review_ready']!
  await on.call('alice', 'review.submit', { task_id: rejected, artifact_id: on.refs['artifact'].id, verdict: 'rejected' })
  const again = (await on.call('alice', 'task.create', { spec, parent_task: rejected })).task.id
  await on.call('alice', 'task.assign', { task_id: again, assignee: 'agent_robin' })
  await on.call('robin', 'task.start', { task_id: again })
  const { artifact } = await on.call('robin', 'artifact.commit', { task_id: again, payload })
  const changes = { verdict: 'changes_requested', requested_changes: ['more'] }
  await on.call('alice', 'review.submit', { task_id: again, artifact_id: artifact.id, ...changes })
  assert.equal((await on.task(again)).state, 'in_progress')
  await on.call('alice', 'task.cancel', { task_id })
  assert.deepEqual([(await on.task(again)).state, (await on.task(again)).outcome_reason], ['completed', 'parent_cancelled'])
  await on.refused('PRECONDITION_FAILED', 'alice', 'task.create', { spec, parent_task: rejected })
})

must('H44-extend', 'extending a parent extends the deadlines that its parts inherited, not those of their own', async () => {
  const on = await stage()
  const at = (hours: number): string => new Date(on.world.kernel.now() + hours * HOUR_MS).toISOString()
  const { task } = await on.call('alice', 'task.create', { spec, deadline: at(2), delegable: true })
  await on.call('alice', 'task.assign', { task_id: task.id, assignee: 'agent_devin' })
  const part = async (more: object): Promise<any> =>
    (await on.call('devin', 'ownership.delegate', { task_id: task.id, to: 'agent_robin', spec, ...more })).child
  const [heir, own] = [await part({}), await part({ deadline: at(1) })]
  const deadline = at(5)
  await on.call('alice', 'task.extend', { task_id: task.id, deadline })
  assert.deepEqual([(await on.task(heir.id)).deadline, (await on.task(own.id)).deadline], [deadline, own.deadline])
  on.world.advance(3 * HOUR_MS)
  await on.call('robin', 'task.start', { task_id: heir.id })
  await on.refused('DEADLINE_EXCEEDED', 'robin', 'task.start', { task_id: own.id })
})

must('H44-org', 'an entry of org names its task and its author to readers of the task only', async () => {
  const on = await stage('completed')
  const write = { task_id: on.refs['task'].id, scope: 'org', key: 'k', value: 1 }
  await on.call('devin', 'ledger.write', write)
  const asked = { scope: 'org', key: 'k' }
  for (const [as, ids] of [
    ['alice', [write.task_id, 'agent_devin', write.task_id]],
    ['mallory', [null, null, null]],
    ['spy', [null, null, null]],
  ] as const) {
    const { entry } = await on.call(as, 'ledger.read', asked)
    const [first] = (await on.call(as, 'ledger.history', asked)).items
    for (const one of [entry, first]) assert.deepEqual([[one.by, one.actor, one.root_task_id], one.value], [ids, 1], as)
  }
})

/** How a part ends, and the word that says so. */
const endings: Readonly<Record<string, (on: Stage, task_id: string) => Promise<unknown>>> = {
  cancelled: (on, task_id) => on.call('alice', 'task.cancel', { task_id }),
  accepted: async (on, task_id) => on.call('alice', 'review.submit', { ...(await delivery(on, task_id)), verdict: 'approved' }),
  rejected_in_review: async (on, task_id) => on.call('alice', 'review.submit', { ...(await delivery(on, task_id)), verdict: 'rejected' }),
  rejected_at_checkpoint: async (on, task_id) => {
    const { checkpoint } = await on.call('robin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
    await on.call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'reject' })
  },
}
const delivery = async (on: Stage, task_id: string) => ({
  task_id,
  artifact_id: (await on.call('robin', 'artifact.commit', { task_id, payload })).artifact.id as string,
})
for (const [outcome, end] of Object.entries(endings))
  must('H44-told', `the run above is told once that its part has ended: ${outcome}`, async () => {
    const on = await stage('delegable')
    const task_id = on.refs['task'].id as string
    if ((await on.task()).state === 'assigned') await on.call('devin', 'task.start', { task_id })
    const { child } = await on.call('devin', 'ownership.delegate', { task_id, to: 'agent_robin', spec })
    await on.call('robin', 'task.start', { task_id: child.id })
    await take(on, 'devin')
    await end(on, child.id)
    const told = (await take(on, 'devin')).flatMap(({ messages }) => messages as any[])
    assert.deepEqual(
      told.map(({ kind, body }) => [kind, body.intent, body.ended]),
      [['steer', 'child_ended', { task_id: child.id, outcome }]],
    )
  })
must('H44-told', 'a parent that ends itself is told nothing of its parts', async () => {
  const { on, task_id } = await family()
  await take(on, 'devin')
  await on.call('alice', 'task.cancel', { task_id })
  const told = (await take(on, 'devin')).flatMap(({ messages }) => messages as any[])
  assert.deepEqual(
    told.map(({ kind }) => kind as string),
    ['cancel'],
  )
})
must('H44-told', 'a part that ends while the task has no run is in the context of the next one, which no agent can forge', async () => {
  const on = await stage('delegable')
  const task_id = on.refs['task'].id as string
  const { child } = await on.call('devin', 'ownership.delegate', { task_id, to: 'agent_robin', spec })
  await on.call('devin', 'delegation/run.fail', { run_id: (await runOf(on)).id, error: 'no' })
  await on.call('alice', 'task.cancel', { task_id: child.id })
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: (await on.task()).pending_checkpoint, action: 'approve' })
  const contextOf = async (run_id: string): Promise<any> => (await on.call('alice', 'delegation/run.get', { run_id })).request.context
  const next = await runOf(on)
  const ended_parts = [{ task_id: child.id, outcome: 'cancelled' }]
  assert.deepEqual((await contextOf(next.id)).ended_parts, ended_parts)
  const forged = { run_id: next.id, to_agent: 'agent_robin', context: { ended_parts: [{ task_id: 'task_1', outcome: 'accepted' }] } }
  assert.deepEqual(await contextOf((await on.call('devin', 'delegation/agent.handoff', forged)).run.id), { ended_parts })
})
must('H44-told', 'however much is said to a run that is not there, that its part has ended is not dropped', async () => {
  const on = await stage('delegable')
  const task_id = on.refs['task'].id as string
  if ((await on.task()).state === 'assigned') await on.call('devin', 'task.start', { task_id })
  const { child } = await on.call('devin', 'ownership.delegate', { task_id, to: 'agent_robin', spec })
  await on.call('alice', 'task.cancel', { task_id: child.id })
  for (let i = 0; i <= limits.messagesPerRunMax; i++) await on.call('alice', 'task.amend', { task_id, text: `${i}`, intent: 'clarify' })
  const told = (await take(on, 'devin')).flatMap(({ messages }) => messages as any[]).filter(({ kind }) => kind === 'steer')
  assert.deepEqual([told.length, told[0].body.ended.task_id], [limits.messagesPerRunMax + 1, child.id])
})
