// Views of sessions and events: with opened sealed fields, never with a token.
import type { Context, Read } from '#kernel/declare/operation.ts'
import { nullable, pick, t, type Static } from '#kernel/declare/schema.ts'
import { Cursor, type Event, Session } from '../schema.ts'
import { outcomeOf, unseal, type SessionWork } from './session-work.ts'

/** Its deadline is shown until it ends. */
export const sessionFields = pick(Session.schema, [
  'id',
  'session_id',
  'role',
  'state',
  'reason',
  'waiting_for',
  'risk_level',
  'data_classification',
  'caller_id',
  'callee_id',
  'submit_id',
  'capability',
  'created_at',
  'updated_at',
  'accepted_at',
  'ended_at',
  'outputs',
  'outputs_valid',
  'partial_outputs',
  'artifacts',
  'error',
  'error_details',
  'execution_summary',
  'rejection',
  'metadata',
  'project_id',
  'submitted_by',
  'agent_id',
  'run_id',
  'task_id',
  'abort_reason',
])
export const SessionView = t.Object({
  ...sessionFields.schema.properties,
  last_processed_sequence: t.Integer(),
  missing_sequences: t.Array(t.Integer()),
  deadline: nullable(t.String()),
})
export type SessionView = Static<typeof SessionView>

export async function viewOf(read: Read, session: Session, context: Pick<Context, 'notary'>): Promise<SessionView> {
  const cursor = await read.raw(Cursor, session.id)
  return shownWith(await unseal(context, session, session.sealed), cursor)
}
export function shownWith(session: Session, cursor: Cursor | null): SessionView {
  const deadline = session.ended_at === null ? session.deadline : null
  return {
    ...sessionFields.of(session),
    deadline,
    last_processed_sequence: cursor?.sequence ?? 0,
    missing_sequences: cursor?.missing ?? [],
  }
}
/** The outcome of an operation that answers with the changed session, plus fields that the document does not store. */
export const sessionOutcome = (work: SessionWork, more: Partial<Session> = {}) => ({
  ...outcomeOf(work),
  output: { session: shownWith({ ...work.session, ...more }, work.cursor) },
})

export const EventView = t.Object({
  session_id: nullable(t.String()),
  sequence: t.Integer(),
  event_type: t.String(),
  data: t.Unknown(),
  message_id: t.String(),
  at: t.String(),
  late: t.Optional(t.Boolean()),
  sealed: t.Optional(t.Boolean({ description: 'the data is confidential: harness.events hands it out' })),
})
export type EventView = Static<typeof EventView>

export const eventView = ({ sequence, event_type, data, message_id, at, late }: Event, session_id: string | null): EventView => ({
  session_id,
  sequence,
  event_type,
  data,
  message_id,
  at,
  ...(late ? { late } : {}),
})
