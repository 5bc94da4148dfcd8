// HXP, the Human Execution Protocol 0.1: agents ask people to decide, approve or provide, and get receipts.
import { policies } from './asking/policies-port.ts'
import type { Protocol } from '#kernel/declare/operation.ts'
import { events } from './events.ts'
import { scenes } from './examples.ts'
import { collectOperations } from './operations/collect.ts'
import { batchOperations } from './operations/batch.ts'
import { filterOperations } from './operations/filters.ts'
import { followOperations } from './operations/follow.ts'
import { inboxOperations } from './operations/inbox.ts'
import { draftInboxOperations } from './operations/draft-inbox.ts'
import { mirrorOperations } from './operations/mirror.ts'
import { recipientOperations } from './operations/recipient.ts'
import { receiptOperations } from './operations/receipt.ts'
import { requestOperations } from './operations/request.ts'
import { resolveOperations } from './operations/resolve.ts'
import { snoozeOperations } from './operations/snooze.ts'
import { groupOperations } from './operations/group.ts'
import { getOperations } from './operations/get.ts'
import { poolOperations } from './operations/pool.ts'
import { routingOperations } from './operations/routing.ts'
import { ruleOperations } from './operations/rules.ts'
import { statsOperations } from './operations/stats.ts'
import { trendOperations } from './operations/trends.ts'
import { threadOperations } from './operations/thread.ts'
import { deadlineOperations } from './operations/deadline.ts'
import { channelOperations } from './operations/channel.ts'
import { fileOperations } from './operations/file.ts'
import { noticeOperations } from './operations/notice.ts'
import { secretOperations } from './operations/secret.ts'
import { codes } from './codes.ts'
import { requests } from './answering/port.ts'

const operations = [
  ...requestOperations,
  ...getOperations,
  ...resolveOperations,
  ...receiptOperations,
  ...collectOperations,
  ...draftInboxOperations,
  ...statsOperations,
  ...trendOperations,
  ...inboxOperations,
  ...followOperations,
  ...snoozeOperations,
  ...filterOperations,
  ...batchOperations,
  ...poolOperations,
  ...routingOperations,
  ...recipientOperations,
  ...deadlineOperations,
  ...threadOperations,
  ...ruleOperations,
  ...groupOperations,
  ...mirrorOperations,
  ...fileOperations,
  ...secretOperations,
  ...channelOperations,
  ...noticeOperations,
]
export type ExecutionOperation = (typeof operations)[number]

export const execution: Protocol = {
  name: 'execution',
  title: 'HXP: Human Execution Protocol',
  version: '0.1.0',
  operations,
  events,
  codes,
  scenes,
  ports: { requests, policies },
}
