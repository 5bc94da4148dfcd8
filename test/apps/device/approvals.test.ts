// Approvals and the link, with a real server, a real person's answer and a real daemon: an approval runs exactly the shown steps, once.
import { deepEqual, equal, ok } from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { createCaller, enroll, startServer, type Keys, type ServerProcess } from '#test/support/as-processes/server.ts'
import { clientAt, startDaemon, type Any, type Client, type Daemon } from '#test/support/hardware/daemon.ts'

const CLI = join(import.meta.dirname, '../../../bin/countersign.js')
const heater = (value: number): object => ({ tool: 'gpio.set', args: { line: 'HEATER', value } })

describe('approvals of hardware tasks', () => {
  let folder: string
  let server: ServerProcess
  let keys: Keys
  let caller: ReturnType<typeof createCaller>
  let daemon: Daemon
  let client: Client
  let session: string
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'countersign-approvals-'))
    server = await startServer(join(folder, 'server'))
    keys = await enroll(server.port, server.adminKey)
    caller = createCaller(server.port)
    const jwks = await (await fetch(`http://127.0.0.1:${server.port}/.well-known/jwks.json`)).text()
    writeFileSync(join(folder, 'jwks.json'), jwks)
    daemon = await startDaemon({
      options: ['--approval-keys', join(folder, 'jwks.json')],
      policies: {
        policies: {
          default: { tools: ['gpio.*'], approvals: true, approval_seconds: 600 },
          brief: { socket: 'brief.sock', tools: ['gpio.*'], approvals: true, approval_seconds: 2, idle_seconds: 1 },
        },
      },
    })
    client = await clientAt(daemon.ready.socket)
    session = await client.open()
  })
  after(async () => {
    client.close()
    caller.close()
    await daemon.end()
    await server.end('SIGTERM')
    rmSync(folder, { recursive: true, force: true })
  })
  const ask = async (key: string, operation: string, input: object): Promise<Any> => {
    const { status, body } = await caller.call(key, operation, input)
    equal(status, 200, JSON.stringify(body))
    return body
  }
  const submit = (steps: readonly object[], more: object = {}): Promise<Any> =>
    client.call('task.submit', { session_id: session, task: { intent: 'warm up', steps }, ...more })
  /** Asks with the body of the refusal, as an agent does, and answers as the person. */
  async function approval(steps: readonly object[], result = 'approved'): Promise<Any> {
    const { error } = await submit(steps)
    equal(error.data.code, 'approval_required')
    const { request } = await ask(keys.devin, 'execution/request.create', error.data.approval)
    await ask(keys.alice, 'execution/request.resolve', { request_id: request.id, result })
    const got = await ask(keys.devin, 'execution/request.get', { request_id: request.id })
    return { receipt: got.receipt, request: got.request }
  }
  const codeOf = async (steps: readonly object[], given: object): Promise<string> =>
    (await submit(steps, { approval: given })).error?.data.code ?? 'accepted'

  it('carries a question that shows device, tool, line, arguments, the value before and whether it can be taken back', async () => {
    const { error } = await submit([heater(1)])
    deepEqual([error.code, error.data.step_index, error.data.tool], [-32003, 0, 'gpio.set'])
    const { action, risk, payload, timeout_seconds, fallback } = error.data.approval
    deepEqual([action, risk, timeout_seconds, fallback], ['APPROVE', 'R5', 600, 'fail'])
    const { device_id, policy, digest, steps } = payload.details
    deepEqual([device_id, policy], [daemon.ready.device_id, 'default'])
    ok(/^sha256:[0-9a-f]{64}$/.test(digest))
    deepEqual(steps, [
      { tool: 'gpio.set', args: { line: 'HEATER', value: 1 }, risk_level: 3, target: 'line 24 HEATER', before: 0, reversible: true },
    ])
  })

  it('runs once with the receipt, and never again', async () => {
    const given = await approval([heater(1)])
    const { result } = await submit([heater(1)], { approval: given })
    const task = await client.finished(session, result.task_id)
    equal(task.status, 'SUCCESS')
    equal(await codeOf([heater(1)], given), 'approval_used')
    const line = daemon.lines().find((one) => one.event === 'approval.used')
    deepEqual([line.receipt_id, line.request_id, line.task_id], [given.receipt.receipt_id, given.request.id, result.task_id])
    await client.ask('session.close', { session_id: session })
    session = await client.open()
  })

  it('refuses what was not approved, was approved for something else, was changed, or was forged', async () => {
    const given = await approval([heater(1)])
    equal(await codeOf([heater(0)], given), 'approval_mismatch')
    equal(await codeOf([heater(1), heater(0)], given), 'approval_mismatch')
    const changed = structuredClone(given)
    changed.request.payload.details.device_id = 'dev_01M7KWT4AM3CGNK3RSP1NP0T20'
    equal(await codeOf([heater(1)], changed), 'approval_invalid')
    const forged = structuredClone(given)
    forged.receipt.signature = forged.receipt.signature.slice(0, -4) + 'AAAA'
    equal(await codeOf([heater(1)], forged), 'approval_invalid')
    const relabelled = structuredClone(await approval([heater(1)], 'rejected'))
    equal(await codeOf([heater(1)], relabelled), 'approval_rejected')
    relabelled.receipt.result = 'approved'
    equal(await codeOf([heater(1)], relabelled), 'approval_invalid')
    equal(await codeOf([heater(1)], { receipt: {}, request: {} }), 'approval_invalid')
  })

  it('refuses what a person edited before they approved it', async () => {
    const { error } = await submit([heater(1)])
    const { payload, ...body } = error.data.approval
    const { request } = await ask(keys.devin, 'execution/request.create', {
      ...body,
      payload: { ...payload, details_schema: { type: 'object' } },
    })
    const edited = { ...payload.details, policy: 'brief' }
    await ask(keys.alice, 'execution/request.resolve', { request_id: request.id, result: 'approved', edited })
    const got = await ask(keys.devin, 'execution/request.get', { request_id: request.id })
    deepEqual([got.receipt.result, got.receipt.edited?.policy], ['approved', 'brief'])
    equal(await codeOf([heater(1)], got), 'approval_mismatch')
    const { edited: _, ...hidden } = got.receipt
    equal(await codeOf([heater(1)], { ...got, receipt: hidden }), 'approval_mismatch', 'the signature says that it was edited')
  })

  it('refuses what a standing grant approved beforehand: no person has seen these steps', async () => {
    const spec = { goal: 'Warm the bench', acceptance_criteria: ['it is warm'] }
    const { task } = await ask(keys.alice, 'collaboration/task.create', { type: 'x', spec })
    await ask(keys.alice, 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
    await ask(keys.devin, 'collaboration/task.start', { task_id: task.id })
    await ask(keys.alice, 'collaboration/grant.add', { task_id: task.id, scope: 'hardware:heat', decision: 'allow', until: 'task' })
    const { error } = await submit([heater(1)])
    const { payload, ...body } = error.data.approval
    const asked = { ...body, metadata: { task_id: task.id }, payload: { ...payload, scope: 'hardware:heat' } }
    const got = await ask(keys.devin, 'execution/request.create', asked)
    deepEqual([got.receipt.result, got.receipt.basis.kind], ['approved', 'grant'])
    equal(await codeOf([heater(1)], got), 'approval_invalid')
    const pins = await client.run(session, [{ tool: 'gpio.get', args: { line: 'HEATER' } }])
    equal(pins.steps[0].result.value, 0)
  })

  it('does nothing when the value has changed since it was shown', async () => {
    const steps = [{ tool: 'gpio.set', args: { line: 24, value: 0 } }]
    const given = await approval(steps)
    const on = await approval([heater(1)])
    const { result } = await submit([heater(1)], { approval: on })
    await client.finished(session, result.task_id)
    const late = await submit(steps, { approval: given })
    const task = await client.finished(session, late.result.task_id)
    deepEqual([task.status, task.code, task.steps[0].code], ['FAILED', 'approval_stale', 'approval_stale'])
    await client.ask('session.close', { session_id: session })
    session = await client.open()
  })

  it('refuses late approvals, those of another policy, and those signed with an unlisted key', async () => {
    const brief = await clientAt(daemon.ready.sockets['brief']!)
    let theirs = await brief.open()
    const submitThere = (more: object = {}): Promise<Any> =>
      brief.call('task.submit', { session_id: theirs, task: { intent: 'x', steps: [heater(1)] }, ...more })
    const { error } = await submitThere()
    const { request } = await ask(keys.devin, 'execution/request.create', error.data.approval)
    await ask(keys.alice, 'execution/request.resolve', { request_id: request.id, result: 'approved' })
    const late = await ask(keys.devin, 'execution/request.get', { request_id: request.id })
    equal(await codeOf([heater(1)], late), 'approval_mismatch', 'of another policy')
    await new Promise((done) => setTimeout(done, 2_500))
    theirs = await brief.open()
    const refused = await submitThere({ approval: { receipt: late.receipt, request: late.request } })
    deepEqual([refused.error.code, refused.error.data.code], [-32003, 'approval_expired'])
    brief.close()
    const given = await approval([heater(1)])
    const jwks = readFileSync(join(folder, 'jwks.json'), 'utf8')
    writeFileSync(join(folder, 'jwks.json'), JSON.stringify({ keys: [] }))
    equal(await codeOf([heater(1)], given), 'approval_invalid', 'the file is read again when it changes')
    writeFileSync(join(folder, 'jwks.json'), jwks)
    equal(
      await codeOf([{ ...heater(1), args: { line: 'HEATER', value: 1, unknown: true } }], given),
      'accepted',
      'unknown arguments are left out',
    )
    await client.ask('session.close', { session_id: session })
    session = await client.open()
  })

  it('needs a link to wait for an answer itself', async () => {
    equal((await submit([heater(1)], { wait_for_approval: true })).error.data.code, 'approval_required')
  })

  it('links: lines reach the server in order, and a task waits for a person', async () => {
    const args = [CLI, 'device', 'link', '--url', `http://127.0.0.1:${server.port}`, '--data', daemon.data, '--name', 'Bench']
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'ignore', 'inherit'] })
    child.stdin.end(`${keys.devin}\n`)
    equal(await new Promise((done) => child.once('exit', done)), 0)
    const until = async (what: () => Promise<boolean>): Promise<void> => {
      for (let i = 0; i < 200 && !(await what()); i++) await new Promise((done) => setTimeout(done, 50))
      ok(await what())
    }
    const device_id = daemon.ready.device_id
    const recorded = async (): Promise<Any[]> => {
      const items: Any[] = []
      for (let after_seq = 0; ; after_seq = items.at(-1).seq) {
        const page = await ask(keys.alice, 'hardware/event.list', { device_id, after_seq, limit: 200 })
        items.push(...page.items)
        if (page.items.length < 200) return items
      }
    }
    await until(async () => (await recorded()).length === daemon.lines().length)
    deepEqual(
      (await recorded()).map(({ line }) => JSON.parse(line)),
      daemon.lines(),
    )
    const { items } = await ask(keys.alice, 'hardware/device.list', {})
    deepEqual([items[0].name, items[0].agent_id], ['Bench', 'agent_devin'])

    const { result } = await submit([heater(1)], { wait_for_approval: true })
    equal((await client.ask('task.get', { session_id: session, task_id: result.task_id })).status, 'QUEUED')
    const waiting = async (): Promise<Any[]> =>
      (await ask(keys.devin, 'execution/request.list', {})).items.filter(({ status }: Any) => status === 'pending' || status === 'assigned')
    let open: Any[] = []
    await until(async () => (open = await waiting()).length > 0)
    await ask(keys.alice, 'execution/request.resolve', { request_id: open[0].id, result: 'approved' })
    equal((await client.finished(session, result.task_id)).status, 'SUCCESS')

    const second = await submit([heater(1)], { wait_for_approval: true })
    await until(async () => (open = await waiting()).length > 0)
    await client.ask('task.cancel', { session_id: session, task_id: second.result.task_id })
    equal((await client.finished(session, second.result.task_id)).status, 'CANCELLED')
    await until(async () => (await ask(keys.devin, 'execution/request.get', { request_id: open[0].id })).request.status === 'cancelled')

    const third = await submit([heater(1)], { wait_for_approval: true })
    await until(async () => (open = await waiting()).length > 0)
    await ask(keys.alice, 'execution/request.resolve', { request_id: open[0].id, result: 'rejected' })
    const rejected = await client.finished(session, third.result.task_id)
    deepEqual([rejected.status, rejected.code, rejected.steps[0].skipped], ['FAILED', 'approval_rejected', true])

    const brief = await clientAt(daemon.ready.sockets['brief']!)
    const theirs = await brief.open()
    const fourth = await brief.ask('task.submit', {
      session_id: theirs,
      task: { intent: 'x', steps: [heater(1)] },
      wait_for_approval: true,
    })
    await new Promise((done) => setTimeout(done, 1_700))
    equal((await brief.ask('task.get', { session_id: theirs, task_id: fourth.task_id })).status, 'QUEUED', 'waiting is not idle')
    const unanswered = await brief.finished(theirs, fourth.task_id)
    equal(unanswered.status, 'FAILED', 'nobody has answered in time')
    await until(
      async () =>
        (await brief.call('tool.list', { session_id: theirs })).error?.code === -32000 ||
        (await new Promise((done) => setTimeout(done, 1_600)), false),
    )
    brief.close()

    const last = await submit([heater(1)], { wait_for_approval: true })
    await until(async () => (open = await waiting()).length > 0)
    await until(async () => (await recorded()).length === daemon.lines().length)
    await ask(keys.alice, 'hardware/device.revoke', { device_id })
    const revokedAt = Date.now()
    const ended = await client.finished(session, last.result.task_id)
    deepEqual([ended.status, ended.code], ['FAILED', 'approval_invalid'])
    await until(async () => (await ask(keys.devin, 'execution/request.get', { request_id: open[0].id })).request.status === 'cancelled')
    ok(Date.now() - revokedAt < 10_000)
    const refused = await submit([heater(1)], { wait_for_approval: true })
    const none = await client.finished(session, refused.result.task_id)
    deepEqual([none.status, none.code], ['FAILED', 'approval_invalid'], 'a revoked device asks nobody')
    equal((await waiting()).length, 0)
    const before = (await recorded()).length
    await client.run(session, [{ tool: 'gpio.get', args: { line: 17 } }])
    await new Promise((done) => setTimeout(done, 1_000))
    equal((await recorded()).length, before)
    const gap = await caller.call(keys.devin, 'hardware/event.record', { device_id, lines: [JSON.stringify(daemon.lines().at(-1))] })
    equal(gap.status, 410)
  })
})
