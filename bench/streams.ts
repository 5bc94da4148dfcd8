// Fan-out: one writer, a thousand subscribers of the same project, over server-sent events and over WebSocket. The server runs in
// this process and the readers in another one, so that what is measured is what a server with that many readers can do.
//
//   node bench/streams.ts [subscribers] [events]
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createHttp } from '#bindings/http/index.ts'
import { createAuthenticator } from '#apps/server/identity/authenticator.ts'
import { sqliteStore } from '#stores/sqlite.ts'
import { createWorld, type World } from '#test/support/in-process/world.ts'
import { median, rate, type Bench, type Row } from './report.ts'

type Way = 'sse' | 'ws'
type FanOut = {
  readonly way: Way
  readonly subscribers: number
  readonly events: number
  readonly bytesPerEvent: number
  readonly deliveries: number
  readonly ms: number
  readonly deliveriesPerSecond: number
  /** By the time that the server really had: the figure to look at on a machine that is busy with other things. */
  readonly deliveriesPerCpuSecond: number
  readonly megabytesPerSecond: number
}

const ROUND = 100
const SUBSCRIBERS = 1_000
const EVENTS = 500
const ROUNDS = 3
const DELIVERIES_MIN = 100_000
const ways: readonly Way[] = ['sse', 'ws']

export const streams: Bench = {
  name: 'streams',
  message: `${EVENTS} events to ${SUBSCRIBERS.toLocaleString('en')} subscribers, over SSE and over WebSocket`,
  async run(say) {
    const measured: Record<Way, FanOut[]> = { sse: [], ws: [] }
    for (let round = 1; round <= ROUNDS; round++) {
      for (const way of ways) measured[way].push(await fanOut(way))
      say(`round ${round} of ${ROUNDS}: ${ways.map((way) => `${way} ${rate(measured[way].at(-1)!.deliveriesPerSecond)}`).join(', ')}`)
    }
    return ways.map((way) => rowOf(way, measured[way]))
  },
}

function rowOf(way: Way, rounds: readonly FanOut[]): Row {
  const of = (figure: 'deliveriesPerSecond' | 'deliveriesPerCpuSecond' | 'megabytesPerSecond'): number =>
    median(rounds.map((round) => round[figure]))
  return {
    what: `deliveries over ${way === 'sse' ? 'SSE' : 'WebSocket'}`,
    value: rate(of('deliveriesPerSecond')),
    more: `${Math.round(of('deliveriesPerCpuSecond')).toLocaleString('en')} a CPU second, ${Math.round(of('megabytesPerSecond'))} MB/s`,
    goal: { message: `>= ${rate(DELIVERIES_MIN)}`, met: of('deliveriesPerSecond') >= DELIVERIES_MIN },
  }
}

async function fanOut(way: Way, subscribers = SUBSCRIBERS, events = EVENTS): Promise<FanOut> {
  const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-bench-'))
  const world = await createWorld({ store: sqliteStore(join(folder, 'countersign.db')) })
  const sessions = createAuthenticator(world.kernel)
  let writings = 0
  const http = createHttp({
    kernel: world.kernel,
    authenticate: sessions.authenticate,
    logins: sessions,
    log: { level: 'info', debug: () => undefined, error: (fields, message) => console.error(message, fields) },
    version: '1',
    hosts: [],
    proxied: false,
    health: () => ({}),
    live: {
      bounds: { perActor: subscribers, commandsPerMinute: 10 * subscribers },
      recheck: sessions.recheck,
      written: () => void writings++,
    },
  })
  const port = await http.listen(0, '127.0.0.1')
  const { key } = await world.call('system', 'identity/key.issue', { subject: 'user_owner' })
  const readers = fork(import.meta.filename, ['readers', way, String(port), key, String(subscribers)])
  try {
    await told(readers, 'ready')
    const goal = { spec: { goal: 'count the deliveries', acceptance_criteria: ['each arrives once'] } }
    await Promise.all(Array.from({ length: 20 }, () => world.call('alice', 'collaboration/task.create', goal)))
    await counted(readers, 20 * subscribers)
    const began = performance.now()
    const cpu = process.cpuUsage()
    for (let written = 0; written < events; written += ROUND)
      await Promise.all(
        Array.from({ length: Math.min(ROUND, events - written) }, () => world.call('alice', 'collaboration/task.create', goal)),
      )
    const { bytes } = await counted(readers, (events + 20) * subscribers)
    const ms = performance.now() - began
    const used = process.cpuUsage(cpu)
    const deliveries = events * subscribers
    if (writings !== events + 20) throw new Error(`${writings} writings for ${events + 20} events`)
    const bytesPerEvent = Math.round(bytes / ((events + 20) * subscribers))
    const deliveriesPerSecond = Math.round((deliveries / ms) * 1_000)
    const deliveriesPerCpuSecond = Math.round((deliveries / (used.user + used.system)) * 1e6)
    const megabytesPerSecond = Math.round((deliveriesPerSecond * bytesPerEvent) / 1e6)
    return {
      way,
      subscribers,
      events,
      bytesPerEvent,
      deliveries,
      ms: Math.round(ms),
      deliveriesPerSecond,
      deliveriesPerCpuSecond,
      megabytesPerSecond,
    }
  } finally {
    readers.kill()
    await http.stop()
    await closed(world)
    rmSync(folder, { recursive: true, force: true })
  }
}
const closed = (world: World): Promise<void> => world.close()

