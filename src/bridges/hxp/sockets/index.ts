// Sockets for one request each: /hxp/ws/{request_id} and /hxp/ws?request_id=. They come with a key in the header or with a ticket in the
// address; a cookie counts for nothing here, since any page could have it sent along.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocketServer, type WebSocket } from 'ws'
import type { BridgeHost } from '#bindings/http/mount.ts'
import type { Credential } from '#bindings/http/browser/browser-guard.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { errorAnswer, failureAnswer, foreignPage, sendRaw, type Answer } from '../responses.ts'
import { createListener, type Listener } from './connection.ts'
import { createRooms, type Member, type Seat } from './subscriptions.ts'
import { isForeign } from '../foreign-pages.ts'
import type { Tickets } from './tickets.ts'

export type Sockets = {
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  stop(): void
}

const address = /^\/hxp\/(?:v1\/)?ws\/?(?:\/([A-Za-z0-9_-]{1,80})\/?)?(?:\?|$)/
/** The request that an address is about; empty: it names none; null: it is not the address of a socket. */
export function socketIdIn(url: string): string | null {
  const match = address.exec(url)
  return match && (match[1] ?? queryIn(url).get('request_id') ?? '')
}
const queryIn = (url: string): URLSearchParams => new URLSearchParams(url.includes('?') ? url.slice(url.indexOf('?') + 1) : '')

type Identified = { readonly who: string; caller(): Actor | Promise<Actor> }

