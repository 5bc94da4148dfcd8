// Continuous control: the person interrupts, steers, takes over, allows beforehand, and edits what the agent continues from.
import assert from 'node:assert/strict'
import { HOUR_MS, linesOf, stage, type Stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions
const inline = (text = 'x') => ({ payload: { kind: 'inline', uri: `data:,${text}` } })

must('C-interrupt', 'an interrupt stops the agent, says so twice in the record, and waits for ever', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  const facts = (await linesOf(on.world)).length
  const { task, checkpoint } = await on.call('alice', 'task.interrupt', { task_id, reason: 'Wrong branch.' })
  assert.deepEqual([task.state, task.pending_checkpoint, task.ownership.assignee], ['blocked', checkpoint.id, 'user_alice'])
  assert.deepEqual(
    [checkpoint.kind, checkpoint.prompt, checkpoint.raised_by, checkpoint.expires_at, checkpoint.takeover],
    ['interrupt', 'Wrong branch.', 'user_alice', null, false],
  )
  const made = (await linesOf(on.world)).slice(facts)
  assert.deepEqual(
    made.map((line) => [line.action, line.actor]),
    [
      ['collaboration/task.interrupted', 'user_alice'],
      ['collaboration/task.checkpoint.raised', 'user_alice'],
      ['execution/request.created', 'agent_system'],
      ['delegation/run.blocked', 'agent_system'],
    ],
  )
  assert.equal(made[1].cause, made[0].seq)
  await on.refused('PRECONDITION_FAILED', 'devin', 'artifact.commit', { task_id, ...inline() })
  on.world.advance(10_000 * HOUR_MS)
  assert.deepEqual(await on.ring(), [])
  const answer = { checkpoint_id: checkpoint.id, action: 'provide', input: 'Use main.' }
  assert.equal((await on.call('alice', 'checkpoint.resolve', answer)).task.state, 'in_progress')
})
must('C-interrupt', 'no agent interrupts, and none raises that kind', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  for (const as of ['devin', 'rita', 'owner', 'admin', 'system']) await on.refused('UNAUTHORIZED', as, 'task.interrupt', { task_id })
  await on.refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { task_id, kind: 'interrupt', prompt: 'Stop me.' })
})

must('C-amend', 'amendments are a log: each stays as it was, the newest is last, and nothing else moves', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  const before = await on.task()
  const made = []
  for (const [intent, text] of [
    ['redirect', 'The other file.'],
    ['clarify', 'Both tests.'],
    ['constrain', 'No new package.'],
    ['abort_hint', 'Wrap up.'],
  ])
    made.push((await on.call('alice', 'task.amend', { task_id, text, intent })).amendment)
  const first = await on.call('devin', 'task.steering', { task_id, limit: 3 })
  const rest = await on.call('devin', 'task.steering', { task_id, limit: 3, cursor: first.next_cursor })
  assert.deepEqual([...first.items, ...rest.items], made)
  assert.equal(rest.next_cursor, null)
  assert.deepEqual(await on.task(), { ...before, amendments: 4, revision: before.revision + 4 })
  assert.equal((await on.actions()).filter((action) => action === 'task.amended').length, 4)
  await on.refused('INVALID_SPEC', 'alice', 'task.amend', { task_id, text: 'x', intent: 'order' })
})
must('C-amend', 'an ended task is not amended, and a blocked one is', async () => {
  for (const [scene, code] of [
    ['blocked', null],
    ['created', 'PRECONDITION_FAILED'],
    ['review_ready', 'PRECONDITION_FAILED'],
    ['completed', 'PRECONDITION_FAILED'],
    ['rejected', 'PRECONDITION_FAILED'],
  ] as const) {
    const on = await stage(scene)
    const input = { task_id: on.refs['task'].id, text: 'Also this.', intent: 'clarify' }
    if (code === null) await on.call('alice', 'task.amend', input)
    else await on.refused(code, 'alice', 'task.amend', input)
  }
})

