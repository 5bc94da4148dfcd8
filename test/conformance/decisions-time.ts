// Decisions about time: H19, state by state. Timers ring as the worker would ring them.
import assert from 'node:assert/strict'
import { HOUR_MS, linesOf, stage, type Stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions
const inline = { payload: { kind: 'inline', uri: 'data:,x' } }
const steps: readonly [string, string, object][] = [
  ['alice', 'task.assign', { assignee: 'agent_devin', delegable: true }],
  ['devin', 'task.start', {}],
]

/** A task with a deadline in one hour, taken to a state. */
async function dueIn(state: string, more: object = {}): Promise<Stage & { task_id: string }> {
  const on = await stage()
  const deadline = new Date(on.world.kernel.now() + HOUR_MS).toISOString()
  on.refs['task'] = (await on.call('alice', 'task.create', { spec: { goal: 'Fix it' }, deadline, reviewers: ['user_rita'], ...more })).task
  const task_id = on.refs['task'].id
  const count = { created: 0, assigned: 1 }[state] ?? 2
  for (const [as, operation, input] of steps.slice(0, count)) await on.call(as, operation, { task_id, ...input })
  if (state === 'blocked')
    on.refs['checkpoint'] = (await on.call('devin', 'checkpoint.raise', { task_id, kind: 'input', prompt: 'Which port?' })).checkpoint
  if (state === 'review_ready') on.refs['artifact'] = (await on.call('devin', 'artifact.commit', { task_id, ...inline })).artifact
  return { ...on, task_id }
}
/** The time passes; what the timers then did, as actions. */
async function late({ world, ring }: Stage): Promise<any[]> {
  world.advance(2 * HOUR_MS)
  const before = (await linesOf(world)).length
  assert.deepEqual(await ring(), ['collaboration/task.overdue'])
  const made = (await linesOf(world)).slice(before).filter((line) => line.action.startsWith('collaboration/'))
  world.advance(10 * HOUR_MS)
  assert.deepEqual(await ring(), [], 'nobody is told twice')
  return made
}
const actionsIn = (lines: any[]): string[] => lines.map((line) => line.action.slice('collaboration/'.length))

must('H19-agent', 'from the deadline on, everything that the agent does is refused, before the timer has run too', async () => {
  const on = await dueIn('in_progress')
  on.world.advance(HOUR_MS)
  const { task_id, refused } = on
  await refused('DEADLINE_EXCEEDED', 'devin', 'artifact.commit', { task_id, ...inline })
  await refused('DEADLINE_EXCEEDED', 'devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
  await refused('DEADLINE_EXCEEDED', 'devin', 'ownership.delegate', { task_id, to: 'agent_robin' })
  await refused('DEADLINE_EXCEEDED', 'devin', 'ledger.write', { task_id, key: 'k', value: 1 })
  const assigned = await dueIn('assigned')
  assigned.world.advance(HOUR_MS)
  await assigned.refused('DEADLINE_EXCEEDED', 'devin', 'task.start', { task_id: assigned.task_id })
})
must('H19-agent', 'people are not stopped: they cancel, answer and review after the deadline', async () => {
  const cancelling = await dueIn('in_progress')
  cancelling.world.advance(2 * HOUR_MS)
  assert.equal((await cancelling.call('alice', 'task.cancel', { task_id: cancelling.task_id })).task.state, 'completed')
  const reviewing = await dueIn('review_ready')
  reviewing.world.advance(2 * HOUR_MS)
  const review = { task_id: reviewing.task_id, artifact_id: reviewing.refs['artifact'].id, verdict: 'approved' }
  assert.equal((await reviewing.call('rita', 'review.submit', review)).task.state, 'completed')
})
must('H19-created', 'a created task is marked as overdue; there is nobody to ask about it but its principal, who holds it', async () => {
  const on = await dueIn('created')
  assert.deepEqual(actionsIn(await late(on)), ['task.overdue'])
  const { state, overdue, checkpoints } = await on.task()
  assert.deepEqual([state, overdue, checkpoints], ['created', true, []])
})
must('H19-assigned', 'an assigned task is started and blocked in one batch, and its principal is asked', async () => {
  const on = await dueIn('assigned')
  const made = await late(on)
  assert.deepEqual(actionsIn(made), ['task.overdue', 'task.started', 'task.checkpoint.raised'])
  assert.deepEqual(new Set(made.map((line) => line.at)).size, 1)
  await assertAsked(on)
})
must('H19-in_progress', 'a task in progress is blocked by an escalation', async () => {
  const on = await dueIn('in_progress')
  assert.deepEqual(actionsIn(await late(on)), ['task.overdue', 'task.checkpoint.raised'])
  await assertAsked(on)
})
must('H19-blocked', 'a blocked task gets a successor that names the old question; the old one has expired', async () => {
  const on = await dueIn('blocked')
  assert.deepEqual(actionsIn(await late(on)), ['task.overdue', 'task.checkpoint.expired', 'task.checkpoint.raised'])
  const checkpoint = await assertAsked(on)
  assert.equal(checkpoint.succeeds, on.refs['checkpoint'].id)
  assert.deepEqual(checkpoint.supersedes, { checkpoint_id: on.refs['checkpoint'].id, prompt: 'Which port?' })
  await on.refused('CHECKPOINT_EXPIRED', 'alice', 'checkpoint.resolve', {
    checkpoint_id: on.refs['checkpoint'].id,
    action: 'provide',
    input: '80',
  })
})
must('H19-review', 'a task in review is only marked: it is with a person already', async () => {
  const on = await dueIn('review_ready')
  assert.deepEqual(actionsIn(await late(on)), ['task.overdue'])
  assert.equal((await on.task()).state, 'review_ready')
})
/** The agent may do nothing, but its timer is set: it fires immediately, and the principal is asked. */
async function assertAskedAgain(on: Stage, message: string): Promise<void> {
  const { id, state, overdue, executor } = await on.task()
  assert.deepEqual([['assigned', 'in_progress'].includes(state), overdue], [true, false], message)
  await on.refused('DEADLINE_EXCEEDED', executor.slice('agent_'.length), 'ledger.write', { task_id: id, key: 'k', value: 1 })
  assert.deepEqual(await on.ring(), ['collaboration/task.overdue'], message)
  await assertAsked(on)
  assert.deepEqual(await on.ring(), [], `${message}: once`)
}
must('H19-again', 'a task that was late before it was assigned comes back when it is', async () => {
  const on = await dueIn('created')
  await late(on)
  await on.call('alice', 'task.assign', { task_id: on.task_id, assignee: 'agent_devin' })
  await assertAskedAgain(on, 'assigned')
})
must(['H19-again', 'H44-transfer'], 'so does one that was transferred before, to whoever it is assigned to then', async () => {
  const on = await dueIn('created')
  await late(on)
  await on.call('admin', 'ownership.transfer', { task_id: on.task_id, to: 'agent_devin' })
  await on.call('alice', 'task.assign', { task_id: on.task_id, assignee: 'agent_devin' })
  await assertAskedAgain(on, 'assigned')
})
must('H19-again', 'a task that became late in review comes back when it is sent back, and goes on once it is extended', async () => {
  const on = await dueIn('review_ready')
  await late(on)
  const artifact_id = on.refs['artifact'].id
  const review = { task_id: on.task_id, artifact_id, verdict: 'changes_requested', requested_changes: ['y'] }
  await on.call('rita', 'review.submit', review)
  await assertAskedAgain(on, 'sent back')
  await on.call('alice', 'task.extend', { task_id: on.task_id, deadline: null })
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: (await on.task()).pending_checkpoint, action: 'approve' })
  await on.call('devin', 'artifact.commit', { task_id: on.task_id, artifact_id, parent_version: 'v1', ...inline })
})
must('H19-again', 'whoever is given a late task without more time brings it back', async () => {
  const on = await dueIn('in_progress')
  await late(on)
  for (const reassign_to of ['agent_robin', 'agent_devin']) {
    await on.call('alice', 'checkpoint.resolve', {
      checkpoint_id: (await on.task()).pending_checkpoint,
      action: 'reassign',
      reassign_to,
    })
    await assertAskedAgain(on, reassign_to)
  }
})
must('H19-again', 'so does what answers by itself, and what was taken over', async () => {
  const chosen = await dueIn('in_progress', { spec: { goal: 'Fix it', constraints: { on_expiry: ['default'] } } })
  const options = [{ id: 'a', label: 'A', risk: 'low' }]
  const question = { kind: 'choice', prompt: 'Which?', options, expires_in: 'PT3H', on_expiry: 'default' }
  const asked = await chosen.call('devin', 'checkpoint.raise', {
    task_id: chosen.task_id,
    ...question,
    default: { action: 'choose', choice: 'a' },
  })
  // Late, but nobody was told before the question is answered by its policy: both come due in one night.
  chosen.world.advance(4 * HOUR_MS)
  await chosen.call('system', 'checkpoint.expire', { checkpoint_id: asked.checkpoint.id })
  await assertAskedAgain(chosen, 'default')

  const taken = await dueIn('in_progress')
  await taken.call('alice', 'task.takeover', { task_id: taken.task_id })
  await late(taken)
  await taken.call('alice', 'task.return', { task_id: taken.task_id })
  await assertAskedAgain(taken, 'returned')
})
must('H19-again', 'a clock that steps back after a task was late leaves its deadline in force', async () => {
  const on = await dueIn('in_progress')
  await late(on)
  on.world.advance(-12 * HOUR_MS)
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: (await on.task()).pending_checkpoint, action: 'approve' })
  await on.call('devin', 'artifact.commit', { task_id: on.task_id, ...inline, final: false })
  on.world.advance(2 * HOUR_MS)
  await assertAskedAgain(on, 'the deadline came a second time')
})
must('H19-again', 'extending one limit while the other has passed does not silence its timer', async () => {
  const on = await dueIn('assigned', { spec: { goal: 'Fix it', constraints: { max_duration: 'PT2H' } } })
  on.world.advance(HOUR_MS)
  const { task } = await on.call('alice', 'task.extend', { task_id: on.task_id, max_duration: 'PT3H' })
  assert.equal(task.overdue, false)
  await assertAskedAgain(on, 'extended')
})
must('H19-ended', 'an ended task has no timer left', async () => {
  for (const state of ['created', 'assigned', 'in_progress', 'blocked']) {
    const on = await dueIn(state)
    await on.call('alice', 'task.cancel', { task_id: on.task_id })
    on.world.advance(2 * HOUR_MS)
    assert.deepEqual(await on.ring(), [], state)
    await on.refused('PRECONDITION_FAILED', 'system', 'task.overdue', { task_id: on.task_id })
  }
})

