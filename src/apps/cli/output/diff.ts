// The difference between two texts, line by line with a little context: Myers' shortest edit script.

export type Change = { readonly kind: 'same' | 'added' | 'removed'; readonly text: string }

/** A diff with more changed lines is unreadable, and finding the shortest one takes too long. */
const EDITS_MAX = 2_000
const AROUND = 3

/** null: more than EDITS_MAX lines differ. */
export function changesBetween(before: string, after: string): Change[] | null {
  const [a, b] = [linesIn(before), linesIn(after)]
  const trace = traceOf(a, b)
  return trace && editsOf(a, b, trace)
}

const linesIn = (text: string): string[] => (text === '' ? [] : text.replace(/\n$/, '').split('\n'))

/** For each number of edits, how far each diagonal reached. */
function traceOf(a: readonly string[], b: readonly string[]): Map<number, number>[] | null {
  const trace: Map<number, number>[] = []
  let reach = new Map<number, number>([[1, 0]])
  for (let edits = 0; edits <= Math.min(a.length + b.length, EDITS_MAX); edits++) {
    trace.push(reach)
    const next = new Map(reach)
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      let x = stepsDown(reach, diagonal, edits) ? (reach.get(diagonal + 1) ?? 0) : (reach.get(diagonal - 1) ?? 0) + 1
      while (x < a.length && x - diagonal < b.length && a[x] === b[x - diagonal]) x++
      next.set(diagonal, x)
      if (x >= a.length && x - diagonal >= b.length) return trace
    }
    reach = next
  }
  return null
}

const stepsDown = (reach: ReadonlyMap<number, number>, diagonal: number, edits: number): boolean =>
  diagonal === -edits || (diagonal !== edits && (reach.get(diagonal - 1) ?? 0) < (reach.get(diagonal + 1) ?? 0))

function editsOf(a: readonly string[], b: readonly string[], trace: readonly Map<number, number>[]): Change[] {
  const changes: Change[] = []
  let [x, y] = [a.length, b.length]
  for (let edits = trace.length - 1; edits >= 0; edits--) {
    const reach = trace[edits]!
    const diagonal = x - y
    const down = stepsDown(reach, diagonal, edits)
    const fromX = edits === 0 ? 0 : (reach.get(down ? diagonal + 1 : diagonal - 1) ?? 0)
    const fromY = edits === 0 ? 0 : fromX - (down ? diagonal + 1 : diagonal - 1)
    // The start of the snake (the run of equal lines): after the single edit that led to it.
    const [startX, startY] = edits === 0 ? [0, 0] : down ? [fromX, fromY + 1] : [fromX + 1, fromY]
    for (; x > startX && y > startY; x--, y--) changes.push({ kind: 'same', text: a[x - 1]! })
    if (edits === 0) break
    changes.push(down ? { kind: 'added', text: b[fromY]! } : { kind: 'removed', text: a[fromX]! })
    x = fromX
    y = fromY
  }
  return changes.reverse()
}

/** The changes with a few lines around each, and a line with dots where something was left out. */
export function hunksOf(changes: readonly Change[]): (Change | 'gap')[] {
  const near = new Set<number>()
  for (const [i, { kind }] of changes.entries()) if (kind !== 'same') for (let j = i - AROUND; j <= i + AROUND; j++) near.add(j)
  const shown: (Change | 'gap')[] = []
  for (const [i, change] of changes.entries()) {
    if (near.has(i)) shown.push(change)
    else if (shown.at(-1) !== 'gap') shown.push('gap')
  }
  return shown
}
