// The caller of a method: the credential of the connection, or the one that a call brings along.
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Credential, Session } from './connection.ts'

/** Asked with every attempt of a call and before each portion of a stream, so that what was revoked stops at once. */
export function callerOf(session: Session, own: Credential | undefined): () => Actor | Promise<Actor> {
  if (own !== undefined) return () => identify(session, own)
  return () => session.authenticating?.then(() => bearerOf(session)) ?? bearerOf(session)
}

function bearerOf(session: Session): Actor | Promise<Actor> {
  if (session.credential === null)
    throw new Refusal('UNAUTHENTICATED', 'call rpc.authenticate with a token first, or put one into params._meta')
  return session.identified ?? identifiedNow(session, session.credential)
}

function identify(session: Session, credential: Credential): Actor | Promise<Actor> {
  const asked = session.shared.authenticate(credential)
  if (asked instanceof Promise) return identifiedLater(session, asked)
  session.known = true
  session.actor = asked.id
  return asked
}

async function identifiedLater(session: Session, asked: Promise<Actor>): Promise<Actor> {
  const actor = await asked
  session.known = true
  session.actor = actor.id
  return actor
}

/** Calls that arrive in one portion ask in one breath: nothing can be revoked between the first of them and the last. */
function identifiedNow(session: Session, credential: Credential): Actor | Promise<Actor> {
  process.nextTick(forget, session)
  const asking = identify(session, credential)
  session.identified = asking
  return asking
}
const forget = (session: Session): void => {
  session.identified = null
}
