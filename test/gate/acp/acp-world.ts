// A server, an ACP agent and an editor, with the proxy of `countersign acp` between them, in this process or as a process of its own.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import type { TestContext } from 'node:test'
import { readConfig, type Config } from '#apps/server/settings/config.ts'
import { createLog } from '#apps/server/log.ts'
import { startServer } from '#apps/server/server.ts'
import { openPerson } from '#apps/cli/acp/person.ts'
import { httpTransport } from '#sdk/transport/http.ts'
import { serveAcp } from '../../../src/gate/acp/proxy.ts'
import { gatePort, type GatePort } from '../../../src/gate/port.ts'
import { temporary } from '../../support/as-processes/cli.ts'
import { until, worldAt, type GateWorld } from '../gate-world.ts'

export type Message = { id?: string | number; method?: string; params?: any; result?: any; error?: any }
export const AGENT = join(import.meta.dirname, 'fake-agent.ts')

export type AcpWorld = GateWorld & {
  /** The key of a person who owns nothing. */
  readonly bob: string
  /** The lines that the agent has left. */
  effects(): string[]
  readonly effectsFile: string
}

export async function openAcpWorld(t: TestContext): Promise<AcpWorld> {
  const data = join(temporary('acp'), 'data')
  const args = ['--data', data, '--port', '0', '--log', 'silent', '--socket', 'off', '--quota', 'off', '--web', 'off']
  const { config } = readConfig(args, {}) as { config: Config }
  const onFatal = (error: unknown): never => {
    throw error as Error
  }
  const server = await startServer(config, { log: createLog(config.log), onFatal })
  t.after(server.stop)
  const world = await worldAt(t, server, { data, file: `${data}.runs` })
  await world.call(world.keys.owner, 'identity/user.add', { id: 'user_bob', name: 'Bob' })
  const { key: bob } = await world.call(world.keys.owner, 'identity/key.issue', { subject: 'user_bob' })
  const effectsFile = `${data}.effects`
  return { ...world, bob, effectsFile, effects: () => effectsIn(effectsFile) }
}

export const effectsIn = (file: string): string[] => (existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [])

export type Answerer = (params: any, message: Message) => unknown
/** An editor on two streams: it keeps what it hears, and answers questions as it is told. */
export function openEditor(input: NodeJS.WritableStream, output: NodeJS.ReadableStream) {
  const heard: Message[] = []
  const waiting = new Map<string | number, (message: Message) => void>()
  let ids = 0
  let rest = ''
  const editor = {
    heard,
    answer: (async () => new Promise(() => undefined)) as Answerer,
    send: (message: Message): void => void input.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`),
    raw: (text: string): void => void input.write(text),
    call(method: string, params: object): Promise<Message> {
      const id = ++ids
      const answered = new Promise<Message>((done) => waiting.set(id, done))
      editor.send({ id, method, params })
      return answered
    },
    prompt: (orders: object[], sessionId = 's1'): Promise<Message> =>
      editor.call('session/prompt', { sessionId, prompt: [{ type: 'text', text: JSON.stringify(orders) }] }),
    close: (): void => void input.end(),
    questions: (): Message[] => heard.filter(({ method }) => method === 'session/request_permission'),
    closed: (): Message[] => heard.filter(({ method }) => method === '$/cancel_request'),
    /** What the proxy has said in the chat. */
    said: (): string =>
      heard
        .filter(({ method, params }) => method === 'session/update' && params.update.sessionUpdate === 'agent_message_chunk')
        .map(({ params }) => params.update.content.text.trim())
        .join('\n'),
  }
  output.on('data', (part: Buffer) => {
    const lines = (rest + part.toString()).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      const message = JSON.parse(line) as Message
      heard.push(message)
      if (message.method === undefined) waiting.get(message.id!)?.(message)
      else if (message.method === 'session/request_permission')
        void Promise.resolve(editor.answer(message.params, message)).then((result) => editor.send({ id: message.id!, result }))
    }
  })
  return editor
}

export const choose =
  (optionId: string): Answerer =>
  () => ({ outcome: { outcome: 'selected', optionId } })

export type ProxyOptions = {
  /** The person at the editor; null: no person is logged in. */
  readonly person?: string | null
  readonly port?: (port: GatePort) => GatePort | null
  readonly env?: Record<string, string>
  readonly url?: string
  readonly argv?: [string, ...string[]]
}

/** The proxy in this process. */
export async function connect(t: TestContext, world: AcpWorld, options: ProxyOptions = {}) {
  const { person = world.keys.alice, env = {}, url = world.url } = options
  writeFileSync(world.effectsFile, '')
  const own = httpTransport({ url, key: world.keys.devin, streams: 'events', attempts: 1, timeoutMs: 40_000 })
  const persons = person === null ? null : httpTransport({ url, key: person, streams: 'events', attempts: 1, timeoutMs: 40_000 })
  const port = gatePort((operation, input, signal) => own.call(operation, input, { signal }))
  const [input, output] = [new PassThrough(), new PassThrough()]
  const editor = openEditor(input, output)
  const notes: string[] = []
  const stop = new AbortController()
  const ended = serveAcp({
    ports: {
      port: options.port ? options.port(port) : port,
      person: persons && (await openPerson(persons, undefined)),
      name: 'fake',
      task_id: null,
      where: url,
    },
    command: {
      argv: options.argv ?? [process.execPath, AGENT],
      cwd: world.data,
      env: { PATH: process.env['PATH']!, EFFECTS: world.effectsFile, COUNTERSIGN_AGENT: 'agent_devin', ...env },
    },
    input,
    output,
    note: (text) => notes.push(text),
    stop: stop.signal,
  })
  t.after(async () => {
    stop.abort()
    await ended
    await Promise.all([own.close(), persons?.close()])
  })
  await editor.call('initialize', { protocolVersion: 1, clientCapabilities: {} })
  const session = await editor.call('session/new', { cwd: world.data, mcpServers: [] })
  return { editor, notes, stop, ended, session }
}

export const waitingCall = (world: AcpWorld): Promise<any> =>
  until(async () => (await world.calls()).findLast(({ state }) => state === 'waiting'))
