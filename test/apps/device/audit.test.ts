// The audit of a device: changes of the file are found, a crash leaves it complete, and no step runs twice.
import { deepEqual, equal, match, notEqual, ok, rejects } from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { clientAt, type NotStarted, startDaemon, type Any, type Daemon } from '#test/support/hardware/daemon.ts'

const CLI = join(import.meta.dirname, '../../../bin/countersign.js')
async function verify(data: string): Promise<{ code: number; found: Any }> {
  const { stdout, code } = await promisify(execFile)(process.execPath, [CLI, 'device', 'audit', 'verify', '--data', data, '--json']).then(
    (done) => ({ ...done, code: 0 }),
    (error: { stdout: string; code: number }) => error,
  )
  return { code, found: JSON.parse(stdout) }
}

const KILLS = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all' ? 100 : 10
const set = { tool: 'gpio.set', args: { line: 17, value: 1 } }
async function worked(daemon: Daemon): Promise<void> {
  const client = await clientAt(daemon.ready.socket)
  const session = await client.open()
  for (let i = 0; i < 3; i++) await client.run(session, [set])
  client.close()
}

describe('the audit of a device', () => {
  it('reveals every kind of change', async () => {
    const daemon = await startDaemon()
    try {
      await worked(daemon)
      equal((await verify(daemon.data)).code, 0, 'beside a running daemon')
      equal(await daemon.kill('SIGTERM'), 0)
      const whole = await verify(daemon.data)
      equal(whole.code, 0)
      ok(whole.found.checkpoints > 0)
      const path = join(daemon.data, 'audit.ndjson')
      const text = readFileSync(path, 'utf8')
      const lines = text.trimEnd().split('\n')
      const tampered: [string, string[]][] = [
        ['edit', lines.with(4, lines[4]!.replace('gpio.set', 'gpio.get').replace('default', 'defaulT'))],
        ['deletion', lines.toSpliced(4, 1)],
        ['insertion', lines.toSpliced(4, 0, lines[4]!)],
        ['reordering', lines.with(4, lines[5]!).with(5, lines[4]!)],
        ['truncation', lines.slice(0, -1)],
      ]
      for (const [what, changed] of tampered) {
        writeFileSync(path, `${changed.join('\n')}\n`)
        const { code, found } = await verify(daemon.data)
        equal(code, 1, what)
        match(found.problem, /^line \d+: /)
        if (what === 'truncation') continue
        await rejects(daemon.start(), (error: NotStarted) => error.code === 1 && error.message.includes('audit.ndjson'), what)
      }
      writeFileSync(path, `${lines.slice(0, -2).join('\n')}\n`)
      const again = await daemon.start()
      deepEqual(readFileSync(path, 'utf8').split('\n').slice(0, lines.length), lines, 'completed from the record')
      await again.kill('SIGTERM')
      equal((await verify(daemon.data)).code, 0)
    } finally {
      await daemon.end()
    }
  })

  it('is whole after kill -9 in a task, with outputs safe and nothing done twice', { timeout: 12_000 * KILLS }, async () => {
    let daemon = await startDaemon()
    try {
      for (let round = 0; round < KILLS; round++) {
        const client = await clientAt(daemon.ready.socket)
        const session = await client.open()
        const steps = [
          set,
          { tool: 'i2c.read', args: { bus: 1, addr: '0x51', len: 1 } },
          { tool: 'gpio.set', args: { line: 18, value: 1 } },
        ]
        const { task_id } = await client.ask('task.submit', {
          session_id: session,
          task: { intent: 'x', steps },
          idempotency_key: `k${round}`,
        })
        await new Promise((done) => setTimeout(done, 60 + 90 * (round % 10)))
        await daemon.kill('SIGKILL')
        daemon = await daemon.start()
        const next = await clientAt(daemon.ready.socket)
        equal((await next.call('tool.list', { session_id: session })).error.code, -32000)
        const fresh = await next.open()
        const { tasks } = await next.ask('task.history', { session_id: fresh, limit: 1 })
        equal(tasks[0].task_id, task_id)
        // The last rounds may come too late for it.
        if (tasks[0].status !== 'SUCCESS') deepEqual([tasks[0].status, tasks[0].code], ['FAILED', 'restart'])
        const repeated = await next.ask('task.submit', { session_id: fresh, task: { intent: 'x', steps }, idempotency_key: `k${round}` })
        equal(repeated.task_id, task_id)
        for (const line of [17, 18]) equal((await next.run(fresh, [{ tool: 'gpio.get', args: { line } }])).steps[0].result.value, 0)
        const starts = daemon.lines().filter((line) => line.event === 'task.step.start' && line.task_id === task_id)
        equal(new Set(starts.map(({ step_index }) => step_index)).size, starts.length)
        const begun = tasks[0].steps.filter((step: Any) => step.code === 'unknown_outcome')
        ok(begun.length <= 1)
        next.close()
      }
      equal(await daemon.kill('SIGTERM'), 0)
      equal((await verify(daemon.data)).code, 0)
    } finally {
      await daemon.end()
    }
  })

  it('rotates by a signal and carries the chain over', async () => {
    const daemon = await startDaemon()
    try {
      await worked(daemon)
      const before = daemon.lines().at(-1).seq as number
      daemon.process.kill('SIGHUP')
      await new Promise((done) => setTimeout(done, 200))
      await worked(daemon)
      equal(daemon.lines()[0].seq, before + 1)
      notEqual(daemon.lines()[0].prev, '')
      const last = readFileSync(join(daemon.data, 'audit-000000000001.ndjson'), 'utf8').trimEnd().split('\n').at(-1)!
      equal(JSON.parse(last).seq, before)
      equal((await verify(daemon.data)).code, 0)
      await daemon.kill('SIGTERM')
      await (await daemon.start()).kill('SIGTERM')
      equal((await verify(daemon.data)).code, 0)
    } finally {
      await daemon.end()
    }
  })
})
