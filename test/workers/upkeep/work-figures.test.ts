// Figures of the work in /metrics, and what the health of the server depends on.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { createCaller, enroll, type Answer } from '../../support/as-processes/server.ts'
import { dataFolder, start } from '../../support/as-processes/server-process.ts'
import { send } from '../../support/over-sockets/http-client.ts'

const ok = async (answer: Promise<Answer>): Promise<any> => {
  const { status, body } = await answer
  assert.equal(status, 200, JSON.stringify(body))
  return body
}
async function figuresAt(port: number): Promise<(line: string) => number | null> {
  const { text } = await send(port, '/metrics', { method: 'GET' })
  const values = new Map(
    text.split('\n').map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  )
  return (line) => values.get(line) ?? null
}

test('the figures say which work is open, how it ended, and how long people took', async (t) => {
  const data = dataFolder(t)
  const server = await start(t, ['--data', data, '--log', 'debug'])
  const { port } = server
  const { call, close } = createCaller(port)
  t.after(close)
  const admin = readFileSync(join(data, 'admin.key'), 'utf8').trim()
  const { alice, devin } = await enroll(port, admin)
  const ask = async (payload: object, more: object): Promise<string> =>
    (await ok(call(devin, 'execution/request.create', { payload, ...more }))).request.id
  const approve = { action: 'APPROVE', risk: 'R2' }
  const yes = await ask({ item: 'Deploy', details: {} }, approve)
  await ok(call(alice, 'execution/request.resolve', { request_id: yes, result: 'approved' }))
  await ask({ item: 'Deploy again', details: {} }, approve)
  const no = await ask({ question: 'Which?', options: ['a', 'b'] }, { action: 'DECIDE' })
  const claim = await ask({ claim: 'The backup was restored.' }, { action: 'VERIFY', risk: 'R1' })
  const { task } = await ok(call(alice, 'collaboration/task.create', { spec: { goal: 'Fix it' } }))

  const before = await figuresAt(port)
  assert.equal(before('countersign_items_open{kind="approval",risk="R2",project="project_default"}'), 1)
  assert.equal(before('countersign_items_open{kind="choice",risk="none",project="project_default"}'), 1)
  assert.equal(before('countersign_items_open{kind="verification",risk="R1",project="project_default"}'), 1)
  assert.equal(before('countersign_answers_total{result="approved"}'), 1)
  assert.equal(before('countersign_decision_seconds_count'), 1)
  assert.equal(before('countersign_tasks{state="created",project="project_default"}'), 1)
  assert.equal(before('countersign_agents_connected'), 1)
  assert.ok(before('countersign_item_oldest_seconds')! >= 0)

  await ok(call(alice, 'execution/request.decline', { request_id: no, reason: 'Not mine to say.' }))
  await ok(call(alice, 'execution/request.resolve', { request_id: claim, result: 'refuted' }))
  await ok(call(alice, 'collaboration/task.cancel', { task_id: task.id }))
  const after = await figuresAt(port)
  assert.equal(after('countersign_items_open{kind="choice",risk="none",project="project_default"}'), null)
  assert.equal(after('countersign_answers_total{result="declined"}'), 1)
  assert.equal(after('countersign_items_open{kind="verification",risk="R1",project="project_default"}'), null)
  assert.equal(after('countersign_answers_total{result="verified"}'), 1)
  assert.equal(after('countersign_decision_seconds_count'), 3)
  assert.equal(after('countersign_tasks{state="created",project="project_default"}'), null)

  const { text } = await send(port, '/metrics', { method: 'GET' })
  assert.match(text, /^countersign_info\{version="[^"]+",store="sqlite"\} 1$/m)
  const counters = [...text.matchAll(/^# TYPE (\S+) counter$/gm)].map(([, name]) => name!)
  assert.deepEqual(
    counters.filter((name) => !name.endsWith('_total')),
    [],
  )

  await send(port, '/v1/identity/me.get', {
    method: 'POST',
    headers: { authorization: `Bearer ${devin}`, 'content-type': 'application/json', 'x-request-id': 'trace-7' },
    body: '{}',
  })
  // The line is written after the answer, and arrives through a pipe.
  const lineOf = (text: string): string | undefined =>
    server
      .stderr()
      .split('\n')
      .find((line) => line.includes(text) && line.endsWith('}'))
  for (let i = 0; i < 500 && lineOf('"trace-7"') === undefined; i++) await pause(10)
  const { operation, code, actor, address } = JSON.parse(lineOf('"trace-7"')!) as Record<string, unknown>
  assert.deepEqual([operation, code, actor, address], ['identity/me.get', 'OK', 'agent_devin', '127.0.0.1'])
})

test('UNAVAILABLE of one part does not make the store unhealthy', async (t) => {
  const data = dataFolder(t)
  const { port } = await start(t, ['--data', data])
  const { call, close } = createCaller(port)
  t.after(close)
  const { alice } = await enroll(port, readFileSync(join(data, 'admin.key'), 'utf8').trim())
  const { status, body } = await call(alice, 'harness/harness.submit', {
    callee_id: 'lab-b',
    capability: 'print',
    intent: 'Print it.',
  })
  assert.deepEqual([status, body.error.code], [503, 'UNAVAILABLE'], JSON.stringify(body))
  const health = await send(port, '/health', { method: 'GET' })
  assert.deepEqual([health.status, health.json.status], [200, 'ok'])
})
