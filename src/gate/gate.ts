// The core of a gate: each call is proposed, waited for, begun, run upstream and concluded. Both transports (stdio and HTTP) use it.
import { ProtocolError, type CallToolResult, type Tool } from '@modelcontextprotocol/server'
import type { SourceLog } from '#capabilities/source.ts'
import * as answers from './answers.ts'
import type { Known, KnownCalls } from './known-calls.ts'
import type { CallView, GatePort } from './port.ts'
import { tellProgress, type ClientRequest, type Result } from '#mcp/wire/client-request.ts'
import { patienceOf } from '#mcp/wire/patience.ts'
import type { StateSeal } from '#mcp/wire/request-state.ts'
import { taskHandle } from '#mcp/wire/tasks.ts'
import { digestOfRequest, invalidState, type Held } from './held.ts'
import { continueTurn, run } from './run.ts'
import type { SharedWait } from './waiting/shared-wait.ts'
import { definitionOf, sortTools, type Sorted } from './tools.ts'
import type { Link, Upstream } from './upstream.ts'

export type GateSettings = {
  readonly name: string
  /** Bounds the whole wait of a call; null: unbounded. */
  readonly holdMs: number | null
  readonly task_id: string | null
  readonly redact: readonly string[]
  /** The server's hints reach the policy. */
  readonly trusted: boolean
  /** Requests of the server that reach the client, in addition to elicitation. */
  readonly passes: readonly ('sampling/createMessage' | 'roots/list')[]
  readonly resultBytesMax: number
}

export type Gate = {
  readonly settings: GateSettings
  readonly port: GatePort
  readonly upstream: Upstream
  readonly seal: StateSeal<Held>
  readonly waits: SharedWait
  readonly log: SourceLog
  /** Calls whose arguments this process knows, until they have run. */
  readonly known: KnownCalls
  /** Calls that run upstream and wait for an answer of the user. */
  readonly turns: Map<string, Turn>
  /** Calls that run on the connection. A question of a legacy server names no call, so it needs exactly one. */
  readonly running: Set<Running>
  /** Outcomes on their way to the record. */
  readonly recording: Set<Promise<void>>
  /** The tools as last read. */
  readonly listed: { sorted?: Sorted; link?: Link; at: number }
}

type Turn = { readonly call: Running; continue(responses: Result): void }
export type Running = {
  readonly view: CallView
  readonly known: Known
  /** The session that made the call. */
  readonly session: object
  ask?: (requests: Result) => Promise<Result>
  work?: Promise<Result>
  /** The next question, while the client has the last one. */
  next?: Promise<Result>
  /** Cancels the call upstream. */
  readonly stop: AbortController
}

const INVALID_PARAMS = -32_602

const isDecided = ({ state }: CallView): boolean => state !== 'proposed' && state !== 'waiting'

/** The list is read again after each `list_changed` and after this time. */
const TOOLS_MS = 5_000
export async function sortedTools(gate: Gate, isFresh = false): Promise<Sorted> {
  const link = await gate.upstream.link()
  const { listed } = gate
  if (!isFresh && listed.sorted && listed.link === link && Date.now() - listed.at < TOOLS_MS) return listed.sorted
  const sorted = sortTools(await link.tools())
  Object.assign(listed, { sorted, link, at: Date.now() })
  return sorted
}

/** `tools/call`. */
export async function callTool(gate: Gate, name: string, args: Result, request: ClientRequest): Promise<Result> {
  if (name === answers.AWAIT_TOOL) return answerFailures(() => awaitCall(gate, args, request))
  return answerTo(gate, { kind: 'tool', tool: name, args }, request)
}

/** `resources/read` and `prompts/get`: their results have no form for a refusal, so it is an error. */
export async function readThrough(gate: Gate, known: Known, request: ClientRequest): Promise<Result> {
  const result = await answerTo(gate, known, { ...request, takesTasks: false })
  if (answers.isOwn(result)) throw new ProtocolError(NOT_RUN, result.content[0]!.text, result._meta)
  return result
}
const NOT_RUN = -32_000

async function answerTo(gate: Gate, known: Known, request: ClientRequest): Promise<Result> {
  const held = request.state === undefined ? null : gate.seal.open(request.state)
  if (request.state !== undefined && held === null) throw invalidState()
  if (held?.kind === 'input') return continueTurn(gate, held, known, request)
  if (held !== null && held.of !== digestOfRequest(known)) throw invalidState()
  return answerFailures(() => decideAndRun(gate, known, held, request))
}

