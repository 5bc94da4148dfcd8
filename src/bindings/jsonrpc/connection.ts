// One connection of lines: JSON messages in, one answer a line out. Nothing is read that there is no room for: beyond a number of calls under
// way or of bytes that the other side has not read, its own buffer fills up and it waits. It knows no method and no refusal: whose wire it
// is says what a message means (`Answering`) and how lines are refused (`Wire`).
import type { Readable, Writable } from 'node:stream'
import { refusedJson } from '#kernel/codec/refused-json.ts'
import { decode } from '#kernel/codec/strict-json.ts'
import { createLineReader, type LineReader } from '#kernel/codec/line-reader.ts'
import type { UnsentAnswers } from '../shared/unsent-answers.ts'

/** Bounds that tests shrink. */
export type ConnectionBounds = {
  readonly lineBytes: number
  readonly calls: number
  readonly batch: number
  readonly unsentHigh: number
  readonly unsentMax: number
}

/** One kind of wire. `Failure`: the format of its refusals. */
export type Wire<Failure> = {
  readonly bounds: ConnectionBounds
  readonly unsent: UnsentAnswers
  readonly refusals: {
    notJson(message: string): Failure
    tooLong(bytesMax: number): Failure
    badBatch(callsMax: number): Failure
    /** The line for a message that is JSON and was refused by the decoder; null: it wants no answer. `repeatsId`: its id is not to be believed. */
    refused(message: unknown, repeatsId: boolean, reason: string): string | null
    /** A refusal that answers no call in particular. */
    line(failure: Failure): string
  }
}

/** The owner's part of a connection. */
export type Answering<Failure> = {
  /** Calls back once with the response line for a message; null: no response is due. A callback saves a promise per call. */
  answer(message: unknown, say: (line: string | null) => void): void
  /** The actor that unread responses of this connection count against. */
  actor(): string
  /** Called when the connection stops reading: send the final lines now. */
  draining(why: Failure | null): void
  closed(): void
}

export type Peer = {
  readonly input: Readable
  readonly output: Writable
  destroy(): void
}

export type Connection<Failure> = {
  readonly wire: Wire<Failure>
  readonly peer: Peer
  readonly answering: Answering<Failure>
  readonly openedAt: number
  /** Aborts waiting calls when the client disconnects; created for the first of them. */
  gone: AbortController | null
  readonly lines: LineReader
  /** When the incomplete line began; null while the connection does not wait for the sender. */
  begunAt: number | null
  underWay: number
  /** Guards against re-entry: a line answered synchronously must not start reading the next line from within this one. */
  working: boolean
  readonly out: string[]
  outChars: number
  readonly waiting: (() => void)[]
  inputOver: boolean
  /** open: reads. draining: answers received messages. over: only flushes to the other side. closed: disconnected. */
  state: 'open' | 'draining' | 'over' | 'closed'
}

/** Grace period after the last response, so that a client that is still writing can read it before the socket closes. */
const LINGER_MS = 1_000

export function openConnection<F>(wire: Wire<F>, peer: Peer, answering: Answering<F>): Connection<F> {
  const connection: Connection<F> = {
    wire,
    peer,
    answering,
    openedAt: performance.now(),
    gone: null,
    lines: createLineReader(wire.bounds.lineBytes),
    begunAt: null,
    underWay: 0,
    working: false,
    out: [],
    outChars: 0,
    waiting: [],
    inputOver: false,
    state: 'open',
  }
  const { input, output } = peer
  input.on('data', (chunk: Uint8Array) => {
    if (connection.state !== 'open') return
    connection.lines.push(chunk)
    work(connection)
  })
  input.on('end', () => {
    connection.inputOver = true
    work(connection)
  })
  const closeNow = (): void => close(connection)
  output.on('error', closeNow).on('close', closeNow)
  // If input and output are two streams, the input closes when it ends, but its calls still need their answers.
  if (input !== (output as unknown)) input.on('error', closeNow).on('close', () => connection.inputOver || closeNow())
  return connection
}

const unsent = <F>({ peer, outChars }: Connection<F>): number => peer.output.writableLength + outChars
const hasRoom = <F>(connection: Connection<F>): boolean =>
  connection.underWay < connection.wire.bounds.calls && unsent(connection) <= connection.wire.bounds.unsentHigh

function work<F>(connection: Connection<F>): void {
  const { lines, peer, wire } = connection
  connection.working = true
  try {
    while (connection.state === 'open' && hasRoom(connection)) {
      const line = lines.next()
      if (line === null) break
      connection.begunAt = null
      receive(connection, line)
    }
  } finally {
    connection.working = false
  }
  if (connection.state !== 'open') return
  if (lines.tooLong) return fail(connection, wire.refusals.tooLong(wire.bounds.lineBytes))
  if (!hasRoom(connection)) {
    peer.input.pause()
    connection.begunAt = null
    return
  }
  if (connection.inputOver) return drain(connection, null)
  connection.begunAt = lines.begun === 0 ? null : (connection.begunAt ?? performance.now())
  if (peer.input.isPaused()) peer.input.resume()
}

/** Wakes calls and streams that wait for room. */
function proceed<F>(connection: Connection<F>): void {
  if (connection.state === 'draining' && connection.underWay === 0) return finish(connection)
  if (unsent(connection) > connection.wire.bounds.unsentHigh) return
  for (const go of connection.waiting.splice(0)) go()
  work(connection)
}

/** Resolves when there is room for one more item, or when the connection ends. */
export function room<F>(connection: Connection<F>): Promise<void> {
  if (connection.state === 'closed' || unsent(connection) <= connection.wire.bounds.unsentHigh) return Promise.resolve()
  return new Promise((go) => connection.waiting.push(go))
}

