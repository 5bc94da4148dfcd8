// HACP 0.1.0: the task state machine and who holds a task in which state. Every cell of operation x state x caller stands in
// exhaustive.test.ts; here are the rows of the draft.
import assert from 'node:assert/strict'
import { taskMoves } from '#protocols/collaboration/states.ts'
import { stage, type Stage } from '../support/in-process/stage.ts'
import { hacp } from './hacp-cited.ts'

const { must } = hacp

/** The state in the task's document before and after the last event that changed it. */
async function lastMove({ events }: Stage): Promise<string> {
  const changes = (await events()).flatMap((event) => event.changes.filter((change: any) => change.kind === 'task'))
  const last = changes.at(-1)
  return `${last.before.state} -> ${last.after.state}`
}

async function moves(scene: string, as: string, operation: string, more: object, expected: string): Promise<void> {
  const on = await stage(scene)
  const { task, checkpoint } = on.refs
  await on.call(as, operation, {
    ...(operation === 'checkpoint.resolve' ? { checkpoint_id: checkpoint.id } : { task_id: task.id }),
    ...more,
  })
  assert.equal(await lastMove(on), expected)
}
const inline = { payload: { kind: 'inline', uri: 'data:,x' } }

must('H-STATE-01', 'task.assign moves a created task to assigned', () =>
  moves('created', 'alice', 'task.assign', { assignee: 'agent_devin' }, 'created -> assigned'),
)
must('H-STATE-02', 'task.start moves an assigned task to in_progress', () =>
  moves('assigned', 'devin', 'task.start', {}, 'assigned -> in_progress'),
)
must(['H-STATE-03', 'H-CKPT-03'], 'checkpoint.raise moves a task in progress to blocked', () =>
  moves('in_progress', 'devin', 'checkpoint.raise', { kind: 'input', prompt: 'Which port?' }, 'in_progress -> blocked'),
)
must('H-STATE-04', 'checkpoint.resolve with approve moves a blocked task back to in_progress', () =>
  moves('blocked', 'alice', 'checkpoint.resolve', { action: 'approve' }, 'blocked -> in_progress'),
)
must('H-STATE-04', 'checkpoint.resolve with provide moves a blocked task back to in_progress', async () => {
  const on = await stage('in_progress')
  const { checkpoint } = await on.call('devin', 'checkpoint.raise', { task_id: on.refs['task'].id, kind: 'input', prompt: 'Which port?' })
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'provide', input: '8080' })
  assert.equal(await lastMove(on), 'blocked -> in_progress')
})
must('H-STATE-05', 'checkpoint.resolve with reject moves a blocked task to completed', async () => {
  const on = await stage('blocked')
  const { task } = await on.call('alice', 'checkpoint.resolve', { checkpoint_id: on.refs['checkpoint'].id, action: 'reject' })
  assert.equal(task.state, 'completed')
  assert.ok((await on.events()).some((e) => e.action === 'task.checkpoint.resolved' && e.changes[1].before.state === 'blocked'))
})
must('H-STATE-06', 'artifact.commit moves a task in progress to review_ready', () =>
  moves('in_progress', 'devin', 'artifact.commit', inline, 'in_progress -> review_ready'),
)

/** The path that review.submit took, as its event says. */
async function reviewPath(verdict: string): Promise<{ path: string[]; state: string }> {
  const on = await stage('review_ready')
  const { task, artifact } = on.refs
  const requested_changes = verdict === 'changes_requested' ? ['name it'] : []
  const answer = await on.call('alice', 'review.submit', { task_id: task.id, artifact_id: artifact.id, verdict, requested_changes })
  const event = (await on.events()).find((one) => one.action === 'review.submitted')
  return { path: event.detail.path, state: answer.task.state }
}
must(['H-STATE-07', 'H-STATE-08'], 'a review with changes requested goes through under_review back to in_progress', async () => {
  assert.deepEqual(await reviewPath('changes_requested'), { path: ['review_ready', 'under_review', 'in_progress'], state: 'in_progress' })
})
must(
  ['H-STATE-07', 'H-STATE-09', 'H-STATE-11'],
  'an approving review goes through under_review to accepted, and at once to completed',
  async () => {
    assert.deepEqual(await reviewPath('approved'), { path: ['review_ready', 'under_review', 'accepted'], state: 'completed' })
  },
)
must('H-STATE-11', 'the completion is an event of the system, caused by the review', async () => {
  const { events, refs } = await stage('completed')
  const all = await events()
  const review = all.find((event) => event.action === 'review.submitted')
  const done = all.find((event) => event.action === 'task.completed')
  assert.deepEqual([done.actor, done.behalf, done.cause], ['agent_system', 'user_alice', review.seq])
  assert.equal(done.before.state, 'accepted')
  assert.deepEqual([refs['task'].state, refs['task'].outcome], ['completed', 'accepted'])
})
must('H-STATE-10', 'a rejecting review goes through under_review to rejected', async () => {
  assert.deepEqual(await reviewPath('rejected'), { path: ['review_ready', 'under_review', 'rejected'], state: 'rejected' })
})
must('H-STATE-12', 'task.cancel ends a task that is created, assigned, in progress or blocked', async () => {
  for (const scene of ['created', 'assigned', 'in_progress', 'blocked']) {
    const { refs, call } = await stage(scene)
    const { task } = await call('alice', 'task.cancel', { task_id: refs['task'].id })
    assert.deepEqual([scene, task.state, task.outcome], [scene, 'completed', 'cancelled'])
  }
})

