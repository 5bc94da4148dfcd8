// The upload server that the bytes benchmark compares with: it takes a body, hashes it and throws it away, the least that a Node server
// does which knows a checksum in the end.
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const server = createServer((request, response) => {
  const hash = createHash('sha256')
  request.on('data', (chunk: Buffer) => hash.update(chunk))
  request.on('end', () => {
    const text = JSON.stringify({ uri: hash.digest('hex') })
    response.writeHead(200, { 'content-length': text.length }).end(text)
  })
})
// Its one client is silent while others are measured.
server.keepAliveTimeout = 0
server.listen(0, '127.0.0.1', () => console.log(`hashing ready http://127.0.0.1:${(server.address() as AddressInfo).port}`))