type Count = { readonly items: number; readonly bytes: number; readonly lost: number }

async function told(readers: ChildProcess, word: string): Promise<void> {
  for (;;) {
    const [message] = (await once(readers, 'message')) as [unknown]
    if (message === word) return
  }
}

async function counted(readers: ChildProcess, items: number): Promise<Count> {
  for (;;) {
    const [message] = (await once(readers, 'message')) as [Count]
    if (message.lost > 0) throw new Error(`${message.lost} subscribers were closed`)
    if (message.items >= items) return message
  }
}

// --- The readers ----------------------------------------------------------------------------------------------------------

/** Each item holds this once, over both ways. */
const MARK = Buffer.from('{"event":{"id":"')

function upgraded(way: Way, key: string): string {
  const who = `Host: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\n`
  if (way === 'sse') return `GET /v1/collaboration/audit.follow?after=latest HTTP/1.1\r\n${who}\r\n`
  return `GET /v1/ws HTTP/1.1\r\n${who}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`
}

/** A masked text frame; the mask is zero. */
function textFrame(text: string): Buffer {
  const payload = Buffer.from(text)
  if (payload.length >= 126) throw new Error('longer frames are not needed here')
  return Buffer.concat([Buffer.from([0x81, 0x80 | payload.length, 0, 0, 0, 0]), payload])
}

async function read(way: Way, port: number, key: string, subscribers: number): Promise<void> {
  let items = 0
  let bytes = 0
  let lost = 0
  const open = (): Promise<Socket> =>
    new Promise((done) => {
      const socket = connect(port, '127.0.0.1', () => socket.write(upgraded(way, key)))
      // A mark may be cut in two: its beginning is kept for the next piece.
      let kept = Buffer.alloc(0)
      let head = true
      socket.on('data', (piece: Buffer) => {
        if (head) {
          if (way === 'ws' && piece.includes('101 Switching'))
            socket.write(textFrame('{"subscribe":{"stream":"collaboration/audit.follow","after":"latest","id":"1"}}'))
          if (piece.includes(way === 'sse' ? 'id: ' : '"items":[]')) {
            head = false
            done(socket)
          }
          return
        }
        bytes += piece.length
        if (Buffer.concat([kept, piece.subarray(0, MARK.length - 1)]).includes(MARK)) items++
        for (let at = piece.indexOf(MARK); at !== -1; at = piece.indexOf(MARK, at + MARK.length)) items++
        kept = Buffer.concat([kept, piece.subarray(1 - MARK.length)]).subarray(1 - MARK.length)
      })
      socket.on('close', () => lost++)
      socket.on('error', () => undefined)
    })
  for (let i = 0; i < subscribers; i += 50) await Promise.all(Array.from({ length: Math.min(50, subscribers - i) }, open))
  process.send!('ready')
  setInterval(() => process.send!({ items, bytes, lost }), 10)
}

if (import.meta.main) {
  const [first, way, port, key, subscribers] = process.argv.slice(2)
  if (first === 'readers') await read(way as Way, Number(port), key!, Number(subscribers))
  else for (const each of ways) console.log(await fanOut(each, Number(first ?? SUBSCRIBERS), Number(way ?? EVENTS)))
}
