// The decision about one tool call, for a hook: propose it to the gate, wait for a person, use the approval up. `countersign hook` runs it
// over HTTP, `/hook/claude-code` in the server.
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import type { AgentName, Late, ToolCall, Verdict } from './dialects.ts'

/** The part of a call's view that a hook reads. */
export type CallView = {
  readonly call_id: string
  readonly state: string
  readonly basis?: { readonly kind: string }
  readonly rule: string | null
  readonly risk: string | null
  readonly reason: string | null
  readonly instead: string | null
  readonly request_id: string | null
  readonly url: string | null
  readonly digest: string
}

export type Gate = {
  call(operation: string, input: object): Promise<unknown>
  /** Milliseconds. */
  now(): number
  /** Whether waiting is pointless: the agent has ended, or the server stops. */
  isOver(): boolean
}

/** Short texts that hooks keep between two events: the calls that they left undecided, and the one deferred call of a session. */
export type Memory = {
  read(key: string): Promise<string | null>
  /** False: there is a text already. */
  write(key: string, text: string): Promise<boolean>
  /** Removes the text, unless it has changed. */
  remove(key: string, text: string): Promise<void>
}

export type Patience = { readonly waitMs: number; readonly late: Late }

/** The tool of `hook check`, which is always denied. It proves that the server answers and accepts the key, and leaves no item. */
export const CHECK_TOOL = 'CountersignCheck'
export const CHECKED = 'countersign hook check: the hook works and denies this call'

/** Shorter than the longest wait of one request. */
const AWAIT_SECONDS = 50
/** Calls of one turn end their waits this close together. */
const SAME_TURN_MS = 60_000

function viewFrom(answer: unknown): CallView {
  const view = answer as Partial<CallView> | null
  if (typeof view?.call_id === 'string' && typeof view.state === 'string') return view as CallView
  throw new TypeError('the server answered without a call')
}

const isOpen = ({ state }: CallView): boolean => state === 'proposed' || state === 'waiting'

type Named = ToolCall & { readonly server: string }
type Turn = { readonly gate: Gate; readonly memory: Memory; readonly call: Named; readonly patience: Patience }

export async function decide(
  gate: Gate,
  agent: AgentName,
  call: Named,
  patience: Patience,
  memory: Memory,
  taskId?: string,
): Promise<Verdict> {
  // Cursor names no tool: its check is a command.
  if (call.tool === CHECK_TOOL || (agent === 'cursor' && call.arguments['command'] === CHECK_TOOL)) {
    await gate.call('gate/call.list', {})
    return { kind: 'deny', reason: CHECKED }
  }
  const turn: Turn = { gate, memory, call, patience }
  const until = gate.now() + patience.waitMs
  let view = (await leftCall(turn)) ?? viewFrom(await gate.call('gate/call.propose', proposalOf(agent, call, taskId)))
  while (isOpen(view) && gate.now() < until && !gate.isOver()) {
    const seconds = Math.min(AWAIT_SECONDS, Math.max(1, Math.ceil((until - gate.now()) / 1000)))
    view = viewFrom(await gate.call('gate/call.await', { call_id: view.call_id, wait_seconds: seconds }))
  }
  const name = `${call.server}/${call.tool}`
  // An approval is not used for an agent that has ended.
  if (isOpen(view) || (gate.isOver() && view.state === 'approved')) return tooLate(turn, view, name)
  await forget(turn, view)
  if (view.state !== 'approved') return { kind: 'deny', reason: refusal(view, name) }
  await gate.call('gate/call.begin', { call_id: view.call_id, digest: view.digest })
  return { kind: 'allow', reason: `Countersign allowed ${name}${view.rule === null ? '' : ` (rule ${view.rule})`}` }
}

function proposalOf(agent: AgentName, { server, tool, arguments: args, session, subAgent }: Named, taskId: string | undefined): object {
  return {
    server,
    tool,
    arguments: args,
    definition: null,
    client: {
      name: agent,
      ...(session === null ? {} : { session_id: session.slice(0, limits.labelCharsMax) }),
      ...(subAgent === null ? {} : { sub_agent: subAgent.slice(0, limits.labelCharsMax) }),
    },
    ...(taskId === undefined ? {} : { task_id: taskId }),
  }
}

// --- What is remembered between two events ------------------------------------------------------------------------------------

const leftKey = ({ session, server, tool, arguments: args }: Named): string | null =>
  session === null ? null : `left ${session} ${server}/${tool} ${JSON.stringify(args)}`
