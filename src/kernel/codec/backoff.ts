// Exponential backoff: each wait is twice as long as the one before, up to a bound.

/** `doublings`: how often the first wait has doubled by now. */
export const backoffMs = (firstMs: number, maxMs: number, doublings: number): number =>
  Math.min(maxMs, firstMs * 2 ** Math.min(doublings, 30))
