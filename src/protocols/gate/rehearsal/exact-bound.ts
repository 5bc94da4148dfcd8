// The exact upper bound of a share (Clopper and Pearson): how many future calls can have another answer, given the recorded ones.

/** The probability of at most `found` in `all`, if each has the probability `share`. */
function chanceOfAtMost(found: number, all: number, share: number): number {
  let logTerm = all * Math.log1p(-share)
  let sum = Math.exp(logTerm)
  for (let i = 1; i <= found; i++) {
    logTerm += Math.log((all - i + 1) / i) + Math.log(share) - Math.log1p(-share)
    sum += Math.exp(logTerm)
  }
  return sum
}

const HALVINGS = 50
/** The greatest share that still leaves a chance of 5 % to find no more than `found` in `all`. */
export function boundAt95(found: number, all: number): number {
  if (found >= all) return 1
  let [low, high] = [found / all, 1]
  for (let i = 0; i < HALVINGS; i++) {
    const middle = (low + high) / 2
    if (chanceOfAtMost(found, all, middle) > 0.05) low = middle
    else high = middle
  }
  return high
}

/** Rounded up: "at most" stays true. */
export const percent = (share: number): string => `${Math.ceil(share * 1_000 - 1e-9) / 10} %`
