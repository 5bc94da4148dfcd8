// Turn batching, only for speed: answers of one turn of the event loop are written together. Every write wakes the process at the other end,
// which costs more than the write itself; the first wakes the client, and the others find it awake. Measured with `task.create` on 64
// connections: 211 us of CPU time each with it, 227 us without. Requests of one turn are worked on together too, so that their commits go into
// one group: 347 us each for asking over /hxp with it, 503 us without (docs/decisions/0037-http-without-a-framework.md). Without this
// file, `endAnswer` of ending.ts is called in place of `endSoon`, the work itself in place of `withOthers`, and `gatherAnswers` by nothing.
import type { ServerResponse } from 'node:http'
import type { UnsentAnswers } from '../../shared/unsent-answers.ts'
import { endAnswer } from './ending.ts'

type Leaving = { readonly response: ServerResponse; readonly body: string | Buffer | undefined; readonly unsent: UnsentAnswers | undefined }

let leaving: Leaving[] = []
let isGathering = false

/** Called when a request arrives, before any work: responses of this turn wait for its end, but for no commit of this turn. */
export function gatherAnswers(): void {
  if (isGathering) return
  isGathering = true
  setImmediate(endTurn)
}

/** Ends a response whose head is written: with the others of this turn or, after a commit, with all responses that waited for it. */
export function endSoon(response: ServerResponse, body: string | Buffer | undefined, unsent?: UnsentAnswers): void {
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
      endAnswer(response, body, unsent)
    } catch {
      // The others have nothing to do with it.
      response.destroy()
    }
  }
}

let arrived: (() => void)[] = []

/** Runs the work together with all other requests of this turn, once all of them are read. */
export function withOthers(work: () => void): void {
  if (arrived.push(work) === 1) setImmediate(workAll)
}

function workAll(): void {
  const all = arrived
  arrived = []
  for (const work of all) work()
}
