// Contracts within collaboration: consequences that the system draws, in the same batch as their cause.
import type { Contract } from '#kernel/declare/operation.ts'

export const collaborationContracts: Contract[] = [
  {
    // HACP 0.1.0, Task State Machine: accepted -> completed, "Automatic completion".
    name: 'collaboration/accepted-completes',
    on: 'collaboration/review.submitted',
    call: 'collaboration/task.complete',
    as: 'system',
    input: ({ subject }) =>
      Promise.resolve(subject.verdict === 'approved' && subject.kind === 'deliverable' ? { task_id: subject.task_id } : null),
  },
  {
    name: 'collaboration/expiry-cancels',
    on: 'collaboration/task.checkpoint.expired',
    call: 'collaboration/task.cancel',
    as: 'system',
    basis: () => ({ kind: 'policy', id: 'on_expiry/fail' }),
    // The same event also stands under a cancelled task; there nothing is left to do.
    input: ({ subject, detail }) =>
      Promise.resolve(detail?.['on_expiry'] === 'fail' ? { task_id: subject.task_id, reason: 'checkpoint_expired' } : null),
  },
]