// --- Lines in --------------------------------------------------------------------------------------------------------------

const [TAB, CR, SPACE] = [9, 13, 32]
/** Whether a line has only JSON whitespace. For nearly every line the first byte decides. */
const isBlank = (line: Uint8Array): boolean => line.every((byte) => byte === SPACE || byte === CR || byte === TAB)

function receive<F>(connection: Connection<F>, line: Uint8Array): void {
  if (isBlank(line)) return
  let message: unknown
  try {
    message = decode(line)
  } catch (error) {
    return refuse(connection, line, (error as Error).message)
  }
  if (Array.isArray(message)) return receiveBatch(connection, message)
  connection.underWay++
  connection.answering.answer(message, (answer) => settle(connection, 1, answer))
}

/** The refusal carries the id of the message, if it is readable, so that the sender can match it. */
function refuse<F>(connection: Connection<F>, line: Uint8Array, reason: string): void {
  const { refusals, bounds } = connection.wire
  const refused = refusedJson(line)
  if (refused === null) return send(connection, refusals.line(refusals.notJson(reason)))
  const { value, repeatsId } = refused
  if (!Array.isArray(value)) {
    const answer = refusals.refused(value, repeatsId(), reason)
    return answer === null ? undefined : send(connection, answer)
  }
  if (value.length > bounds.batch) return send(connection, refusals.line(refusals.badBatch(bounds.batch)))
  const all = value.map((message, i) => refusals.refused(message, repeatsId(i), reason)).filter((answer) => answer !== null)
  if (all.length > 0) send(connection, `[${all.join(',')}]`)
}

function receiveBatch<F>(connection: Connection<F>, batch: readonly unknown[]): void {
  const { bounds, refusals } = connection.wire
  if (batch.length === 0 || batch.length > bounds.batch) return send(connection, refusals.line(refusals.badBatch(bounds.batch)))
  connection.underWay += batch.length
  let chars = 0
  // The responses of a batch are buffered until the last one is ready.
  const holdAnswer = (answer: string | null): string | null => {
    chars += answer?.length ?? 0
    hold(connection, answer?.length ?? 0)
    return answer
  }
  const answering = batch.map(
    (message) => new Promise<string | null>((done) => connection.answering.answer(message, (answer) => done(holdAnswer(answer)))),
  )
  void Promise.all(answering).then((all) => {
    const lines = all.filter((answer) => answer !== null)
    connection.wire.unsent.release(connection.peer.output, chars)
    settle(connection, batch.length, lines.length === 0 ? null : `[${lines.join(',')}]`)
  })
}

function settle<F>(connection: Connection<F>, calls: number, answer: string | null): void {
  if (answer !== null) send(connection, answer)
  connection.underWay -= calls
  if (connection.working) return
  if (connection.state === 'draining' || connection.peer.input.isPaused()) proceed(connection)
}

/** Aborts when the connection stops reading or ends. */
export function goneWith<F>(connection: Connection<F>): AbortSignal {
  connection.gone ??= new AbortController()
  if (connection.state !== 'open') connection.gone.abort()
  return connection.gone.signal
}

// --- Lines out -------------------------------------------------------------------------------------------------------------

export function send<F>(connection: Connection<F>, line: string): void {
  if (connection.state === 'over' || connection.state === 'closed') return
  // A single response has no limit; the responses queued behind an unread one do.
  if (unsent(connection) > connection.wire.bounds.unsentMax) return close(connection)
  connection.out.push(line)
  connection.outChars += line.length + 1
  // Flush after all calls that can be answered now, so that many responses share one write.
  if (connection.out.length === 1) process.nextTick(flush, connection)
}

function flush<F>(connection: Connection<F>): void {
  if (connection.out.length === 0 || connection.state === 'closed') return
  connection.out.push('')
  const text = connection.out.join('\n')
  connection.out.length = 0
  connection.outChars = 0
  const { output } = connection.peer
  let rest = 0
  output.write(text, () => {
    if (rest > 0) connection.wire.unsent.release(output, rest)
    if (connection.state !== 'closed' && (connection.waiting.length > 0 || connection.peer.input.isPaused())) proceed(connection)
  })
  rest = Math.min(text.length, output.writableLength)
  hold(connection, rest)
}

/** Counts unflushed output against the actor. */
function hold<F>({ wire, peer, answering }: Connection<F>, chars: number): void {
  if (chars > 0) wire.unsent.hold(peer.output, answering.actor(), chars)
}

// --- The end ---------------------------------------------------------------------------------------------------------------

/** Sends the reason, answers the calls in flight, and ends. */
export function fail<F>(connection: Connection<F>, failure: F): void {
  if (connection.state !== 'open') return
  send(connection, connection.wire.refusals.line(failure))
  drain(connection, failure)
}

/** Stops reading; ends when the calls in flight are answered. */
export function drain<F>(connection: Connection<F>, why: F | null): void {
  if (connection.state !== 'open') return
  connection.state = 'draining'
  connection.begunAt = null
  connection.gone?.abort()
  connection.answering.draining(why)
  connection.peer.input.resume()
  if (connection.underWay === 0) finish(connection)
}

function finish<F>(connection: Connection<F>): void {
  flush(connection)
  connection.state = 'over'
  connection.peer.output.end(() => {
    if (connection.inputOver) close(connection)
    else setTimeout(() => close(connection), LINGER_MS).unref()
  })
}

export function close<F>(connection: Connection<F>): void {
  if (connection.state === 'closed') return
  connection.state = 'closed'
  connection.gone?.abort()
  for (const go of connection.waiting.splice(0)) go()
  connection.out.length = 0
  connection.peer.destroy()
  connection.answering.closed()
}
