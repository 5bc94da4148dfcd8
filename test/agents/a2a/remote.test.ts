// A remote agent as a delegate (`reach: a2a`): its task, its questions, its artifacts, and what it must not do.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test, type TestContext } from 'node:test'
import { runRemoteAgents } from '#agents/a2a/agents.ts'
import { realClock } from '#apps/server/clock.ts'
import { openBlobs } from '#stores/blobs/index.ts'
import { startFakeRemote } from '../../support/a2a/fake-remote.ts'
import { approveAll, serveSteered } from '../../support/a2a/steered-agent.ts'
import { openStage } from '../../support/as-processes/agents.ts'
import { silent } from '../../support/in-process/worker-world.ts'
import { createWorld } from '../../support/in-process/world.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-a2a-test-'))
after(() => rmSync(folder, { recursive: true, force: true }))

async function until<T>(look: () => Promise<T | false | undefined | null> | T | false | undefined | null): Promise<T> {
  for (let i = 0; i < 3_000; i++) {
    const found = await look()
    if (found) return found
    await new Promise((done) => setTimeout(done, 10))
  }
  throw new Error('it did not happen')
}

async function employ(t: TestContext, endpoint: string, { credential = 'secret-of-theirs', allowsPrivate = true } = {}) {
  const blobs = await openBlobs(mkdtempSync(join(folder, 'blobs-')), { fatal: () => undefined })
  const world = await createWorld({ now: Date.now, sleep: realClock.sleep, blobs })
  const call = (as: string, operation: string, input: object): Promise<any> => world.call(as, operation, input)
  const publish = (): Promise<any> =>
    call('alice', 'delegation/agent.publish', {
      agent_id: 'agent_devin',
      name: 'Writer',
      reach: 'a2a',
      endpoint,
      credential,
    })
  await publish()
  const open = () => {
    const worker = runRemoteAgents(world.kernel, blobs, { allowsPrivate, attemptsMax: 3, random: () => 0 }, realClock, silent)
    t.after(() => worker.stop())
    return worker
  }
  t.after(() => world.kernel.release())
  const { task } = await call('alice', 'collaboration/task.create', { spec: { goal: 'Write a haiku' }, reviewers: ['user_rita'] })
  const task_id = task.id as string
  await call('alice', 'collaboration/task.assign', { task_id, assignee: 'agent_devin' })
  const run = async (): Promise<any> => (await call('alice', 'delegation/run.list', { task_id })).items.at(-1)
  return {
    world,
    call,
    publish,
    open,
    worker: open(),
    task_id,
    run,
    task: async (): Promise<any> => (await call('alice', 'collaboration/task.get', { task_id })).task,
    checkpoint: (): Promise<any> => until(async () => (await call('alice', 'collaboration/checkpoint.list', { task_id })).items.at(-1)),
    failed: (): Promise<any> => until(async () => (await run()).state === 'failed' && run()),
    delivered: (): Promise<any> =>
      until(async () => (await call('alice', 'collaboration/task.get', { task_id })).task.state === 'review_ready'),
    texts: async (): Promise<string[]> => {
      const { task: now } = await call('alice', 'collaboration/task.get', { task_id })
      const found = await Promise.all(
        now.artifacts.map((artifact_id: string) => call('alice', 'collaboration/artifact.get', { artifact_id })),
      )
      return found.map(({ artifact }) =>
        artifact.payload.uri.startsWith('data:')
          ? Buffer.from(artifact.payload.uri.split(',')[1], 'base64').toString()
          : artifact.payload.media_type,
      )
    },
  }
}

