// Events of the gate, each with the kind of document that it is about.
import { factOf, type Events } from '#kernel/declare/facts.ts'
import { Call, Tool } from './schema.ts'

export const events = {
  'call.allowed': Call,
  'call.asked': Call,
  'call.denied': Call,
  'call.approved': Call,
  'call.rejected': Call,
  'call.expired': Call,
  'call.cancelled': Call,
  'call.left': Call,
  'call.returned': Call,
  'call.begun': Call,
  'call.ended': Call,
  'rule.suspended': Call,
  'rule.resumed': Call,
  'tool.pinned': Tool,
  'tool.changed': Tool,
  'tool.trusted': Tool,
} satisfies Events
export const fact = factOf(events)
