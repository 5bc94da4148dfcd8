// Modes of ACP agents that never ask: a session does not begin in one, and the switch to one is a question.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../gate-world.ts'
import { choose, connect, openAcpWorld } from './acp-world.ts'

const modes = (currentModeId: string, ...ids: string[]): string =>
  JSON.stringify({ currentModeId, availableModes: [currentModeId, ...ids].map((id) => ({ id, name: id })) })

test('A session that begins in a mode that never asks is set to one that does before the editor learns of it', async (t) => {
  const world = await openAcpWorld(t)
  const option = {
    id: 'mode',
    name: 'Mode',
    category: 'mode',
    type: 'select',
    currentValue: 'agent',
    options: [{ value: 'agent' }, { value: 'read-only' }],
  }
  const all = { id: 'allow_all', name: 'All', type: 'boolean', currentValue: true }
  const env = { MODES: modes('agent', 'read-only', 'agent-full-access'), OPTIONS: JSON.stringify({ configOptions: [option, all] }) }
  const { editor, session } = await connect(t, world, { env })
  assert.equal(session.result.modes.currentModeId, 'read-only')
  assert.deepEqual(
    session.result.configOptions.map(({ currentValue }: { currentValue: unknown }) => currentValue),
    ['read-only', false],
  )
  assert.deepEqual(world.effects(), ['mode read-only', 'option allow_all false'])
  await until(() => editor.said().includes('this agent never asks in agent, so it is set to read-only'))
})

test('A session without a mode that asks does not begin', async (t) => {
  const world = await openAcpWorld(t)
  const { session } = await connect(t, world, { env: { MODES: modes('yolo') } })
  assert.equal(session.error.message, 'Countersign cannot make this agent ask: it has no mode that asks in place of yolo')
})

test('The switch to a mode that might never ask is a question, and the agent gets it after the yes', async (t) => {
  const world = await openAcpWorld(t)
  await world.policy({ rules: [{ id: 'no-yolo', tool: 'acp/*/switch_mode', when: [{ at: '/rawInput/mode', is: 'yolo' }], then: 'deny' }] })
  const { editor } = await connect(t, world, { env: { MODES: modes('default', 'auto', 'yolo', 'plan') } })
  const set = (modeId: string) => editor.call('session/set_mode', { sessionId: 's1', modeId })
  assert.deepEqual((await set('plan')).result, {})
  assert.equal((await set('yolo')).error.message, 'the switch to yolo was not allowed')
  assert.deepEqual(editor.questions(), [])
  editor.answer = choose('reject')
  assert.equal((await set('auto')).error.message, 'the switch to auto was not allowed')
  editor.answer = choose('allow')
  assert.deepEqual((await set('auto')).result, {})
  assert.deepEqual((await set('auto')).result, {})
  assert.deepEqual((await set('default')).result, {})
  assert.deepEqual(world.effects(), ['mode plan', 'mode auto', 'mode auto', 'mode default'])
  assert.equal(editor.questions().length, 2)
})

test('An agent that leaves the mode by itself is set back', async (t) => {
  const world = await openAcpWorld(t)
  const { editor } = await connect(t, world, { env: { MODES: modes('default', 'acceptEdits') } })
  await editor.prompt([{ update: { sessionUpdate: 'current_mode_update', currentModeId: 'acceptEdits' } }])
  await until(() => editor.said().includes('the agent switched to acceptEdits, which never asks; it is set back to default'))
  assert.deepEqual(world.effects(), ['mode default'])
})
