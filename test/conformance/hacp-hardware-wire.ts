// Wire, clients, errors, events, versions and ways in of the hardware draft (sections 2, 6, 8, 9 and 10).
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, connect, type Socket } from 'node:net'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { promisify } from 'node:util'
import { createHacpClient } from '#protocols/hardware/client.ts'
import { failureOf } from '#bridges/hacp/failures.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { daemonCodes } from '#protocols/hardware/codes.ts'
import { clientOn, startDaemon, type Any } from '../support/hardware/daemon.ts'
import { bench, get, hardware, set, sleep, slow } from './hacp-hardware-cited.ts'

const { must } = hardware
const CLI = join(import.meta.dirname, '../../bin/countersign.js')

/** Everything that comes back until the line goes quiet. */
async function bytesFor(path: string, sent: string | Uint8Array, wanted: number): Promise<string> {
  const socket = connect(path)
  let got = ''
  socket.setEncoding('utf8').on('data', (part: string) => (got += part))
  socket.write(sent)
  for (let i = 0; i < 400 && got.split('\n').length <= wanted; i++) await sleep(10)
  await sleep(30)
  socket.destroy()
  return got
}
const line = (id: unknown, method: string, params: object = {}): string => `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`

must('HW-WIRE-01', 'JSON-RPC 2.0 in UTF-8, and bytes that are no UTF-8 are no document', async () => {
  const { daemon } = await bench()
  const got = await bytesFor(daemon.ready.socket, line('é😀', 'nothing'), 1)
  assert.deepEqual([JSON.parse(got).jsonrpc, JSON.parse(got).id], ['2.0', 'é😀'])
  const bad = await bytesFor(
    daemon.ready.socket,
    Buffer.concat([Buffer.from('{"jsonrpc":"2.0","id":"'), Buffer.of(0xc3, 0x28), Buffer.from('"}\n')]),
    1,
  )
  assert.equal(JSON.parse(bad).error.code, -32700)
})
must(['HW-WIRE-02', 'HW-WIRE-04'], 'one line for each document, whatever whitespace stands between', async () => {
  const { daemon } = await bench()
  const got = await bytesFor(daemon.ready.socket, `\n \t\r\n${line(1, 'nothing').trimEnd()} \t \r\n\n\n  ${line(2, 'nothing')}`, 2)
  assert.equal(got.match(/\n/g)!.length, 2)
  assert.ok(got.endsWith('}\n'))
  assert.deepEqual(
    got
      .trimEnd()
      .split('\n')
      .map((text) => JSON.parse(text).id),
    [1, 2],
  )
})
must(
  ['HW-WIRE-03', 'HW-WIRE-05', 'HW-OPEN-02', 'HW-OPEN-03'],
  'our client writes one line for each document, with ids of its own, and says its name',
  async () => {
    const written: string[] = []
    const client = createHacpClient('a\nb', '1.2.3', (text) => written.push(text))
    void client.open().catch(() => undefined)
    void client.tools('s').catch(() => undefined)
    void client.call('task.get', { session_id: 's', task_id: 'a\n\u2028b' }).catch(() => undefined)
    for (const text of written) assert.equal(text.indexOf('\n'), text.length - 1)
    const ids = written.map((text) => JSON.parse(text).id as number)
    assert.equal(new Set(ids).size, written.length)
    assert.deepEqual(JSON.parse(written[0]!).params, { client_name: 'a\nb', client_version: '1.2.3', protocol_version: '0.1.0' })
    client.ended('over')
    const { daemon } = await bench()
    const { stdout } = await promisify(execFile)(process.execPath, [
      CLI,
      'device',
      'call',
      'gpio.get',
      'line=LED',
      '--socket',
      daemon.ready.socket,
    ])
    assert.deepEqual(JSON.parse(stdout), { line: 17, value: 0 })
    const opened = daemon.lines().findLast(({ event }) => event === 'session.open')
    assert.equal(opened.client_name, 'countersign')
    assert.match(opened.client_version, /^\d+\.\d+\.\d+/)
  },
)
must('HW-WIRE-06', 'an id comes back as it was; null and none want no answer; anything else is none', async () => {
  const { daemon } = await bench()
  const ids = ['', 'x', 0, -1, 9007199254740991]
  const sent = [
    line(null, 'session.open'),
    '{"jsonrpc":"2.0","method":"session.open"}\n',
    line(null, 'nothing'),
    ...ids.map((id) => line(id, 'nothing')),
  ]
  const got = (await bytesFor(daemon.ready.socket, sent.join(''), ids.length)).trimEnd().split('\n')
  assert.deepEqual(
    got.map((text) => JSON.parse(text).id),
    ids,
  )
  for (const id of [1.5, {}, [], true]) {
    const { id: back, error } = JSON.parse(await bytesFor(daemon.ready.socket, line(id, 'session.open'), 1))
    assert.deepEqual([back, error.code], [null, -32600], JSON.stringify(id))
  }
})
must(['HW-WIRE-07', 'HW-WIRE-08', 'HW-OPEN-01'], 'ids are short, of plain characters, and never the same', async () => {
  const { client, run } = await bench()
  const ids = new Set<string>()
  for (let i = 0; i < 20; i++) {
    const { session_id } = await client.ask('session.open')
    assert.match(session_id, /^[0-9a-zA-Z_-]{1,64}$/)
    ids.add(session_id)
    await client.ask('session.close', { session_id })
  }
  assert.equal(ids.size, 20)
  assert.match((await run([get(17)])).task_id, /^[0-9a-zA-Z_-]{1,64}$/)
})
must('HW-WIRE-09', 'bytes are base64, both ways, and nothing else is', async () => {
  const { folder, run, refused } = await bench()
  const path = join(folder, 'files/bytes')
  const data = Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString('base64')
  const task = await run([
    { tool: 'file.write', args: { path, data } },
    { tool: 'file.read', args: { path } },
    { tool: 'uart.exchange', args: { port: 'uart0', data: 'AP8=', len: 2, timeout_ms: 200 } },
  ])
  assert.deepEqual([task.steps[1].result.data, task.steps[2].result.data], [data, '/wA='])
  for (const wrong of ['A', 'AA', 'AA=', '*', 'AA==\n', 'a-_='])
    assert.equal((await refused([{ tool: 'file.write', args: { path, data: wrong } }])).code, -32602, wrong)
})
must('HW-WIRE-10', 'unknown fields are ignored at every depth, also those that claim to be somebody', async () => {
  const { client, session } = await bench()
  const more = { agent_id: 'x', by: 'y', user_id: 'z', deep: { er: [1] } }
  const { task_id } = await client.ask('task.submit', {
    session_id: session,
    ...more,
    task: {
      intent: 'x',
      ...more,
      steps: [{ tool: 'gpio.get', args: { line: 17, ...more }, ...more }],
      constraints: { max_duration_ms: 5_000, ...more },
    },
  })
  assert.equal((await client.finished(session, task_id)).status, 'SUCCESS')
  assert.ok((await client.ask('session.open', more)).session_id)
})
must(
  ['HW-WIRE-11', 'HW-LIST-02'],
  'our clients ignore what they do not know in a result, and keep what they do not know of a tool',
  async () => {
    const tool = {
      name: 'x.y',
      version: 1,
      risk_level: 0,
      timeout_ms: 1,
      supports_rollback: false,
      description: 'd',
      params_schema: { type: 'object' },
      novel: { a: [1] },
    }
    const server = createServer((socket: Socket) => {
      const other = clientLines(socket, ({ id, method }) => {
        if (method === 'session.open') return { id, result: { session_id: 's', capabilities: [], protocol_version: '9.9.9', novel: 1 } }
        if (method === 'tool.list') return { id, result: { tools: [tool], novel: 1 } }
        return { id, result: { ok: true, novel: 1 } }
      })
      other()
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const socket = connect(port, '127.0.0.1')
    const client = createHacpClient('x', '1.0.0', (text) => void socket.write(text))
    socket.on('data', (bytes: Uint8Array) => client.receive(bytes))
    assert.equal((await client.open()).session_id, 's')
    assert.deepEqual(await client.tools('s'), [tool])
    socket.destroy()
    server.close()
  },
)
/** Answers each line that comes. */
function clientLines(socket: Socket, answer: (message: Any) => object): () => void {
  return () => {
    let text = ''
    socket.setEncoding('utf8').on('error', () => undefined)
    socket.on('data', (part: string) => {
      text += part
      for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n')) {
        socket.write(`${JSON.stringify({ jsonrpc: '2.0', ...answer(JSON.parse(text.slice(0, at))) })}\n`)
        text = text.slice(at + 1)
      }
    })
  }
}

must(
  ['HW-WIRE-12', 'HW-ERR-11'],
  'no number has two meanings: each of ours is between -32099 and -32005, and each word has one number',
  () => {
    const byNumber = new Map<number, Set<string>>()
    for (const code of Object.keys(daemonCodes)) {
      const failure = failureOf(new Refusal(code, 'x'))
      if (!failure) continue
      const message = byNumber.get(failure.code) ?? new Set()
      byNumber.set(failure.code, message.add(failure.data.code))
    }
    const draft = new Set([-32602, -32000, -32001, -32002, -32003, -32004])
    for (const number of byNumber.keys()) assert.ok(draft.has(number) || (number <= -32005 && number >= -32099), String(number))
    assert.deepEqual([...byNumber.get(-32004)!], ['busy'])
    assert.deepEqual([...byNumber.get(-32006)!].toSorted(), ['queue_full', 'sessions_full'])
  },
)
must('HW-ERR-01', 'what is not JSON is -32700', async () => {
  const { daemon } = await bench()
  for (const text of ['{\n', 'nonsense\n', '{"a":1}{"b":2}\n', '{"id":1\n']) {
    const { id, error } = JSON.parse(await bytesFor(daemon.ready.socket, text, 1))
    assert.deepEqual([id, error.code, error.data.code], [null, -32700, 'parse_error'], text)
  }
})
must('HW-ERR-02', 'what is no request is -32600, and so are an empty batch and one of 101', async () => {
  const { daemon } = await bench()
  const many = JSON.stringify(Array.from({ length: 101 }, () => ({ jsonrpc: '2.0', method: 'x' })))
  for (const text of [
    '7\n',
    '"x"\n',
    '{}\n',
    '{"jsonrpc":"2.0","id":1}\n',
    '{"jsonrpc":"1.0","id":1,"method":"x"}\n',
    '{"jsonrpc":"2.0","id":1,"method":7}\n',
    '[]\n',
    `${many}\n`,
  ]) {
    const { error } = JSON.parse(await bytesFor(daemon.ready.socket, text, 1))
    assert.deepEqual([error.code, error.data.code], [-32600, 'invalid_request'], text.slice(0, 60))
  }
})
must(
  ['HW-ERR-03', 'HW-ERR-04', 'HW-ERR-06', 'HW-ERR-07', 'HW-ERR-08', 'HW-ERR-09'],
  'each failure has the number of the draft, a word and a reason',
  async () => {
    const { client, session, refused } = await bench()
    const said = async (method: string, params: object): Promise<Any> => (await client.call(method, params)).error
    const cases: [Any, number, string][] = [
      [await said('tool.install', {}), -32601, 'method_not_found'],
      [await said('task.get', { session_id: session }), -32602, 'invalid_params'],
      [await refused([{ tool: 'gpio.set', args: { line: 17 } }]), -32602, 'invalid_params'],
      [await refused([{ tool: 'i2c.read', args: { bus: 1, addr: 128, len: 1 } }]), -32602, 'invalid_params'],
      [await said('tool.list', { session_id: 'nobody' }), -32000, 'session_invalid'],
      [await said('task.get', { session_id: session, task_id: 'task_none' }), -32001, 'task_not_found'],
      [await said('task.cancel', { session_id: session, task_id: 'no such!' }), -32001, 'task_not_found'],
      [await said('task.events', { session_id: session, task_id: 'task_none' }), -32001, 'task_not_found'],
      [await refused([{ tool: 'no.such' }]), -32002, 'tool_not_found'],
      [await refused([{ tool: 'proc.exec', args: { program: 'date' } }]), -32003, 'not_allowed'],
      [await refused([set('HEATER', 1)]), -32003, 'risk_cap'],
    ]
    for (const [error, code, word] of cases) {
      assert.deepEqual([error.code, error.data.code], [code, word])
      assert.equal(typeof error.data.reason, 'string')
    }
    const { error } = await client.call('task.submit', { session_id: session, task: { intent: 'x', steps: [get(17), set(17, 7)] } })
    assert.deepEqual([error.data.tool, error.data.step_index, error.data.field], ['gpio.set', 1, 'value'])
  },
)
must('HW-ERR-05', 'only what is no refusal is a bug of ours', () => {
  assert.equal(failureOf(new Error('x')), null)
  for (const code of Object.keys(daemonCodes))
    if (code !== 'STOPPED') assert.notEqual(failureOf(new Refusal(code, 'x'))?.code, -32603, code)
})
must('HW-ERR-10', 'what a running task of another session holds is busy; one’s own tasks wait for each other', async () => {
  const { client, session, as } = await bench()
  const other = await as('brief')
  const first = await client.ask('task.submit', { session_id: session, task: { intent: 'x', steps: [slow] } })
  for (let i = 0; i < 200; i++)
    if ((await client.ask('task.get', { session_id: session, task_id: first.task_id })).status === 'RUNNING') break
  const { error } = await other.client.call('task.submit', { session_id: other.session, task: { intent: 'x', steps: [slow] } })
  assert.deepEqual([error.code, error.data.code, error.data.resource], [-32004, 'busy', 'i2c:1:0x51'])
  const second = await client.ask('task.submit', { session_id: session, task: { intent: 'x', steps: [slow] } })
  for (const { task_id } of [first, second]) assert.equal((await client.finished(session, task_id)).status, 'SUCCESS')
})

must(['HW-CORE-02', 'HW-EVENT-01', 'HW-EVENT-02'], 'events come in order under both names, and end with the task', async () => {
  const { client, session } = await bench()
  const pulse = { tool: 'gpio.pulse', args: { line: 18, value: 1, ms: 1_200 } }
  const { task_id } = await client.ask('task.submit', { session_id: session, task: { intent: 'x', steps: [get(17), pulse] } })
  for (const method of ['task.events', 'task.events.subscribe', 'task.events'])
    assert.deepEqual(await client.ask(method, { session_id: session, task_id }), { ok: true })
  await client.finished(session, task_id)
  await sleep(50)
  const own = client.events.filter((event) => event.task_id === task_id)
  // Each subscription starts over and replaces the previous one.
  const last = own.slice(own.findLastIndex(({ phase, step_index }) => phase === 'start' && step_index === 0))
  assert.deepEqual(
    last.map(({ phase, step_index }) => [phase, step_index]),
    [
      ['start', 0],
      ['finish', 0],
      ['start', 1],
      ['progress', 1],
      ['finish', 1],
      ['task_finish', undefined],
    ],
  )
  assert.equal(own.filter(({ phase }) => phase === 'task_finish').length, 1)
  assert.ok(own.every(({ ts }) => !Number.isNaN(Date.parse(ts))))
  await client.ask('task.events.subscribe', { session_id: session, task_id })
  await sleep(50)
  assert.equal(
    client.events.filter((event) => event.task_id === task_id && event.phase === 'task_finish').length,
    2,
    'what has passed is told',
  )
})
must('HW-VERSION-01', 'the version is ours, whatever the client names; what is none is refused', async () => {
  const { client } = await bench()
  for (const protocol_version of ['0.1.0', '9.0.0-beta+x'])
    assert.equal((await client.ask('session.open', { protocol_version })).protocol_version, '0.1.0')
  assert.equal((await client.call('session.open', { protocol_version: '1' })).error.code, -32602)
})
must('HW-WAY-01', 'each socket is for its owner and its group', async () => {
  const { daemon } = await bench()
  for (const path of Object.values(daemon.ready.sockets)) assert.equal(statSync(path).mode & 0o777, 0o660, path)
})
must('HW-WAY-02', 'an MCP client lists and calls, and errors keep their numbers', async () => {
  const { daemon } = await bench()
  const child = spawn(process.execPath, [CLI, 'device', 'mcp', '--socket', daemon.ready.socket], { stdio: ['pipe', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (part: string) => (text += part))
  const ask = async (id: number, method: string, params: object): Promise<Any> => {
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
    for (let i = 0; i < 2_000; i++) {
      const found = text
        .split('\n')
        .slice(0, -1)
        .map((one) => JSON.parse(one))
        .find((one) => one.id === id)
      if (found) return found
      await sleep(10)
    }
    throw new Error(`no answer to ${method}`)
  }
  await ask(1, 'initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } })
  child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })}\n`)
  const { result } = await ask(2, 'tools/list', {})
  assert.equal(result.tools.find((tool: Any) => tool.name === 'gpio.get')._meta.hacp.risk_level, 0)
  assert.deepEqual((await ask(3, 'tools/call', { name: 'gpio.get', arguments: { line: 17 } })).result.structuredContent, {
    line: 17,
    value: 0,
  })
  const { error } = await ask(4, 'tools/call', { name: 'gpio.set', arguments: { line: 'HEATER', value: 1 } })
  assert.deepEqual([error.code, error.data.code], [-32003, 'risk_cap'])
  assert.equal((await ask(5, 'tools/call', { name: 'no.such', arguments: {} })).error.code, -32002)
  const ended = once(child, 'exit')
  child.stdin.end()
  await ended
})
must(['HW-WAY-03', 'HW-SEC-11'], 'over a network only a certificate gives a policy, and without certificates nothing listens', async () => {
  const file = (name: string): string => join(import.meta.dirname, '../support/hardware/tls', name)
  await assert.rejects(startDaemon({ options: ['--listen', '127.0.0.1:0'] }), (error: Any) => error.code === 2)
  await assert.rejects(
    startDaemon({ options: ['--wss', '127.0.0.1:0', '--tls-cert', file('server.crt')] }),
    (error: Any) => error.code === 2,
  )
  const daemon = await startDaemon({
    options: [
      '--listen',
      '127.0.0.1:0',
      '--socket',
      'off',
      '--tls-cert',
      file('server.crt'),
      '--tls-key',
      file('server.key'),
      '--tls-client-ca',
      file('clients.pem'),
    ],
    policies: { policies: { far: { subjects: ['CN=robin,O=Acme'], tools: ['gpio.get'] } } },
  })
  try {
    const open = (name: string): Promise<Any> =>
      new Promise((done, failed) => {
        const [host, port] = daemon.ready.listen!.split(':')
        const more = { cert: readFileSync(file(`${name}.crt`)), key: readFileSync(file(`${name}.key`)), ca: readFileSync(file('ca.crt')) }
        const socket = connectTls({ host: host!, port: Number(port), servername: 'localhost', ...more }, () => {
          const client = clientOn(socket)
          void client.call('session.open').then((answer) => (socket.destroy(), done(answer)))
        })
        socket.on('error', failed).on('close', () => failed(new Error('closed')))
      })
    assert.deepEqual((await open('robin')).result.capabilities, ['CAP_GPIO_READ', 'CAP_STREAMING_TASK_EVENTS', 'CAP_ATTEST'])
    assert.deepEqual((await open('stranger')).error.data.code, 'not_authenticated')
    await assert.rejects(open('outsider'))
  } finally {
    await daemon.end()
  }
})
