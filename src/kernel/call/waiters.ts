// Waiters: long polls without a result yet. Each listens on one or more ids. A durable commit wakes the waiters of its documents, and a woken waiter
// looks again. Nothing polls.
import type { Clock } from '../ports/clock.ts'
import { Refusal } from '../declare/errors.ts'
import { limits } from '../limits.ts'
import type { LongPoll } from '../declare/operation.ts'
import type { Hint } from '../log/store.ts'

export type Waiter = {
  /** Called before the look, so that no commit during the look is missed. */
  listen(poll: LongPoll | null, actor: string): void
  /** True: look again. False: answer with the current result. `again`: the time at which a retry can succeed without a commit. */
  wait(again: string | null): Promise<boolean>
  leave(): void
}

export type Waiters = {
  waiter(signal: AbortSignal | undefined): Waiter
  /** Wakes the waiters of a commit. */
  ring(wakes: Hint['wakes']): void
  /** Ends all waits, so that every waiting call is answered. From then on no call waits. */
  stop(): void
  stats(): { readonly waiting: number; readonly woken: number }
}

type Ring = () => void

const isSame = (one: readonly string[], other: readonly string[]): boolean =>
  one.length === other.length && one.every((id, i) => id === other[i])

export function createWaiters(now: () => number, sleep: Clock['sleep'] | undefined): Waiters {
  const bells = new Map<string, Set<Ring>>()
  const sitting = new Map<string, number>()
  const stopping = new Set<Ring>()
  let stopped = sleep === undefined
  let woken = 0

  function admit(actor: string): void {
    if (stopping.size >= limits.waitsMax)
      throw new Refusal('BUSY', 'too many calls wait already: try again in a second', { retry_after: 1 })
    const waits = sitting.get(actor) ?? 0
    if (waits >= limits.waitsPerActorMax)
      throw new Refusal('QUOTA_EXCEEDED', `at most ${limits.waitsPerActorMax} calls of one actor wait at a time`, { retry_after: 1 })
    sitting.set(actor, waits + 1)
  }
  function dismiss(actor: string): void {
    const waits = sitting.get(actor)! - 1
    if (waits === 0) sitting.delete(actor)
    else sitting.set(actor, waits)
  }

  function hang(wakeId: string, ring: Ring): void {
    const rings = bells.get(wakeId)
    if (rings) rings.add(ring)
    else bells.set(wakeId, new Set([ring]))
  }
  function unhang(wakeId: string, ring: Ring): void {
    const rings = bells.get(wakeId)
    if (rings?.delete(ring) && rings.size === 0) bells.delete(wakeId)
  }

  /** Resolves when the waiter is woken, when `ms` have passed, when the client has gone, or when the server stops. */
  async function rest(ms: number, signal: AbortSignal | undefined, wake: AbortController): Promise<void> {
    const cancel: Ring = () => wake.abort('over')
    stopping.add(cancel)
    signal?.addEventListener('abort', cancel)
    try {
      await sleep!(ms, wake.signal)
    } finally {
      stopping.delete(cancel)
      signal?.removeEventListener('abort', cancel)
    }
  }

  function waiter(signal: AbortSignal | undefined): Waiter {
    let sits: { readonly wakeIds: readonly string[]; readonly actor: string; readonly until: number } | null = null
    let isRung = false
    let wake: AbortController | null = null
    const ring: Ring = () => {
      isRung = true
      wake?.abort('woken')
    }
    function leave(): void {
      for (const wakeId of sits?.wakeIds ?? []) unhang(wakeId, ring)
      sits = null
    }
    return {
      listen(poll, actor) {
        isRung = false
        if (poll === null || (sits !== null && !isSame(poll.wakeIds, sits.wakeIds))) leave()
        if (poll && sits === null && !stopped) {
          sits = { wakeIds: poll.wakeIds, actor, until: now() + poll.maxMs }
          for (const wakeId of poll.wakeIds) hang(wakeId, ring)
        }
      },
      async wait(again) {
        if (sits === null || stopped || signal?.aborted) return false
        const at = now()
        const { until, actor } = sits
        if (at >= until) return false
        if (isRung) return true
        const next = again === null ? until : Math.min(until, Date.parse(again))
        wake = new AbortController()
        admit(actor)
        try {
          // The bound holds even if the clock steps during the wait.
          await rest(Math.min(limits.waitMsMax, Math.max(1, next - at)), signal, wake)
        } finally {
          dismiss(actor)
          wake = null
        }
        if (isRung) woken++
        return !signal?.aborted && !stopped && (isRung || next < until)
      },
      leave,
    }
  }

  return {
    waiter,
    ring(wakes) {
      if (bells.size === 0) return
      for (const wakeId of wakes === 'all' ? bells.keys() : wakes) for (const ring of bells.get(wakeId) ?? []) ring()
    },
    stop() {
      stopped = true
      for (const cancel of stopping) cancel()
    },
    stats: () => ({ waiting: stopping.size, woken }),
  }
}
