// The questions that a program can ask a person, one entry for each action of HXP: its method, its own options and its payload. `client.hxp` and
// `run.ask` both have these methods.
import type { Input } from './client.ts'
import type { AskedRequest } from './await-answer.ts'

type Create = Input<'execution/request.create'>

export type ApproveOptions = {
  /** The thing to be approved, in full. */
  readonly details?: Readonly<Record<string, unknown>>
  /** A JSON Schema: the person can edit the details within it, and the answer has them as `edited`. */
  readonly details_schema?: Readonly<Record<string, unknown>>
  readonly reject_requires_reason?: boolean
  /** The scope of a grant that can answer it. */
  readonly scope?: string
}
export type DecideOptions<O extends string> = { readonly default_option?: O }
type ProvidePayload = Extract<AskedRequest['payload'], { readonly prompt: string }>
export type InputType = ProvidePayload['input_type']
export type ProvideOptions<T extends InputType> = {
  /** Text by default. */
  readonly input_type?: T
  readonly placeholder?: string
  readonly validation?: ProvidePayload['validation']
  readonly sensitive?: boolean
}
export type ClaimOptions = {
  /** At most 20: text, artifact versions, links. */
  readonly evidence?: Extract<AskedRequest['payload'], { readonly claim: string }>['evidence']
}

export type Provided<T extends InputType> = T extends 'number'
  ? number
  : T extends 'selection'
    ? string | number | (string | number)[]
    : T extends 'file'
      ? Readonly<Record<string, unknown>>
      : string
const verdicts = ['confirmed', 'refuted', 'cannot_tell'] as const

type With<A, T> = Omit<A, 'result'> & { readonly result: T }
/** `O`: the options that every question takes. `A`: its answer, without the type of the result. */
export type Methods<O, A> = {
  /** Asks for a yes. A no is thrown: `NotApproved`, within a run `Rejected`. */
  approve(item: string, options?: O & ApproveOptions): Promise<With<A, 'approved'>>
  /** Asks for one of two to six options. */
  decide<const C extends string>(question: string, choices: readonly C[], options?: O & DecideOptions<NoInfer<C>>): Promise<With<A, C>>
  /** Asks for something that only a person has. */
  provide<const T extends InputType = 'text'>(prompt: string, options?: O & ProvideOptions<T>): Promise<With<A, Provided<T>>>
  verify(claim: string, options?: O & ClaimOptions): Promise<With<A, (typeof verdicts)[number]>>
}

/** An option by its id, which is then also its label, at low risk; or the whole of it. */
export type Choice = string | NonNullable<Input<'collaboration/checkpoint.raise'>['options']>[number]

export type QuestionName = keyof Methods<object, object>
type Question = {
  readonly action: Create['action']
  /** The kind of checkpoint that asks the same. */
  readonly kind: 'approval' | 'choice' | 'input'
  /** Options that belong to the payload. */
  readonly fields: readonly string[]
  /** The answers of a question that has always the same. */
  readonly choices?: readonly string[]
  payload(text: string, choices: readonly Choice[]): object
}
export const questions: Readonly<Record<QuestionName, Question>> = {
  approve: {
    action: 'APPROVE',
    kind: 'approval',
    fields: ['details', 'details_schema', 'reject_requires_reason', 'scope'],
    payload: (item) => ({ item, details: {} }),
  },
  decide: {
    action: 'DECIDE',
    kind: 'choice',
    fields: ['default_option'],
    payload: (question, choices) => ({ question, options: [...choices] }),
  },
  provide: {
    action: 'PROVIDE',
    kind: 'input',
    fields: ['input_type', 'placeholder', 'validation', 'sensitive'],
    payload: (prompt) => ({ prompt, input_type: 'text' }),
  },
  verify: {
    action: 'VERIFY',
    kind: 'choice',
    fields: ['evidence'],
    choices: verdicts,
    payload: (claim) => ({ claim, evidence: [] }),
  },
}

type Options = Readonly<Record<string, unknown>>
/** All methods, by the function that asks. Only `decide` takes choices. */
export function methodsBy<O extends object, A>(
  ask: (name: QuestionName, text: string, choices: readonly Choice[], options: Partial<O>) => Promise<A>,
): Methods<O, A> {
  const plain =
    (name: QuestionName) =>
    (text: string, options: Partial<O> = {}) =>
      ask(name, text, [], options)
  const decide = (text: string, choices: readonly Choice[], options: Partial<O> = {}) => ask('decide', text, choices, options)
  return { approve: plain('approve'), decide, provide: plain('provide'), verify: plain('verify') } as Methods<O, A>
}

/** The body of `execution/request.create`: options of the payload, and `context`, go into it. */
export function requestOf(name: QuestionName, text: string, choices: readonly Choice[], options: Options): Create {
  const { action, fields, payload } = questions[name]
  const inPayload: Record<string, unknown> = {}
  const rest: Record<string, unknown> = {}
  for (const [option, value] of Object.entries(options))
    if (value !== undefined) (option === 'context' || fields.includes(option) ? inPayload : rest)[option] = value
  return { ...rest, action, payload: { ...payload(text, choices), ...inPayload } }
}
