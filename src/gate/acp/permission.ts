// The check of an ACP agent's permission question: which parts of the call people see, and which options they can choose.
import { isObject } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'
import { fieldsIn, textIn, type Fields } from './frames.ts'

export type Verdict = 'allow' | 'reject' | 'cancelled'
type Option = { readonly optionId: string; readonly kind: string; readonly name: string }

export type Permission = {
  readonly sessionId: string
  readonly toolCallId: string
  readonly title: string
  /** The kind of the tool: `execute`, `edit` and so on. */
  readonly tool: string
  readonly arguments: Fields
  /** The question as the editor gets it. */
  readonly shown: Fields
  /** The options that the agent does not remember. */
  readonly once: readonly Option[]
}

/** A question that no client could answer. Its message is for the agent. */
export class BadQuestion extends Error {
  override name = 'BadQuestion'
}

const KINDS = new Set(['read', 'edit', 'delete', 'move', 'search', 'execute', 'think', 'fetch', 'switch_mode'])
/** The description that a call carries. */
const DESCRIBED = ['title', 'kind', 'rawInput', 'content', 'locations'] as const

/** The arguments are only the agent's claim: it can run something else. */
const NOTE = 'as the agent describes this call: ACP does not show what will run'
const UNKNOWN = 'the agent does not say with which arguments'

export function describedIn(update: unknown): Fields {
  const fields = fieldsIn(update)
  return Object.fromEntries(
    DESCRIBED.flatMap((name) => (fields[name] === undefined || fields[name] === null ? [] : [[name, fields[name]]])),
  )
}

const isEmpty = (value: unknown): boolean =>
  value === undefined ||
  value === '' ||
  (Array.isArray(value) && value.length === 0) ||
  (isObject(value) && Object.keys(value).length === 0)

/** `earlier`: fields from updates of the same call, since an agent can omit the arguments from its question. */
export function permissionIn(params: unknown, earlier: (sessionId: string, toolCallId: string) => Fields): Permission {
  const sessionId = idIn(params, 'sessionId', 'sessionId')
  const { toolCall, options } = fieldsIn(params)
  const toolCallId = idIn(toolCall, 'toolCallId', 'toolCall.toolCallId')
  const present = Object.entries(describedIn(toolCall)).filter(([, value]) => !isEmpty(value))
  const described = { ...earlier(sessionId, toolCallId), ...Object.fromEntries(present) }
  const title = textIn(described, 'title') ?? toolCallId
  const kind = textIn(described, 'kind') ?? 'other'
  const isBare = ['rawInput', 'content', 'locations'].every((name) => isEmpty(described[name]))
  const once = onceIn(options)
  return {
    sessionId,
    toolCallId,
    shown: { ...fieldsIn(params), options: once },
    title: title.slice(0, limits.acpTitleCharsMax).toWellFormed(),
    tool: KINDS.has(kind) ? kind : 'other',
    arguments: { ...described, note: isBare ? UNKNOWN : NOTE },
    once,
  }
}

function idIn(fields: unknown, name: string, path: string): string {
  const id = textIn(fields, name)
  if (id === null || id === '' || id.length > limits.labelCharsMax)
    throw new BadQuestion(`${path} must be a text of 1 to ${limits.labelCharsMax} characters`)
  return id
}

function onceIn(options: unknown): Option[] {
  if (!Array.isArray(options) || options.length > limits.acpOptionsMax)
    throw new BadQuestion(`options must be a list of at most ${limits.acpOptionsMax} options`)
  const seen = new Set<string>()
  return options.flatMap((option: unknown, i) => {
    const optionId = idIn(option, 'optionId', `options[${i}].optionId`)
    if (seen.has(optionId)) throw new BadQuestion(`options[${i}].optionId ${JSON.stringify(optionId)} is used twice`)
    seen.add(optionId)
    const kind = textIn(option, 'kind')
    // The agent never asks again about a remembered answer, so such options are not offered.
    return kind === 'allow_once' || kind === 'reject_once' ? [{ ...(option as Option), optionId, kind }] : []
  })
}

/** The agent's option for a verdict; `cancelled` if it offers none. */
export function outcomeFor(verdict: Verdict, { once }: Permission): { readonly outcome: Fields } {
  const option = once.find(({ kind }) => kind === `${verdict}_once`)
  return { outcome: option ? { outcome: 'selected', optionId: option.optionId } : { outcome: 'cancelled' } }
}

/** The verdict of an editor's answer. An option that was not offered counts as cancelled. */
export function verdictIn(result: unknown, { once }: Permission): Verdict {
  const { outcome } = fieldsIn(result)
  if (textIn(outcome, 'outcome') !== 'selected') return 'cancelled'
  const option = once.find(({ optionId }) => optionId === textIn(outcome, 'optionId'))
  return option === undefined ? 'cancelled' : option.kind === 'allow_once' ? 'allow' : 'reject'
}
