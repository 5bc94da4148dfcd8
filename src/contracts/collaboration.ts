// Contracts within collaboration: consequences that the system draws, in the same batch as their cause.
import type { Contract } from '#kernel/declare/operation.ts'
import { contractsBetween } from './contract.ts'

const within = contractsBetween({ from: 'collaboration', to: 'collaboration', label: 'collaboration' })

export const collaborationContracts: readonly Contract[] = [
  // HACP 0.1.0, Task State Machine: accepted -> completed, "Automatic completion".
  within('accepted-completes', 'review.submitted', 'task.complete', ({ subject: { verdict, kind, task_id }, detail }) => {
    // With a review policy its outcome counts, not the single verdict.
    const decided = detail?.['outcome'] ?? verdict
    return decided === 'approved' && kind === 'deliverable' ? { task_id } : null
  }),
  // A cancelled task leaves the same event, and needs no other consequence.
  within(
    'expiry-cancels',
    'task.checkpoint.expired',
    'task.cancel',
    ({ subject: { task_id }, detail }) => (detail?.['on_expiry'] === 'fail' ? { task_id, reason: 'checkpoint_expired' } : null),
    { basis: () => ({ kind: 'policy', id: 'on_expiry/fail' }) },
  ),
]
