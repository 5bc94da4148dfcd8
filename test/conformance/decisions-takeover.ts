// Decisions about a person who takes over the work (H40), and about the agents that an interrupt stops (H41).
import assert from 'node:assert/strict'
import { mirroredItemId } from '#protocols/execution/mirror/ids.ts'
import { runOf, runsOf, take } from '../support/in-process/runs.ts'
import { assertMirrored } from '../support/in-process/items.ts'
import { enlist, linesOf, stage, type Stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions
const inline = (text = 'x') => ({ payload: { kind: 'inline', uri: `data:,${text}` } })

/** Devin works, and Alice has taken the task over. */
async function takenOver(scene = 'in_progress'): Promise<Stage & { task_id: string }> {
  const on = await stage(scene)
  const task_id: string = on.refs['task'].id
  await on.call('alice', 'task.takeover', { task_id })
  return { ...on, task_id }
}

must('H40-deliver', 'the person delivers without an earlier artifact: interrupt, task and run end their wait in one batch', async () => {
  const on = await takenOver()
  const { task_id, call, world } = on
  const before = (await linesOf(world)).length
  const { artifact, task } = await call('alice', 'artifact.edit', { task_id, ...inline(), final: true })
  const made = (await linesOf(world)).slice(before)
  assert.deepEqual(
    made.map(({ action }) => action),
    [
      'collaboration/artifact.edited',
      'collaboration/task.checkpoint.resolved',
      'execution/request.created',
      'delegation/run.completed',
      'execution/request.cancelled',
    ],
  )
  assert.equal(new Set(made.map(({ at }) => at)).size, 1)
  assert.deepEqual(
    [task.state, task.ownership.assignee, task.executor, task.pending_checkpoint, task.artifacts],
    ['review_ready', 'user_alice', 'agent_devin', null, [artifact.id]],
  )
  assert.deepEqual([artifact.version, artifact.kind, artifact.provenance.actor], ['v1', 'deliverable', 'user_alice'])
  const delivered = { artifact_id: artifact.id, version: 'v1' }
  assert.deepEqual(task.delivered, delivered)
  const { checkpoint } = await call('alice', 'checkpoint.get', { checkpoint_id: task.checkpoints.at(-1) })
  assert.deepEqual(
    [checkpoint.state, checkpoint.resolution.by, checkpoint.resolution.edited_artifact_ref],
    ['resolved', 'user_alice', delivered],
  )
  const run = (await runsOf(on)).at(-1)
  assert.deepEqual([run.state, run.result, run.reason, run.checkpoint_id], ['completed', delivered, null, null])
  await assertMirrored(world)
  await call('rita', 'review.submit', { task_id, artifact_id: artifact.id, verdict: 'approved' })
  assert.equal((await on.task()).outcome, 'accepted')
})

must('H40-deliver', 'the waiting agent is stopped, and a new run brings it the requested changes', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  await take(on, 'devin')
  await on.call('alice', 'task.takeover', { task_id })
  const { artifact } = await on.call('alice', 'artifact.edit', { task_id, ...inline(), final: true })
  const [item] = await take(on, 'devin')
  assert.deepEqual(
    item.messages.map(({ kind, body }: any) => [kind, body.reason]),
    [['cancel', 'delivered']],
  )
  await on.call('alice', 'review.submit', { task_id, artifact_id: artifact.id, verdict: 'changes_requested', requested_changes: ['y'] })
  const run = await runOf(on)
  assert.deepEqual([(await on.task()).state, run.agent_id, run.state], ['in_progress', 'agent_devin', 'running'])
})

must('H40-deliver', 'the person continues an artifact of the agent; a version that is not the newest is refused', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  const { artifact } = await on.call('devin', 'artifact.commit', { task_id, ...inline(), final: false })
  await on.call('alice', 'task.takeover', { task_id })
  const next = { task_id, artifact_id: artifact.id, ...inline('y'), final: true }
  await on.refused('INVALID_SPEC', 'alice', 'artifact.edit', next)
  await on.refused('NOT_FOUND', 'alice', 'artifact.edit', { ...next, parent_version: 'v2' })
  await on.call('alice', 'artifact.edit', { ...next, parent_version: 'v1', final: false })
  await on.refused('CONFLICT', 'alice', 'artifact.edit', { ...next, parent_version: 'v1' })
  const done = await on.call('alice', 'artifact.edit', { ...next, parent_version: 'v2' })
  assert.deepEqual([done.artifact.version, done.task.state, done.task.artifacts], ['v3', 'review_ready', [artifact.id]])
})

