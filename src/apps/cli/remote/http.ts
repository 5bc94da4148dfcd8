// A server over HTTP, through the SDK. Its errors become sentences with an exit code.
import { CountersignError } from '#sdk/errors.ts'
import { httpTransport } from '#sdk/transport/http.ts'
import { createHxp } from '#sdk/hxp.ts'
import { CliError, exits, refusedBy } from '../exit-codes.ts'
import { callsBy } from './calls.ts'
import type { AnyOutput, Followed, Remote } from './remote.ts'

type Hints = Readonly<Record<string, string>>

/** A person waits at the terminal: report an unreachable server within a second. */
const ATTEMPTS = 3

/** `hints`: the next step after a refusal, by its code, for commands that know more than the code says. */
export function openHttpRemote(url: string, key: string, hints: Hints = {}): Remote {
  // A command follows one stream: a WebSocket ticket would be an extra write, which a server with a full disk refuses.
  const transport = httpTransport({ url, key, attempts: ATTEMPTS, streams: 'events' })
  const withHints = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work
    } catch (error) {
      throw cliErrorOf(url, error, hints)
    }
  }
  return {
    where: url,
    isOffline: false,
    ...callsBy((operation, input, { key: once, ...rest } = {}) =>
      withHints(transport.call(operation, input, once === undefined ? rest : { idempotencyKey: once, ...rest }) as Promise<AnyOutput>),
    ),
    async *follow(operation, input, options) {
      try {
        yield* transport.follow(operation, input, options) as AsyncIterable<Followed>
      } catch (error) {
        throw cliErrorOf(url, error, hints)
      }
    },
    upload: (operation, input, bytes, onProgress) =>
      withHints(transport.upload!(operation, input, bytes, { onProgress }) as Promise<AnyOutput>),
    download: (operation, input, onProgress) => withHints(transport.download!(operation, input, { onProgress })),
    asking: (work) => withHints(work(createHxp(transport))),
    close: () => transport.close(),
  }
}

function cliErrorOf(url: string, error: unknown, hints: Hints): unknown {
  if (!(error instanceof CountersignError)) return error
  const { code, message, details } = error
  return code === 'NETWORK' || code === 'TIMEOUT' ? unreachable(url, message) : refusedBy(code, message, details, hints[code])
}

/** Whether an error of Node.js says that the server answers, but that no known authority signed its certificate. */
export const isUntrusted = (message: string): boolean => /CERT|_SIGNATURE/.test(message)
export const TRUST_HINT = 'if it is yours, say so with NODE_EXTRA_CA_CERTS=<file>, the certificate or its authority as PEM'

export function unreachable(url: string, message: string): CliError {
  const isPlain = /ERR_SSL|EPROTO|wrong version number|packet length too long/i.test(message)
  const hint = isUntrusted(message)
    ? TRUST_HINT
    : isPlain
      ? `that port speaks plain HTTP: use ${url.replace('https:', 'http:')}`
      : 'is it running? `countersign up` starts a server, `countersign doctor` looks for the reason'
  const why = (isPlain ? 'it answers without TLS' : message)
    .replace('the server could not be reached: ', '')
    .replace(/\b(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ECONNRESET)\b/, (code) => reasons[code]!)
  return new CliError(exits.unreachable, 'UNREACHABLE', `cannot connect to ${url}: ${why}`, hint)
}
const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was broken off',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'there is no such host, or no network',
}

const THERE_MS = 2_000

/** A record check can wait longer than a mere check for a running server. */
const RECORD_MS = 5_000

const healthAt = (url: string, timeoutMs = THERE_MS): Promise<Response> =>
  fetch(`${url}/health`, { signal: AbortSignal.timeout(timeoutMs), redirect: 'error' })

/** The server's word for the state of its record; throws on a timeout. */
export async function recordAt(url: string): Promise<unknown> {
  const health = (await (await healthAt(url, RECORD_MS)).json()) as { record?: unknown } | null
  return health?.record
}

/** Throws the reason if no server answers: without a key and without a server, the server is needed first. */
export async function refuseAbsent(url: string): Promise<void> {
  try {
    await healthAt(url)
  } catch (error) {
    const { code, message = '' } = ((error as { cause?: unknown }).cause ?? {}) as { code?: string; message?: string }
    throw unreachable(
      url,
      code !== undefined && (Object.hasOwn(reasons, code) || /SSL|EPROTO/.test(code)) ? code : message || (error as Error).message,
    )
  }
}

/** The id of the installation at that address; null if it names none. */
export async function installationAt(url: string): Promise<string | null> {
  try {
    const { installation } = (await (await healthAt(url)).json()) as { installation?: unknown }
    return typeof installation === 'string' ? installation : null
  } catch {
    return null
  }
}
