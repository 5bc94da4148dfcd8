// HACP 0.1.0: errors, atomicity, and bad input: each is refused with its code, and every document stays as it was.
import assert from 'node:assert/strict'
import { createWorld, stateHash } from '../support/in-process/world.ts'
import { HOUR_MS, linesOf, raced, refusalOf, stage } from '../support/in-process/stage.ts'
import { memoryStore } from '#stores/memory.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { hacp } from './hacp-cited.ts'

const { must } = hacp
const spec = { goal: 'Fix the login bug' }
const inline = (text: string) => ({ kind: 'inline', uri: `data:,${text}` })
const anId = (prefix: string): string => `${prefix}_01J0K7M4N8Y7Q2W3E4R5T6Y7V8`

must(['H-ERR-01', 'H-ERR-10'], 'a spec that is missing, empty, too long or of the wrong shape is INVALID_SPEC', async () => {
  const { refused } = await stage()
  const wrong: unknown[] = [undefined, null, 'text', {}, { goal: '' }, { goal: '  ' }, { goal: 7 }, { goal: 'x'.repeat(10_001) }]
  wrong.push(
    { goal: 'x', acceptance_criteria: 'tests pass' },
    { goal: 'x', acceptance_criteria: [''] },
    { goal: 'x', inputs: [{ kind: 'file', id: 'x' }] },
  )
  wrong.push({ goal: 'x', constraints: { max_duration: '2 hours' } }, { goal: 'x', constraints: { max_duration: 'P1M' } })
  wrong.push({ goal: 'x', constraints: { max_duration: 'PT0S' } }, { goal: 'x', constraints: { on_expiry: ['approve'] } })
  for (const one of wrong) await refused('INVALID_SPEC', 'alice', 'task.create', { spec: one })
})
must(['H-ERR-01', 'H-ERR-10'], 'a question or a requested change of blanks alone is INVALID_SPEC, as such a goal is', async () => {
  const asking = await stage('in_progress')
  for (const prompt of [' ', '\n\t\u00a0'])
    await asking.refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { task_id: asking.refs['task'].id, kind: 'approval', prompt })
  const { refs, refused } = await stage('review_ready')
  const of = { task_id: refs['task'].id, artifact_id: refs['artifact'].id }
  for (const verdict of ['changes_requested', 'approved'])
    for (const requested_changes of [['   '], ['Name it.', '\n']]) {
      const { details } = await refused('INVALID_SPEC', 'alice', 'review.submit', { ...of, verdict, requested_changes })
      assert.deepEqual(details, { field: `requested_changes.${requested_changes.length - 1}` })
    }
})
must('H-ERR-02', 'PRECONDITION_FAILED: a state that does not allow it', async () => {
  const ended = await stage('completed')
  await ended.refused('PRECONDITION_FAILED', 'alice', 'task.cancel', { task_id: ended.refs['task'].id })
})
must('H-ERR-03', 'UNAUTHORIZED: who sees it but may not', async () => {
  const { refs, refused } = await stage('in_progress')
  await refused('UNAUTHORIZED', 'rita', 'task.cancel', { task_id: refs['task'].id })
})
must('H-ERR-04', 'NOT_FOUND: what is not there, and what is not yours, in the same words', async () => {
  const { refs, refused } = await stage('blocked')
  const { task, checkpoint } = refs
  const pairs = [
    ['task.get', 'task_id', task.id, anId('task')],
    ['task.cancel', 'task_id', task.id, anId('task')],
    ['checkpoint.get', 'checkpoint_id', checkpoint.id, anId('ckpt')],
    ['audit.replay', 'task_id', task.id, anId('task')],
  ] as const
  for (const [operation, field, foreign, random] of pairs) {
    const hidden = await refused('NOT_FOUND', 'mallory', operation, { [field]: foreign })
    const missing = await refused('NOT_FOUND', 'mallory', operation, { [field]: random })
    assert.equal(hidden.message.replace(foreign, 'ID'), missing.message.replace(random, 'ID'))
    assert.deepEqual(hidden.details, missing.details)
  }
})
must('H-ERR-05', 'CONFLICT: two answers at once, of which one wins; a stale version; an expected version that moved', async () => {
  const { refs, call, refused } = await stage('completed')
  const write = { task_id: refs['task'].id, key: 'k', value: 1, expected_version: 0 }
  const both = ['devin', 'alice'].map((as) => call(as, 'ledger.write', write))
  assert.deepEqual(await raced(both, () => 'written'), ['CONFLICT', 'written'])
  await refused('CONFLICT', 'devin', 'ledger.write', write)
})
must('H-ERR-06', 'IMMUTABLE_VIOLATION: a spec, a version or a review that would change', async () => {
  const { refs, refused } = await stage('created')
  await refused('IMMUTABLE_VIOLATION', 'alice', 'task.cancel', { task_id: refs['task'].id, spec })
})
must('H-ERR-07', 'DEADLINE_EXCEEDED: the agent of a task whose deadline has passed', async () => {
  const { world, call, refused } = await stage()
  const deadline = new Date(world.kernel.now() + HOUR_MS).toISOString()
  const { task } = await call('alice', 'task.create', { spec, deadline })
  await call('alice', 'task.assign', { task_id: task.id, assignee: 'agent_devin' })
  world.advance(HOUR_MS)
  await refused('DEADLINE_EXCEEDED', 'devin', 'task.start', { task_id: task.id })
})
must('H-ERR-08', 'CHECKPOINT_EXPIRED: an answer to a checkpoint that has expired', async () => {
  const { refs, call, refused } = await stage('blocked')
  const checkpoint_id = refs['checkpoint'].id
  await call('admin', 'checkpoint.expire', { checkpoint_id })
  await refused('CHECKPOINT_EXPIRED', 'alice', 'checkpoint.resolve', { checkpoint_id, action: 'approve' })
  await refused('CHECKPOINT_EXPIRED', 'system', 'checkpoint.expire', { checkpoint_id })
})

