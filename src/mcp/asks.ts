// The tools that ask a person and wait for the answer, one for each action of HXP. The same call finds its question again, and an answer
// counts for one call.
import { createHash } from 'node:crypto'
import { ProtocolError, type CallToolResult, type Tool } from '@modelcontextprotocol/server'
import { canonical } from '#kernel/log/canonical-json.ts'
import { limits } from '#kernel/limits.ts'
import { actionNames, actions, type Action } from '#protocols/execution/actions/index.ts'
import { requestOperations } from '#protocols/execution/operations/request.ts'
import type { RequestView } from '#protocols/execution/view.ts'
import { collectedElsewhere, notAnsweredYet, resultOf, type Ended } from './answers.ts'
import { failureIn, type McpCaller } from './caller.ts'
import { tellProgress, type ClientRequest, type Result } from './wire/client-request.ts'
import { patienceOf } from './wire/patience.ts'
import type { StateSeal } from './wire/request-state.ts'
import { taskHandle } from './wire/tasks.ts'

/** The content of a `requestState`: a round of waiting for the answer to one question. */
export type HeldAsk = { readonly request_id: string; readonly digest: string; readonly round: number }

type Schema = { readonly properties: Readonly<Record<string, object>>; readonly required?: readonly string[] }
const plain = (schema: object): Schema => JSON.parse(JSON.stringify(schema)) as Schema

export const askNameOf = (action: Action): string => `ask_${action.toLowerCase()}`
const actionOfTool = new Map(actionNames.map((action) => [askNameOf(action), action]))
export const isAsk = (name: string): boolean => actionOfTool.has(name)

/** Fields that a model cannot set. The model would read a secret, so the SDK asks for those. */
const WITHHELD = ['sensitive']
/** Fields of `request.create` that an agent can set; the tool sets the others, or only programs use them. */
const COMMON = ['role', 'priority', 'timeout_seconds', 'fallback', 'project_id', 'tags', 'risk', 'quorum', 'escalate', 'remind_seconds']

const summaries: Readonly<Record<Action, string>> = {
  DECIDE: 'Ask a person to choose one of two to six options, and wait for the answer.',
  APPROVE: 'Ask a person for a yes or a no before you act, and wait for the answer. Act only if the answer is approved.',
  PROVIDE: 'Ask a person for a value that only they have, and wait for it. Never ask for a secret here: you would read it.',
  VERIFY: 'Ask a person whether a claim holds, by its evidence, and wait for the answer.',
}

const properties = plain(requestOperations[0]!.input).properties
const common = Object.fromEntries(COMMON.map((name) => [name, properties[name]!]))
const taskId = { type: 'string', maxLength: limits.idCharsMax, description: 'the task that you work on: then its people are asked' }

const hints = { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: false }

function payloadSchema(action: Action): Schema {
  const { payload } = plain(actions[action].input).properties as { payload: Schema }
  return { ...payload, properties: Object.fromEntries(Object.entries(payload.properties).filter(([name]) => !WITHHELD.includes(name))) }
}

export const askTools: readonly Tool[] = actionNames.map((action) => {
  const payload = payloadSchema(action)
  return {
    name: askNameOf(action),
    description: `${summaries[action]} The same call with the same arguments finds its question again.`,
    inputSchema: {
      type: 'object',
      properties: { ...payload.properties, ...common, task_id: taskId },
      ...(payload.required ? { required: [...payload.required] } : {}),
    },
    annotations: hints,
  }
})

export const AWAIT_TOOL = 'ask_await'
export const awaitTool: Tool = {
  name: AWAIT_TOOL,
  description: 'Wait for the answer to a question that was asked before.',
  inputSchema: {
    type: 'object',
    properties: {
      request_id: { type: 'string', maxLength: limits.idCharsMax, description: 'the id that the earlier answer named' },
      wait_seconds: { type: 'integer', minimum: 0, maximum: limits.mcpWaitSecondsMax, description: 'how long to wait at most, in seconds' },
    },
    required: ['request_id'],
    additionalProperties: false,
  },
  annotations: { ...hints, readOnlyHint: true },
}

