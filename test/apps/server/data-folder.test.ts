// The data folder under a running server: deleted, moved, its lock taken away, on a disk without quota, and where no folder can be created.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs, { readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { dirname, join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { openDataFolder } from '#apps/server/folder/data-folder.ts'
import { send, type Answer } from '../../support/over-sockets/http-client.ts'
import { dataFolder, runToEnd, start, type Running } from '../../support/as-processes/server-process.ts'

type Place = { readonly data: string; readonly server: Running; add(id: string): Promise<Answer>; health(): Promise<Answer> }

async function place(t: TestContext, first = ':'): Promise<Place> {
  const data = dataFolder(t)
  const server = await start(t, ['--data', data], { first })
  const authorization = `Bearer ${readFileSync(join(data, 'admin.key'), 'utf8').trim()}`
  const headers = { authorization, 'content-type': 'application/json' }
  const add: Place['add'] = (id) => send(server.port, '/v1/identity/user.add', { headers, body: JSON.stringify({ id, name: 'N' }) })
  return { data, server, add, health: () => send(server.port, '/health', { method: 'GET' }) }
}

async function assertRefuses({ add, health }: Place, message: RegExp): Promise<void> {
  const refused = await add('user_late')
  assert.deepEqual([refused.status, refused.json.error.code], [503, 'UNAVAILABLE'])
  assert.match(refused.json.error.message, message)
  assert.equal((await health()).status, 503)
}
const soon = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms))

test('a folder that is deleted is noticed with the next change and by /health', async (t) => {
  const on = await place(t)
  assert.equal((await on.add('user_first')).status, 200)
  assert.equal((await on.health()).status, 200)
  // The running server may write into it while it is taken away.
  rmSync(on.data, { recursive: true, maxRetries: 10 })
  assert.equal((await on.health()).status, 503)
  await assertRefuses(on, /countersign\.db was deleted, moved or replaced under the running server: nothing was changed/)
  await soon(1_000)
  assert.match(on.server.stderr(), /countersign\.db was deleted, moved or replaced.*: changes are refused/)
  assert.equal((await on.server.end()).code, 0)
})

test('a folder that was moved serves again when it is back', async (t) => {
  const on = await place(t)
  renameSync(on.data, `${on.data}-moved`)
  await assertRefuses(on, /deleted, moved or replaced/)
  renameSync(`${on.data}-moved`, on.data)
  assert.equal((await on.add('user_first')).status, 200)
})

test('a folder that cannot be looked into any more stops all changes and ends nothing', async (t) => {
  const on = await place(t)
  renameSync(on.data, `${on.data}-away`)
  symlinkSync(on.data, on.data)
  await soon(1_500)
  await assertRefuses(on, /was deleted, moved or replaced under the running server/)
  rmSync(on.data)
  renameSync(`${on.data}-away`, on.data)
  assert.equal((await on.add('user_first')).status, 200)
})

test('a log of the database that is deleted alone is noticed too', async (t) => {
  const on = await place(t)
  rmSync(join(on.data, 'countersign.db-wal'))
  await assertRefuses(on, /countersign\.db-wal was deleted/)
})

test('a deleted lock is created again: a second server does not start, and the first continues', async (t) => {
  const on = await place(t)
  rmSync(join(on.data, 'lock'))
  const { code, stderr } = await runToEnd(t, ['--data', on.data, '--port', '0'])
  assert.equal(code, 1)
  assert.match(stderr, /another Countersign server uses .*: stop it first/)
  assert.equal((await on.add('user_first')).status, 200)
})

test('a lock that became another file stops all changes', async (t) => {
  const on = await place(t)
  renameSync(join(on.data, 'admin.key'), join(on.data, 'lock'))
  await assertRefuses(on, /lock was replaced: another server may use/)
})

test('a start that cannot create its folder fails immediately with a message', async (t) => {
  const { code, stdout, stderr } = await runToEnd(t, ['--data', '/proc/nope/data', '--port', '0'])
  assert.deepEqual([code, stdout], [1, ''])
  assert.match(stderr, /^countersign: the data folder \/proc\/nope\/data cannot be made: .*\(see --data\)\n$/)
})

test('the entry of the folder in its parent is durable before anything is written', (t) => {
  const data = join(dataFolder(t), 'deep')
  const synced: string[] = []
  const { fsyncSync } = fs
  fs.fsyncSync = (file) => {
    synced.push(fs.readlinkSync(`/proc/self/fd/${file}`))
    fsyncSync(file)
  }
  syncBuiltinESMExports()
  t.after(() => {
    fs.fsyncSync = fsyncSync
    syncBuiltinESMExports()
  })
  openDataFolder(data).release()
  for (const parent of [dirname(dirname(data)), dirname(data)]) assert.ok(synced.includes(parent), `${parent} in ${synced.join(', ')}`)
})

for (const error of ['EDQUOT', 'EROFS'])
  test(`a log that refuses to grow with ${error} refuses changes and ends nothing`, async (t) => {
    const traced = spawnSync('strace', ['-f', '-e', 'trace=none', 'true']).status === 0
    if (!traced) return t.diagnostic('strace is not here to make a disk fail')
    const on = await place(t)
    assert.equal((await on.add('user_first')).status, 200)
    const { spawn } = await import('node:child_process')
    const inject = ['-f', '-p', String(on.server.child.pid), '-e', 'trace=pwrite64', '-e', `inject=pwrite64:error=${error}`]
    const tracer = spawn('strace', inject, { stdio: 'ignore' })
    t.after(() => tracer.kill('SIGKILL'))
    await soon(1_500)
    await assertRefuses(on, /the disk is full/)
    tracer.kill('SIGINT')
    await soon(1_000)
    assert.equal((await on.add('user_second')).status, 200)
  })
