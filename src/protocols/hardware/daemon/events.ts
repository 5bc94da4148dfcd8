// Events of the hardware daemon, each with the kind of document that it is about: the lines of its audit.
import { factOf, type Events } from '#kernel/declare/facts.ts'
import { Daemon, Session, Step, Task, UsedApproval } from './schema.ts'

export const daemonEvents = {
  'daemon.start': Daemon,
  'daemon.stop': Daemon,
  denied: Daemon,
  'audit.checkpoint': Daemon,
  'session.open': Session,
  'session.close': Session,
  'task.submit': Task,
  'task.cancel': Task,
  'task.finish': Task,
  'task.step.start': Step,
  'task.step.finish': Step,
  'task.step.rollback.start': Step,
  'task.step.rollback': Step,
  'approval.used': UsedApproval,
} satisfies Events
export const daemonFact = factOf(daemonEvents)
