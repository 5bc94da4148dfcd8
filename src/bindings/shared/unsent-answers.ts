// Unsent answers. A client that sends requests but does not read makes the server buffer its responses. The buffered bytes are bounded per
// actor and in total, and stalled connections are closed before other clients have to wait for them.
import type { Duplex, Writable } from 'node:stream'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'

/** Bounds that tests shrink. */
export type UnsentBounds = {
  readonly perActor: number
  readonly total: number
  readonly share: number
  readonly staleMs: number
}
const usualBounds: UnsentBounds = {
  perActor: limits.unsentPerActorBytesMax,
  total: limits.unsentTotalBytesMax,
  share: limits.unsentShareBytes,
  staleMs: limits.unsentStaleMs,
}

/** A connection with Node's counters of its progress. */
type Line = (Writable | Duplex) & { readonly _handle?: { readonly writeQueueSize?: number } | null }

export type UnsentAnswers = {
  /** Adds bytes that were written to a connection but not flushed, for an actor; empty: no particular actor. */
  hold(line: Writable, actor: string, bytes: number): void
  /** Removes flushed bytes. Closing a connection removes all of its bytes. */
  release(line: Writable, bytes: number): void
  /** Whether an actor has read enough of its responses. */
  hasRoom(actor: string): boolean
  /** Refuses an actor that has too many unread responses. */
  admit(actor: string): void
}

/** The responses of a connection, flushed in order. */
type Part = { readonly actor: string; bytes: number }
type Held = {
  readonly parts: Part[]
  bytes: number
  /** The value of `bytes` at the last check. */
  before: number
  /** The bytes left to send at the time `since`; both are renewed whenever the connection makes progress. */
  left: number
  since: number
}

/** How often connections are checked while responses are unsent. */
const LOOKS_PER_BOUND = 4

/** `wasCut` gets the actor whose connections were closed, and their number. */
export function createUnsentAnswers(
  wasCut: (actor: string, connections: number) => void = () => undefined,
  given: Partial<UnsentBounds> = {},
): UnsentAnswers {
  const bounds: UnsentBounds = { ...usualBounds, ...given }
  const lines = new Map<Line, Held>()
  const watched = new WeakSet<Line>()
  const perActor = new Map<string, number>()
  let total = 0
  let timer: NodeJS.Timeout | undefined

  const of = (actor: string): number => perActor.get(actor) ?? 0

  const hasRoom = (actor: string): boolean => of(actor) < bounds.share || (of(actor) < bounds.perActor && total < bounds.total)

  function count(actor: string, by: number): void {
    total += by
    const bytes = of(actor) + by
    if (bytes === 0) perActor.delete(actor)
    else perActor.set(actor, bytes)
  }

  function forget(line: Line): void {
    const held = lines.get(line)
    if (!held) return
    lines.delete(line)
    for (const { actor, bytes } of held.parts) count(actor, -bytes)
  }

  /** Keeps slow connections that make progress; closes stalled ones only when a bound is exceeded. */
  function look(): void {
    const now = performance.now()
    if (lines.size === 0) {
      clearInterval(timer)
      timer = undefined
      return
    }
    const stale: [Line, Held][] = []
    for (const [line, held] of lines) {
      const left = leftOf(line)
      // A response queued behind another one is not being sent yet: then only flushed bytes count as progress.
      const isTaken = held.bytes < held.before
      held.before = held.bytes
      if (held.left - left >= limits.unsentProgressBytesMin || isTaken) {
        held.left = left
        held.since = now
      } else {
        // More bytes were queued since.
        held.left = Math.max(held.left, left)
        if (now - held.since >= bounds.staleMs) stale.push([line, held])
      }
    }
    const cut = new Map<string, number>()
    for (const [line, { parts }] of stale.toSorted(([, a], [, b]) => b.bytes - a.bytes)) {
      const actor = (parts.find((part) => of(part.actor) > bounds.perActor) ?? parts[0]!).actor
      if (total <= bounds.total && of(actor) <= bounds.perActor) continue
      cut.set(actor, (cut.get(actor) ?? 0) + 1)
      forget(line)
      line.destroy()
    }
    for (const [actor, connections] of cut) wasCut(actor, connections)
  }

  function hold(line: Line, actor: string, bytes: number): void {
    let held = lines.get(line)
    if (!held) {
      held = { parts: [], bytes: 0, before: 0, left: leftOf(line), since: performance.now() }
      lines.set(line, held)
      if (!watched.has(line)) {
        watched.add(line)
        line.once('close', () => forget(line))
      }
    }
    held.bytes += bytes
    const last = held.parts.at(-1)
    if (last?.actor === actor) last.bytes += bytes
    else held.parts.push({ actor, bytes })
    count(actor, bytes)
    timer ??= setInterval(look, bounds.staleMs / LOOKS_PER_BOUND).unref()
  }

  function release(line: Line, bytes: number): void {
    const held = lines.get(line)
    if (!held) return
    let left = Math.min(bytes, held.bytes)
    held.bytes -= left
    while (left > 0) {
      const [first] = held.parts as [Part]
      const taken = Math.min(left, first.bytes)
      first.bytes -= taken
      left -= taken
      count(first.actor, -taken)
      if (first.bytes === 0) held.parts.shift()
    }
    if (held.bytes === 0) lines.delete(line)
  }

  return {
    hold,
    release,
    hasRoom,
    admit(actor) {
      if (hasRoom(actor)) return
      throw new Refusal('QUOTA_EXCEEDED', `${of(actor)} bytes of answers wait to be read by your connections: read them first`, {
        retry_after: 1,
      })
    },
  }
}

/** Bytes still buffered by Node, and bytes that the operating system has not accepted. */
function leftOf(line: Line): number {
  return line.writableLength + (line._handle?.writeQueueSize ?? 0)
}
