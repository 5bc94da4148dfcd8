// One JSON-RPC connection: lines in, lines out. Nothing is read that there is no room for: beyond a number of calls under way or of bytes
// that the other side has not taken, its own buffer fills up and it waits.
import type { Readable, Writable } from 'node:stream'
import type { Actor } from '#kernel/declare/access.ts'
import { decode } from '#kernel/codec/strict-json.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { createLines, type Lines } from '#kernel/codec/line-reader.ts'
import type { CallMeter } from '../shared/call-metrics.ts'
import type { Unsent } from '../shared/unsent-answers.ts'
import * as answers from './responses.ts'
import type { Failure } from './responses.ts'
import { answerTo } from './requests.ts'

export type Credential = { readonly kind: 'bearer'; readonly token: string }

/** What a test may shrink. */
export type JsonRpcBounds = {
  readonly lineBytes: number
  readonly lineMs: number
  readonly stallMs: number
  readonly calls: number
  readonly follows: number
  readonly batch: number
  readonly unsentHigh: number
  readonly unsentMax: number
  readonly connections: number
  readonly stopMs: number
}

export type Method = {
  readonly meter: CallMeter
  /** The result as text. */ text(result: unknown): string
  run(session: Session, params: object): Promise<unknown>
}

export type Shared = {
  readonly kernel: Kernel
  authenticate(credential: Credential): Actor | Promise<Actor>
  readonly log: { error(fields: object, words: string): void }
  readonly unsent: Unsent
  readonly bounds: JsonRpcBounds
  readonly methods: ReadonlyMap<string, Method>
}

export type Peer = {
  readonly input: Readable
  readonly output: Writable
  destroy(): void
}

export type Session = {
  readonly shared: Shared
  readonly peer: Peer
  readonly openedAt: number
  readonly follows: Map<number, AbortController>
  /** Ends calls that wait when nobody is there to be answered; made for the first of them. */
  gone: AbortController | null
  lastFollow: number
  credential: Credential | null
  /** A call that comes right behind rpc.authenticate waits for it. */
  authenticating: Promise<unknown> | null
  /** Who the connection's credential stands for, for the calls of one portion. */
  identified: Actor | Promise<Actor> | null
  /** Somebody has shown a good credential here. */
  known: boolean
  /** The last who called: what this connection does not read is theirs. */
  actor: string
  readonly lines: Lines
  /** When the line began whose end has not come; null while it is not the sender who keeps us waiting. */
  begunAt: number | null
  underWay: number
  /** Lines are being taken. What is answered at once must not begin to take the next one inside this one. */
  working: boolean
  readonly out: string[]
  outChars: number
  readonly waiting: (() => void)[]
  inputOver: boolean
  /** open: reads. draining: answers what it has taken. over: only lets the other side read. closed: gone. */
  state: 'open' | 'draining' | 'over' | 'closed'
  readonly onClosed: () => void
}

/** After the last answer, so that one who is still writing reads it before the socket goes away under them. */
const LINGER_MS = 1_000

export function openSession(shared: Shared, peer: Peer, onClosed: () => void): Session {
  const session: Session = {
    shared,
    peer,
    openedAt: performance.now(),
    follows: new Map(),
    gone: null,
    lastFollow: 0,
    credential: null,
    authenticating: null,
    identified: null,
    known: false,
    actor: '',
    lines: createLines(shared.bounds.lineBytes),
    begunAt: null,
    underWay: 0,
    working: false,
    out: [],
    outChars: 0,
    waiting: [],
    inputOver: false,
    state: 'open',
    onClosed,
  }
  const { input, output } = peer
  input.on('data', (chunk: Uint8Array) => {
    if (session.state !== 'open') return
    session.lines.push(chunk)
    work(session)
  })
  input.on('end', () => {
    session.inputOver = true
    work(session)
  })
  const gone = (): void => close(session)
  output.on('error', gone).on('close', gone)
  // Where input and output are two streams, the first is gone as soon as it has ended, and its calls still want their answers.
  if (input !== (output as unknown)) input.on('error', gone).on('close', () => session.inputOver || gone())
  return session
}

const unsent = ({ peer, outChars }: Session): number => peer.output.writableLength + outChars
const hasRoom = (session: Session): boolean =>
  session.underWay < session.shared.bounds.calls && unsent(session) <= session.shared.bounds.unsentHigh

function work(session: Session): void {
  const { lines, peer, shared } = session
  session.working = true
  try {
    while (session.state === 'open' && hasRoom(session)) {
      const line = lines.next()
      if (line === null) break
      session.begunAt = null
      receive(session, line)
    }
  } finally {
    session.working = false
  }
  if (session.state !== 'open') return
  if (lines.tooLong) return fail(session, answers.tooLarge(`a line has at most ${shared.bounds.lineBytes} bytes`))
  if (!hasRoom(session)) {
    peer.input.pause()
    session.begunAt = null
    return
  }
  if (session.inputOver) return drain(session, null)
  session.begunAt = lines.begun === 0 ? null : (session.begunAt ?? performance.now())
  if (peer.input.isPaused()) peer.input.resume()
}

