// An agent is a handler and a loop that waits for its runs. This is the loop's outside: options, connection, signals.
import { createClient, type Client, type Input } from '../client.ts'
import { httpTransport } from '../transport/http.ts'
import type { Transport } from '../transport/transport.ts'
import { persistently } from '../transport/retry.ts'
import { createConnection, endingOf } from './connection.ts'
import { createRunLoop, type Settings } from './run-loop.ts'
import type { Run } from './run.ts'

/** Every run is a call of it: what it returns is the run's result, what it throws fails the run. */
export type Handler<I extends object = Record<string, unknown>> = (run: Run<I>) => unknown
/** The agent's declaration about itself: put down as its card when it starts. */
export type Card = Input<'delegation/agent.publish'> & { readonly agent_id: string }

export type ServeOptions = {
  /** Where the server is; COUNTERSIGN_URL or http://127.0.0.1:3402 by default. */
  readonly url?: string
  /** The agent's key; COUNTERSIGN_KEY by default. */
  readonly key?: string
  /** Instead of both: any transport of the SDK. It is closed when serving ends. */
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
  /** Stop at SIGTERM and SIGINT, and then let the signal do what it does. */
  readonly signals?: boolean
  /** Told of a failure: of a handler, with its run, or of a call about one. Written to the standard error stream by default. */
  readonly onError?: (error: unknown, run: Run | null) => void
  /** One line each time: it is connected, it is not, the key is refused. Written to the standard error stream by default. */
  readonly log?: (line: string) => void
}

export type Serving = {
  /** Takes nothing more, lets handlers finish for a while, and gives back the rest. */
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
  const { url, key, transport: own, signals = false, log = (line) => console.error(line), ...given } = options
  const transport = own ?? httpTransport(connectionOf(url, key))
  const where = (own ? null : transport.where) ?? 'the server'
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
  /** False: it was stopped before. */
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

/** A second signal is not ours any more. */
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
