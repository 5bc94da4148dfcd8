// Cuts text that is too long for its place.

/** At most `max` UTF-16 units, never half of a surrogate pair: every call refuses a lone surrogate. */
export const cutTo = (text: string, max: number): string => (text.length <= max ? text : text.slice(0, max).replace(/[\uD800-\uDBFF]$/, ''))
