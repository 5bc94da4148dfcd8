// Decisions about grants: a deny against an allow (H35), how long a session is (H42), and actions that were approved one by one (D8).
import assert from 'node:assert/strict'
import { capability, capabilityWorld, local, type CapabilityWorld } from '../support/in-process/capability-world.ts'
import { acting, autonomy, runUnder } from '../support/in-process/task-limits.ts'
import { runOf } from '../support/in-process/runs.ts'
import { HOUR_MS, stage, type Stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions

const grant = async (on: Stage, scope: string, decision: string, more: object = {}): Promise<any> =>
  (await on.call('alice', 'grant.add', { task_id: on.refs['task'].id, scope, decision, until: 'task', ...more })).grant
const use = async (on: Stage, scope: string, as = 'devin'): Promise<string> =>
  (await on.call(as, 'grant.use', { task_id: on.refs['task'].id, scope })).decision

must('H35-deny', 'a deny of a scope or of its family wins over every allow, before and after it', async () => {
  for (const denied of ['rm:all', 'rm:*']) {
    const on = await stage('in_progress')
    await grant(on, 'rm:*', 'allow')
    await grant(on, 'rm:all', 'allow')
    const { id } = await grant(on, denied, 'deny')
    await grant(on, 'rm:all', 'allow')
    assert.deepEqual([await use(on, 'rm:all'), await use(on, 'rm:all')], ['deny', 'deny'], 'it is not used up')
    await on.call('alice', 'grant.revoke', { grant_id: id })
    assert.equal(await use(on, 'rm:all'), 'allow')
  }
})
must('H35-deny', 'each of several ends for itself, by its time or by its revocation', async () => {
  const on = await stage('in_progress')
  await grant(on, 'rm:all', 'allow')
  await grant(on, 'rm:all', 'deny', { until: new Date(on.world.kernel.now() + HOUR_MS).toISOString() })
  const { id } = await grant(on, 'rm:all', 'deny')
  await on.call('alice', 'grant.revoke', { grant_id: id })
  assert.equal(await use(on, 'rm:all'), 'deny')
  on.world.advance(2 * HOUR_MS)
  assert.equal(await use(on, 'rm:all'), 'allow')
})
must('H35-deny', 'it takes no number of uses', async () => {
  const on = await stage('in_progress')
  const input = { task_id: on.refs['task'].id, scope: 'rm:all', decision: 'deny', until: 'task', uses: 1 }
  const { details } = await on.refused('INVALID_SPEC', 'alice', 'grant.add', input)
  assert.deepEqual(details, { field: 'uses' })
})

const allow = (on: CapabilityWorld, task_id: string, scope: string, decision = 'allow'): Promise<any> =>
  on.world.call('alice', 'collaboration/grant.add', { task_id, scope, decision, until: 'task' })

for (const tier of ['autonomous', 'plan_then_implement', 'confirm_each_action']) {
  must('H35-invoke', `${tier}: what is denied by its name, its family or a permission does not run`, async () => {
    for (const denied of ['cap:src/Deploy', 'cap:*', 'deploy:staging', 'deploy:*']) {
      let ran = 0
      const deploy = capability('src/Deploy', () => ({ ran: ++ran }), { required_permissions: ['deploy:staging'] })
      const on = await capabilityWorld([local(deploy)])
      const { run_id, task_id } = await runUnder(on, autonomy(tier))
      const ref = { capability_id: 'cap:src/Deploy', version: '1.0.0' }
      const invoke = (): Promise<any> => on.world.call('devin', 'delegation/capability.invoke', { run_id, ref })
      await allow(on, task_id, 'deploy:staging')
      await allow(on, task_id, 'cap:src/Deploy')
      assert.equal((await invoke()).ok, true)
      await allow(on, task_id, denied, 'deny')
      const { error } = await invoke()
      assert.equal(error.code, 'PERMISSION_DENIED')
      assert.match(error.message, /stopped by a deny/)
      assert.equal(ran, 1)
      await on.close()
    }
  })
}
must('H35-below', 'what is denied does not run in a part of the task, nor in a part of that, until the deny is revoked', async () => {
  let ran = 0
  const on = await capabilityWorld([local(capability('search', () => ({ ran: ++ran })))])
  const { task_id } = await runUnder(on, {}, { delegable: true })
  const part = async (as: string, above: string, to: string): Promise<string> => {
    const input = { task_id: above, to: `agent_${to}`, spec: { goal: 'A part' }, delegable: true }
    const { child } = await on.world.call(as, 'collaboration/ownership.delegate', input)
    await on.world.call(to, 'collaboration/task.start', { task_id: child.id })
    return child.id as string
  }
  const child = await part('devin', task_id, 'robin')
  const below = (await on.world.call('alice', 'collaboration/task.create', { spec: { goal: 'More' }, parent_task: child })).task
    .id as string
  await on.world.call('alice', 'collaboration/task.assign', { task_id: below, assignee: 'agent_devin' })
  await on.world.call('devin', 'collaboration/task.start', { task_id: below })
  const ref = { capability_id: 'cap:search', version: '1.0.0' }
  const works = [
    ['robin', child],
    ['devin', below],
  ] as const
  const invoke = async (as: string, of: string): Promise<any> => {
    const { items } = await on.world.call('alice', 'delegation/run.list', { task_id: of })
    return on.world.call(as, 'delegation/capability.invoke', { run_id: items[0].id, ref })
  }
  for (const denied of ['cap:search', 'cap:*']) {
    const { grant: deny } = await allow(on, task_id, denied, 'deny')
    for (const [as, of] of works) {
      await allow(on, of, 'cap:search')
      const { ok, error } = await invoke(as, of)
      assert.deepEqual([ok, error?.code], [false, 'PERMISSION_DENIED'])
      const used = await on.world.call(as, 'collaboration/grant.use', { task_id: of, scope: 'cap:search' })
      assert.deepEqual(used, { decision: 'deny', grant: null }, 'the executor of a part need not be a reader of the task above')
    }
    await on.world.call('alice', 'collaboration/grant.revoke', { grant_id: deny.id })
  }
  assert.equal(ran, 0)
  for (const [as, of] of works) assert.equal((await invoke(as, of)).ok, true)
  await on.close()
})
must('H35-below', 'an allow holds for its own task alone, and a new attempt is free of what the rejected task denied', async () => {
  const on = await stage('delegable')
  const task_id = on.refs['task'].id as string
  await grant(on, 'rm:some', 'allow')
  const { child } = await on.call('devin', 'ownership.delegate', { task_id, to: 'agent_robin', spec: { goal: 'A part' } })
  await on.call('robin', 'task.start', { task_id: child.id })
  const decided = async (of: string, scope: string): Promise<string> =>
    (await on.call('robin', 'grant.use', { task_id: of, scope })).decision
  assert.equal(await decided(child.id, 'rm:some'), 'ask')
  await on.call('alice', 'grant.add', { task_id: child.id, scope: 'rm:all', decision: 'deny', until: 'task' })
  assert.equal(await decided(child.id, 'rm:all'), 'deny')
  const { artifact } = await on.call('robin', 'artifact.commit', { task_id: child.id, payload: { kind: 'inline', uri: 'data:,x' } })
  await on.call('alice', 'review.submit', { task_id: child.id, artifact_id: artifact.id, verdict: 'rejected' })
  const { task: again } = await on.call('alice', 'task.create', { spec: { goal: 'Again' }, parent_task: child.id })
  await on.call('alice', 'task.assign', { task_id: again.id, assignee: 'agent_robin' })
  await on.call('robin', 'task.start', { task_id: again.id })
  assert.equal(await decided(again.id, 'rm:all'), 'ask')
  await grant(on, 'rm:*', 'deny')
  assert.equal(await decided(again.id, 'rm:all'), 'deny', 'the task above both')
})

must('H35-invoke', 'under confirm_each_action the permissions of a capability are not enough: it needs an allow itself', async () => {
  const deploy = capability('deploy', () => ({}), { required_permissions: ['deploy:staging'] })
  const on = await capabilityWorld([local(deploy)])
  const { run_id, task_id } = await runUnder(on, autonomy('confirm_each_action'))
  const ref = { capability_id: 'cap:deploy', version: '1.0.0' }
  const invoke = async (): Promise<any> => (await on.world.call('devin', 'delegation/capability.invoke', { run_id, ref })).ok
  await allow(on, task_id, 'deploy:staging')
  assert.equal(await invoke(), false)
  await allow(on, task_id, 'cap:deploy')
  assert.equal(await invoke(), true)
  await on.close()
})

must('D8-confirm', 'an approved action permits the invocation that was shown, once, and no other', async () => {
  const { on, ran } = await acting()
  const { run_id, task_id } = await runUnder(on, autonomy('confirm_each_action'))
  const ref = { capability_id: 'cap:write', version: '1.0.0' }
  const invoke = async (input?: object): Promise<boolean> =>
    (await on.world.call('devin', 'delegation/capability.invoke', { run_id, ref, ...(input ? { input } : {}) })).ok
  const asked = async (answer: object, kind = 'cap:write', detail?: string): Promise<void> => {
    const proposed_actions = ['a', 'b'].map((id) => ({ id, kind, summary: id, risk: 'high', ...(detail ? { detail } : {}) }))
    const question = { task_id, kind: 'approval', prompt: 'May I?', proposed_actions }
    const { checkpoint } = await on.world.call('devin', 'collaboration/checkpoint.raise', question)
    await on.world.call('alice', 'collaboration/checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve', ...answer })
  }
  await asked({}, 'cap:other')
  await asked({ approved_actions: [] })
  assert.equal(await invoke(), false, 'another capability, and what was denied')
  await asked({ approved_actions: ['a'] }, 'cap:write', '{"rows": 1, "table": "t"}')
  assert.equal(await invoke({ table: 't', rows: 2 }), false, 'other arguments than those that were shown')
  assert.equal(await invoke(), false)
  assert.equal(await invoke({ table: 't', rows: 1 }), true)
  assert.equal(await invoke({ table: 't', rows: 1 }), false, 'once')
  await asked({}, 'cap:write@1.0.0')
  await allow(on, task_id, 'cap:*', 'deny')
  assert.equal(await invoke(), false, 'a deny stops it')
  assert.equal(ran(), 1)
  await on.close()
})

