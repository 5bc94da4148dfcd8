// A stand-in for the gate's operations over HTTP, for tests of hooks as processes: it answers as the test says and counts what it was asked.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'

export type StandIn = {
  readonly url: string
  readonly calls: { readonly operation: string; readonly input: Record<string, unknown>; readonly key: string | undefined }[]
  /** The state of the next proposed call; a number is an HTTP status. */
  state: string | number
  close(): Promise<void>
}

export async function startStandIn(): Promise<StandIn> {
  const calls: StandIn['calls'] = []
  const server: Server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (part: string) => (text += part))
    request.on('end', () => {
      const operation = request.url!.slice('/v1/'.length)
      calls.push({
        operation,
        input: JSON.parse(text) as Record<string, unknown>,
        key: request.headers.authorization?.slice('Bearer '.length),
      })
      const isBad = typeof standIn.state === 'number'
      const answer = isBad
        ? { error: { code: 'UNAUTHENTICATED', message: 'no such key', details: {} } }
        : operation === 'gate/call.list'
          ? { items: [] }
          : {
              call_id: 'call_1',
              state: standIn.state,
              rule: 'r1',
              reason: 'because',
              instead: null,
              request_id: null,
              url: null,
              digest: 'd1',
            }
      response.writeHead(isBad ? (standIn.state as number) : 200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const standIn: StandIn = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    state: 'approved',
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  return standIn
}
