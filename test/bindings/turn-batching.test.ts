// Answers of one turn are written together: none is lost, none waits for a commit, and a closed connection affects no other.
import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { endSoon, gatherAnswers, withOthers } from '#bindings/http/connections/turn-batching.ts'

async function serving(t: TestContext, listener: RequestListener): Promise<number> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await new Promise((done) => server.once('listening', done))
  return (server.address() as AddressInfo).port
}

/** Sends these bytes and hears until the other side has said `answers` times "200 OK", or is gone. */
function ask(port: number, bytes: string, answers: number): Promise<string> {
  return new Promise((done) => {
    let heard = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    socket.on('data', (part) => {
      heard += String(part)
      if (heard.split('200 OK').length > answers && heard.endsWith('.')) socket.destroy()
    })
    socket.on('close', () => done(heard)).on('error', () => undefined)
  })
}

const get = (path: string, method = 'GET'): string => `${method} ${path} HTTP/1.1\r\nhost: x\r\n\r\n`

test('pipelined requests are answered in their order, HEAD without a body', async (t) => {
  const port = await serving(t, (request, response) => {
    gatherAnswers()
    response.writeHead(200, ['content-length', '3'])
    endSoon(response, request.method === 'HEAD' ? undefined : `${request.url}.`)
  })
  const heard = await ask(port, get('/a') + get('/b', 'HEAD') + get('/c'), 3)
  assert.deepEqual(heard.match(/\/[abc]\./g), ['/a.', '/c.'])
})

test('an answer waits for no commit that was asked for in the same turn', async (t) => {
  const order: string[] = []
  const port = await serving(t, (_, response) => {
    gatherAnswers()
    // As the store does it.
    setImmediate(() => order.push('commit'))
    response.writeHead(200, ['content-length', '1'])
    response.once('finish', () => order.push('written'))
    endSoon(response, '.')
  })
  await ask(port, get('/'), 1)
  assert.deepEqual(order, ['written', 'commit'])
})

test('after a commit all its waiters are answered together, and a connection that cannot be written is dropped', async (t) => {
  const waiting: (() => void)[] = []
  const port = await serving(t, (request, response) => {
    gatherAnswers()
    if (request.url === '/bad') response.end = () => assert.fail('cannot be written')
    response.writeHead(200, ['content-length', '3'])
    waiting.push(() => endSoon(response, `${request.url!.slice(0, 2)}.`))
    if (waiting.length === 3) setTimeout(() => waiting.forEach((answer) => answer()), 20)
  })
  const heard = await Promise.all([ask(port, get('/1'), 1), ask(port, get('/bad'), 1), ask(port, get('/3'), 1)])
  assert.deepEqual(
    heard.map((text) => text.slice(-3)),
    ['/1.', '', '/3.'],
  )
})

test('calls that arrive in one turn are handled in their order when all of them were read', async () => {
  const order: string[] = []
  await new Promise<void>((done) => {
    setImmediate(() => {
      for (const name of ['a', 'b']) {
        order.push(`read ${name}`)
        withOthers(() => order.push(`work ${name}`))
      }
      queueMicrotask(() => order.push('the end of this turn'))
      setImmediate(() => setImmediate(done))
    })
  })
  assert.deepEqual(order, ['read a', 'read b', 'the end of this turn', 'work a', 'work b'])
})
