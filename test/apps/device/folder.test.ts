// The data folder under a running daemon: nothing acts once its record or its audit file is deleted, replaced or shortened.
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { copyFileSync, readFileSync, renameSync, rmSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { clientAt, startDaemon, type Any, type Daemon } from '#test/support/hardware/daemon.ts'

const set = { tool: 'gpio.set', args: { line: 17, value: 1 } }
const swapped = (path: string): void => {
  copyFileSync(path, `${path}.copy`)
  renameSync(`${path}.copy`, path)
}

/** Each way to lose the record: what is done to the folder, what the refusal says, and whether the next start finds everything. */
const losses: readonly [what: string, act: (data: string) => void, message: RegExp, isWhole: boolean][] = [
  [
    'the folder is deleted',
    (data) => rmSync(data, { recursive: true, maxRetries: 10 }),
    /device\.db was deleted, moved or replaced/,
    false,
  ],
  ['the folder is moved', (data) => renameSync(data, `${data}-moved`), /device\.db was deleted, moved or replaced/, false],
  ['the database is deleted', (data) => rmSync(join(data, 'device.db')), /device\.db was deleted, moved or replaced/, false],
  ['the database is replaced', (data) => swapped(join(data, 'device.db')), /device\.db was deleted, moved or replaced/, false],
  ['the database is shortened', (data) => truncateSync(join(data, 'device.db'), 0), /device\.db was shortened/, false],
  ['its log is deleted', (data) => rmSync(join(data, 'device.db-wal')), /device\.db-wal was deleted/, false],
  ['its log is emptied', (data) => truncateSync(join(data, 'device.db-wal'), 0), /device\.db-wal was shortened/, false],
  ['the audit is deleted', (data) => rmSync(join(data, 'audit.ndjson')), /audit\.ndjson was deleted, moved or replaced/, true],
  ['the audit is replaced', (data) => swapped(join(data, 'audit.ndjson')), /audit\.ndjson was deleted, moved or replaced/, true],
  ['the audit is emptied', (data) => truncateSync(join(data, 'audit.ndjson'), 0), /audit\.ndjson was shortened/, true],
  [
    'the audit is shortened by a byte',
    (data) => truncateSync(join(data, 'audit.ndjson'), statSync(join(data, 'audit.ndjson')).size - 1),
    /audit\.ndjson was shortened/,
    true,
  ],
]

const logged = async (daemon: Daemon, message: RegExp): Promise<void> => {
  while (!message.test(daemon.stderr())) await new Promise((done) => setTimeout(done, 20))
}

for (const [what, act, message, isWhole] of losses)
  test(`nothing acts when ${what}, and the refusal says so`, async () => {
    const daemon = await startDaemon()
    try {
      const client = await clientAt(daemon.ready.socket)
      const session = await client.open()
      // A task that runs when it happens: its second step must not begin.
      const { task_id } = await client.ask('task.submit', {
        session_id: session,
        task: { intent: 'x', steps: [{ tool: 'gpio.pulse', args: { line: 18, value: 1, ms: 10_000 } }, set] },
      })
      const started = (): boolean => daemon.lines().some((line) => line.event === 'task.step.start' && line.task_id === task_id)
      while (!started()) await new Promise((done) => setTimeout(done, 5))
      act(daemon.data)
      const submit = { session_id: session, task: { intent: 'x', steps: [set] } }
      for (const [method, params] of [
        ['task.submit', submit],
        ['task.cancel', { session_id: session, task_id }],
        ['session.open', {}],
        ['session.close', { session_id: session }],
      ] as const) {
        const { error } = await client.call(method, params)
        deepEqual([error?.code, error?.data.code], [-32007, 'audit_unavailable'], method)
        match(error.data.reason, message)
        match(error.data.reason, /nothing runs until that is fixed$/)
      }
      await logged(daemon, message)
      if (!isWhole) return
      equal(await daemon.kill('SIGTERM'), 0)
      // The record has everything: the next start completes the file.
      const again = await daemon.start()
      const text = readFileSync(join(daemon.data, 'audit.ndjson'), 'utf8')
      ok(!text.includes('\0'))
      const lines: Any[] = daemon.lines()
      deepEqual(
        lines.map(({ seq }) => seq),
        lines.map((_, i) => i + 1),
      )
      ok(!lines.some((line) => line.event === 'task.step.start' && line.tool === 'gpio.set'))
      equal(await again.kill('SIGTERM'), 0)
    } finally {
      await daemon.end()
      rmSync(`${daemon.data}-moved`, { recursive: true, force: true })
    }
  })

test('a folder that is back in its place is used again', async () => {
  const daemon = await startDaemon()
  try {
    const path = join(daemon.data, 'audit.ndjson')
    renameSync(path, `${path}.away`)
    const client = await clientAt(daemon.ready.socket)
    equal((await client.call('session.open')).error.code, -32007)
    renameSync(`${path}.away`, path)
    renameSync(daemon.data, `${daemon.data}-away`)
    equal((await client.call('session.open')).error.code, -32007)
    renameSync(`${daemon.data}-away`, daemon.data)
    equal((await client.run(await client.open(), [set])).status, 'SUCCESS')
    client.close()
  } finally {
    await daemon.end()
  }
})
