// Shared by uploads and downloads: the blob store behind them, their input in the query, and the bounds of concurrent transfers.
import type { Blobs } from '#kernel/ports/blobs.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Operation } from '#kernel/declare/operation.ts'
import { createPerActorCounter } from '../../shared/per-actor.ts'

/** The parts that a binding needs to carry bytes. */
export type ByteStore = { readonly blobs: Blobs; readonly bytesMax: number }

export type Query = Record<string, unknown>

/** Reads the input from the query; the schema says which fields are numbers. The kernel refuses wrong values. */
export function queryIn(url: string, op: Operation): Query {
  const { properties = {} } = op.input as { properties?: Record<string, { type?: string }> }
  const input: Query = {}
  for (const [name, text] of new URL(url, 'http://localhost').searchParams) {
    if (Object.hasOwn(input, name)) throw new Refusal('INVALID_REQUEST', `${name} is given twice`, { field: name })
    const type = Object.hasOwn(properties, name) ? properties[name]!.type : undefined
    const value = type === 'integer' && /^\d{1,15}$/.test(text) ? Number(text) : text
    Object.defineProperty(input, name, { value, enumerable: true })
  }
  return input
}

export type Slots = { enter(actor: string): () => void }
export function createByteSlots(perActor: number, total: number, what: string): Slots {
  const counter = createPerActorCounter()
  return {
    enter(actor) {
      if (counter.of(actor) >= perActor) throw new Refusal('QUOTA_EXCEEDED', `at most ${perActor} ${what} at a time`, { retry_after: 1 })
      if (counter.total() >= total) throw new Refusal('BUSY', `there are too many ${what} at the moment`, { retry_after: 1 })
      return counter.enter(actor)
    },
  }
}
