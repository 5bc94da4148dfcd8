// Differences as rows: files of a patch, or one text against its version before, with the words that changed.
import { diffLines, diffWordsWithSpace } from 'diff'
import { visible } from './visible.ts'

export type Part = { readonly text: string; readonly isMarked: boolean }
export type Line = {
  readonly kind: 'same' | 'added' | 'removed' | 'gap'
  readonly before: number | null
  readonly after: number | null
  readonly parts: readonly Part[]
}
export type DiffFile = {
  readonly name: string
  readonly lines: readonly Line[]
  readonly added: number
  readonly removed: number
  /** The whole text, without a former version. */
  readonly isWhole: boolean
}

/** Spells out invisible and bidirectional control characters, so that the reviewer reads exactly the delivered text. */
const plain = (text: string): Part[] => [{ text: visible(text), isMarked: false }]
const WORD_CHARS_MAX = 600

/** Marks the changed words in lines that replace each other. */
function markWords(lines: readonly Line[]): Line[] {
  const result = [...lines]
  for (let i = 0; i < result.length;) {
    let [removed, added] = [i, i]
    while (result[removed]?.kind === 'removed') removed++
    added = removed
    while (result[added]?.kind === 'added') added++
    const pairs = Math.min(removed - i, added - removed)
    for (let n = 0; n < pairs; n++) {
      const [old, fresh] = [result[i + n]!, result[removed + n]!]
      const [before, after] = [old.parts[0]!.text, fresh.parts[0]!.text]
      if (before.length > WORD_CHARS_MAX || after.length > WORD_CHARS_MAX) continue
      const pieces = diffWordsWithSpace(before, after)
      if (!pieces.some(({ added: a, removed: r }) => !a && !r)) continue
      result[i + n] = { ...old, parts: pieces.filter(({ added: a }) => !a).map(({ value, removed: r }) => ({ text: value, isMarked: r })) }
      result[removed + n] = {
        ...fresh,
        parts: pieces.filter(({ removed: r }) => !r).map(({ value, added: a }) => ({ text: value, isMarked: a })),
      }
    }
    i = Math.max(added, i + 1)
  }
  return result
}
const diffFileOf = (name: string, lines: readonly Line[], isWhole = false): DiffFile => ({
  isWhole,
  name: visible(name),
  lines: markWords(lines),
  added: lines.filter(({ kind }) => kind === 'added').length,
  removed: lines.filter(({ kind }) => kind === 'removed').length,
})

const linesIn = (text: string): string[] => {
  const lines = text.split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines
}

/** Text that begins as a patch does and holds a hunk. */
export const isUnifiedDiff = (text: string): boolean => /^(?:diff --git |Index: |--- \S)/.test(text) && /^@@ /m.test(text)

const STAMP = String.raw`(?:\t(?:\d{4}-\d\d-\d\d [\d:.]+(?: [+-]\d{4})?)?)?`
const HEAD = new RegExp(
  String.raw`(?:diff --git a/(?<git>[^\n]+) b/\k<git>\n|Index: (?<index>[^\n]+)\n=+\n)?(?:(?:new|deleted) file mode 100644\n)?` +
    String.raw`(?:index [\da-f]+\.\.[\da-f]+(?: 100\d{3})?\n)?--- (?<old>[^\t\n]+)${STAMP}\n\+\+\+ (?<fresh>[^\t\n]+)${STAMP}\n`,
  'y',
)
const HUNK = /@@ -(?<before>\d+)(?:,(?<removed>\d+))? \+(?<after>\d+)(?:,(?<added>\d+))? @@ ?(?<heading>[^\n]*)\n/y
const ROW = /(?<sign>[ +-]?)(?<said>[^\n]*)\n(?:\\ No newline at end of file\n)?/y

