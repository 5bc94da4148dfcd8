// A load generator that costs little: plain sockets, requests as prepared bytes, answers read by their content-length. Each
// connection sends its next request when the answer to the last one is complete.
import { connect, type Socket } from 'node:net'

const END_OF_HEAD = Buffer.from('\r\n\r\n')
/** As Node and as Express write it. */
const LENGTHS = ['content-length', 'Content-Length'].map((name) => Buffer.from(`\r\n${name}: `))

export type RawAnswer = { readonly status: number; readonly body: Buffer }
export type Connection = { send(request: Uint8Array): Promise<RawAnswer>; close(): void }

export function requestBytes(path: string, bearer: string | null, body: string, key?: string): Buffer {
  const lines = [
    `POST ${path} HTTP/1.1`,
    'host: 127.0.0.1',
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    ...(bearer === null ? [] : [`authorization: Bearer ${bearer}`]),
    ...(key === undefined ? [] : [`idempotency-key: ${key}`]),
  ]
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`)
}

/** One kept-alive connection with one request under way. */
export async function openConnection(port: number): Promise<Connection> {
  const socket = await connected(port)
  let waiting: { resolve(answer: RawAnswer): void; reject(error: Error): void } | undefined
  let received: Buffer = Buffer.alloc(0)
  socket.on('data', (part: Buffer) => {
    received = received.length === 0 ? part : Buffer.concat([received, part])
    const answer = answerIn(received)
    if (!answer) return
    received = Buffer.alloc(0)
    const { resolve } = waiting!
    waiting = undefined
    resolve(answer)
  })
  socket.on('close', () => waiting?.reject(new Error('the server closed the connection')))
  return {
    send(request) {
      const { promise, resolve, reject } = Promise.withResolvers<RawAnswer>()
      waiting = { resolve, reject }
      socket.write(request)
      return promise
    },
    close: () => socket.destroy(),
  }
}

async function connected(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await new Promise<void>((done, failed) => socket.once('connect', done).once('error', failed))
  socket.on('error', () => {})
  return socket
}

function answerIn(received: Buffer): RawAnswer | null {
  const head = received.indexOf(END_OF_HEAD)
  if (head === -1) return null
  const at = LENGTHS.map((name) => received.indexOf(name)).find((place) => place !== -1 && place < head)
  if (at === undefined) throw new Error('an answer without content-length')
  const from = at + LENGTHS[0]!.length
  const length = Number(received.toString('latin1', from, received.indexOf(13, from)))
  if (received.length < head + 4 + length) return null
  return { status: Number(received.toString('latin1', 9, 12)), body: received.subarray(head + 4) }
}

export function getBytes(path: string, bearer: string): Buffer {
  return Buffer.from(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${bearer}\r\n\r\n`)
}

export type Load = { readonly perSecond: number; readonly p50: number; readonly p99: number; readonly answers: number }

/** The same request over and over on each of the connections, for a time. */
export const load = (port: number, connections: number, request: Uint8Array, ms: number): Promise<Load> =>
  loadEach(port, connections, () => request, ms)

/** Each time another request; null: there are no more. `answered` hears every answer. */
export async function loadEach(
  port: number,
  connections: number,
  next: () => Uint8Array | null,
  ms: number,
  answered: (body: Buffer) => void = () => undefined,
): Promise<Load> {
  const all = await Promise.all(Array.from({ length: connections }, () => openConnection(port)))
  const times: number[] = []
  const began = performance.now()
  const until = began + ms
  await Promise.all(
    all.map(async (connection) => {
      for (let now = performance.now(); now < until;) {
        const request = next()
        if (request === null) return
        const { status, body } = await connection.send(request)
        answered(body)
        if (status !== 200 && status !== 201) throw new Error(`answered ${status}: ${body.toString()}`)
        const after = performance.now()
        times.push(after - now)
        now = after
      }
    }),
  )
  const seconds = (performance.now() - began) / 1_000
  for (const connection of all) connection.close()
  return { perSecond: times.length / seconds, ...quantiles(times), answers: times.length }
}

export function quantiles(times: number[]): { p50: number; p99: number } {
  const sorted = Float64Array.from(times).sort()
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
  return { p50: at(0.5), p99: at(0.99) }
}
