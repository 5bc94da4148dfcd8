// `POST /hook/claude-code`: Claude Code's hooks of type `http`. The answer is a decision or an error status, never an empty 200, after which
// Claude Code would run the tool.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { liftBodyDeadline } from '#bindings/http/connections/body-deadline.ts'
import { setActor } from '#bindings/http/connections/ending.ts'
import type { Bridge, BridgeHost, MakeBridge } from '#bindings/http/mount.ts'
import { whenRead } from '#bindings/http/request-body.ts'
import { bodyOf, TransportRefusal, transportFailure, type Failure } from '#bindings/http/responses.ts'
import { abortOnClose } from '#bindings/shared/call-options.ts'
import { handlerOf } from '#bindings/shared/handle.ts'
import { setBounded } from '#kernel/codec/bounded-map.ts'
import { decode } from '#kernel/codec/strict-json.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { limits } from '#kernel/limits.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { decide, type Memory, type Patience } from './decide.ts'
import { BadEvent, dialects, eventFrom, type Late, type ToolCall } from './dialects.ts'

const PATH = '/hook'
const AGENT = 'claude-code'
const dialect = dialects[AGENT]

type Asked = { readonly request: IncomingMessage; readonly response: ServerResponse; readonly body: Buffer; readonly patience: Patience }
type HttpAnswer = { readonly status: number; readonly text: string; readonly headers: readonly string[] }

export const hooks = (): MakeBridge => (host) => {
  let isStopping = false
  const serve = serverOf(host, () => isStopping)
  function answer(request: IncomingMessage, response: ServerResponse): void {
    const reply = ({ status, text, headers }: HttpAnswer): void => {
      if (response.destroyed) return
      response.writeHead(status, [...host.headersFor(request), ...headers]).end(text)
    }
    const refuse = (failure: Failure): void => reply(answerOf(failure))
    const refused = host.refusalOf(request)
    if (refused) return refuse(refused)
    const url = new URL(request.url ?? '/', 'http://localhost')
    if (url.pathname !== `${PATH}/${AGENT}`) return refuse(transportFailure(404, 'NOT_FOUND', `hooks of type http are at ${PATH}/${AGENT}`))
    if (request.method !== 'POST')
      return refuse(transportFailure(405, 'INVALID_REQUEST', `${request.method} is not possible here; use POST`, { allow: 'POST' }))
    const patience = patienceOf(url.searchParams)
    if ('status' in patience) return refuse(patience)
    whenRead(request, limits.hookEventBytesMax, (body) => {
      if (body === null) return refuse(transportFailure(413, 'TOO_LARGE', `an event has at most ${limits.hookEventBytesMax} bytes`))
      liftBodyDeadline(request)
      request.socket.setTimeout(0)
      void serve({ request, response, body: body ?? Buffer.alloc(0), patience }).then(reply, (error: unknown) => {
        host.bug(error)
        response.destroy()
      })
    })
  }
  return {
    path: PATH,
    answer,
    isSocket: () => false,
    upgrade: (_, socket) => socket.destroy(),
    stop: () => void (isStopping = true),
  } satisfies Bridge
}

const answerOf = (failure: Failure): HttpAnswer => ({
  status: failure.status,
  text: bodyOf(failure),
  headers: Object.entries(failure.headers).flat(),
})

/** `?wait=PT9M&late=ask`, as `hook install` writes them. */
function patienceOf(query: URLSearchParams): Patience | Failure {
  const late = query.get('late') ?? dialect.late[0]!
  if (!dialect.late.includes(late as Late)) return transportFailure(400, 'INVALID_REQUEST', `late is one of ${dialect.late.join(', ')}`)
  try {
    return { waitMs: durationMs(query.get('wait') ?? limits.hookWait, 'INVALID_REQUEST', 'wait'), late: late as Late }
  } catch (error) {
    return transportFailure(400, 'INVALID_REQUEST', (error as Error).message)
  }
}

/** In memory: after a restart of the server a left call finds its question by its digest. */
function memoryHere(): Memory {
  const texts = new Map<string, string>()
  return {
    read: async (key) => texts.get(key) ?? null,
    async write(key, text) {
      const isFree = !texts.has(key)
      if (isFree) setBounded(texts, key, text, limits.leftCallsMax)
      return isFree
    },
    async remove(key, text) {
      if (texts.get(key) === text) texts.delete(key)
    },
  }
}
/** The memory of one agent: session names come from agents, so they are separate for each. The digest bounds the length of a key. */
const memoryOf = ({ read, write, remove }: Memory, agent: string): Memory => {
  const keyFor = (key: string): string => sha256(`${agent} ${key}`)
  return {
    read: (key) => read(keyFor(key)),
    write: (key, text) => write(keyFor(key), text),
    remove: (key, text) => remove(keyFor(key), text),
  }
}

function serverOf(
  { kernel, guard, authenticate, failed: failureOf, meter }: BridgeHost,
  isStopping: () => boolean,
): (asked: Asked) => Promise<HttpAnswer> {
  const memory = memoryHere()
  return handlerOf<Asked, HttpAnswer, ToolCall | null>({
    credential: ({ request }) => guard.credentialOf(request.headers, true),
    authenticate: (credential, _, since) => authenticate(credential, since),
    input({ response, body }, actor) {
      setActor(response, actor.id)
      try {
        return dialect.read(eventFrom(decode(body)))
      } catch (error) {
        throw error instanceof BadEvent ? new TransportRefusal(400, 'INVALID_REQUEST', error.message) : error
      }
    },
    options: ({ response }) => ({ signal: abortOnClose(response) }),
    async call({ actor, caller, options, input: call }, { patience }) {
      // Silence, for events that need no decision.
      if (call === null) return { status: 204, text: '', headers: [] }
      const gate = {
        now: kernel.now,
        isOver: () => isStopping() || options.signal?.aborted === true,
        call: (operation: string, input: object): Promise<unknown> => kernel.call(operation, input, caller, options),
      }
      const verdict = await decide(gate, AGENT, call as ToolCall & { server: string }, patience, memoryOf(memory, actor.id))
      return { status: 200, text: dialect.answer(verdict), headers: [] }
    },
    failed(error, { request }) {
      const failure = failureOf(error, request.url!.split('?', 1)[0]!)
      return { code: failure.code, answer: answerOf(failure) }
    },
    done: meter('gate/call.propose', true),
  })
}
