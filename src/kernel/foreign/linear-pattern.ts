// Patterns that come from outside, run on a linear-time engine: a hostile one must not hold the process, nor the page that uses the same check.
import { RE2JS } from 're2js'
import { setBounded } from '../codec/bounded-map.ts'
import { Refusal } from '../declare/errors.ts'

const PATTERN_CHARS_MAX = 200
/** One part costs some forty nanoseconds for each character that is looked at: a long text takes less than a tenth of a second. */
const PATTERN_PARTS_MAX = 300
const COMPILED_MAX = 500

/** The interface that ajv requires of an engine. It distinguishes patterns by `toString`. */
export const linear = Object.assign(
  (pattern: string) => {
    if (pattern.length > PATTERN_CHARS_MAX) throw new Error(`a pattern has at most ${PATTERN_CHARS_MAX} characters`)
    // Linear in the text, but not in a pattern that unfolds: `.{0,1000}` twenty times would hold the process for minutes.
    if (weigh(pattern).parts > PATTERN_PARTS_MAX) throw new Error(`a pattern unfolds into at most ${PATTERN_PARTS_MAX} parts`)
    const compiled = RE2JS.compile(pattern)
    return { test: (text: string) => compiled.matcher(text).find(), toString: () => `linear:${pattern}` }
  },
  { code: 'linear' },
)

const patterns = new Map<string, (text: string) => boolean>()

/**
 * A test of texts by a pattern that comes from outside. It searches, as JSON Schema does: a pattern for the whole text has ^ and $.
 * A nested repetition such as `(a+)+` would be harmless here, but the same pattern may reach a form or an agent
 * whose engine backtracks, so it is refused.
 */
export function linearPattern(pattern: string, code: string, field: string): (text: string) => boolean {
  const known = patterns.get(pattern)
  if (known) return known
  const refuse = (message: string): never => {
    throw new Refusal(code, `${field} ${message}`, { field })
  }
  if (pattern.length > PATTERN_CHARS_MAX) refuse(`has more than ${PATTERN_CHARS_MAX} characters`)
  const { parts, isNested } = weigh(pattern)
  if (isNested) refuse('repeats a repetition, as (a+)+ does; such a pattern can take forever')
  if (parts > PATTERN_PARTS_MAX) refuse(`unfolds into more than ${PATTERN_PARTS_MAX} parts; write smaller numbers of repetitions`)
  try {
    const { test } = linear(pattern)
    setBounded(patterns, pattern, test, COMPILED_MAX)
    return test
  } catch (error) {
    const message = (error as Error).message.replace('error parsing regexp: ', '').slice(0, 200)
    return refuse(`cannot be used: ${message}; there is no look-around and no back-reference`)
  }
}

/** A piece of a pattern: its unfolded size, whether it can be empty, and whether it can be a single repetition. */
type Piece = { readonly parts: number; readonly mayBeEmpty: boolean; readonly mayBeLoop: boolean }
const NOTHING: Piece = { parts: 0, mayBeEmpty: true, mayBeLoop: false }

const TOKENS = {
  quoted: /\\Q(.*?)(?:\\E|$)/sy,
  place: /\\[bBAz]|[\^$]/y,
  group: /\((?:\?(?:P?<[^>]*>|[a-zA-Z-]*:|[a-zA-Z-]+(?=\))))?/y,
  single: /\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|\\(?:[pPx]\{[^}]*\}|[pP].|x[\da-fA-F]{2}|\d+|.)|[^|)]/suy,
  times: /(?:[*+?]|\{(\d+)(,?)(\d*)\})\??/y,
}

/** Parses a pattern only as far as its weight needs. The engine reports malformed patterns. */
function weigh(pattern: string): { parts: number; isNested: boolean } {
  let at = 0
  let isNested = false
  const take = (token: RegExp): RegExpExecArray | null => {
    token.lastIndex = at
    const found = token.exec(pattern)
    if (found) at = token.lastIndex
    return found
  }
  const alternatives = (): Piece => {
    let sum = sequence()
    while (pattern[at] === '|') {
      at++
      const next = sequence()
      sum = {
        parts: sum.parts + next.parts,
        mayBeEmpty: sum.mayBeEmpty || next.mayBeEmpty,
        mayBeLoop: sum.mayBeLoop || next.mayBeLoop,
      }
    }
    return sum
  }
  const sequence = (): Piece => {
    let sum = NOTHING
    while (at < pattern.length && pattern[at] !== '|' && pattern[at] !== ')') {
      const next = parseRepeat(atom())
      const mayBeLoop = (sum.mayBeLoop && next.mayBeEmpty) || (sum.mayBeEmpty && next.mayBeLoop)
      sum = { parts: sum.parts + next.parts, mayBeEmpty: sum.mayBeEmpty && next.mayBeEmpty, mayBeLoop }
    }
    return sum
  }
  const atom = (): Piece => {
    const quoted = take(TOKENS.quoted)
    if (quoted) return { parts: quoted[1]!.length, mayBeEmpty: quoted[1] === '', mayBeLoop: false }
    if (take(TOKENS.place)) return { ...NOTHING, parts: 1 }
    if (!take(TOKENS.group)) {
      take(TOKENS.single)
      return { parts: 1, mayBeEmpty: false, mayBeLoop: false }
    }
    const inside = alternatives()
    if (pattern[at] === ')') at++
    return { ...inside, parts: inside.parts + 1 }
  }
  const parseRepeat = (piece: Piece): Piece => {
    const times = take(TOKENS.times)
    if (!times) return piece
    const [text, least, comma, most] = times
    const isEndless = text.startsWith('*') || text.startsWith('+') || (comma === ',' && most === '')
    if (isEndless && piece.mayBeLoop) isNested = true
    const isOptional = text.startsWith('*') || text.startsWith('?') || Number(least) === 0
    return {
      parts: piece.parts * Math.max(1, Number(least ?? 1), Number(most ?? 1)),
      mayBeEmpty: piece.mayBeEmpty || isOptional,
      mayBeLoop: piece.mayBeLoop || isEndless,
    }
  }
  const { parts } = alternatives()
  return { parts, isNested }
}
