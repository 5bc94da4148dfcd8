// The HACP bridge: the draft's wire over any pair of streams. The component that accepts a connection assigns its policy and its subject.
import { SYSTEM, type Actor } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import {
  close,
  drain,
  fail,
  openConnection,
  type Connection,
  type ConnectionBounds,
  type Peer,
  type Wire,
} from '#bindings/jsonrpc/connection.ts'
import { createUnsentAnswers } from '#bindings/shared/unsent-answers.ts'
import { principalOf } from '#protocols/hardware/daemon/ports.ts'
import { createDenials, type Denials } from './denials.ts'
import { createTaskEvents, type TaskEvents } from './events.ts'
import * as failures from './failures.ts'
import type { Failure, Id } from './failures.ts'
import { changing, methodsOf, type Run } from './methods.ts'
import { createOrder, type Order } from './order.ts'
import { createSessions, type Sessions } from './sessions.ts'

export type HacpOptions = {
  readonly device_id: string
  readonly version: string
  readonly key: { readonly jwk: object; sign(claims: object): string }
  readonly audit: { amiss(): string | null; head(): { readonly seq: number; readonly hash: string } }
  readonly log: { error(fields: object, message: string): void }
  hasWork(session_id: string): boolean
  released(session_id: string): Promise<void>
  idleMsOf(policy: string): number
  readonly bounds?: Partial<ConnectionBounds & Times>
}
type Times = { readonly lineMs: number; readonly connections: number; readonly stopMs: number }

export type Caller = {
  readonly connection: Connection<Failure>
  readonly actor: Actor
  readonly policy: string
  readonly name: string
  readonly order: Order
}
export type Hacp = {
  readonly kernel: Kernel
  readonly options: HacpOptions
  readonly sessions: Sessions
  readonly events: TaskEvents
}

export type HacpServer = {
  accept(peer: Peer, policy: string, subject: string | null): void
  progress(task_id: string, index: number): void
  readonly stats: { connections(): number; sessions(): number }
  /** Refuses new calls and answers those in flight. */
  stop(): Promise<void>
}

const usual: ConnectionBounds & Times = {
  lineBytes: limits.deviceLineBytesMax,
  calls: limits.callsPerConnectionMax,
  batch: limits.batchMax,
  unsentHigh: limits.unsentBytesHigh,
  unsentMax: limits.unsentBytesMax,
  lineMs: limits.requestMsMax,
  connections: limits.deviceConnectionsMax,
  stopMs: 500,
}

export function createHacp(kernel: Kernel, options: HacpOptions): HacpServer {
  const bounds = { ...usual, ...options.bounds }
  const refusals = {
    notJson: failures.notJson,
    tooLong: failures.tooLarge,
    badBatch: failures.badBatch,
    refused: refusedLine,
    line: (failure: Failure) => failures.failureLine(null, failure),
  }
  const wire: Wire<Failure> = { bounds, unsent: createUnsentAnswers(), refusals }
  const sessions = createSessions(kernel.now, options.hasWork)
  const events = createTaskEvents(kernel)
  const methods = methodsOf({ kernel, options, sessions, events })
  const open = new Set<Connection<Failure>>()
  let accepted = 0
  // The call is refused even if the refusal cannot be recorded.
  const denials = createDenials(kernel.now, (denial) => kernel.call('hardware/denial.record', denial, SYSTEM).catch(() => undefined))

  async function reap(): Promise<void> {
    denials.sweep()
    for (const session_id of sessions.idle(kernel.now())) {
      try {
        await kernel.call('hardware/session.end', { session_id, reason: 'idle' }, SYSTEM)
        sessions.closed(session_id)
      } catch (error) {
        // A disk that is full now is not full forever.
        if (!(error instanceof Refusal)) options.log.error({ err: error }, 'an idle session could not be ended')
        else if (error.code === 'SESSION_INVALID') sessions.closed(session_id)
      }
    }
  }
  function sweep(): void {
    const now = performance.now()
    for (const connection of open)
      if (connection.begunAt !== null && now - connection.begunAt > bounds.lineMs)
        fail(connection, failures.notRequest(`a line must end within ${bounds.lineMs / 1_000} s of its beginning`))
    void reap()
  }
  const sweeping = setInterval(sweep, Math.min(SWEEP_MS, bounds.lineMs / 2))
  sweeping.unref()

  return {
    accept(peer, policy, subject) {
      if (open.size >= bounds.connections) {
        peer.output.on('error', () => undefined)
        peer.output.end(`${refusals.line(failures.connectionsFull(bounds.connections))}\n`, () => peer.destroy())
        return
      }
      const actor: Actor = { id: principalOf(policy, subject), kind: 'agent', projects: 'all' }
      const name = `connection-${++accepted}`
      const order = createOrder()
      const connection: Connection<Failure> = openConnection(wire, peer, {
        answer: (message, say) => answer(message, { connection, actor, policy, name, order }, { methods, denials, log: options.log }, say),
        actor: () => name,
        draining() {},
        closed() {
          open.delete(connection)
          events.disconnected(connection)
          sessions.disconnected(connection)
        },
      })
      open.add(connection)
    },
    progress: events.progress,
    stats: { connections: () => open.size, sessions: () => sessions.all().length },
    async stop() {
      clearInterval(sweeping)
      for (const connection of open) drain(connection, failures.stopping)
      const deadline = setTimeout(() => open.forEach(close), bounds.stopMs)
      while (open.size > 0) await new Promise((done) => setTimeout(done, 5))
      clearTimeout(deadline)
      events.stop()
    },
  }
}
const SWEEP_MS = 500

