// Permissions that an ACP agent asks for: each is a call at the gate, which policy, grants or people decide. They are queued,
// because a task has one open question. The agent always gets an answer for a single call: it would not ask again after a remembered one.
import type { PermissionOption, RequestPermissionResponse } from '@agentclientprotocol/sdk'
import { limits } from '#kernel/limits.ts'
import type { Output } from '#sdk/client.ts'
import { pause } from '#sdk/transport/transport.ts'
import type { Port } from '../programs/conversation.ts'
import type { Answered } from './prompts.ts'
import { ACP_SERVER, argumentsOf, editsOutside, toolOf, type ToolCall } from './tool-calls.ts'

type View = Output<'gate/call.get'>
export type Asking = {
  readonly port: Port
  readonly agent_id: string
  readonly task_id: string | null
  readonly folder: string
  /** The session, and the agent's own name for itself. */
  readonly client: { readonly name: string; readonly session_id: string }
  /** Called when the run begins to wait for a person, and when it continues. */
  waits(view: View): void
  goesOn(): void
}
export type Action<T> = {
  /** The last part of its name in rules. */
  readonly kind: string
  readonly what: string
  readonly arguments: Record<string, unknown>
  act(): Promise<T>
}
export type Questions = {
  ask(call: ToolCall, options: readonly PermissionOption[], withdrawn: AbortSignal): Promise<RequestPermissionResponse>
  /** Does an action that the agent asks its client for, if the policy or a person allows it. Null: it was not allowed. */
  perform<T>(action: Action<T>, withdrawn: AbortSignal): Promise<T | null>
  /** Ends all waits: open questions are answered with `cancelled`. */
  abandon(): void
  /** A turn begins: its questions are asked again. */
  renew(): void
  /** Returns the notes for the next prompt and clears them. */
  takeAnswered(): Answered[]
  readonly hasUnanswered: boolean
  /** The agent reports the end of a call. */
  concluded(toolCallId: string, outcome: 'succeeded' | 'failed'): Promise<void>
  /** The turn has ended: unreported calls have an unknown outcome. */
  concludeRest(): Promise<void>
}

const CANCELLED: RequestPermissionResponse = { outcome: { outcome: 'cancelled' } }
const POLL_SECONDS = 25
/** The pause if the server accepts no long poll. */
const SOON_MS = 1_000
const isOpen = ({ state }: View): boolean => state === 'proposed' || state === 'waiting'