must('H24-takeover', 'the person works while the agent waits, and gives the task back', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  const { task, checkpoint } = await on.call('alice', 'task.takeover', { task_id })
  assert.deepEqual([task.state, task.executor, checkpoint.kind, checkpoint.takeover], ['blocked', 'agent_devin', 'interrupt', true])
  await on.refused('PRECONDITION_FAILED', 'devin', 'checkpoint.raise', { task_id, kind: 'input', prompt: 'And me?' })
  await on.refused('UNAUTHORIZED', 'devin', 'task.return', { task_id })
  const done = await on.call('alice', 'task.return', { task_id, comment: 'Fixed the config.' })
  assert.deepEqual(
    [done.task.state, done.task.ownership.assignee, done.checkpoint.state, done.checkpoint.resolution.comment],
    ['in_progress', 'agent_devin', 'resolved', 'Fixed the config.'],
  )
  assert.deepEqual((await on.actions()).slice(-4), [
    'task.taken_over',
    'task.checkpoint.raised',
    'task.checkpoint.resolved',
    'task.returned',
  ])
  await on.refused('PRECONDITION_FAILED', 'alice', 'task.return', { task_id })
})
must('H24-takeover', 'what was merely interrupted or asked is not returned', async () => {
  for (const scene of ['blocked', 'in_progress']) {
    const on = await stage(scene)
    const task_id = on.refs['task'].id
    if (scene === 'in_progress') await on.call('alice', 'task.interrupt', { task_id })
    await on.refused('PRECONDITION_FAILED', 'alice', 'task.return', { task_id })
  }
})

must('H24-edit', 'a person edits while the task waits; the agent resumes with the edited version and cannot commit meanwhile', async () => {
  const on = await stage('blocked_with_artifact')
  const [task_id, artifact_id] = [on.refs['task'].id, on.refs['artifact'].id]
  const next = { task_id, artifact_id, parent_version: 'v1', ...inline('edited') }
  await on.refused('PRECONDITION_FAILED', 'devin', 'artifact.commit', next)
  await on.refused('UNAUTHORIZED', 'devin', 'artifact.edit', next)
  const { artifact, task } = await on.call('alice', 'artifact.edit', next)
  assert.deepEqual(
    [artifact.version, artifact.parent_version, artifact.provenance.actor, task.state],
    ['v2', 'v1', 'user_alice', 'blocked'],
  )
  await on.refused('CONFLICT', 'rita', 'artifact.edit', next)
  const resolving = { checkpoint_id: on.refs['checkpoint'].id, action: 'approve' }
  const other = { artifact_id, version: 'v3' }
  await on.refused('NOT_FOUND', 'alice', 'checkpoint.resolve', { ...resolving, edited_artifact_ref: other })
  await on.refused('INVALID_SPEC', 'alice', 'checkpoint.resolve', {
    ...resolving,
    action: 'reject',
    edited_artifact_ref: { artifact_id, version: 'v2' },
  })
  const done = await on.call('alice', 'checkpoint.resolve', { ...resolving, edited_artifact_ref: { artifact_id, version: 'v2' } })
  assert.deepEqual(done.checkpoint.resolution.edited_artifact_ref, { artifact_id, version: 'v2' })
})

const grant = (on: Stage, more: object): Promise<any> =>
  on.call('alice', 'grant.add', { task_id: on.refs['task'].id, scope: 'deploy:staging', decision: 'allow', until: 'task', ...more })
const use = async (on: Stage, scope = 'deploy:staging', as = 'devin'): Promise<string> =>
  (await on.call(as, 'grant.use', { task_id: on.refs['task'].id, scope })).decision

