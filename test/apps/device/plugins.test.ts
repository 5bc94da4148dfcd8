// Plug-ins run apart from the daemon: whatever a module returns, throws or does to its process ends at most the step that it did it in.
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { clientAt, type NotStarted, startDaemon, type Any, type Client, type Daemon } from '#test/support/hardware/daemon.ts'

/** Bodies of `execute`, and how each ends: SUCCESS with a result, or FAILED `io` with a message. */
const returns: readonly [name: string, body: string, end: object | RegExp][] = [
  ['plain', `return { a: [1, 'x', null, true, { b: -0.5 }] }`, { a: [1, 'x', null, true, { b: -0.5 }] }],
  ['nothing', ``, { value: null }],
  ['number', `return 21.5`, { value: 21.5 }],
  ['nan', `return { a: 0 / 0 }`, /the result\.a is NaN, which JSON cannot hold/],
  ['infinity', `return { a: [1 / 0] }`, /the result\.a\[0\] is Infinity/],
  ['bigint', `return { a: 1n }`, /the result\.a is of type bigint/],
  ['cycle', `const a = { b: {} }; a.b.c = a; return a`, /the result\.b\.c contains itself/],
  ['getter', `return { get a() { throw new Error('no reading') } }`, /the result cannot be read: no reading/],
  ['proxy', `return new Proxy({}, { ownKeys() { throw null } })`, /the result cannot be read: null/],
  ['function', `return { a: () => 1 }`, /the result\.a is of type function/],
  ['undefined', `return { a: undefined }`, /the result\.a is of type undefined/],
  ['symbol', `return Symbol('x')`, /the result is of type symbol/],
  ['map', `return new Map([[1, 2]])`, /the result is not a plain object/],
  ['huge', `return { a: 'x'.repeat(2 ** 21) }`, /longer than 1048576 characters/],
  ['sparse', `return new Array(4e9)`, /longer than 1048576 characters/],
  ['deep', `let a = 1; for (let i = 0; i < 1e5; i++) a = [a]; return a`, /nested more than 24 deep/],
  ['thrown', `throw new Error('secret of the module')`, /^com\.acme\.thrown failed$/],
  ['thrown.null', `throw null`, /^com\.acme\.thrown\.null failed$/],
  ['rejected', `return Promise.reject(new Error('x'))`, /^com\.acme\.rejected failed$/],
  ['exit', `process.exit(3)`, /its process ended \(3\)/],
  ['killed', `process.kill(process.pid, 'SIGSEGV'); return new Promise(() => {})`, /its process ended \(SIGSEGV\)/],
  ['memory', `const all = []; for (;;) all.push(new Array(1e6).fill({}))`, /its process ended/],
  ['stray', `setTimeout(() => { throw new Error('x') }); return new Promise(() => {})`, /an error was left that nothing caught/],
  ['later', `setTimeout(() => Promise.reject(new Error('too late')), 20); return { ok: true }`, { ok: true }],
]
const resources: readonly [name: string, body: string, message: RegExp][] = [
  [
    'throws',
    `throw new Error('x')`,
    /^com\.acme\.resource\.throws could not say which resource it uses: com\.acme\.resource\.throws failed$/,
  ],
  ['hangs', `for (;;) ;`, /it took too long/],
  ['exits', `process.exit(1)`, /its process ended \(1\)/],
]
const tool = (name: string, body: string, more = ''): string =>
  `{ name: 'com.acme.${name}', risk_level: 0, description: 'x', params_schema: { type: 'object' }, ${more} execute(args, { signal }) { ${body} } }`

