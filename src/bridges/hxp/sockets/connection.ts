// One WebSocket connection. It only receives; frames from the client are ignored.
import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import type { Unsent } from '#bindings/shared/unsent-answers.ts'
import { limits } from '#kernel/limits.ts'
import { createMeter } from '#kernel/codec/rate-limit.ts'
import type { Member, Seat } from './subscriptions.ts'

type Bounds = {
  readonly lingerMs: number
  readonly unsentBytes: number
  readonly stuckMs: number
  readonly framesPerMinute: number
}

export type Listener = {
  readonly member: Member
  /** Whether it takes what it is sent. */
  watch(): void
  beat(): void
  fail(): void
  stop(): void
}

/** RFC 6455 leaves 4000 to 4999 to us; the last digits are those of the status that HTTP would have answered. */
const closings = {
  done: 1000,
  stopping: 1001,
  notText: 1003,
  tooMany: 1008,
  failed: 1011,
  slow: 4008,
  credential: 4401,
  request: 4403,
} as const

export function createListener(ws: WebSocket, socket: Duplex, seat: Seat, bounds: Bounds, unsent: Unsent, left: () => void): Listener {
  const meter = createMeter(bounds.framesPerMinute, () => performance.now())
  let alive = true
  let isOver = false
  /** Since when something waits to be taken; 0: nothing does. */
  let fullSince = 0
  let linger: NodeJS.Timeout | undefined

  function close(code: number, reason: string, lingerMs = bounds.lingerMs): void {
    if (isOver) return
    isOver = true
    ws.close(code, reason)
    linger = setTimeout(() => ws.terminate(), lingerMs)
  }

  /** The frame is ready: what the library would do with it is done, once for everybody who gets it. */
  function write(bytes: Buffer): void {
    if (isOver || !socket.writable) return
    if (socket.writableLength + bytes.length > bounds.unsentBytes) return close(closings.slow, 'the client does not read its events', 1)
    socket.write(bytes, () => unsent.release(socket, bytes.length))
    if (socket.writableLength > 0) unsent.hold(socket, seat.actor.id, bytes.length)
  }

  const member: Member = {
    seat,
    isLive: false,
    hasMissed: false,
    write,
    finish(bytes) {
      socket.cork()
      write(bytes)
      close(closings.done, '')
      socket.uncork()
    },
    refuse: (why) => close(closings[why], 'you have no access to this request any more'),
  }

  // It is let through and not looked at, but not without end.
  ws.on('message', (_, isBinary: boolean) => {
    if (isBinary) close(closings.notText, 'frames are text')
    else if (!meter.take('')) close(closings.tooMany, `at most ${bounds.framesPerMinute} frames a minute`)
  })
  ws.on('pong', () => (alive = true))
  // Frames that are none: the library closes the socket with the code that the standard names.
  ws.on('error', () => undefined)
  ws.on('close', () => {
    isOver = true
    clearTimeout(linger)
    left()
  })

  return {
    member,
    watch() {
      if (socket.writableLength === 0) fullSince = 0
      else if (fullSince === 0) fullSince = performance.now()
      else if (performance.now() - fullSince > bounds.stuckMs) ws.terminate()
    },
    beat() {
      if (!alive) return ws.terminate()
      alive = false
      if (ws.readyState === ws.OPEN) ws.ping()
    },
    fail: () => close(closings.failed, 'an internal error occurred; it was logged'),
    stop: () => close(closings.stopping, 'the server is stopping', Math.min(bounds.lingerMs, limits.streamStopMs)),
  }
}
