// Decisions about checkpoints: H5-H8, H28, H33.
import assert from 'node:assert/strict'
import { again, HOUR_MS, linesOf, raced, stage, type Stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions
const options = [
  { id: 'small', label: 'Small', risk: 'low' },
  { id: 'large', label: 'Large', risk: 'high' },
]

/** A task in progress whose principal allows these policies, with rita and bob as reviewers. */
async function working(on_expiry: readonly string[] = []): Promise<Stage> {
  const on = await stage()
  const spec = { goal: 'Fix it', constraints: { on_expiry } }
  on.refs['task'] = (await on.call('alice', 'task.create', { spec, reviewers: ['user_rita', 'user_bob'] })).task
  const task_id = on.refs['task'].id
  await on.call('alice', 'task.assign', { task_id, assignee: 'agent_devin' })
  await on.call('devin', 'task.start', { task_id })
  return on
}
async function raise(on: Stage, more: object): Promise<any> {
  const { checkpoint } = await on.call('devin', 'checkpoint.raise', {
    task_id: on.refs['task'].id,
    kind: 'approval',
    prompt: 'Go?',
    ...more,
  })
  return checkpoint
}
const get = async (on: Stage, checkpoint_id: string): Promise<any> =>
  (await on.call('admin', 'checkpoint.get', { checkpoint_id })).checkpoint

// --- H28: the whole table of kinds and actions ---------------------------------------------------------------------------------

const fits: Record<string, string> = {
  approval: 'approve reject reassign',
  choice: 'choose reject reassign',
  input: 'provide reject reassign',
  escalation: 'approve reject choose provide reassign',
}
const answers: Record<string, object> = {
  approve: {},
  reject: {},
  choose: { choice: 'small' },
  provide: { input: '8080' },
  reassign: { reassign_to: 'agent_robin' },
}

must(['H28', 'H5'], 'each action fits the kinds of the table and is INVALID_SPEC for every other; all but reject resume', async () => {
  for (const [kind, allowed] of Object.entries(fits)) {
    const asked = await working()
    asked.refs['checkpoint'] = await raise(asked, { kind, options })
    for (const [action, more] of Object.entries(answers)) {
      const on = await again(asked)
      const answer = { checkpoint_id: on.refs['checkpoint'].id, action, ...more }
      if (!allowed.split(' ').includes(action)) {
        await on.refused('INVALID_SPEC', 'alice', 'checkpoint.resolve', answer)
        continue
      }
      const { task, checkpoint } = await on.call('alice', 'checkpoint.resolve', answer)
      assert.equal(task.state, action === 'reject' ? 'completed' : 'in_progress', `${kind} ${action}`)
      assert.equal(task.ownership.assignee, { reject: 'user_alice', reassign: 'agent_robin' }[action] ?? 'agent_devin', `${kind} ${action}`)
      const { by, at, ...said } = checkpoint.resolution
      assert.deepEqual([by, said], ['user_alice', { action, ...more }], `${kind} ${action}`)
      assert.match(at, /Z$/)
    }
  }
})
must('H28', 'an action without what it needs is INVALID_SPEC, and what it does not use is not kept', async () => {
  const on = await working()
  const checkpoint_id = (await raise(on, { kind: 'escalation', options })).id
  for (const action of ['choose', 'provide', 'reassign'])
    await on.refused('INVALID_SPEC', 'alice', 'checkpoint.resolve', { checkpoint_id, action })
  await on.refused('INVALID_SPEC', 'alice', 'checkpoint.resolve', { checkpoint_id, action: 'reassign', reassign_to: 'user_bob' })
  const everything = { choice: 'small', input: 'x', reassign_to: 'agent_robin', comment: 'Go.' }
  const { checkpoint, task } = await on.call('alice', 'checkpoint.resolve', { checkpoint_id, action: 'approve', ...everything })
  assert.deepEqual(Object.keys(checkpoint.resolution).toSorted(), ['action', 'at', 'by', 'comment'])
  assert.equal(task.ownership.assignee, 'agent_devin')
})
must('H28', 'a choice needs options, each with an id of its own', async () => {
  const on = await working()
  const asking = { task_id: on.refs['task'].id, kind: 'choice', prompt: 'Which?' }
  for (const wrong of [{}, { options: [] }, { options: [options[0], options[0]] }])
    await on.refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { ...asking, ...wrong })
})