describe('plug-ins', () => {
  let folder: string
  let daemon: Daemon
  let client: Client
  let session: string
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'countersign-plugins-'))
    const path = join(folder, 'plugins')
    mkdirSync(path)
    const tools = [
      ...returns.map(([name, body]) => tool(name, body, 'timeout_ms: 60000,')),
      ...resources.map(([name, body]) => tool(`resource.${name}`, '', `resource() { ${body} },`)),
    ]
    writeFileSync(join(path, 'bad.js'), `export const tools = [${tools.join(',')}]`)
    const busy = [
      tool('busy', `for (;;) ;`, 'timeout_ms: 300,'),
      tool('spin', `for (;;) ;`, 'timeout_ms: 60000,'),
      tool('deaf', `return new Promise(() => {})`, 'timeout_ms: 60000,'),
      tool('pid', `return { pid: process.pid, said: console.log('printed by a plug-in') }.pid`),
    ]
    writeFileSync(join(path, 'busy.js'), `export const tools = [${busy.join(',')}]`)
    daemon = await startDaemon({
      options: ['--plugins', path],
      policies: { policies: { default: { tools: ['gpio.*', 'hw.*', 'com.acme.*'], concurrent: 4, queue: 100 } } },
    })
    client = await clientAt(daemon.ready.socket)
    session = await client.open()
  })
  after(async () => {
    client.close()
    await daemon.end()
    rmSync(folder, { recursive: true, force: true })
  })
  const submit = (steps: readonly object[], more: object = {}): Promise<Any> =>
    client.call('task.submit', { session_id: session, task: { intent: 'x', steps, ...more } })
  const running = async (task_id: string): Promise<void> => {
    while ((await client.ask('task.get', { session_id: session, task_id })).status !== 'RUNNING') await new Promise(setImmediate)
  }

  it('end their step for every result, error and process failure', async () => {
    const ends = await Promise.all(
      returns.map(async ([name]) => [name, await client.run(session, [{ tool: `com.acme.${name}` }])] as const),
    )
    for (const [i, [name, task]] of ends.entries()) {
      const [step] = task.steps
      const expected = returns[i]![2]
      if (expected instanceof RegExp) {
        deepEqual([task.status, step.status, step.code], ['FAILED', 'FAILED', 'io'], name)
        match(step.error, expected, name)
      } else deepEqual([task.status, step.result], ['SUCCESS', expected], name)
    }
    equal((await client.run(session, [{ tool: 'hw.info' }])).status, 'SUCCESS')
  })

  it('are refused by name if they cannot say which resource they use', async () => {
    for (const [name, , message] of resources) {
      const { error } = await submit([{ tool: `com.acme.resource.${name}` }])
      deepEqual(
        [error.code, error.data.code, error.data.tool, error.data.step_index],
        [-32009, 'tool_failed', `com.acme.resource.${name}`, 0],
      )
      match(error.data.reason, message)
    }
  })

  it('delay no other call: time limits and cancels end a busy loop, and its process is replaced', async () => {
    const before = (await client.run(session, [{ tool: 'com.acme.pid' }])).steps[0].result.value
    const late = await client.run(session, [{ tool: 'com.acme.busy' }])
    deepEqual([late.status, late.steps[0].code], ['FAILED', 'timeout'])
    const { task_id } = (await submit([{ tool: 'com.acme.deaf' }, { tool: 'hw.info' }])).result
    await running(task_id)
    await client.ask('task.cancel', { session_id: session, task_id })
    const cancelled = await client.finished(session, task_id)
    deepEqual([cancelled.status, cancelled.steps[0].status, cancelled.steps[1].skipped], ['CANCELLED', 'CANCELLED', true])
    const after = (await client.run(session, [{ tool: 'com.acme.pid' }])).steps[0].result.value
    ok(before !== after && after !== daemon.process.pid)
    const limited = await client.run(session, [{ tool: 'com.acme.deaf' }], { constraints: { max_duration_ms: 100 } })
    deepEqual([limited.status, limited.code, limited.steps[0].code], ['FAILED', 'timeout', 'timeout'])
  })

  it('hold up neither other tools nor the end of their session, and outputs are made safe', async () => {
    const other = await clientAt(daemon.ready.socket)
    const theirs = await other.open()
    await other.run(theirs, [{ tool: 'gpio.set', args: { line: 'RELAY', value: 1 } }])
    for (let i = 0; i < 3; i++)
      await other.ask('task.submit', { session_id: theirs, task: { intent: 'x', steps: [{ tool: 'com.acme.deaf' }] } })
    equal((await client.run(session, [{ tool: 'hw.info' }])).status, 'SUCCESS')
    deepEqual(await other.ask('session.close', { session_id: theirs }), { ok: true })
    equal((await client.run(session, [{ tool: 'gpio.get', args: { line: 'BUTTON' } }])).steps[0].result.value, 0)
    other.close()
  })

  it('end with the daemon, also when it is killed in the middle of a busy loop', async () => {
    match(daemon.stderr(), /printed by a plug-in/)
    const { task_id } = (await submit([{ tool: 'com.acme.spin' }])).result
    await running(task_id)
    const children = readFileSync(`/proc/${daemon.process.pid}/task/${daemon.process.pid}/children`, 'utf8').trim().split(' ')
    ok(children.length > 1)
    const isThere = (pid: string): boolean => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('plugin-process')
      } catch {
        return false
      }
    }
    await daemon.kill('SIGKILL')
    while (children.some(isThere)) await new Promise((done) => setTimeout(done, 10))
    const again = await daemon.start()
    const next = await clientAt(again.ready.socket)
    const { task_id: last } = await next.ask('task.submit', {
      session_id: await next.open(),
      task: { intent: 'x', steps: [{ tool: 'com.acme.spin' }] },
    })
    while (!again.lines().some((line) => line.event === 'task.step.start' && line.task_id === last)) await new Promise(setImmediate)
    // It promises to end within five seconds, and to record how the task did.
    equal(await again.kill('SIGTERM'), 0)
    equal(again.lines().find((line) => line.event === 'task.finish' && line.task_id === last)?.status, 'CANCELLED')
    equal(again.lines().at(-1).event, 'audit.checkpoint')
  })

  it('that cannot be loaded end the start, and name the file', async () => {
    const wrong: [string, RegExp][] = [
      [`export const tools = 7`, /wrong\.js: tools must be a list/],
      [`throw new Error('no such board')`, /wrong\.js: no such board/],
      [`process.exit(0)`, /wrong\.js: its process ended while it was loaded \(0\)/],
      [
        `export const tools = [{ name: 'com.acme.x', risk_level: 0, description: 'x', params_schema: {}, execute: 'rm' }]`,
        /execute must be a function/,
      ],
    ]
    for (const [text, message] of wrong) {
      const path = mkdtempSync(join(folder, 'wrong-'))
      writeFileSync(join(path, 'wrong.js'), text)
      await rejects(
        startDaemon({ options: ['--plugins', path] }),
        (error: NotStarted) => error.code === 2 && message.test(error.message),
        text,
      )
    }
  })
})
