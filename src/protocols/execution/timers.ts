// What happens to a request when time passes. Its next time stands in the index of the request itself: a document for each timer would
// cost as much as the request.
import type { Due } from '#kernel/schema.ts'
import type { Request } from './schema.ts'

type At = string | null | undefined
/** Everything that may be due, and what is called then. */
const timesOf: readonly (readonly [call: string, at: (request: Request) => At])[] = [
  // What another protocol asks has a timer there.
  ['request.expire', ({ kind, overdue, expires_at }) => (overdue || kind !== 'request' ? null : expires_at)],
  // The next of those who snoozed it is to see it again.
  ['request.wake', ({ snoozed }) => snoozed?.reduce((first, { until }) => (until < first ? until : first), snoozed[0]!.until)],
]

/** The first of its times. What is done then changes the request, and the next one comes up. */
export function dueOf(request: Request): Due | null {
  if (request.status !== 'pending' && request.status !== 'assigned') return null
  let first: Due | null = null
  for (const [call, atOf] of timesOf) {
    const at = atOf(request)
    if (at && (first === null || at < first.at)) first = { at, call: `execution/${call}`, input: { request_id: request.id } }
  }
  return first
}
