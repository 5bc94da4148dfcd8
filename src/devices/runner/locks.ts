// Locks of resources such as `gpio:17` and `i2c:1:0x48`: one step at a time, in the order of arrival. A bus covers all of its
// chips.
import type { Clock } from '#kernel/ports/clock.ts'
import { startTimer } from './timer.ts'

export type Lock = { release(): void }

export type Locks = {
  /** The session whose step holds the resource or its bus; null: it is free. */
  holderOf(resource: string): string | null
  /** Null: another session held it for longer than `waitMs`, or the signal aborted. Tasks of one session wait without a limit. */
  acquire(resource: string | null, session_id: string, waitMs: number, signal: AbortSignal): Promise<Lock | null>
}

type Held = { readonly resource: string; readonly session_id: string }
type Waiting = Held & { look(): boolean }

const touches = (a: string, b: string): boolean => a === b || a.startsWith(`${b}:`) || b.startsWith(`${a}:`)
const NONE: Lock = { release() {} }

export function createLocks(clock: Clock): Locks {
  const held = new Set<Held>()
  const queue: Waiting[] = []
  const holdersOf = (resource: string): Held[] => [...held].filter((holder) => touches(holder.resource, resource))

  function hold(holder: Held): Lock {
    held.add(holder)
    return {
      release() {
        if (!held.delete(holder)) return
        for (const waiting of queue.slice()) waiting.look()
      },
    }
  }

  return {
    holderOf: (resource) => holdersOf(resource)[0]?.session_id ?? null,
    acquire(resource, session_id, waitMs, signal) {
      if (resource === null) return Promise.resolve(NONE)
      const holder: Held = { resource, session_id }
      const isBehind = queue.some((waiter) => touches(waiter.resource, resource))
      if (!isBehind && holdersOf(resource).length === 0) return Promise.resolve(hold(holder))
      return new Promise((done) => {
        let stopTimer = (): void => undefined
        const leave = (lock: Lock | null): void => {
          stopTimer()
          signal.removeEventListener('abort', giveUp)
          queue.splice(queue.indexOf(waiting), 1)
          done(lock)
        }
        const giveUp = (): void => leave(null)
        const waiting: Waiting = {
          ...holder,
          look() {
            const first = queue.find((waiter) => touches(waiter.resource, resource))
            if (first !== waiting || holdersOf(resource).length > 0) return false
            leave(hold(holder))
            return true
          },
        }
        /** Only while another session holds it does the time count. */
        const late = (): void => {
          if (holdersOf(resource).some((holder) => holder.session_id !== session_id)) giveUp()
          else stopTimer = startTimer(clock, waitMs, late)
        }
        queue.push(waiting)
        stopTimer = startTimer(clock, waitMs, late)
        signal.addEventListener('abort', giveUp, { once: true })
        if (signal.aborted) giveUp()
      })
    },
  }
}