must('H24-grants', 'the last allow for a scope wins, a narrower scope before a family, and what nobody granted is asked', async () => {
  const on = await stage('in_progress')
  assert.equal(await use(on), 'ask')
  await grant(on, { scope: 'deploy:*' })
  assert.deepEqual([await use(on), await use(on, 'deploy:live')], ['allow', 'allow'])
  await grant(on, {})
  assert.equal(await use(on), 'allow')
  await grant(on, { decision: 'deny' })
  assert.equal(await use(on), 'deny')
  const { items } = await on.call('alice', 'grant.list', { task_id: on.refs['task'].id })
  assert.deepEqual(
    items.map(({ scope, decision, used, granted_by }: any) => [scope, decision, used, granted_by]),
    [
      ['deploy:*', 'allow', 2, 'user_alice'],
      ['deploy:staging', 'allow', 1, 'user_alice'],
      ['deploy:staging', 'deny', 1, 'user_alice'],
    ],
  )
})
must('H24-grants', 'each use stands in the record with the grant as its basis', async () => {
  const on = await stage('granted')
  await use(on)
  const event = (await on.events()).at(-1)
  assert.deepEqual(
    [event.action, event.actor, event.behalf, event.basis],
    ['grant.used', 'agent_devin', 'user_alice', { kind: 'grant', id: on.refs['grant'].id }],
  )
})
must('H24-grants', 'a grant ends with its uses, its time, its run, or when it is revoked', async () => {
  const on = await stage('in_progress')
  await grant(on, { uses: 2 })
  assert.deepEqual([await use(on), await use(on), await use(on)], ['allow', 'allow', 'ask'])
  await grant(on, { until: new Date(on.world.kernel.now() + HOUR_MS).toISOString() })
  assert.equal(await use(on), 'allow')
  on.world.advance(HOUR_MS)
  assert.equal(await use(on), 'ask')
  const given = (await grant(on, {})).grant
  assert.equal(await use(on), 'allow')
  await on.refused('UNAUTHORIZED', 'devin', 'grant.revoke', { grant_id: given.id })
  await on.call('alice', 'grant.revoke', { grant_id: given.id })
  assert.equal(await use(on), 'ask')
  await on.refused('PRECONDITION_FAILED', 'alice', 'grant.revoke', { grant_id: given.id })
  await grant(on, { until: 'session' })
  assert.equal(await use(on), 'allow')
  await on.call('admin', 'ownership.transfer', { task_id: on.refs['task'].id, to: 'agent_robin' })
  assert.equal(await use(on, 'deploy:staging', 'robin'), 'ask')
})
must(
  'H24-grants',
  'nobody grants more than they have: agents and reviewers nothing, a substitute no longer than they are one',
  async () => {
    const on = await stage('in_progress')
    const input = { task_id: on.refs['task'].id, scope: 'shell:read', decision: 'allow', until: 'task' }
    for (const as of ['devin', 'rita', 'owner', 'admin']) await on.refused('UNAUTHORIZED', as, 'grant.add', input)
    await on.refused('UNAUTHORIZED', 'deputy', 'grant.add', input)
    await on.call('deputy', 'grant.add', { ...input, until: 'session' })
    for (const scope of ['', '**', 'A b', 'a:', 'a:*b', 'a:*:b:'.repeat(9)])
      await on.refused('INVALID_SPEC', 'alice', 'grant.add', { ...input, scope })
    await on.refused('INVALID_SPEC', 'alice', 'grant.add', { ...input, until: '2020-01-01T00:00:00Z' })
  },
)

const proposed_actions = ['read', 'write', 'drop'].map((id) => ({ id, kind: 'sql', summary: `${id} the table`, risk: 'high' }))
async function asking(more: object): Promise<{ on: Stage; answer(input: object): Promise<any>; refuse(input: object): Promise<unknown> }> {
  const on = await stage('in_progress')
  const asked = { task_id: on.refs['task'].id, kind: 'approval', prompt: 'May I?', ...more }
  const { checkpoint } = await on.call('devin', 'checkpoint.raise', asked)
  const answering = { checkpoint_id: checkpoint.id, action: 'approve' }
  return {
    on,
    answer: async (input) => (await on.call('alice', 'checkpoint.resolve', { ...answering, ...input })).checkpoint.resolution,
    refuse: (input) => on.refused('INVALID_SPEC', 'alice', 'checkpoint.resolve', { ...answering, ...input }),
  }
}

