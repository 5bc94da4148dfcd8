// The end of an answer: its last bytes, and the account of what its reader has not taken.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { UnsentAnswers } from '../../shared/unsent-answers.ts'

/** Unauthenticated clients, by address. */
export const nobodyAt = ({ remoteAddress }: Socket): string => `address ${remoteAddress}`

/** A response with the actor it is for. */
type Asked = ServerResponse & { askedBy?: string }

/** Sets the actor once the credential is authenticated: unread responses count against that actor. */
export function askedBy(response: Asked, actor: string): void {
  response.askedBy = actor
}

/** Ends a response whose head is written. Most are flushed immediately; unflushed bytes count as unsent until the client reads them. */
export function endAnswer(response: Asked, body: string | Buffer | undefined, unsent: UnsentAnswers | undefined): void {
  const before = response.writableLength
  response.end(body)
  const bytes = response.writableLength - before
  if (!unsent || bytes <= 0) return
  const { socket } = response.req
  unsent.hold(socket, response.askedBy ?? nobodyAt(socket), bytes)
  response.once('finish', () => unsent.release(socket, bytes))
}
