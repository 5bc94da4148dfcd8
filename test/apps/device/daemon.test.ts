// The hardware daemon as its users meet it: a process, a socket, lines. Each test is a sentence of the draft or of a decision (W).
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { runInTerminal, temporary } from '#test/support/as-processes/cli.ts'
import { clientAt, startDaemon, type Any, type Client, type Daemon } from '#test/support/hardware/daemon.ts'

const set = (line: number | string, value: number): object => ({ tool: 'gpio.set', args: { line, value } })

describe('the hardware daemon', () => {
  let daemon: Daemon
  let client: Client
  let session: string
  before(async () => {
    daemon = await startDaemon()
    client = await clientAt(daemon.ready.socket)
    session = await client.open()
  })
  after(async () => {
    client.close()
    await daemon.end()
  })
  const submitted = (steps: readonly object[], more: object = {}, task: object = {}): Promise<Any> =>
    client.call('task.submit', { session_id: session, task: { intent: 'a test', steps, ...task }, ...more })

  it('opens sessions with a fresh id, the flags of the policy and its version', async () => {
    const opened = await client.ask('session.open', { client_name: 'x', client_version: '1', unknown: { deep: 1 } })
    match(opened.session_id, /^[0-9a-zA-Z_-]{32,64}$/)
    ok(opened.session_id !== session)
    equal(opened.protocol_version, '0.1.0')
    for (const flag of ['CAP_GPIO_RW', 'CAP_FILE_READ', 'CAP_STREAMING_TASK_EVENTS', 'CAP_ATTEST'])
      ok(opened.capabilities.includes(flag), flag)
    ok(!opened.capabilities.includes('CAP_PROC'))
    equal((await client.call('session.open', { protocol_version: 'new' })).error.code, -32602)
    await client.ask('session.close', { session_id: opened.session_id })
  })

  it('has a socket for its group alone', () => {
    equal(statSync(daemon.ready.socket).mode & 0o777, 0o660)
    equal(statSync(join(daemon.data, 'audit.ndjson')).mode & 0o777, 0o640)
    for (const name of ['device.db', 'device.db-wal', 'device.json']) equal(statSync(join(daemon.data, name)).mode & 0o777, 0o600, name)
  })

  it('lists tools as data, without proc', async () => {
    const { tools } = await client.ask('tool.list', { session_id: session })
    const names = tools.map((tool: Any) => tool.name)
    for (const name of ['hw.info', 'gpio.set', 'i2c.transfer', 'uart.exchange', 'file.write', 'sys.hwmon', 'sensor.read'])
      ok(names.includes(name), name)
    ok(!names.some((name: string) => name.startsWith('proc.')))
    const { name, version, risk_level, supports_rollback, params_schema } = tools.find((tool: Any) => tool.name === 'gpio.set')
    deepEqual({ name, version, risk_level, supports_rollback }, { name: 'gpio.set', version: 1, risk_level: 2, supports_rollback: true })
    deepEqual(params_schema.required, ['line', 'value'])
  })

  it('runs a task of several steps in their order, with their results', async () => {
    const task = await client.run(session, [
      set('LED', 1),
      { tool: 'gpio.get', args: { line: 17 } },
      { tool: 'i2c.read', args: { bus: 1, addr: 72, reg: '0x00', len: 2 } },
    ])
    equal(task.status, 'SUCCESS')
    deepEqual(
      task.steps.map(({ tool, status, result }: Any) => ({ tool, status, result })),
      [
        { tool: 'gpio.set', status: 'SUCCESS', result: { line: 17, value: 1 } },
        { tool: 'gpio.get', status: 'SUCCESS', result: { line: 17, value: 1 } },
        { tool: 'i2c.read', status: 'SUCCESS', result: { data: 'GQA=' } },
      ],
    )
  })

  it('answers with the draft’s codes and a word', async () => {
    const cases: [Promise<Any>, number, string][] = [
      [client.call('no.such'), -32601, 'method_not_found'],
      [client.call('tool.list', { session_id: 'nobody' }), -32000, 'session_invalid'],
      [client.call('task.get', { session_id: session, task_id: 'task_none' }), -32001, 'task_not_found'],
      [submitted([{ tool: 'no.such', args: {} }]), -32002, 'tool_not_found'],
      [submitted([{ tool: 'proc.exec', args: { program: 'date' } }]), -32002, 'tool_not_found'],
      [submitted([set(17, 2)]), -32602, 'invalid_params'],
      [submitted([set(99, 1)]), -32602, 'invalid_params'],
      [submitted([{ tool: 'i2c.read', args: { bus: 1, addr: '0x80', len: 1 } }]), -32602, 'invalid_params'],
      [submitted([]), -32602, 'invalid_params'],
      [submitted([{ tool: 'file.read', args: { path: '/etc/passwd' } }]), -32003, 'path_denied'],
      [submitted([set('HEATER', 1)]), -32003, 'risk_cap'],
      [submitted([set(17, 1)], {}, { constraints: { max_risk_level: 1 } }), -32003, 'risk_cap'],
      [submitted([set(22, 1), set(23, 1)]), -32003, 'envelope'],
      [submitted([{ tool: 'i2c.write', args: { bus: 1, addr: '0x50', reg: 16, data: '/w==' } }]), -32003, 'envelope'],
      [submitted([{ tool: 'i2c.write', args: { bus: 1, addr: '0x50', reg: 16, data: 'Mg==' } }]), -32003, 'envelope'],
    ]
    for (const [answer, code, word] of cases) {
      const { error } = await answer
      equal(error.code, code, word)
      equal(error.data.code, word)
      equal(typeof error.data.reason, 'string')
    }
    const { error } = await submitted([set(17, 1), { tool: 'no.such', args: {} }, set(17, 9)])
    deepEqual([error.data.tool, error.data.step_index], ['no.such', 1])
    match((await submitted([set('HEATER', 1)])).error.data.reason, /max_risk_level=2 < tool=3/)
  })

  it('has a refusal in its audit before it is answered', async () => {
    for (let i = 0; i < 10; i++) {
      const own = await client.open()
      const denied = (): number => daemon.lines().filter((line) => line.event === 'denied' && line.session_id === own).length
      const task = { intent: 'x', steps: [set('HEATER', 1)] }
      equal((await client.call('task.submit', { session_id: own, task })).error.data.code, 'risk_cap')
      equal(denied(), 1)
      await client.ask('session.close', { session_id: own })
    }
  })

  it('says with a word why a step failed', async () => {
    const failing: [object, string][] = [
      [{ tool: 'gpio.set', args: { line: 5, value: 1 } }, 'busy'],
      [{ tool: 'i2c.read', args: { bus: 1, addr: 9, len: 1 } }, 'absent'],
      [{ tool: 'i2c.read', args: { bus: 1, addr: '0x76', len: 1 } }, 'busy'],
      [set('BUTTON', 1), 'denied'],
    ]
    for (const [step, code] of failing) {
      const task = await client.run(session, [step, { tool: 'gpio.get', args: { line: 17 } }])
      equal(task.status, 'FAILED')
      equal(task.steps[0].code, code)
      equal(typeof task.steps[0].error, 'string')
      deepEqual(task.steps[1], { tool: 'gpio.get', status: 'CANCELLED', skipped: true })
    }
    const task = await client.run(session, [failing[1]![0], { tool: 'gpio.get', args: { line: 17 } }], {
      constraints: { abort_on_step_failure: false },
    })
    deepEqual([task.status, task.steps[1].status], ['FAILED', 'SUCCESS'])
  })

  it('takes back in reverse order when asked to', async () => {
    await client.run(session, [set(17, 0), set(18, 0)])
    const steps = [set(17, 1), set(18, 1), { tool: 'i2c.read', args: { bus: 1, addr: 9, len: 1 } }]
    const task = await client.run(session, steps, { constraints: { rollback_on_failure: true } })
    deepEqual(
      task.steps.map((step: Any) => step.rolled_back),
      [true, true, undefined],
    )
    const values = await client.run(session, [
      { tool: 'gpio.get', args: { line: 17 } },
      { tool: 'gpio.get', args: { line: 18 } },
    ])
    deepEqual(
      values.steps.map((step: Any) => step.result.value),
      [0, 0],
    )
    const own = daemon.lines().filter((line) => line.task_id === task.task_id)
    deepEqual(
      own.filter((line) => line.event === 'task.step.rollback').map((line) => [line.step_index, line.status]),
      [
        [1, 'SUCCESS'],
        [0, 'SUCCESS'],
      ],
    )
    deepEqual(
      own.filter((line) => line.event === 'task.step.rollback.start').map((line) => line.step_index),
      [1, 0],
    )
  })

  it('does a repeated submission once, and refuses the key with another body', async () => {
    const more = { idempotency_key: 'once' }
    const first = await submitted([set(17, 1)], more)
    const again = await submitted([set(17, 1)], { ...more, unknown: true })
    equal(again.result.task_id, first.result.task_id)
    const misspelled = { tool: 'gpio.set', args: { line: 17, value: 1, colour: 'red' }, note: 'x' }
    equal((await submitted([misspelled], more)).result?.task_id, first.result.task_id, 'arguments count as they are understood (W45)')
    equal((await submitted([set(17, 0)], more)).error.code, -32008)
    equal(daemon.lines().filter((line) => line.event === 'task.submit' && line.task_id === first.result.task_id).length, 1)
  })

  it('yields to a cancel without cutting a transaction, and ends a pulse early', async () => {
    const { task_id } = await client.ask('task.submit', {
      session_id: session,
      task: { intent: 'x', steps: [{ tool: 'gpio.pulse', args: { line: 18, value: 1, ms: 5000 } }, set(17, 1)] },
    })
    await new Promise((done) => setTimeout(done, 100))
    deepEqual(await client.ask('task.cancel', { session_id: session, task_id }), { task_id, status: 'CANCELLING' })
    const task = await client.finished(session, task_id)
    deepEqual([task.status, task.steps[0].status, task.steps[1].skipped], ['CANCELLED', 'CANCELLED', true])
    equal((await client.run(session, [{ tool: 'gpio.get', args: { line: 18 } }])).steps[0].result.value, 0)
    deepEqual(await client.ask('task.cancel', { session_id: session, task_id }), { task_id, status: 'CANCELLED' })
    const slow = await client.ask('task.submit', {
      session_id: session,
      task: { intent: 'x', steps: [{ tool: 'i2c.read', args: { bus: 1, addr: '0x51', len: 1 } }, set(17, 1)] },
    })
    await new Promise((done) => setTimeout(done, 100))
    await client.ask('task.cancel', { session_id: session, task_id: slow.task_id })
    const ended = await client.finished(session, slow.task_id)
    deepEqual([ended.status, ended.steps[0].status, ended.steps[1].skipped], ['CANCELLED', 'SUCCESS', true])
  })

  it('ends a task whose time is over, and not before its transaction', async () => {
    const task = await client.run(session, [{ tool: 'i2c.read', args: { bus: 1, addr: '0x51', len: 1 } }, set(17, 1)], {
      constraints: { max_duration_ms: 100 },
    })
    deepEqual([task.status, task.code, task.steps[0].status, task.steps[1].skipped], ['FAILED', 'timeout', 'SUCCESS', true])
  })

  it('sends events of a task in order, also those before the subscription', async () => {
    const { task_id } = await client.ask('task.submit', {
      session_id: session,
      task: { intent: 'x', steps: [{ tool: 'gpio.pulse', args: { line: 18, value: 1, ms: 1300 } }] },
    })
    await new Promise((done) => setTimeout(done, 50))
    deepEqual(await client.ask('task.events.subscribe', { session_id: session, task_id }), { ok: true })
    await client.finished(session, task_id)
    await new Promise((done) => setTimeout(done, 50))
    const own = client.events.filter((event) => event.task_id === task_id)
    deepEqual(
      own.map(({ phase }) => phase),
      ['start', 'progress', 'finish', 'task_finish'],
    )
    deepEqual([own[2].status, own[3].status, own[3].step_index], ['SUCCESS', 'SUCCESS', undefined])
  })

  it('refuses what a task of another session holds, and lets one’s own wait', async () => {
    const other = await clientAt(daemon.ready.socket)
    const theirs = await other.open()
    const slow = { tool: 'i2c.read', args: { bus: 1, addr: '0x51', len: 1 } }
    const first = await client.ask('task.submit', { session_id: session, task: { intent: 'x', steps: [slow] } })
    const second = await client.ask('task.submit', { session_id: session, task: { intent: 'x', steps: [slow] } })
    await new Promise((done) => setTimeout(done, 100))
    const { error } = await other.call('task.submit', { session_id: theirs, task: { intent: 'x', steps: [slow] } })
    deepEqual([error.code, error.data.code, error.data.resource], [-32004, 'busy', 'i2c:1:0x51'])
    equal((await client.finished(session, first.task_id)).status, 'SUCCESS')
    equal((await client.finished(session, second.task_id)).status, 'SUCCESS')
    other.close()
  })

  it('binds a session to its connection, and lets the next of the same policy take it over', async () => {
    const one = await clientAt(daemon.ready.socket)
    const id = await one.open()
    const thief = await clientAt(daemon.ready.socket)
    equal((await thief.call('tool.list', { session_id: id })).error.code, -32000)
    one.close()
    // The daemon notices at its own pace that the first connection is gone.
    let tools: Any[] | undefined
    while (tools === undefined) tools = (await thief.call('tool.list', { session_id: id })).result?.tools
    ok(tools.length > 0)
    thief.close()
  })

  it('ends what a session has under way when it closes, and makes its outputs safe', async () => {
    const one = await clientAt(daemon.ready.socket)
    const id = await one.open()
    await one.run(id, [set('RELAY', 1)])
    equal((await client.run(session, [{ tool: 'gpio.get', args: { line: 'BUTTON' } }])).steps[0].result.value, 1)
    const { task_id } = await one.ask('task.submit', {
      session_id: id,
      task: { intent: 'x', steps: [{ tool: 'gpio.watch', args: { line: 27, edge: 'rising', timeout_ms: 5000 } }] },
    })
    deepEqual(await one.ask('session.close', { session_id: id }), { ok: true })
    equal((await one.call('tool.list', { session_id: id })).error.code, -32000)
    equal((await client.run(session, [{ tool: 'gpio.get', args: { line: 'BUTTON' } }])).steps[0].result.value, 0)
    const { tasks } = await client.ask('task.history', { session_id: session, limit: 1 })
    ok(tasks[0])
    equal(daemon.lines().find((line) => line.event === 'task.finish' && line.task_id === task_id)?.status, 'CANCELLED')
    equal((await client.call('task.get', { session_id: session, task_id })).error.code, -32001)
    one.close()
  })

  it('answers a nonce with a signature over the end of its audit', async () => {
    const { jwk, jws } = await client.ask('attest.device', { session_id: session, nonce: 'n-1' })
    equal(jwk.crv, 'Ed25519')
    const claims = JSON.parse(Buffer.from(jws.split('.')[1], 'base64url').toString())
    deepEqual([claims.v, claims.device_id, claims.nonce], [1, daemon.ready.device_id, 'n-1'])
    equal(claims.audit.seq, daemon.lines().at(-1).seq)
    equal((await client.call('attest.device', { session_id: session, nonce: '' })).error.code, -32602)
  })

  it('exchanges bytes in base64, both ways', async () => {
    const task = await client.run(session, [{ tool: 'uart.exchange', args: { port: 'uart0', data: 'AAEC', len: 3, timeout_ms: 500 } }])
    equal(task.steps[0].result.data, '//79')
    const scan = await client.run(session, [{ tool: 'i2c.scan', args: { bus: 1 } }])
    deepEqual(scan.steps[0].result.addrs, ['0x48', '0x50', '0x51', '0x76'])
    for (const tool of ['sys.cpuinfo', 'sys.meminfo', 'sys.thermal', 'sys.uptime', 'sys.load', 'sys.disk', 'sys.net', 'sys.hwmon'])
      equal((await client.run(session, [{ tool, args: {} }])).status, 'SUCCESS', tool)
  })

  it('writes each event before anything acts, chained, with salted arguments', () => {
    const text = readFileSync(join(daemon.data, 'audit.ndjson'), 'utf8')
    const lines = daemon.lines()
    deepEqual(
      lines.map(({ seq }) => seq),
      lines.map((_, i) => i + 1),
    )
    equal(lines[0].event, 'daemon.start')
    equal(lines[0].prev, '')
    ok(lines.every(({ prev }, i) => i === 0 || /^sha256:[0-9a-f]{64}$/.test(prev)))
    ok(!text.includes('salt'))
    const hashes = lines.filter((line) => line.event === 'task.step.start' && line.tool === 'gpio.set').map(({ args_hash }) => args_hash)
    equal(new Set(hashes).size, hashes.length)
    ok(lines.some((line) => line.event === 'denied' && line.code === 'path_denied' && line.method === 'task.submit'))
  })
})

it('logs at a terminal only what needs attention, and Ctrl-C ends it cleanly', async () => {
  const cwd = temporary('device')
  const { code, out } = await runInTerminal(['device', 'up', '--data', 'data'], [['Ctrl-C ends it.', '\u0003']], {
    env: { HOME: cwd },
    cwd,
  })
  equal(code, 0, out)
  match(out, /^countersign device ready /)
  ok(!out.includes('"level"'), out)
})
