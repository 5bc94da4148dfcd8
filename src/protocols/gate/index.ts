// The gate: calls of agents to tools, decided by policy before they run.
import type { Protocol } from '#kernel/declare/operation.ts'
import { codes } from './codes.ts'
import { events } from './events.ts'
import { scenes } from './examples.ts'
import { callOperations } from './operations/call.ts'
import { policyOperations } from './operations/policy.ts'
import { propose } from './operations/propose.ts'
import { toolOperations } from './operations/tool.ts'
import { calls } from './port.ts'

const operations = [propose, ...callOperations, ...toolOperations, ...policyOperations]
export type GateOperation = (typeof operations)[number]

export const gate: Protocol = {
  name: 'gate',
  title: 'The gate: calls of agents to tools',
  version: '1.0.0',
  operations,
  events,
  codes,
  scenes,
  ports: { calls },
}
