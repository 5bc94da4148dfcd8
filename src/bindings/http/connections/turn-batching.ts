// Turn batching: answers of one turn of the event loop are written together. Every write wakes the process at the other end, which costs
// more than the write itself; the first wakes the client, and the others find it awake.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Unsent } from '../../shared/unsent-answers.ts'

type Leaving = { readonly response: ServerResponse; readonly body: string | Buffer | undefined; readonly unsent: Unsent | undefined }
/** Those who have not said who they are, by where they are. */
export const nobodyAt = ({ remoteAddress }: Socket): string => `address ${remoteAddress}`

/** A response that knows for whom it is. */
type Asked = ServerResponse & { askedBy?: string }

/** Who is answered, known once the credential was looked at: what they do not read is theirs. */
export function askedBy(response: Asked, actor: string): void {
  response.askedBy = actor
}

let leaving: Leaving[] = []
let isGathering = false

/** A request has come: what is answered in this turn waits for its end. Said before anything is done, so it waits for no commit of this turn. */
export function gatherAnswers(): void {
  if (isGathering) return
  isGathering = true
  setImmediate(endTurn)
}

/** Ends an answer whose head is written: with the others of this turn, or, after a commit, with all who waited for it. */
export function endSoon(response: ServerResponse, body: string | Buffer | undefined, unsent?: Unsent): void {
  if (leaving.push({ response, body, unsent }) === 1 && !isGathering) process.nextTick(endAll)
}

function endTurn(): void {
  isGathering = false
  endAll()
}

function endAll(): void {
  const all = leaving
  leaving = []
  for (const { response, body, unsent } of all) {
    try {
      const before = response.writableLength
      response.end(body)
      if (unsent && response.writableLength > before) holdRest(response, response.writableLength - before, unsent)
    } catch {
      // The others have nothing to do with it.
      response.destroy()
    }
  }
}

/** Most answers are gone at once. Of one that is not, somebody has to keep the rest until it is read. */
function holdRest(response: Asked, bytes: number, unsent: Unsent): void {
  const { socket } = response.req
  unsent.hold(socket, response.askedBy ?? nobodyAt(socket), bytes)
  response.once('finish', () => unsent.release(socket, bytes))
}

let arrived: (() => void)[] = []

/**
 * Does it with everything else that arrives in this turn, once all of it was read: reading requests and working on them take turns with
 * the same caches of the processor, and one after the other costs less than both in between each other.
 */
export function withOthers(work: () => void): void {
  if (arrived.push(work) === 1) setImmediate(workAll)
}

function workAll(): void {
  const all = arrived
  arrived = []
  for (const work of all) work()
}
