// The gate's operations over HTTP, for a hook: `fetch` and the SDK would cost more to load than the call takes.
import type { Agent } from 'node:http'
import type { Gate } from '#bridges/hooks/decide.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'

/** The server did not answer, or what answered is no Countersign. */
export class Unreachable extends Error {
  override name = 'Unreachable'
}

const RETRY_MS = 500

/** An import statement reads every export of `node:http`, and so loads `fetch` and its kind: half of the time of an allowed call. */
const http = process.getBuiltinModule('node:http')

const pause = (): Promise<void> => new Promise((done) => setTimeout(done, RETRY_MS))

/** `until`: a waiting call is taken up again over restarts of the server until then. */
export function gateOver(url: string, key: string, until: number): Gate {
  const origin = originOf(url)
  const agent = new http.Agent({ keepAlive: true })
  return {
    now: Date.now,
    isOver: () => false,
    async call(operation, input) {
      for (;;) {
        const began = Date.now()
        try {
          const answer = await post(origin, agent, key, operation, input)
          // A server that stops answers every wait immediately.
          if (operation === 'gate/call.await' && Date.now() - began < RETRY_MS) await pause()
          return answer
        } catch (error) {
          const isAgain = error instanceof Unreachable && operation === 'gate/call.await' && Date.now() < until
          if (!isAgain) throw error
          await pause()
        }
      }
    },
  }
}

/** Plain HTTP beyond this machine would carry the key in the open. */
function originOf(url: string): URL {
  const parsed = URL.canParse(url) ? new URL(url) : null
  const isLoopback = parsed !== null && /^(?:localhost|\[::1\]|127\.\d+\.\d+\.\d+)$/.test(parsed.hostname)
  if (parsed?.protocol === 'https:' || (parsed?.protocol === 'http:' && isLoopback)) return parsed
  throw new Unreachable(`${url} is not the https address of a server`)
}

async function post(origin: URL, agent: Agent, key: string, operation: string, input: object): Promise<unknown> {
  const isTls = origin.protocol === 'https:'
  const { request } = isTls ? process.getBuiltinModule('node:https') : http
  const body = JSON.stringify(input)
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  const { status, text } = await new Promise<{ status: number; text: string }>((resolve, reject) => {
    const fail = (error: Error): void => reject(new Unreachable(error.message || (error as NodeJS.ErrnoException).code))
    const sent = request(
      new URL(`/v1/${operation}`, origin),
      { method: 'POST', headers, timeout: limits.waitMsMax + 15_000, ...(isTls ? {} : { agent }) },
      (response) => {
        const parts: Buffer[] = []
        response.on('data', (part: Buffer) => parts.push(part))
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString() }))
        response.on('error', fail)
        response.on('aborted', () => fail(new Error('the connection was broken off')))
      },
    )
    sent.on('timeout', () => sent.destroy(new Error('the server does not answer')))
    sent.on('error', fail)
    sent.end(body)
  })
  return answerFrom(status, text)
}

const BAD_GATEWAY = 502
const IS_TEMPORARY = new Set([BAD_GATEWAY, 503, 504])

function answerFrom(status: number, text: string): unknown {
  let parsed: { error?: { code?: unknown; message?: unknown } } | null
  try {
    parsed = JSON.parse(text) as typeof parsed
  } catch {
    parsed = null
  }
  if (status === 200 && parsed !== null) return parsed
  const { code, message } = parsed?.error ?? {}
  if (IS_TEMPORARY.has(status) || typeof code !== 'string')
    throw new Unreachable(typeof message === 'string' ? message : `it answers with HTTP ${status}`)
  throw new Refusal(code, String(message))
}