/** Room again, for calls and for streams. */
function proceed(session: Session): void {
  if (session.state === 'draining' && session.underWay === 0) return finish(session)
  if (unsent(session) > session.shared.bounds.unsentHigh) return
  for (const go of session.waiting.splice(0)) go()
  work(session)
}

/** Resolves when there is room for one more item, or when the connection ends. */
export function room(session: Session): Promise<void> {
  if (session.state === 'closed' || unsent(session) <= session.shared.bounds.unsentHigh) return Promise.resolve()
  return new Promise((go) => session.waiting.push(go))
}

// --- Lines in --------------------------------------------------------------------------------------------------------------

const CR = 13
const isBlank = (line: Uint8Array): boolean => line.length === 0 || (line.length === 1 && line[0] === CR)

function receive(session: Session, line: Uint8Array): void {
  if (isBlank(line)) return
  let message: unknown
  try {
    message = decode(line)
  } catch (error) {
    send(session, answers.failureLine(null, answers.notJson((error as Error).message)))
    return
  }
  if (Array.isArray(message)) return receiveBatch(session, message)
  session.underWay++
  answerTo(session, message, (answer) => settle(session, 1, answer))
}

function receiveBatch(session: Session, batch: readonly unknown[]): void {
  const { bounds } = session.shared
  if (batch.length === 0 || batch.length > bounds.batch) {
    send(session, answers.failureLine(null, answers.notRequest(`a batch holds 1 to ${bounds.batch} calls`)))
    return
  }
  session.underWay += batch.length
  let chars = 0
  // The first answers wait for the last one: all of them are kept meanwhile.
  const kept = (answer: string | null): string | null => {
    chars += answer?.length ?? 0
    hold(session, answer?.length ?? 0)
    return answer
  }
  const answering = batch.map((message) => new Promise<string | null>((done) => answerTo(session, message, (answer) => done(kept(answer)))))
  void Promise.all(answering).then((all) => {
    const lines = all.filter((answer) => answer !== null)
    session.shared.unsent.release(session.peer.output, chars)
    settle(session, batch.length, lines.length === 0 ? null : `[${lines.join(',')}]`)
  })
}

function settle(session: Session, calls: number, answer: string | null): void {
  if (answer !== null) send(session, answer)
  session.underWay -= calls
  if (session.working) return
  if (session.state === 'draining' || session.peer.input.isPaused()) proceed(session)
}

/** Aborts when the connection takes nothing more or is over. */
export function goneWith(session: Session): AbortSignal {
  session.gone ??= new AbortController()
  if (session.state !== 'open') session.gone.abort()
  return session.gone.signal
}

// --- Lines out -------------------------------------------------------------------------------------------------------------

export function send(session: Session, line: string): void {
  if (session.state === 'over' || session.state === 'closed') return
  // A single answer may be as large as it is; what piles up behind one that is not taken may not.
  if (unsent(session) > session.shared.bounds.unsentMax) return close(session)
  session.out.push(line)
  session.outChars += line.length + 1
  // After everything that can be answered now, so that many answers are one write.
  if (session.out.length === 1) process.nextTick(flush, session)
}

function flush(session: Session): void {
  if (session.out.length === 0 || session.state === 'closed') return
  session.out.push('')
  const text = session.out.join('\n')
  session.out.length = 0
  session.outChars = 0
  const { output } = session.peer
  let rest = 0
  output.write(text, () => {
    if (rest > 0) session.shared.unsent.release(output, rest)
    if (session.state !== 'closed' && (session.waiting.length > 0 || session.peer.input.isPaused())) proceed(session)
  })
  rest = Math.min(text.length, output.writableLength)
  hold(session, rest)
}

/** So much of what was said waits to be taken. */
function hold({ shared, peer, actor }: Session, chars: number): void {
  if (chars > 0) shared.unsent.hold(peer.output, actor, chars)
}

// --- The end ---------------------------------------------------------------------------------------------------------------

/** Says why, answers what was taken, and ends. */
export function fail(session: Session, failure: Failure): void {
  if (session.state !== 'open') return
  send(session, answers.failureLine(null, failure))
  drain(session, failure)
}

/** Takes nothing more; ends when the calls under way are answered. */
export function drain(session: Session, why: Failure | null): void {
  if (session.state !== 'open') return
  session.state = 'draining'
  session.begunAt = null
  session.gone?.abort()
  for (const [id, stop] of session.follows) {
    stop.abort()
    send(session, answers.endLine(id, why))
  }
  session.peer.input.resume()
  if (session.underWay === 0) finish(session)
}

function finish(session: Session): void {
  flush(session)
  session.state = 'over'
  session.peer.output.end(() => {
    if (session.inputOver) close(session)
    else setTimeout(() => close(session), LINGER_MS).unref()
  })
}

export function close(session: Session): void {
  if (session.state === 'closed') return
  session.state = 'closed'
  session.gone?.abort()
  for (const stop of session.follows.values()) stop.abort()
  for (const go of session.waiting.splice(0)) go()
  session.out.length = 0
  session.peer.destroy()
  session.onClosed()
}
