// Methods, tasks and their lives of the hardware draft (sections 3, 4 and 5).
import assert from 'node:assert/strict'
import { policyDefaults } from '#protocols/hardware/daemon/policy.ts'
import type { Any } from '../support/hardware/daemon.ts'
import { bench, get, hardware, set, sleep, slow } from './hacp-hardware-cited.ts'

const { must } = hardware

must('HW-CORE-01', 'all six methods answer as the draft shows', async () => {
  const { client, session } = await bench()
  const opened = await client.ask('session.open', { client_name: 'x', client_version: '1.0.0', protocol_version: '0.1.0' })
  assert.deepEqual(Object.keys(opened), ['session_id', 'capabilities', 'protocol_version'])
  assert.ok(Array.isArray((await client.ask('tool.list', { session_id: session })).tools))
  const submitted = await client.ask('task.submit', { session_id: session, task: { intent: 'x', steps: [get(17)] } })
  assert.deepEqual([Object.keys(submitted), submitted.status], [['task_id', 'status'], 'QUEUED'])
  const { task_id } = submitted
  const task = await client.finished(session, task_id)
  assert.deepEqual([task.task_id, task.status, task.intent], [task_id, 'SUCCESS', 'x'])
  const { tool, status, result, latency_ms } = task.steps[0]
  assert.deepEqual([tool, status, result, typeof latency_ms], ['gpio.get', 'SUCCESS', { line: 17, value: 0 }, 'number'])
  assert.deepEqual(await client.ask('task.cancel', { session_id: session, task_id }), { task_id, status: 'SUCCESS' }, 'it has ended')
  assert.deepEqual(await client.ask('session.close', { session_id: opened.session_id }), { ok: true })
})
must('HW-CLOSE-01', 'a close cancels what the session has under way and in its queue', async () => {
  const { daemon, as } = await bench()
  const { client, session } = await as('default')
  const ids: string[] = []
  for (let i = 0; i < 6; i++)
    ids.push((await client.ask('task.submit', { session_id: session, task: { intent: 'x', steps: [slow, set(17, 1)] } })).task_id)
  await client.ask('session.close', { session_id: session })
  const ends = daemon.lines().filter(({ event, task_id }) => event === 'task.finish' && ids.includes(task_id))
  assert.deepEqual(
    ends.map(({ status }) => status),
    ids.map(() => 'CANCELLED'),
  )
  assert.ok(
    !daemon.lines().some(({ event, task_id, step_index }) => event === 'task.step.start' && ids.includes(task_id) && step_index === 1),
  )
})
must(['HW-LIST-01', 'HW-TOOL-01'], 'tools are data, under the names that the draft reserves', async () => {
  const { client, session } = await bench()
  const { tools } = await client.ask('tool.list', { session_id: session })
  for (const tool of tools) {
    for (const [field, type] of [
      ['name', 'string'],
      ['version', 'number'],
      ['timeout_ms', 'number'],
      ['supports_rollback', 'boolean'],
      ['description', 'string'],
      ['params_schema', 'object'],
    ] as const)
      assert.equal(typeof tool[field], type, `${tool.name}.${field}`)
    assert.ok([0, 1, 2, 3].includes(tool.risk_level))
    assert.equal(tool.params_schema.type, 'object')
  }
  const risks = Object.fromEntries(tools.map(({ name, risk_level }: Any) => [name, risk_level]))
  const expected = {
    'hw.info': 0,
    'hw.gpio.list': 0,
    'hw.i2c.list': 0,
    'hw.uart.list': 0,
    'gpio.get': 0,
    'gpio.set': 2,
    'gpio.mode': 2,
    'gpio.pulse': 2,
    'gpio.watch': 0,
    'i2c.read': 0,
    'i2c.write': 2,
    'i2c.transfer': 2,
    'i2c.scan': 1,
    'uart.read': 1,
    'uart.write': 2,
    'uart.exchange': 2,
    'file.read': 0,
    'file.write': 1,
    'file.list': 0,
    'file.stat': 0,
    'sensor.read': 0,
    'sys.cpuinfo': 0,
    'sys.meminfo': 0,
    'sys.thermal': 0,
    'sys.uptime': 0,
    'sys.load': 0,
    'sys.disk': 0,
    'sys.net': 0,
    'sys.hwmon': 0,
  }
  for (const [name, risk] of Object.entries(expected)) assert.equal(risks[name], risk, name)
  const rollback = tools.filter((tool: Any) => tool.supports_rollback).map(({ name }: Any) => name)
  assert.deepEqual(rollback, ['gpio.set', 'gpio.mode', 'file.write'])
})
must(['HW-TOOL-02', 'HW-WIRE-13'], 'tools of others have a reverse-DNS name, and a breaking change has a name of its own', async () => {
  const { run } = await bench()
  const task = await run([{ tool: 'com.acme.lamp.read' }, { tool: 'com.acme.lamp.read.v2' }])
  assert.deepEqual(
    task.steps.map(({ result }: Any) => result),
    [{ on: 1 }, { on: true }],
  )
})
must('HW-SUB-01', 'a step begins when the one before has ended', async () => {
  const { daemon, run } = await bench()
  const { task_id } = await run([set(17, 1), get(17), { tool: 'gpio.pulse', args: { line: 18, value: 1, ms: 50 } }, get(18), set(17, 0)])
  const order = daemon
    .lines()
    .filter((line) => line.task_id === task_id && line.event.startsWith('task.step.'))
    .map(({ event, step_index }) => `${event.slice(10)} ${step_index}`)
  assert.deepEqual(
    order,
    [0, 1, 2, 3, 4].flatMap((i) => [`start ${i}`, `finish ${i}`]),
  )
})
must(['HW-SUB-02', 'HW-SUB-03'], 'all steps are checked before the answer, and one that is wrong stops all', async () => {
  const { daemon, run, refused } = await bench()
  await run([set(17, 0)])
  const before = daemon.lines().filter(({ event }) => event === 'task.step.start').length
  const wrong: [object, number][] = [
    [{ tool: 'no.such' }, -32002],
    [set(17, 2), -32602],
    [{ tool: 'gpio.set', args: {} }, -32602],
    [{ tool: 'file.read', args: { path: '/etc/passwd' } }, -32003],
    [set('HEATER', 1), -32003],
  ]
  for (const [step, code] of wrong) {
    const error = await refused([set(17, 1), step, { tool: 'no.such' }])
    assert.deepEqual([error.code, error.data.step_index], [code, 1])
  }
  assert.equal((await run([get(17)])).steps[0].result.value, 0)
  assert.equal(daemon.lines().filter(({ event }) => event === 'task.step.start').length, before + 1)
})
must(
  ['HW-SUB-04', 'HW-SEC-03'],
  'what is riskier than the session may be is refused, also by its target, and nothing of it runs',
  async () => {
    const { run, refused } = await bench()
    assert.equal(policyDefaults.max_risk_level, 2)
    const error = await refused([get(17), set('HEATER', 1)])
    assert.deepEqual([error.code, error.data.code, error.data.reason], [-32003, 'risk_cap', 'max_risk_level=2 < tool=3'])
    const lower = await refused([set(17, 1)], { constraints: { max_risk_level: 1 } })
    assert.equal(lower.data.reason, 'max_risk_level=1 < tool=2')
    assert.equal((await run([get('HEATER')])).status, 'SUCCESS', 'a reading is safe')
  },
)
must('HW-SUB-05', 'a client raises the cap only as far as its policy lets it', async () => {
  const { as, refused } = await bench()
  assert.equal((await refused([set('HEATER', 1)], { constraints: { max_risk_level: 3 } })).data.code, 'risk_cap')
  const { client, session } = await as('relaxed')
  const submit = (constraints: object): Promise<Any> =>
    client.call('task.submit', { session_id: session, task: { intent: 'x', steps: [set('HEATER', 0)], constraints } })
  assert.equal((await submit({})).error.data.code, 'risk_cap')
  assert.equal((await submit({ max_risk_level: 2 })).error.data.code, 'risk_cap')
  assert.ok((await submit({ max_risk_level: 3 })).result.task_id)
})
must(['HW-GET-01', 'HW-LIFE-01'], 'states are those of the draft and come in its order', async () => {
  const { client, session } = await bench()
  const { task_id, status } = await client.ask('task.submit', { session_id: session, task: { intent: 'x', steps: [slow, get(17)] } })
  const seen = [status as string]
  const steps = new Set<string>()
  for (;;) {
    const task = await client.ask('task.get', { session_id: session, task_id })
    if (seen.at(-1) !== task.status) seen.push(task.status)
    for (const step of task.steps) steps.add(step.status)
    if (task.finished_at !== null) break
    await sleep(20)
  }
  assert.deepEqual(seen, ['QUEUED', 'RUNNING', 'SUCCESS'])
  assert.deepEqual([...steps].toSorted(), ['RUNNING', 'SUCCESS'])
})
must(['HW-GET-02', 'HW-GET-03'], 'a step that failed says why, and ends the task unless it was told to go on', async () => {
  const { run } = await bench()
  const absent = { tool: 'i2c.read', args: { bus: 1, addr: 9, len: 1 } }
  const first = await run([absent, get(17)])
  assert.deepEqual(
    [first.status, first.steps[0].status, typeof first.steps[0].error, first.steps[0].code],
    ['FAILED', 'FAILED', 'string', 'absent'],
  )
  assert.deepEqual(first.steps[1], { tool: 'gpio.get', status: 'CANCELLED', skipped: true })
  const second = await run([absent, get(17)], { constraints: { abort_on_step_failure: false } })
  assert.deepEqual([second.status, second.steps[1].status], ['FAILED', 'SUCCESS'])
})
must(['HW-CANCEL-01', 'HW-CANCEL-02'], 'a cancel waits for the transaction under way, and no step begins after it', async () => {
  const { client, session } = await bench()
  const { task_id } = await client.ask('task.submit', { session_id: session, task: { intent: 'x', steps: [slow, set(17, 1)] } })
  for (let i = 0; i < 100 && (await client.ask('task.get', { session_id: session, task_id })).status !== 'RUNNING'; i++) await sleep(5)
  assert.deepEqual(await client.ask('task.cancel', { session_id: session, task_id }), { task_id, status: 'CANCELLING' })
  assert.equal((await client.ask('task.get', { session_id: session, task_id })).status, 'RUNNING')
  const task = await client.finished(session, task_id)
  assert.deepEqual(
    [task.status, task.steps[0].status, task.steps[0].result, task.steps[1].skipped],
    ['CANCELLED', 'SUCCESS', { data: 'AA==' }, true],
  )
})
must(['HW-LIFE-02', 'HW-LIFE-03'], 'a silent session ends as if it were closed; 300 seconds by default', async () => {
  assert.equal(policyDefaults.idle_seconds, 300)
  const { daemon, as, run } = await bench()
  const { client, session } = await as('brief')
  await client.run(session, [set(18, 1)])
  assert.equal((await run([get('BUTTON')])).steps[0].result.value, 1)
  for (let i = 0; i < 300 && !daemon.lines().some((line) => line.session_id === session && line.reason === 'idle'); i++) await sleep(20)
  assert.equal((await client.call('tool.list', { session_id: session })).error.code, -32000)
  assert.equal((await run([get('BUTTON')])).steps[0].result.value, 0, 'its outputs are safe')
})
must('HW-LIFE-04', 'a closed id is refused by every method, forever', async () => {
  const { client } = await bench()
  const session_id = await client.open()
  const { task_id } = await client.run(session_id, [get(17)])
  await client.ask('session.close', { session_id })
  for (const method of [
    'session.close',
    'tool.list',
    'task.submit',
    'task.get',
    'task.cancel',
    'task.events',
    'task.history',
    'attest.device',
  ]) {
    const task = { intent: 'x', steps: [get(17)] }
    const { error } = await client.call(method, { session_id, task_id, task, nonce: 'n' })
    assert.deepEqual([error.code, error.data.code], [-32000, 'session_invalid'], method)
  }
})
