// Texts cut to a length, and the message of any thrown value.

/** At most `max` UTF-16 units, never half of a surrogate pair: every call refuses a lone surrogate. */
export const cutTo = (text: string, max: number): string => (text.length <= max ? text : text.slice(0, max).replace(/[\uD800-\uDBFF]$/, ''))

const MESSAGE_CHARS_MAX = 500

/** The message of a thrown value, which can be anything. */
export function messageOf(error: unknown, charsMax = MESSAGE_CHARS_MAX): string {
  try {
    return String(error instanceof Error ? error.message : error).slice(0, charsMax)
  } catch {
    return 'something that cannot be shown was thrown'
  }
}