must('H6', 'a reject ends the task with its principal, and nothing brings it back', async () => {
  const { refs, call, refused } = await stage('blocked')
  const { task } = await call('rita', 'checkpoint.resolve', {
    checkpoint_id: refs['checkpoint'].id,
    action: 'reject',
    comment: 'Too risky.',
  })
  assert.deepEqual(
    [task.state, task.outcome, task.outcome_reason, task.ownership.assignee],
    ['completed', 'rejected_at_checkpoint', 'Too risky.', 'user_alice'],
  )
  assert.equal(task.ownership.chain.filter((one: any) => one.to === 'agent_devin').length, 1, 'the agent got it once, at the start')
  for (const operation of ['task.start', 'task.cancel'])
    await refused('PRECONDITION_FAILED', operation === 'task.start' ? 'devin' : 'alice', operation, { task_id: task.id })
})

// --- H7: what happens when nobody answers ----------------------------------------------------------------------------------------

must('H7-hold', 'on hold it stays pending, is noted as overdue once, and can still be answered', async () => {
  const on = await working()
  const { id } = await raise(on, { expires_in: 'PT1H' })
  assert.deepEqual(await on.ring(), [], 'nothing rings early')
  on.world.advance(2 * HOUR_MS)
  assert.deepEqual(await on.ring(), ['collaboration/checkpoint.overdue'])
  assert.deepEqual([(await get(on, id)).state, (await get(on, id)).overdue], ['pending', true])
  on.world.advance(100 * HOUR_MS)
  assert.deepEqual(await on.ring(), [], 'once')
  assert.equal((await on.actions()).filter((action) => action === 'task.checkpoint.overdue').length, 1)
  assert.equal((await on.call('alice', 'checkpoint.resolve', { checkpoint_id: id, action: 'approve' })).task.state, 'in_progress')
})
must('H7-hold', 'it is the policy where none is given', async () => {
  const on = await working()
  assert.equal((await raise(on, {})).on_expiry, 'hold')
})
must('H7-escalate', 'the question goes from person to person, each time marked, and rests with the last one', async () => {
  const on = await working()
  const { id } = await raise(on, { kind: 'choice', options, expires_in: 'PT1H', on_expiry: 'escalate' })
  const route: string[] = []
  let current = await get(on, id)
  for (let i = 0; i < 5; i++) {
    route.push(`${current.routed_to} ${current.kind} ${current.on_expiry}`)
    on.world.advance(2 * HOUR_MS)
    const before = (await linesOf(on.world)).length
    if ((await on.ring()).length === 0) break
    const made = (await linesOf(on.world)).slice(before).filter((line) => line.action.startsWith('collaboration/'))
    assert.deepEqual(
      made.map((line) => [line.action, line.actor, line.basis]),
      ['expired', 'raised'].map((word) => [
        `collaboration/task.checkpoint.${word}`,
        'agent_system',
        { kind: 'policy', id: 'on_expiry/escalate' },
      ]),
    )
    assert.equal(made[1].cause, made[0].seq)
    const { pending_checkpoint, state } = await on.task()
    const next = await get(on, pending_checkpoint)
    assert.deepEqual([state, next.succeeds, next.prompt, next.options], ['blocked', current.id, current.prompt, current.options])
    await on.refused('CHECKPOINT_EXPIRED', 'alice', 'checkpoint.resolve', { checkpoint_id: current.id, action: 'choose', choice: 'small' })
    current = next
  }
  assert.deepEqual(route, ['user_alice choice escalate', 'user_rita escalation escalate', 'user_bob escalation hold'])
  const { task } = await on.call('alice', 'checkpoint.resolve', { checkpoint_id: current.id, action: 'choose', choice: 'small' })
  assert.equal(task.state, 'in_progress', 'whoever it is routed to, the principal may answer')
})
must('H7-escalate', 'a principal who is also a reviewer is asked once, and the others after them', async () => {
  const on = await stage()
  on.refs['task'] = (await on.call('alice', 'task.create', { spec: { goal: 'x' }, reviewers: ['user_alice', 'user_rita'] })).task
  const task_id = on.refs['task'].id
  await on.call('alice', 'task.assign', { task_id, assignee: 'agent_devin' })
  await on.call('devin', 'task.start', { task_id })
  await raise(on, { expires_in: 'PT1H', on_expiry: 'escalate' })
  on.world.advance(2 * HOUR_MS)
  await on.ring()
  const next = await get(on, (await on.task()).pending_checkpoint)
  assert.deepEqual([next.routed_to, next.on_expiry], ['user_rita', 'hold'])
})
must('H7-escalate', 'after its time it cannot be answered any more, also before the timer has run', async () => {
  const on = await working()
  const { id } = await raise(on, { expires_in: 'PT1H', on_expiry: 'escalate' })
  await on.refused('PRECONDITION_FAILED', 'system', 'checkpoint.expire', { checkpoint_id: id })
  on.world.advance(HOUR_MS)
  await on.refused('CHECKPOINT_EXPIRED', 'alice', 'checkpoint.resolve', { checkpoint_id: id, action: 'approve' })
})
must('H7-fail', 'the checkpoint expires and the task is cancelled by policy, in one batch', async () => {
  const on = await working(['fail'])
  const { id } = await raise(on, { expires_in: 'PT1H', on_expiry: 'fail' })
  on.world.advance(2 * HOUR_MS)
  const before = (await linesOf(on.world)).length
  await on.ring()
  const made = (await linesOf(on.world)).slice(before).filter((line) => line.action.startsWith('collaboration/'))
  assert.deepEqual(
    made.map((line) => [line.action, line.actor, line.basis]),
    ['task.checkpoint.expired', 'task.cancelled'].map((action) => [
      `collaboration/${action}`,
      'agent_system',
      { kind: 'policy', id: 'on_expiry/fail' },
    ]),
  )
  const { state, outcome, outcome_reason, ownership } = await on.task()
  assert.deepEqual([state, outcome, outcome_reason, ownership.assignee], ['completed', 'cancelled', 'checkpoint_expired', 'user_alice'])
  await on.refused('CHECKPOINT_EXPIRED', 'alice', 'checkpoint.resolve', { checkpoint_id: id, action: 'approve' })
})
must('H7-default', 'the stated default answers, for the principal whose policy it is, and the agent goes on', async () => {
  const on = await working(['default'])
  const { id } = await raise(on, {
    kind: 'choice',
    options,
    expires_in: 'PT1H',
    on_expiry: 'default',
    default: { action: 'choose', choice: 'small' },
  })
  on.world.advance(2 * HOUR_MS)
  await on.ring()
  const { state, resolution } = await get(on, id)
  assert.deepEqual([state, resolution.by, resolution.action, resolution.choice], ['resolved', 'user_alice', 'choose', 'small'])
  const event = (await on.events()).find((one) => one.action === 'task.checkpoint.resolved')
  assert.deepEqual([event.actor, event.behalf, event.basis], ['agent_system', 'user_alice', { kind: 'policy', id: 'on_expiry/default' }])
  assert.equal((await on.task()).state, 'in_progress')
})
must('H7-allowed', 'an agent cannot choose a policy that the spec does not allow, and no default approves or takes a risk', async () => {
  const strict = await working()
  const raising = { task_id: strict.refs['task'].id, kind: 'choice', prompt: 'Which?', options, expires_in: 'PT1H' }
  const small = { action: 'choose', choice: 'small' }
  await strict.refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { ...raising, on_expiry: 'fail' })
  await strict.refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { ...raising, on_expiry: 'default', default: small })
  const open = await working(['fail', 'default'])
  const asking = { ...raising, task_id: open.refs['task'].id, on_expiry: 'default' }
  await open.refused('INVALID_SPEC', 'devin', 'checkpoint.raise', asking)
  await open.refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { ...asking, default: { action: 'choose', choice: 'large' } })
  await open.refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { ...asking, default: { action: 'choose', choice: 'none' } })
  for (const action of ['approve', 'reject'])
    await open.refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { ...asking, kind: 'escalation', default: { action } })
  await open.refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { ...asking, on_expiry: 'hold', default: small })
  await open.refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { ...asking, expires_in: undefined, on_expiry: 'fail' })
})