async function assertAsked(on: Stage): Promise<any> {
  const { state, overdue, ownership, pending_checkpoint } = await on.task()
  assert.deepEqual([state, overdue, ownership.assignee], ['blocked', true, 'user_alice'])
  const { checkpoint } = await on.call('alice', 'checkpoint.get', { checkpoint_id: pending_checkpoint })
  assert.deepEqual(
    [checkpoint.kind, checkpoint.state, checkpoint.raised_by, checkpoint.routed_to],
    ['escalation', 'pending', 'agent_system', 'user_alice'],
  )
  assert.match(checkpoint.prompt, /deadline has passed/)
  return checkpoint
}

must('H19-extend', 'the principal extends, the agent goes on, and the new deadline counts', async () => {
  const on = await dueIn('in_progress')
  await late(on)
  const { pending_checkpoint } = await on.task()
  const later = (hours: number): string => new Date(on.world.kernel.now() + hours * HOUR_MS).toISOString()
  for (const as of ['rita', 'devin', 'admin', 'owner'])
    await on.refused('UNAUTHORIZED', as, 'task.extend', { task_id: on.task_id, deadline: later(5) })
  await on.refused('INVALID_SPEC', 'alice', 'task.extend', { task_id: on.task_id })
  const { task } = await on.call('alice', 'task.extend', { task_id: on.task_id, deadline: later(5) })
  assert.equal(task.overdue, false)
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: pending_checkpoint, action: 'approve' })
  await on.call('devin', 'artifact.commit', { task_id: on.task_id, ...inline, final: false })
  assert.ok((await on.actions()).includes('task.extended'))
  await on.refused('INVALID_SPEC', 'alice', 'task.extend', { task_id: on.task_id, deadline: later(1) })
  on.world.advance(6 * HOUR_MS)
  assert.deepEqual(await on.ring(), ['collaboration/task.overdue'])
  await on.call('alice', 'task.extend', { task_id: on.task_id, deadline: null })
  assert.deepEqual([(await on.task()).deadline, (await on.task()).overdue], [null, false])
})