/** The name of a file that is the same before and after; null: the two heads do not agree. */
function nameIn({ git, index, old = '', fresh = '' }: Readonly<Record<string, string | undefined>>): string | null {
  const [before, after] = [old.replace(/^a\//, ''), fresh.replace(/^b\//, '')]
  const name = after === '/dev/null' ? before : after
  const isOne = before === name || before === '/dev/null'
  return isOne && (git ?? name) === name && (index ?? name) === name ? name : null
}

/**
 * The files of a patch; null if the text is not one. The rows must hold the whole text: a patch with anything else in it, such as a
 * preamble, a rename or binary data, is shown as plain text.
 */
export function filesOfPatch(text: string): DiffFile[] | null {
  const whole = `${text.replace(/\n+$/, '')}\n`
  let at = 0
  const next = (pattern: RegExp): Readonly<Record<string, string | undefined>> | null => {
    pattern.lastIndex = at
    const found = pattern.exec(whole)
    if (found === null || found[0] === '') return null
    at = pattern.lastIndex
    return found.groups ?? {}
  }
  const files = new Map<string, DiffFile>()
  while (at < whole.length) {
    const head = next(HEAD)
    const name = head === null ? null : nameIn(head)
    if (name === null || files.has(name)) return null
    const lines: Line[] = []
    for (let hunk = next(HUNK); hunk !== null; hunk = next(HUNK)) {
      let [before, after] = [Number(hunk['before']), Number(hunk['after'])]
      const [oldEnd, end] = [before + Number(hunk['removed'] ?? 1), after + Number(hunk['added'] ?? 1)]
      const heading = hunk['heading'] === '' ? '' : `: ${hunk['heading']}`
      lines.push({ kind: 'gap', before: null, after: null, parts: plain(`lines ${after} and on${heading}`) })
      while (before < oldEnd || after < end) {
        const row = next(ROW)
        if (row === null || (row['sign'] === '' && row['said'] !== '')) return null
        const parts = plain(row['said']!)
        if (row['sign'] === '+') lines.push({ kind: 'added', before: null, after: after++, parts })
        else if (row['sign'] === '-') lines.push({ kind: 'removed', before: before++, after: null, parts })
        else lines.push({ kind: 'same', before: before++, after: after++, parts })
      }
      if (before > oldEnd || after > end) return null
    }
    if (lines.length === 0) return null
    files.set(name, diffFileOf(name, lines))
  }
  return files.size === 0 ? null : [...files.values()]
}

const AROUND = 3
const FOLDED_MIN = 2
/** Folds long unchanged stretches, and keeps the context lines around each change. */
function foldUnchanged(lines: readonly Line[]): Line[] {
  if (lines.every(({ kind }) => kind === 'same')) return [...lines]
  const isNear = lines.map((_, i) => lines.slice(Math.max(0, i - AROUND), i + AROUND + 1).some(({ kind }) => kind !== 'same'))
  const result: Line[] = []
  for (let i = 0; i < lines.length; i++) {
    let end = i
    while (end < lines.length && isNear[end] === false) end++
    // A fold marker takes as much room as one line.
    if (end - i < FOLDED_MIN) {
      result.push(lines[i]!)
      continue
    }
    result.push({ kind: 'gap', before: null, after: null, parts: plain(`${end - i} unchanged lines`) })
    i = end - 1
  }
  return result
}

/** A text against its former version; without one, the whole text. */
export function fileOfTexts(name: string, before: string | null, after: string): DiffFile {
  const lines: Line[] = []
  let [old, fresh] = [1, 1]
  const changes = before === null ? [{ value: after, added: false, removed: false }] : diffLines(before, after)
  for (const { value, added, removed } of changes) {
    for (const text of linesIn(value)) {
      const parts = plain(text)
      if (added) lines.push({ kind: 'added', before: null, after: fresh++, parts })
      else if (removed) lines.push({ kind: 'removed', before: old++, after: null, parts })
      else lines.push({ kind: 'same', before: before === null ? null : old++, after: fresh++, parts })
    }
  }
  return diffFileOf(name, foldUnchanged(lines), before === null)
}

export type Pair = { readonly left: Line | null; readonly right: Line | null }
/** Pairs of removed and added lines for the split view. */
export function pairsOf(lines: readonly Line[]): Pair[] {
  const pairs: Pair[] = []
  for (let i = 0; i < lines.length;) {
    const line = lines[i]!
    if (line.kind === 'same' || line.kind === 'gap') {
      pairs.push({ left: line, right: line })
      i++
      continue
    }
    const removed: Line[] = []
    const added: Line[] = []
    while (lines[i]?.kind === 'removed') removed.push(lines[i++]!)
    while (lines[i]?.kind === 'added') added.push(lines[i++]!)
    for (let n = 0; n < Math.max(removed.length, added.length); n++) pairs.push({ left: removed[n] ?? null, right: added[n] ?? null })
  }
  return pairs
}
