// Frames for subscribers (HXP 0.1, 5.2): events of a request as bytes, shared by all authorized subscribers.
import type { Entry, Portion } from '#bindings/live/topic.ts'
import { changeIn, eventsOf, type RequestEvent } from '#protocols/execution/answering/request-events.ts'
import type { SignedReceipt } from '#protocols/execution/answering/receipt.ts'
import { visible } from '#protocols/execution/answering/shown-request.ts'
import { harmless } from '#protocols/execution/asking/hostile-text.ts'
import type { Request } from '#protocols/execution/schema.ts'

/** `page`: a person, on a page of another origin. */
export type Listening = 'agent' | 'person' | 'page'

const TEXT = 0x81
/** One text frame of RFC 6455, 5.2, as a server writes it: whole and unmasked. */
export function frameOf(heard: RequestEvent): Buffer {
  const text = JSON.stringify(heard)
  const size = Buffer.byteLength(text)
  const head = size < 126 ? 2 : size < 65_536 ? 4 : 10
  const frame = Buffer.allocUnsafe(head + size)
  frame[0] = TEXT
  if (head === 2) frame[1] = size
  else if (head === 4) {
    frame[1] = 126
    frame.writeUInt16BE(size, 2)
  } else {
    frame[1] = 127
    frame.writeBigUInt64BE(BigInt(size), 2)
  }
  frame.write(text, head)
  return frame
}

/** Events from one state to the next, in one piece. Only the last one, that it has ended, has a receipt. */
export function framesOf(before: Request | null, after: Request, receipt: SignedReceipt | null, listening: Listening): Buffer {
  const events = eventsOf(before, after, listening === 'agent' ? 'agent' : 'person')
    .map((event) => (event.event === 'declined' ? { ...event, event: 'failed' } : event))
    .map((event) => (receipt === null ? event : { ...event, receipt }))
    .map((event) => (listening === 'page' ? (visible(event, harmless) as RequestEvent) : event))
  return Buffer.concat(events.map(frameOf))
}

/** A portion as bytes, encoded once for all subscribers with the same view. */
export function bytesOf({ entries, memo }: Portion, listening: Listening): Buffer {
  let bytes = memo.get(`hxp ${listening}`)
  if (!bytes) memo.set(`hxp ${listening}`, (bytes = Buffer.concat(entries.map((entry) => bytesOfEntry(entry, listening)))))
  return bytes
}

export function bytesOfEntry({ fact }: Entry, listening: Listening): Buffer {
  const { before, after } = changeIn(fact)!
  return framesOf(before, after, null, listening)
}
