// AAP 0.1.0: the life of a run, its events, and the codes that it is refused with.
import assert from 'node:assert/strict'
import { realClock } from '#apps/server/clock.ts'
import { delegation } from '#protocols/delegation/index.ts'
import { runMoves, runStates } from '#protocols/delegation/states.ts'
import { runWebhookAgents } from '#workers/webhooks/agents.ts'
import { answering, receiver, until } from '../support/over-sockets/receiver.ts'
import { eventsOf, kindsIn, runOf, runsOf, take } from '../support/in-process/runs.ts'
import { enlist, stage, type Stage } from '../support/in-process/stage.ts'
import { silent } from '../support/in-process/worker-world.ts'
import { createWorld } from '../support/in-process/world.ts'
import { aap } from './aap-cited.ts'

const { must } = aap
const ops = (name: string): string => `delegation/${name}`
/** A run without a task, in any of the four states. */
async function runIn(state: string): Promise<{ on: Stage; run_id: string }> {
  const on = await stage(delegation.scenes['running'])
  const run_id: string = on.refs['run'].id
  if (state === 'blocked') await on.call('system', ops('agent.block'), { run_id, reason: 'approval', checkpoint_id: 'ckpt_1' })
  if (state === 'completed') await on.call('devin', ops('run.complete'), { run_id })
  if (state === 'failed') await on.call('devin', ops('run.fail'), { run_id, error: 'no' })
  return { on, run_id }
}

