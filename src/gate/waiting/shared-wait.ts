// One long poll for all waiting calls of a gate. A poll for each call would take a connection and one of the agent's 64 waiters at the server.
// Without this file, each call would wait with `call.await`.
import { limits } from '#kernel/limits.ts'
import type { CallView } from '../port.ts'

export type AwaitAny = (call_ids: readonly string[], wait_seconds: number, signal: AbortSignal) => Promise<readonly CallView[]>
export type SharedWait = {
  /** Resolves with the decided call, or with null after `ms`; rejects when the signal aborts, the server refuses, or is away for a minute. */
  until(call_id: string, ms: number, signal: AbortSignal): Promise<CallView | null>
}

/** One long poll; the server ends it earlier when a call changes. */
const POLL_SECONDS = 25
/** Calls that arrive within this time join the poll together. A person takes longer to answer. */
const JOIN_MS = 50
const TIMER_MS_MAX = 2 ** 31 - 1
/** A restart of the server takes less; until then the calls go on waiting. */
const AWAY_MS_MAX = 60_000
const REPEAT_MS = 500
const canBeRepeated = (error: unknown): boolean => (error as { retryable?: unknown }).retryable === true

type Waiting = { readonly settle: (view: CallView | null) => void; readonly fail: (error: unknown) => void }
type Poll = { readonly ids: readonly string[]; readonly stop: AbortController }

export function sharedWait(awaitAny: AwaitAny): SharedWait {
  const waiting = new Map<string, Set<Waiting>>()
  /** The polls in flight. Only the last one is repeated with more ids; the others are full. */
  const polls = new Set<Poll>()
  let joining: NodeJS.Timeout | null = null
  /** Since when no poll was answered. */
  let awaySince: number | null = null

  function startPolls(): void {
    joining = null
    const polled = new Set<string>()
    for (const poll of polls) {
      // A full poll continues while all its calls wait.
      if (poll.ids.length === limits.gateCallsAwaitedMax && poll.ids.every((id) => waiting.has(id)))
        for (const id of poll.ids) polled.add(id)
      else stopPoll(poll)
    }
    const rest = [...waiting.keys()].filter((id) => !polled.has(id))
    for (let from = 0; from < rest.length; from += limits.gateCallsAwaitedMax)
      void run({ ids: rest.slice(from, from + limits.gateCallsAwaitedMax), stop: new AbortController() })
  }

  function stopPoll(poll: Poll): void {
    polls.delete(poll)
    poll.stop.abort()
  }

  async function run(poll: Poll): Promise<void> {
    polls.add(poll)
    try {
      for (const view of await awaitAny(poll.ids, POLL_SECONDS, poll.stop.signal)) tell(view.call_id, ({ settle }) => settle(view))
      awaySince = null
    } catch (error) {
      if (poll.stop.signal.aborted) return
      const now = Date.now()
      awaySince ??= now
      if (canBeRepeated(error) && now - awaySince < AWAY_MS_MAX) {
        if (polls.delete(poll)) join(REPEAT_MS)
        return
      }
      awaySince = null
      for (const id of poll.ids) tell(id, ({ fail }) => fail(error))
    }
    if (polls.delete(poll)) join(0)
  }

  function tell(call_id: string, how: (waiter: Waiting) => void): void {
    for (const waiter of waiting.get(call_id) ?? []) how(waiter)
  }

  function join(ms: number): void {
    if (waiting.size === 0) return polls.forEach(stopPoll)
    joining ??= setTimeout(startPolls, ms)
  }

  return {
    until(call_id, ms, signal) {
      const { promise, resolve, reject } = Promise.withResolvers<CallView | null>()
      const waiter: Waiting = { settle: resolve, fail: reject }
      const abort = (): void => reject(signal.reason)
      const timer = ms > TIMER_MS_MAX ? undefined : setTimeout(() => resolve(null), ms)
      signal.addEventListener('abort', abort, { once: true })
      const those = waiting.get(call_id)
      if (those) those.add(waiter)
      else waiting.set(call_id, new Set([waiter]))
      if (signal.aborted) abort()
      join(polls.size === 0 ? 0 : JOIN_MS)
      return promise.finally(() => {
        clearTimeout(timer)
        signal.removeEventListener('abort', abort)
        const others = waiting.get(call_id)!
        others.delete(waiter)
        if (others.size === 0) waiting.delete(call_id)
        if (waiting.size === 0) polls.forEach(stopPoll)
      })
    },
  }
}