must('C-actions', 'a part may be approved: what is not named is denied, a plain approve approves all', async () => {
  for (const [given, approved, denied] of [
    [{}, ['read', 'write', 'drop'], []],
    [{ approved_actions: ['read'] }, ['read'], ['write', 'drop']],
    [{ denied_actions: ['drop'] }, [], ['read', 'write', 'drop']],
    [{ approved_actions: ['read'], denied_actions: ['drop'] }, ['read'], ['write', 'drop']],
    [{ approved_actions: [] }, [], ['read', 'write', 'drop']],
    [{ action: 'reject' }, [], ['read', 'write', 'drop']],
  ] as const) {
    const resolution = await (await asking({ proposed_actions })).answer(given)
    assert.deepEqual([resolution.approved_actions, resolution.denied_actions], [approved, denied], JSON.stringify(given))
  }
})
must('C-actions', 'the receipt says rejected where no action was approved, and names what was approved and denied', async () => {
  for (const [given, result, reason] of [
    [{}, 'approved', null],
    [{ comment: 'Fine.' }, 'approved', 'Fine.'],
    [{ approved_actions: ['read'] }, 'approved', 'Approved actions: "read". Denied actions: "write", "drop".'],
    [
      { approved_actions: ['read', 'write'], comment: 'Keep it.' },
      'approved',
      'Approved actions: "read", "write". Denied actions: "drop".\nKeep it.',
    ],
    [{ approved_actions: [] }, 'rejected', 'Approved actions: none. Denied actions: "read", "write", "drop".'],
  ] as const) {
    const { on, answer } = await asking({ proposed_actions })
    const { pending_checkpoint } = await on.task()
    await answer(given)
    const { request, receipt } = await on.call('alice', 'execution/request.get', {
      request_id: `hxp_${pending_checkpoint.slice('ckpt_'.length)}`,
    })
    assert.deepEqual([request.status, receipt.result, receipt.reason ?? null], ['completed', result, reason])
    assert.equal((await on.task()).state, 'in_progress')
  }
})
must('C-actions', 'what was not proposed, or is both approved and denied, is refused', async () => {
  const { refuse, on } = await asking({ proposed_actions })
  await refuse({ approved_actions: ['shred'] })
  await refuse({ denied_actions: ['shred'] })
  await refuse({ approved_actions: ['read'], denied_actions: ['read'] })
  await refuse({ action: 'reject', approved_actions: ['read'] })
  assert.equal((await on.task()).state, 'blocked')
  const twice = [proposed_actions[0], proposed_actions[0]]
  const fresh = await stage('in_progress')
  const asked = { task_id: fresh.refs['task'].id, kind: 'approval', prompt: 'May I?', proposed_actions: twice }
  await fresh.refused('INVALID_SPEC', 'devin', 'checkpoint.raise', asked)
})

const state = { branch: 'main', steps: ['a', 'b'], dry: true }
const state_schema = {
  type: 'object',
  required: ['branch'],
  properties: { branch: { type: 'string', pattern: '^[a-z]+$' }, dry: { type: 'boolean' } },
}
must('C-patch', 'the state is patched as RFC 7396 says, and the agent reads it in the resolution', async () => {
  const { answer } = await asking({ state, state_schema })
  const resolution = await answer({ state_patch: { branch: 'fix', dry: null, steps: ['c'] } })
  assert.deepEqual(resolution.state, { branch: 'fix', steps: ['c'] })
})
must('C-patch', 'a patch that breaks the schema, or has nothing to patch, is refused', async () => {
  const { refuse } = await asking({ state, state_schema })
  await refuse({ state_patch: { branch: null } })
  await refuse({ state_patch: { branch: 'Not Like This' } })
  await refuse({ state_patch: 'main' })
  await refuse({ action: 'reject', state_patch: { branch: 'fix' } })
  await (await asking({})).refuse({ state_patch: { branch: 'fix' } })
  const fresh = await stage('in_progress')
  const asked = { task_id: fresh.refs['task'].id, kind: 'approval', prompt: 'May I?', state_schema }
  await fresh.refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { ...asked, state: { branch: 7 } })
  await fresh.refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { ...asked, state, state_schema: { type: 'no such type' } })
})
must('C-patch', 'a hostile pattern takes no time', async () => {
  const { refuse } = await asking({ state: 'a', state_schema: { type: 'string', pattern: '^(a+)+$' } })
  const began = performance.now()
  await refuse({ state_patch: `${'a'.repeat(5_000)}!` })
  assert.ok(performance.now() - began < 2_000)
})

