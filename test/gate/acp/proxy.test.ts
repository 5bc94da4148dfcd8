// The ACP proxy between an editor and its agent: one question in two places, one answer, and what passes unchanged.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../gate-world.ts'
import { choose, connect, openAcpWorld, waitingCall } from './acp-world.ts'

const run = { title: 'rm -rf build', kind: 'execute', rawInput: { command: 'rm -rf build' } }

test("The editor's answer counts as the logged-in person's, and the item says where it was given", async (t) => {
  const world = await openAcpWorld(t)
  const { editor } = await connect(t, world)
  editor.answer = choose('allow_once')
  const { result } = await editor.prompt([{ ask: run }])
  assert.deepEqual(result, { stopReason: 'end_turn' })
  assert.deepEqual(world.effects(), ['p1 allow_once'])
  const [call] = await world.calls()
  assert.equal(`${call.server}/${call.tool}`, 'acp/fake/execute')
  assert.deepEqual(call.basis, { kind: 'human', id: 'user_alice' })
  const { request, receipt } = await world.call(world.keys.alice, 'execution/request.get', { request_id: call.request_id })
  assert.equal(receipt.reason, 'answered in the editor')
  assert.deepEqual(request.payload.details.arguments.rawInput, run.rawInput)
  await until(async () => (await world.calls())[0].outcome === 'succeeded')
})

test("The inbox's answer reaches the agent, and the editor is told to close its dialog", async (t) => {
  const world = await openAcpWorld(t)
  const { editor } = await connect(t, world)
  const turn = editor.prompt([{ ask: run }, { ask: { ...run, title: 'other' } }])
  await until(() => editor.questions().length === 1)
  await world.answer('approved')
  await until(() => editor.questions().length === 2)
  await world.answer('rejected', 'use a migration')
  await turn
  assert.deepEqual(world.effects(), ['p1 allow_once', 'p2 reject_once'])
  assert.deepEqual(
    editor.closed().map(({ params }) => params.requestId),
    ['p1', 'p2'],
  )
  assert.match(editor.said(), /“rm -rf build” was approved in the inbox/)
  assert.match(editor.said(), /NOT RUN: a person rejected this call\.\nReason: use a migration/)
})

test('The policy allows and denies without a question, and the denial is explained in the chat', async (t) => {
  const world = await openAcpWorld(t)
  await world.policy({
    default: 'ask',
    rules: [
      {
        id: 'no-rm',
        tool: 'acp/*/execute',
        when: [{ at: '/rawInput/command', matches: '^rm ' }],
        then: 'deny',
        reason: 'never',
        instead: 'ask a person',
      },
      { id: 'reads', tool: 'acp/fake/read', then: 'allow' },
    ],
  })
  const { editor } = await connect(t, world)
  await editor.prompt([{ ask: { title: 'a.txt', kind: 'read' } }, { ask: run }])
  assert.deepEqual(world.effects(), ['p1 allow_once', 'p2 reject_once'])
  assert.deepEqual(editor.questions(), [])
  assert.match(editor.said(), /the policy denies this call\.\nRule: no-rm\.\nReason: never\nInstead: ask a person/)
  const [allowed, denied] = await world.calls()
  assert.equal(denied.state, 'denied')
  await until(async () => (await world.calls())[0].state === 'ended')
  assert.equal(allowed.rule, 'reads')
})

test('Options that the agent would remember are not offered, and choosing one counts as cancelled', async (t) => {
  const world = await openAcpWorld(t)
  const { editor } = await connect(t, world)
  editor.answer = choose('allow_always')
  await editor.prompt([{ ask: run }])
  assert.deepEqual(world.effects(), ['p1 cancelled'])
  assert.deepEqual(
    editor.questions()[0]!.params.options.map(({ kind }: { kind: string }) => kind),
    ['allow_once', 'reject_once'],
  )
  await until(async () => (await world.calls())[0].state === 'cancelled')
})