const INVALID_PARAMS = -32_602
const invalidState = (): ProtocolError =>
  new ProtocolError(INVALID_PARAMS, 'Invalid or expired requestState', { reason: 'invalid_request_state' })

/** `collected`: this call has taken the answer, and no other call gets it. */
type Question = HeldAsk & { readonly isCollected: boolean }

/** `tools/call` of `ask_decide`, `ask_approve`, `ask_provide` or `ask_verify`. */
export async function ask(
  caller: McpCaller,
  { name, args }: { readonly name: string; readonly args: Result },
  request: ClientRequest,
  seal: StateSeal<HeldAsk>,
): Promise<Result> {
  const digest = createHash('sha256')
    .update(canonical([name, args]))
    .digest('base64url')
  const held = request.state === undefined ? null : seal.open(request.state)
  // The state belongs to another call, or to other arguments.
  if (request.state !== undefined && held?.digest !== digest) throw invalidState()
  const question: Question = held
    ? { ...held, round: held.round + 1, isCollected: false }
    : { ...(await questionFor(caller, name, args, digest)), digest, round: 1 }
  if (question.isCollected) return resultOf(await requestNow(caller, question.request_id))
  const patience = patienceOf(request, null)
  if (patience.way === 'task') return taskHandle(question.request_id, `waiting for ${question.request_id}`)
  const ended = await hold(caller, question.request_id, patience.ms ?? Infinity, request)
  if (ended) return deliver(caller, ended)
  if (patience.way === 'rounds' && question.round < patience.rounds)
    return { resultType: 'input_required', requestState: seal.seal({ request_id: question.request_id, digest, round: question.round }) }
  return notAnsweredYet(question.request_id)
}

type Found = { readonly request_id: string; readonly isCollected: boolean }

/** The open question with the same arguments, or an answered one whose answer no call has collected; otherwise a new one. */
async function questionFor(caller: McpCaller, name: string, args: Result, digest: string): Promise<Found> {
  const newestOf = async (state: 'open' | 'closed'): Promise<RequestView | undefined> => {
    const input = { state, newest: true, limit: limits.pageMax }
    const { items } = (await caller.call('execution/request.list', input)) as { items: readonly RequestView[] }
    return items.find(({ metadata }) => (metadata as Result)['mcp_call'] === digest)
  }
  const open = await newestOf('open')
  if (open) return { request_id: open.id, isCollected: false }
  const last = await newestOf('closed')
  if (last && (await collect(caller, last.id))) return { request_id: last.id, isCollected: true }
  // Concurrent calls with the same arguments ask once: they have the same key.
  const key = `mcp/ask/${digest}/${last?.id ?? ''}`
  const { request } = (await caller.call('execution/request.create', requestInput(name, args, digest), { key })) as { request: RequestView }
  return { request_id: request.id, isCollected: false }
}

function requestInput(name: string, args: Result, digest: string): object {
  const { task_id, ...rest } = args
  const withheld = WITHHELD.find((field) => Object.hasOwn(rest, field))
  if (withheld !== undefined) {
    const message = `${withheld} is not for MCP, where the model would read the secret: ask with the SDK`
    throw Object.assign(new Error(message), { code: 'INVALID_REQUEST', status: 400, details: { field: withheld } })
  }
  const fields = Object.entries(rest)
  return {
    ...Object.fromEntries(fields.filter(([field]) => COMMON.includes(field))),
    action: actionOfTool.get(name)!,
    payload: Object.fromEntries(fields.filter(([field]) => !COMMON.includes(field))),
    metadata: { mcp_call: digest, ...(task_id === undefined ? {} : { task_id }) },
  }
}

