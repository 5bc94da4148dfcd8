// The wait for an answer across failures of network and server. The answer is returned only after its receipt was verified.
import { DECLINED } from '#protocols/execution/answering/receipt-format.ts'
import { isRefusal } from './transport/retry.ts'
import type { Output } from './client.ts'
import { CountersignError, timeoutError } from './errors.ts'
import { type OnRetry, type RetryNotice } from './retry-notice.ts'
import { canonicalDigest, textDigest, verifyReceipt, type ReceiptVerdict } from './receipt.ts'
import { backoffOf, pause, usualRetry, type Transport } from './transport/transport.ts'

export type Ended = Output<'execution/request.get'>
export type AskedRequest = Ended['request']
export type AnswerReceipt = NonNullable<Ended['receipt']>
/** A question that a person asks back, or a reply. */
export type Remark = NonNullable<AskedRequest['thread']>[number]

export type WaitOptions = {
  /** Aborts the wait with its reason. The request stays open unless `cancelOnAbort` is set. */
  readonly signal?: AbortSignal | undefined
  /** How long to wait here; then `NotAnswered` is thrown. How long the request itself waits is its `timeout_seconds`. */
  readonly timeoutMs?: number
  /** Withdraws the request when the waiting is given up. */
  readonly cancelOnAbort?: boolean
  /** False: the receipt is accepted without verification. */
  readonly verify?: boolean
  /** The server's public keys, as saved from /.well-known/jwks.json; by default they are fetched from it. */
  readonly keys?: unknown
  /** Replies to questions that the person asks back before they decide. */
  readonly onQuestion?: OnQuestion
  /** Called for each failed attempt that will be retried, such as while the server is unreachable. By default prints a line to stderr. */
  readonly onRetry?: OnRetry
  /** Called when the server answers again after failed attempts. */
  readonly onReconnect?: () => void
  /** Opens a secret that is sealed to a key of yours (a compact JWE): answers the text in it. Without it the secret is not fetched. */
  readonly unseal?: (sealed: string) => string | Promise<string>
}
type OnQuestion = (question: Remark, request: AskedRequest) => string | Promise<string>
export type Answer<T = unknown> = {
  readonly result: T
  readonly reason: string | null
  /** The details as the person approved them, within the `details_schema`; null: as they were asked. */
  readonly edited: Readonly<Record<string, unknown>> | null
  readonly receipt: AnswerReceipt
  readonly request: AskedRequest
  /** False: there were no keys to verify the receipt with, or it was not wanted. */
  readonly verified: boolean
}

/** No answer: the request expired (`failed`), was withdrawn (`cancelled`), or is still open after `timeoutMs` (`pending`). */
export class NotAnswered extends Error {
  override name = 'NotAnswered'
  readonly status: 'failed' | 'cancelled' | 'pending'
  readonly reason: string | null
  readonly request: AskedRequest
  readonly receipt: AnswerReceipt | null
  constructor(request: AskedRequest, receipt: AnswerReceipt | null) {
    // Without a verified receipt, the status is the server's unsigned one.
    const ending = receipt?.status ?? (request.status === 'cancelled' ? 'cancelled' : 'pending')
    const status = ending === 'cancelled' || ending === 'pending' ? ending : 'failed'
    const reason = receipt?.reason ?? null
    super(`nobody answered ${request.id}: it is ${status}${reason === null ? '' : ` (${reason})`}`)
    this.status = status
    this.reason = reason
    this.request = request
    this.receipt = receipt
  }
}

/** A person declined to answer. `said` is their own text; `reason` is the receipt's reason, `declined: ` followed by that text. */
export class Declined extends NotAnswered {
  override name = 'Declined'
  readonly said: string
  constructor(request: AskedRequest, receipt: AnswerReceipt) {
    super(request, receipt)
    this.said = receipt.reason!.slice(DECLINED.length)
    this.message = `${request.id} was declined: ${this.said}`
  }
}
/** Uses the signed receipt, because the status in the response is not signed. */
const isDeclined = ({ status, reason = '' }: AnswerReceipt): boolean => status === 'failed' && reason.startsWith(DECLINED)

/** A person rejected the request: the action must not happen. */
export class NotApproved extends Error {
  override name = 'NotApproved'
  readonly reason: string | null
  /** The answer with its receipt; null if the rejected checkpoint was not a request. */
  readonly answer: Answer<'rejected'> | null
  constructor(reason: string | null, answer: Answer<'rejected'> | null) {
    super(reason ?? 'rejected')
    this.reason = reason
    this.answer = answer
  }
}

