// The inter-layer tables of AAP and HACP, one test for each row and each of our own rows, in both directions.
import assert from 'node:assert/strict'
import { runOf, runsOf, take, kindsIn } from '../support/in-process/runs.ts'
import { enlist, HOUR_MS, linesOf, stage, type Stage } from '../support/in-process/stage.ts'
import { aap } from './aap-cited.ts'

const { must } = aap
const ops = (name: string): string => `delegation/${name}`
const inline = { payload: { kind: 'inline', uri: 'data:,x' } }
const shown = (runs: readonly any[]): string[] =>
  runs.map(({ agent_id, state, reason }) => `${agent_id} ${state}${reason ? ` ${reason}` : ''}`)
const ask = async (on: Stage, as = 'devin', kind = 'approval'): Promise<string> =>
  (await on.call(as, 'checkpoint.raise', { task_id: on.refs['task'].id, kind, prompt: 'Go?' })).checkpoint.id

must(
  ['A-LAY-01', 'A-RUN-02', 'A-CONF-04'],
  'task.assign: the task’s id is the correlation id, its spec the input; a person gets no run',
  async () => {
    const on = await stage('created')
    await on.call('alice', 'task.assign', { task_id: on.refs['task'].id, assignee: 'agent_devin' })
    const run = await runOf(on)
    assert.deepEqual([run.correlation_id, run.task_id, run.root_task_id], Array(3).fill(on.refs['task'].id))
    assert.deepEqual((await on.call('devin', ops('run.get'), { run_id: run.id })).request.input, on.refs['task'].spec)
    const other = await stage('created')
    await other.call('alice', 'task.assign', { task_id: other.refs['task'].id, assignee: 'user_bob' })
    await other.call('bob', 'task.start', { task_id: other.refs['task'].id })
    await other.call('bob', 'artifact.commit', { task_id: other.refs['task'].id, ...inline })
    assert.deepEqual(await runsOf(other), [])
  },
)
must(['A-LAY-02', 'A3'], 'checkpoint.raise: blocked in the same batch, with the checkpoint; a second block is refused', async () => {
  const on = await stage('in_progress')
  const checkpoint_id = await ask(on)
  const run = await runOf(on)
  assert.deepEqual([run.state, run.checkpoint_id], ['blocked', checkpoint_id])
  const again = { run_id: run.id, reason: 'x', checkpoint_id }
  await on.refused('INVALID_TRANSITION', 'system', ops('agent.block'), again)
})
must('A3', 'a question that takes the place of another is what the run waits for from then on', async () => {
  const on = await stage('in_progress')
  const { checkpoint } = await on.call('devin', 'checkpoint.raise', {
    task_id: on.refs['task'].id,
    kind: 'approval',
    prompt: 'Go?',
    expires_in: 'PT1H',
    on_expiry: 'escalate',
  })
  on.world.advance(2 * HOUR_MS)
  assert.deepEqual(await on.ring(), ['collaboration/checkpoint.expire'])
  const { pending_checkpoint } = await on.task()
  assert.notEqual(pending_checkpoint, checkpoint.id)
  assert.equal((await runOf(on)).checkpoint_id, pending_checkpoint)
  await on.call('rita', 'checkpoint.resolve', { checkpoint_id: pending_checkpoint, action: 'approve' })
  assert.equal((await runOf(on)).state, 'running')
})
must(['A-LAY-03', 'A1'], 'checkpoint.resolve: every answer but reject resumes; a reject ends the run and asks nobody', async () => {
  for (const [kind, answer] of [
    ['approval', { action: 'approve' }],
    ['input', { action: 'provide', input: 'x' }],
    ['approval', { action: 'reassign', reassign_to: 'agent_devin' }],
    ['approval', { action: 'reject', comment: 'No.' }],
  ] as const) {
    const on = await stage('in_progress')
    await take(on, 'devin')
    const checkpoint_id = await ask(on, 'devin', kind)
    const { checkpoint } = await on.call('alice', 'checkpoint.resolve', { checkpoint_id, ...answer })
    const [run, ...rest] = await runsOf(on)
    const [item] = await take(on, 'devin')
    assert.deepEqual(rest, [])
    if (answer.action === 'reject') {
      assert.deepEqual([run.state, run.reason, run.error], ['failed', 'cancelled', 'No.'])
      assert.deepEqual([item.messages[0].kind, item.messages[0].body], ['cancel', { reason: 'cancelled', why: 'No.' }])
      assert.equal((await on.task()).checkpoints.length, 1)
    } else {
      assert.equal(run.state, 'running')
      assert.deepEqual(item.messages[0].body, { checkpoint_id, resolution: checkpoint.resolution })
    }
  }
})
must(['A-LAY-03', 'A-HAND-04'], 'reassign: the old run never resumes; the new one gets the resolution', async () => {
  const on = await stage('in_progress')
  await take(on, 'devin')
  const checkpoint_id = await ask(on)
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id, action: 'reassign', reassign_to: 'agent_robin', comment: 'You.' })
  assert.deepEqual(shown(await runsOf(on)), ['agent_devin failed handed_off', 'agent_robin running'])
  assert.deepEqual(kindsIn(await take(on, 'devin')), [['cancel']])
  const [item] = await take(on, 'robin')
  assert.deepEqual([kindsIn([item]), item.request.context.resolution.comment], [[['run']], 'You.'])
  assert.ok(!(await linesOf(on.world)).some(({ action }) => action === 'delegation/run.resumed'))
})
must(['A-LAY-04', 'A6'], 'ownership.delegate: the run above stays and waits; what is delivered below completes both', async () => {
  const on = await stage('delegable')
  const task_id = on.refs['task'].id
  const above = await runOf(on)
  await on.call('devin', 'ownership.delegate', { task_id, to: 'agent_robin' })
  await on.refused('INVALID_TRANSITION', 'devin', ops('run.complete'), { run_id: above.id })
  await on.refused('INVALID_TRANSITION', 'devin', ops('run.fail'), { run_id: above.id, error: 'x' })
  await on.refused('INVALID_TRANSITION', 'devin', ops('agent.handoff'), { run_id: above.id, to_agent: 'agent_robin' })
  await on.refused('INVALID_TRANSITION', 'devin', ops('agent.delegate'), { to_agent: 'agent_robin', task_id, parent_run: above.id })
  const system = { task_id, to_agent: 'agent_robin', project_id: 'project_default' }
  await on.refused('INVALID_TRANSITION', 'system', ops('agent.delegate'), system)
  await ask(on, 'robin')
  assert.deepEqual(shown(await runsOf(on)), ['agent_devin running', 'agent_robin blocked approval'])
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: (await on.task()).pending_checkpoint, action: 'approve' })
  await on.call('robin', 'artifact.commit', { task_id, ...inline })
  assert.deepEqual(shown(await runsOf(on)), ['agent_devin completed', 'agent_robin completed'])
})
must(['A-LAY-05', 'A-HAND-04'], 'ownership.transfer: in every state that has a run it goes on with the new executor', async () => {
  for (const [scene, runs] of [
    ['assigned', ['agent_devin failed handed_off', 'agent_robin running']],
    ['in_progress', ['agent_devin failed handed_off', 'agent_robin running']],
    ['blocked', ['agent_devin failed handed_off', 'agent_robin blocked approval']],
    ['review_ready', ['agent_devin completed']],
  ] as const) {
    const on = await stage(scene)
    await on.call('admin', 'ownership.transfer', { task_id: on.refs['task'].id, to: 'agent_robin' })
    assert.deepEqual(shown(await runsOf(on)), runs, scene)
    const correlations = new Set((await runsOf(on)).map(({ correlation_id }) => correlation_id))
    assert.deepEqual([...correlations], [on.refs['task'].id])
  }
  const on = await stage('blocked')
  await on.call('admin', 'ownership.transfer', { task_id: on.refs['task'].id, to: 'agent_robin' })
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: on.refs['checkpoint'].id, action: 'approve' })
  assert.equal((await runOf(on)).state, 'running', 'the answer resumes the new run')
})
must(['A-LAY-05', 'A1'], 'ownership.transfer to a person ends the run, and from a person begins one', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  await on.call('admin', 'ownership.transfer', { task_id, to: 'user_bob' })
  assert.deepEqual(shown(await runsOf(on)), ['agent_devin failed handed_off'])
  assert.equal((await on.task()).pending_checkpoint, null)
  await on.call('admin', 'ownership.transfer', { task_id, to: 'agent_robin' })
  assert.deepEqual(shown(await runsOf(on)), ['agent_devin failed handed_off', 'agent_robin running'])
})
must('A2', 'interrupt, take-over and a passed limit pause the run with their checkpoints; the agent is told', async () => {
  for (const [op, kind] of [
    ['task.interrupt', 'interrupt'],
    ['task.takeover', 'interrupt'],
  ] as const) {
    const on = await stage('in_progress')
    await take(on, 'devin')
    const { checkpoint } = await on.call('alice', op, { task_id: on.refs['task'].id })
    const run = await runOf(on)
    assert.deepEqual([run.state, run.checkpoint_id, run.reason], ['blocked', checkpoint.id, kind])
    const [item] = await take(on, 'devin')
    assert.deepEqual([item.messages[0].kind, item.messages[0].body], ['block', { checkpoint_id: checkpoint.id, reason: kind }])
    if (op === 'task.takeover') await on.call('alice', 'task.return', { task_id: on.refs['task'].id })
    else await on.call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
    assert.deepEqual(kindsIn(await take(on, 'devin')), [['resume']])
    assert.equal((await runOf(on)).state, 'running')
  }
  const late = await stage('late')
  await late.call('system', 'task.overdue', { task_id: late.refs['task'].id })
  const run = await runOf(late)
  assert.deepEqual([run.state, run.checkpoint_id], ['blocked', (await late.task()).pending_checkpoint])
})
must('A2', 'task.amend: the run is steered, running or blocked', async () => {
  for (const scene of ['in_progress', 'blocked'] as const) {
    const on = await stage(scene)
    await take(on, 'devin')
    const { amendment } = await on.call('alice', 'task.amend', { task_id: on.refs['task'].id, text: 'Faster.', intent: 'redirect' })
    const [item] = await take(on, 'devin')
    assert.deepEqual(item.messages.at(-1).body, { text: 'Faster.', intent: 'redirect', amendment_id: amendment.id })
    assert.equal((await runOf(on)).state, scene === 'blocked' ? 'blocked' : 'running')
  }
})
must('A1', 'task.cancel: the run ends failed with its reason; nobody is asked', async () => {
  for (const scene of ['assigned', 'in_progress', 'blocked'] as const) {
    const on = await stage(scene)
    await on.call('alice', 'task.cancel', { task_id: on.refs['task'].id })
    assert.deepEqual(shown(await runsOf(on)), ['agent_devin failed cancelled'], scene)
    assert.equal((await on.task()).pending_checkpoint, null)
  }
})
must('A8', 'run.start starts the task and task.start the run, each once, in one batch', async () => {
  const on = await stage('assigned')
  const { batches } = on.world.store.stats()
  await on.call('devin', ops('run.start'), { run_id: (await runOf(on)).id })
  assert.equal(on.world.store.stats().batches, batches + 1)
  assert.equal((await on.task()).state, 'in_progress')
  assert.deepEqual((await on.events()).at(-1).actor, 'agent_devin')
  const other = await stage('in_progress')
  assert.notEqual((await runOf(other)).started_at, null)
  const started = (await linesOf(other.world)).filter(({ action }) => action === 'delegation/run.started')
  assert.equal(started.length, 1)
})
must('A7', 'a direct delegate passes the task down by the rules of ownership', async () => {
  const on = await stage('delegable')
  const task_id = on.refs['task'].id
  const above = await runOf(on)
  const { run } = await on.call('devin', ops('agent.delegate'), {
    to_agent: 'agent_robin',
    task_id,
    parent_run: above.id,
    input: { part: 1 },
  })
  const task = await on.task()
  assert.deepEqual([task.executor, task.depth, run.correlation_id, run.parent_run], ['agent_robin', 1, task_id, above.id])
  assert.equal((await runsOf(on)).length, 2, 'one run, not two')
  assert.deepEqual(task.ownership.chain.at(-1).reason, 'ownership.delegate')
  for (const [scene, code] of [
    ['in_progress', 'PRECONDITION_FAILED'],
    ['blocked', 'INVALID_TRANSITION'],
  ] as const) {
    const fixed = await stage(scene)
    const mine = await runOf(fixed)
    const input = { to_agent: 'agent_robin', task_id: fixed.refs['task'].id, parent_run: mine.id }
    await fixed.refused(code, 'devin', ops('agent.delegate'), input)
    await fixed.refused('RUN_NOT_FOUND', 'devin', ops('agent.delegate'), { ...input, parent_run: null })
    await fixed.refused('RUN_NOT_FOUND', 'robin', ops('agent.delegate'), input)
  }
})
must('A7', 'a direct handoff records the transfer, where the task may be passed on', async () => {
  const on = await stage('delegable')
  const old = await runOf(on)
  const { run } = await on.call('devin', ops('agent.handoff'), { run_id: old.id, to_agent: 'agent_robin', context: { half: true } })
  const task = await on.task()
  assert.deepEqual([task.executor, task.ownership.chain.at(-1).reason], ['agent_robin', 'ownership.transfer'])
  assert.deepEqual(shown(await runsOf(on)), ['agent_devin failed handed_off', 'agent_robin running'])
  assert.equal((await runOf(on)).id, run.id)
  const fixed = await stage('in_progress')
  await fixed.refused('PRECONDITION_FAILED', 'devin', ops('agent.handoff'), { run_id: (await runOf(fixed)).id, to_agent: 'agent_robin' })
})
must('M-REPORT', 'what a harness needs becomes a checkpoint, what it made an artifact, as the agent’s own and in one batch', async () => {
  for (const [type, payload, kind] of [
    ['needs_approval', { prompt: 'Go?' }, 'approval'],
    ['needs_choice', { prompt: 'Which?', options: [{ id: 'a', label: 'A', risk: 'low' }] }, 'choice'],
    ['needs_input', { prompt: 'What?' }, 'input'],
  ] as const) {
    const on = await stage('in_progress')
    const { batches } = on.world.store.stats()
    const { run } = await on.call('devin', ops('run.report'), { run_id: (await runOf(on)).id, type, payload })
    assert.equal(on.world.store.stats().batches, batches + 1)
    const { checkpoint } = await on.call('alice', 'checkpoint.get', { checkpoint_id: run.checkpoint_id })
    assert.deepEqual(
      [run.state, checkpoint.kind, checkpoint.prompt, checkpoint.raised_by],
      ['blocked', kind, payload.prompt, 'agent_devin'],
    )
  }
  const on = await stage('in_progress')
  const run_id = (await runOf(on)).id
  await on.refused('INVALID_SPEC', 'devin', ops('run.report'), { run_id, type: 'needs_choice', payload: { prompt: 'Which?' } })
  await on.refused('INVALID_REQUEST', 'devin', ops('run.report'), { run_id, type: 'artifact', payload: {} })
  await on.call('devin', ops('run.report'), { run_id, type: 'artifact', payload: { ...inline, final: false } })
  assert.equal((await on.task()).state, 'in_progress')
  const { run } = await on.call('devin', ops('run.report'), { run_id, type: 'artifact', payload: inline })
  assert.deepEqual([run.state, (await on.task()).state], ['completed', 'review_ready'])
})

