// The run of an approved call upstream: its progress, its questions, and its end, which is recorded. It happens once, and every failure here is
// an outcome.
import { createHash, randomUUID } from 'node:crypto'
import { CLIENT_CAPABILITIES_META_KEY, ProtocolError } from '@modelcontextprotocol/server'
import { definedFields } from '#kernel/codec/strict-json.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import * as answers from './answers.ts'
import type { ClientRequest, Result } from '#mcp/wire/client-request.ts'
import type { Gate, Running } from './gate.ts'
import type { Known } from './known-calls.ts'
import type { CallView } from './port.ts'
import { paramHeaders } from './param-headers.ts'
import { digestOfRequest, invalidState, type Held } from './held.ts'
import type { Link } from './upstream.ts'

const TURN_MS_MAX = 10 * 60_000
const METHOD_NOT_FOUND = -32_601

/** Runs the begun call upstream: every result and every failure is an outcome. */
export async function run(gate: Gate, view: CallView, known: Known, request: ClientRequest): Promise<Result> {
  const running: Running = { view, known, session: request.session, stop: new AbortController() }
  gate.running.add(running)
  const first = Promise.withResolvers<Result>()
  const work = drive(gate, running, first.resolve, request)
  work.catch(() => undefined)
  running.work = work
  return attend(running, request, [work, first.promise])
}

/** Only the request that waits for an answer can cancel the call: each round of questions is a separate request. */
function attend({ stop }: Running, { signal }: ClientRequest, answers: Promise<Result>[]): Promise<Result> {
  const cancel = (): void => stop.abort()
  if (signal.aborted) cancel()
  signal.addEventListener('abort', cancel, { once: true })
  return Promise.race(answers).finally(() => signal.removeEventListener('abort', cancel))
}

/** Calls the tool, and again after each question that the client answered; `pause` hands a question to the client. */
async function drive(gate: Gate, running: Running, pause: (result: Result) => void, request: ClientRequest): Promise<Result> {
  const { call_id } = running.view
  let hand = pause
  running.ask = async (requests) => {
    const unasked = Object.values(requests).map((asked) => (asked as { method: string }).method)
    const refused = unasked.find((method) => !canPass(gate, method, request))
    if (refused === 'elicitation/create') return Object.fromEntries(Object.keys(requests).map((key) => [key, { action: 'decline' }]))
    if (refused !== undefined) throw new ProtocolError(METHOD_NOT_FOUND, `the client of this server takes no ${refused}`)
    const turn = randomUUID()
    const answered = Promise.withResolvers<Result>()
    const late = setTimeout(() => answered.reject(new Error('the client did not answer the question of the tool')), TURN_MS_MAX)
    // A disconnected client must not keep the process alive.
    late.unref()
    const next = Promise.withResolvers<Result>()
    gate.turns.set(turn, { call: running, continue: answered.resolve })
    hand({ resultType: 'input_required', inputRequests: requests, requestState: gate.seal.seal({ kind: 'input', call_id, turn }) })
    hand = next.resolve
    running.next = next.promise
    return answered.promise.finally(() => {
      clearTimeout(late)
      gate.turns.delete(turn)
    })
  }
  const link = await gate.upstream.link().catch((error: unknown) => error as Error)
  if (link instanceof Error) return finish(gate, running, null, link)
  try {
    // A client that knows the question can answer it with the call.
    const isAnswered = request.state === undefined && request.inputResponses !== undefined && link.isModern
    let more: Result = isAnswered ? { inputResponses: request.inputResponses } : {}
    for (;;) {
      const result = await callUpstream(gate, link, running, more, request)
      if (result['resultType'] !== 'input_required') return await finish(gate, running, result, null)
      const responses = await running.ask(namedRequests(gate.settings.name, (result['inputRequests'] ?? {}) as Result))
      more = { inputResponses: responses, ...(result['requestState'] === undefined ? {} : { requestState: result['requestState'] }) }
    }
  } catch (error) {
    return await finish(gate, running, null, error as Error)
  }
}

const canPass = ({ settings: { passes } }: Gate, method: string, request: ClientRequest): boolean =>
  (method === 'elicitation/create' || passes.some((passed) => passed === method)) && request.takes(method)

const requestFor = ({ kind, tool, args }: Known): { readonly method: string; readonly params: Result } =>
  kind === 'resource'
    ? { method: 'resources/read', params: { uri: tool } }
    : { method: kind === 'tool' ? 'tools/call' : 'prompts/get', params: { name: tool, arguments: args } }

/** A server of 2026-07-28 learns with each request what it can ask of this client. */
function capabilitiesFor({ passes }: Gate['settings'], { capabilities }: ClientRequest): Result {
  const { elicitation, sampling, roots } = capabilities
  return definedFields({
    elicitation,
    sampling: passes.includes('sampling/createMessage') ? sampling : undefined,
    roots: passes.includes('roots/list') ? roots : undefined,
  })
}

