// The guards of the daemon: policies, rates, queues, sessions, paths, plug-ins and programs, as an operator sets them.
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { clientAt, type NotStarted, startDaemon, type Any, type Client, type Daemon } from '#test/support/hardware/daemon.ts'

describe('the guards of the daemon', () => {
  let folder: string
  let daemon: Daemon
  let client: Client
  let session: string
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'countersign-guards-'))
    mkdirSync(join(folder, 'files/out'), { recursive: true })
    writeFileSync(join(folder, 'files/a.txt'), 'hello')
    writeFileSync(join(folder, 'secret.txt'), 'secret')
    symlinkSync(join(folder, 'secret.txt'), join(folder, 'files/link.txt'))
    mkdirSync(join(folder, 'plugins'))
    writeFileSync(
      join(folder, 'plugins/acme.js'),
      `export const tools = [{ name: 'com.acme.modbus.read', risk_level: 0, description: 'Reads.', params_schema: { type: 'object', required: ['unit'], properties: { unit: { type: 'integer' } } }, execute: ({ unit }) => ({ unit, value: 42 }) }]`,
    )
    daemon = await startDaemon({
      options: ['--plugins', join(folder, 'plugins')],
      policies: {
        policies: {
          default: {
            tools: ['gpio.*', 'file.*', 'hw.*', 'i2c.*', 'com.acme.*', 'proc.exec'],
            max_risk_level: 2,
            relax_to: 3,
            read: [join(folder, 'files')],
            write: [join(folder, 'files/out')],
            rate: { 'gpio.get': { per_second: 0.1, burst: 3 } },
            queue: 2,
            concurrent: 1,
            sessions: 3,
          },
          brief: { socket: 'brief.sock', tools: ['gpio.*'], idle_seconds: 2 },
          reader: { socket: 'reader.sock', tools: ['gpio.get', 'gpio.set'], max_risk_level: 0 },
        },
        proc: {
          programs: {
            date: ['/bin/date', '-u'],
            say: { argv: ['/bin/echo'], args: true },
            leaves: ['/bin/sh', '-c', 'sleep 60 & echo $!'],
          },
        },
      },
    })
    client = await clientAt(daemon.ready.socket)
    session = await client.open()
  })
  after(async () => {
    client.close()
    await daemon.end()
    rmSync(folder, { recursive: true, force: true })
  })
  const submit = (step: object, constraints: object = {}): Promise<Any> =>
    client.call('task.submit', { session_id: session, task: { intent: 'x', steps: [step], constraints } })

  it('keeps a session alive that is used, and ends one that is not', async () => {
    const other = await clientAt(daemon.ready.sockets['brief']!)
    const [idle, used, busy] = [await other.open(), await other.open(), await other.open()]
    await other.run(idle, [{ tool: 'gpio.set', args: { line: 17, value: 1 } }])
    const watching = await other.ask('task.submit', {
      session_id: busy,
      task: { intent: 'x', steps: [{ tool: 'gpio.watch', args: { line: 27, timeout_ms: 3_500 } }] },
    })
    for (let i = 0; i < 16; i++) {
      await other.ask('tool.list', { session_id: used })
      await new Promise((done) => setTimeout(done, 200))
    }
    equal((await other.call('tool.list', { session_id: idle })).error.code, -32000)
    const lines = daemon.lines()
    ok(lines.some((line) => line.event === 'session.close' && line.session_id === idle && line.reason === 'idle'))
    equal((await other.run(used, [{ tool: 'gpio.get', args: { line: 17 } }])).steps[0].result.value, 0, 'its output is safe')
    equal((await other.finished(busy, watching.task_id)).status, 'SUCCESS', 'running is not idle')
    other.close()
  })

  it('gives each socket its own policy', async () => {
    const other = await clientAt(daemon.ready.sockets['reader']!)
    const id = await other.open()
    const { tools } = await other.ask('tool.list', { session_id: id })
    deepEqual(
      tools.map(({ name }: Any) => name),
      ['gpio.get', 'gpio.set'],
    )
    const above = await other.call('task.submit', {
      session_id: id,
      task: { intent: 'x', steps: [{ tool: 'gpio.set', args: { line: 17, value: 1 } }] },
    })
    equal(above.error.data.code, 'risk_cap')
    const foreign = await other.call('task.submit', { session_id: id, task: { intent: 'x', steps: [{ tool: 'hw.info' }] } })
    deepEqual([foreign.error.code, foreign.error.data.code], [-32003, 'not_allowed'])
    other.close()
  })

  it('limits how often a session uses a tool', async () => {
    const codes: number[] = []
    for (let i = 0; i < 5; i++) {
      const { error } = await submit({ tool: 'gpio.get', args: { line: 17 } })
      codes.push(error?.code ?? 0)
      if (error) ok(error.data.retry_after_ms > 0 && error.data.retry_after_ms <= 10_000, JSON.stringify(error))
    }
    deepEqual(codes, [0, 0, 0, -32005, -32005])
    const other = await clientAt(daemon.ready.socket)
    const theirs = await other.open()
    const task = { intent: 'x', steps: [{ tool: 'gpio.get', args: { line: 17 } }] }
    ok((await other.call('task.submit', { session_id: theirs, task })).result, 'each session has its own')
    await other.ask('session.close', { session_id: theirs })
    other.close()
  })

  it('bounds sessions and queues with a number of their own', async () => {
    const extra = await clientAt(daemon.ready.socket)
    const opened: Any[] = []
    for (let i = 0; i < 4; i++) opened.push(await extra.call('session.open'))
    const { error } = opened.at(-1)
    deepEqual([error.code, error.data.code, error.data.limit], [-32006, 'sessions_full', 3])
    const slow = { tool: 'i2c.read', args: { bus: 1, addr: '0x51', len: 1 } }
    const all = await Promise.all(Array.from({ length: 5 }, () => submit(slow)))
    const refused = all.filter((one) => one.error)
    equal(refused.length, 2)
    deepEqual([refused[0].error.code, refused[0].error.data.code, refused[0].error.data.limit], [-32006, 'queue_full', 2])
    for (const one of all) if (one.result) await client.finished(session, one.result.task_id)
    extra.close()
  })

  it('reads and writes only below the listed folders, and over no link', async () => {
    const read = await client.run(session, [{ tool: 'file.read', args: { path: join(folder, 'files/a.txt') } }])
    deepEqual(read.steps[0].result, { data: Buffer.from('hello').toString('base64'), offset: 0, size: 5, eof: true })
    const linked = await client.run(session, [{ tool: 'file.read', args: { path: join(folder, 'files/link.txt') } }])
    deepEqual([linked.status, linked.steps[0].code], ['FAILED', 'denied'])
    for (const path of [join(folder, 'secret.txt'), join(folder, 'files/../secret.txt'), '/proc/self/environ', 'files/a.txt'])
      equal((await submit({ tool: 'file.read', args: { path } })).error.data.code, 'path_denied', path)
    equal((await submit({ tool: 'file.write', args: { path: join(folder, 'files/a.txt'), data: 'AA==' } })).error.data.code, 'path_denied')
    const write = await client.run(session, [
      { tool: 'file.write', args: { path: join(folder, 'files/out/b.txt'), data: 'AAEC' } },
      { tool: 'file.list', args: { path: join(folder, 'files/out') } },
    ])
    deepEqual(write.steps[1].result.entries, [{ name: 'b.txt', type: 'file', size: 3 }])
    equal(statSync(join(folder, 'files/out/b.txt')).mode & 0o777, 0o640)
  })

  it('runs the operator’s own programs and plug-ins, and nothing else', async () => {
    const plugin = await client.run(session, [{ tool: 'com.acme.modbus.read', args: { unit: 7 } }])
    deepEqual(plugin.steps[0].result, { unit: 7, value: 42 })
    equal((await submit({ tool: 'com.acme.modbus.read', args: {} })).error.code, -32602)
    equal((await submit({ tool: 'proc.exec', args: { program: 'date' } })).error.data.code, 'risk_cap')
    const relaxed = { constraints: { max_risk_level: 3 } }
    const date = await client.run(session, [{ tool: 'proc.exec', args: { program: 'date' } }], relaxed)
    match(date.steps[0].result.stdout, /UTC/)
    const say = await client.run(session, [{ tool: 'proc.exec', args: { program: 'say', args: ['$(id); `id`'] } }], relaxed)
    equal(say.steps[0].result.stdout, '$(id); `id`\n')
    const leaves = await client.run(session, [{ tool: 'proc.exec', args: { program: 'leaves' } }], relaxed)
    const isThere = (): boolean => {
      try {
        return readFileSync(`/proc/${Number(leaves.steps[0].result.stdout)}/stat`, 'utf8').split(' ')[2] !== 'Z'
      } catch {
        return false
      }
    }
    // It ends with its program, which was not waited for in vain.
    while (isThere()) await new Promise((done) => setTimeout(done, 10))
    equal((await submit({ tool: 'proc.exec', args: { program: 'date', args: ['-s', '0'] } }, { max_risk_level: 3 })).error.code, -32602)
    equal((await submit({ tool: 'proc.exec', args: { program: '/bin/sh' } }, { max_risk_level: 3 })).error.code, -32602)
  })

  it('does not start with a file that it does not understand, and names the place', async () => {
    const wrong: [object, RegExp][] = [
      [{ policies: { a: { tols: [] } } }, /policies\.a\.tols/],
      [{ policies: { a: { tools: ['gpoi.*'] } } }, /policies\.a\.tools\[0\].*gpoi/],
      [{ policies: { a: { max_risk_level: '2' } } }, /policies\.a\.max_risk_level/],
      [{ policies: {}, extra: 1 }, /extra/],
      [{ policies: { a: { read: ['relative'] } } }, /policies\.a\.read\[0\]/],
    ]
    for (const [policies, message] of wrong)
      await rejects(startDaemon({ policies }), (error: NotStarted) => error.code === 2 && message.test(error.message), String(message))
    await rejects(
      startDaemon({ profile: { gpio: { '1': { direktion: 'in' } } } }),
      (error: NotStarted) => error.code === 2 && error.message.includes('direktion'),
    )
    await rejects(
      startDaemon({ options: ['--listen', '127.0.0.1:0'] }),
      (error: NotStarted) => error.code === 2 && error.message.includes('--tls-cert'),
    )
    await rejects(daemon.start(), (error: NotStarted) => error.code === 1 && error.message.includes('another daemon'))
  })
})
