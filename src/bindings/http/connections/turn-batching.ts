// Turn batching, only for speed: answers of one turn of the event loop are written together. The first write wakes the client, which costs
// more than the write itself; the writes behind it find the client awake. Measured with `task.create` on 64 connections: 211 us of CPU time
// each with it, 227 us without. Requests of one turn are also processed together, so that their commits go into one group: 347 us each for
// asking over /hxp with it, 503 us without (docs/decisions/0037-http-without-a-framework.md). To remove this file, call `endAnswer` of
// ending.ts in place of `endSoon`, call the work directly in place of `withOthers`, and drop the calls of `gatherAnswers`.
import type { ServerResponse } from 'node:http'
import type { UnsentAnswers } from '../../shared/unsent-answers.ts'
import { endAnswer } from './ending.ts'

type Leaving = { readonly response: ServerResponse; readonly body: string | Buffer | undefined; readonly unsent: UnsentAnswers | undefined }

let leaving: Leaving[] = []
let isGathering = false

/** Called when a request arrives, before any work: responses of this turn are held until the turn ends. */
export function gatherAnswers(): void {
  if (isGathering) return
  isGathering = true
  setImmediate(endTurn)
}

/** Ends a response whose head is written: at the end of the turn or, after a commit, together with all responses that waited for it. */
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
      // The failure of one response must not keep the others from being written.
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
