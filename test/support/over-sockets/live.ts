// A world behind a real HTTP server with live streams, keys for the whole cast, and clients that read the streams.
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import type { TestContext } from 'node:test'
import { WebSocket, type ClientOptions } from 'ws'
import { createAuthenticator } from '#apps/server/identity/authenticator.ts'
import { createHttp, type HttpOptions } from '#bindings/http/index.ts'
import type { Store } from '#kernel/log/store.ts'
import { createWorld, type World } from '../in-process/world.ts'

export type LiveBounds = NonNullable<NonNullable<HttpOptions['live']>['bounds']>
export type LiveWorld = World & {
  readonly port: number
  readonly logged: string[]
  /** The number of times each event was written. */
  readonly writes: Map<number, number>
  /** An API key of a cast member, and the id to revoke it by. */
  keyOf(who: string): Promise<{ key: string; id: string }>
  events(key: string, query: string, headers?: Record<string, string>): Promise<Sse>
  socket(key: string | null, options?: ClientOptions, query?: string): Promise<Socket>
  stop(): Promise<void>
}

const subjects: Record<string, string> = {
  alice: 'user_alice',
  rita: 'user_rita',
  bob: 'user_bob',
  owner: 'user_owner',
  mallory: 'user_mallory',
  devin: 'agent_devin',
}

export async function liveWorld(
  t: TestContext,
  options: { store?: Store; bounds?: LiveBounds; origins?: string[]; readsPerMinute?: number } = {},
): Promise<LiveWorld> {
  const world = await createWorld({
    ...(options.store ? { store: options.store } : {}),
    ...(options.readsPerMinute ? { readsPerMinute: options.readsPerMinute } : {}),
  })
  const sessions = createAuthenticator(world.kernel)
  const logged: string[] = []
  const writes = new Map<number, number>()
  const http = createHttp({
    kernel: world.kernel,
    authenticate: sessions.authenticate,
    logins: sessions,
    log: {
      level: 'info',
      debug: () => undefined,
      error: (fields, message) => void logged.push(`${message} ${String((fields as { err?: unknown }).err)}`),
    },
    version: '1',
    hosts: [],
    proxied: false,
    health: () => ({}),
    live: {
      aliases: { '/v1/events': 'collaboration/audit.follow' },
      origins: options.origins ?? [],
      recheck: sessions.recheck,
      redeem: sessions.redeem,
      bounds: { recheckMs: 100, ...options.bounds },
      written: (_, position) => void writes.set(position, (writes.get(position) ?? 0) + 1),
    },
  })
  const port = await http.listen(0, '127.0.0.1')
  const clients: { close(): void }[] = []
  t.after(async () => {
    for (const client of clients) client.close()
    await http.stop()
    await world.close()
  })
  const kept = <C extends { close(): void }>(client: C): C => {
    clients.push(client)
    return client
  }
  return {
    ...world,
    port,
    logged,
    writes,
    async keyOf(who) {
      const { key, issued } = await world.call('system', 'identity/key.issue', { subject: subjects[who]! })
      return { key, id: issued.id }
    },
    events: async (key, query, headers = {}) => kept(await openEvents(port, key, query, headers)),
    socket: async (key, more = {}, query = '') => kept(await openSocket(port, key, more, query)),
    stop: http.stop,
  }
}

export type Frame = { readonly id: string | undefined; readonly event: string | undefined; readonly data: any }
export type Sse = {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly frames: Frame[]
  /** Frames that are events of the record. */
  readonly items: any[]
  readonly comments: string[]
  /** The last id that came, with data or without. */
  cursor(): string | undefined
  text(): string
  ended(): Promise<void>
  isOver(): boolean
  /** Takes nothing from the socket until it is resumed. */
  pause(): void
  resume(): void
  close(): void
}

