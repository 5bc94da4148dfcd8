// What happens to a request when time passes.
import { noTimer, timer } from '#kernel/delivery.ts'
import type { Change } from '#kernel/operation.ts'
import { isOpen, type Request } from './schema.ts'

const due = (request: Request | null): string | null =>
  request !== null && isOpen(request) && !request.overdue ? request.expires_at : null

/** When the next of those who snoozed it is to see it again. */
function wakesAt(request: Request | null): string | null {
  if (!request?.snoozed || !isOpen(request)) return null
  return request.snoozed.reduce((first, { until }) => (until < first ? until : first), request.snoozed[0]!.until)
}

/** The timers that differ between before and after. */
export function timersOf(before: Request | null, after: Request): Change[] {
  const changes: Change[] = []
  const [was, is] = [due(before), due(after)]
  if (is !== null && is !== was) changes.push(timer(after.id, 'expire', is, 'execution/request.expire', { request_id: after.id }))
  if (is === null && was !== null) changes.push(noTimer(after.id, 'expire'))
  const [wokeAt, wakes] = [wakesAt(before), wakesAt(after)]
  if (wakes !== null && wakes !== wokeAt) changes.push(timer(after.id, 'wake', wakes, 'execution/request.wake', { request_id: after.id }))
  if (wakes === null && wokeAt !== null) changes.push(noTimer(after.id, 'wake'))
  return changes
}
