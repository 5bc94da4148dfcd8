// Asking a person, wherever the program runs: the request is made once, what they say is waited for however long it takes, and the
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
import { retryNotice } from './retry-notice.ts'
import { newKey, type Transport } from './transport/transport.ts'

type Create = Input<'execution/request.create'>
type OfRequest = 'priority' | 'timeout_seconds' | 'fallback' | 'risk' | 'tags' | 'remind_seconds' | 'escalate' | 'callback'
/** Options that every question may carry besides its words, see `execution/request.create`; and how its answer is proven. */
export type QuestionOptions = Pick<Create, OfRequest> &
  Pick<WaitOptions, 'verify' | 'keys' | 'unseal'> & {
    /** Why, in your words: the person is told that they are yours. */
    readonly context?: string
    /** Names the question: a program that starts again finds it instead of asking twice. */
    readonly key?: string
  }
export type ApproveOptions = {
  /** The thing to be approved, in full. */
  readonly details?: Readonly<Record<string, unknown>>
  /** A JSON Schema: the person may edit the details within it, and the answer holds them as `edited`. */
  readonly details_schema?: Readonly<Record<string, unknown>>
  readonly reject_requires_reason?: boolean
  /** The scope of a grant that may answer it. */
  readonly scope?: string
}
export type DecideOptions<O extends string> = { readonly default_option?: O }
export type ProvideOptions<T extends InputType> = {
  /** Text by default. */
  readonly input_type?: T
  readonly placeholder?: string
  readonly validation?: Payloads['validation']
  readonly sensitive?: boolean
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

/** The three questions: `client.hxp` asks them from anywhere, `run.ask` within a run. Both throw `NotAnswered` when their time is over, and `Declined`, which is one, when a person would not answer. */
export type Questions = {
  /** Asks for a yes. Throws `NotApproved` for a no. */
  approve(item: string, options?: QuestionOptions & ApproveOptions): Promise<Answered<'approved'>>
  /** Asks for one of two to six options. */
  decide<const O extends string>(
    question: string,
    choices: readonly O[],
    options?: QuestionOptions & DecideOptions<NoInfer<O>>,
  ): Promise<Answered<O>>
  /** Asks for something that only a person has. */
  provide<const T extends InputType = 'text'>(prompt: string, options?: QuestionOptions & ProvideOptions<T>): Promise<Answered<Provided<T>>>
}

/** Besides, outside of a run: the rest of `execution/request.create`, and how long to wait here. */
export type HxpOptions = Omit<Create, 'action' | 'payload'> &
  QuestionOptions &
  WaitOptions & {
    /** The same as `key`, as it is sent. */
    readonly idempotencyKey?: string
    /** The request was made, or found again. */
    readonly onAsked?: (request: AskedRequest) => void
  }

type Payloads = Extract<AskedRequest['payload'], { readonly prompt: string }>
export type InputType = Payloads['input_type']
export type Provided<T extends InputType> = T extends 'number'
  ? number
  : T extends 'selection'
    ? string | number | (string | number)[]
    : T extends 'file'
      ? Readonly<Record<string, unknown>>
      : string

export type Hxp = {
  /** Asks for a yes. Throws `NotApproved` for a no. */
  approve(item: string, options?: HxpOptions & ApproveOptions): Promise<Answer<'approved'>>
  /** Asks for one of two to six options. */
  decide<const O extends string>(
    question: string,
    choices: readonly O[],
    options?: HxpOptions & DecideOptions<NoInfer<O>>,
  ): Promise<Answer<O>>
  /** Asks for something that only a person has. */
  provide<const T extends InputType = 'text'>(prompt: string, options?: HxpOptions & ProvideOptions<T>): Promise<Answer<Provided<T>>>
  /** Waits for the answer to a request that was made before. */
  outcome(request_id: string, options?: WaitOptions): Promise<Answer>
}

export function createHxp(transport: Transport): Hxp {
  const keyring = createKeyring(transport)

  async function ask<T>(action: Create['action'], payload: object, options: HxpOptions): Promise<Answer<T>> {
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
      context,
      key,
      idempotencyKey,
      ...more
    } = options
    const { watch } = retryNotice({ onRetry, onReconnect }, transport.where)
    const input = { ...more, action, payload: context === undefined ? payload : { ...payload, context } }
    const once = idempotencyKey ?? (key === undefined ? newKey() : keyOf(key))
    const answer = await within(transport, options, async (leave, known) => {
      const made = await persistently(
        leave,
        () => watch(() => transport.call('execution/request.create', input, { idempotencyKey: once, signal: leave }) as Promise<Ended>),
        // An agent that asks too much is told so, and not made to wait for a room that may never be.
        'QUOTA_EXCEEDED',
      )
      known(made.request)
      onAsked?.(made.request)
      const ended = made.receipt ? made : await endOf(transport, made.request.id, leave, options, watch)
      return revealSecret(transport, await answerIn(keyring, made.request, ended, options), options)
    })
    return answer as Answer<T>
  }

  return {
    async decide(question, choices, { default_option, ...more } = {}) {
      const payload = { question, options: [...choices], ...(default_option === undefined ? {} : { default_option }) }
      return ask('DECIDE', payload, more)
    },
    async approve(item, { details = {}, details_schema, reject_requires_reason, scope, ...more } = {}) {
      const payload = { item, details, ...given({ details_schema, reject_requires_reason, scope }) }
      return requireApproved(await ask('APPROVE', payload, more))
    },
    async provide(prompt, { input_type, placeholder, validation, sensitive, ...more } = {}) {
      const payload = { prompt, input_type: input_type ?? 'text', ...given({ placeholder, validation, sensitive }) }
      return ask('PROVIDE', payload, more)
    },
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

/** Anything but a yes is a no, and ends here. */
function requireApproved(answer: Answer<'approved' | 'rejected'>): Answer<'approved'> {
  if (answer.result !== 'approved') throw new NotApproved(answer.reason, answer as Answer<'rejected'>)
  return answer as Answer<'approved'>
}

/** Without what was not given. */
const given = (fields: Readonly<Record<string, unknown>>): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

const KEY_CHARS_MAX = 200
function keyOf(key: string): string {
  const encoded = encodeURIComponent(key)
  if (key === '' || encoded.length > KEY_CHARS_MAX)
    throw new TypeError(`a key has 1 to ${KEY_CHARS_MAX} characters, as they stand in an address`)
  return `hxp/${encoded}`
}
