// What happens to a request when time passes.
import { timestampOf } from '#kernel/clock.ts'
import { noTimer, timer } from '#kernel/delivery.ts'
import { limits } from '#kernel/limits.ts'
import type { Change } from '#kernel/operation.ts'
import { isOpen, type Request } from './schema.ts'

export const secondsAfter = (at: string, seconds: number): string => timestampOf(Date.parse(at) + seconds * 1_000)

/** When somebody is reminded next: counted from the last time, so that a server that was down does not catch up. */
export const remindedNext = ({ remind_seconds, reminders = 0, reminded_at, created_at }: Request): string | null =>
  remind_seconds === undefined || reminders >= limits.remindersMax ? null : secondsAfter(reminded_at ?? created_at, remind_seconds)

/** When the escalation that was asked for comes; null: none is to come. */
export const escalatedNext = ({ escalation, created_at }: Request): string | null =>
  escalation === undefined || escalation.at !== undefined ? null : secondsAfter(created_at, escalation.after_seconds)

type Due = { readonly name: string; readonly call: string; at(request: Request): string | null }
const dues: readonly Due[] = [
  { name: 'expire', call: 'execution/request.expire', at: ({ overdue, expires_at }) => (overdue ? null : expires_at) },
  { name: 'unclaim', call: 'execution/request.unclaim', at: ({ claimed_until }) => claimed_until ?? null },
  { name: 'remind', call: 'execution/request.remind', at: remindedNext },
  { name: 'escalate', call: 'execution/request.escalate', at: escalatedNext },
]

/** The timers that differ between before and after. */
export function timersOf(before: Request | null, after: Request): Change[] {
  const changes: Change[] = []
  for (const { name, call, at } of dues) {
    const was = before !== null && isOpen(before) ? at(before) : null
    const is = isOpen(after) ? at(after) : null
    if (is !== null && is !== was) changes.push(timer(after.id, name, is, call, { request_id: after.id }))
    if (is === null && was !== null) changes.push(noTimer(after.id, name))
  }
  return changes
}