async function openEvents(port: number, key: string, query: string, headers: Record<string, string>): Promise<Sse> {
  const path = query.startsWith('/') ? query : `/v1/events?${query}`
  const outgoing = request({
    host: '127.0.0.1',
    port,
    path,
    agent: false,
    headers: { ...(key === '' ? {} : { authorization: `Bearer ${key}` }), ...headers },
  })
  outgoing.on('error', () => undefined)
  outgoing.end()
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
  incoming.on('error', () => undefined)
  const frames: Frame[] = []
  const items: any[] = []
  const comments: string[] = []
  let whole = ''
  let rest = ''
  let cursor: string | undefined
  incoming.setEncoding('utf8')
  incoming.on('data', (chunk: string) => {
    if (incoming.statusCode !== 200) whole += chunk
    const blocks = (rest + chunk).split('\n\n')
    rest = blocks.pop()!
    for (const block of blocks) take(block)
  })
  function take(block: string): void {
    const fields = new Map<string, string>()
    for (const line of block.split('\n')) {
      if (line.startsWith(':')) comments.push(line)
      else fields.set(line.slice(0, line.indexOf(': ')), line.slice(line.indexOf(': ') + 2))
    }
    cursor = fields.get('id') ?? cursor
    const data = fields.get('data')
    if (data === undefined) return
    const frame = { id: fields.get('id'), event: fields.get('event'), data: JSON.parse(data) }
    frames.push(frame)
    if (frame.data.event) items.push(frame.data.event)
  }
  let over = false
  const ended = new Promise<void>((done) =>
    incoming.on('close', () => {
      over = true
      done()
    }),
  )
  return {
    status: incoming.statusCode!,
    headers: incoming.headers,
    frames,
    items,
    comments,
    cursor: () => cursor,
    text: () => whole,
    ended: () => ended,
    isOver: () => over,
    pause: () => void incoming.pause(),
    resume: () => void incoming.resume(),
    close: () => outgoing.destroy(),
  }
}

export type Socket = {
  readonly ws: WebSocket
  readonly said: any[]
  /** The audit events that came for a subscription. */
  items(id?: string): any[]
  cursor(id?: string): string | undefined
  send(message: unknown): void
  closed(): Promise<{ code: number; reason: string }>
  isOver(): boolean
  close(): void
}

async function openSocket(port: number, key: string | null, options: ClientOptions, query: string): Promise<Socket> {
  const headers = { ...(key === null ? {} : { authorization: `Bearer ${key}` }), ...options.headers }
  const ws = new WebSocket(`ws://127.0.0.1:${port}/v1/ws${query}`, { ...options, headers, perMessageDeflate: false })
  const said: any[] = []
  ws.on('message', (data: Buffer) => said.push(JSON.parse(data.toString())))
  let over = false
  const closed = new Promise<{ code: number; reason: string }>((done) =>
    ws.on('close', (code, reason) => {
      over = true
      done({ code, reason: reason.toString() })
    }),
  )
  await new Promise<void>((done, failed) => {
    ws.once('open', () => done())
    ws.once('unexpected-response', (_, answer: IncomingMessage) =>
      failed(Object.assign(new Error(`status ${answer.statusCode}`), { status: answer.statusCode })),
    )
    ws.on('error', failed)
  })
  const of = (id: string) => said.filter((message) => message.id === id && message.items)
  return {
    ws,
    said,
    items: (id = '1') => of(id).flatMap((message) => message.items.map((item: any) => item.event)),
    cursor: (id = '1') => of(id).at(-1)?.cursor,
    send: (message) => ws.send(typeof message === 'string' ? message : JSON.stringify(message)),
    closed: () => closed,
    isOver: () => over,
    close: () => ws.terminate(),
  }
}

/** Waits until it holds. */
export async function until(holds: () => boolean, what: string, ms = 5_000): Promise<void> {
  const end = performance.now() + ms
  while (!holds()) {
    if (performance.now() > end) throw new Error(`waited ${ms} ms in vain: ${what}`)
    await new Promise((done) => setTimeout(done, 5))
  }
}
export const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms))