must('D8-confirm', 'an action whose id is the capability permits it as well: the answer names it by that id', async () => {
  const { on, ran } = await acting()
  const { run_id, task_id } = await runUnder(on, autonomy('confirm_each_action'))
  const proposed_actions = [{ id: 'cap:write', kind: 'tool', summary: 'Write', risk: 'low' }]
  const question = { task_id, kind: 'approval', prompt: 'May I?', proposed_actions }
  const { checkpoint } = await on.world.call('devin', 'collaboration/checkpoint.raise', question)
  const invoke = async (): Promise<boolean> =>
    (await on.world.call('devin', 'delegation/capability.invoke', { run_id, ref: { capability_id: 'cap:write', version: '1.0.0' } })).ok
  const answer = { checkpoint_id: checkpoint.id, action: 'approve', approved_actions: ['cap:write'] }
  await on.world.call('alice', 'collaboration/checkpoint.resolve', answer)
  assert.deepEqual([await invoke(), await invoke(), ran()], [true, false, 1])
  await on.close()
})

must('D8-confirm', 'arguments that read in two ways, or not as they stand, permit nothing', async () => {
  const { on, ran } = await acting()
  const { run_id, task_id } = await runUnder(on, autonomy('confirm_each_action'))
  const ref = { capability_id: 'cap:write', version: '1.0.0' }
  for (const [detail, input] of [
    ['{"table": "t_old", "table": "t"}', { table: 't' }],
    ['{"rows": 9007199254740993}', { rows: 9_007_199_254_740_992 }],
  ] as const) {
    const proposed_actions = [{ id: 'a', kind: 'cap:write', summary: 'a', risk: 'high', detail }]
    const question = { task_id, kind: 'approval', prompt: 'May I?', proposed_actions }
    const { checkpoint } = await on.world.call('devin', 'collaboration/checkpoint.raise', question)
    await on.world.call('alice', 'collaboration/checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
    const { error } = await on.world.call('devin', 'delegation/capability.invoke', { run_id, ref, input })
    assert.equal(error?.code, 'PERMISSION_DENIED', detail)
  }
  assert.equal(ran(), 0)
  await on.close()
})
must('D8-confirm', 'an action that the next person approved permits it too, for the agent that asked and no other', async () => {
  const { on, ran } = await acting()
  const { task_id } = await runUnder(on, autonomy('confirm_each_action'), { reviewers: ['user_rita'] })
  const invoke = async (as: string): Promise<boolean> => {
    const { items } = await on.world.call('alice', 'delegation/run.list', { task_id })
    const input = { run_id: items.at(-1).id, ref: { capability_id: 'cap:write', version: '1.0.0' } }
    return (await on.world.call(as, 'delegation/capability.invoke', input)).ok
  }
  const proposed_actions = ['a', 'b'].map((id) => ({ id, kind: 'cap:write', summary: id, risk: 'high' }))
  const question = { task_id, kind: 'approval', prompt: 'May I?', proposed_actions }
  let { checkpoint } = await on.world.call('devin', 'collaboration/checkpoint.raise', question)
  for (let turn = 0; turn < 2; turn++) {
    await on.world.call('admin', 'collaboration/checkpoint.expire', { checkpoint_id: checkpoint.id })
    const { task } = await on.world.call('alice', 'collaboration/task.get', { task_id })
    checkpoint = { id: task.pending_checkpoint }
  }
  await on.world.call('alice', 'collaboration/checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
  assert.equal(await invoke('devin'), true)
  await on.world.call('admin', 'collaboration/ownership.transfer', { task_id, to: 'agent_robin' })
  assert.equal(await invoke('robin'), false, 'another agent has the task, and nobody answered a question of its own')
  await on.world.call('admin', 'collaboration/ownership.transfer', { task_id, to: 'agent_devin' })
  assert.deepEqual([await invoke('devin'), await invoke('devin'), ran()], [true, false, 2])
  await on.close()
})

must('H42', 'it ends with the run that was active: not in the next one, nor when the agent comes back', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  await grant(on, 'rm:all', 'allow', { until: 'session' })
  assert.equal(await use(on, 'rm:all'), 'allow')
  const { artifact } = await on.call('devin', 'artifact.commit', { task_id, payload: { kind: 'inline', uri: 'data:,x' } })
  await on.call('alice', 'review.submit', { task_id, artifact_id: artifact.id, verdict: 'changes_requested', requested_changes: ['more'] })
  assert.equal(await use(on, 'rm:all'), 'ask')
  await grant(on, 'rm:all', 'allow', { until: 'session' })
  for (const to of ['agent_robin', 'agent_devin']) await on.call('admin', 'ownership.transfer', { task_id, to })
  assert.equal(await use(on, 'rm:all'), 'ask')
})
must('H42', 'given before a run begins, it belongs to the first one', async () => {
  const on = await stage('created')
  const task_id = on.refs['task'].id
  await grant(on, 'rm:all', 'allow', { until: 'session' })
  await on.call('alice', 'task.assign', { task_id, assignee: 'agent_devin' })
  await on.call('devin', 'task.start', { task_id })
  assert.equal(await use(on, 'rm:all'), 'allow')
  await on.call('devin', 'delegation/run.fail', { run_id: (await runOf(on)).id, error: 'no' })
  await grant(on, 'rm:some', 'allow', { until: 'session' })
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: (await on.task()).pending_checkpoint, action: 'approve' })
  assert.deepEqual([await use(on, 'rm:all'), await use(on, 'rm:some')], ['ask', 'allow'])
})