/** A receipt that does not verify: never act on it. */
export class ReceiptDoubted extends Error {
  override name = 'ReceiptDoubted'
  readonly verdict: ReceiptVerdict & { readonly ok: false }
  readonly receipt: AnswerReceipt
  constructor(verdict: ReceiptVerdict & { readonly ok: false }, receipt: AnswerReceipt) {
    super(`the receipt of ${receipt.request_id} cannot be trusted: ${verdict.words}`)
    this.verdict = verdict
    this.receipt = receipt
  }
}

// --- Waiting ---------------------------------------------------------------------------------------------------------------

/** The duration of one long poll; a server with a shorter limit responds earlier. */
const WAIT_S = 50
/** Added to the wait, for the answer to arrive. */
const ANSWER_MS = 15_000
/** The pause between calls to a server that answers without waiting. */
const SOON_MS = 500
const CANCEL_MS = 5_000
const TIMER_MS_MAX = 2 ** 31 - 1

/** Runs until there is an answer, until the caller gives up, or until its time is over. */
export async function within(
  transport: Transport,
  { signal, timeoutMs, cancelOnAbort = false }: WaitOptions,
  work: (leave: AbortSignal, known: (request: AskedRequest) => void) => Promise<Answer>,
): Promise<Answer> {
  signal?.throwIfAborted()
  const late = new AbortController()
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => late.abort(), Math.min(timeoutMs, TIMER_MS_MAX))
  let request: AskedRequest | null = null
  try {
    return await work(signal ? AbortSignal.any([signal, late.signal]) : late.signal, (created) => (request = created))
  } catch (error) {
    if (!signal?.aborted && !late.signal.aborted) throw error
    const created = request as AskedRequest | null
    const ended = cancelOnAbort && created !== null ? await withdraw(transport, created.id) : null
    if (signal?.aborted) throw signal.reason
    throw created === null ? timeoutError(timeoutMs!) : new NotAnswered(ended?.request ?? created, null)
  } finally {
    clearTimeout(timer)
  }
}

/** Cancels the request. Returns null if the call fails or another caller ended the request first. */
async function withdraw(transport: Transport, request_id: string): Promise<Ended | null> {
  const signal = AbortSignal.timeout(CANCEL_MS)
  return (await transport.call('execution/request.cancel', { request_id }, { signal }).catch(() => null)) as Ended | null
}

export async function endOf(
  transport: Transport,
  request_id: string,
  leave: AbortSignal,
  { onQuestion }: WaitOptions,
  watch: RetryNotice['watch'],
): Promise<Ended> {
  const call = (operation: string, input: object, timeoutMs: number): Promise<Ended> =>
    transport.call(operation, { request_id, ...input }, { idempotencyKey: null, signal: leave, timeoutMs }) as Promise<Ended>
  let seen = 0
  // After a failure the first call does not wait: its answer shows that the server is back.
  let isAway = false
  for (let failures = 0; ;) {
    leave.throwIfAborted()
    const began = performance.now()
    try {
      const isProbe = isAway
      const wait = { wait: isProbe ? 0 : WAIT_S, ...(onQuestion ? { seen } : {}) }
      const found = await watch(() =>
        call('execution/request.await', wait, WAIT_S * 1_000 + ANSWER_MS).catch((error: unknown) => {
          // A caller that cannot long-poll can still poll.
          if (isRefusal(error, 'BUSY', 'QUOTA_EXCEEDED')) return call('execution/request.get', {}, ANSWER_MS)
          throw error
        }),
      )
      if (found.receipt) return found
      isAway = false
      failures = !isProbe && performance.now() - began < SOON_MS ? failures + 1 : 0
      const { thread = [] } = found.request
      if (onQuestion && thread.length > seen) {
        await replyTo(transport, found.request, onQuestion, leave)
        seen = thread.length
        failures = 0
      }
      if (failures > 0) await pause(Math.max(SOON_MS, backoffOf(usualRetry, failures)), leave)
    } catch (error) {
      leave.throwIfAborted()
      if (!(error instanceof CountersignError) || !error.retryable) throw error
      isAway = true
      await pause(Math.max(backoffOf(usualRetry, ++failures), error.retryAfterMs ?? 0), leave)
    }
  }
}