/** The tool as its server offers it now, or the answer that says why it is not offered. */
async function toolNamed(gate: Gate, name: string): Promise<{ tool: Tool; refusal: null } | { tool: null; refusal: CallToolResult }> {
  const refuse = (why: string): { tool: null; refusal: CallToolResult } => ({ tool: null, refusal: answers.notOffered(name, why) })
  try {
    const { usable, refused } = await sortedTools(gate)
    const tool = usable.get(name)
    return tool ? { tool, refusal: null } : refuse(refused.get(name) ?? 'is not offered by its server')
  } catch (error) {
    return refuse(`cannot be reached: ${(error as Error).message}`)
  }
}

/** Turns a failure of Countersign into an answer that says so. The call has not run then: after `begin`, `run` answers. */
async function answerFailures(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof ProtocolError) throw error
    const { code, message, status } = error as { code?: unknown; message?: string; status?: unknown }
    const why = message ?? String(error)
    if (status === 413) return answers.tooLong()
    return typeof status === 'number' && status < 500 ? answers.refusedKey(`${String(code)}: ${why}`) : answers.unreachable(why)
  }
}

async function decideAndRun(gate: Gate, known: Known, held: Held | null, request: ClientRequest): Promise<Result> {
  const { port, settings } = gate
  const { kind, tool: name, args } = known
  const { tool, refusal } = kind === 'tool' ? await toolNamed(gate, name) : { tool: null, refusal: null }
  if (refusal !== null) return refusal
  if (held !== null) {
    const before = await port.get(held.call_id)
    if (before.state === 'begun' || before.state === 'ended') throw invalidState()
    // A rejection between two rounds: a new proposal would ask the person again.
    if (isDecided(before) && before.state !== 'approved') return collect(gate, before, known, request)
  }
  // A begun call must run, even if its client disconnects.
  const mayBegin = held === null
  request.signal.throwIfAborted()
  const view = await port.propose(
    {
      server: settings.name,
      tool: name,
      arguments: args,
      definition: tool === null ? null : definitionOf(tool),
      ...(kind === 'tool' ? {} : { kind }),
      ...(settings.trusted && tool?.annotations ? { hints: { ...tool.annotations } } : {}),
      ...(settings.task_id === null ? {} : { task_id: settings.task_id }),
      ...(settings.redact.length === 0 ? {} : { redact: settings.redact }),
      client: { name: request.name, version: request.clientVersion },
      ...(mayBegin ? { begin: true } : {}),
    },
    mayBegin ? undefined : request.signal,
  )
  if (mayBegin && view.state === 'begun') return run(gate, view, known, request)
  if (isDecided(view)) return collect(gate, view, known, request)
  if (!gate.known.get(view.call_id)) gate.known.keep(view.call_id, known)
  return waitAndRun(gate, view, known, held, request)
}

async function waitAndRun(gate: Gate, view: CallView, known: Known, held: Held | null, request: ClientRequest): Promise<Result> {
  const patience = patienceOf(request, gate.settings.holdMs)
  if (patience.way === 'task') return taskOf(view)
  const round = held?.kind === 'wait' ? held.round + 1 : 1
  const since = held?.kind === 'wait' ? held.since : Date.now()
  const left = gate.settings.holdMs === null ? Infinity : gate.settings.holdMs - (Date.now() - since)
  const decided = await hold(gate, view, Math.min(patience.ms ?? Infinity, left), request)
  // The definition can have changed while the call waited: it is proposed again, and an approval for another definition is void.
  if (decided?.state === 'approved') return decideAndRun(gate, known, held, { ...request, takesTasks: false })
  if (decided) return collect(gate, decided, known, request)
  const isOver = gate.settings.holdMs !== null && Date.now() - since >= gate.settings.holdMs
  if (patience.way === 'rounds' && round < patience.rounds && !isOver)
    return {
      resultType: 'input_required',
      requestState: gate.seal.seal({ kind: 'wait', call_id: view.call_id, of: digestOfRequest(known), round, since }),
    }
  await gate.port.leave(view.call_id).catch(() => undefined)
  return answers.notRunYet(view, known.tool)
}

