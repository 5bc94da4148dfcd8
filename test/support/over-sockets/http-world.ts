// The HTTP binding on a real socket with the toy protocol behind it, in memory.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { createHttp, type HttpOptions } from '#bindings/http/index.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Store } from '#kernel/log/store.ts'
import { memoryStore, type MemoryOptions } from '#stores/memory.ts'
import { send, type Answer, type Sent } from './http-client.ts'
import { toyKernel, toyKeys, type Gate } from '../in-process/toy.ts'

export const JSON_HEADERS = { authorization: 'Bearer key-alice', 'content-type': 'application/json' }

type HttpWorldOptions = Partial<HttpOptions> & {
  readonly gate?: Promise<void> | Gate
  readonly store?: MemoryOptions
  readonly asksPerMinute?: number
}
export type HttpWorld = {
  readonly port: number
  readonly store: Store
  readonly keys: Map<string, Actor>
  readonly logged: string[]
  readonly stop: () => Promise<void>
  call(name: string, body?: unknown, more?: Sent): Promise<Answer>
}

export async function httpWorld(
  t: TestContext,
  { gate, store: storeOptions, asksPerMinute, ...options }: HttpWorldOptions = {},
): Promise<HttpWorld> {
  const store = memoryStore(storeOptions)
  const kernel = toyKernel(store, { ...(gate ? { gate } : {}), asksPerMinute: asksPerMinute ?? null })
  const { keys, authenticate } = toyKeys()
  const logged: string[] = []
  const note = (fields: object, message: string): void =>
    void logged.push(`${message} ${JSON.stringify(fields, (_, value: unknown) => (value instanceof Error ? value.message : value))}`)
  const http = createHttp({
    kernel,
    authenticate,
    logins: {
      open: (token) =>
        token === 'good'
          ? Promise.resolve({ session: 'key-alice', expiresAt: '2999-01-01T00:00:00Z' })
          : Promise.reject(new Refusal('UNAUTHENTICATED', 'no')),
      close: (session) => Promise.resolve(void keys.delete(session)),
    },
    log: { level: 'info', debug: note, error: note },
    version: '1.2.3',
    hosts: ['tasks.example.com'],
    proxied: false,
    health: () => ({ store: 'memory' }),
    ...options,
  })
  const port = await http.listen(0, '127.0.0.1')
  t.after(http.stop)
  const call: HttpWorld['call'] = (name, body, more = {}) =>
    send(port, `/v1/toy/${name}`, {
      headers: JSON_HEADERS,
      ...(body === undefined ? {} : { body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body) }),
      ...more,
    })
  return { port, store, keys, logged, stop: http.stop, call }
}

export function assertError(answer: Answer, status: number, code: string): void {
  assert.equal(answer.status, status, answer.text)
  assert.deepEqual(Object.keys(answer.json as object), ['error'])
  const { error } = answer.json as { error: { code: string; message: string; details: object } }
  assert.equal(error.code, code)
  assert.equal(typeof error.message, 'string')
  assert.equal(typeof error.details, 'object')
}
