// Questions of an agent within its run: a request that its task waits for, answered in the inbox or at the checkpoint, with a receipt.
import assert from 'node:assert/strict'
import { after, before, test, type TestContext } from 'node:test'
import { Declined, NotAnswered, NotApproved, Rejected, serve, type Handler } from 'countersign/agent'
import type { Run } from 'countersign/agent'
import { createClient, type Client, type Questions } from '#sdk/index.ts'
import { openStage, until, type Agent, type Stage } from '../support/as-processes/agents.ts'

let stage: Stage
let owner: Client
before(async () => {
  stage = await openStage()
  owner = stage.owner
})
after(() => stage.close())

async function working(t: TestContext, handler: Handler<any>, more: object = {}): Promise<{ agent: Agent; task_id: string }> {
  const agent = await stage.agent()
  const own = serve(agent.id, handler, { url: stage.server.url, key: agent.key, waitMs: 5_000, graceMs: 500, onError: () => undefined })
  own.done.catch(() => undefined)
  t.after(() => own.stop())
  return { agent, task_id: await stage.assign(agent, 'Deploy it', more) }
}
const opened = (task_id: string, title: string): Promise<any> =>
  until(async () => (await owner.execution.inbox.list({ task_id })).items.find((item) => item.title === title), `${title} is asked`)
async function answer(task_id: string, title: string, result: unknown, reason?: string): Promise<void> {
  const { request_id, digest } = await opened(task_id, title)
  await owner.execution.request.resolve({ request_id, digest, result, ...(reason === undefined ? {} : { reason }) })
}

test('asks in every way through the inbox, and gets verified receipts', async (t) => {
  const heard: any[] = []
  const { agent, task_id } = await working(t, async (run) => {
    heard.push(await run.ask.approve('May I?', { details: { sha: '1f0c' }, context: 'All green.', priority: 'high' }))
    heard.push(await run.ask.decide('Which colour?', ['red', 'blue']))
    heard.push(await run.ask.provide('Which branch?'))
    heard.push(await run.ask.verify('It works', { evidence: [{ kind: 'text', text: 'All tests pass.' }] }))
    await run.commit('done')
  })
  const item = await opened(task_id, 'May I?')
  assert.deepEqual([item.kind, item.action, item.priority, item.agent.id], ['request', 'APPROVE', 'high', agent.id])
  assert.deepEqual(item.card.payload, { item: 'May I?', details: { sha: '1f0c' }, context: 'All green.' })
  await answer(task_id, 'May I?', 'approved', 'Go.')
  await answer(task_id, 'Which colour?', 'blue')
  await answer(task_id, 'Which branch?', 'main')
  await answer(task_id, 'It works', 'refuted', 'It does not start.')
  await stage.taskIn(task_id, 'review_ready')
  assert.deepEqual(
    heard.map(({ result, reason, verified, receipt, request, resolution: { by, action } }) => [
      result,
      reason,
      verified,
      receipt.status,
      request.action,
      by,
      action,
    ]),
    [
      ['approved', 'Go.', true, 'completed', 'APPROVE', 'user_owner', 'approve'],
      ['blue', null, true, 'completed', 'DECIDE', 'user_owner', 'choose'],
      ['main', null, true, 'completed', 'PROVIDE', 'user_owner', 'provide'],
      ['refuted', 'It does not start.', true, 'completed', 'VERIFY', 'user_owner', 'choose'],
    ],
  )
})

test('a no in the inbox is an answer: the handler gets it, and its task continues', async (t) => {
  let heard: unknown
  const { task_id } = await working(t, async (run) => {
    await run.ask.approve('May I?').catch((error: unknown) => (heard = error))
    await run.commit('the other way')
  })
  await answer(task_id, 'May I?', 'rejected', 'Not like this.')
  await stage.taskIn(task_id, 'review_ready')
  assert.ok(heard instanceof Rejected)
  assert.ok(heard instanceof NotApproved, 'as client.hxp throws it')
  assert.deepEqual([heard.isFinal, heard.reason, heard.answer?.verified], [false, 'Not like this.', true])
})

test('a no that the handler does not catch fails its run, and a person is asked what to do', async (t) => {
  const { task_id } = await working(t, (run) => run.ask.approve('May I?'))
  await answer(task_id, 'May I?', 'rejected', 'Never.')
  const { kind, prompt } = await stage.question(task_id)
  assert.equal(kind, 'escalation')
  assert.match(prompt, /Never\./)
})

