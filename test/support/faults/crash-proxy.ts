// A proxy between a server and its clients, so that a test can act in the middle of a call: before the server receives the request, or
// after the server has committed and before the client receives the response.
import { once } from 'node:events'
import { Agent, createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Passing = { readonly bearer: string; readonly operation: string; readonly input: any; readonly output: any }
export type Moment = 'request' | 'answer'
/** Called at each moment of each call; false drops the message. */
export type Watch = (moment: Moment, call: Passing) => Promise<boolean>
export type Proxy = { readonly url: string; close(): Promise<void> }

export async function openProxy(port: number, watch: Watch): Promise<Proxy> {
  const agent = new Agent({ keepAlive: true })
  const server = createServer((asked, answer) => {
    // Any failure in the proxy looks to the caller as it would without it: the connection breaks.
    pass(asked, answer).catch(() => answer.destroy())
  })

  async function pass(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const body = await bytesOf(asked)
    const call = { bearer: asked.headers.authorization?.slice('Bearer '.length) ?? '', operation: asked.url!.slice('/v1/'.length) }
    const input = parsed(body)
    if (!(await watch('request', { ...call, input, output: undefined }))) return void answer.destroy()
    const sent = request({ agent, port, host: '127.0.0.1', method: asked.method, path: asked.url, headers: asked.headers })
    // A disconnected client no longer waits.
    answer.on('close', () => answer.writableEnded || sent.destroy())
    sent.end(body)
    const [heard] = (await once(sent, 'response')) as [IncomingMessage]
    const bytes = await bytesOf(heard)
    if (!(await watch('answer', { ...call, input, output: parsed(bytes) }))) return void answer.destroy()
    answer.writeHead(heard.statusCode!, heard.headers)
    answer.end(bytes)
  }

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      agent.destroy()
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}

async function bytesOf(message: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of message) parts.push(part as Buffer)
  return Buffer.concat(parts)
}

function parsed(bytes: Buffer): any {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return undefined
  }
}
