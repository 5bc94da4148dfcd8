// HLP's HTTP binding (HLP 7.1, packages 0.4): from a bare request to an answer, for every path below /hlp.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { BridgeHost, MakeBridge } from '#bindings/http/mount.ts'
import { endSoon } from '#bindings/http/connections/turn-batching.ts'
import { whenRead } from '#bindings/http/request-body.ts'
import { transportFailure } from '#bindings/http/responses.ts'
import { handlerOf, type Steps } from '#bindings/shared/handle.ts'
import { decode, isObject } from '#kernel/codec/strict-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { cursorOf } from '#kernel/declare/paging.ts'
import { limits } from '#kernel/limits.ts'
import { answerOf, errorAnswer, feedAnswer, refuseOtherVersions, versionAnswer, type HttpAnswer } from './answers.ts'
import { callsOf, LIST_MAX, PAGE, type Input, type Params } from './calls.ts'
import { eventObject } from './objects.ts'
import { operations, type Operation } from './operations.ts'

const PATH = '/hlp'
const OPS = '/hlp/v1/ops/'
const FEED = '/hlp/v1/events'

type Routed = {
  readonly operation: Operation
  readonly bytes: Buffer
  readonly request: IncomingMessage
  task: string | null
}

/** Params that name the actor. The draft's reference implementation overwrites or trusts them; here they must name the caller. */
const ACTORS = ['principal', 'actor', 'reviewer', 'produced_by', 'raised_by', 'by']

export const hlp: MakeBridge = (host) => {
  const handlers = new Map([...operations].map(([name, operation]) => [name, handlerOf(stepsOf(name, operation, host))]))
  const feed = handlerOf(stepsOf('audit.query', feedOperation, host))

  function answer(request: IncomingMessage, response: ServerResponse): void {
    const reply = ({ status, text, headers }: HttpAnswer): void => {
      const fixed = host.headersFor(request)
      // A header that the answer names replaces the usual one.
      const usual = fixed.filter((_, i) => !headers.includes(fixed[i - (i % 2)]!))
      response.writeHead(status, [...usual, ...headers, 'content-length', String(Buffer.byteLength(text))])
      endSoon(response, request.method === 'HEAD' ? undefined : text, host.unsent)
    }
    const refuse = (status: number, code: string, message: string): void =>
      reply(errorAnswer(transportFailure(status, code, message), null))
    const go = (handle: typeof feed, operation: Operation, bytes: Buffer): void =>
      void handle({ operation, bytes, request, task: null }).then(reply, (error: unknown) => {
        host.bug(error)
        response.destroy()
      })
    const refused = host.refusalOf(request)
    if (refused) return reply(errorAnswer(refused, null))
    const [path = '', query = ''] = request.url!.split('?', 2)
    const { method } = request
    if (path === '/hlp/v1/version' && method === 'GET') return reply(versionAnswer)
    if (path === '/hlp/v1/health' && method === 'GET') return reply(answerOf({ status: 'ok', adapter: {} }))
    if (path === FEED && method === 'GET') return go(feed, feedOperation, Buffer.from(JSON.stringify({ params: feedParams(query) })))
    const name = path.startsWith(OPS) ? path.slice(OPS.length) : ''
    const [handle, operation] = [handlers.get(name), operations.get(name)]
    if (!handle || !operation) return refuse(404, 'NOT_FOUND', `there is nothing at ${path.slice(0, 200)}`)
    if (method !== 'POST') return refuse(405, 'INVALID_SPEC', 'operations are called with POST')
    whenRead(request, limits.bodyBytesMax, (body) =>
      body === null
        ? refuse(413, 'TOO_LARGE', `a body has at most ${limits.bodyBytesMax} bytes`)
        : go(handle, operation, body ?? Buffer.alloc(0)),
    )
  }
  return {
    path: PATH,
    exposes: ['X-HLP-Spec-Version', 'X-HLP-Schema-Version', 'X-HLP-Profile', 'X-HLP-Truncated'],
    answer,
    isSocket: () => false,
    upgrade: (_, socket) => void socket.destroy(),
    stop: () => undefined,
  }
}