test('a no at the checkpoint ends the task', async (t) => {
  const heard = Promise.withResolvers<unknown>()
  const { task_id } = await working(t, (run) => run.ask.approve('May I?').catch(heard.resolve))
  const { id } = await stage.question(task_id)
  await owner.collaboration.checkpoint.resolve({ checkpoint_id: id, action: 'reject', comment: 'Stop.' })
  const error = await heard.promise
  assert.ok(error instanceof Rejected)
  assert.deepEqual([error.isFinal, error.message], [true, 'Stop.'])
  await stage.taskIn(task_id, 'completed')
})

test('a timeout reaches the handler as a timeout, never as a yes or as text', async (t) => {
  const heard: unknown[] = []
  const { task_id } = await working(t, async (run) => {
    const soon = { timeout_seconds: 1, fallback: 'fail' } as const
    await run.ask.approve('Quick?', soon).catch((error: unknown) => heard.push(error))
    await run.ask.provide('Quicker?', soon).catch((error: unknown) => heard.push(error))
    await run.commit('without')
  })
  await stage.taskIn(task_id, 'review_ready')
  for (const error of heard) {
    assert.ok(error instanceof NotAnswered, String(error))
    assert.deepEqual([error.status, error.reason], ['failed', 'timeout'])
  }
  assert.equal(heard.length, 2)
})

test('an unanswerable question reaches the handler with its reason, for every form of question', async (t) => {
  const heard: unknown[] = []
  const { task_id } = await working(t, async (run) => {
    await run.ask.provide('The token?').catch((error: unknown) => heard.push(error))
    // Evidence makes it a checkpoint: the person is asked what becomes of the task before the handler hears of it.
    await run.ask.provide('The key?', { context: [{ kind: 'text', text: 'It is locked.' }] }).catch((error: unknown) => heard.push(error))
    await run.commit('without')
  })
  const first = await stage.question(task_id)
  await owner.execution.request.decline({ request_id: first.request_id!, reason: 'Not to a script.' })
  const second = await until(async () => (await stage.question(task_id)).id !== first.id && stage.question(task_id), 'it asks again')
  await owner.collaboration.checkpoint.decline({ checkpoint_id: second.id, reason: 'Never.' })
  const third = await until(async () => (await stage.question(task_id)).id !== second.id && stage.question(task_id), 'the system asks')
  assert.equal(heard.length, 1)
  await owner.collaboration.checkpoint.resolve({ checkpoint_id: third.id, action: 'approve', comment: 'Go on without it.' })
  await stage.taskIn(task_id, 'review_ready')
  assert.deepEqual(
    heard.map((error) => error instanceof Declined && error.said),
    ['Not to a script.', 'Never.'],
  )
})

test('a grant answers immediately, and the task never waits', async (t) => {
  const gate = Promise.withResolvers<void>()
  let heard: any
  const { task_id } = await working(t, async (run) => {
    await run.progress('ready')
    await gate.promise
    heard = await run.ask.approve('Deploy?', { scope: 'deploy' })
    await run.commit('done')
  })
  await until(async () => (await stage.runsOf(task_id))[0]?.progress, 'it is ready')
  await owner.collaboration.grant.add({ task_id, scope: 'deploy', decision: 'allow', until: 'task' })
  gate.resolve()
  await stage.taskIn(task_id, 'review_ready')
  assert.deepEqual([heard.result, heard.verified, heard.receipt.basis.kind], ['approved', true, 'grant'])
  assert.deepEqual((await owner.collaboration.task.get({ task_id })).task.checkpoints, [])
})

test('a question that the deadline ended is asked again when the run continues', async (t) => {
  let heard: any
  const deadline = new Date(Date.now() + 2_500).toISOString()
  const { task_id } = await working(
    t,
    async (run) => {
      heard = await run.ask.approve('May I?')
      await run.commit('done')
    },
    { deadline },
  )
  const first = await opened(task_id, 'May I?')
  const own = await until(async () => {
    const question = await stage.question(task_id)
    return question.supersedes === undefined ? undefined : question
  }, 'the system asks')
  assert.equal(own.supersedes.prompt, 'May I?')
  await owner.collaboration.task.extend({ task_id, deadline: null })
  await owner.collaboration.checkpoint.resolve({ checkpoint_id: own.id, action: 'approve' })
  const second = await opened(task_id, 'May I?')
  assert.notEqual(second.request_id, first.request_id)
  assert.equal(typeof heard, 'undefined', 'that it may go on is no answer to its question')
  await answer(task_id, 'May I?', 'approved')
  await stage.taskIn(task_id, 'review_ready')
  assert.equal(heard.receipt.request_id, second.request_id)
})

