// An RPC client that writes exactly the given lines, including lines that no well-behaved client would send.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { createJsonRpc, type JsonRpcBounds, type JsonRpcServer } from '#bindings/jsonrpc/index.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { cast } from '../in-process/world.ts'

/** Tokens that are a name of the cast. */
export const authenticateCast = ({ token }: { token: string }): Promise<Actor> => {
  const actor = Object.hasOwn(cast, token) ? cast[token] : undefined
  return actor ? Promise.resolve(actor) : Promise.reject(new Refusal('UNAUTHENTICATED', 'a valid API key or session is required'))
}

export type RpcServer = { readonly path: string; readonly server: JsonRpcServer; readonly logged: string[] }

export async function serveRpc(
  t: Pick<TestContext, 'after'>,
  kernel: Kernel,
  authenticate: (credential: { token: string }) => Promise<Actor> = authenticateCast,
  bounds: Partial<JsonRpcBounds> = {},
): Promise<RpcServer> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-rpc-'))
  const path = join(folder, 's')
  const logged: string[] = []
  const log = { error: (fields: object, message: string) => void logged.push(`${message} ${String((fields as { err?: unknown }).err)}`) }
  const server = createJsonRpc({ kernel, authenticate, log, bounds })
  await server.listen(path)
  t.after(async () => {
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  })
  return { path, server, logged }
}

export type RpcClient = {
  readonly socket: Socket
  /** Bytes as they are. */
  write(bytes: string | Uint8Array): void
  /** Sends one call and returns its response. */
  call(method: string, params?: unknown): Promise<any>
  /** The next message that is not a response. */
  next(): Promise<any>
  /** Resolves when the server has closed the connection, with the unsolicited messages. */
  closed(): Promise<any[]>
}

export async function rpcClient(path: string, token?: string): Promise<RpcClient> {
  const socket = connect(path)
  const waiting = new Map<number, (message: any) => void>()
  const unasked: any[] = []
  const asking: ((message: any) => void)[] = []
  let rest = ''
  let lastId = 0
  let over = false
  socket.setEncoding('utf8')
  socket.on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      const message = JSON.parse(line)
      const answer = waiting.get(message.id)
      if (answer && !Array.isArray(message)) {
        waiting.delete(message.id)
        answer(message)
      } else if (asking.length > 0) asking.shift()!(message)
      else unasked.push(message)
    }
  })
  socket.on('error', () => undefined)
  const closing = new Promise<void>((done) =>
    socket.on('close', () => {
      over = true
      for (const ask of asking.splice(0)) ask(undefined)
      for (const ask of waiting.values()) ask(undefined)
      done()
    }),
  )
  const client: RpcClient = {
    socket,
    write: (bytes) => void socket.write(bytes),
    call(method, params) {
      const id = ++lastId
      return new Promise((done) => {
        waiting.set(id, done)
        socket.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
      })
    },
    next: () => (unasked.length > 0 || over ? Promise.resolve(unasked.shift()) : new Promise((done) => asking.push(done))),
    async closed() {
      await closing
      return unasked
    },
  }
  if (token !== undefined) assert.ok((await client.call('rpc.authenticate', { token })).result)
  return client
}
