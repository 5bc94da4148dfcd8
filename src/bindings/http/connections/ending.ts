// The end of an answer: its last bytes, and the count of the bytes that its client has not read.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { UnsentAnswers } from '../../shared/unsent-answers.ts'

/** Unauthenticated clients, by address. */
export const nobodyAt = ({ remoteAddress }: Socket): string => `address ${remoteAddress}`

/** A response with its actor. */
type ActorResponse = ServerResponse & { actor?: string }

/** Sets the actor once the credential is authenticated: unread responses count against that actor. */
export function setActor(response: ActorResponse, actor: string): void {
  response.actor = actor
}

/** Ends a response whose head is written. Most are flushed immediately; unflushed bytes count as unsent until the client reads them. */
export function endAnswer(response: ActorResponse, body: string | Buffer | undefined, unsent: UnsentAnswers | undefined): void {
  const before = response.writableLength
  response.end(body)
  const bytes = response.writableLength - before
  if (!unsent || bytes <= 0) return
  const { socket } = response.req
  unsent.hold(socket, response.actor ?? nobodyAt(socket), bytes)
  response.once('finish', () => unsent.release(socket, bytes))
}