must('H40-deliver', 'nobody else delivers, and nothing is delivered that was not taken over', async () => {
  const on = await takenOver()
  const final = { task_id: on.task_id, ...inline(), final: true }
  for (const as of ['devin', 'rita', 'owner', 'admin', 'system']) await on.refused('UNAUTHORIZED', as, 'artifact.edit', final)
  await on.refused('NOT_FOUND', 'bob', 'artifact.edit', final)
  assert.equal((await on.call('deputy', 'artifact.edit', final)).task.state, 'review_ready')
  for (const scene of ['blocked', 'in_progress', 'assigned', 'review_ready', 'completed']) {
    const other = await stage(scene)
    const task_id = other.refs['task'].id
    await other.refused('PRECONDITION_FAILED', 'alice', 'artifact.edit', { task_id, ...inline(), final: true })
  }
  const interrupted = await stage('in_progress')
  const task_id = interrupted.refs['task'].id
  await interrupted.call('alice', 'task.interrupt', { task_id })
  await interrupted.refused('PRECONDITION_FAILED', 'alice', 'artifact.edit', { task_id, ...inline(), final: true })
})

must('H40-deliver', 'the work stays with the person when the run fails meanwhile: they can deliver, and nothing is approved', async () => {
  const on = await takenOver()
  await on.call('devin', 'delegation/run.fail', { run_id: (await runOf(on)).id, error: 'The disk is full.' })
  const { pending_checkpoint } = await on.task()
  const { task } = await on.call('alice', 'artifact.edit', { task_id: on.task_id, ...inline(), final: true })
  assert.equal(task.state, 'review_ready')
  const { receipt } = await on.call('alice', 'execution/request.get', { request_id: mirroredItemId(pending_checkpoint) })
  assert.deepEqual([receipt.status, receipt.reason, receipt.result], ['cancelled', 'delivered', null])
})

must('H40-work', 'meanwhile the person can reference artifacts, write the ledger and keep versions; a commit stays refused', async () => {
  const on = await takenOver()
  const { task_id, call, refused } = on
  const { artifact, task } = await call('alice', 'artifact.edit', { task_id, ...inline() })
  assert.deepEqual([task.state, task.artifacts], ['blocked', [artifact.id]])
  await call('alice', 'artifact.reference', { task_id, artifact_id: artifact.id, version: 'v1', as: 'output' })
  await call('alice', 'ledger.write', { task_id, key: 'k', value: 1 })
  for (const as of ['alice', 'devin'])
    await refused(as === 'devin' ? 'PRECONDITION_FAILED' : 'UNAUTHORIZED', as, 'artifact.commit', { task_id, ...inline() })
})
must('H40-work', 'a person to whom a task in progress is transferred commits as any executor', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  await on.call('admin', 'ownership.transfer', { task_id, to: 'user_bob' })
  assert.equal((await on.task()).state, 'in_progress')
  assert.equal((await on.call('bob', 'artifact.commit', { task_id, ...inline() })).task.state, 'review_ready')
})

// --- H41 -------------------------------------------------------------------------------------------------------------------

const spec = { goal: 'A part of it' }

/** Devin's task with a part that Robin works on, a part of that part, one that nobody has begun, one that asks, and one in review. */
async function treeAtWork() {
  const on = await stage('delegable')
  await enlist(on, 'third', 'fourth')
  const { call } = on
  const root: string = on.refs['task'].id
  const part = async (as: string, task_id: string, to: string): Promise<string> =>
    (await call(as, 'ownership.delegate', { task_id, to: `agent_${to}`, spec, delegable: true })).child.id as string
  const begun = async (as: string, task_id: string, to: string): Promise<string> => {
    const id = await part(as, task_id, to)
    await call(to, 'task.start', { task_id: id })
    return id
  }
  const child = await begun('devin', root, 'robin')
  const idle = await part('devin', root, 'robin')
  const asking = await begun('devin', root, 'robin')
  const below = await begun('robin', asking, 'third')
  const reviewed = await begun('devin', root, 'fourth')
  await call('robin', 'checkpoint.raise', { task_id: asking, kind: 'approval', prompt: 'Go?' })
  await call('fourth', 'artifact.commit', { task_id: reviewed, ...inline() })
  const states = async (): Promise<string[]> =>
    Promise.all([root, child, below, idle, asking, reviewed].map(async (id) => (await on.task(id)).state as string))
  return { ...on, root, child, below, idle, asking, reviewed, states }
}
const atRest = ['blocked', 'blocked', 'blocked', 'assigned', 'blocked', 'review_ready']
const atWork = ['in_progress', 'in_progress', 'in_progress', 'assigned', 'blocked', 'review_ready']