// --- H8, H33, LOOPS-1 --------------------------------------------------------------------------------------------------------------

must('H8', 'reviewers are given at create and added and removed by the principal, each audited; authority follows', async () => {
  const { refs, call, refused, actions } = await stage('blocked')
  const answer = { checkpoint_id: refs['checkpoint'].id, action: 'approve' }
  await refused('NOT_FOUND', 'bob', 'checkpoint.resolve', answer)
  await refused('UNAUTHORIZED', 'rita', 'reviewer.add', { task_id: refs['task'].id, user: 'user_bob' })
  await call('alice', 'reviewer.add', { task_id: refs['task'].id, user: 'user_bob' })
  await call('alice', 'reviewer.remove', { task_id: refs['task'].id, user: 'user_rita' })
  await refused('NOT_FOUND', 'rita', 'checkpoint.resolve', answer)
  await call('bob', 'checkpoint.resolve', answer)
  assert.deepEqual((await actions()).slice(-3), ['task.reviewer_added', 'task.reviewer_removed', 'task.checkpoint.resolved'])
})
must('H8', 'of two answers at once exactly one wins, and the other is told', async () => {
  const { refs, call, task } = await stage('blocked')
  const answer = (as: string, action: string): Promise<any> =>
    call(as, 'checkpoint.resolve', { checkpoint_id: refs['checkpoint'].id, action })
  const [loser, winner] = await raced([answer('alice', 'approve'), answer('rita', 'reject')], (won) => `by ${won.checkpoint.resolution.by}`)
  assert.equal(loser, 'PRECONDITION_FAILED')
  assert.equal((await task()).state, winner === 'by user_alice' ? 'in_progress' : 'completed')
})
must('H8', 'a reviewer who works on the task does not answer for it', async () => {
  const on = await stage('created')
  const task_id = on.refs['task'].id
  await on.call('alice', 'task.assign', { task_id, assignee: 'user_rita' })
  await on.call('rita', 'task.start', { task_id })
  const { checkpoint } = await on.call('rita', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
  await on.refused('UNAUTHORIZED', 'rita', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
})
must(
  ['H8', 'LOOPS-1'],
  'reassign resolves the checkpoint and hands the task to the other agent; the old one can do nothing more',
  async () => {
    const { refs, call, refused, task } = await stage('blocked')
    const task_id = refs['task'].id
    await call('alice', 'checkpoint.resolve', { checkpoint_id: refs['checkpoint'].id, action: 'reassign', reassign_to: 'agent_robin' })
    const { state, executor, ownership } = await task()
    assert.deepEqual(
      [state, executor, ownership.assignee, ownership.chain.at(-1).via],
      ['in_progress', 'agent_robin', 'agent_robin', 'handoff'],
    )
    for (const [operation, more] of [
      ['artifact.commit', { payload: { kind: 'inline', uri: 'data:,x' } }],
      ['checkpoint.raise', { kind: 'approval', prompt: 'Me?' }],
      ['ownership.delegate', { to: 'agent_robin' }],
      ['ledger.write', { key: 'k', value: 1 }],
    ] as const)
      await refused('UNAUTHORIZED', 'devin', operation, { task_id, ...more })
    await call('robin', 'artifact.commit', { task_id, payload: { kind: 'inline', uri: 'data:,x' } })
  },
)
must('H33', 'a second checkpoint while one is pending is refused; after the answer the next may be raised', async () => {
  const on = await working()
  const first = await raise(on, {})
  await on.refused('PRECONDITION_FAILED', 'devin', 'checkpoint.raise', { task_id: on.refs['task'].id, kind: 'approval', prompt: 'And?' })
  assert.equal((await on.task()).pending_checkpoint, first.id)
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: first.id, action: 'approve' })
  assert.equal((await on.task()).pending_checkpoint, null)
  await raise(on, {})
})