must(['A-RUN-01', 'A-DEL-01', 'A-DEL-02', 'A10'], 'delegate answers at once with a run that has the fields of the draft', async () => {
  const on = await stage(delegation.scenes['offered'])
  const { run } = await on.call('devin', ops('agent.delegate'), { to_agent: 'agent_robin', input: { n: 1 } })
  const { run_id, agent_id, correlation_id, state, created_at } = run
  assert.deepEqual([run_id, agent_id, state, correlation_id], [run.id, 'agent_robin', 'running', run.id], 'without a task its own id')
  assert.match(run_id, /^run_[0-9A-HJKMNP-TV-Z]{26}$/)
  assert.match(created_at, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  const { request } = await on.call('robin', ops('run.get'), { run_id })
  assert.deepEqual([request.to_agent, request.input, request.parent_run, request.task_id], ['agent_robin', { n: 1 }, null, null])
  const below = await on.call('robin', ops('agent.delegate'), { to_agent: 'agent_devin', parent_run: run_id })
  const beside = await on.call('robin', ops('agent.delegate'), { to_agent: 'agent_devin', parent_run: run_id })
  assert.notEqual(below.run.id, beside.run.id, 'without a task several work side by side')
  assert.deepEqual([below.run.correlation_id, below.run.parent_run], [run.id, run.id])
})
must(
  ['A-BLK-04', 'A-ERR-05', 'A-CONF-02'],
  'every state x every event: as the table says, or INVALID_TRANSITION and nothing changes',
  async () => {
    const calls: Record<string, { as: string; op: string; input: object }> = {
      'agent.block': { as: 'system', op: 'agent.block', input: { reason: 'x', checkpoint_id: 'ckpt_2' } },
      'agent.block/successor': { as: 'system', op: 'agent.block', input: { reason: 'x', checkpoint_id: 'ckpt_2', succeeds: 'ckpt_1' } },
      'agent.resume': { as: 'system', op: 'agent.resume', input: { resolution: { action: 'approve' } } },
      'agent.handoff': { as: 'system', op: 'agent.handoff', input: { to_agent: 'agent_robin' } },
      'agent.cancel': { as: 'system', op: 'agent.cancel', input: {} },
      'run.complete': { as: 'devin', op: 'run.complete', input: {} },
      'run.complete/delivered': { as: 'system', op: 'run.complete', input: {} },
      'run.fail': { as: 'devin', op: 'run.fail', input: { error: 'no' } },
    }
    assert.deepEqual([...new Set(runMoves.map(([, event]) => event))].toSorted(), Object.keys(calls).toSorted())
    const written: Record<string, string> = {
      'running agent.block': 'blocked',
      'blocked agent.block/successor': 'blocked',
      'blocked agent.resume': 'running',
      'running run.complete': 'completed',
      'running run.complete/delivered': 'completed',
      'blocked run.complete/delivered': 'completed',
      'running run.fail': 'failed',
      'blocked run.fail': 'failed',
      'running agent.handoff': 'failed',
      'blocked agent.handoff': 'failed',
      'running agent.cancel': 'failed',
      'blocked agent.cancel': 'failed',
    }
    for (const state of runStates)
      for (const [event, { as, op, input }] of Object.entries(calls)) {
        const { on, run_id } = await runIn(state)
        const want = written[`${state} ${event}`]
        if (want === undefined) await on.refused('INVALID_TRANSITION', as, ops(op), { run_id, ...input })
        else {
          await on.call(as, ops(op), { run_id, ...input })
          assert.equal((await on.call('admin', ops('run.get'), { run_id })).run.state, want, `${state} ${event}`)
        }
      }
  },
)
must(['A-BLK-04', 'A8'], 'what needs a running run is refused in every other state, and a run starts once', async () => {
  for (const state of ['blocked', 'completed', 'failed']) {
    const { on, run_id } = await runIn(state)
    for (const [op, input] of [
      ['run.start', {}],
      ['run.progress', { message: 'x' }],
    ] as const)
      await on.refused('INVALID_TRANSITION', 'devin', ops(op), { run_id, ...input })
    if (state !== 'blocked')
      for (const [as, op, input] of [
        ['system', 'agent.steer', { text: 'x' }],
        ['devin', 'memo.put', { key: 'k', value: 1 }],
      ] as const)
        await on.refused('INVALID_TRANSITION', as, ops(op), { run_id, ...input })
  }
  const { on, run_id } = await runIn('running')
  await on.call('devin', ops('run.start'), { run_id })
  await on.refused('INVALID_TRANSITION', 'devin', ops('run.start'), { run_id })
})
must('A-BLK-01', 'a block without a checkpoint is refused', async () => {
  const { on, run_id } = await runIn('running')
  await on.refused('INVALID_REQUEST', 'system', ops('agent.block'), { run_id, reason: 'x' })
  await on.refused('INVALID_REQUEST', 'system', ops('agent.block'), { run_id, reason: 'x', checkpoint_id: '' })
})
must(['A-BLK-02', 'A7'], 'nobody but the runtime blocks or resumes: not the agent, not its owner, not the administrator', async () => {
  const { on, run_id } = await runIn('blocked')
  const resolution = { action: 'approve' }
  await on.refused('UNAUTHORIZED', 'devin', ops('agent.resume'), { run_id, resolution })
  await on.refused('UNAUTHORIZED', 'owner', ops('agent.resume'), { run_id, resolution })
  await on.refused('UNAUTHORIZED', 'admin', ops('agent.resume'), { run_id, resolution })
  await on.refused('RUN_NOT_FOUND', 'robin', ops('agent.resume'), { run_id, resolution })
  await on.refused('UNAUTHORIZED', 'devin', ops('agent.block'), { run_id, reason: 'x', checkpoint_id: 'ckpt_1' })
  await on.refused('INVALID_TRANSITION', 'devin', ops('run.complete'), { run_id })
})
must(['A-BLK-02', 'A7'], 'who delegated a run may steer and cancel it, but neither block nor resume it, nor speak for it', async () => {
  const on = await stage(delegation.scenes['delegated'])
  const run_id = on.refs['run'].id
  const { run } = await on.call('robin', ops('agent.delegate'), { to_agent: 'agent_devin', parent_run: run_id })
  await on.call('robin', ops('agent.steer'), { run_id: run.id, text: 'Faster.' })
  await on.refused('UNAUTHORIZED', 'robin', ops('agent.block'), { run_id: run.id, reason: 'x', checkpoint_id: 'ckpt_1' })
  await on.call('system', ops('agent.block'), { run_id: run.id, reason: 'x', checkpoint_id: 'ckpt_1' })
  await on.refused('UNAUTHORIZED', 'robin', ops('agent.resume'), { run_id: run.id, resolution: { action: 'approve' } })
  await on.refused('UNAUTHORIZED', 'robin', ops('run.fail'), { run_id: run.id, error: 'x' })
  assert.equal((await on.call('robin', ops('agent.cancel'), { run_id: run.id })).run.reason, 'cancelled')
})
must(
  'A7',
  'who delegated without a run of its own reads the run, steers and cancels it, also after a handoff, and speaks for nobody',
  async () => {
    const on = await stage(delegation.scenes['delegated'])
    const run_id = on.refs['run'].id
    assert.equal((await on.call('devin', ops('run.get'), { run_id })).run.delegated_by, 'agent_devin')
    await on.call('devin', ops('agent.steer'), { run_id, text: 'Faster.' })
    await on.refused('UNAUTHORIZED', 'devin', ops('run.fail'), { run_id, error: 'x' })
    await on.refused('RUN_NOT_FOUND', 'spy', ops('run.get'), { run_id })
    await on.call('admin', 'identity/agent.add', { id: 'agent_third', name: 'Third', owner: 'user_alice' })
    const { run } = await on.call('robin', ops('agent.handoff'), { run_id, to_agent: 'agent_third' })
    assert.equal((await on.call('devin', ops('run.get'), { run_id: run.id })).run.agent_id, 'agent_third')
    assert.equal((await on.call('devin', ops('agent.cancel'), { run_id: run.id })).run.reason, 'cancelled')
  },
)
must('A7', 'without a task, cancelling a run ends all that work for it, and each of them is told', async () => {
  const on = await stage(delegation.scenes['delegated'])
  const top = on.refs['run'].id as string
  const below = async (as: string, parent_run: string, to: string): Promise<string> =>
    (await on.call(as, ops('agent.delegate'), { to_agent: `agent_${to}`, parent_run, input: { n: ++count } })).run.id as string
  let count = 0
  const [one, two] = [await below('robin', top, 'devin'), await below('robin', top, 'devin')]
  await enlist(on, 'third')
  const deep = await below('devin', one, 'third')
  const other = (await on.call('devin', ops('agent.delegate'), { to_agent: 'agent_robin' })).run.id as string
  await on.call('devin', ops('run.complete'), { run_id: two })
  await take(on, 'robin')
  await take(on, 'devin')
  await take(on, 'third')
  const stateIn = async (run_id: string) => {
    const { state, reason } = (await on.call('admin', ops('run.get'), { run_id })).run
    return `${state} ${reason}`
  }
  await on.call('devin', ops('agent.cancel'), { run_id: top, why: 'enough' })
  const ended = await Promise.all([top, one, two, deep, other].map(stateIn))
  assert.deepEqual(ended, ['failed cancelled', 'failed cancelled', 'completed null', 'failed cancelled', 'running null'])
  const told = [...(await take(on, 'robin')), ...(await take(on, 'devin')), ...(await take(on, 'third'))]
  assert.deepEqual(told.map(({ run }) => run.id as string).toSorted(), [top, one, deep].toSorted())
  assert.deepEqual([...new Set(kindsIn(told).flat())], ['cancel'])
  await on.refused('INVALID_TRANSITION', 'robin', ops('agent.delegate'), { to_agent: 'agent_devin', parent_run: top })
})
must('A7', 'what is not delegable is not passed on, also without a task, and stays so below', async () => {
  const on = await stage(delegation.scenes['offered'])
  const { run } = await on.call('devin', ops('agent.delegate'), { to_agent: 'agent_robin', delegable: false })
  await on.refused('PRECONDITION_FAILED', 'robin', ops('agent.delegate'), { to_agent: 'agent_devin', parent_run: run.id })
  await on.refused('PRECONDITION_FAILED', 'robin', ops('agent.handoff'), { to_agent: 'agent_devin', run_id: run.id })
})
must('A7', 'without a task, too, work is delegated at most three deep', async () => {
  const on = await stage(delegation.scenes['delegated'])
  await enlist(on, 'third', 'fourth', 'fifth')
  let parent_run = on.refs['run'].id
  for (const [as, to] of [
    ['robin', 'third'],
    ['third', 'fourth'],
    ['fourth', 'fifth'],
  ] as const)
    parent_run = (await on.call(as, ops('agent.delegate'), { to_agent: `agent_${to}`, parent_run })).run.id
  await on.refused('PRECONDITION_FAILED', 'fifth', ops('agent.delegate'), { to_agent: 'agent_devin', parent_run })
})
must('A14', 'an agent that waits for the work is not given it, here or through a task above; one that handed it over is', async () => {
  const on = await stage(delegation.scenes['delegated'])
  const run_id = on.refs['run'].id as string
  await enlist(on, 'third')
  const { run } = await on.call('robin', ops('agent.delegate'), { to_agent: 'agent_third', parent_run: run_id })
  await on.refused('DELEGATION_REFUSED', 'third', ops('agent.delegate'), { to_agent: 'agent_robin', parent_run: run.id })
  await on.call('third', ops('agent.handoff'), { run_id: run.id, to_agent: 'agent_robin' })
  const task = await stage('delegable')
  const task_id = task.refs['task'].id
  const part = { to: 'agent_robin', spec: { goal: 'A part' }, delegable: true }
  const { child } = await task.call('devin', 'ownership.delegate', { task_id, ...part })
  const back = { task_id: child.id, to: 'agent_devin', spec: { goal: 'Yours again' } }
  const { details } = await task.refused('PRECONDITION_FAILED', 'robin', 'ownership.delegate', back)
  assert.equal(details?.['aap_code'], 'DELEGATION_REFUSED')
})
must('A14', 'the owners of its agents read a run without a task, and find it by its agent; strangers do not', async () => {
  const on = await stage(delegation.scenes['delegated'])
  const run_id = on.refs['run'].id as string
  assert.equal((await on.call('alice', ops('run.get'), { run_id })).run.id, run_id)
  const { items } = await on.call('alice', ops('run.list'), { agent_id: 'agent_robin' })
  assert.deepEqual(
    items.map(({ id }: any) => id),
    [run_id],
  )
  await on.refused('RUN_NOT_FOUND', 'bob', ops('run.get'), { run_id })
  await on.refused('INVALID_REQUEST', 'bob', ops('run.list'), { agent_id: 'agent_robin' })
})
for (const [how, op, input] of [
  ['completes', 'run.complete', {}],
  ['fails', 'run.fail', { error: 'no' }],
  ['is handed off', 'agent.handoff', { to_agent: 'agent_third' }],
] as const)
  must('A14', `a run without a task that ${how} ends all that it delegated`, async () => {
    const on = await stage(delegation.scenes['delegated'])
    const run_id = on.refs['run'].id as string
    await enlist(on, 'third', 'fourth')
    const below = (await on.call('robin', ops('agent.delegate'), { to_agent: 'agent_devin', parent_run: run_id })).run.id
    const deep = (await on.call('devin', ops('agent.delegate'), { to_agent: 'agent_fourth', parent_run: below })).run.id
    await on.call('robin', ops(op), { run_id, ...input })
    for (const id of [below, deep]) {
      const { state, reason, error } = (await on.call('admin', ops('run.get'), { run_id: id })).run
      assert.deepEqual([state, reason, error], ['failed', 'cancelled', 'parent_ended'])
    }
  })
must('A12', 'of several that ask an agent at once as many win as it takes; the others are told DELEGATION_REFUSED', async () => {
  const on = await stage()
  await on.call('robin', ops('agent.publish'), { name: 'Robin', concurrency: 1 })
  const asked = await Promise.allSettled(
    [1, 2, 3].map((n) => on.call('devin', ops('agent.delegate'), { to_agent: 'agent_robin', input: { n } })),
  )
  const outcomes = asked.map((one) => (one.status === 'fulfilled' ? 'ok' : String(one.reason.code)))
  assert.deepEqual(outcomes.toSorted(), ['DELEGATION_REFUSED', 'DELEGATION_REFUSED', 'ok'])
})
must('A-BLK-03', 'a resume without a resolution, with a reject, or for another checkpoint is refused', async () => {
  const { on, run_id } = await runIn('blocked')
  await on.refused('INVALID_REQUEST', 'system', ops('agent.resume'), { run_id })
  await on.refused('INVALID_TRANSITION', 'system', ops('agent.resume'), { run_id, resolution: {} })
  await on.refused('INVALID_TRANSITION', 'system', ops('agent.resume'), { run_id, resolution: { action: 'reject' } })
  await on.refused('INVALID_TRANSITION', 'system', ops('agent.resume'), {
    run_id,
    resolution: { action: 'approve' },
    checkpoint_id: 'ckpt_9',
  })
})
must(
  ['A-HAND-01', 'A-HAND-02', 'A-HAND-03'],
  'a handoff makes a new run with the input and the context; the old one is history',
  async () => {
    const on = await stage(delegation.scenes['delegated'])
    const old = on.refs['run'].id
    const { run, from } = await on.call('robin', ops('agent.handoff'), { run_id: old, to_agent: 'agent_devin', context: { done: 1 } })
    assert.deepEqual([from.id, from.state, from.reason], [old, 'failed', 'handed_off'])
    assert.deepEqual([run.agent_id, run.state, run.correlation_id, run.continues], ['agent_devin', 'running', from.correlation_id, old])
    const { request } = await on.call('devin', ops('run.get'), { run_id: run.id })
    assert.deepEqual([request.input, request.context], [{ diff: 'a.patch' }, { done: 1 }])
    assert.equal((await on.call('robin', ops('run.get'), { run_id: old })).run.state, 'failed')
    await on.refused('INVALID_TRANSITION', 'robin', ops('run.complete'), { run_id: old })
  },
)
must(['A-ERR-04', 'M-FOREIGN'], 'a run that is not there or not one’s own is not found, whatever one tries', async () => {
  const on = await stage(delegation.scenes['working'])
  const attempts: Record<string, object> = {
    'run.start': {},
    'run.progress': {},
    'run.ask': { message: 'x' },
    'run.complete': {},
    'run.fail': { error: 'x' },
    'run.report': { type: 'needs_input', payload: { prompt: 'x' } },
    'agent.handoff': { to_agent: 'agent_robin' },
    'agent.steer': { text: 'x' },
    'agent.cancel': {},
    'mailbox.ack': { number: 1 },
    'memo.put': { key: 'k', value: 1 },
    'memo.get': { key: 'k' },
    'run.get': {},
  }
  for (const run_id of [on.refs['run'].id, 'run_none'])
    for (const as of ['robin', 'spy'])
      for (const [op, input] of Object.entries(attempts)) await on.refused('RUN_NOT_FOUND', as, ops(op), { run_id, ...input })
  const extending = { runs: [{ run_id: on.refs['run'].id, attempt: 1 }] }
  await on.refused('RUN_NOT_FOUND', 'robin', ops('mailbox.extend'), extending)
  assert.deepEqual((await on.call('robin', ops('mailbox.take'), { run_id: on.refs['run'].id })).items, [])
  await on.refused('UNAUTHORIZED', 'robin', ops('mailbox.take'), { agent_id: 'agent_devin' })
  assert.deepEqual((await on.call('robin', ops('run.list'), { task_id: on.refs['task'].id })).items, [])
})
must(['A-ERR-04', 'M-FOREIGN'], 'who once worked on a task reads all of its runs and acts on none but its own', async () => {
  const on = await stage('in_progress')
  await on.call('admin', 'ownership.transfer', { task_id: on.refs['task'].id, to: 'agent_robin' })
  const [, run] = await runsOf(on)
  assert.equal((await on.call('devin', ops('run.get'), { run_id: run.id })).run.agent_id, 'agent_robin')
  await on.refused('RUN_NOT_FOUND', 'devin', ops('run.progress'), { run_id: run.id })
  await on.refused('RUN_NOT_FOUND', 'devin', ops('run.fail'), { run_id: run.id, error: 'x' })
  await on.refused('UNAUTHORIZED', 'alice', ops('run.fail'), { run_id: run.id, error: 'x' })
})
must(
  ['A-EVT-01', 'A-EVT-02', 'A-EVT-03', 'A-EVT-04', 'A-CONF-03', 'A-CONF-05'],
  'the events of a run, each with its correlation id, can be followed from any place on',
  async () => {
    const on = await stage('in_progress')
    const task_id = on.refs['task'].id
    const run = await runOf(on)
    await on.call('devin', ops('run.progress'), { run_id: run.id, message: 'Half.', percent: 50 })
    const { checkpoint } = await on.call('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
    await on.call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
    await on.call('devin', 'artifact.commit', { task_id, payload: { kind: 'inline', uri: 'data:,x' } })
    const { artifact } = { artifact: (await on.task()).artifacts[0] }
    await on.call('alice', 'review.submit', { task_id, artifact_id: artifact, verdict: 'changes_requested', requested_changes: ['x'] })
    await on.call('alice', 'task.cancel', { task_id, reason: 'enough' })
    const events = await eventsOf(on, 'rita', { task_id }, 5)
    assert.deepEqual(
      events.map(({ type, payload }) => [type, payload]),
      [
        ['run.started', {}],
        ['run.progress', { message: 'Half.', percent: 50 }],
        ['run.blocked', { checkpoint_id: checkpoint.id, reason: 'approval' }],
        ['run.completed', { result: { artifact_id: artifact, version: 'v1' } }],
        ['run.failed', { reason: 'cancelled', error: 'enough' }],
      ],
    )
    for (const event of events) assert.equal(event.correlation_id, task_id)
    const runs = (await runsOf(on)).map(({ id }) => id as string)
    assert.deepEqual(
      events.map(({ run_id }) => runs.indexOf(run_id)),
      [0, 0, 0, 0, 1],
    )
    const rest = await eventsOf(on, 'alice', { run_id: runs[0] }, 2, events[1].place)
    assert.deepEqual(
      rest.map(({ type }) => type),
      ['run.blocked', 'run.completed'],
    )
    const [last] = await eventsOf(on, 'alice', { run_id: runs[1] }, 1)
    assert.deepEqual([last.type, last.run_id], ['run.failed', runs[1]], 'of one run only')
    const [again] = await eventsOf(on, 'alice', { run_id: runs[1], all: true }, 1)
    assert.deepEqual(again.payload, { to_agent: 'agent_devin', continues: runs[0] })
    const all = await eventsOf(on, 'devin', { run_id: runs[0], all: true }, 6)
    assert.deepEqual(
      all.map(({ type }) => type),
      ['run.delegated', 'run.started', 'run.progress', 'run.blocked', 'run.resumed', 'run.completed'],
    )
    const { items } = await on.call('alice', 'audit.query', { task_id, limit: 200 })
    const ids = items.map(({ id }: any) => id)
    for (const { id } of all) assert.ok(ids.includes(id), 'each is an event of the record')
  },
)
must('A-EVT-04', 'who may not read the task follows none of its runs', async () => {
  const on = await stage('in_progress')
  const run = await runOf(on)
  for (const input of [{ run_id: run.id }, { task_id: run.correlation_id }, { root_task_id: run.correlation_id }])
    for (const as of ['bob', 'mallory', 'robin']) await assert.rejects(eventsOf(on, as, input, 1), { code: 'RUN_NOT_FOUND' })
  await assert.rejects(eventsOf(on, 'alice', {}, 1), { code: 'INVALID_REQUEST' })
})
must('A-DEL-03', 'a run that no attempt brings to the webhook of its agent fails, and says so', async () => {
  const closing: (() => unknown)[] = []
  const { url, got } = await receiver({ after: (close) => void closing.push(close as () => void) }, answering(503))
  const world = await createWorld({ now: Date.now })
  const worker = runWebhookAgents(
    world.kernel,
    { allowsPrivate: true, attemptsMax: 3, random: () => 0, timeoutMs: 2_000 },
    realClock,
    silent,
  )
  try {
    await world.call('devin', ops('agent.publish'), { name: 'Devin', reach: 'webhook', endpoint: url })
    const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal: 'Fix the login bug' } })
    const task_id = task.id as string
    await world.call('alice', 'collaboration/task.assign', { task_id, assignee: 'agent_devin' })
    const now = async () => (await world.call('alice', 'collaboration/task.get', { task_id })).task
    await until(async () => (await now()).state === 'blocked')
    assert.equal(got.length, 3)
    const [event] = await eventsOf({ world } as Stage, 'alice', { task_id }, 1)
    assert.deepEqual([event.type, event.payload.reason], ['run.failed', 'unreachable'])
    assert.match(event.payload.error, /^agent_devin was not reached in 3 attempts: .*503/)
    const { pending_checkpoint: checkpoint_id } = await now()
    const { checkpoint } = await world.call('alice', 'collaboration/checkpoint.get', { checkpoint_id })
    assert.deepEqual([checkpoint.kind, checkpoint.raised_by], ['escalation', 'agent_system'], 'and its person is asked')
  } finally {
    await worker.stop()
    closing.forEach((close) => close())
  }
})
