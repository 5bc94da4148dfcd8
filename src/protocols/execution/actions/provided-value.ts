// Values that fit a PROVIDE. The page checks with this file while a person types, so it loads no schema.
import { linearPattern } from '#kernel/foreign/linear-pattern.ts'
import { limits } from '#kernel/limits.ts'
import { shownText } from '../asking/hostile-text.ts'
import type { FileResult, Result } from './action.ts'
import type { InputType, ProvidePayload } from './provide.ts'

/** Why the value is no answer, as a text that follows its name; null: it is one. */
export const valueProblem = (payload: ProvidePayload, value: unknown): string | null => problems[payload.input_type](value, payload)

/** As the receipt holds it: numbers as numbers, also when a form sent them as text. */
export function plainValue({ input_type: type, validation }: ProvidePayload, value: unknown): Result {
  if (type === 'number') return numberIn(value)!
  if (type === 'file') return fileIn(value)!
  if (type !== 'selection') return value as string
  const allowed = validation!.allowed_values!
  return Array.isArray(value) ? value.map((entry) => chosenFrom(allowed, entry)!) : chosenFrom(allowed, value)!
}

type Problem = (value: unknown, payload: ProvidePayload) => string | null
/** The first thing that is wrong, looked at in order. */
const firstOf =
  (...rules: Problem[]): Problem =>
  (value, payload) => {
    for (const rule of rules) {
      const problem = rule(value, payload)
      if (problem !== null) return problem
    }
    return null
  }

export const lengthOf = (text: string): number => Array.from(text).length
function textProblem(value: unknown, least: number, most: number): string | null {
  if (typeof value !== 'string') return 'must be a text'
  const length = lengthOf(value)
  if (length < least) return least === 1 ? 'must not be empty' : `must have at least ${least} characters`
  return length > most ? `must have at most ${most} characters` : null
}
const hasText =
  (most: number): Problem =>
  (value) =>
    textProblem(value, 1, most)
/** An empty value is an answer only if the agent allows it with min 0. */
const fitsLength: Problem = (value, { validation: { min = 1, max = limits.textCharsMax } = {} }) => textProblem(value, min, max)
const matches: Problem = (value, { validation: { pattern } = {} }) =>
  pattern === undefined || linearPattern(pattern, 'INVALID_RESULT', 'validation.pattern')(value as string)
    ? null
    : `does not match the pattern ${pattern}`
const isAllowed: Problem = (value, { validation: { allowed_values: allowed } = {} }) =>
  allowed === undefined || chosenFrom(allowed, value) !== undefined ? null : `must be one of: ${allowed.join(', ')}`

const problems: Readonly<Record<InputType, Problem>> = {
  text: firstOf(fitsLength, matches, isAllowed),
  number: firstOf(isNumber, isAllowed),
  url: firstOf(hasText(limits.linkCharsMax), isUrl, fitsLength, matches, isAllowed),
  email: firstOf(hasText(limits.emailCharsMax), isEmail, fitsLength, matches, isAllowed),
  file: (value) => (fileIn(value) ? null : 'must name an artifact: its id, or artifact_id and version'),
  selection: isSelection,
}

function chosenFrom(allowed: readonly (string | number)[], value: unknown): string | number | undefined {
  return allowed.find((candidate) => (typeof candidate === 'number' ? numberIn(value) === candidate : value === candidate))
}

const NUMERAL = /^[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?$/
/** A number, or its text as forms send it; undefined if it is not a number, or one that a double cannot hold. */
function numberIn(value: unknown): number | undefined {
  const numeral = typeof value === 'string' && value.length <= limits.numeralCharsMax ? value.trim() : ''
  const number = typeof value === 'number' ? value : NUMERAL.test(numeral) ? Number(numeral) : Number.NaN
  // JSON has no -0: adding 0 makes it 0.
  return Math.abs(number) <= Number.MAX_SAFE_INTEGER ? number + 0 : undefined
}

function isNumber(value: unknown, { validation: { min, max } = {} }: ProvidePayload): string | null {
  const number = numberIn(value)
  if (number === undefined) return 'must be a number such as 42 or -1.5'
  if (min !== undefined && number < min) return `must be at least ${min}`
  return max !== undefined && number > max ? `must be at most ${max}` : null
}

/**
 * An address that the parser would silently repair (spaces, backslashes, missing slashes) is refused: people and agents must read the same.
 */
function isUrl(value: unknown): string | null {
  const text = value as string
  if (/[\s\\]/.test(text) || shownText(text) !== text) return 'must not hold spaces, backslashes or hidden characters'
  if (!/^https?:\/\/[^/?#]/i.test(text) || !URL.canParse(text)) return 'must be an address that begins with https:// or http://'
  return /^[^/]*\/\/[^/?#]*@/.test(text) ? 'must not hold a user name or password' : null
}

const LOCAL = /^[\p{L}\p{M}\p{N}!#$%&'*+/=?^_`{|}~-]+(?:\.[\p{L}\p{M}\p{N}!#$%&'*+/=?^_`{|}~-]+)*$/u
const DOMAIN =
  /^(?:[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]*[\p{L}\p{M}\p{N}])?\.)+(?=\P{N})[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]*[\p{L}\p{M}\p{N}])?$/u
/** The form that mail providers give out, in any script: no quoted names, no addresses in brackets, no domain without a dot. */
function isEmail(value: unknown): string | null {
  const text = value as string
  const [local = '', domain = '', ...more] = text.split('@')
  const isFit = local.length <= 64 && LOCAL.test(local) && DOMAIN.test(domain) && domain.split('.').every((label) => label.length <= 63)
  return isFit && more.length === 0 && shownText(text) === text ? null : 'must be an e-mail address such as name@example.com'
}

export const isEmailAddress = (text: string): boolean => text.length <= limits.emailCharsMax && isEmail(text) === null

function isSelection(value: unknown, payload: ProvidePayload): string | null {
  if (payload.validation?.multiple !== true) return isAllowed(value, payload)
  const allowed = payload.validation.allowed_values!
  if (!Array.isArray(value) || value.length === 0) return 'must be a list of at least one of the allowed values'
  if (value.length > allowed.length) return `must hold at most ${allowed.length} values`
  const chosen = value.map((entry) => chosenFrom(allowed, entry))
  if (chosen.includes(undefined)) return `must hold only: ${allowed.join(', ')}`
  return new Set(chosen).size < chosen.length ? 'must not hold the same value twice' : null
}

function fileIn(value: unknown): FileResult | undefined {
  if (typeof value === 'string') return fileIn({ artifact_id: value })
  if (typeof value !== 'object' || value === null) return undefined
  const { artifact_id, version } = value as { artifact_id?: unknown; version?: unknown }
  if (!isName(artifact_id, limits.idCharsMax)) return undefined
  if (version === undefined || version === null) return { artifact_id }
  return isName(version, 40) ? { artifact_id, version } : undefined
}
const isName = (value: unknown, most: number): value is string => typeof value === 'string' && value !== '' && value.length <= most
