// The entry of an agent: options, connection and signals around the loop that waits for runs and calls the handler.
import { createClient, type Client, type Input } from '../client.ts'
import { httpTransport } from '../transport/http.ts'
import type { Transport } from '../transport/transport.ts'
import { persistently } from '../transport/retry.ts'
import { createConnection, endingOf } from './connection.ts'
import { createRunLoop, type Settings } from './run-loop.ts'
import type { Run } from './run.ts'

/** Called once for every run. The returned value is the result of the run; an exception fails it. */
export type Handler<I extends object = Record<string, unknown>> = (run: Run<I>) => unknown
/** The agent's declaration about itself, published as its card at the start. */
export type Card = Input<'delegation/agent.publish'> & { readonly agent_id: string }

export type ServeOptions = {
  /** The address of the server; COUNTERSIGN_URL or http://127.0.0.1:3402 by default. */
  readonly url?: string
  /** The agent's key; COUNTERSIGN_KEY by default. */
  readonly key?: string
  /** Any transport of the SDK, in place of `url` and `key`. It is closed when serving ends. */
  readonly transport?: Transport
  /** Maximum number of concurrent handlers, 1 by default. A handler that waits for a person or another agent does not count. */
  readonly concurrency?: number
  /** Maximum number of waiting handlers, 1,000 by default. At the limit, no new runs are taken. */
  readonly waitingMax?: number
  /** The lease of a run, a minute by default. After a crash the run is redelivered when the lease expires. */
  readonly leaseMs?: number
  /** How long one call waits for messages: 50 s by default, at most a minute. */
  readonly waitMs?: number
  /** How long `stop` lets handlers finish: 10 s by default. */
  readonly graceMs?: number
  /** Stops at SIGTERM and SIGINT, and then gives the signal its default effect. */
  readonly signals?: boolean
  /** Gets the failure of a handler, with its run, or of a call about a run. By default it is written to stderr. */
  readonly onError?: (error: unknown, run: Run | null) => void
  /** Gets one line for each change: connected, disconnected, key refused. By default it is written to stderr. */
  readonly log?: (line: string) => void
}

export type Serving = {
  /** Takes no more runs, lets handlers finish for a while, and releases the rest. */
  stop(): Promise<void>
  /**
   * Resolves when serving has stopped; rejects when it cannot continue, such as with an invalid key. If the program does not use this
   * promise, the process then ends with exit code 1.
   */
  readonly done: Promise<void>
}

const URL_USUAL = 'http://127.0.0.1:3402'
const usual: Settings = {
  concurrency: 1,
  waitingMax: 1_000,
  leaseMs: 60_000,
  waitMs: 50_000,
  graceMs: 10_000,
  onError: (error) => console.error(error),
}

/** Serves as an agent until it is stopped. */
export function serve<I extends object = Record<string, unknown>>(
  agent: string | Card,
  handler: Handler<I>,
  options: ServeOptions = {},
): Serving {
  const { url, key, transport: givenTransport, signals = false, log = (line) => console.error(line), ...given } = options
  const transport = givenTransport ?? httpTransport(connectionOf(url, key))
  const where = (givenTransport ? null : transport.where) ?? 'the server'
  const client = createClient({ transport })
  const agent_id = typeof agent === 'string' ? agent : agent.agent_id
  const connection = createConnection(agent_id, client, where, log)
  const settings = { ...usual, ...given }
  const loop = createRunLoop(agent_id, { client, transport, connection }, handler as Handler, settings)
  const stop = async (): Promise<void> => {
    await loop.stop(settings.graceMs)
    // The caller gets the failure from `done`.
    await done.catch(() => undefined)
  }
  const unhear = signals ? hear(stop) : () => undefined

  async function serveRuns(): Promise<void> {
    try {
      if (!(await isOpen())) return
      if (typeof agent !== 'string') await register(client, agent, loop.stopping)
      loop.start()
      await loop.ended
    } catch (error) {
      log(endingOf(agent_id, where, error))
      if (!isAsked && globalThis.process) globalThis.process.exitCode = 1
      throw error
    } finally {
      unhear()
      await client.close()
    }
  }
  /** False: serving was stopped before the connection opened. */
  async function isOpen(): Promise<boolean> {
    try {
      await connection.open(loop.stopping)
      return true
    } catch (error) {
      if (loop.stopping.aborted) return false
      throw error
    }
  }
  let isAsked = false
  const done = serveRuns()
  // The line above gives the reason; a stack trace of the SDK would not help.
  done.catch(() => undefined)
  return {
    stop,
    get done() {
      isAsked = true
      return done
    },
  }
}

const environment = (): Readonly<Record<string, string | undefined>> => globalThis.process?.env ?? {}

function connectionOf(url: string | undefined, key: string | undefined): { url: string; key: string } {
  const env = environment()
  const agentKey = key ?? env['COUNTERSIGN_KEY']
  if (agentKey === undefined || agentKey === '') throw new TypeError("the agent's key is missing: set COUNTERSIGN_KEY, or give `key`")
  return { url: url ?? (env['COUNTERSIGN_URL'] || URL_USUAL), key: agentKey }
}

async function register(client: Client, card: Card, stopping: AbortSignal): Promise<void> {
  try {
    await persistently(stopping, () => client.delegation.agent.publish(card, { signal: stopping }))
  } catch (error) {
    if (!stopping.aborted) throw error
  }
}

/** A second signal has its default effect. */
function hear(stop: () => Promise<void>): () => void {
  const { process } = globalThis
  const names = ['SIGTERM', 'SIGINT'] as const
  const onSignal = (name: NodeJS.Signals): void => {
    unhear()
    void stop().finally(() => process.kill(process.pid, name))
  }
  const unhear = (): void => names.forEach((name) => process.off(name, onSignal))
  names.forEach((name) => process.on(name, onSignal))
  return unhear
}