test('A grave question, and one for several people, is answered in the inbox, and the editor is told where', async (t) => {
  const world = await openAcpWorld(t)
  await world.policy({
    rules: [
      { id: 'grave', tool: 'acp/fake/delete', then: 'ask', risk: 'R4' },
      { id: 'two', tool: 'acp/fake/move', then: 'ask', whom: { people: ['user_alice', 'user_bob'] }, quorum: 2 },
    ],
  })
  const { editor } = await connect(t, world)
  for (const kind of ['delete', 'move']) {
    const turn = editor.prompt([{ ask: { ...run, kind } }])
    const call = await waitingCall(world)
    const link = new RegExp(`waits for an answer in the inbox: \\S+/inbox/${call.request_id}`)
    await until(() => link.test(editor.said()))
    const answer = { request_id: call.request_id, result: 'approved', surface: 'editor' }
    await assert.rejects(world.call(world.keys.alice, 'execution/request.resolve', answer), { code: 'INBOX_ONLY' })
    await world.call(world.keys.alice, 'gate/call.cancel', { call_id: call.call_id })
    await turn
  }
  assert.deepEqual(editor.questions(), [])
})

test('An answer in the editor of a person who is not asked does not count', async (t) => {
  const world = await openAcpWorld(t)
  const { editor } = await connect(t, world, { person: world.bob })
  editor.answer = choose('allow_once')
  const turn = editor.prompt([{ ask: run }])
  await until(() => /“rm -rf build” (?:is not answered yet|waits)/.test(editor.said()))
  assert.deepEqual(world.effects(), [])
  await world.answer('rejected')
  await turn
  assert.deepEqual(world.effects(), ['p1 reject_once'])
})

test('Without a login the inbox alone answers', async (t) => {
  const world = await openAcpWorld(t)
  const { editor } = await connect(t, world, { person: null })
  const turn = editor.prompt([{ ask: run }])
  await until(() => editor.said().includes('(no person is logged in here)'))
  await world.answer('approved')
  await turn
  assert.deepEqual([world.effects(), editor.questions()], [['p1 allow_once'], []])
})

test("The editor's cancel closes the item, and the agent hears `cancelled` before it", async (t) => {
  const world = await openAcpWorld(t)
  const { editor, notes } = await connect(t, world)
  const turn = editor.prompt([{ ask: run }])
  await until(() => editor.questions().length === 1)
  const { request_id } = await waitingCall(world)
  editor.send({ method: 'session/cancel', params: { sessionId: 's1' } })
  editor.send({ id: 'p1', result: { outcome: { outcome: 'selected', optionId: 'allow_once' } } })
  assert.equal((await turn).result.stopReason, 'cancelled')
  await until(async () => (await world.calls())[0].state === 'cancelled')
  const late = world.call(world.keys.alice, 'execution/request.resolve', { request_id, result: 'approved' })
  await assert.rejects(late, { code: 'ALREADY_RESOLVED' })
  assert.deepEqual(world.effects(), ['p1 cancelled', 'cancel'])
  assert.ok(notes.some((note) => note.includes('not any more')))
})

test('The item of a closed editor stays open, and its yes still reaches the agent', async (t) => {
  const world = await openAcpWorld(t)
  const { editor, ended } = await connect(t, world)
  void editor.prompt([{ ask: run }, { ask: { ...run, title: 'next' } }])
  await until(() => editor.questions().length === 1)
  editor.close()
  await world.answer('approved')
  await until(() => world.effects().length === 1)
  await world.answer('rejected')
  assert.equal(await ended, 0)
  assert.deepEqual(world.effects(), ['p1 allow_once', 'p2 reject_once'])
})

test("The agent's withdrawal closes the item and the dialog", async (t) => {
  const world = await openAcpWorld(t)
  const { editor } = await connect(t, world)
  const turn = editor.prompt([{ ask: run, go: true }, { raw: '' }, { ask: { title: 'wait', kind: 'read' }, go: true }])
  await turn
  await until(() => editor.questions().length === 2)
  await editor.prompt([{ withdraw: 'p1' }])
  await until(() => world.effects().includes('p1 cancelled'))
  await until(async () => (await world.calls())[0].state === 'cancelled')
  assert.deepEqual(
    editor.closed().map(({ params }) => params.requestId),
    ['p1'],
  )
  assert.equal((await world.calls())[1].state, 'waiting')
})