/** Collects the answer; false if another call has collected it. */
async function collect(caller: McpCaller, request_id: string): Promise<boolean> {
  try {
    await caller.call('execution/request.collect', { request_id })
    return true
  } catch (error) {
    if (failureIn(error).code === 'GONE') return false
    throw error
  }
}

const requestNow = (caller: McpCaller, request_id: string): Promise<Ended> =>
  caller.call('execution/request.get', { request_id }) as Promise<Ended>

const deliver = async (caller: McpCaller, ended: Ended): Promise<CallToolResult> =>
  (await collect(caller, ended.request.id)) ? resultOf(ended) : collectedElsewhere(ended.request.id)

/** One long poll; the server ends it earlier when there is an answer. */
const POLL_SECONDS = 25
const RETRY_MS = 1_000

/** Waits until a request ends; null after a timeout. The question stays open when the client disconnects. */
async function hold(caller: McpCaller, request_id: string, ms: number, request: ClientRequest): Promise<Ended | null> {
  const ends = Date.now() + ms
  const stopProgress = tellProgress(`waiting for ${request_id}`, request)
  try {
    for (;;) {
      const left = ends - Date.now()
      if (left <= 0) return null
      const wait = Math.max(1, Math.min(POLL_SECONDS, Math.ceil(left / 1_000)))
      const found = await awaitOnce(caller, request_id, wait, request.signal)
      request.signal.throwIfAborted()
      if (found?.receipt) return found
    }
  } finally {
    stopProgress()
  }
}

/** null: the server cannot answer now, because it restarts or has too many waiting calls. */
async function awaitOnce(caller: McpCaller, request_id: string, wait: number, signal: AbortSignal): Promise<Ended | null> {
  try {
    return (await caller.call('execution/request.await', { request_id, wait }, { signal })) as Ended
  } catch (error) {
    const { status } = failureIn(error)
    const isPassing = status === undefined || status === 429 || status >= 500
    if (signal.aborted || !isPassing) throw error
    await new Promise((done) => setTimeout(done, RETRY_MS))
    return null
  }
}

/** `tools/call` of `ask_await`: returns an answer by the id of its request, any number of times. */
export async function awaitAnswer(caller: McpCaller, args: Result, request: ClientRequest): Promise<Result> {
  const { request_id, wait_seconds = WAIT_SECONDS } = args
  if (typeof request_id !== 'string') throw new ProtocolError(INVALID_PARAMS, `${AWAIT_TOOL}: request_id must be a text`)
  const max = limits.mcpWaitSecondsMax
  if (typeof wait_seconds !== 'number' || !Number.isInteger(wait_seconds) || wait_seconds < 0 || wait_seconds > max)
    throw new ProtocolError(INVALID_PARAMS, `${AWAIT_TOOL}: wait_seconds must be a whole number from 0 to ${max}`)
  const patience = patienceOf({ ...request, takesTasks: false }, null)
  const mostMs = patience.way === 'task' || patience.ms === null ? Infinity : patience.ms
  const now = await requestNow(caller, request_id)
  const ended = now.receipt ? now : await hold(caller, request_id, Math.min(wait_seconds * 1_000, mostMs), request)
  return ended ? showAnswer(caller, ended) : notAnsweredYet(request_id)
}
const WAIT_SECONDS = 30

async function showAnswer(caller: McpCaller, ended: Ended): Promise<CallToolResult> {
  await collect(caller, ended.request.id)
  return resultOf(ended)
}

/** `tasks/get`: a task is a question, and its id the request's. */
export async function taskNow(caller: McpCaller, request_id: string): Promise<Result> {
  const base: Result = { ...taskHandle(request_id, `waiting for ${request_id}`), resultType: 'complete' }
  const now = await requestNow(caller, request_id)
  if (!now.receipt) return base
  const { statusMessage: _, ...rest } = base
  if (now.request.status === 'cancelled') return { ...rest, status: 'cancelled' }
  return { ...rest, status: 'completed', result: { resultType: 'complete', ...(await showAnswer(caller, now)) } }
}
