// HACP, the Human-Agent Collaboration Protocol 0.1.0: tasks, checkpoints, ownership, reviews, artifacts, ledger, audit.
import type { Protocol } from '#kernel/declare/operation.ts'
import { events } from './events.ts'
import { scenes } from './examples.ts'
import { artifactOperations } from './operations/artifact.ts'
import { auditExportOperations } from './operations/audit-export.ts'
import { auditCheckOperations } from './operations/audit-check.ts'
import { auditWhyOperations } from './operations/audit-why.ts'
import { auditOperations } from './operations/audit.ts'
import { blobOperations } from './operations/blob.ts'
import { checkpointRequestOperations } from './operations/checkpoint-request.ts'
import { checkpointOperations } from './operations/checkpoint.ts'
import { controlOperations } from './operations/control.ts'
import { grantOperations } from './operations/grant.ts'
import { ledgerOperations } from './operations/ledger.ts'
import { ownershipOperations } from './operations/ownership.ts'
import { reviewOperations } from './operations/review.ts'
import { taskControlOperations } from './operations/task-control.ts'
import { taskOperations } from './operations/task.ts'
import { codes } from './codes.ts'
import { tasks } from './task/port.ts'

const operations = [
  ...taskOperations,
  ...taskControlOperations,
  ...checkpointOperations,
  ...checkpointRequestOperations,
  ...controlOperations,
  ...grantOperations,
  ...ownershipOperations,
  ...reviewOperations,
  ...artifactOperations,
  ...blobOperations,
  ...ledgerOperations,
  ...auditOperations,
  ...auditCheckOperations,
  ...auditExportOperations,
  ...auditWhyOperations,
]
export type CollaborationOperation = (typeof operations)[number]

export const collaboration: Protocol = {
  name: 'collaboration',
  title: 'HACP: Human-Agent Collaboration Protocol',
  version: '0.1.0',
  operations,
  events,
  codes,
  scenes,
  ports: { tasks },
}