must('H-ERR-09', 'a disk that fails in the middle leaves no state without its owner and no state without its event', async () => {
  let fails = false
  const store = memoryStore({
    onWrite(_, apply) {
      if (fails) throw Object.assign(new Error('no space left'), { failure: 'full' })
      apply()
    },
  })
  const world = await createWorld({ store })
  const refs = await world.play(collaboration.scenes['in_progress']!)
  const [documents, facts] = [await stateHash(store), (await linesOf(world)).length]
  fails = true
  const raising = { task_id: refs['task'].id, kind: 'approval', prompt: 'Go?' }
  assert.equal((await refusalOf(world.call('devin', 'collaboration/checkpoint.raise', raising))).code, 'UNAVAILABLE')
  fails = false
  assert.deepEqual([await stateHash(store), (await linesOf(world)).length], [documents, facts])
  const { task } = await world.call('devin', 'collaboration/checkpoint.raise', raising)
  assert.deepEqual(
    [task.state, task.ownership.assignee, (await linesOf(world)).length],
    ['blocked', 'user_alice', facts + 3],
    'the event, that the run is blocked, and the item in the inbox',
  )
})
must('H-ERR-09', 'a review that completes a task is seen whole or not at all: one group, one version of the truth', async () => {
  const groups: string[][] = []
  const world = await createWorld({ store: memoryStore() })
  const refs = await world.play(collaboration.scenes['review_ready']!)
  world.kernel.tail.follow((facts) => groups.push(facts.map((sealed) => sealed.fact.action)))
  await world.call('alice', 'collaboration/review.submit', {
    task_id: refs['task'].id,
    artifact_id: refs['artifact'].id,
    verdict: 'approved',
  })
  assert.deepEqual(groups, [['collaboration/review.submitted', 'execution/request.completed', 'collaboration/task.completed']])
})

