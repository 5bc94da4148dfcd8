// The end of an answer: its last bytes, and the account of what its reader has not taken.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { UnsentAnswers } from '../../shared/unsent-answers.ts'

/** Those who have not said who they are, by where they are. */
export const nobodyAt = ({ remoteAddress }: Socket): string => `address ${remoteAddress}`

/** A response that knows for whom it is. */
type Asked = ServerResponse & { askedBy?: string }

/** The actor who is answered, known once the credential was looked at: answers that are not read count as theirs. */
export function askedBy(response: Asked, actor: string): void {
  response.askedBy = actor
}

/** Ends an answer whose head is written. Most are gone at once; of one that is not, the rest is kept until it is read. */
export function endAnswer(response: Asked, body: string | Buffer | undefined, unsent: UnsentAnswers | undefined): void {
  const before = response.writableLength
  response.end(body)
  const bytes = response.writableLength - before
  if (!unsent || bytes <= 0) return
  const { socket } = response.req
  unsent.hold(socket, response.askedBy ?? nobodyAt(socket), bytes)
  response.once('finish', () => unsent.release(socket, bytes))
}