export function createSockets(host: BridgeHost, tickets: Tickets): Sockets {
  const { kernel, guard, live, bug } = host
  const { origins = [], recheck = host.authenticate } = live
  const bounds = {
    sockets: live.bounds?.sockets ?? limits.socketsMax,
    recheckMs: live.bounds?.recheckMs ?? limits.streamRecheckMs,
    beatMs: live.bounds?.beatMs ?? limits.streamBeatMs,
    lingerMs: live.bounds?.lingerMs ?? limits.streamLingerMs,
    unsentBytes: live.bounds?.unsentBytes ?? limits.streamUnsentBytesMax,
    stuckMs: live.bounds?.stuckMs ?? limits.streamStuckMs,
    framesPerMinute: live.bounds?.commandsPerMinute ?? limits.socketCommandsPerMinute,
  }
  const server = new WebSocketServer({
    noServer: true,
    // Nobody has anything to say here: the little that is let through is not looked at.
    maxPayload: 1_024,
    perMessageDeflate: false,
    clientTracking: false,
  })
  // The library would answer in HTML.
  server.on('wsClientError', (error, socket, request) =>
    sendRaw(socket, host.headersFor(request), errorAnswer(400, 'invalid_request', error.message, {}, [])),
  )
  const rooms = createRooms(kernel, bug)
  const listeners = new Set<Listener>()
  const seats = new Map<string, Seat>()
  const perActor = new Map<string, number>()
  let stopped = false
  let redeemed = 0

  /** Null: it may go on. The Origin comes before the credential, so that a foreign page learns nothing about it. */
  function refusalOf(request: IncomingMessage): Answer | null {
    const refused = host.refusalOf(request)
    if (refused) return failureAnswer(refused, false)
    if (isForeign(request.headers, guard) && !host.anyOrigin && !origins.includes(request.headers.origin!)) return foreignPage
    if (stopped) return errorAnswer(503, 'unavailable', 'the server is stopping', {}, ['retry-after', '1'])
    return listeners.size < bounds.sockets ? null : errorAnswer(503, 'unavailable', 'there are too many sockets', {}, ['retry-after', '5'])
  }

  async function identifiedIn({ headers, url }: IncomingMessage, id: string): Promise<Identified> {
    const known = (credential: Credential): Identified => ({
      who: sha256(`${credential.kind} ${credential.token}`),
      caller: () => recheck(credential),
    })
    if (headers.authorization !== undefined) {
      const credential = guard.credentialOf(headers)
      await host.authenticate(credential)
      return known(credential)
    }
    const ticket = queryIn(url!).get('ticket')
    if (ticket === null) throw new Refusal('UNAUTHENTICATED', 'a key in the header or a ticket in the address is required')
    const credential = tickets.redeem(ticket, id)
    if (credential) return known(credential)
    // Pages get theirs from identity/ticket.issue.
    if (!live.redeem) throw new Refusal('UNAUTHENTICATED', 'this ticket was used before, has expired, or never existed')
    return { who: `ticket ${++redeemed}`, caller: await live.redeem(ticket) }
  }

  async function seatOf({ who: known, caller }: Identified, headers: IncomingHttpHeaders): Promise<Seat> {
    const actor = await caller()
    const audience = actor.kind !== 'human' ? 'agent' : isForeign(headers, guard) ? 'page' : 'person'
    const who = `${known} ${audience}`
    const seat = seats.get(who) ?? {
      audience,
      actor,
      caller,
      members: new Set<Member>(),
      opening: 0,
    }
    seat.actor = actor
    seat.opening++
    seats.set(who, seat)
    return seat
  }

  function count({ id }: Actor, by: 1 | -1): void {
    const left = (perActor.get(id) ?? 0) + by
    if (left === 0) perActor.delete(id)
    else perActor.set(id, left)
  }

  async function admit(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const refused = refusalOf(request)
    if (refused) return sendRaw(socket, host.headersFor(request), refused)
    const id = socketIdIn(request.url!)!
    const seat = await seatOf(await identifiedIn(request, id), request.headers)
    try {
      await open(request, socket, head, id, seat)
    } finally {
      seat.opening--
    }
  }

  async function open(request: IncomingMessage, socket: Duplex, head: Buffer, id: string, seat: Seat): Promise<void> {
    if (id === '') throw new Refusal('INVALID_REQUEST', 'request_id is required', { field: 'request_id' })
    // Whether it is theirs to hear is asked in the same way as whether it is theirs to read.
    await kernel.call('execution/request.get', { request_id: id }, seat.actor)
    if ((perActor.get(seat.actor.id) ?? 0) >= limits.bridgeSocketsPerActorMax)
      throw new Refusal('QUOTA_EXCEEDED', `one actor has at most ${limits.bridgeSocketsPerActorMax} sockets open at a time`, {
        retry_after: 5,
      })
    const again = refusalOf(request)
    if (again) return sendRaw(socket, host.headersFor(request), again)
    server.handleUpgrade(request, socket, head, (ws: WebSocket) => {
      const listener = createListener(ws, socket, seat, bounds, host.unsent, () => {
        listeners.delete(listener)
        seat.members.delete(listener.member)
        rooms.leave(id, listener.member)
        count(seat.actor, -1)
      })
      listeners.add(listener)
      seat.members.add(listener.member)
      count(seat.actor, 1)
      rooms.enter(id, listener.member)
      rooms.begin(id, listener.member).catch((error: unknown) => {
        bug(error)
        listener.fail()
      })
    })
  }

  /** What was revoked hears nothing any more, within a second. */
  async function checkSeats(): Promise<void> {
    for (const [who, seat] of seats) {
      if (seat.members.size + seat.opening === 0) seats.delete(who)
      else await checkSeat(seat)
    }
  }
  async function checkSeat(seat: Seat): Promise<void> {
    try {
      seat.actor = await seat.caller()
    } catch {
      seat.members.forEach((member) => member.refuse('credential'))
    }
  }
  let checking = false
  const sweep = setInterval(() => {
    rooms.look()
    for (const listener of listeners) listener.watch()
    if (checking) return
    checking = true
    void checkSeats().finally(() => (checking = false))
  }, bounds.recheckMs)
  const beat = setInterval(() => {
    for (const listener of listeners) listener.beat()
  }, bounds.beatMs)

  return {
    upgrade(request, socket, head) {
      socket.on('error', () => socket.destroy())
      admit(request, socket, head).catch((error: unknown) =>
        sendRaw(socket, host.headersFor(request), failureAnswer(host.failed(error, '/hxp/ws'), true)),
      )
    },
    stop() {
      stopped = true
      clearInterval(sweep)
      clearInterval(beat)
      rooms.stop()
      for (const listener of listeners) listener.stop()
    },
  }
}
