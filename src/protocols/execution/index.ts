// HXP, the Human Execution Protocol 0.1: agents ask people to decide, approve or provide, and get receipts.
import type { Protocol } from '#kernel/operation.ts'
import { scenes } from './examples.ts'
import { callbackOperations } from './operations/callback.ts'
import { channelOperations } from './operations/channel.ts'
import { fileOperations } from './operations/file.ts'
import { noticeOperations } from './operations/notice.ts'
import { requestOperations } from './operations/request.ts'
import { resolveOperations } from './operations/resolve.ts'
import { secretOperations } from './operations/secret.ts'
import { codes } from './wire.ts'

const operations = [
  ...requestOperations,
  ...resolveOperations,
  ...fileOperations,
  ...secretOperations,
  ...channelOperations,
  ...callbackOperations,
  ...noticeOperations,
]
export type ExecutionOperation = (typeof operations)[number]

export const execution: Protocol = {
  name: 'execution',
  title: 'HXP: Human Execution Protocol',
  version: '0.1.0',
  operations,
  codes,
  scenes,
}
