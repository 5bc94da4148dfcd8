// What happens to a request when time passes.
import type { Due } from '#kernel/schema.ts'
import type { Request } from './schema.ts'

/** The end of its time, on the request itself: most requests have one, and a document for each would cost as much as the request. */
export function dueOf({ status, expires_at, overdue, id }: Request): Due | null {
  const waits = (status === 'pending' || status === 'assigned') && expires_at !== null && !overdue
  return waits ? { at: expires_at, call: 'execution/request.expire', input: { request_id: id } } : null
}