async function planning(autonomy: string): Promise<{ on: Stage; task_id: string; commit(more?: object): Promise<any> }> {
  const on = await stage()
  const { task } = await on.call('alice', 'task.create', { spec: { goal: 'Fix it', constraints: { autonomy } } })
  await on.call('alice', 'task.assign', { task_id: task.id, assignee: 'agent_devin' })
  await on.call('devin', 'task.start', { task_id: task.id })
  return { on, task_id: task.id, commit: (more = {}) => on.call('devin', 'artifact.commit', { task_id: task.id, ...inline(), ...more }) }
}
must(['C-plan', 'D8-plan'], 'nothing is delivered before a plan was approved; a plan that is sent back approves nothing', async () => {
  const { on, task_id, commit } = await planning('plan_then_implement')
  await on.refused('PRECONDITION_FAILED', 'devin', 'artifact.commit', { task_id, ...inline() })
  await on.refused('PRECONDITION_FAILED', 'devin', 'artifact.commit', { task_id, ...inline(), final: false })
  const { artifact } = await commit({ kind: 'plan' })
  const review = { task_id, artifact_id: artifact.id }
  const sentBack = await on.call('alice', 'review.submit', { ...review, verdict: 'changes_requested', requested_changes: ['shorter'] })
  assert.deepEqual([sentBack.task.state, sentBack.task.plan_approved, sentBack.review.kind], ['in_progress', false, 'plan'])
  await on.refused('PRECONDITION_FAILED', 'devin', 'artifact.commit', { task_id, ...inline() })
  await commit({ kind: 'plan', artifact_id: artifact.id, parent_version: 'v1' })
  const approved = await on.call('alice', 'review.submit', { ...review, verdict: 'approved', kind: 'plan' })
  assert.deepEqual([approved.task.state, approved.task.plan_approved, approved.task.outcome], ['in_progress', true, null])
  const delivered = await commit()
  assert.equal(delivered.task.state, 'review_ready')
  const done = await on.call('alice', 'review.submit', { task_id, artifact_id: delivered.artifact.id, verdict: 'approved' })
  assert.equal(done.review.kind, 'deliverable')
  assert.equal((await on.task(task_id)).outcome, 'accepted')
})
must('H32', 'a rejected plan is refused, and so is a review that takes a plan for a deliverable', async () => {
  const { on, task_id, commit } = await planning('autonomous')
  const { artifact } = await commit({ kind: 'plan' })
  const review = { task_id, artifact_id: artifact.id }
  await on.refused('INVALID_SPEC', 'alice', 'review.submit', { ...review, verdict: 'rejected' })
  await on.refused('INVALID_SPEC', 'alice', 'review.submit', { ...review, verdict: 'approved', kind: 'deliverable' })
  assert.equal((await on.task(task_id)).state, 'review_ready')
})
must('D8-read_only', 'a task that is read only takes no commit, a plan neither', async () => {
  const { on, task_id } = await planning('read_only')
  for (const more of [{}, { kind: 'plan' }, { final: false }])
    await on.refused('PRECONDITION_FAILED', 'devin', 'artifact.commit', { task_id, ...inline(), ...more })
})
