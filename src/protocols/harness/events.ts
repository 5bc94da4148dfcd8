// Events of harness, each with the kind of document that it is about.
import { factOf, type Events } from '#kernel/declare/facts.ts'
import { Caller, Capability, Event, Session } from './schema.ts'
import type { ReachedState } from './states.ts'

export const events = {
  'capability.declared': Capability,
  'capability.withdrawn': Capability,
  'caller.allowed': Caller,
  'caller.disallowed': Caller,
  'session.submitted': Session,
  'session.opened': Session,
  'session.waiting': Session,
  'session.accepted': Session,
  'session.answered': Session,
  'session.started': Session,
  'session.bound': Session,
  'session.running': Session,
  'session.paused': Session,
  'session.moved': Session,
  'session.abort_requested': Session,
  'session.aborting': Session,
  'session.aborted': Session,
  'session.completed': Session,
  'session.failed': Session,
  'session.rejected': Session,
  'session.safety_violation': Session,
  'session.forgotten': Session,
  'session.event': Event,
  'session.late_event': Event,
  'artifact.fetched': Session,
} satisfies Events
export const fact = factOf(events)

export type SessionEvent = { [K in keyof typeof events]: (typeof events)[K] extends typeof Session ? K : never }[keyof typeof events]

/** The event of a session that reaches a state, if its cause has no event of its own. */
export const stateEvents = {
  RUNNING: 'session.running',
  PAUSED: 'session.paused',
  ABORTING: 'session.aborting',
  ABORTED: 'session.aborted',
  COMPLETED: 'session.completed',
  FAILED: 'session.failed',
  REJECTED: 'session.rejected',
} as const satisfies Record<ReachedState, SessionEvent>
