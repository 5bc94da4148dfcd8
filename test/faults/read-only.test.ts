// A server that serves reads alone: nothing is changed, sent or fired, whatever is due.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { globSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createCaller, enroll } from '../support/as-processes/server.ts'
import { dataFolder, runToEnd, start } from '../support/as-processes/server-process.ts'
import { send } from '../support/over-sockets/http-client.ts'

/** Everything that says what happened; the lock and the memory of SQLite's readers may move. */
function contentOf(data: string): Record<string, string> {
  const files = globSync('**/*', { cwd: data }).filter(
    (name) => !/^(lock|reserve|.*-shm|.*-wal|.*\.sock)$/.test(name) && statSync(join(data, name)).isFile(),
  )
  return Object.fromEntries(
    files.sort().map((name) => [
      name,
      createHash('sha256')
        .update(readFileSync(join(data, name)))
        .digest('hex'),
    ]),
  )
}

test('a read-only server reads, refuses every change, and lets no deadline pass', async (t) => {
  const data = dataFolder(t)
  const first = await start(t, ['--data', data])
  const { alice, devin } = await enroll(first.port, readFileSync(join(data, 'admin.key'), 'utf8').trim())
  const before = createCaller(first.port)
  const asked = await before.call(devin, 'execution/request.create', {
    action: 'APPROVE',
    payload: { item: 'Deploy', details: {} },
    timeout_seconds: 1,
    fallback: 'fail',
  })
  const request_id = asked.body.request.id as string
  before.close()
  await first.end('SIGKILL')

  // Once for the log of the database, which a clean end empties.
  const settled = contentOf(data)
  const server = await start(t, ['--data', data, '--read-only'])
  const { call, close } = createCaller(server.port)
  t.after(close)
  assert.match(server.stdout(), /^Read-only: this server was started with --read-only; restart it without --read-only/m)
  const { json } = await send(server.port, '/health', { method: 'GET' })
  assert.deepEqual([json.status, json.mode], ['ok', 'read-only'])
  // Past its deadline.
  await new Promise((done) => setTimeout(done, 1_200))
  const found = await call(alice, 'execution/request.get', { request_id })
  assert.deepEqual([found.status, found.body.request.status], [200, 'pending'])
  for (const [key, operation, input] of [
    [alice, 'execution/request.resolve', { request_id, result: 'approved' }],
    [alice, 'collaboration/task.create', { spec: { goal: 'Change it' } }],
    [devin, 'execution/request.create', { action: 'APPROVE', payload: { item: 'Again', details: {} } }],
  ] as const) {
    const { status, body } = await call(key, operation, input)
    assert.deepEqual([status, body.error.code], [403, 'READ_ONLY'], operation)
    assert.match(body.error.message, /started with --read-only, so nothing can be changed here: restart it without --read-only/)
  }
  await server.end()
  assert.deepEqual(contentOf(data), settled)
})

test('a read-only server needs an installation', async (t) => {
  const { code, stderr } = await runToEnd(t, ['--port', '0', '--data', dataFolder(t), '--read-only'], {})
  assert.equal(code === 0, false)
  assert.match(stderr, /there is no Countersign data in .*: --read-only starts an installation that is there/)
})
