// Capabilities through the whole server: a file, a process, its HTTP, its command line, and kill -9 in the middle.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { serve } from 'countersign/agent'
import { readConfig, type Config } from '#apps/server/settings/config.ts'
import { createLog } from '#apps/server/log.ts'
import { startServer } from '#apps/server/server.ts'
import { capability, local, until } from '../support/in-process/capability-world.ts'
import { inProcess } from '../support/as-processes/cli.ts'
import { createCaller, enroll, type Keys } from '../support/as-processes/server.ts'
import { dataFolder, runToEnd, start } from '../support/as-processes/server-process.ts'
import { SOON_MS } from '../support/over-sockets/soon.ts'

const STDIO = join(import.meta.dirname, '../support/over-sockets/mcp-server.ts')
const REF = (name: string) => ({ capability_id: `cap:test/${name}`, version: '1.4.2' })

type Scene = {
  readonly keys: Keys
  readonly run_id: string
  readonly task_id: string
  call(key: string, operation: string, input?: object, once?: string): Promise<any>
}

const callerAt = (t: TestContext, port: number): Scene['call'] => {
  const { call, close } = createCaller(port)
  t.after(close)
  return async (key, operation, input = {}, once) => (await call(key, operation, input, once)).body
}

/** A task that devin works on, at a server that has just started. */
async function scene(t: TestContext, port: number, adminKey: string): Promise<Scene> {
  const keys = await enroll(port, adminKey)
  const call = callerAt(t, port)
  const { task } = await call(keys.alice, 'collaboration/task.create', { spec: { goal: 'Fix it' } })
  await call(keys.alice, 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  const { items } = await call(keys.devin, 'delegation/mailbox.take', {})
  const run_id = items[0].run.id
  await call(keys.devin, 'delegation/run.start', { run_id, attempt: 1 })
  return { keys, run_id, task_id: task.id, call }
}

function withFile(t: TestContext): { data: string; args: string[] } {
  const data = dataFolder(t)
  const file = `${data}.json`
  writeFileSync(file, JSON.stringify({ mcpServers: { test: { command: process.execPath, args: [STDIO] } } }))
  return { data, args: ['--data', data, '--capabilities', file, '--log', 'error'] }
}
const keyIn = (data: string): string => readFileSync(join(data, 'admin.key'), 'utf8').trim()

test('kill -9 between intent and outcome: the next start records EXECUTION_FAILED, and the same call is not run again', async (t) => {
  const { data, args } = withFile(t)
  const first = await start(t, args)
  const { keys, run_id, task_id, call } = await scene(t, first.port, keyIn(data))
  await until(async () => (await call(keys.devin, 'delegation/capability.list')).items.length > 0, 20_000)
  const hanging = { run_id, attempt: 1, ref: REF('hangs'), timeout: 'PT5M' }
  void call(keys.devin, 'delegation/capability.invoke', hanging, 'the-one').catch(() => undefined)
  const actions = async (at: Scene['call']): Promise<any[]> =>
    (await at(keys.alice, 'collaboration/audit.query', { task_id, limit: 200 })).items.filter(({ action }: any) =>
      action.startsWith('capability.'),
    )
  await until(async () => (await actions(call)).length === 1)
  await first.end('SIGKILL')

  const second = await start(t, args)
  const again = callerAt(t, second.port)
  const [begun, failed, ...more] = await actions(again)
  assert.deepEqual([begun.action, failed.action, more], ['capability.invoked', 'capability.failed', []])
  assert.deepEqual([failed.after.error, failed.after.reason], ['EXECUTION_FAILED', 'unknown'])
  const answer = await again(keys.devin, 'delegation/capability.invoke', hanging, 'the-one')
  assert.deepEqual([answer.ok, answer.error.code], [false, 'EXECUTION_FAILED'])
  assert.match(answer.error.message, /unknown/)
  assert.equal((await actions(again)).length, 2, 'it was not begun again')

  // A stop in the middle of another one ends in time and records it.
  const echo = { run_id, attempt: 1, ref: REF('echo'), input: { message: 'back' } }
  await until(async () => (await again(keys.devin, 'delegation/capability.invoke', echo)).ok, 20_000)
  const before = (await actions(again)).length
  void again(keys.devin, 'delegation/capability.invoke', hanging).catch(() => undefined)
  await until(async () => (await actions(again)).length === before + 1)
  const began = performance.now()
  const { code } = await second.end('SIGTERM')
  assert.equal(code, 0)
  assert.ok(performance.now() - began < SOON_MS)
  const third = await start(t, args)
  const last = (await actions(callerAt(t, third.port))).at(-1)
  assert.deepEqual([last.action, last.after.reason], ['capability.failed', 'stopped'])
  await third.end()
})

test('a file that is not understood ends the start with a sentence', async (t) => {
  const data = dataFolder(t)
  const file = `${data}.json`
  writeFileSync(file, '{"mcpServers":{"a":{"comand":"x"}}}')
  const { code, stderr } = await runToEnd(t, ['--data', data, '--port', '0', '--capabilities', file])
  assert.equal(code, 1)
  assert.match(stderr, /unknown setting mcpServers\.a\.comand:/)
})

test('a call that takes longer than an idle connection may, and the command line', async (t) => {
  const data = dataFolder(t)
  const { config } = readConfig(['--data', data, '--port', '0', '--log', 'silent', '--socket', 'off'], {}) as { config: Config }
  const slow = capability('slow', () => new Promise((done) => setTimeout(() => done({ done: true }), 900)))
  const sum = capability('sum', (input) => ({ total: (input as { of: number[] }).of.reduce((a, b) => a + b, 0) }), {
    description: 'Adds numbers.',
    input_schema: { type: 'object', properties: { of: { type: 'array', items: { type: 'number' } } }, required: ['of'] },
    required_permissions: [],
  })
  const onFatal = (error: unknown): never => {
    throw error as Error
  }
  const server = await startServer(config, {
    log: createLog(config.log),
    onFatal,
    bounds: { stuckMs: 300 },
    capabilities: [local(slow, sum)],
  })
  t.after(server.stop)
  const { keys, run_id, call } = await scene(t, server.port, keyIn(data))
  const answer = await call(keys.devin, 'delegation/capability.invoke', {
    run_id,
    attempt: 1,
    ref: { capability_id: 'cap:slow', version: '1.0.0' },
  })
  assert.deepEqual(answer.output, { done: true })

  const cli = inProcess({ home: data, env: { COUNTERSIGN_URL: server.url, COUNTERSIGN_KEY: keys.devin } })
  const listed = await cli.run(['capability', 'list'])
  assert.equal(listed.code, 0, listed.err)
  assert.match(listed.out, /CAPABILITY +VERSION +KIND +NEEDS +DESCRIPTION/)
  assert.match(listed.out, /cap:sum +1\.0\.0 +tool +\[\] +Adds numbers\./)
  const described = await cli.run(['capability', 'describe', 'cap:sum', '1.0.0', '--json'])
  assert.equal(JSON.parse(described.out).manifest.name, 'sum')
  const invoke = (input: string, ...more: string[]) =>
    cli.run([
      'capability',
      'invoke',
      run_id,
      '--attempt',
      '1',
      '--capability-id',
      'cap:sum',
      '--version',
      '1.0.0',
      '--input',
      input,
      ...more,
    ])
  const done = await invoke('{"of":[1,2]}', '--json')
  assert.deepEqual([done.code, JSON.parse(done.out).output], [0, { total: 3 }])
  const failed = await invoke('{"of":["x"]}', '--json')
  assert.deepEqual([failed.code, JSON.parse(failed.out.split('\n')[0]!).error.code], [1, 'INVALID_INPUT'])
  const message = await invoke('{"of":["x"]}')
  assert.match(message.err, /input\.of\.0 must be number/)
})

test('run.invoke: a restarted handler gets the result, and the effect does not happen twice', async (t) => {
  const data = dataFolder(t)
  const { config } = readConfig(['--data', data, '--port', '0', '--log', 'silent', '--socket', 'off'], {}) as { config: Config }
  let count = 0
  const onFatal = (error: unknown): never => {
    throw error as Error
  }
  const capabilities = [local(capability('count', () => ({ count: ++count })))]
  const server = await startServer(config, { log: createLog(config.log), onFatal, capabilities })
  t.after(server.stop)
  const keys = await enroll(server.port, keyIn(data))
  const call = callerAt(t, server.port)
  const { task } = await call(keys.alice, 'collaboration/task.create', { spec: { goal: 'Count' } })
  await call(keys.alice, 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  const attempts: [number, unknown, unknown][] = []
  const serveOnce = (isLast: boolean) =>
    serve(
      'agent_devin',
      async (run) => {
        const ref = { capability_id: 'cap:count', version: '1.0.0' }
        const first = await run.invoke(ref, { of: 'sheep' })
        const none = await run.invoke({ ...ref, capability_id: 'cap:none' })
        attempts.push([run.attempt, first.output, none.error?.code])
        if (isLast) await run.commit('counted')
        else await new Promise((_, reject) => run.signal.addEventListener('abort', () => reject(run.signal.reason as Error)))
      },
      { url: server.url, key: keys.devin, graceMs: 100, leaseMs: 3_000 },
    )
  const before = serveOnce(false)
  await until(() => attempts.length === 1)
  await before.stop()
  const after = serveOnce(true)
  t.after(() => after.stop())
  await until(async () => (await call(keys.alice, 'collaboration/task.get', { task_id: task.id })).task.state === 'review_ready')
  const counted = { count: 1 }
  assert.deepEqual(attempts, [
    [1, counted, 'NOT_FOUND'],
    [2, counted, 'NOT_FOUND'],
  ])
})