must('H-ERR-10', 'an agent that resolves, reviews, or creates with itself as principal is UNAUTHORIZED', async () => {
  const blocked = await stage('blocked')
  await blocked.refused('UNAUTHORIZED', 'devin', 'checkpoint.resolve', { checkpoint_id: blocked.refs['checkpoint'].id, action: 'approve' })
  const ready = await stage('review_ready')
  const of = { task_id: ready.refs['task'].id, artifact_id: ready.refs['artifact'].id }
  await ready.refused('UNAUTHORIZED', 'devin', 'review.submit', { ...of, verdict: 'approved' })
  await ready.refused('UNAUTHORIZED', 'devin', 'review.submit', { ...of, verdict: 'approved', reviewer: 'agent_devin' })
  await ready.refused('UNAUTHORIZED', 'devin', 'task.create', { spec, principal: 'agent_devin' })
  await ready.refused('UNAUTHORIZED', 'devin', 'task.create', { spec, ownership: { principal: 'agent_devin' } })
})
must('H-ERR-10', 'a body that names another actor is UNAUTHORIZED, under whichever name', async () => {
  const blocked = await stage('blocked')
  const answer = { checkpoint_id: blocked.refs['checkpoint'].id, action: 'approve' }
  for (const lie of [
    { by: 'user_rita' },
    { resolved_by: 'user_rita' },
    { resolution: { by: 'user_rita' } },
    { actor: 'user_rita' },
    { user_id: 'user_rita' },
  ])
    await blocked.refused('UNAUTHORIZED', 'alice', 'checkpoint.resolve', { ...answer, ...lie })
  await blocked.refused('UNAUTHORIZED', 'devin', 'checkpoint.resolve', { ...answer, by: 'user_alice' })
  const ready = await stage('review_ready')
  const review = { task_id: ready.refs['task'].id, artifact_id: ready.refs['artifact'].id, verdict: 'approved' }
  await ready.refused('UNAUTHORIZED', 'rita', 'review.submit', { ...review, reviewer: 'user_alice' })
  await ready.refused('UNAUTHORIZED', 'bob', 'task.create', { spec, principal: 'user_alice' })
  const working = await stage('in_progress')
  const commit = { task_id: working.refs['task'].id, payload: inline('x') }
  await working.refused('UNAUTHORIZED', 'devin', 'artifact.commit', { ...commit, provenance: { produced_by: anId('task') } })
  await working.refused('UNAUTHORIZED', 'devin', 'artifact.commit', { ...commit, agent_id: 'agent_robin' })
})
must('H-ERR-10', "a stranger's task is NOT_FOUND for every operation on it", async () => {
  const { refs, refused } = await stage('review_ready')
  const task_id = refs['task'].id
  const artifact_id = refs['artifact'].id
  for (const as of ['mallory', 'bob', 'robin', 'spy']) {
    await refused('NOT_FOUND', as, 'task.cancel', { task_id })
    await refused('NOT_FOUND', as, 'review.submit', { task_id, artifact_id, verdict: 'approved' })
    await refused('NOT_FOUND', as, 'artifact.commit', { task_id, payload: inline('x') })
    await refused('NOT_FOUND', as, 'artifact.get', { artifact_id })
    await refused('NOT_FOUND', as, 'ledger.write', { task_id, key: 'k', value: 1 })
  }
})
must('H-ERR-10', 'a choice that is not among the options, or none, is INVALID_SPEC', async () => {
  const { refs, call, refused } = await stage('in_progress')
  const raising = { task_id: refs['task'].id, kind: 'choice', prompt: 'Which?' }
  await refused('INVALID_SPEC', 'devin', 'checkpoint.raise', raising)
  await refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { ...raising, options: [] })
  const options = [{ id: 'a', label: 'A', risk: 'low' }]
  await refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { ...raising, options: [...options, ...options] })
  const { checkpoint } = await call('devin', 'checkpoint.raise', { ...raising, options })
  for (const choice of [{ choice: 'b' }, { choice: 'A' }, { choice: '' }, {}])
    await refused('INVALID_SPEC', 'alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'choose', ...choice })
})
must('H-ERR-10', 'a stale version is CONFLICT and an unknown one NOT_FOUND', async () => {
  const { refs, call, refused } = await stage('in_progress')
  const task_id = refs['task'].id
  const { artifact } = await call('devin', 'artifact.commit', { task_id, payload: inline('one'), final: false })
  await call('devin', 'artifact.commit', { task_id, artifact_id: artifact.id, parent_version: 'v1', payload: inline('two') })
  const review = { task_id, artifact_id: artifact.id, verdict: 'approved' }
  await refused('CONFLICT', 'alice', 'review.submit', { ...review, artifact_version: 'v1' })
  await refused('NOT_FOUND', 'alice', 'review.submit', { ...review, artifact_version: 'v3' })
  await refused('NOT_FOUND', 'alice', 'review.submit', { ...review, artifact_id: anId('art') })
  await refused('NOT_FOUND', 'alice', 'artifact.get', { artifact_id: artifact.id, version: 'v3' })
})
must('H-ERR-10', 'a verdict, an action, a kind or a via that nobody knows is INVALID_SPEC', async () => {
  const ready = await stage('review_ready')
  const { task, artifact } = ready.refs
  for (const verdict of ['ok', 'APPROVED', '', null, 1])
    await ready.refused('INVALID_SPEC', 'alice', 'review.submit', { task_id: task.id, artifact_id: artifact.id, verdict })
  const blocked = await stage('blocked')
  for (const action of ['yes', 'Approve', '', null, ['approve']])
    await blocked.refused('INVALID_SPEC', 'alice', 'checkpoint.resolve', { checkpoint_id: blocked.refs['checkpoint'].id, action })
  const working = await stage('in_progress')
  for (const kind of ['poll', 'Approval', '', null])
    await working.refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { task_id: working.refs['task'].id, kind, prompt: 'Go?' })
  for (const via of ['gift', '', null])
    await working.refused('INVALID_SPEC', 'admin', 'ownership.transfer', { task_id: working.refs['task'].id, to: 'agent_robin', via })
})
must('H-ERR-10', 'an idempotency key that came with another body is CONFLICT; with the same one it answers the same, once', async () => {
  const { world, call, refused } = await stage()
  const first = await call('alice', 'task.create', { spec }, 'key-1')
  const facts = (await linesOf(world)).length
  assert.deepEqual(await call('alice', 'task.create', { spec }, 'key-1'), first)
  assert.equal((await linesOf(world)).length, facts)
  await refused('CONFLICT', 'alice', 'task.create', { spec: { goal: 'Another' } }, 'key-1')
  await refused('CONFLICT', 'alice', 'task.cancel', { task_id: first.task.id }, 'key-1')
  assert.notEqual((await call('bob', 'task.create', { spec }, 'key-1')).task.id, first.task.id, 'a key is of one actor')
})
must('H-ERR-10', 'a deadline or an expiry in the past, too far away, or that is no time is INVALID_SPEC', async () => {
  const { world, refs, refused } = await stage('in_progress')
  const now = new Date(world.kernel.now()).toISOString()
  const task_id = refs['task'].id
  for (const time of [now, '2025-12-31T23:59:59Z', '2026-02-30T00:00:00Z', '2036-06-01', 'tomorrow', '2099-01-01T00:00:00Z', '']) {
    await refused('INVALID_SPEC', 'alice', 'task.create', { spec, deadline: time })
    await refused('INVALID_SPEC', 'alice', 'task.extend', { task_id, deadline: time })
    await refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?', expires_at: time })
  }
})
