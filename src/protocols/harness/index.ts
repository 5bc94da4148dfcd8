// HCP, the Harness Communication Protocol 1.0: tasks between harnesses behind a safety gate, as sessions with events.
import type { Protocol } from '#kernel/declare/operation.ts'
import { codes } from './codes.ts'
import { events } from './events.ts'
import { scenes } from './examples.ts'
import { artifactOperations } from './operations/artifact.ts'
import { callerOperations } from './operations/caller.ts'
import { capabilityOperations } from './operations/capability.ts'
import { endingOperations } from './operations/ending.ts'
import { messageOperations } from './operations/message.ts'
import { readingOperations } from './operations/reading.ts'
import { sessionOperations } from './operations/session.ts'
import { submitOperations } from './operations/submit.ts'
import { workOperations } from './operations/work.ts'

const operations = [
  ...capabilityOperations,
  ...callerOperations,
  ...submitOperations,
  ...readingOperations,
  ...workOperations,
  ...endingOperations,
  ...artifactOperations,
  ...messageOperations,
  ...sessionOperations,
]
export type HarnessOperation = (typeof operations)[number]

export const harness: Protocol = {
  name: 'harness',
  title: 'HCP: Harness Communication Protocol',
  version: '1.0',
  operations,
  events,
  codes,
  scenes,
}
