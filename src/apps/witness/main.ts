// `countersign witness`: a witness for logs of others, a process of its own without a kernel or a database.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parseArgs } from 'node:util'
import { resolve } from 'node:path'
import { isKeyName, LOG_KEY, Unreadable, type VerifierKey } from '#kernel/log/tree/note.ts'
import { limits } from '#kernel/limits.ts'
import { nodeKeyIn } from '#workers/keys/log-key.ts'
import { runProcess } from '../process.ts'
import { makeFolder } from '../server/folder/data-folder.ts'
import { lockFolder } from '../server/folder/folder-lock.ts'
import { ConfigError } from '../server/settings/config-error.ts'
import { StartError } from '../server/start-error.ts'
import { createJudge, type Answer, type Judge } from './judge.ts'
import { hashOfOrigin, openWitnessState, type WitnessState } from './state.ts'
import { witnessFlags } from './flags.ts'

type Settings = {
  readonly logs: readonly VerifierKey[]
  readonly name: string
  readonly data: string
  readonly port: number
  readonly host: string
}

const BODY_BYTES_MAX = limits.logNoteCharsMax + 8 * 1024
const REQUEST_MS = 10_000

const help = (): string =>
  `A witness cosigns the log of a Countersign (or of any C2SP log) as long as it only grows. Run it where the log's operator has no access.

Usage: countersign witness --log <vkey> --name <name> --data <folder> [options]

${witnessFlags.map(({ name, value, help: text }) => `  ${`--${name} ${value}`.padEnd(20)}${text}`).join('\n')}

Example:
  countersign witness --log 'tasks.example.com/log+2b0d6ae5+AdZ...' --name w.lab.example --data w --port 3410
`

function settingsIn(argv: readonly string[]): Settings | 'help' {
  const { values } = parseWords(argv)
  if (values.help) return 'help'
  const { log = [], name = '', data = '', port = '0', host = '127.0.0.1' } = values
  if (log.length === 0) throw new ConfigError('--log is missing: the verifier key of a log, as its operator publishes it at /log/policy')
  if (!isKeyName(name))
    throw new ConfigError('--name is missing, or has spaces or "+": a name such as w.lab.example, which is never used for another witness')
  if (data === '') throw new ConfigError('--data is missing: the folder with the key and the memory of this witness')
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535)
    throw new ConfigError(`--port must be a port from 0 to 65535, not ${JSON.stringify(port)}`)
  return { logs: log.map(logKeyIn), name, data: resolve(data), port: Number(port), host }
}

function parseWords(argv: readonly string[]) {
  try {
    const text = { type: 'string' } as const
    const options = {
      log: { ...text, multiple: true },
      name: text,
      data: text,
      port: text,
      host: text,
      help: { type: 'boolean', short: 'h' },
    } as const
    return parseArgs({ args: [...argv], options })
  } catch (error) {
    throw new ConfigError(`${(error as Error).message} (see countersign witness --help)`)
  }
}

function logKeyIn(text: string): VerifierKey {
  try {
    const key = nodeKeyIn(text)
    if (key.type !== LOG_KEY) throw new Unreadable(`${key.name} is the key of a witness, not of a log`)
    return key
  } catch (error) {
    throw new ConfigError(`--log: ${(error as Error).message}`)
  }
}

export type RunningWitness = { readonly url: string; readonly vkey: string; stop(): Promise<void> }
type Options = { now?(): number; alarm?(message: string): void }

export async function startWitness(settings: Settings, { now = Date.now, alarm = toStderr }: Options = {}): Promise<RunningWitness> {
  const { logs, name, data, port, host } = settings
  try {
    makeFolder(data)
  } catch (error) {
    throw new StartError(`the folder ${data} cannot be made: ${(error as Error).message}`)
  }
  const release = lockFolder(data, `another witness uses ${data}: a key must sign in one place only`)
  try {
    const state = await openWitnessState(data, name, logs)
    const server = serverFor(state, createJudge({ state, logs, now, alarm }), alarm)
    await listen(server, port, host)
    const { port: taken } = server.address() as AddressInfo
    let stopped: Promise<void> | undefined
    const stop = async (): Promise<void> => {
      const closed = new Promise((done) => server.close(done))
      server.closeAllConnections()
      await closed
      release()
    }
    return {
      url: `http://${host.includes(':') ? `[${host}]` : host}:${taken}`,
      vkey: state.key.key.text,
      stop: () => (stopped ??= stop()),
    }
  } catch (error) {
    release()
    throw error
  }
}

const listen = (server: Server, port: number, host: string): Promise<void> =>
  new Promise((done, failed) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      failed(
        error.code === 'EADDRINUSE'
          ? new StartError(`port ${port} on ${host} is taken: choose another with --port`)
          : new StartError(error.message),
      ),
    )
    server.listen(port, host, done)
  })

const toStderr = (message: string): void => void process.stderr.write(`${new Date().toISOString()} ${message}\n`)

function serverFor(state: WitnessState, judge: Judge, alarm: (message: string) => void): Server {
  const server = createServer({ requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS }, (request, response) => {
    void answerTo(state, judge, request)
      .catch((error: Error): Answer => {
        // Nothing was cosigned: the log asks again with its next checkpoint.
        alarm(`a checkpoint could not be kept: ${error.message}`)
        return { status: 503, body: 'the witness cannot write at the moment\n' }
      })
      .then((answer) => send(response, answer))
  })
  return server
}

function send(response: ServerResponse, { status, body, type = 'text/plain; charset=utf-8' }: Answer): void {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body), 'cache-control': 'no-store' }).end(body)
}

async function answerTo(state: WitnessState, judge: Judge, request: IncomingMessage): Promise<Answer> {
  const { method, url = '/' } = request
  if (method === 'GET') {
    const found = [...state.latest].find(([origin]) => url === `/${hashOfOrigin(origin)}/checkpoint`)
    return found ? { status: 200, body: found[1].note } : { status: 404, body: 'there is nothing here\n' }
  }
  if (method !== 'POST' || url !== '/add-checkpoint') return { status: 404, body: 'there is nothing here\n' }
  const parts: Buffer[] = []
  let bytes = 0
  // What is over the bound is read and thrown away: a sender who is cut off would not see the answer.
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length
    if (bytes <= BODY_BYTES_MAX) parts.push(part)
  }
  if (bytes > BODY_BYTES_MAX) return { status: 413, body: `a request has at most ${BODY_BYTES_MAX} bytes\n` }
  return judge.add(Buffer.concat(parts).toString())
}

export async function main(argv: readonly string[]): Promise<void> {
  await runProcess(async () => {
    const settings = settingsIn(argv)
    if (settings === 'help') return void process.stdout.write(help())
    process.umask(0o077)
    const witness = await startWitness(settings)
    process.stdout.write(`countersign witness ready ${witness.url}\n${witness.vkey}\n`)
    process.stdout.write(`For the policy of the log (--witnesses):\n  witness <name> ${witness.vkey} ${witness.url}\n`)
    const stop = (): void => void witness.stop().then(() => process.exit(0))
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
  })
}
