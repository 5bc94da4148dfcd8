// `device link` without a reachable server: the exit code says why, and nothing is stored.
import { deepEqual, equal, match } from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { it } from 'node:test'
import { inProcess, temporary } from '#test/support/as-processes/cli.ts'

it('ends with 3 for a server that cannot be reached, and stores no link', async () => {
  const free = createServer().listen(0, '127.0.0.1')
  await new Promise((done) => free.once('listening', done))
  const { port } = free.address() as { port: number }
  await new Promise((done) => free.close(done))
  const data = temporary('device')
  const { code, err } = await inProcess({ home: data }).run(
    ['device', 'link', '--url', `http://127.0.0.1:${port}`, '--data', data],
    'csk_some_key\n',
  )
  equal(code, 3, err)
  match(err, /cannot connect to/)
  deepEqual(existsSync(join(data, 'link.json')), false)
})
