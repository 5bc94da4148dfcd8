// Pipelined requests of one connection, in order. HTTP lets a client send the next request before it has read the last response: a few of
// them run, and the others wait until the client has read the earlier responses. A client that sends too far ahead is disconnected.
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { limits } from '#kernel/limits.ts'

type Ahead = { readonly request: IncomingMessage; readonly response: ServerResponse }
type Line = { readonly socket: Socket; underWay: number; readonly ahead: Ahead[] }

const TOO_MUCH = 429
/** From here on the connection is not read: the rest waits in the sender's own buffers. */
const PAUSE_AT = 8

export function inTurn(listener: RequestListener): RequestListener {
  const lines = new WeakMap<Socket, Line>()
  let waiting = 0

  function lineOf(socket: Socket): Line {
    let line = lines.get(socket)
    if (!line) {
      const created: Line = { socket, underWay: 0, ahead: [] }
      lines.set(socket, (line = created))
      socket.once('close', () => {
        waiting -= created.ahead.length
        created.ahead.length = 0
      })
    }
    return line
  }

  /** The first request always runs. Further ones run while the client has read the earlier responses. */
  const mayBegin = ({ underWay, socket }: Line): boolean =>
    underWay === 0 || (underWay < limits.requestsUnderWayMax && socket.writableLength <= limits.unsentBytesHigh)

  function begin(line: Line, request: IncomingMessage, response: ServerResponse): void {
    line.underWay++
    // The operating system has taken the whole response.
    response.once('finish', () => {
      line.underWay--
      if (line.ahead.length === 0) return
      // One 429 is enough for a client that sends too far ahead: close the connection and drop its remaining requests.
      if (response.statusCode === TOO_MUCH) line.socket.destroySoon()
      else goOn(line)
    })
    listener(request, response)
  }

  function goOn(line: Line): void {
    while (line.ahead.length > 0 && mayBegin(line) && !line.socket.destroyed) {
      const { request, response } = line.ahead.shift()!
      waiting--
      begin(line, request, response)
    }
    if (line.ahead.length < PAUSE_AT && line.socket.isPaused()) line.socket.resume()
  }

  return (request, response) => {
    const line = lineOf(request.socket)
    if (line.ahead.length === 0 && mayBegin(line)) return begin(line, request, response)
    line.ahead.push({ request, response })
    waiting++
    const { length } = line.ahead
    if (length > limits.requestsAheadMax || (waiting > limits.requestsAheadTotalMax && length > PAUSE_AT)) return void line.socket.destroy()
    if (length === PAUSE_AT) line.socket.pause()
  }
}