const deferredKey = (session: string): string => `deferred ${session}`

/** The call that an earlier event left undecided. Also returns a rejection once, because a new proposal would ask the person again. */
async function leftCall({ gate, memory, call }: Turn): Promise<CallView | null> {
  const key = leftKey(call)
  const call_id = key === null ? null : await memory.read(key)
  if (call_id === null) return null
  const view = await viewOf(gate, call_id)
  if (view !== null && view.state !== 'begun' && view.state !== 'ended') return view
  await memory.remove(key!, call_id)
  return null
}

/** Null: the call no longer exists. */
async function viewOf(gate: Gate, call_id: string): Promise<CallView | null> {
  try {
    return viewFrom(await gate.call('gate/call.get', { call_id }))
  } catch (error) {
    if (error instanceof Refusal && error.code === 'NOT_FOUND') return null
    throw error
  }
}

async function forget({ memory, call }: Turn, { call_id }: CallView): Promise<void> {
  if (call.session === null) return
  await memory.remove(leftKey(call)!, call_id)
  const held = await memory.read(deferredKey(call.session))
  if (held?.startsWith(`${call_id} `)) await memory.remove(deferredKey(call.session), held)
}

/** Claude Code takes up one deferred call of a turn and loses the others. Returns the call that holds the session: null is this one. */
async function claim({ gate, memory, call: { session, use }, patience }: Turn, call_id: string): Promise<string | null> {
  const key = deferredKey(session!)
  const mine = `${call_id} ${gate.now()} ${use}`
  for (;;) {
    if (await memory.write(key, mine)) return null
    const held = await memory.read(key)
    if (held === null) continue
    const [heldCall = '', at, ...heldUse] = held.split(' ')
    if (heldCall === call_id && heldUse.join(' ') === String(use)) return null
    const isOfThisTurn = gate.now() - Number(at) < patience.waitMs + SAME_TURN_MS
    const state = isOfThisTurn ? (await viewOf(gate, heldCall))?.state : undefined
    if (state === 'waiting' || state === 'approved') return heldCall
    await memory.remove(key, held)
  }
}

async function tooLate(turn: Turn, view: CallView, name: string): Promise<Verdict> {
  const { gate, memory, call, patience } = turn
  const { call_id } = view
  const isDeferred = patience.late === 'defer' && call.session !== null && !gate.isOver()
  const holder = isDeferred ? await claim(turn, call_id) : null
  if (holder !== null) {
    // Two equal calls share one question, which the other call still needs.
    if (holder !== call_id) await gate.call('gate/call.cancel', { call_id })
    return {
      kind: 'deny',
      reason: `${name} was not run: another call of this turn waits for approval. Call again with the same arguments.`,
    }
  }
  await gate.call('gate/call.leave', { call_id })
  const key = leftKey(call)
  if (key !== null) await memory.write(key, call_id)
  const where = view.url === null ? '' : ` (${view.url})`
  const reason = `${name} was not run yet: it waits for approval ${view.request_id ?? call_id}${where}. Call again with exactly the same arguments to collect the answer.`
  // A question with such a risk is not for the person at the agent's terminal: others must decide it.
  const isGrave = patience.late === 'ask' && (view.risk ?? 'R0') >= 'R4'
  return { kind: gate.isOver() || isGrave || (patience.late === 'defer' && !isDeferred) ? 'deny' : patience.late, reason }
}

/** A person's no, a rule's no, silence and withdrawal have texts of their own: an agent must not take a timeout for a refusal. */
export function refusal({ state, basis, rule, reason, instead, request_id }: CallView, name: string): string {
  const why = reason === null ? '' : `: ${reason}`
  const next = instead === null ? '' : ` Instead: ${instead}`
  if (state === 'expired' && basis?.kind === 'human')
    return `${name} was not run: a person approved it, and the answer was not collected in time. Call again to ask again.${next}`
  if (state === 'expired')
    return `${name} was not run: nobody answered in time${why}. This is not a refusal; call again to ask again.${next}`
  if (state === 'cancelled') return `${name} was not run: the question was withdrawn${why}. Call again to ask again.${next}`
  if (state === 'denied' && request_id !== null) return `${name} was not run: a person rejected it${why}.${next}`
  if (state === 'denied') return `${name} was not run: ${rule === null ? 'the policy denies it' : `rule ${rule} denies it`}${why}.${next}`
  return `${name} was not run: its approval was used already. Call again to ask again.${next}`
}
