// AAP, the Agent-Agent Protocol Profile 0.1.0: cards, discovery, runs, and how an agent gets its messages. CAP
// below it: capabilities and their invocation.
import type { Protocol } from '#kernel/declare/operation.ts'
import { events } from './events.ts'
import { scenes } from './examples.ts'
import { admitOperations } from './operations/admit.ts'
import { agentOperations } from './operations/agent.ts'
import { capabilityOperations } from './operations/capability.ts'
import { cardOperations } from './operations/card.ts'
import { controlOperations } from './operations/control.ts'
import { mailboxOperations } from './operations/mailbox.ts'
import { invokeOperations } from './operations/invoke.ts'
import { memoOperations } from './operations/memo.ts'
import { offerOperations } from './operations/offer.ts'
import { pushOperations } from './operations/push.ts'
import { runViewOperations } from './operations/run-views.ts'
import { retireOperations } from './operations/retire.ts'
import { runOperations } from './operations/run.ts'
import { webhookOperations } from './operations/webhook.ts'
import { codes } from './codes.ts'
import { runs } from './runs/port.ts'

const operations = [
  ...cardOperations,
  ...agentOperations,
  ...controlOperations,
  ...runOperations,
  ...retireOperations,
  ...admitOperations,
  ...runViewOperations,
  ...mailboxOperations,
  ...memoOperations,
  ...capabilityOperations,
  ...invokeOperations,
  ...offerOperations,
  ...webhookOperations,
  ...pushOperations,
]
export type DelegationOperation = (typeof operations)[number]

export const delegation: Protocol = {
  name: 'delegation',
  title: 'AAP: Agent-Agent Protocol Profile, and CAP below it',
  version: '0.1.0',
  operations,
  events,
  codes,
  scenes,
  ports: { runs },
}
