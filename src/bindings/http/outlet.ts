// Where answers leave. Every write wakes whoever waits at the other end, which costs more than the write itself. What is answered in one
// turn of the loop is written together: the first wakes the client, and the others find it awake.
import type { ServerResponse } from 'node:http'

type Leaving = { readonly response: ServerResponse; readonly body: string | undefined }

let leaving: Leaving[] = []
let isGathering = false

/** A request has come: what is answered in this turn waits for its end. Said before anything is done, so it waits for no commit of this turn. */
export function gatherAnswers(): void {
  if (isGathering) return
  isGathering = true
  setImmediate(endTurn)
}

/** Ends an answer whose head is written: with the others of this turn, or, after a commit, with all who waited for it. */
export function endSoon(response: ServerResponse, body: string | undefined): void {
  if (leaving.push({ response, body }) === 1 && !isGathering) process.nextTick(endAll)
}

function endTurn(): void {
  isGathering = false
  endAll()
}

function endAll(): void {
  const all = leaving
  leaving = []
  for (const { response, body } of all) {
    try {
      response.end(body)
    } catch {
      // The others have nothing to do with it.
      response.destroy()
    }
  }
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