describe('a remote agent as a delegate', () => {
  test('it gets the task once, its question goes to the people and their answer back, and its artifacts are delivered', async (t) => {
    const remote = await startFakeRemote(t)
    remote.newKey('k1')
    const on = await employ(t, `${remote.url}/writer`)
    await until(() => remote.tasks.size === 1)
    const [{ message, configuration }] = remote.said('SendMessage')
    assert.match(message.parts[0].text, /^Task: Write a haiku\n/)
    assert.deepEqual(configuration, { returnImmediately: true })
    assert.ok(remote.heard.every(({ authorization }) => authorization === 'Bearer secret-of-theirs'))
    remote.move('WORKING', 'counting syllables')
    await until(async () => (await on.run()).progress?.message === 'counting syllables')
    await on.call('alice', 'collaboration/task.amend', { task_id: on.task_id, text: 'about the sea', intent: 'clarify' })
    await until(() => remote.said('SendMessage').some((one) => one.message.parts[0].text === 'about the sea'))
    remote.move('INPUT_REQUIRED', 'Which season?')
    const { id, kind, prompt } = await on.checkpoint()
    assert.deepEqual([kind, prompt], ['input', 'Which season?'])
    // A restart in between asks nothing again.
    await on.worker.stop()
    on.open()
    await on.call('alice', 'collaboration/checkpoint.resolve', { checkpoint_id: id, action: 'provide', input: 'autumn' })
    await until(() => [...remote.tasks.values()][0]!.status.state === 'TASK_STATE_WORKING')
    remote.move('COMPLETED', '', [
      { artifactId: 'a-1', name: 'haiku', parts: [{ text: 'first' }, { text: 'second' }] },
      { artifactId: 'a-2', parts: [{ data: { syllables: 17 } }] },
    ])
    await on.delivered()
    assert.deepEqual(await on.texts(), ['first\n\nsecond', 'application/json'])
    const said = remote.said('SendMessage').map((one) => [one.message.taskId ?? null, one.message.parts[0].text.split('\n')[0]])
    assert.deepEqual(said, [
      [null, 'Task: Write a haiku'],
      ['task-1', 'about the sea'],
      ['task-1', 'autumn'],
    ])
    assert.equal((await on.call('alice', 'collaboration/checkpoint.list', { task_id: on.task_id })).items.length, 1)
  })

  test('it waits for an authorization that people give elsewhere, and a rework goes on in its context', async (t) => {
    const remote = await startFakeRemote(t)
    const on = await employ(t, `${remote.url}/writer/.well-known/agent-card.json`)
    await until(() => remote.tasks.size === 1)
    remote.move('AUTH_REQUIRED', 'Sign in at example.com')
    const { id, kind, prompt } = await on.checkpoint()
    assert.deepEqual([kind, prompt], ['escalation', 'At the remote agent: Sign in at example.com'])
    await on.call('alice', 'collaboration/checkpoint.resolve', { checkpoint_id: id, action: 'approve', comment: 'signed in' })
    await until(() => remote.said('SendMessage').some((one) => one.message.parts[0].text === 'signed in'))
    remote.move('COMPLETED', 'here it is')
    await on.delivered()
    const { delivered } = await on.task()
    await on.call('rita', 'collaboration/review.submit', {
      task_id: on.task_id,
      artifact_id: delivered.artifact_id,
      verdict: 'changes_requested',
      requested_changes: ['shorter'],
    })
    await until(() => remote.tasks.size === 2)
    const messages = remote.said('SendMessage').map((one) => one.message)
    assert.equal(messages.at(-1).contextId, messages[0].contextId)
    assert.match(messages.at(-1).parts[0].text, /- shorter/)
  })

  test('a message whose answer was lost is not sent again, and a cancelled task is cancelled there', async (t) => {
    const remote = await startFakeRemote(t)
    remote.cuts = 1
    const on = await employ(t, `${remote.url}/writer`)
    await until(() => remote.said('GetTask').length > 0)
    assert.deepEqual([remote.tasks.size, remote.said('SendMessage').length], [1, 1])
    remote.move('INPUT_REQUIRED', 'Which season?')
    await on.checkpoint()
    // No conversation is open here while a person thinks.
    await on.call('alice', 'collaboration/task.cancel', { task_id: on.task_id })
    await until(() => remote.said('CancelTask').length > 0)
    assert.equal([...remote.tasks.values()][0]!.status.state, 'TASK_STATE_CANCELED')
  })

  for (const [state, words] of [
    ['FAILED', 'the remote agent failed: no ink'],
    ['REJECTED', 'the remote agent rejected the task: no ink'],
    ['CANCELED', 'the task was cancelled at the remote agent: no ink'],
  ] as const)
    test(`${state} there fails the run with the reason, and the person is asked`, async (t) => {
      const remote = await startFakeRemote(t)
      const on = await employ(t, `${remote.url}/writer`)
      await until(() => remote.tasks.size === 1)
      remote.move(state, 'no ink')
      assert.equal((await on.failed()).error, words)
      assert.equal((await on.checkpoint()).kind, 'escalation')
    })

  test('an agent that answers with a message alone has delivered it', async (t) => {
    const remote = await startFakeRemote(t)
    remote.answerOf = (method) =>
      method === 'SendMessage' ? { message: { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text: 'old pond' }] } } : undefined
    const on = await employ(t, `${remote.url}/writer`)
    await on.delivered()
    assert.deepEqual(await on.texts(), ['old pond'])
  })

  test('a card that changes its key gets no work until it is published again, and says so in the record', async (t) => {
    const remote = await startFakeRemote(t)
    remote.newKey('k1')
    const on = await employ(t, `${remote.url}/writer`)
    await until(() => remote.tasks.size === 1)
    remote.move('COMPLETED', 'one')
    await on.delivered()
    remote.newKey('k2')
    const second = async () => {
      const { task } = await on.call('alice', 'collaboration/task.create', { spec: { goal: 'Again' } })
      await on.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
      return task.id as string
    }
    const task_id = await second()
    const run = await until(async () => (await on.call('alice', 'delegation/run.list', { task_id, state: 'failed' })).items[0])
    assert.match(run.error, /not signed by the key that was seen first/)
    remote.key = null
    const unsigned = await second()
    await until(async () => (await on.call('alice', 'delegation/run.list', { task_id: unsigned, state: 'failed' })).items[0])
    assert.equal(remote.tasks.size, 1)
    remote.newKey('k2')
    await on.publish()
    await second()
    await until(() => remote.tasks.size === 2)
  })

  const refusals: readonly (readonly [string, (remote: Awaited<ReturnType<typeof startFakeRemote>>) => void, RegExp])[] = [
    ['a card with calls at another server', (remote) => (remote.card = { supportedInterfaces: [{ url: 'http://127.0.0.2:1/x', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }] }), /another server/],
    ['a card of another version', (remote) => (remote.card = { supportedInterfaces: [{ url: remote.url, protocolBinding: 'JSONRPC', protocolVersion: '0.3' }] }), /offers no A2A 1.0/],
    ['a task without an id', (remote) => (remote.answerOf = () => ({ task: { status: {} } })), /no id or no state/],
    ['a refusal', (remote) => (remote.answerOf = () => ({ error: { code: -32_001, message: 'there is no such task' } })), /refused: there is no such task/],
  ] // prettier-ignore
  for (const [what, spoil, words] of refusals)
    test(`${what} fails the run, and the credential stays here`, async (t) => {
      const remote = await startFakeRemote(t)
      spoil(remote)
      const on = await employ(t, `${remote.url}/writer`)
      assert.match((await on.failed()).error, words)
    })

  test('a private address is refused unless the operator allows it, and its credential belongs to its server', async (t) => {
    const remote = await startFakeRemote(t)
    const on = await employ(t, `${remote.url}/writer`, { allowsPrivate: false })
    assert.match((await on.failed()).error, /plain http|not a public one/)
    assert.deepEqual(remote.heard, [])
    const card = await on.call('devin', 'delegation/agent.card', { agent_id: 'agent_devin' })
    assert.ok(!JSON.stringify(card).includes('secret-of-theirs'))
    await assert.rejects(
      on.call('alice', 'delegation/agent.publish', { agent_id: 'agent_devin', name: 'W', reach: 'a2a' }),
      /endpoint is missing/,
    )
    await assert.rejects(
      on.call('alice', 'delegation/agent.publish', { agent_id: 'agent_devin', name: 'W', reach: 'pull', credential: 'x' }),
      /credential is for agents that are reached by a2a/,
    )
  })

  test('an agent of another Countersign works as a delegate, and asks through both', async (t) => {
    const stage = await openStage()
    t.after(() => stage.close())
    const agent = await stage.agent('writer')
    await stage.system('delegation/agent.publish', { agent_id: agent.id, name: 'Writer', concurrency: 4, a2a: true })
    const { key } = (await stage.system('identity/key.issue', { subject: 'user_owner' })) as { key: string }
    const serving = serveSteered(stage, agent)
    const rest = approveAll(stage)
    t.after(async () => {
      rest()
      await serving.stop()
    })
    const on = await employ(t, `${stage.server.url}/a2a/${agent.id}`, { credential: key })
    await on.delivered()
    assert.deepEqual(await on.texts(), ['Generated text content'])
  })
})
