// Asking a person, wherever the program runs: the request is made once, what they say is waited for however long it takes, and the
// receipt is verified before anybody acts on it.
import { persistently } from './calls.ts'
import type { Input } from './client.ts'
import {
  answerIn,
  createKeyring,
  endOf,
  NotApproved,
  revealed,
  within,
  type Answer,
  type Approval,
  type AskedRequest,
  type Ended,
  type WaitOptions,
} from './outcome.ts'
import { newKey, type Transport } from './transport.ts'

type Create = Input<'execution/request.create'>
export type HxpOptions = Omit<Create, 'action' | 'payload'> &
  WaitOptions & {
    /** Why, in your words: the person is told that they are yours. */
    readonly context?: string
    /** Names the question: a program that starts again finds its request instead of asking twice, for a week. */
    readonly key?: string
    /** The same, as it is sent. */
    readonly idempotencyKey?: string
    /** The request was made, or found again. */
    readonly onAsked?: (request: AskedRequest) => void
  }

type Payloads = Extract<AskedRequest['payload'], { readonly prompt: string }>
export type InputType = Payloads['input_type']
type Provided<T extends InputType> = T extends 'number'
  ? number
  : T extends 'selection'
    ? string | number | (string | number)[]
    : T extends 'file'
      ? Readonly<Record<string, unknown>>
      : string

export type Hxp = {
  /** Asks for one of two to six options. */
  decide<const O extends string>(
    question: string,
    options: readonly O[],
    more?: HxpOptions & { readonly default_option?: NoInfer<O> },
  ): Promise<Answer<O>>
  /** Asks for a yes or a no. A no is an answer too, unless `orThrow` says otherwise. */
  approve(
    item: string,
    details?: Readonly<Record<string, unknown>>,
    more?: HxpOptions & { readonly reject_requires_reason?: boolean; readonly scope?: string; readonly orThrow?: boolean },
  ): Promise<Approval>
  /** Asks for something that only a person has. */
  provide<T extends InputType = 'text'>(
    prompt: string,
    type?: T,
    more?: HxpOptions & {
      readonly placeholder?: string
      readonly validation?: Payloads['validation']
      readonly sensitive?: boolean
    },
  ): Promise<Answer<Provided<T>>>
  /** Waits for the answer to a request that was made before. */
  outcome(request_id: string, options?: WaitOptions): Promise<Answer>
}

export function createHxp(transport: Transport): Hxp {
  const keyring = createKeyring(transport)

  async function ask(action: Create['action'], payload: object, options: HxpOptions): Promise<Answer> {
    const { signal, timeoutMs, cancelOnAbort, verify, keys, onQuestion, unseal, onAsked, context, key, idempotencyKey, ...more } = options
    const input = { ...more, action, payload: context === undefined ? payload : { ...payload, context } }
    const once = idempotencyKey ?? (key === undefined ? newKey() : keyOf(key))
    return within(transport, options, async (leave, known) => {
      const made = await persistently(
        leave,
        () => transport.call('execution/request.create', input, { idempotencyKey: once, signal: leave }) as Promise<Ended>,
        // Who asks too much is told so, and not made to wait for a room that may never be.
        'QUOTA_EXCEEDED',
      )
      known(made.request)
      onAsked?.(made.request)
      const ended = made.receipt ? made : await endOf(transport, made.request.id, leave, options)
      return revealed(transport, await answerIn(keyring, made.request, ended, options), options)
    })
  }

  return {
    async decide(question, choices, { default_option, ...more } = {}) {
      const payload = { question, options: [...choices], ...(default_option === undefined ? {} : { default_option }) }
      return (await ask('DECIDE', payload, more)) as never
    },
    async approve(item, details = {}, { reject_requires_reason, scope, orThrow = false, ...more } = {}) {
      const payload = { item, details, ...given({ reject_requires_reason, scope }) }
      const answer = (await ask('APPROVE', payload, more)) as Answer<'approved' | 'rejected'>
      const approval = { ...answer, approved: answer.result === 'approved' }
      if (orThrow && !approval.approved) throw new NotApproved(approval)
      return approval
    },
    async provide(prompt, type, { placeholder, validation, sensitive, ...more } = {}) {
      const payload = { prompt, input_type: type ?? 'text', ...given({ placeholder, validation, sensitive }) }
      return (await ask('PROVIDE', payload, more)) as never
    },
    outcome: (request_id, options = {}) =>
      within(transport, options, async (leave, known) => {
        const found = (await persistently(leave, () =>
          transport.call('execution/request.get', { request_id }, { idempotencyKey: null, signal: leave }),
        )) as Ended
        known(found.request)
        const ended = found.receipt ? found : await endOf(transport, request_id, leave, options)
        return revealed(transport, await answerIn(keyring, ended.request, ended, options), options)
      }),
  }
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