function headersFor({ listed }: Gate, { isModern }: Link, { kind, tool, args }: Known): Record<string, string> {
  return isModern && kind === 'tool' ? paramHeaders(listed.sorted?.usable.get(tool)?.inputSchema, args) : {}
}

function callUpstream(gate: Gate, link: Link, { known, stop }: Running, more: Result, request: ClientRequest): Promise<Result> {
  const { progressToken, notify, trace } = request
  const { method, params } = requestFor(known)
  const _meta = { ...trace, ...(link.isModern ? { [CLIENT_CAPABILITIES_META_KEY]: capabilitiesFor(gate.settings, request) } : {}) }
  const pass = (progress: object): void =>
    void notify({ method: 'notifications/progress', params: { ...progress, progressToken } }).catch(() => undefined)
  return link.request(
    method,
    { ...params, ...more, ...(Object.keys(_meta).length === 0 ? {} : { _meta }) },
    { signal: stop.signal, headers: headersFor(gate, link, known), ...(progressToken === undefined ? {} : { onprogress: pass }) },
  )
}

/** Names the asking server to the user. */
export const namedRequests = (server: string, requests: Result): Result =>
  Object.fromEntries(
    Object.entries(requests).map(([key, request]) => {
      const { method, params } = request as { method: string; params?: { message?: unknown } }
      if (method !== 'elicitation/create' || typeof params?.message !== 'string') return [key, request]
      return [key, { method, params: { ...params, message: `[${server}] ${params.message}` } }]
    }),
  )

async function finish(gate: Gate, running: Running, result: Result | null, error: Error | null): Promise<Result> {
  const { port, settings, log } = gate
  const { call_id } = running.view
  gate.running.delete(running)
  const conclude = async (outcome: 'succeeded' | 'failed' | 'unknown', size: number, hash: string | null): Promise<void> => {
    await port.conclude(call_id, outcome, size, hash).catch((problem: unknown) => {
      log.warn({ call_id, error: (problem as Error).message }, 'the outcome of a call was not recorded')
    })
  }
  // The result of the tool does not wait for its record. After a crash in between, the call stays begun, with an unknown outcome.
  const record = (...outcome: Parameters<typeof conclude>): void => {
    const recorded = conclude(...outcome).finally(() => gate.recording.delete(recorded))
    gate.recording.add(recorded)
  }
  if (result === null) {
    // An error answer came from the server; without an answer the outcome is unknown.
    const { name, code, data } = (error ?? {}) as { name?: string; code?: unknown; data?: unknown }
    const isAnswer = name === 'ProtocolError' && typeof code === 'number'
    await conclude(isAnswer ? 'failed' : 'unknown', 0, null)
    if (isAnswer) throw new ProtocolError(code, error!.message, data)
    return answers.outcomeUnknown(call_id, `its server did not answer: ${error?.message ?? ''}`)
  }
  const { _meta, ...plain } = result
  const text = canonical(plain)
  const size = Buffer.byteLength(text)
  const hash = createHash('sha256').update(text).digest('base64url')
  record(plain['isError'] === true ? 'failed' : 'succeeded', size, hash)
  if (size > settings.resultBytesMax) return answers.tooLarge(call_id, size, settings.resultBytesMax, hash)
  return plain
}

export async function continueTurn(gate: Gate, held: Held & { kind: 'input' }, known: Known, request: ClientRequest): Promise<Result> {
  const turn = gate.turns.get(held.turn)
  // Each turn is taken once; after a restart the call has no process, and its outcome is unknown.
  if (!turn || turn.call.view.call_id !== held.call_id) throw invalidState()
  const { kind, tool, args } = turn.call.known
  if (digestOfRequest({ kind, tool, args }) !== digestOfRequest(known)) throw invalidState()
  gate.turns.delete(held.turn)
  const { work, next } = turn.call
  turn.continue(request.inputResponses ?? {})
  return attend(turn.call, request, [work!, next!])
}

/** A question of a legacy server names no call. It belongs to the client whose calls run, and is refused if several clients have running calls. */
export async function askUser(gate: Gate, method: string, params: Result): Promise<Result> {
  const [first, ...others] = gate.running
  if (!first?.ask || others.some(({ session }) => session !== first.session)) {
    if (method === 'elicitation/create') return { action: 'decline' }
    throw new ProtocolError(METHOD_NOT_FOUND, `${method} is passed on while one client has calls that run, and not while several have`)
  }
  const responses = await first.ask(namedRequests(gate.settings.name, { question: { method, params } }))
  return (responses['question'] ?? { action: 'cancel' }) as Result
}
