// Clients of a server that is told to stop: each hears of it, and none is cut off in the middle.
import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { test } from 'node:test'
import { send } from '../support/over-sockets/http-client.ts'
import { dataFolder, start } from '../support/as-processes/server-process.ts'

test('after SIGTERM every further request is answered with 503', async (t) => {
  const server = await start(t, ['--data', dataFolder(t)])
  let isTold = false
  /** Asks one time after the other on one connection. */
  const asking = async (): Promise<string> => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    try {
      for (;;) {
        const { status, json } = await send(server.port, '/.well-known/jwks.json', { method: 'GET', agent })
        if (status !== 200) return `${status} ${json.error.message}`
        await new Promise((done) => setTimeout(done, 5))
      }
    } catch (error) {
      return `${isTold} ${(error as NodeJS.ErrnoException).code}`
    } finally {
      agent.destroy()
    }
  }
  const clients = Array.from({ length: 20 }, asking)
  await new Promise((done) => setTimeout(done, 500))
  isTold = true
  const ended = server.end()
  assert.deepEqual([...new Set(await Promise.all(clients))], ['503 the server is stopping'])
  assert.equal((await ended).code, 0)
})
