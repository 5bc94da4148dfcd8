// Restate: a handler that waits for an awakeable, which costs half of the syncs of a workflow with a durable promise. Restate's own ingress
// takes the answer. The question goes through this process, because its awakeable is known only to the handler.
import { Agent, request } from 'node:http'
import * as restate from '@restatedev/restate-sdk'
import { received, serve } from './driver.mjs'

const named = new Map()
const asker = restate.service({
  name: 'asker',
  handlers: {
    ask: async (context, { id }) => {
      const { id: awakeable, promise } = context.awakeable()
      named.get(id)?.(awakeable)
      const { result } = await promise
      received(awakeable, result)
      return result
    },
  },
})
const { PEER_PORT, PEER_INGRESS } = process.env
const agent = new Agent({ keepAlive: true, maxSockets: 256 })

function send(id) {
  const headers = { 'content-type': 'application/json', 'idempotency-key': id }
  return new Promise((done, failed) => {
    const options = { agent, port: PEER_INGRESS, host: '127.0.0.1', method: 'POST', path: '/asker/ask/send', headers }
    const sent = request(options, (answer) => {
      answer.resume()
      answer.on('end', () => (answer.statusCode < 300 ? done() : failed(new Error(`answered ${answer.statusCode}`))))
    })
    sent.on('error', failed)
    sent.end(JSON.stringify({ id }))
  })
}

await restate.serve({ services: [asker], port: Number(PEER_PORT) })
serve({
  async ask(id) {
    const name = new Promise((done) => named.set(id, done))
    const [awakeable] = await Promise.all([name, send(id)])
    named.delete(id)
    return awakeable
  },
})
