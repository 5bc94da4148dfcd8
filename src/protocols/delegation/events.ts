// Events of delegation, each with the kind of document that it is about.
import { factOf, type Events } from '#kernel/declare/facts.ts'
import { Capability, Invocation } from './capabilities/manifest.ts'
import { Card, Report, Run } from './schema.ts'

export const events = {
  'agent.registered': Card,
  'agent.card_synced': Card,
  'agent.secret_rotated': Card,
  'run.delegated': Run,
  'run.started': Run,
  'run.progress': Run,
  'run.asked': Run,
  'run.reported': Report,
  'run.blocked': Run,
  'run.resumed': Run,
  'run.steered': Run,
  'run.put_down': Run,
  'run.completed': Run,
  'run.failed': Run,
  'capability.offered': Capability,
  'capability.withdrawn': Capability,
  'capability.invoked': Invocation,
  'capability.completed': Invocation,
  'capability.failed': Invocation,
  'capability.denied': Invocation,
} satisfies Events
export const fact = factOf(events)