/** Each question has one reply, in its turn. */
async function replyTo(transport: Transport, request: AskedRequest, onQuestion: OnQuestion, leave: AbortSignal): Promise<void> {
  const { id: request_id, thread = [] } = request
  const questions = thread.filter(({ kind }) => kind === 'question')
  const replied = thread.length - questions.length
  for (const [number, question] of questions.entries()) {
    if (number < replied) continue
    const text = await onQuestion(question, request)
    try {
      // The same question gets the same reply, even if the response to the reply was lost.
      const idempotencyKey = `${request_id}/reply/${number}`
      await transport.call('execution/request.reply', { request_id, text }, { idempotencyKey, signal: leave })
    } catch (error) {
      // A person has decided in the meantime, or another process has replied.
      if (!isRefusal(error, 'PRECONDITION_FAILED', 'ALREADY_RESOLVED', 'EXPIRED')) throw error
    }
  }
}

// --- The receipt -----------------------------------------------------------------------------------------------------------

type Keyring = { keys(isFresh: boolean): Promise<unknown> }

/** The public keys, fetched on first use, and again when a receipt names an unknown one. */
export function createKeyring(transport: Transport): Keyring {
  let known: Promise<unknown> | null = null
  return {
    keys(isFresh) {
      if (isFresh || known === null) {
        const fetched = transport.keys ? transport.keys() : Promise.resolve(null)
        known = fetched
        fetched.catch(() => known === fetched && (known = null))
      }
      return known
    },
  }
}

export async function answerIn(keyring: Keyring, asked: AskedRequest, { request, receipt }: Ended, options: WaitOptions): Promise<Answer> {
  const signed = receipt!
  const verified = options.verify === false ? false : await isVerified(keyring, asked, signed, options.keys)
  if (isDeclined(signed)) throw new Declined(request, signed)
  if (signed.status !== 'completed') throw new NotAnswered(request, signed)
  const edited = (signed.edited ?? null) as Answer['edited']
  return { result: signed.result, reason: signed.reason ?? null, edited, receipt: signed, request, verified }
}

async function isVerified(keyring: Keyring, asked: AskedRequest, receipt: AnswerReceipt, given: unknown): Promise<boolean> {
  const verifyWith = async (isFresh: boolean): Promise<ReceiptVerdict | null> => {
    const jwks = given ?? (await keyring.keys(isFresh))
    if (jwks === null) return null
    return verifyReceipt(receipt, { jwks, request: asked, requestDigest: digestOf, audience: asked.agent_id })
  }
  let verdict = await verifyWith(false)
  if (verdict?.ok === false && verdict.reason === 'unknown_key' && given === undefined) verdict = await verifyWith(true)
  if (verdict?.ok === false) throw new ReceiptDoubted(verdict, receipt)
  return verdict !== null
}

/** The question as the server digests it: a deadline that was moved later is not part of it. */
function digestOf(request: unknown): Promise<string> {
  const { id, action, agent_id, payload, created_at, expires_at, asked_until = expires_at } = request as AskedRequest
  return canonicalDigest({ action, agent_id, created_at, expires_at: asked_until, payload, request_id: id })
}

// --- Secrets ---------------------------------------------------------------------------------------------------------------

type Reference = {
  readonly secret_id: string
  readonly commitment: string
  readonly sealed_to: string
  readonly sealed_by?: string
}
type Taken = { readonly value: string | number | null; readonly salt: string | null; readonly sealed: string | null }
type Opened = { readonly value: string | number; readonly salt: string }

/** The answer with the secret that its receipt only commits to. It is handed over once: an agent that loses it asks again. */
export async function revealSecret(transport: Transport, answer: Answer, { unseal, signal }: WaitOptions): Promise<Answer> {
  const { payload, id: request_id } = answer.request
  const isSecret = 'sensitive' in payload && payload.sensitive === true
  const reference = answer.result as Reference | null
  if (!isSecret || typeof reference?.commitment !== 'string' || (reference.sealed_to === 'agent' && !unseal)) return answer
  const taken = (await transport.call('execution/secret.take', { request_id }, { signal })) as Taken
  if (taken.sealed === null && taken.value === null) {
    const message = 'the secret was handed over once, and did not arrive: ask again'
    throw new CountersignError({ code: 'GONE', status: 410, message, retryable: false })
  }
  const { value, salt } = taken.sealed === null ? (taken as Opened) : (JSON.parse(await unseal!(taken.sealed)) as Opened)
  // The server never sees the plain text of an answer that the person sealed, so the receipt commits to the sealed text.
  const committed = reference.sealed_by === 'person' ? taken.sealed! : `${salt}${typeof value === 'string' ? value : JSON.stringify(value)}`
  const digest = await textDigest(committed)
  if (digest === reference.commitment) return { ...answer, result: value }
  const verdict = { ok: false, reason: 'changed', words: 'the secret is not the one that was answered', fields: ['result'] } as const
  throw new ReceiptDoubted(verdict, answer.receipt)
}
