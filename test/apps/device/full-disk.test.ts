// The daemon on a disk that has no room left: nothing moves, the answer says why, and it continues without repair when there is room again (P35).
import { deepEqual, equal } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, rmdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { clientAt, startDaemon, type Any } from '#test/support/hardware/daemon.ts'

const set = { tool: 'gpio.set', args: { line: 18, value: 1 } }
const get = { tool: 'gpio.get', args: { line: 27 } }

test('an audit that cannot be written stops everything, and nothing needs repair', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-small-'))
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=3m', 'tmpfs', folder]).status !== 0) {
    rmdirSync(folder)
    return t.skip('this user may not mount a file system')
  }
  const filling = join(folder, 'filling')
  const daemon = await startDaemon({ folder })
  try {
    const client = await clientAt(daemon.ready.socket)
    const session = await client.open()
    equal((await client.run(session, [get])).steps[0].result.value, 0)
    const submit = (): Promise<Any> =>
      client.call('task.submit', { session_id: session, task: { intent: 'x'.repeat(2_000), steps: [set] } })
    try {
      for (;;) appendFileSync(filling, Buffer.alloc(4_096))
    } catch {
      // The disk is full.
    }
    // The room that the database has set aside may still take a few.
    let answer = await submit()
    for (let i = 0; i < 200 && !answer.error; i++) {
      await client.finished(session, answer.result.task_id).catch(() => null)
      answer = await submit()
    }
    deepEqual([answer.error.code, answer.error.data.code], [-32007, 'audit_unavailable'])
    const lines = daemon.lines().length
    for (const method of ['session.open', 'session.close'])
      equal((await client.call(method, { session_id: session })).error.code, -32007, method)
    equal((await client.ask('tool.list', { session_id: session })).tools.length > 0, true, 'what changes nothing is answered')
    equal(daemon.lines().length, lines)
    rmSync(filling)
    const after = await client.run(session, [set, get])
    deepEqual([after.status, after.steps[1].result.value], ['SUCCESS', 1])
    const all = daemon.lines()
    deepEqual(
      all.map(({ seq }) => seq),
      all.map((_, i) => i + 1),
    )
    client.close()
    equal(await daemon.kill('SIGTERM'), 0)
  } finally {
    daemon.process.kill('SIGKILL')
    spawnSync('umount', ['-l', folder])
    rmdirSync(folder)
  }
})
