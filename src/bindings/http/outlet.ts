// Where answers leave. Every write wakes whoever waits at the other end, which costs more than the write itself. What is answered in one
// turn of the loop is written together at its end: the first wakes the client, and the others find it awake.
import type { ServerResponse } from 'node:http'

type Leaving = { readonly response: ServerResponse; readonly body: string | undefined }

let leaving: Leaving[] = []

/** Ends an answer whose head is written, at the end of this turn. */
export function endSoon(response: ServerResponse, body: string | undefined): void {
  if (leaving.push({ response, body }) === 1) setImmediate(endAll)
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
