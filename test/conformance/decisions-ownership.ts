// Decisions about passing work on (H21) and ending it with everything below (H29).
import assert from 'node:assert/strict'
import { runsOf } from '../support/in-process/runs.ts'
import { enlist, HOUR_MS, linesOf, stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions
const spec = { goal: 'Fix it' }
const inline = (text = 'x') => ({ payload: { kind: 'inline', uri: `data:,${text}` } })

must('H21-same', 'without a spec the task itself goes down: same id, the delegate executes, the first agent still reads it', async () => {
  const { refs, call, refused } = await stage('delegable')
  const task_id = refs['task'].id
  const { task, child } = await call('devin', 'ownership.delegate', { task_id, to: 'agent_robin' })
  assert.equal(child, null)
  assert.deepEqual(
    [task.id, task.state, task.executor, task.ownership.assignee, task.executors],
    [task_id, 'in_progress', 'agent_robin', 'agent_robin', ['agent_devin', 'agent_robin']],
  )
  await refused('UNAUTHORIZED', 'devin', 'artifact.commit', { task_id, ...inline() })
  await call('devin', 'task.get', { task_id })
  await call('robin', 'artifact.commit', { task_id, ...inline() })
  const other = await stage('delegable')
  const delegating = { task_id: other.refs['task'].id }
  await other.refused('PRECONDITION_FAILED', 'devin', 'ownership.delegate', { ...delegating, to: 'agent_devin' })
  await other.refused('INVALID_SPEC', 'devin', 'ownership.delegate', { ...delegating, to: 'user_bob' })
  await other.refused('NOT_FOUND', 'devin', 'ownership.delegate', { ...delegating, to: 'agent_spy' })
})
must('H21-child', 'with a spec a child is made and assigned in the same batch, for the same principal', async () => {
  const on = await stage('delegable')
  await enlist(on, 'third')
  const { refs, call, world, task } = on
  const root = refs['task'].id
  const facts = (await linesOf(world)).length
  const { child } = await call('devin', 'ownership.delegate', {
    task_id: root,
    to: 'agent_robin',
    spec: { goal: 'A part' },
    delegable: true,
  })
  assert.deepEqual(
    [child.parent_task, child.root_task_id, child.state, child.ownership.principal, child.executor, child.reviewers],
    [root, root, 'assigned', 'user_alice', 'agent_robin', ['user_rita']],
  )
  assert.deepEqual(
    (await linesOf(world)).slice(facts).map((line) => line.action),
    ['collaboration/ownership.delegated', 'collaboration/task.created', 'collaboration/task.assigned', 'delegation/run.delegated'],
  )
  assert.deepEqual([(await task()).executor, (await task()).children], ['agent_devin', [child.id]])
  await call('robin', 'task.start', { task_id: child.id })
  const grand = (await call('robin', 'ownership.delegate', { task_id: child.id, to: 'agent_third', spec: { goal: 'A part of it' } })).child
  assert.deepEqual([grand.parent_task, grand.root_task_id, grand.depth], [child.id, root, 2])
})
must(
  ['H3', 'H21-child'],
  'below a task that has not ended only its principal creates tasks; after one that was rejected all its readers make a new attempt',
  async () => {
    const { refs, call, refused, events, task } = await stage('delegable')
    const below = { spec, parent_task: refs['task'].id }
    for (const as of ['rita', 'owner']) await refused('UNAUTHORIZED', as, 'task.create', below)
    await refused('NOT_FOUND', 'bob', 'task.create', below)
    const mine = (await call('alice', 'task.create', below)).task.id
    const inPlace = (await call('deputy', 'task.create', below)).task.id
    const { action, actor, behalf } = (await events()).at(-1)!
    assert.deepEqual([action, actor, behalf], ['task.child_added', 'user_bob', 'user_alice'])
    const { child } = await call('devin', 'ownership.delegate', { task_id: below.parent_task, to: 'agent_robin', spec })
    assert.deepEqual((await task()).children, [mine, inPlace, child.id])
    const rejected = await stage('rejected')
    const after = { spec, parent_task: rejected.refs['task'].id }
    const again = (await rejected.call('rita', 'task.create', after)).task
    assert.deepEqual([again.parent_task, again.new_attempt], [after.parent_task, true])
  },
)
must('H21-child', 'a child never has more time than its parent', async () => {
  const on = await stage()
  const at = (hours: number): string => new Date(on.world.kernel.now() + hours * HOUR_MS).toISOString()
  const { task } = await on.call('alice', 'task.create', { spec, deadline: at(2), delegable: true })
  await on.call('alice', 'task.assign', { task_id: task.id, assignee: 'agent_devin' })
  const delegating = { task_id: task.id, to: 'agent_robin', spec }
  await on.refused('INVALID_SPEC', 'devin', 'ownership.delegate', { ...delegating, deadline: at(3) })
  assert.equal((await on.call('devin', 'ownership.delegate', delegating)).child.deadline, task.deadline)
  const shorter = at(1)
  assert.equal((await on.call('devin', 'ownership.delegate', { ...delegating, deadline: shorter })).child.deadline, shorter)
})
must('H21-depth', 'a fourth delegation is refused, whether the task or children were passed down', async () => {
  for (const withSpec of [false, true]) {
    const on = await stage('delegable')
    await enlist(on, 'third', 'fourth', 'fifth')
    const { refs, call, refused } = on
    let task_id: string = refs['task'].id
    const line = ['devin', 'robin', 'third', 'fourth', 'fifth'] as const
    for (let depth = 1; depth <= 4; depth++) {
      const as = line[depth - 1]!
      const input = { task_id, to: `agent_${line[depth]}`, delegable: true, ...(withSpec ? { spec } : {}) }
      if (depth === 4) await refused('PRECONDITION_FAILED', as, 'ownership.delegate', input)
      else {
        const { task, child } = await call(as, 'ownership.delegate', input)
        task_id = (child ?? task).id
        assert.equal((child ?? task).depth, depth)
      }
    }
  }
})
must('H21-depth', 'who passes a task down may forbid to pass it on', async () => {
  const { refs, call, refused } = await stage('delegable')
  const task_id = refs['task'].id
  await call('devin', 'ownership.delegate', { task_id, to: 'agent_robin', delegable: false })
  await refused('PRECONDITION_FAILED', 'robin', 'ownership.delegate', { task_id, to: 'agent_devin', delegable: true })
})
must('H21-via', 'the words of via, for every way that a task changes hands', async () => {
  const last = (task: any): string => `${task.ownership.chain.at(-1).via} (${task.ownership.chain.at(-1).reason})`
  const seen: string[] = []
  const { refs, call } = await stage('created')
  const task_id = refs['task'].id
  const note = ({ task }: any): any => seen.push(last(task))
  note(await call('alice', 'task.assign', { task_id, assignee: 'agent_devin', delegable: true }))
  await call('devin', 'task.start', { task_id })
  note(await call('devin', 'ownership.delegate', { task_id, to: 'agent_robin' }))
  note(await call('admin', 'ownership.transfer', { task_id, to: 'agent_devin' }))
  const ask = async (): Promise<string> => {
    const answer = await call('devin', 'checkpoint.raise', { task_id, kind: 'escalation', prompt: 'So?' })
    note(answer)
    return answer.checkpoint.id
  }
  note(await call('alice', 'checkpoint.resolve', { checkpoint_id: await ask(), action: 'approve' }))
  note(await call('alice', 'checkpoint.resolve', { checkpoint_id: await ask(), action: 'reassign', reassign_to: 'agent_robin' }))
  const committed = await call('robin', 'artifact.commit', { task_id, ...inline() })
  note(committed)
  note(
    await call('alice', 'review.submit', {
      task_id,
      artifact_id: committed.artifact.id,
      verdict: 'changes_requested',
      requested_changes: ['y'],
    }),
  )
  note(await call('alice', 'task.cancel', { task_id }))
  assert.deepEqual(seen, [
    'assign (task.assign)',
    'assign (ownership.delegate)',
    'handoff (ownership.transfer)',
    'checkpoint (checkpoint.raise)',
    'approve (checkpoint.resolve/approve)',
    'checkpoint (checkpoint.raise)',
    'handoff (checkpoint.resolve/reassign)',
    'handoff (artifact.commit)',
    'reject (review.submit)',
    'handoff (task.cancel)',
  ])
})

must('H44-transfer', 'a created task changes its assignee and nothing else: no state, no run, until its principal assigns it', async () => {
  const on = await stage('created')
  const { refs, call, refused, task } = on
  const task_id = refs['task'].id
  await refused('UNAUTHORIZED', 'alice', 'ownership.transfer', { task_id, to: 'agent_robin' })
  await refused('PRECONDITION_FAILED', 'admin', 'ownership.transfer', { task_id, to: 'user_alice' })
  await refused('NOT_FOUND', 'robin', 'task.get', { task_id })
  const moved = (await call('admin', 'ownership.transfer', { task_id, to: 'agent_robin' })).task
  assert.deepEqual(
    [moved.state, moved.ownership.assignee, moved.executor, moved.active_since],
    ['created', 'agent_robin', 'agent_robin', null],
  )
  const { from, to, via, reason } = moved.ownership.chain.at(-1)
  assert.deepEqual([from, to, via, reason], ['user_alice', 'agent_robin', 'handoff', 'ownership.transfer'])
  assert.deepEqual(await runsOf(on), [])
  assert.equal((await call('robin', 'task.get', { task_id })).task.id, task_id)
  await refused('PRECONDITION_FAILED', 'robin', 'task.start', { task_id })
  await refused('PRECONDITION_FAILED', 'admin', 'ownership.transfer', { task_id, to: 'agent_robin' })
  await call('alice', 'task.assign', { task_id, assignee: 'agent_devin' })
  const given = await task()
  assert.deepEqual(
    [given.state, given.ownership.assignee, given.executors, given.ownership.chain.length],
    ['assigned', 'agent_devin', ['agent_robin', 'agent_devin'], 2],
  )
  assert.deepEqual(
    (await runsOf(on)).map(({ agent_id }) => agent_id),
    ['agent_devin'],
  )
  assert.equal((await call('robin', 'task.get', { task_id })).task.id, task_id, 'everybody of the chain stays a reader')
})
must('H44-transfer', 'it can go to a person, back to its principal, and be assigned to the one it was transferred to', async () => {
  for (const to of ['user_bob', 'agent_robin']) {
    const on = await stage('created')
    const task_id = on.refs['task'].id
    await on.call('admin', 'ownership.transfer', { task_id, to: 'user_bob' })
    assert.equal((await on.call('admin', 'ownership.transfer', { task_id, to: 'user_alice' })).task.ownership.assignee, 'user_alice')
    await on.call('admin', 'ownership.transfer', { task_id, to })
    const { task } = await on.call('alice', 'task.assign', { task_id, assignee: to })
    assert.deepEqual([task.state, task.ownership.assignee, task.ownership.chain.length], ['assigned', to, 3])
    assert.equal((await runsOf(on)).length, to === 'agent_robin' ? 1 : 0)
  }
  const ended = await stage('created')
  const task_id = ended.refs['task'].id
  await ended.call('admin', 'ownership.transfer', { task_id, to: 'agent_robin' })
  const { task } = await ended.call('alice', 'task.cancel', { task_id })
  assert.deepEqual([task.state, task.ownership.assignee], ['completed', 'user_alice'])
})

must('H29-pending', 'cancelling a blocked task expires what it waits for, in the same batch', async () => {
  const { refs, call, world, refused } = await stage('blocked')
  const facts = (await linesOf(world)).length
  await call('alice', 'task.cancel', { task_id: refs['task'].id })
  const made = (await linesOf(world)).slice(facts)
  assert.deepEqual(
    made.map((line) => line.action),
    ['collaboration/task.cancelled', 'collaboration/task.checkpoint.expired', 'delegation/run.failed', 'execution/request.cancelled'],
  )
  assert.equal(made[1].cause, made[0].seq)
  await refused('CHECKPOINT_EXPIRED', 'alice', 'checkpoint.resolve', { checkpoint_id: refs['checkpoint'].id, action: 'approve' })
})
must('H29-children', 'cancelling takes the active tree along, its checkpoints too, and leaves what has ended or is in review', async () => {
  const on = await stage('delegable')
  await enlist(on, 'third')
  const { refs, call, task } = on
  const root = refs['task'].id
  const part = async (): Promise<string> =>
    (await call('devin', 'ownership.delegate', { task_id: root, to: 'agent_robin', spec, delegable: true })).child.id
  const [waiting, delivered, idle] = [await part(), await part(), await part()]
  for (const task_id of [waiting, delivered]) await call('robin', 'task.start', { task_id })
  const below = (await call('robin', 'ownership.delegate', { task_id: waiting, to: 'agent_third', spec })).child.id
  const { checkpoint } = await call('robin', 'checkpoint.raise', { task_id: waiting, kind: 'approval', prompt: 'Go?' })
  await call('robin', 'artifact.commit', { task_id: delivered, ...inline() })
  await call('alice', 'task.cancel', { task_id: root, reason: 'not needed' })
  for (const id of [waiting, idle, below])
    assert.deepEqual([(await task(id)).state, (await task(id)).outcome_reason], ['completed', 'parent_cancelled'])
  assert.equal((await task(delivered)).state, 'review_ready')
  assert.equal((await call('alice', 'checkpoint.get', { checkpoint_id: checkpoint.id })).checkpoint.state, 'expired')
})
must('H29-children', 'a child that somebody else answers for, and that the canceller may not read, ends with it all the same', async () => {
  const { refs, call, refused, task } = await stage('in_progress')
  const root = refs['task'].id
  const child = (await call('deputy', 'task.create', { spec, parent_task: root })).task.id
  await refused('NOT_FOUND', 'alice', 'task.get', { task_id: child })
  assert.equal((await call('alice', 'task.cancel', { task_id: root })).task.outcome, 'cancelled')
  assert.deepEqual([(await task(child)).state, (await task(child)).outcome_reason], ['completed', 'parent_cancelled'])
})
must('H29-children', 'a reject at a checkpoint ends the task, and its active children with it', async () => {
  const { refs, call, task } = await stage('delegable')
  const root = refs['task'].id
  const { child } = await call('devin', 'ownership.delegate', { task_id: root, to: 'agent_robin', spec })
  const { checkpoint } = await call('devin', 'checkpoint.raise', { task_id: root, kind: 'approval', prompt: 'Go on?' })
  await call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'reject' })
  assert.equal((await task(root)).outcome, 'rejected_at_checkpoint')
  assert.deepEqual([(await task(child.id)).state, (await task(child.id)).outcome_reason], ['completed', 'parent_ended'])
})
must(['H29-children', 'H37-ends'], 'an active task below a child that is accepted ends with the child', async () => {
  const on = await stage('delegable')
  await enlist(on, 'third')
  const { refs, call, task } = on
  const root = refs['task'].id
  const child = (await call('devin', 'ownership.delegate', { task_id: root, to: 'agent_robin', spec, delegable: true })).child.id
  await call('robin', 'task.start', { task_id: child })
  const below = (await call('robin', 'ownership.delegate', { task_id: child, to: 'agent_third', spec })).child.id
  const { artifact } = await call('robin', 'artifact.commit', { task_id: child, ...inline() })
  await call('alice', 'review.submit', { task_id: child, artifact_id: artifact.id, verdict: 'approved' })
  assert.deepEqual([(await task(child)).outcome, (await task(below)).outcome_reason], ['accepted', 'parent_ended'])
  assert.equal((await task(root)).state, 'in_progress')
})
must('H29-pending', 'a task that has changed hands as often as it may can still be ended', async () => {
  const { refs, call } = await stage('in_progress')
  const task_id = refs['task'].id
  await call('admin', 'ownership.transfer', { task_id, to: 'agent_robin' })
  let last: any = null
  for (let i = 0; last === null; i++) {
    const as = i % 2 === 0 ? 'agent_devin' : 'agent_robin'
    last = await call('admin', 'ownership.transfer', { task_id, to: as }).then(
      () => null,
      (error: unknown) => error,
    )
  }
  assert.equal(last.code, 'QUOTA_EXCEEDED')
  assert.equal((await call('alice', 'task.cancel', { task_id })).task.outcome, 'cancelled')
})
must('LOOPS-5', 'cancelling checks who calls', async () => {
  const { refs, refused } = await stage('in_progress')
  for (const as of ['devin', 'rita', 'owner', 'admin', 'project'])
    await refused('UNAUTHORIZED', as, 'task.cancel', { task_id: refs['task'].id })
  for (const as of ['bob', 'robin', 'mallory', 'spy']) await refused('NOT_FOUND', as, 'task.cancel', { task_id: refs['task'].id })
})
