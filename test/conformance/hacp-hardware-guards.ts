// Audit, security and privacy of the hardware draft (sections 7, 12 and 13).
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { unitText } from '../../src/apps/cli/device/install.ts'
import { lineHash } from '#protocols/hardware/daemon/audit-line.ts'
import { startDaemon, type Any } from '../support/hardware/daemon.ts'
import { bench, get, hardware, set, slow } from './hacp-hardware-cited.ts'

const { must } = hardware
const CLI = join(import.meta.dirname, '../../bin/countersign.js')

must(['HW-AUDIT-01', 'HW-AUDIT-02', 'HW-AUDIT-03', 'HW-AUDIT-04'], 'each event is a line, in the order in which it happened', async () => {
  const { daemon, client } = await bench()
  const session = await client.open()
  const { task_id } = await client.run(session, [get(17), { tool: 'i2c.read', args: { bus: 1, addr: 9, len: 1 } }])
  await client.ask('session.close', { session_id: session })
  const own = daemon.lines().filter(({ session_id }) => session_id === session)
  assert.deepEqual(
    own.map(({ event, step_index, status, reason }) => [event, step_index ?? null, status ?? reason ?? null]),
    [
      ['session.open', null, null],
      ['task.submit', null, null],
      ['task.step.start', 0, null],
      ['task.step.finish', 0, 'SUCCESS'],
      ['task.step.start', 1, null],
      ['task.step.finish', 1, 'FAILED'],
      ['task.finish', null, 'FAILED'],
      ['session.close', null, 'closed'],
    ],
  )
  for (const line of own) {
    assert.deepEqual([line.v, line.device_id, line.policy], [1, daemon.ready.device_id, 'default'])
    assert.match(line.ts, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    if (line.event.startsWith('task.')) assert.equal(line.task_id, task_id)
    if (line.event.startsWith('task.step.')) assert.match(line.args_hash, /^sha256:[0-9a-f]{64}$/)
  }
})
must(
  ['HW-AUDIT-05', 'HW-SEC-12', 'HW-PRIV-01'],
  'the file only grows, each line names the hash of the one before, and arguments cannot be guessed',
  async () => {
    const { daemon, run } = await bench()
    const path = join(daemon.data, 'audit.ndjson')
    const before = readFileSync(path, 'utf8')
    await run([set(17, 1), set(17, 1), set(17, 0)])
    const text = readFileSync(path, 'utf8')
    assert.ok(text.startsWith(before) && text.endsWith('\n'))
    const lines = text.trimEnd().split('\n')
    for (const [i, line] of lines.entries()) {
      const { seq, prev } = JSON.parse(line)
      assert.deepEqual([seq, prev], [i + 1, i === 0 ? '' : lineHash(lines[i - 1]!)])
    }
    assert.equal(statSync(path).mode & 0o777, 0o640)
    const hashes = lines
      .slice(-9)
      .map((line) => JSON.parse(line))
      .filter(({ event }) => event === 'task.step.start')
      .map(({ args_hash }) => args_hash)
    assert.equal(new Set(hashes).size, 3, 'the same arguments have another hash each time')
    const { stdout } = await promisify(execFile)(process.execPath, [CLI, 'device', 'audit', 'verify', '--data', daemon.data, '--json'])
    assert.equal(JSON.parse(stdout).ok, true)
  },
)
must('HW-SEC-01', 'no method brings a tool, and what is not registered does not exist', async () => {
  const { client, session, refused } = await bench()
  const names = async (): Promise<string[]> => (await client.ask('tool.list', { session_id: session })).tools.map(({ name }: Any) => name)
  const before = await names()
  for (const method of [
    'tool.register',
    'tool.install',
    'tool.add',
    'rpc.discover',
    'hardware/step.start',
    'step.start',
    'daemon.stop',
    'denial.record',
  ])
    assert.equal((await client.call(method, { session_id: session, name: 'x.y', task_id: 't', index: 0 })).error.code, -32601, method)
  assert.equal((await refused([{ tool: 'x.y' }])).code, -32002)
  assert.deepEqual(await names(), before)
})
must('HW-SEC-02', 'a path off the list is refused, and a listed name that leads elsewhere is denied', async () => {
  const { folder, run, refused } = await bench()
  symlinkSync('/etc', join(folder, 'files/etc'))
  for (const tool of ['file.read', 'file.list', 'file.stat', 'file.write'])
    for (const path of ['/etc/passwd', `${folder}/files/../secret`, `${folder}/filesx`, 'files/a', '/proc/self/mem']) {
      const error = await refused([{ tool, args: { path, data: '' } }])
      assert.deepEqual([error.code, error.data.code], [-32003, 'path_denied'], `${tool} ${path}`)
    }
  for (const [tool, path] of [
    ['file.read', 'etc/passwd'],
    ['file.list', 'etc'],
    ['file.stat', 'etc'],
    ['file.write', 'etc/new'],
  ] as const) {
    const task = await run([{ tool, args: { path: join(folder, 'files', path), data: '' } }])
    assert.deepEqual([task.status, task.steps[0].code], ['FAILED', 'denied'], `${tool} ${path}`)
  }
})
must('HW-SEC-04', 'a full queue refuses, with a number of its own', async () => {
  const { as } = await bench()
  const { client, session } = await as('small')
  const submit = (): Promise<Any> => client.call('task.submit', { session_id: session, task: { intent: 'x', steps: [slow] } })
  const answers = await Promise.all([submit(), submit(), submit(), submit()])
  const refused = answers.filter(({ error }) => error)
  assert.equal(refused.length, 2)
  for (const { error } of refused) assert.deepEqual([error.code, error.data.code, error.data.limit], [-32006, 'queue_full', 1])
  for (const { result } of answers) if (result) await client.finished(session, result.task_id)
  assert.ok((await submit()).result, 'and takes again')
})
must(
  ['HW-SEC-05', 'HW-SEC-08'],
  'the unit runs as nobody in particular, with the groups of its buses, a closed list of devices and a filter of system calls',
  async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [CLI, 'device', 'install', '--dry-run'])
    for (const message of [
      'User=countersign',
      'SupplementaryGroups=gpio i2c dialout',
      'NoNewPrivileges=yes',
      'CapabilityBoundingSet=\n',
      'DevicePolicy=closed',
      'SystemCallFilter=@system-service',
      'ProtectSystem=strict',
      // Members of the group use the socket; the record and the audit file are the daemon's alone.
      'StateDirectoryMode=0700',
      'UMask=0077',
      '--socket /run/countersign/device.sock',
      'RuntimeDirectoryMode=0750',
      '# folders: /var/lib/countersign-device (0700)',
    ])
      assert.ok(stdout.includes(message), message)
    assert.ok(!stdout.includes('MemoryDenyWriteExecute'), 'V8 writes code')
    assert.match(unitText('/x', ['gpiochip0'], ['/srv/out']), /^ReadWritePaths=\/var\/lib\/countersign-device -\/srv\/out$/m)
  },
)
must('HW-SEC-06', 'each session has its own rate for each tool', async () => {
  const { as } = await bench()
  const { client, session } = await as('slow')
  const submit = (session_id: string, step: object): Promise<Any> =>
    client.call('task.submit', { session_id, task: { intent: 'x', steps: [step] } })
  for (let i = 0; i < 2; i++) assert.ok((await submit(session, get(17))).result)
  const { error } = await submit(session, get(17))
  assert.deepEqual([error.code, error.data.code], [-32005, 'rate_limited'])
  assert.ok(error.data.retry_after_ms > 0)
  assert.ok((await submit(session, set(17, 0))).result, 'another tool')
  assert.ok((await submit(await client.open(), get(17))).result, 'another session')
})
must('HW-SEC-07', 'a tool that takes too long is ended, and says so', async () => {
  const { run } = await bench()
  const task = await run([{ tool: 'com.acme.lamp.stuck' }])
  assert.deepEqual([task.status, task.steps[0].code], ['FAILED', 'timeout'])
})
must('HW-SEC-09', 'without a section for it there is no proc.exec, whatever a policy says', async () => {
  const daemon = await startDaemon({ policies: { policies: { default: { tools: ['proc.*', 'gpio.*'], max_risk_level: 3 } } } })
  try {
    const { clientAt } = await import('../support/hardware/daemon.ts')
    const client = await clientAt(daemon.ready.socket)
    const session = await client.open()
    const { tools } = await client.ask('tool.list', { session_id: session })
    assert.ok(!tools.some(({ name }: Any) => name.startsWith('proc.')))
    const { error } = await client.call('task.submit', {
      session_id: session,
      task: { intent: 'x', steps: [{ tool: 'proc.exec', args: { program: 'date' } }] },
    })
    assert.equal(error.code, -32002)
    client.close()
  } finally {
    await daemon.end()
  }
})
must('HW-SEC-10', 'with it, only the named programs run, at risk 3 and without a shell', async () => {
  const { as } = await bench()
  const { client, session } = await as('relaxed')
  const { tools } = await client.ask('tool.list', { session_id: session })
  assert.equal(tools.find(({ name }: Any) => name === 'proc.exec').risk_level, 3)
  const submit = (args: object, constraints: object = {}): Promise<Any> =>
    client.call('task.submit', { session_id: session, task: { intent: 'x', steps: [{ tool: 'proc.exec', args }], constraints } })
  assert.equal((await submit({ program: 'date' })).error.data.code, 'risk_cap')
  for (const args of [{ program: '/bin/sh' }, { program: 'date; id' }, { program: 'date', args: ['-s', '0'] }])
    assert.equal((await submit(args, { max_risk_level: 3 })).error.code, -32602)
  const { result } = await submit({ program: 'date' }, { max_risk_level: 3 })
  const task = await client.finished(session, result.task_id)
  assert.match(task.steps[0].result.stdout, /UTC/)
})
must(['HW-PRIV-02', 'HW-PRIV-03'], 'personal data is never a mere reading, and nobody has it by a pattern', async () => {
  const { refused, as } = await bench()
  assert.equal((await refused([{ tool: 'com.acme.mic.record' }])).data.code, 'not_allowed', 'com.acme.* does not name it')
  const { client, session } = await as('named')
  const { tools } = await client.ask('tool.list', { session_id: session })
  assert.deepEqual(
    tools.map(({ name, risk_level, personal }: Any) => [name, risk_level, personal]),
    [['com.acme.mic.record', 2, true]],
  )
})