/** Waits for the decision; null after a timeout. The item stays when the client disconnects. */
async function hold(gate: Gate, view: CallView, ms: number, request: ClientRequest): Promise<CallView | null> {
  if (ms <= 0) return null
  const stopProgress = tellProgress(`waiting for approval ${view.request_id ?? view.call_id}`, request)
  try {
    return await gate.waits.until(view.call_id, ms, request.signal)
  } catch (error) {
    if (request.signal.aborted) await gate.port.leave(view.call_id).catch(() => undefined)
    throw error
  } finally {
    stopProgress()
  }
}

/** Runs a decided call, or answers why not. */
async function collect(gate: Gate, view: CallView, known: Known, request: ClientRequest): Promise<Result> {
  if (view.state === 'begun') return answers.outcomeUnknown(view.call_id, 'its end is not recorded yet')
  if (view.state !== 'approved') {
    gate.known.drop(view.call_id)
    return answers.refusalOf(view)
  }
  const begun = await gate.port.begin(view.call_id, view.digest)
  if (begun.state !== 'begun') return answers.refusalOf(begun)
  // A task stays known while it runs: its client asks for the result.
  if (!known.done) gate.known.drop(view.call_id)
  return run(gate, begun, known, request)
}

// --- Collecting later ------------------------------------------------------------------------------------------------------

const WAIT_SECONDS_MAX = 600
/** The answer for a call whose arguments this process does not know: it never runs. */
const UNKNOWN: Known = { kind: 'tool', tool: '', args: {} }
async function awaitCall(gate: Gate, args: Result, request: ClientRequest): Promise<Result> {
  const { call_id, wait_seconds = 30 } = args
  if (typeof call_id !== 'string') throw new ProtocolError(INVALID_PARAMS, `${answers.AWAIT_TOOL}: call_id must be a text`)
  if (typeof wait_seconds !== 'number' || !Number.isInteger(wait_seconds) || wait_seconds < 0 || wait_seconds > WAIT_SECONDS_MAX)
    throw new ProtocolError(INVALID_PARAMS, `${answers.AWAIT_TOOL}: wait_seconds must be a whole number from 0 to ${WAIT_SECONDS_MAX}`)
  const patience = patienceOf({ ...request, takesTasks: false }, gate.settings.holdMs)
  const mostMs = patience.way === 'task' || patience.ms === null ? Infinity : patience.ms
  const before = await gate.port.get(call_id)
  const view = isDecided(before) ? before : ((await hold(gate, before, Math.min(wait_seconds * 1_000, mostMs), request)) ?? before)
  const known = gate.known.get(call_id)
  if (!isDecided(view)) return answers.notRunYet(view, known?.tool ?? 'the call')
  if (view.state === 'approved' && !known) return answers.approvedNow(view)
  return collect(gate, view, known ?? UNKNOWN, request)
}

const taskOf = ({ call_id, request_id }: CallView): Result => taskHandle(call_id, `waiting for approval ${request_id ?? call_id}`)

/** `tasks/get`: an approved call runs when its client asks for it, and not before. */
export async function getTask(gate: Gate, call_id: string, request: ClientRequest): Promise<Result> {
  const known = gate.known.get(call_id)
  const base = { ...taskOf({ call_id, state: 'waiting', digest: '' }), resultType: 'complete', statusMessage: undefined }
  const completedTask = (result: Result): Result => ({ ...base, status: 'completed', result })
  if (known?.result) return completedTask(known.result)
  const view = await gate.port.get(call_id)
  if (!isDecided(view)) return { ...base, statusMessage: `waiting for approval ${view.request_id ?? call_id}`, status: 'working' }
  if (view.state === 'cancelled') return { ...base, status: 'cancelled' }
  if (known?.done) return { ...base, status: 'working', statusMessage: 'running' }
  if (view.state === 'approved' && !known) return completedTask(answers.approvedNow(view))
  if (view.state === 'ended') return completedTask(answers.outcomeUnknown(call_id, 'its result was not kept'))
  if (view.state !== 'approved') return completedTask(await collect(gate, view, UNKNOWN, request))
  // The client polls: the run must outlive this request.
  const alone = { ...request, signal: new AbortController().signal, progressToken: undefined }
  known!.done = answerFailures(() => collect(gate, view, known!, alone)).catch((error: unknown): CallToolResult => ({
    content: [{ type: 'text', text: (error as Error).message }],
    isError: true,
  }))
  void known!.done.then((result) => {
    known!.result = result
    gate.known.keep(call_id, known!)
  })
  gate.known.keep(call_id, known!)
  return { ...base, status: 'working', statusMessage: 'running' }
}