must('H19-duration', 'max_duration runs only while the agent works: waiting for people costs nothing', async () => {
  const on = await dueIn('in_progress', { deadline: null, spec: { goal: 'Fix it', constraints: { max_duration: 'PT2H' } } })
  const { task_id, world, call } = on
  world.advance(HOUR_MS)
  const { checkpoint } = await call('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
  world.advance(50 * HOUR_MS)
  assert.deepEqual(await on.ring(), [])
  await call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
  world.advance(HOUR_MS / 2)
  const { artifact } = await call('devin', 'artifact.commit', { task_id, ...inline })
  world.advance(50 * HOUR_MS)
  await call('alice', 'review.submit', { task_id, artifact_id: artifact.id, verdict: 'changes_requested', requested_changes: ['y'] })
  const { active_ms } = await on.task()
  assert.ok(Math.abs(active_ms - 1.5 * HOUR_MS) < 1_000, `${active_ms} ms were counted`)
  assert.deepEqual(await on.ring(), [])
  world.advance(HOUR_MS)
  await on.refused('DEADLINE_EXCEEDED', 'devin', 'artifact.commit', { task_id, ...inline })
  assert.deepEqual(await on.ring(), ['collaboration/task.overdue'])
  assert.equal((await on.task()).state, 'blocked')
  assert.equal((await on.events()).find((event) => event.action === 'task.overdue').detail.limit, 'max_duration')
  await call('alice', 'task.extend', { task_id, max_duration: 'PT10H' })
  await call('alice', 'checkpoint.resolve', { checkpoint_id: (await on.task()).pending_checkpoint, action: 'approve' })
  await call('devin', 'artifact.commit', { task_id, artifact_id: artifact.id, parent_version: 'v1', ...inline })
})