const chain = ['devin', 'third', 'fourth', 'robin'] as const
for (const withSpec of [false, true]) {
  must(
    'D5',
    `three deep ${withSpec ? 'with' : 'without'} child tasks: one question shows the whole chain, a fourth is refused`,
    async () => {
      const on = await stage('delegable')
      await enlist(on, 'third', 'fourth', 'fifth')
      const root: string = on.refs['task'].id
      const tasks = [root]
      for (let depth = 1; depth <= 3; depth++) {
        const input = {
          task_id: tasks.at(-1)!,
          to: `agent_${chain[depth]}`,
          delegable: true,
          ...(withSpec ? { spec: { goal: 'Part' } } : {}),
        }
        const { child } = await on.call(chain[depth - 1]!, 'ownership.delegate', input)
        if (child) tasks.push(child.id)
      }
      const innermost = tasks.at(-1)!
      const input = { task_id: innermost, to: 'agent_fifth', ...(withSpec ? { spec: { goal: 'Part' } } : {}) }
      await on.refused('PRECONDITION_FAILED', 'robin', 'ownership.delegate', input)
      if (withSpec) await on.call('robin', 'task.start', { task_id: innermost })
      const { checkpoint } = await on.call('robin', 'checkpoint.raise', { task_id: innermost, kind: 'approval', prompt: 'Deep?' })
      assert.equal(checkpoint.routed_to, 'user_alice', 'the question of the innermost reaches the person of the root')
      const { items } = await on.call('alice', 'audit.query', { root_task_id: root, limit: 200 })
      const runs = items.filter(({ action }: any) => action === 'run.delegated').map(({ after }: any) => after)
      assert.equal(runs.length, 4)
      for (const [i, run] of runs.entries()) {
        assert.deepEqual([run.parent_run, run.root_task_id], [i === 0 ? null : runs[i - 1].id, root])
        assert.equal(run.correlation_id, withSpec ? tasks[i] : root)
      }
      const last = runs[3]
      assert.deepEqual(
        last.chain.map(({ run_id, agent_id }: any) => [run_id, agent_id]),
        runs.slice(0, 3).map((run: any) => [run.id, run.agent_id]),
      )
      assert.equal(items.findLast(({ action }: any) => action === 'run.blocked').subject.id, last.id)
      const listed = (await on.call('alice', ops('run.list'), { root_task_id: root })).items
      assert.deepEqual(listed.map(({ id }: any) => id).toSorted(), runs.map(({ id }: any) => id).toSorted())
    },
  )
}