const draftMoves = `
  created task.assign assigned
  assigned task.start in_progress
  in_progress checkpoint.raise blocked
  blocked checkpoint.resolve/approve in_progress
  blocked checkpoint.resolve/provide in_progress
  blocked checkpoint.resolve/reject completed
  in_progress artifact.commit review_ready
  review_ready review.submit under_review
  under_review review.submit/changes_requested in_progress
  under_review review.submit/approved accepted
  under_review review.submit/rejected rejected
  accepted task.complete completed
  created task.cancel completed
  assigned task.cancel completed
  in_progress task.cancel completed
  blocked task.cancel completed`
const ourMoves = `
  blocked checkpoint.resolve/choose in_progress
  blocked checkpoint.resolve/reassign in_progress
  in_progress task.interrupt blocked
  blocked artifact.edit/final review_ready
  under_review review.submit/plan in_progress`
const rowsIn = (text: string): string[] => text.trim().split(/\n\s*/)

must(
  ['H-STATE-13', 'H-TASK-04'],
  'the table of the code is the table of the draft, with two actions that it leaves out and three of continuous control',
  () => {
    assert.deepEqual(taskMoves.map((row) => row.join(' ')).toSorted(), [...rowsIn(draftMoves), ...rowsIn(ourMoves)].toSorted())
  },
)
must(['H-STATE-13', 'H-TASK-04'], 'over a whole life, every change of state is a row of the draft', async () => {
  const { events } = await stage('written')
  const allowed = new Set(rowsIn(draftMoves).map((row) => row.replace(/ \S+ /, ' ')))
  const changes = (await events()).flatMap((event) => event.changes.filter((change: any) => change.kind === 'task'))
  for (const { before, after } of changes) {
    if (before === null || before.state === after.state) continue
    // A review takes two steps in one event; the path has the state between them.
    const steps =
      before.state === 'review_ready' ? ['review_ready under_review', `under_review ${after.state}`] : [`${before.state} ${after.state}`]
    for (const step of steps) assert.ok(allowed.has(step), step)
  }
})

const holder = async (scene: string): Promise<string> => {
  const { task } = await stage(scene)
  const { state, ownership } = await task()
  assert.equal(state, scene)
  return ownership.assignee
}
must('H-HOLD-01', 'a created task is with its principal', async () => assert.equal(await holder('created'), 'user_alice'))
must('H-HOLD-02', 'an assigned task is with the agent', async () => assert.equal(await holder('assigned'), 'agent_devin'))
must('H-HOLD-03', 'a task in progress is with the agent', async () => assert.equal(await holder('in_progress'), 'agent_devin'))
must('H-HOLD-04', 'a blocked task is with its principal', async () => assert.equal(await holder('blocked'), 'user_alice'))
must('H-HOLD-05', 'a task ready for review is with its principal', async () => assert.equal(await holder('review_ready'), 'user_alice'))
must('H-HOLD-06', 'an accepted task is with its principal', async () => {
  const { events } = await stage('completed')
  const accepted = (await events()).flatMap((event) => event.changes).find((change) => change.after.state === 'accepted')
  assert.equal(accepted.after.ownership.assignee, 'user_alice')
})
must('H-HOLD-07', 'a completed task is with its principal, whichever way it ended', async () => {
  assert.equal(await holder('completed'), 'user_alice')
  for (const scene of ['created', 'assigned', 'in_progress', 'blocked']) {
    const { refs, call } = await stage(scene)
    assert.equal((await call('alice', 'task.cancel', { task_id: refs['task'].id })).task.ownership.assignee, 'user_alice')
  }
})
