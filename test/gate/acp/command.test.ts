// `countersign acp` as a program, as docs/acp.md shows it: its credentials, its child.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { inProcess, temporary } from '../../support/as-processes/cli.ts'
import { until } from '../gate-world.ts'
import { AGENT, choose, effectsIn, openAcpWorld, waitingCall } from './acp-world.ts'
import { BIN, login, startProxy } from './proxy-process.ts'

const run = { title: 'rm', kind: 'execute', rawInput: { command: 'rm' } }

test('The first run keeps a key for the agent, the login counts in the editor, and the agent gets neither', async (t) => {
  const world = await openAcpWorld(t)
  const home = await login(world)
  const first = await startProxy(t, world, home, ['--agent', 'agent_devin', '--as', 'alice', '--name', 'fake'], {
    COUNTERSIGN_OTHER: 'secret',
  })
  await first.begin()
  first.editor.answer = choose('allow_once')
  await first.editor.prompt([{ env: true }, { ask: run }])
  assert.deepEqual(effectsIn(world.effectsFile), ['env COUNTERSIGN_AGENT agent_devin', 'p1 allow_once'])
  const [call] = await world.calls()
  assert.deepEqual([call.basis.id, `${call.server}/${call.tool}`], ['user_alice', 'acp/fake/execute'])
  const file = join(home, '.config/countersign/agents', `agent_devin@${new URL(world.url).host.replace(':', '_')}.json`)
  assert.equal(statSync(file).mode & 0o777, 0o600)
  const { key_id } = JSON.parse(readFileSync(file, 'utf8')) as { key_id: string }
  first.editor.close()
  assert.deepEqual(await first.ended, [0, null])

  const second = await startProxy(t, world, home, [])
  await second.begin()
  second.editor.close()
  await second.ended
  assert.equal((JSON.parse(readFileSync(file, 'utf8')) as { key_id: string }).key_id, key_id)

  const other = await inProcess({ home }).run(['acp', '--as', 'bob', '--', process.execPath, AGENT])
  assert.equal(other.code, 2)
  assert.match(other.err, /the stored login is of user_alice, not of user_bob/)
  const inAgent = await startProxy(t, world, home, [], { COUNTERSIGN_AGENT: 'agent_devin' })
  assert.deepEqual(await inAgent.ended, [1, null])
  assert.match(inAgent.err(), /uses the rights of this machine's user and is refused/)
})

test('Without a key the editor alone decides, and the program says so', async (t) => {
  const world = await openAcpWorld(t)
  const proxy = await startProxy(t, world, join(world.data, '..'), [])
  await proxy.begin()
  proxy.editor.answer = choose('allow_once')
  await proxy.editor.prompt([{ ask: run }])
  assert.deepEqual(effectsIn(world.effectsFile), ['p1 allow_once'])
  assert.match(proxy.err(), /so the editor alone decides and nothing is recorded/)
  assert.match(proxy.editor.said(), /You alone decide here/)
})

test('An editor that has ended its input still gets every answer, also in a file', async () => {
  const home = temporary('acp-files')
  const [input, output] = [join(home, 'input'), join(home, 'output')]
  const requests = [
    { id: 1, method: 'initialize', params: { protocolVersion: 1, clientCapabilities: {} } },
    { id: 2, method: 'session/new', params: { cwd: home, mcpServers: [] } },
    { id: 3, method: 'session/prompt', params: { sessionId: 's1', prompt: [{ type: 'text', text: '[]' }] } },
  ]
  writeFileSync(input, requests.map((request) => `${JSON.stringify({ jsonrpc: '2.0', ...request })}\n`).join(''))
  const files = [openSync(input, 'r'), openSync(output, 'w')] as const
  const child = spawn(process.execPath, [BIN, 'acp', '--', process.execPath, AGENT], {
    cwd: home,
    env: { PATH: process.env['PATH'], HOME: home, EFFECTS: join(home, 'effects') },
    stdio: [...files, 'ignore'],
  })
  for (const file of files) closeSync(file)
  assert.deepEqual(await once(child, 'close'), [0, null])
  const answers = effectsIn(output).map((line) => (JSON.parse(line) as { id: number }).id)
  assert.deepEqual(answers, [1, 2, 3])
})

test('kill -9 of the agent, and of the proxy, runs nothing: the item stays, and the same call collects its answer once', async (t) => {
  const world = await openAcpWorld(t)
  const home = await login(world)
  const words = ['--agent', 'agent_devin', '--name', 'fake']
  const first = await startProxy(t, world, home, words)
  await first.begin()
  void first.editor.prompt([
    { ask: run, go: true },
    { ask: { title: 'a', kind: 'read' }, go: true },
  ])
  await until(() => first.editor.questions().length === 2)
  void first.editor.prompt([{ exit: 9 }])
  assert.deepEqual(await first.ended, [9, null])
  assert.equal(first.editor.closed().length, 2)
  await until(async () => (await world.calls()).every(({ state, unattended }) => state === 'waiting' && unattended))
  assert.deepEqual(effectsIn(world.effectsFile), [])

  await world.answer('approved')
  const second = await startProxy(t, world, home, words)
  await second.begin()
  void second.editor.prompt([{ ask: { title: 'a', kind: 'read' } }, { ask: run }])
  await until(() => effectsIn(world.effectsFile).length === 1)
  await until(() => second.editor.questions().length === 1)
  second.child.kill('SIGKILL')
  await second.ended
  assert.equal((await waitingCall(world)).tool, 'fake/execute')
  assert.deepEqual(effectsIn(world.effectsFile), ['p1 allow_once'])
})

test('A lost server lets nothing run, and the editor can still cancel', async (t) => {
  const world = await openAcpWorld(t)
  const home = await login(world)
  const proxy = await startProxy(t, world, home, ['--agent', 'agent_devin', '--name', 'fake'])
  await proxy.begin()
  void proxy.editor.prompt([{ ask: run }])
  await until(() => proxy.editor.questions().length === 1)
  await world.server.stop()
  proxy.editor.send({ id: 'p1', result: { outcome: { outcome: 'selected', optionId: 'allow_once' } } })
  await until(() => proxy.editor.said().includes('Nothing runs without its answer'))
  assert.deepEqual(effectsIn(world.effectsFile), [])
  proxy.editor.send({ method: 'session/cancel', params: { sessionId: 's1' } })
  await until(() => effectsIn(world.effectsFile).includes('p1 cancelled'))
})
