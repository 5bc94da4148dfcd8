// Events of the record as CloudEvents 1.0 (https://cloudevents.io), for systems that know them.
import type { AuditEvent } from './audit-view.ts'

export type CloudEvent = {
  readonly specversion: '1.0'
  readonly id: string
  readonly source: string
  readonly type: string
  readonly subject: string
  readonly time: string
  readonly datacontenttype: 'application/json'
  /** The number of the event in its project, of one length, so that it sorts as a text (the Sequence extension). */
  readonly sequence: string
  readonly data: AuditEvent
}

const DIGITS = 16
/** `action`: with its protocol, such as `collaboration/task.created`. */
export const cloudEventType = (action: string): string => `countersign.${action.replace('/', '.')}`

export const cloudEventOf = (event: AuditEvent, origin: string): CloudEvent => ({
  specversion: '1.0',
  id: event.id,
  source: `${origin}/projects/${event.project_id}`,
  type: cloudEventType(`${event.protocol}/${event.action}`),
  subject: `${event.subject.kind}/${event.subject.id}`,
  time: event.at,
  datacontenttype: 'application/json',
  sequence: String(event.seq).padStart(DIGITS, '0'),
  data: event,
})
