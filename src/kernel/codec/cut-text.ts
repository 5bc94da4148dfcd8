// Text that is too long for its place, cut to what fits.

/** At most so many UTF-16 units, and never half of a character: a lone surrogate is no text, and no call would take it. */
export const cutTo = (text: string, max: number): string => (text.length <= max ? text : text.slice(0, max).replace(/[\uD800-\uDBFF]$/, ''))
