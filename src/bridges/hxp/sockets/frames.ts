// Frames for subscribers (HXP 0.1, 5.2): the difference between two states of a request, written once for everybody.
import type { SignedReceipt } from '#protocols/execution/answering/receipt.ts'
import { TIMEOUT, type Request } from '#protocols/execution/schema.ts'
import { visible } from '#protocols/execution/answering/shown-request.ts'
import { harmless, shown } from '#protocols/execution/asking/hostile-text.ts'

/** Agents learn less of people than people do of one another. `page`: a person, on a page of another origin. */
export type Audience = 'agent' | 'person' | 'page'
export type Frames = Readonly<Record<Audience, Buffer>>

type Heard = { readonly event: string } & Readonly<Record<string, unknown>>

/** What has changed. `before` null: it is told for the first time. */
export function eventsOf(before: Request | null, after: Request, receipt: SignedReceipt | null, audience: Audience): Heard[] {
  if (after.receipt) return [outcomeOf(after, receipt)]
  const events: Heard[] = []
  if (after.assigned_to !== null && after.assigned_to !== before?.assigned_to)
    // In a pool nobody is known by name.
    events.push({ event: 'assigned', assigned_to: audience === 'agent' && after.role === 'pool' ? null : after.assigned_to })
  if (before && after.assigned_to === null && before.assigned_to !== null) events.push({ event: 'released' })
  for (const { kind, text, at } of remarksSince(before, after))
    events.push({ event: kind, text: audience === 'agent' ? text : shown(text), at })
  if (before && after.expires_at !== before.expires_at) events.push({ event: 'extended', expires_at: after.expires_at })
  if (after.overdue && before?.overdue !== true) events.push({ event: 'expired' })
  return events
}

/** Whoever comes late needs the question that is still open, not the talk before it. */
function remarksSince(before: Request | null, { thread = [] }: Request): NonNullable<Request['thread']> {
  if (before) return thread.slice(before.thread?.length ?? 0)
  return thread.at(-1)?.kind === 'question' ? thread.slice(-1) : []
}

/** X3: what failed because nobody answered in time has expired. */
function outcomeOf({ status, receipt: kept }: Request, receipt: SignedReceipt | null): Heard {
  const isLate = status === 'failed' && kept?.reason === TIMEOUT
  return { event: isLate ? 'expired' : status, receipt }
}

const TEXT = 0x81
/** One text frame of RFC 6455, 5.2, as a server writes it: whole and unmasked. */
export function frameOf(heard: Heard): Buffer {
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

const NOTHING = Buffer.alloc(0)
const joined = (events: readonly Heard[]): Buffer =>
  events.length === 0 ? NOTHING : events.length === 1 ? frameOf(events[0]!) : Buffer.concat(events.map(frameOf))

/** A walk through several states, in one piece for each audience; the same piece wherever both hear the same. */
export function framesOf(from: Request | null, states: readonly Request[], receipt: SignedReceipt | null): Frames {
  const heardBy = (audience: Audience): Heard[] => {
    let before = from
    return states.flatMap((after) => {
      const events = eventsOf(before, after, receipt, audience)
      before = after
      return events
    })
  }
  const agent = joined(heardBy('agent'))
  const page = (): Buffer => joined(heardBy('page').map((heard) => visible(heard, harmless) as Heard))
  const isSame = states.every(({ role, thread = [] }) => role !== 'pool' && thread.every(({ text }) => shown(text) === text))
  let made: Buffer | undefined
  return {
    agent,
    person: isSame ? agent : joined(heardBy('person')),
    // Few listen from there.
    get page() {
      return (made ??= page())
    },
  }
}
