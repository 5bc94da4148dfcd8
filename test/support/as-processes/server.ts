// The real server as a process of its own, and the least that is needed to call it.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { memoryFlags } from '#apps/cli/serve.ts'

const MAIN = join(import.meta.dirname, '../../../src/apps/server/main.ts')

export type ServerProcess = {
  readonly pid: number
  readonly port: number
  readonly adminKey: string
  /** Sends the signal and waits until the process is gone. */
  end(signal: NodeJS.Signals): Promise<void>
}

/** Starts a process and waits for a line of its output that ends with a port. */
export async function spawnServer(args: readonly string[], env: Record<string, string> = {}): Promise<Omit<ServerProcess, 'adminKey'>> {
  const child = spawn(process.execPath, args, { env: { PATH: process.env['PATH'], ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  const said = { out: '', err: '' }
  child.stdout.on('data', (part) => (said.out += String(part)))
  child.stderr.on('data', (part) => (said.err = (said.err + String(part)).slice(-10_000)))
  const port = await portIn(child, said)
  return {
    pid: child.pid!,
    port,
    async end(signal) {
      const gone = once(child, 'exit')
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill(signal)
      await gone
    },
  }
}

async function portIn(child: ChildProcess, said: { out: string; err: string }): Promise<number> {
  for (;;) {
    const found = / ready http:\/\/127\.0\.0\.1:(\d+)\n/.exec(said.out)
    if (found) return Number(found[1])
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`the server ended before it was ready: ${said.out}${said.err}`)
    await new Promise((done) => setTimeout(done, 5))
  }
}

export async function startServer(data: string, port = 0, env: Record<string, string> = {}): Promise<ServerProcess> {
  // As scripts/serve runs it.
  const started = await spawnServer([...memoryFlags, MAIN], {
    MALLOC_ARENA_MAX: '1',
    NODE_COMPILE_CACHE: join(import.meta.dirname, '../../../node_modules/.cache/node'),
    COUNTERSIGN_DATA: data,
    COUNTERSIGN_PORT: String(port),
    COUNTERSIGN_LOG: 'error',
    COUNTERSIGN_QUOTA: 'off',
    ...env,
  })
  return { ...started, adminKey: readFileSync(join(data, 'admin.key'), 'utf8').trim() }
}

export type Answer = { readonly status: number; readonly body: any }

/** Calls operations over kept-alive connections. Rejects only where no whole answer came back. */
export function createCaller(port: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: 256 })
  function call(bearer: string, operation: string, input: object, key?: string): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const headers = {
      authorization: `Bearer ${bearer}`,
      'content-type': 'application/json',
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    }
    const sent = request({ agent, port, host: '127.0.0.1', method: 'POST', path: `/v1/${operation}`, headers }, (answer) => {
      const parts: Buffer[] = []
      answer.on('data', (part: Buffer) => parts.push(part))
      answer.on('error', reject)
      answer.on('aborted', () => reject(new Error('the answer ended in the middle')))
      answer.on('end', () => resolve({ status: answer.statusCode!, body: JSON.parse(Buffer.concat(parts).toString()) }))
    })
    sent.on('error', reject)
    sent.end(JSON.stringify(input))
    return promise
  }
  return { call, close: () => agent.destroy() }
}

export type Keys = { readonly alice: string; readonly devin: string }

/** Registers a person and an agent of theirs and gives both a key. */
export async function enroll(port: number, adminKey: string): Promise<Keys> {
  const { call, close } = createCaller(port)
  const admin = async (operation: string, input: object): Promise<any> => {
    const { status, body } = await call(adminKey, `identity/${operation}`, input)
    if (status !== 200) throw new Error(`${operation} answered ${status}: ${JSON.stringify(body)}`)
    return body
  }
  await admin('user.add', { id: 'user_alice', name: 'Alice' })
  await admin('agent.add', { id: 'agent_devin', name: 'Devin', owner: 'user_alice' })
  const keyOf = async (subject: string): Promise<string> => (await admin('key.issue', { subject })).key
  const keys = { alice: await keyOf('user_alice'), devin: await keyOf('agent_devin') }
  close()
  return keys
}