for (const how of ['task.interrupt', 'task.takeover'])
  must('H41-tree', `${how} stops all who work on parts, at any depth, in one batch, and nobody else`, async () => {
    const on = await treeAtWork()
    const before = (await linesOf(on.world)).length
    const { checkpoint } = await on.call('alice', how, { task_id: on.root, reason: 'Wait.' })
    assert.deepEqual(await on.states(), atRest)
    const made = (await linesOf(on.world)).slice(before)
    assert.equal(new Set(made.map(({ at }) => at)).size, 1)
    const tasks = await Promise.all([on.child, on.below].map(on.task))
    assert.deepEqual(
      checkpoint.brings,
      tasks.map(({ pending_checkpoint }) => pending_checkpoint),
    )
    for (const { pending_checkpoint, ownership, executor } of tasks) {
      const { kind, raised_by, takeover } = (await on.call('admin', 'checkpoint.get', { checkpoint_id: pending_checkpoint })).checkpoint
      assert.deepEqual([kind, raised_by, takeover, ownership.assignee], ['interrupt', 'user_alice', false, 'user_alice'])
      assert.match(executor, /^agent_(robin|third)$/)
    }
    for (const id of [on.child, on.below]) assert.equal((await runOf(on, id)).state, 'blocked')
    await assertMirrored(on.world)
  })

const answers: Readonly<Record<string, (on: Stage & { root: string }, checkpoint_id: string) => Promise<any>>> = {
  'an approval': (on, checkpoint_id) => on.call('alice', 'checkpoint.resolve', { checkpoint_id, action: 'approve' }),
  'an input of a reviewer': (on, checkpoint_id) =>
    on.call('rita', 'checkpoint.resolve', { checkpoint_id, action: 'provide', input: 'Go on.' }),
  'a return': (on) => on.call('alice', 'task.return', { task_id: on.root }),
  'an answer in the inbox': (on, checkpoint_id) =>
    on.call('alice', 'execution/request.resolve', { request_id: mirroredItemId(checkpoint_id), result: 'approved' }),
}
for (const [how, answer] of Object.entries(answers))
  must('H41-tree', `${how} to the interrupt also answers the interrupts of the parts, and no other question`, async () => {
    const on = await treeAtWork()
    const { checkpoint } = await on.call('alice', how === 'a return' ? 'task.takeover' : 'task.interrupt', { task_id: on.root })
    await answer(on, checkpoint.id)
    assert.deepEqual(await on.states(), atWork)
    for (const id of checkpoint.brings) {
      const { state, resolution } = (await on.call('admin', 'checkpoint.get', { checkpoint_id: id })).checkpoint
      assert.deepEqual([state, resolution.action], ['resolved', 'approve'])
    }
    for (const id of [on.root, on.child, on.below]) assert.equal((await runOf(on, id)).state, 'running')
    await assertMirrored(on.world)
  })
must(
  'H41-tree',
  'the interrupt of a part can be answered first; a part that asks a person by then stays blocked; a delivery frees the others as well',
  async () => {
    const on = await treeAtWork()
    const { checkpoint } = await on.call('alice', 'task.takeover', { task_id: on.root })
    await on.call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.brings[0], action: 'approve' })
    assert.equal((await on.task(on.child)).state, 'in_progress')
    await on.call('robin', 'checkpoint.raise', { task_id: on.child, kind: 'input', prompt: 'Which?' })
    await on.call('alice', 'artifact.edit', { task_id: on.root, ...inline(), final: true })
    assert.deepEqual(await on.states(), ['review_ready', 'blocked', 'in_progress', 'assigned', 'blocked', 'review_ready'])
    await assertMirrored(on.world)
  },
)
must('H41-tree', 'the parts stay blocked when the system asks in its place, and a reject ends them with the task', async () => {
  const on = await treeAtWork()
  await on.call('alice', 'task.interrupt', { task_id: on.root })
  await on.call('devin', 'delegation/run.fail', { run_id: (await runOf(on)).id, error: 'The disk is full.' })
  assert.deepEqual(await on.states(), atRest)
  const { pending_checkpoint } = await on.task()
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: pending_checkpoint, action: 'approve' })
  assert.deepEqual(await on.states(), atWork)
  const { checkpoint } = await on.call('alice', 'task.interrupt', { task_id: on.root })
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'reject' })
  assert.deepEqual(await on.states(), ['completed', 'completed', 'completed', 'completed', 'completed', 'review_ready'])
})
must('H41-tree', 'a tree of 99 parts stops and continues in one batch each', async () => {
  const on = await stage('delegable')
  const { call, refs } = on
  await enlist(on, ...Array.from({ length: 4 }, (_, i) => `worker${i}`))
  const parts: string[] = []
  const part = async (as: string, task_id: string, to: string): Promise<void> => {
    const { child } = await call(as, 'ownership.delegate', { task_id, to: `agent_${to}`, spec, delegable: true })
    await call(to, 'task.start', { task_id: child.id })
    parts.push(child.id)
  }
  for (let i = 0; i < 50; i++) await part('devin', refs['task'].id, `worker${i % 3}`)
  for (let i = 0; i < 49; i++) await part('worker0', parts[0]!, 'worker3')
  const { checkpoint } = await call('alice', 'task.interrupt', { task_id: refs['task'].id })
  assert.equal(checkpoint.brings.length, 99)
  for (const id of parts) assert.equal((await on.task(id)).state, 'blocked')
  await call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
  for (const id of parts) assert.equal((await on.task(id)).state, 'in_progress')
})
