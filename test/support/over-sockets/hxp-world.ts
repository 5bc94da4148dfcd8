// The HXP bridge on a real socket, with the whole installation behind it and a clock that a test may advance.
import assert from 'node:assert/strict'
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import type { TestContext } from 'node:test'
import { WebSocket, type ClientOptions } from 'ws'
import { realClock } from '#apps/server/clock.ts'
import { createAuthenticator } from '#apps/server/identity/authenticator.ts'
import { createHttp, type HttpOptions } from '#bindings/http/index.ts'
import { hxp } from '#bridges/hxp/index.ts'
import { send, type Answer, type Sent } from './http-client.ts'
import { createWorld, type World, type WorldOptions } from '../in-process/world.ts'

export type Listening = {
  readonly ws: WebSocket
  readonly heard: any[]
  closed(): Promise<{ code: number; reason: string }>
  isOver(): boolean
}
export type HxpWorld = World & {
  readonly port: number
  readonly logged: string[]
  readonly keys: Readonly<Record<'alice' | 'rita' | 'bob' | 'owner' | 'mallory' | 'devin' | 'robin' | 'spy' | 'project', string>>
  readonly keyIds: Readonly<Record<string, string>>
  /** `as`: whose key, or null for none. */
  http(as: string | null, method: string, path: string, body?: unknown, headers?: OutgoingHttpHeaders): Promise<Answer>
  ask(as?: string, more?: object): Promise<any>
  resolve(id: string, result: unknown, more?: object, as?: string): Promise<Answer>
  /** The time of everything that is due is over. */
  expire(id: string, ms?: number): Promise<void>
  listen(path: string, as: string | null, options?: ClientOptions): Promise<Listening>
  stop(): Promise<void>
}

const subjects = {
  alice: 'user_alice',
  rita: 'user_rita',
  bob: 'user_bob',
  owner: 'user_owner',
  mallory: 'user_mallory',
  devin: 'agent_devin',
  robin: 'agent_robin',
  spy: 'agent_spy',
  project: 'project_default',
} as const

export const QUESTION = { action: 'DECIDE', payload: { question: 'Approve the $99/mo plan?', options: ['Approve', 'Deny'] } }

type Options = WorldOptions & { http?: Partial<HttpOptions> }

export async function hxpWorld(t: Pick<TestContext, 'after'>, options: Options = {}): Promise<HxpWorld> {
  const world = await createWorld({ sleep: realClock.sleep, ...options })
  const sessions = createAuthenticator(world.kernel)
  const logged: string[] = []
  const http = createHttp({
    kernel: world.kernel,
    authenticate: sessions.authenticate,
    logins: sessions,
    log: {
      level: 'info',
      debug: () => undefined,
      error: (fields, message) => void logged.push(`${message} ${String((fields as { err?: unknown }).err)}`),
    },
    version: '1.2.3',
    hosts: ['hxp.example.com'],
    proxied: false,
    health: () => ({}),
    bridges: [hxp(null)],
    ...options.http,
    live: { recheck: sessions.recheck, redeem: sessions.redeem, bounds: { recheckMs: 50 }, ...options.http?.live },
  })
  const port = await http.listen(0, '127.0.0.1')
  const keys: Record<string, string> = {}
  const keyIds: Record<string, string> = {}
  for (const [name, subject] of Object.entries(subjects)) {
    const { key, issued } = await world.call('system', 'identity/key.issue', { subject })
    keys[name] = key
    keyIds[name] = issued.id
  }
  const sockets: WebSocket[] = []
  t.after(async () => {
    for (const ws of sockets) ws.terminate()
    world.kernel.release()
    await http.stop()
    await world.close()
  })
  const sent: HxpWorld['http'] = (as, method, path, body, headers = {}) => {
    const credential = as === null ? {} : { authorization: `Bearer ${keys[as] ?? as}` }
    const isRaw = typeof body === 'string' || body instanceof Uint8Array
    const more: Sent = body === undefined ? {} : { body: isRaw ? body : JSON.stringify(body) }
    const type = body === undefined ? {} : { 'content-type': 'application/json' }
    return send(port, path.startsWith('/hxp') ? path : `/hxp/v1${path}`, {
      method,
      headers: { ...credential, ...type, ...headers },
      ...more,
    })
  }
  return {
    ...world,
    port,
    logged,
    keys: keys as HxpWorld['keys'],
    keyIds,
    http: sent,
    async ask(as = 'devin', more = {}) {
      const answer = await sent(as, 'POST', '/requests', { ...QUESTION, ...more })
      assert.equal(answer.status, 201, answer.text)
      return answer.json
    },
    resolve: (id, result, more = {}, as = 'alice') => sent(as, 'POST', `/requests/${id}/resolve`, { result, ...more }),
    async expire(id, ms = 24 * 3_600_000) {
      world.advance(ms)
      await world.call('system', 'execution/request.expire', { request_id: id })
    },
    listen: async (path, as, more = {}) => {
      const listening = await openSocket(port, path, as === null ? null : (keys[as] ?? as), more)
      sockets.push(listening.ws)
      return listening
    },
    stop: http.stop,
  }
}

async function openSocket(port: number, path: string, key: string | null, options: ClientOptions): Promise<Listening> {
  const headers = { ...(key === null ? {} : { authorization: `Bearer ${key}` }), ...options.headers }
  const url = path.startsWith('ws') ? path : `ws://127.0.0.1:${port}${path}`
  const ws = new WebSocket(url, { ...options, headers, perMessageDeflate: false })
  const heard: any[] = []
  ws.on('message', (data: Buffer, isBinary: boolean) => heard.push(isBinary ? data : JSON.parse(data.toString())))
  let over = false
  const closed = new Promise<{ code: number; reason: string }>((done) =>
    ws.on('close', (code, reason) => {
      over = true
      done({ code, reason: reason.toString() })
    }),
  )
  await new Promise<void>((done, failed) => {
    ws.once('open', () => done())
    ws.once('unexpected-response', (_, answer: IncomingMessage) => {
      const parts: Buffer[] = []
      answer.on('data', (part: Buffer) => parts.push(part))
      answer.on('end', () => {
        const text = Buffer.concat(parts).toString()
        failed(
          Object.assign(new Error(`status ${answer.statusCode}`), {
            status: answer.statusCode,
            text,
            type: answer.headers['content-type'],
          }),
        )
      })
    })
    ws.on('error', failed)
  })
  return { ws, heard, closed: () => closed, isOver: () => over }
}

/** Every error has these three and no others, and is JSON. */
export function assertRefused(answer: Answer, status: number, error: string): void {
  assert.equal(answer.status, status, answer.text)
  assert.match(String(answer.headers['content-type']), /^application\/json/)
  assert.deepEqual(Object.keys(answer.json as object), ['error', 'message', 'details'])
  assert.equal(answer.json.error, error, answer.text)
  assert.equal(typeof answer.json.message, 'string')
  assert.notEqual(answer.json.message, '')
  assert.equal(typeof answer.json.details, 'object')
}