export function createQuestions(asking: Asking): Questions {
  const { port } = asking
  const begun = new Map<string, string>()
  const answered: Answered[] = []
  let abandoned = new AbortController()
  let last: Promise<unknown> = Promise.resolve()
  let open = 0

  async function decide(tool: string, args: Record<string, unknown>, signal: AbortSignal): Promise<View> {
    const { task_id, client } = asking
    const proposal = { server: ACP_SERVER, tool, arguments: args, definition: null, client, ...(task_id === null ? {} : { task_id }) }
    let view: View = await port.call('gate/call.propose', proposal, { signal })
    if (!isOpen(view)) return view
    asking.waits(view)
    const aborted = Promise.withResolvers<never>()
    aborted.promise.catch(() => undefined)
    signal.addEventListener('abort', () => aborted.reject(signal.reason), { once: true })
    try {
      signal.throwIfAborted()
      while (isOpen(view)) {
        const began = performance.now()
        // The signal might not end a call that is in flight.
        const wait = port.call('gate/call.await', { call_id: view.call_id, wait_seconds: POLL_SECONDS }, { signal })
        view = await Promise.race([wait, aborted.promise])
        if (isOpen(view) && performance.now() - began < SOON_MS) await pause(SOON_MS, signal)
        signal.throwIfAborted()
      }
      return view
    } catch (error) {
      // The question stays open after the process has ended: the same question finds the answer later.
      if (signal.aborted) await leave(view.call_id)
      throw error
    } finally {
      asking.goesOn()
    }
  }
  async function leave(call_id: string): Promise<void> {
    await port.call('gate/call.leave', { call_id }).catch(() => undefined)
  }

  async function settle(call: ToolCall, options: readonly PermissionOption[], withdrawn: AbortSignal): Promise<RequestPermissionResponse> {
    const choose = (kind: PermissionOption['kind']): RequestPermissionResponse => {
      const option = options.find((offered) => offered.kind === kind)
      return option === undefined ? CANCELLED : { outcome: { outcome: 'selected', optionId: option.optionId } }
    }
    const what = `"${call.title ?? call.toolCallId}"`
    const outside = editsOutside(call, asking.folder)
    if (outside.length > 0) {
      answered.push({ what, kind: 'rejected', reason: `${outside.join(', ')} is outside of the folder of this run` })
      return choose('reject_once')
    }
    const signal = AbortSignal.any([abandoned.signal, withdrawn])
    const noteUnanswered = (reason: string): RequestPermissionResponse => {
      if (!signal.aborted) answered.push({ what, kind: 'unanswered', reason })
      return CANCELLED
    }
    if (signal.aborted) return CANCELLED
    try {
      const view = await decide(toolOf(asking.agent_id, call), argumentsOf(call, asking.folder), signal)
      if (view.state === 'denied') {
        noteRejected(what, view)
        return choose('reject_once')
      }
      if (view.state !== 'approved') return noteUnanswered(view.reason ?? `the question is ${view.state}`)
      const allow = choose('allow_once')
      if (allow === CANCELLED) return noteUnanswered('the agent offered no way to allow it once')
      await port.call('gate/call.begin', { call_id: view.call_id, digest: view.digest })
      begun.set(call.toolCallId, view.call_id)
      return allow
    } catch (error) {
      return noteUnanswered(`it could not be asked: ${(error as Error).message}`)
    }
  }

  function noteRejected(what: string, { reason, instead }: View): void {
    answered.push({ what, kind: 'rejected', reason: [reason ?? 'no reason was given', instead ?? ''].join(' ').trim() })
  }

  async function perform<T>({ kind, what, arguments: args, act }: Action<T>, withdrawn: AbortSignal): Promise<T | null> {
    const signal = AbortSignal.any([abandoned.signal, withdrawn])
    const view = await decide(`${asking.agent_id}/${kind}`, args, signal).catch((error: unknown) => {
      if (!signal.aborted) answered.push({ what, kind: 'unanswered', reason: `it could not be asked: ${(error as Error).message}` })
      return null
    })
    if (view === null) return null
    if (view.state === 'denied') noteRejected(what, view)
    else if (view.state !== 'approved') answered.push({ what, kind: 'unanswered', reason: view.reason ?? `the question is ${view.state}` })
    if (view.state !== 'approved') return null
    const { call_id, digest } = view
    await port.call('gate/call.begin', { call_id, digest })
    try {
      const result = await act()
      await conclude(call_id, 'succeeded')
      return result
    } catch (error) {
      await conclude(call_id, 'failed')
      throw error
    }
  }

  async function conclude(call_id: string, outcome: 'succeeded' | 'failed' | 'unknown'): Promise<void> {
    await port.call('gate/call.conclude', { call_id, outcome }).catch(() => undefined)
  }

  return {
    ask(call, options, withdrawn) {
      if (open >= limits.acpQuestionsMax) return Promise.resolve(CANCELLED)
      open++
      const turn = last.then(() => settle(call, options, withdrawn)).finally(() => open--)
      last = turn.catch(() => undefined)
      return turn
    },
    perform(action, withdrawn) {
      if (open >= limits.acpQuestionsMax) return Promise.resolve(null)
      open++
      const turn = last.then(() => perform(action, withdrawn)).finally(() => open--)
      last = turn.catch(() => undefined)
      return turn
    },
    abandon: () => abandoned.abort(),
    renew() {
      if (abandoned.signal.aborted) abandoned = new AbortController()
    },
    takeAnswered: () => answered.splice(0),
    get hasUnanswered() {
      return answered.some(({ kind }) => kind === 'unanswered')
    },
    async concluded(toolCallId, outcome) {
      const call_id = begun.get(toolCallId)
      if (call_id === undefined) return
      begun.delete(toolCallId)
      await conclude(call_id, outcome)
    },
    async concludeRest() {
      const rest = [...begun.values()]
      begun.clear()
      for (const call_id of rest) await conclude(call_id, 'unknown')
    },
  }
}

/** Notes for the agent about calls that an earlier process left behind. Their outcomes are recorded as unknown. */
export async function takeLeft(port: Port, session_id: string, task_id: string | null): Promise<Answered[]> {
  const { items } = await port.call('gate/call.list', {})
  const calls = items.filter((view) => view.server === ACP_SERVER && view.task_id === task_id && view.client.session_id === session_id)
  const left: Answered[] = []
  for (const [place, view] of calls.entries()) {
    const what = `your call of kind ${view.tool.split('/').at(-1)}`
    if (view.state === 'begun') {
      await port.call('gate/call.conclude', { call_id: view.call_id, outcome: 'unknown' }).catch(() => undefined)
      left.push({ what, kind: 'unknown', reason: '' })
    } else if (view.state === 'approved') left.push({ what, kind: 'approved', reason: '' })
    else if (place === 0 && view.state === 'denied') left.push({ what, kind: 'rejected', reason: view.reason ?? 'no reason was given' })
    else if (place === 0 && (view.state === 'expired' || view.state === 'cancelled'))
      left.push({ what, kind: 'unanswered', reason: view.reason ?? `it is ${view.state}` })
  }
  return left.toReversed()
}
