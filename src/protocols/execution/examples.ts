// Scenes that the examples and the derived tests of this protocol start from. The cast is the one of collaboration: alice answers
// for devin, an agent of project_default.
import { timestampOf } from '#kernel/clock.ts'
import type { Step } from '#kernel/operation.ts'

/** Devin asks alice to decide. */
const asked: Step[] = [
  {
    as: 'devin',
    call: 'execution/request.create',
    input: {
      action: 'DECIDE',
      timeout_seconds: 3_600,
      payload: { question: 'Approve the $99/mo plan?', options: ['Approve', 'Deny'], context: 'Needed for payments.' },
    },
  },
]
const looked: Step[] = [...asked, { as: 'alice', call: 'execution/inbox.get', input: ({ request }) => ({ request_id: request.id }) }]
const forgotten: Step[] = [...asked, { advanceMs: 2 * 3_600_000 }]

/** Half an hour after it was asked. */
export const soon = ({ created_at }: { readonly created_at: string }): string => timestampOf(Date.parse(created_at) + 1_800_000)
const snoozed: Step[] = [
  ...asked,
  { as: 'alice', call: 'execution/request.snooze', input: ({ request }) => ({ request_id: request.id, until: soon(request) }) },
]
const slept: Step[] = [...snoozed, { advanceMs: 45 * 60_000 }]
const filtered: Step[] = [{ as: 'alice', call: 'execution/filter.save', input: { name: 'urgent', query: { priority: 'critical' } } }]

export const scenes = { empty: [], asked, looked, forgotten, snoozed, slept, filtered }
