// Questions to people from any program: the request is created once, the answer is awaited however long it takes, and the
// receipt is verified before anybody acts on it.
import { persistently } from './transport/retry.ts'
import type { Input } from './client.ts'
import {
  answerIn,
  createKeyring,
  endOf,
  NotApproved,
  revealSecret,
  within,
  type Answer,
  type AnswerReceipt,
  type AskedRequest,
  type Ended,
  type WaitOptions,
} from './await-answer.ts'
import { methodsBy, requestOf, type Choice, type Methods, type QuestionName } from './questions.ts'
import { retryNotice } from './retry-notice.ts'
import { newKey, type Transport } from './transport/transport.ts'

type Create = Input<'execution/request.create'>
type OfRequest = 'priority' | 'timeout_seconds' | 'fallback' | 'risk' | 'tags' | 'remind_seconds' | 'escalate' | 'callback'
/** Options of every question, see `execution/request.create`, and how to verify its answer. */
export type QuestionOptions = Pick<Create, OfRequest> &
  Pick<WaitOptions, 'verify' | 'keys' | 'unseal'> & {
    /** Your reason. The page shows that it comes from you. */
    readonly context?: string
    /** Names the question: a restarted program finds it instead of asking twice. */
    readonly key?: string
  }

/** The outcome of a question: receipt and request are null only for an agent's checkpoint that was no request. */
export type Answered<T> = {
  readonly result: T
  readonly reason: string | null
  /** The details as the person approved them; null: as they were asked. */
  readonly edited: Readonly<Record<string, unknown>> | null
  readonly receipt: AnswerReceipt | null
  readonly request: AskedRequest | null
  readonly verified: boolean
}

/**
 * The questions: `client.hxp` asks them from anywhere, `run.ask` within a run. Both throw `NotAnswered` on timeout, and its subclass
 * `Declined` when the person declines to answer.
 */
export type Questions = Methods<QuestionOptions, Answered<unknown>>

/** Further options outside of a run: the rest of `execution/request.create`, and how long to wait here. */
export type HxpOptions = Omit<Create, 'action' | 'payload'> &
  QuestionOptions &
  WaitOptions & {
    /** The idempotency key exactly as sent; takes precedence over `key`. */
    readonly idempotencyKey?: string
    /** Called when the request was created or found again. */
    readonly onAsked?: (request: AskedRequest) => void
  }

export type Hxp = Methods<HxpOptions, Answer> & {
  /** Waits for the answer to a request that was made before. */
  outcome(request_id: string, options?: WaitOptions): Promise<Answer>
}

export function createHxp(transport: Transport): Hxp {
  const keyring = createKeyring(transport)

  async function ask(name: QuestionName, text: string, choices: readonly Choice[], options: HxpOptions): Promise<Answer> {
    const {
      signal,
      timeoutMs,
      cancelOnAbort,
      verify,
      keys,
      onQuestion,
      onRetry,
      onReconnect,
      unseal,
      onAsked,
      key,
      idempotencyKey,
      ...more
    } = options
    const { watch } = retryNotice({ onRetry, onReconnect }, transport.where)
    const input = requestOf(name, text, choices, more)
    const once = idempotencyKey ?? (key === undefined ? newKey() : keyOf(key))
    return within(transport, options, async (leave, known) => {
      const created = await persistently(
        leave,
        () => watch(() => transport.call('execution/request.create', input, { idempotencyKey: once, signal: leave }) as Promise<Ended>),
        // Do not retry: an agent over its quota gets the error, because the quota might never free up.
        'QUOTA_EXCEEDED',
      )
      known(created.request)
      onAsked?.(created.request)
      const ended = created.receipt ? created : await endOf(transport, created.request.id, leave, options, watch)
      const answer = await answerIn(keyring, created.request, ended, options)
      // Anything but a yes is a no, and ends here.
      if (name === 'approve' && answer.result !== 'approved') throw new NotApproved(answer.reason, answer as Answer<'rejected'>)
      return revealSecret(transport, answer, options)
    })
  }

  return {
    ...methodsBy<HxpOptions, Answer>(ask),
    outcome: (request_id, options = {}) =>
      within(transport, options, async (leave, known) => {
        const { watch } = retryNotice(options, transport.where)
        const found = (await persistently(leave, () =>
          watch(() => transport.call('execution/request.get', { request_id }, { idempotencyKey: null, signal: leave })),
        )) as Ended
        known(found.request)
        const ended = found.receipt ? found : await endOf(transport, request_id, leave, options, watch)
        return revealSecret(transport, await answerIn(keyring, ended.request, ended, options), options)
      }),
  }
}

const KEY_CHARS_MAX = 200
function keyOf(key: string): string {
  const encoded = encodeURIComponent(key)
  if (key === '' || encoded.length > KEY_CHARS_MAX)
    throw new TypeError(`a key has 1 to ${KEY_CHARS_MAX} characters, as they stand in an address`)
  return `hxp/${encoded}`
}
