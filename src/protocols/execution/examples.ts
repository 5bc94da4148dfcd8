// Scenes that the examples and the derived tests of this protocol start from. The cast is the one of collaboration: alice answers
// for devin, an agent of project_default.
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
const forgotten: Step[] = [...asked, { advanceMs: 2 * 3_600_000 }]

export const scenes = { empty: [], asked, forgotten }
