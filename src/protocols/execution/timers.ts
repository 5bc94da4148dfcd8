// What happens to a request when time passes.
import { noTimer, timer } from '#kernel/delivery.ts'
import type { Change } from '#kernel/operation.ts'
import { isOpen, type Request } from './schema.ts'

/** What another protocol asks has a timer there. */
const due = (request: Request | null): string | null =>
  request !== null && request.kind === 'request' && isOpen(request) && !request.overdue ? request.expires_at : null

/** The timers that differ between before and after. */
export function timersOf(before: Request | null, after: Request): Change[] {
  const changes: Change[] = []
  const [was, is] = [due(before), due(after)]
  if (is !== null && is !== was) changes.push(timer(after.id, 'expire', is, 'execution/request.expire', { request_id: after.id }))
  if (is === null && was !== null) changes.push(noTimer(after.id, 'expire'))
  return changes
}
