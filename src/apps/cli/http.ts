// A server over HTTP, through the SDK. Its errors become sentences with an exit code.
import { CountersignError } from '#sdk/errors.ts'
import { httpTransport } from '#sdk/http.ts'
import { CliError, exits, refusedBy } from './exits.ts'
import type { Answer, Followed, Remote } from './remote.ts'

/** Somebody waits at the terminal: a server that is not there is said to be so within a second. */
const ATTEMPTS = 3

export function openServer(url: string, key: string): Remote {
  const transport = httpTransport({ url, key, attempts: ATTEMPTS })
  const told = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work
    } catch (error) {
      throw spoken(url, error)
    }
  }
  return {
    where: url,
    isOffline: false,
    call: (operation, input, { key: once, ...rest } = {}) =>
      told(transport.call(operation, input, once === undefined ? rest : { idempotencyKey: once, ...rest })),
    async *follow(operation, input, options) {
      try {
        yield* transport.follow(operation, input, options) as AsyncIterable<Followed>
      } catch (error) {
        throw spoken(url, error)
      }
    },
    upload: (operation, input, bytes, onProgress) => told(transport.upload!(operation, input, bytes, { onProgress }) as Promise<Answer>),
    download: (operation, input, onProgress) => told(transport.download!(operation, input, { onProgress })),
    close: () => transport.close(),
  }
}

function spoken(url: string, error: unknown): unknown {
  if (!(error instanceof CountersignError)) return error
  const { code, message, details } = error
  if (code !== 'NETWORK' && code !== 'TIMEOUT') return refusedBy(code, message, details)
  const hint = 'is it running? `countersign up` starts a server, `countersign doctor` looks for the reason'
  return new CliError(exits.unreachable, 'UNREACHABLE', `${url}: ${message}`, hint)
}
