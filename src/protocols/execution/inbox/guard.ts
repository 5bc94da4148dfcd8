// The guard of an item: the phrase to type before a grave yes, and the reason why it must be decided alone. Every surface
// takes both from here.
import { limits } from '#kernel/limits.ts'
import { nullable, t, type Static } from '#kernel/declare/schema.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { visible } from '../answering/shown-request.ts'
import { shownText } from '../asking/hostile-text.ts'
import { actionOf } from '../actions/index.ts'
import { isOpen, type Request } from '../schema.ts'

export const Guard = t.Object({
  confirm: nullable(t.String({ description: 'the phrase to type before it is approved or answered, from R4 on' })),
  batch: nullable(t.String({ description: 'why it is not decided together with others' })),
})
export type Guard = Static<typeof Guard>

/** An argument as a list shows it. */
export const Argument = t.Object({ name: t.String(), value: t.String() })
type Argument = Static<typeof Argument>

/** One line of keyboard characters without doubled or trailing blanks. If a target has any others, the phrase names the risk instead. */
const TYPED = /^[A-Za-z0-9](?:[\x21-\x7E]| (?! ))*$/
const isTyped = (text: unknown): text is string =>
  typeof text === 'string' && text.length <= limits.phraseCharsMax && TYPED.test(text) && !text.endsWith(' ')

const isVerdict = (request: Request): boolean => actionOf(request).isVerdict === true

/** The target, if the agent names one that can be typed. */
function phraseFor(request: Request): string | null {
  const { risk, payload } = request
  if (risk === undefined || risk < 'R4') return null
  const { target } = (payload as { details?: { target?: unknown } }).details ?? {}
  if (!isVerdict(request)) return `answer ${risk}`
  return isTyped(target) ? target : `approve ${risk}`
}

const [ARGUMENTS_MAX, ARGUMENT_CHARS_MAX] = [3, 60] as const
const detailsIn = ({ payload }: Request): Readonly<Record<string, unknown>> =>
  (payload as { details?: Record<string, unknown> }).details ?? {}
const isShort = (value: unknown): boolean =>
  (typeof value === 'string' && !value.includes('\n') && shownText(value).length <= ARGUMENT_CHARS_MAX) ||
  typeof value === 'number' ||
  typeof value === 'boolean' ||
  value === null

/** The arguments of an action that have room in a list, escaped. */
export function argumentsOf(request: Request): Argument[] {
  if (!isVerdict(request)) return []
  const shortDetails = Object.entries(detailsIn(request)).filter(([name, value]) => isShort(name) && isShort(value))
  return shortDetails.slice(0, ARGUMENTS_MAX).map(([name, value]) => ({ name: shownText(name), value: shownText(String(value)) }))
}

/** Why a request must be decided alone: people decide only what they were shown. `isCut`: its title is only the start of the question. */
function aloneBecause(request: Request, flagged: readonly string[], isCut: boolean): string | null {
  const { kind, risk, payload, thread, notice } = request
  if (!isOpen(request)) return 'It is decided.'
  if (request.no_decider === true) return 'Nobody can answer it yet.'
  if (kind === 'review') return 'A review is decided by itself.'
  if (!isVerdict(request)) return 'It takes an answer of its own.'
  if (kind === 'escalation' || kind === 'interrupt') return 'It is answered by itself.'
  if (flagged.length > 0 || canonical(visible(payload)) !== canonical(payload)) return 'Its text was flagged: read it by itself.'
  if (risk === undefined) return 'Its risk is not rated.'
  if (risk >= 'R3') return 'R3 and above are decided one at a time.'
  if (isCut || argumentsOf(request).length < Object.keys(detailsIn(request)).length) return 'It has more to read than a list shows.'
  return thread !== undefined || notice !== undefined ? 'There are remarks to read first.' : null
}

export const guardOf = (request: Request, flagged: readonly string[], isCut: boolean): Guard => ({
  confirm: phraseFor(request),
  batch: aloneBecause(request, flagged, isCut),
})