test('An expired question ends the turn, and is no refusal', async (t) => {
  const world = await openAcpWorld(t)
  await world.policy({ rules: [{ id: 'short', tool: 'acp/fake/execute', then: 'ask', expires: 'PT1S' }] })
  const { editor } = await connect(t, world)
  const { result } = await editor.prompt([{ ask: run }])
  assert.equal(result.stopReason, 'cancelled')
  assert.deepEqual(world.effects(), ['p1 cancelled', 'cancel'])
  assert.match(editor.said(), /no person answered in time\. This is not a no\./)
  assert.equal((await world.calls())[0].state, 'expired')
})

test('Without a server the editor alone decides, and it says so once', async (t) => {
  const world = await openAcpWorld(t)
  for (const options of [{ port: () => null }, { url: 'http://127.0.0.1:9' }]) {
    const { editor, notes } = await connect(t, world, options)
    editor.answer = choose('allow_once')
    await editor.prompt([{ ask: run }, { ask: run }])
    assert.deepEqual(world.effects(), ['p1 allow_once', 'p2 allow_once'])
    assert.equal(editor.said().match(/You alone decide here, and nothing is recorded/g)?.length, 1)
    assert.equal(notes.filter((note) => note.includes('The editor alone decides')).length, 1)
  }
  assert.deepEqual(await world.calls(), [])
})

test('A server that is lost while a question waits lets nothing run until it answers again', async (t) => {
  const world = await openAcpWorld(t)
  let isLost = false
  const lost = async <T>(work: () => Promise<T>): Promise<T> => {
    if (isLost) throw new Error('connect ECONNREFUSED')
    return work()
  }
  const { editor } = await connect(t, world, {
    port: (port) => ({
      ...port,
      propose: (...given) => lost(() => port.propose(...given)),
      awaitAny: (ids, _, signal) => lost(() => port.awaitAny(ids, 1, signal)),
      begin: (...given) => lost(() => port.begin(...given)),
    }),
  })
  const turn = editor.prompt([{ ask: run }, { ask: { ...run, title: 'second' } }])
  await until(() => editor.questions().length === 1)
  isLost = true
  await world.answer('approved')
  await until(() => editor.said().includes('Countersign cannot be reached'))
  assert.deepEqual(world.effects(), [])
  isLost = false
  await until(() => editor.questions().length === 2)
  await world.answer('rejected')
  await turn
  assert.deepEqual(world.effects(), ['p1 allow_once', 'p2 reject_once'])
})

test('Equal calls are asked one after the other, and each approval runs one of them', async (t) => {
  const world = await openAcpWorld(t)
  const { editor } = await connect(t, world)
  await editor.prompt([
    { ask: { ...run, toolCallId: 'a' }, go: true },
    { ask: { ...run, toolCallId: 'b' }, go: true },
  ])
  await until(() => editor.questions().length === 1)
  await world.answer('approved')
  await until(() => editor.questions().length === 2)
  assert.deepEqual(world.effects(), ['p1 allow_once'])
  await world.answer('rejected')
  await until(() => world.effects().length === 2)
  assert.deepEqual(world.effects(), ['p1 allow_once', 'p2 reject_once'])
  assert.equal((await world.calls()).length, 2)
})

test('A question without arguments has those of the earlier update, and otherwise says that they are unknown', async (t) => {
  const world = await openAcpWorld(t)
  const { editor } = await connect(t, world)
  editor.answer = choose('reject_once')
  const update = { sessionUpdate: 'tool_call', toolCallId: 'x', title: 'pay', kind: 'fetch', rawInput: { amount: 5 } }
  await editor.prompt([{ update }, { ask: { toolCallId: 'x' } }, { ask: { toolCallId: 'y', title: 'bare' }, session: 'sub_1' }])
  const detailsOf = async (i: number) =>
    (await world.call(world.keys.alice, 'execution/request.get', { request_id: (await world.calls())[i].request_id })).request.payload
      .details
  const first = await detailsOf(0)
  assert.deepEqual([first.tool, first.arguments.rawInput], ['fake/fetch', { amount: 5 }])
  assert.match(first.arguments.note, /ACP does not show what will run/)
  const second = await detailsOf(1)
  assert.equal(second.arguments.note, 'the agent does not say with which arguments')
  assert.equal(second.sub_agent, 'sub_1')
})