type Means = { readonly methods: ReadonlyMap<string, Run>; readonly denials: Denials; readonly log: HacpOptions['log'] }

/** W1: an id that is null or absent wants no answer. */
function answer(message: unknown, caller: Caller, { methods, denials, log }: Means, say: (line: string | null) => void): void {
  const problem = problemOf(message)
  const id = idIn(message)
  if (problem) return say(failures.failureLine(id ?? null, problem))
  const { method, params = {} } = message as { method: string; params?: object }
  const run = methods.get(method)
  if (!run) return say(id === null ? null : failures.failureLine(id, failures.noMethod(method)))
  const replyFailure = (error: unknown): void => {
    const failure = failures.failureOf(error) ?? failures.internal
    if (failure === failures.internal) log.error({ err: error, method }, 'a call failed')
    const reply = (): void => say(id === null ? null : failures.failureLine(id, failure))
    // The audit has it before the client does.
    const noted = note(failure, method, params, caller, denials)
    if (noted === null) reply()
    else void noted.then(reply)
  }
  caller.order.add(changing.has(method), (applied) => {
    const onResult = (result: unknown): void => {
      applied()
      say(id === null ? null : failures.resultLine(id, result))
    }
    const onError = (error: unknown): void => {
      applied()
      replyFailure(error)
    }
    try {
      run(caller, params, applied).then(onResult, onError)
    } catch (error) {
      onError(error)
    }
  })
}

/** The refusal of a message that the decoder refused: only its id is used. */
function refusedLine(message: unknown, repeatsId: boolean, reason: string): string | null {
  const id = repeatsId ? null : idIn(message)
  if (id === null && !repeatsId && problemOf(message) === null) return null
  return failures.failureLine(id, failures.badParams(reason))
}

/** The id of a message. The draft has only integers, so 1.5 is invalid. Null: there is none, or no answer is due. */
function idIn(message: unknown): Id {
  if (typeof message !== 'object' || message === null) return null
  const { id } = message as { id?: unknown }
  return typeof id === 'string' || Number.isSafeInteger(id) ? (id as Id) : null
}

function problemOf(message: unknown): Failure | null {
  if (typeof message !== 'object' || message === null || Array.isArray(message)) return failures.notRequest('a request is an object')
  const { jsonrpc, method, params, id } = message as Record<string, unknown>
  if (jsonrpc !== '2.0') return failures.notRequest('jsonrpc must be "2.0"')
  if (typeof method !== 'string') return failures.notRequest('method must be a string')
  if (id !== undefined && id !== null && idIn(message) === null) return failures.notRequest('id must be a string, an integer or null')
  if (params === undefined) return null
  if (typeof params !== 'object' || params === null) return failures.badParams('params must be an object')
  return Array.isArray(params) ? failures.badParams('params must be an object, not an array') : null
}

/** W6: records denied calls in the audit. */
function note(failure: Failure, method: string, params: object, caller: Caller, denials: Denials): Promise<unknown> | null {
  if (!isDenial(failure.code)) return null
  const { session_id } = params as { session_id?: unknown }
  // Counts only against the caller's own session: otherwise any caller could use up the limit of a foreign session.
  const ofSession = typeof session_id === 'string' && failure.data.code !== 'session_invalid' ? session_id : undefined
  const { tool } = failure.data as { tool?: unknown }
  return denials.note(ofSession ?? caller.name, {
    code: failure.data.code,
    method,
    policy: caller.policy,
    ...(typeof tool === 'string' ? { tool: tool.slice(0, 200) } : {}),
    ...(ofSession === undefined ? {} : { session_id: ofSession }),
  })
}
/** Unknown session or tool, not allowed, busy, rate limited, full. A malformed message is not a denial. */
const isDenial = (code: number): boolean => code === -32_000 || (code <= -32_002 && code >= -32_008 && code !== -32_007)
