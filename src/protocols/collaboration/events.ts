// Events of collaboration, each with the kind of document that it is about.
import { factOf, type Events } from '#kernel/declare/facts.ts'
import { Upload } from './artifact/uploads.ts'
import { Amendment, ArtifactVersion, Checkpoint, Comment, Grant, LedgerEntry, Reference, Review, Task } from './schema.ts'

export const events = {
  'task.created': Task,
  'task.child_added': Task,
  'task.assigned': Task,
  'task.started': Task,
  'task.interrupted': Task,
  'task.taken_over': Task,
  'task.returned': Task,
  'task.amended': Amendment,
  'task.extended': Task,
  'task.overdue': Task,
  'task.reviewer_added': Task,
  'task.reviewer_removed': Task,
  'task.completed': Task,
  'task.cancelled': Task,
  'task.checkpoint.raised': Checkpoint,
  'task.checkpoint.resolved': Checkpoint,
  'task.checkpoint.declined': Checkpoint,
  'task.checkpoint.expired': Checkpoint,
  'task.checkpoint.overdue': Checkpoint,
  'ownership.delegated': Task,
  'ownership.transferred': Task,
  'review.submitted': Review,
  'review.commented': Comment,
  'artifact.committed': ArtifactVersion,
  'artifact.edited': ArtifactVersion,
  'artifact.referenced': Reference,
  'artifact.uploaded': Upload,
  'artifact.upload_expired': Upload,
  'grant.added': Grant,
  'grant.used': Grant,
  'grant.revoked': Grant,
  'ledger.written': LedgerEntry,
} satisfies Events
export const fact = factOf(events)