function stepsOf(
  name: string,
  operation: Operation,
  { kernel, guard, authenticate, failed, meter }: BridgeHost,
): Steps<Routed, HttpAnswer, Input> {
  return {
    credential: ({ request }) => guard.credentialOf(request.headers, operation.changes),
    since: kernel.store.barriers,
    authenticate: (credential, _, since) => authenticate(credential, since),
    input(routed, actor) {
      const body = routed.bytes.length === 0 ? {} : decode(routed.bytes)
      if (!isObject(body)) throw new Refusal('INVALID_SPEC', 'the body must be a JSON object')
      refuseOtherVersions(body)
      const principal = routed.request.headers['x-hlp-principal']
      if (principal !== undefined && principal !== actor.id)
        throw new Refusal(
          'UNAUTHORIZED',
          'X-HLP-Principal does not name the owner of the credential: leave it out, or use the key of that person or agent',
        )
      const input = inputIn(operation, body)
      const { task_id } = input.params
      if (typeof task_id === 'string') routed.task = task_id.slice(0, limits.idCharsMax)
      refuseClaims(name, input.params, actor.id)
      return input
    },
    options: () => ({}),
    async call(called) {
      const ask = callsOf(kernel, called)
      const body = await operation.run(ask)
      return operation === feedOperation
        ? feedAnswer(String(body))
        : answerOf(body, ask.isCut() ? ['X-HLP-Truncated', String(LIST_MAX)] : [])
    },
    failed(error, { request, task }) {
      const failure = failed(error, request.url!.split('?', 1)[0]!)
      return { code: failure.code, answer: errorAnswer(failure, task) }
    },
    done: meter(`collaboration/${name}`, operation.changes),
  }
}

/** The params, and the two other fields, which can also be among the params. */
function inputIn({ required, optional, isOnTask }: Operation, body: Params): Input {
  if (body['params'] !== undefined && !isObject(body['params']))
    throw new Refusal('INVALID_SPEC', 'params must be an object', { field: 'params' })
  const { expected_task_revision, idempotency_key, ...params } = { ...body, ...(body['params'] as object | undefined) }
  const fields = Object.fromEntries(
    Object.entries(params).filter(([field]) => Object.hasOwn((body['params'] as Params | undefined) ?? {}, field)),
  )
  const [revision, key] = [expected_task_revision ?? undefined, idempotency_key ?? undefined]
  if (!isOnTask && (revision ?? key) !== undefined)
    throw new Refusal('INVALID_SPEC', 'this operation changes no task: it takes neither idempotency_key nor expected_task_revision')
  if (revision !== undefined && !(Number.isSafeInteger(revision) && Number(revision) >= 0))
    throw new Refusal('INVALID_SPEC', 'expected_task_revision must be a whole number from 0', { field: 'expected_task_revision' })
  const unknown = Object.keys(fields).find((field) => !required.includes(field) && !optional.includes(field))
  if (unknown !== undefined) throw new Refusal('INVALID_SPEC', `there is no param ${unknown.slice(0, 80)}`, { field: unknown.slice(0, 80) })
  const missing = required.find((field) => fields[field] === undefined)
  if (missing !== undefined) throw new Refusal('INVALID_SPEC', `${missing} is missing`, { field: missing })
  return { params: fields, revision, key }
}

function refuseClaims(name: string, params: Params, actor: string): void {
  const field = ACTORS.find((claim) => {
    const claimed: unknown = params[claim]
    // In the filter of a query it names the actor of the events; in a write to the ledger, the task.
    if (claimed === undefined || claimed === null || claimed === actor || name === 'audit.query' || name === 'ledger.write') return false
    return !(claim === 'raised_by' && claimed === 'agent')
  })
  if (field !== undefined) throw new Refusal('UNAUTHORIZED', `${field} must be the owner of the credential, or absent`, { field })
}

/** Sends the events since `after` as server-sent events and closes; the client reconnects with the last number. */
const feedOperation: Operation = {
  required: [],
  optional: ['after'],
  changes: false,
  isOnTask: false,
  async run({ params: { after = 0 }, page }) {
    if (typeof after !== 'number') throw new Refusal('INVALID_SPEC', 'after must be the seq of an event: a number', { field: 'after' })
    const input = { limit: PAGE }
    const { items } = await page('audit.query', { ...input, cursor: cursorOf('audit.query', input, String(after)) })
    return items.map((event) => `id: ${event.seq}\ndata: ${JSON.stringify(eventObject(event))}\n\n`).join('')
  },
}
function feedParams(query: string): Params {
  const after = new URLSearchParams(query).get('after') ?? '0'
  return { after: /^\d{1,15}$/.test(after) ? Number(after) : after }
}
