// Version ranges in submissions: 1.2.0, ^1.2.0, ~1.2, >=1.0.0 <2.0.0, 1.x, *, and several of them with ||.

type Version = readonly [number, number, number]
const PARTIAL = /^v?(\d{1,6}|[x*])(?:\.(\d{1,6}|[x*]))?(?:\.(\d{1,6}|[x*]))?(?:-[0-9A-Za-z.-]{1,40})?$/

type Bounds = { readonly from: Version; readonly below: Version | null }
const ALL: Bounds = { from: [0, 0, 0], below: null }

function boundsOf(text: string): Bounds | null {
  const match = PARTIAL.exec(text)
  if (!match) return null
  const [major, minor, patch] = match.slice(1, 4).map((part) => (part === undefined || part === 'x' || part === '*' ? null : Number(part)))
  if (major === null || major === undefined) return ALL
  if (minor === null || minor === undefined) return { from: [major, 0, 0], below: [major + 1, 0, 0] }
  if (patch === null || patch === undefined) return { from: [major, minor, 0], below: [major, minor + 1, 0] }
  return { from: [major, minor, patch], below: [major, minor, patch + 1] }
}

const compare = (a: Version, b: Version): number => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]

/** The first version that `^` does not take: the next of the first number that is not 0. */
function caret([major, minor, patch]: Version): Version {
  if (major > 0) return [major + 1, 0, 0]
  return minor > 0 ? [0, minor + 1, 0] : [0, 0, patch + 1]
}

function fits(version: Version, comparator: string): boolean | null {
  const [, op = '', rest = ''] = /^(\^|~|>=|<=|>|<|=)?\s*(.+)$/.exec(comparator) ?? []
  const bounds = boundsOf(rest)
  if (bounds === null) return null
  const { from, below } = bounds
  const isFrom = compare(version, from) >= 0
  const isBelow = below === null || compare(version, below) < 0
  if (op === '^') return isFrom && compare(version, caret(from)) < 0
  if (op === '~') return isFrom && (below === null || compare(version, [from[0], from[1] + 1, 0]) < 0)
  if (op === '>=') return isFrom
  if (op === '<') return !isFrom
  if (op === '>') return !isBelow
  if (op === '<=') return isBelow
  return isFrom && isBelow
}

/** Whether a version is in a range; null: the range is invalid. */
export function isInRange(version: string, range: string): boolean | null {
  const bounds = boundsOf(version)
  if (bounds === null) return null
  let isIn = false
  for (const alternative of range.split('||')) {
    const comparators = alternative
      .trim()
      .replaceAll(/(\^|~|>=|<=|>|<|=)\s+/g, '$1')
      .split(/\s+/)
    let all = true
    for (const comparator of comparators) {
      const isMet = comparator === '' ? null : fits(bounds.from, comparator)
      if (isMet === null) return null
      all &&= isMet
    }
    isIn ||= all
  }
  return isIn
}