test('fields that only a checkpoint has make a question a checkpoint, and exclude those that only a request has', async (t) => {
  const refused: unknown[] = []
  const { task_id } = await working(t, async (run) => {
    const actions = [{ id: 'a', kind: 'sql', summary: 'Drop the table', risk: 'high' as const }]
    await run.ask.approve('Shall I?', { proposed_actions: actions, priority: 'high' }).catch((error: unknown) => refused.push(error))
    await run.ask.approve('Shall I?', { proposed_actions: actions, context: 'It is old.' })
    await run.ask.decide('x'.repeat(301), ['a', 'b'])
    await run.ask.decide('Which of seven?', ['1', '2', '3', '4', '5', '6', '7'])
    refused.push(await run.ask.verify('y'.repeat(301)))
    await run.commit('done')
  })
  const first = await stage.question(task_id)
  assert.deepEqual(
    [first.kind, first.request_id, first.proposed_actions[0].summary, first.context],
    ['approval', undefined, 'Drop the table', [{ kind: 'text', text: 'It is old.' }]],
  )
  assert.ok(refused[0] instanceof TypeError)
  await owner.collaboration.checkpoint.resolve({ checkpoint_id: first.id, action: 'approve' })
  for (const choice of ['b', '7', 'refuted']) {
    const { id, request_id } = await stage.question(task_id)
    assert.equal(request_id, undefined)
    await owner.collaboration.checkpoint.resolve({ checkpoint_id: id, action: 'choose', choice })
    await until(
      async () => (await owner.collaboration.checkpoint.get({ checkpoint_id: id })).checkpoint.state !== 'pending',
      'it is answered',
    )
  }
  await stage.taskIn(task_id, 'review_ready')
  assert.equal((refused[1] as { result: string }).result, 'refuted')
})

test('a yes that approves none of the proposed actions is a no, and the task continues', async (t) => {
  let heard: unknown
  const { task_id } = await working(t, async (run) => {
    const proposed_actions = [{ id: 'a', kind: 'sql', summary: 'Drop the table', risk: 'high' as const }]
    await run.ask.approve('Shall I?', { proposed_actions }).catch((error: unknown) => (heard = error))
    await run.commit('without it')
  })
  const { id } = await stage.question(task_id)
  await owner.collaboration.checkpoint.resolve({ checkpoint_id: id, action: 'approve', approved_actions: [] })
  await stage.taskIn(task_id, 'review_ready')
  assert.ok(heard instanceof Rejected)
  assert.deepEqual([heard.isFinal, heard.resolution.denied_actions], [false, ['a']])
})

test('run.ask and client.hxp take the same questions and give the same results', async (t) => {
  /** Compiles for both, or for neither. */
  async function ask(questions: Questions): Promise<unknown[]> {
    const yes = await questions.approve('Go on?', { details: { sha: '1f0c' }, reject_requires_reason: true, priority: 'high' })
    const colour = await questions.decide('Which?', ['red', 'blue'], { default_option: 'red', context: 'For the button.' })
    const count = await questions.provide('How many?', { input_type: 'number', validation: { min: 1 } })
    const results: ['approved', 'red' | 'blue', number] = [yes.result, colour.result, count.result]
    const no = await questions.approve('Really?', { key: 'no' }).catch((error: unknown) => error)
    assert.ok(no instanceof NotApproved)
    return [...results, yes.verified, yes.receipt?.status, yes.request?.payload, no.reason, no.answer?.result]
  }
  const answers = ['approved', 'blue', 42, 'rejected']
  let inRun: unknown
  const { task_id } = await working(t, async (run: Run) => {
    inRun = await ask(run.ask)
    await run.commit('done')
  })
  for (const [i, title] of ['Go on?', 'Which?', 'How many?', 'Really?'].entries()) await answer(task_id, title, answers[i], 'Because.')
  await stage.taskIn(task_id, 'review_ready')
  const agent = await stage.agent()
  const client = createClient({ url: stage.server.url, key: agent.key })
  t.after(() => client.close())
  const asked = ask(client.hxp)
  for (const [i, title] of ['Go on?', 'Which?', 'How many?', 'Really?'].entries()) {
    const item = await until(
      async () => (await owner.execution.inbox.list({ agent_id: agent.id })).items.find((one) => one.title === title),
      title,
    )
    const { request_id, digest } = item as { request_id: string; digest: string }
    await owner.execution.request.resolve({ request_id, digest, result: answers[i], reason: 'Because.' })
  }
  assert.deepEqual(await asked, inRun)
  assert.deepEqual((inRun as unknown[]).toSpliced(5, 1), ['approved', 'blue', 42, true, 'completed', 'Because.', 'rejected'])
})
