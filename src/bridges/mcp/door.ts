// The HTTP side of our MCP servers. It authenticates the caller, decodes the message, calls operations with the caller's credential, and sends
// the answer of a web handler.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { liftBodyDeadline } from '#bindings/http/connections/body-deadline.ts'
import { setActor } from '#bindings/http/connections/ending.ts'
import type { Bridge, BridgeHost, MakeBridge } from '#bindings/http/mount.ts'
import { whenRead } from '#bindings/http/request-body.ts'
import { bodyOf, TransportRefusal, transportFailure, type Failure } from '#bindings/http/responses.ts'
import { abortOnClose } from '#bindings/shared/call-options.ts'
import { handlerOf } from '#bindings/shared/handle.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { decode } from '#kernel/codec/strict-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'

export type OperationOptions = { readonly key?: string | undefined; readonly signal?: AbortSignal | undefined }
/** Calls an operation as the actor of the request; rejects with `code`, `message`, `status` and `details`. */
export type CallAsActor = (operation: string, input: object, options?: OperationOptions) => Promise<unknown>

/** `At`: the target of an address. */
export type Door<At> = {
  /** Such as /mcp. */
  readonly path: string
  readonly bytesMax: number
  /** The name under which calls are counted. */
  readonly metered: string
  /** The resource that tokens of an issuer can name as their audience. */
  readonly resource?: (() => string) | undefined
  /** The answer to a request without a valid credential names how to get one. */
  challenge?(): string
  /** The target of a path, or null. */
  find(path: string): At | null
  /** The message about a path without a target. */
  readonly absent: string
  /** Refuses actors that cannot use this server. */
  admit(actor: Actor, at: At): void
  serve(call: { readonly actor: Actor; readonly call: CallAsActor; readonly at: At }, request: Request, body: unknown): Promise<Response>
  close(): Promise<void>
}

const METHODS = ['POST', 'GET', 'DELETE']
type Asked<At> = { readonly request: IncomingMessage; readonly response: ServerResponse; readonly body: Buffer; readonly at: At }

export const mcpDoor =
  <At>(door: Door<At>): MakeBridge =>
  (host) => {
    const serve = serverOf(host, door)
    function answer(request: IncomingMessage, response: ServerResponse): void {
      const refuse = (failure: Failure): void => void send(host, request, response, responseOf(failure))
      const refused = refusalOf(host, request)
      if (refused) return refuse(refused)
      const at = door.find(request.url!.split('?', 1)[0]!)
      if (at === null) return refuse(transportFailure(404, 'NOT_FOUND', door.absent))
      if (!METHODS.includes(request.method!)) {
        const allow = METHODS.join(', ')
        return refuse(transportFailure(405, 'INVALID_REQUEST', `${request.method} is not possible here; use ${allow}`, { allow }))
      }
      whenRead(request, door.bytesMax, (body) => {
        if (body === null) return refuse(transportFailure(413, 'TOO_LARGE', `a message has at most ${door.bytesMax} bytes`))
        liftBodyDeadline(request)
        request.socket.setTimeout(0)
        void serve({ request, response, body: body ?? Buffer.alloc(0), at }).then(
          (reply) => send(host, request, response, reply),
          (error: unknown) => {
            host.bug(error)
            response.destroy()
          },
        )
      })
    }
    const stop = (): void => void door.close().catch(host.bug)
    return { path: door.path, answer, isSocket: () => false, upgrade: (_, socket) => socket.destroy(), stop } satisfies Bridge
  }

/** Pages of other sites cannot reach an MCP server, not even with a stolen key. */
function refusalOf(host: BridgeHost, request: IncomingMessage): Failure | null {
  if (host.guard.hostOf(request.headers) === undefined)
    return transportFailure(403, 'UNAUTHORIZED', 'this server does not serve that host name: --hosts adds it')
  if (host.guard.isForeignOrigin(request.headers))
    return transportFailure(403, 'UNAUTHORIZED', 'a page of another origin cannot call tools here')
  return host.refusalOf(request)
}

const responseOf = (failure: Failure): Response => new Response(bodyOf(failure), { status: failure.status, headers: failure.headers })

async function send(host: BridgeHost, request: IncomingMessage, response: ServerResponse, reply: Response): Promise<void> {
  if (response.destroyed) return void reply.body?.cancel().catch(() => undefined)
  const sent = [...reply.headers].flatMap(([name, value]) => (name === 'connection' ? [] : [name, value]))
  const names = sent.filter((_, i) => i % 2 === 0)
  const common = host.headersFor(request)
  const rest = common.filter((_, i) => !names.includes(common[i - (i % 2)]!.toLowerCase()))
  response.writeHead(reply.status, [...rest, ...sent])
  if (!reply.body) return void response.end()
  response.flushHeaders()
  const body = Readable.fromWeb(reply.body)
  body.on('error', () => response.destroy())
  response.once('close', () => body.destroy())
  body.pipe(response)
}

function serverOf<At>(host: BridgeHost, door: Door<At>): (asked: Asked<At>) => Promise<Response> {
  const { kernel, guard, authenticate, failed: failureOf, meter } = host
  return handlerOf<Asked<At>, Response, unknown>({
    credential({ request }) {
      const credential = guard.credentialOf(request.headers, true)
      return door.resource ? { ...credential, resource: door.resource() } : credential
    },
    authenticate: (credential, _, since) => authenticate(credential, since),
    input({ response, request, body, at }, actor) {
      setActor(response, actor.id)
      door.admit(actor, at)
      return request.method === 'POST' ? messageIn(body) : undefined
    },
    options: ({ response }) => ({ signal: abortOnClose(response) }),
    async call({ actor, credential, options, input }, { request, at }) {
      // A call can wait for days: each operation checks the credential again.
      const caller = (): Actor | Promise<Actor> => authenticate(credential)
      const call: CallAsActor = async (operation, of, more = {}) => {
        try {
          return await kernel.call(operation, of, caller, more)
        } catch (error) {
          const { status, code, message, details } = failureOf(error, `/v1/${operation}`)
          throw Object.assign(new Error(message), { status, code, details })
        }
      }
      const headers = new Headers(
        Object.entries(request.headers).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
      )
      headers.delete('authorization')
      const url = `http://localhost${request.url}`
      const asked = new Request(url, { method: request.method!, headers, ...(options.signal ? { signal: options.signal } : {}) })
      return door.serve({ actor, call, at }, asked, input)
    },
    failed(error, { request }) {
      const failure = failureOf(error, request.url!.split('?', 1)[0]!)
      const challenge = failure.status === 401 ? door.challenge?.() : undefined
      const answer = responseOf(
        challenge === undefined ? failure : { ...failure, headers: { ...failure.headers, 'www-authenticate': challenge } },
      )
      return { code: failure.code, answer }
    },
    done: meter(door.metered, true),
  })
}

function messageIn(body: Buffer): unknown {
  try {
    return decode(body)
  } catch (error) {
    if (error instanceof Refusal) throw new TransportRefusal(400, error.code, error.message.replace('the body', 'the message'))
    throw error
  }
}
