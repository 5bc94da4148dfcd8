// Subscriptions to requests. One subscription to the record serves all sockets; changes of one turn go out in one write, with the same
// bytes for everybody who may hear them.
import { isIn, SYSTEM, type Actor } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import type { SignedReceipt } from '#protocols/execution/answering/receipt.ts'
import { Request } from '#protocols/execution/schema.ts'
import { framesOf, type Audience } from './frames.ts'

/** One credential, asked about once for all that came with it. */
export type Seat = {
  readonly audience: Audience
  actor: Actor
  caller(): Actor | Promise<Actor>
  readonly members: Set<Member>
  /** How many are still being let in with it. */
  opening: number
}

export type Member = {
  readonly seat: Seat
  /** False while it is being let in: what happens meanwhile is looked up once more. */
  isLive: boolean
  hasMissed: boolean
  write(bytes: Buffer): void
  /** The last bytes; then it is over. */
  finish(bytes: Buffer): void
  /** The credential is not good any more, or no longer for this. */
  refuse(why: 'credential' | 'request'): void
}

type Room = { readonly id: string; readonly members: Set<Member>; last: Request | null; waiting: Request[]; busy: boolean }

export type Rooms = {
  enter(id: string, member: Member): void
  leave(id: string, member: Member): void
  /** Tells a new member what there is, and lets it hear what comes. */
  begin(id: string, member: Member): Promise<void>
  /** In case that a hint was lost. */
  look(): void
  size(): number
  stop(): void
}

const PREFIX = keyOf(Request, '')
const REST_MS_MAX = 50

export function createRooms({ store, call }: Kernel, bug: (error: unknown) => void): Rooms {
  const rooms = new Map<string, Room>()
  const touched = new Set<Room>()
  let known = store.stats().position
  let isDue = false
  let restUntil = 0

  const unsubscribe = store.subscribe((facts) => {
    const first = facts[0]!.position
    const isGap = first > known + 1
    known = Math.max(known, facts.at(-1)!.position)
    if (rooms.size === 0) return
    if (isGap) reread()
    for (const { fact } of facts) {
      if (!fact.subject.startsWith(PREFIX)) continue
      const room = rooms.get(fact.subject.slice(PREFIX.length))
      // A fact may only speak of a request, and leave it as it is: that somebody reached for it who may not.
      const image = room && fact.images.find(({ key }) => key === fact.subject)
      if (image) note(room, image.value as Request)
    }
  })

  function note(room: Room, state: Request): void {
    room.waiting.push(state)
    touched.add(room)
    if (isDue) return
    isDue = true
    const rest = restUntil - performance.now()
    // Later in this turn: whatever is sealed until then goes out in the same write.
    if (rest <= 0) setImmediate(flush)
    else setTimeout(flush, rest)
  }

  /** Telling many takes its time; for as long again others are served, and what happens meanwhile is told in one go. */
  function flush(): void {
    isDue = false
    const began = performance.now()
    for (const room of touched) if (!room.busy) void pump(room)
    touched.clear()
    const now = performance.now()
    restUntil = now + Math.min(now - began, REST_MS_MAX)
  }

  async function pump(room: Room): Promise<void> {
    room.busy = true
    try {
      while (room.waiting.length > 0) {
        const states = room.waiting
        room.waiting = []
        const from = room.last
        room.last = states.at(-1)!
        // Nobody has heard anything yet: whoever comes is told how it stands.
        if (from === null) missed(room)
        else if (!from.receipt) await tell(room, from, states)
      }
    } catch (error) {
      bug(error)
      // They look again themselves: a socket that goes silent without a word would be worse.
      for (const member of room.members) member.refuse('request')
    } finally {
      room.busy = false
    }
  }

  function missed(room: Room): void {
    for (const member of room.members) if (!member.isLive) member.hasMissed = true
  }

  async function tell(room: Room, from: Request, states: readonly Request[]): Promise<void> {
    const state = states.at(-1)!
    const frames = framesOf(from, states, state.receipt ? await receiptOf(room.id) : null)
    const verdicts = new Map<Seat, boolean>()
    for (const { seat } of room.members) {
      if (verdicts.has(seat)) continue
      const may = mayHear(seat, state)
      verdicts.set(seat, typeof may === 'boolean' ? may : await may)
    }
    for (const member of room.members) {
      if (!member.isLive) member.hasMissed = true
      else if (verdicts.get(member.seat) !== true) member.refuse('request')
      else if (state.receipt) member.finish(frames[member.seat.audience])
      else if (frames[member.seat.audience].length > 0) member.write(frames[member.seat.audience])
    }
  }

  const receiptOf = async (id: string): Promise<SignedReceipt> =>
    ((await call('execution/request.get', { request_id: id }, SYSTEM)) as { receipt: SignedReceipt }).receipt

  /** As the reader of a call would say; with a task behind it, only the call itself can. */
  function mayHear({ actor, caller }: Seat, request: Request): boolean | Promise<boolean> {
    if (request.task_id === undefined)
      return isIn(actor, request.project_id)
        ? actor.projects === 'all' || Request.visibleTo(request, actor)
        : Request.reaches(request, actor)
    return call('execution/request.get', { request_id: request.id }, caller).then(
      () => true,
      () => false,
    )
  }

  async function stateOf(id: string): Promise<Request> {
    const [found] = await store.read([keyOf(Request, id)])
    return found!.value as Request
  }

  function reread(): void {
    for (const room of rooms.values()) void stateOf(room.id).then((state) => note(room, state), bug)
  }

  return {
    enter(id, member) {
      const room = rooms.get(id) ?? { id, members: new Set<Member>(), last: null, waiting: [], busy: false }
      rooms.set(id, room)
      room.members.add(member)
    },
    leave(id, member) {
      const room = rooms.get(id)
      if (room?.members.delete(member) && room.members.size === 0) rooms.delete(id)
    },
    async begin(id, member) {
      const room = rooms.get(id)
      if (!room) return
      for (;;) {
        member.hasMissed = false
        const state = await stateOf(id)
        const frames = framesOf(null, [state], state.receipt ? await receiptOf(id) : null)
        const may = await mayHear(member.seat, state)
        if (member.hasMissed || room.busy || room.waiting.length > 0) {
          await new Promise(setImmediate)
          continue
        }
        room.last ??= state
        member.isLive = true
        if (!may) member.refuse('request')
        else if (state.receipt) member.finish(frames[member.seat.audience])
        else if (frames[member.seat.audience].length > 0) member.write(frames[member.seat.audience])
        return
      }
    },
    look() {
      const { position } = store.stats()
      if (position > known && rooms.size > 0) reread()
      known = Math.max(known, position)
    },
    size: () => rooms.size,
    stop: unsubscribe,
  }
}
