// The ACP proxy between an agent and an editor that both send what no honest one would: nothing is allowed, each side gets whole frames, and
// the session goes on.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mutated, numbers, type Pick } from '../../support/laws/mutations.ts'
import { connect, openAcpWorld } from './acp-world.ts'

const CASES = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all' ? 200_000 : 2_000
const PORTION = 200
const SEED = Number(process.env['FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 31))

const options = ['allow_once', 'allow_always', 'reject_once'].map((kind) => ({ kind, optionId: kind, name: kind }))
const toolCall = { toolCallId: 'call', title: 'rm', kind: 'execute', status: 'pending', rawInput: { command: 'rm' } }
const fromAgent: readonly ((id: string) => object)[] = [
  (id) => ({ id, method: 'session/request_permission', params: { sessionId: 's1', toolCall, options } }),
  (id) => ({ id, method: 'fs/read_text_file', params: { sessionId: 's1', path: '/etc/passwd' } }),
  () => ({ method: 'session/update', params: { sessionId: 's1', update: { sessionUpdate: 'tool_call_update', ...toolCall } } }),
  () => ({
    method: 'session/update',
    params: { sessionId: 's1', update: { sessionUpdate: 'current_mode_update', currentModeId: 'default' } },
  }),
  (id) => ({ method: '$/cancel_request', params: { requestId: id } }),
  (id) => ({ id, result: { outcome: { outcome: 'selected', optionId: 'allow_once' } } }),
]
const fromEditor: readonly ((id: string) => object)[] = [
  (id) => ({ id, result: { outcome: { outcome: 'selected', optionId: 'allow_once' } } }),
  (id) => ({ id, method: 'session/list', params: { cursor: null } }),
  (id) => ({ method: '$/cancel_request', params: { requestId: id } }),
  (id) => ({ id, error: { code: -32_000, message: 'no' } }),
]
/** On one line, so that a part of it is no frame of its own. */
const lineFrom = (shapes: typeof fromAgent, number: number, pick: Pick): string => {
  const text = JSON.stringify({ jsonrpc: '2.0', ...shapes[pick(shapes.length)]!(`raw${number}`) })
  return (pick(5) === 0 ? Buffer.from(text) : mutated(text, pick)).toString().replaceAll(/[\r\n]/g, ' ')
}

test(`${CASES} frames of every kind from both sides allow nothing and end nothing (seed ${SEED})`, async (t) => {
  const world = await openAcpWorld(t)
  await world.policy({ default: 'deny' })
  const { editor } = await connect(t, world)
  const pick = numbers(SEED)
  for (let done = 0; done < CASES; done += PORTION) {
    for (let i = 0; i < PORTION / 4; i++) editor.raw(`${lineFrom(fromEditor, done + i, pick)}\n`)
    const orders = Array.from({ length: (PORTION * 3) / 4 }, (_, i) => ({ raw: lineFrom(fromAgent, done + i, pick) }))
    const { result } = await editor.prompt(orders)
    assert.equal(result.stopReason, 'end_turn', `seed ${SEED}`)
    editor.heard.length = 0
  }
  assert.ok(
    world.effects().every((line) => !line.endsWith('allow_once')),
    `seed ${SEED}`,
  )
  const calls = await world.calls()
  assert.ok(calls.length > 0, 'some of the questions were whole')
  assert.ok(calls.every(({ state }) => state === 'denied'))
  await editor.prompt([{ ask: { title: 'after', kind: 'execute', rawInput: { command: 'after' } } }])
  assert.equal(
    world
      .effects()
      .filter((line) => line.startsWith('p1 '))
      .join(),
    'p1 reject_once',
  )
})
