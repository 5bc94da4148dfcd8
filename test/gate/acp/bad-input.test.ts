// Bad input of agents and editors to the ACP proxy: it is ignored, refused with a reason or ends the session, and never allows a call.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../gate-world.ts'
import { choose, connect, openAcpWorld, waitingCall } from './acp-world.ts'

const run = { title: 'rm', kind: 'execute', rawInput: { command: 'rm' } }
const frame = (params: object, more = ''): string =>
  `{"jsonrpc":"2.0","id":"raw","method":"session/request_permission"${more},"params":${JSON.stringify(params)}}`

test('Malformed questions are refused by name, and no person is asked', async (t) => {
  const world = await openAcpWorld(t)
  const { editor } = await connect(t, world)
  const option = { optionId: 'a', kind: 'allow_once', name: 'A' }
  await editor.prompt([
    { ask: run, options: [{ kind: 'allow_once', name: 'A' }] },
    { ask: run, options: [option, { ...option, kind: 'reject_once' }] },
    { ask: run, options: 'all' },
    { ask: { ...run, toolCallId: 7 } },
    { ask: { ...run, toolCallId: '' } },
    { ask: run, options: Array.from({ length: 51 }, (_, i) => ({ ...option, optionId: String(i) })) },
    { ask: { ...run, rawInput: { deep: JSON.parse(`${'['.repeat(40)}${']'.repeat(40)}`) as unknown } } },
  ])
  assert.deepEqual(world.effects(), [
    'p1 error options[0].optionId must be a text of 1 to 200 characters',
    'p2 error options[1].optionId "a" is used twice',
    'p3 error options must be a list of at most 50 options',
    'p4 error toolCall.toolCallId must be a text of 1 to 200 characters',
    'p5 error toolCall.toolCallId must be a text of 1 to 200 characters',
    'p6 error options must be a list of at most 50 options',
    'p7 error the question repeats keys, is nested too deep or holds text that is none',
  ])
  assert.deepEqual([editor.questions(), await world.calls()], [[], []])
})

test('A malformed line, a batch, and a question hidden behind a repeated key reach neither side', async (t) => {
  const world = await openAcpWorld(t)
  const { editor, notes } = await connect(t, world)
  const params = { sessionId: 's1', toolCall: { toolCallId: 't' }, options: [] }
  await editor.prompt([
    { raw: 'Warning: something' },
    { raw: '{"jsonrpc":"2.0","id":1' },
    { raw: `[${frame(params)}]` },
    { raw: '{"jsonrpc":"2.0","id":{"a":1},"method":"session/request_permission"}' },
    { raw: frame(params, ',"method":"session/update"') },
    { raw: '{"jsonrpc":"2.0","method":"session/update","id":"twice","method":"session/request_permission","params":{}}' },
    { raw: '{"jsonrpc":"2.0","id":"never asked","result":{}}' },
  ])
  const foreign = editor.heard.filter(({ method }) => method === 'session/request_permission')
  assert.deepEqual(foreign, [])
  assert.ok(editor.heard.every((message) => !Array.isArray(message) && message.id !== 'never asked'))
  assert.equal(notes.filter((note) => note.includes('not a frame')).length, 4)
  assert.ok(world.effects().every((line) => line.startsWith('stray')))
  assert.deepEqual(await world.calls(), [])
})

test('Answers of the editor that were not asked for, come twice or come late are dropped', async (t) => {
  const world = await openAcpWorld(t)
  const { editor } = await connect(t, world)
  editor.raw('not json\n[]\n{"id":1}\n')
  const yes = { outcome: { outcome: 'selected', optionId: 'allow_once' } }
  for (const id of ['p1', 'p9', 7]) editor.send({ id, result: yes })
  const turn = editor.prompt([{ ask: run }])
  await until(() => editor.questions().length === 1)
  await waitingCall(world)
  assert.deepEqual(world.effects(), [])
  editor.send({ id: 'p1', result: { outcome: { outcome: 'selected', optionId: 'reject_once' } } })
  editor.send({ id: 'p1', result: yes })
  await turn
  editor.send({ id: 'p1', result: yes })
  await editor.prompt([])
  assert.deepEqual(world.effects(), ['p1 reject_once'])
  assert.equal((await world.calls()).length, 1)
})

test('An answer without sense counts as cancelled', async (t) => {
  const world = await openAcpWorld(t)
  const { editor } = await connect(t, world)
  const answers = [
    undefined,
    {},
    { outcome: 'allow_once' },
    { outcome: { outcome: 'selected' } },
    { outcome: { outcome: 'cancelled', optionId: 'allow_once' } },
  ]
  const orders = answers.map((_, i) => ({ ask: { ...run, title: String(i) } }))
  editor.answer = (_, { id }) => answers[Number(String(id).slice(1)) - 1]
  await editor.prompt(orders)
  assert.deepEqual(
    world.effects(),
    answers.map((_, i) => `p${i + 1} cancelled`),
  )
})

test('A repeated id of an open question is dropped', async (t) => {
  const world = await openAcpWorld(t)
  const { editor, notes } = await connect(t, world)
  editor.answer = choose('allow_once')
  await editor.prompt([
    { ask: run, id: 'same', go: true },
    { ask: { ...run, title: 'other' }, id: 'same' },
  ])
  assert.deepEqual(world.effects(), ['same allow_once'])
  assert.ok(notes.some((note) => note.includes('used the id "same" again')))
})

test('A line beyond the bound ends the session of either side', async (t) => {
  const world = await openAcpWorld(t)
  const first = await connect(t, world)
  void first.editor.prompt([{ ask: run, go: true }, { long: 50 * 1024 * 1024 }])
  await first.ended
  assert.ok(first.notes.some((note) => note.includes('the agent sent a line of more than 33554432 bytes')))
  const second = await connect(t, world)
  void second.editor.prompt([{ ask: run }])
  await until(() => second.editor.questions().length === 1)
  second.editor.raw('x'.repeat(33 * 1024 * 1024))
  assert.equal(await second.ended, 0)
  assert.deepEqual(world.effects(), ['p1 cancelled'])
})

test('A question with 2 MB of arguments is not run, and no person is asked', async (t) => {
  const world = await openAcpWorld(t)
  const { editor } = await connect(t, world)
  editor.answer = choose('allow_once')
  await editor.prompt([{ ask: { ...run, rawInput: { x: 'x'.repeat(2_000_000) } } }])
  assert.equal(world.effects().length, 1)
  assert.doesNotMatch(world.effects()[0]!, /allow_once/)
  assert.ok((await world.calls()).every(({ state }) => state !== 'waiting' && state !== 'begun'))
})
