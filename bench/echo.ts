// The echo server that the HTTP benchmark compares with: the same body, parsed and sent back, and nothing else.
import type { AddressInfo } from 'node:net'
import fastify from 'fastify'

const app = fastify({ logger: false })
app.post('/echo', (request, reply) => reply.send(request.body))
await app.listen({ port: 0, host: '127.0.0.1' })
console.log(`echo ready http://127.0.0.1:${(app.server.address() as AddressInfo).port}`)
