// One seed, one stream of chances: the whole run follows from it.

export type Random = {
  /** From 0 up to 1. */
  next(): number
  below(bound: number): number
  chance(probability: number): boolean
  pick<T>(items: readonly T[]): T
  /** Weights need not sum up to anything. */
  weighted<T>(choices: readonly (readonly [weight: number, value: T])[]): T
  bytes(count: number): Uint8Array
}

export function createRandom(seed: number): Random {
  let state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) >>> 0
  // mulberry32
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  const below = (bound: number): number => Math.floor(next() * bound)
  return {
    next,
    below,
    chance: (probability) => next() < probability,
    pick: (items) => items[below(items.length)]!,
    weighted(choices) {
      let rest = next() * choices.reduce((sum, [weight]) => sum + weight, 0)
      for (const [weight, value] of choices) if ((rest -= weight) < 0) return value
      return choices.at(-1)![1]
    },
    bytes: (count) => Uint8Array.from({ length: count }, () => below(256)),
  }
}
