// Roles on a session and preconditions. Both read as sentences.
import { Refusal } from '#kernel/declare/errors.ts'
import { forAgentsToo, role } from '#kernel/declare/access.ts'
import { rule, type Context, type Read } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import type { HarnessTerms } from '#kernel/declare/operation.ts'
import { Cursor, Session, Task } from './schema.ts'
import { isAtWork, isEnded } from './states.ts'

export type OfSession = { readonly session: Session; readonly cursor: Cursor; readonly task: Task }
export type AtWork = OfSession & { readonly attempt: number }
type OfAttempt = { readonly attempt?: number }

export const Attempt = t.Optional(
  t.Integer({
    minimum: 0,
    maximum: 1_000_000_000,
    description: 'the attempt of the run that the messages came with; 0 if none were taken',
  }),
)

/** The session under either of its ids, if the actor can see it. */
export async function sessionOf(read: Read, id: string): Promise<Session> {
  const found = await read.maybe(Session, id)
  if (found !== null) return found
  const listed = await read.list(Session, 'other', [[id]], { limit: 2 })
  for (const entry of listed) {
    const session = await read.maybe(Session, entry.id)
    if (session !== null) return session
  }
  throw new Refusal('NOT_FOUND', `there is no session ${id}`)
}

export async function whole(read: Read, session: Session): Promise<OfSession> {
  const [cursor, task] = await Promise.all([read.raw(Cursor, session.id), read.raw(Task, session.id)])
  if (cursor === null || task === null) throw new Refusal('PRECONDITION_FAILED', 'the session ended long ago: only its record is kept')
  return { session, cursor, task }
}

/** A session of another harness, with the attempt that its run is in. */
export async function executedSession(read: Read, session_id: string): Promise<AtWork> {
  const session = await sessionOf(read, session_id)
  if (session.role !== 'callee') throw new Refusal('NOT_FOUND', `there is no session ${session_id} that is executed here`)
  const attempt = session.run_id === null ? null : await read.ports.runs.attempt(read, session.run_id)
  return { ...(await whole(read, session)), attempt: attempt ?? 0 }
}

export const executor = forAgentsToo(
  role<OfSession>('the agent that executes the session', (actor, { session }) => actor.kind === 'agent' && session.agent_id === actor.id),
)
export const submitter = forAgentsToo(role<unknown>('a person or an agent', ({ kind }) => kind === 'human' || kind === 'agent'))
/** The actor who submitted it, and the owners of its project. */
export const itsSubmitter = forAgentsToo(
  role<OfSession>(
    'the person or agent that submitted it',
    (actor, { session }) => session.role === 'caller' && session.submitted_by === actor.id,
  ),
)

export const isPresentAttempt = rule<AtWork, OfAttempt>(
  'CONFLICT',
  'the attempt is the present one: another process has taken the run since',
  ({ attempt }, input, { actor }) => actor.kind !== 'agent' || attempt === (input.attempt ?? 0),
  'another process has taken the run since: take it again to continue',
)
export const isRunning = rule<OfSession>(
  'PRECONDITION_FAILED',
  'the session is RUNNING',
  ({ session }) => session.state === 'RUNNING',
  'the session is not RUNNING',
  ({ session }) => `the session is ${session.state}, not RUNNING`,
)
export const isWorkedOn = rule<OfSession>(
  'PRECONDITION_FAILED',
  'the session is RUNNING or PAUSED',
  ({ session }) => isAtWork(session.state),
  'the session is neither RUNNING nor PAUSED',
  ({ session }) => `the session is ${session.state}, neither RUNNING nor PAUSED`,
)
/** Also true during an abort: its agent can still report how it ended (C37). */
export const isNotOver = rule<OfSession>(
  'PRECONDITION_FAILED',
  'the session is at work or being aborted',
  ({ session }) => isAtWork(session.state) || session.state === 'ABORTING',
  'the session is not at work',
  ({ session }) => `the session is ${session.state}: there is nothing to end`,
)
export const isOpen = rule<OfSession>(
  'PRECONDITION_FAILED',
  'the session has not ended',
  ({ session }) => !isEnded(session.state),
  'the session has ended',
)

/** The configured identity of this harness, or a refusal that says how to configure it. */
export function harnessIn({ terms }: Pick<Context, 'terms'>): HarnessTerms {
  if (terms.harness === null)
    throw new Refusal(
      'UNAVAILABLE',
      'this server speaks to no broker: start it with --amqp <url> (COUNTERSIGN_AMQP_URL) to submit to other harnesses',
    )
  return terms.harness
}
