// Differences as rows: files of a patch, or one text against its version before, with the words that changed.
import { diffLines, diffWordsWithSpace, parsePatch } from 'diff'

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
  /** Shown as it is, against nothing. */
  readonly isWhole: boolean
}

const plain = (text: string): Part[] => [{ text, isMarked: false }]
const WORD_CHARS_MAX = 600

/** Lines that stand for one another get their changed words marked. */
function marked(lines: readonly Line[]): Line[] {
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
      const words = diffWordsWithSpace(before, after)
      if (!words.some(({ added: a, removed: r }) => !a && !r)) continue
      result[i + n] = { ...old, parts: words.filter(({ added: a }) => !a).map(({ value, removed: r }) => ({ text: value, isMarked: r })) }
      result[removed + n] = {
        ...fresh,
        parts: words.filter(({ removed: r }) => !r).map(({ value, added: a }) => ({ text: value, isMarked: a })),
      }
    }
    i = Math.max(added, i + 1)
  }
  return result
}
const counted = (name: string, lines: readonly Line[], isWhole = false): DiffFile => ({
  isWhole,
  name,
  lines: marked(lines),
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

/** The files of a patch; null: it is none. */
export function filesOfPatch(text: string): DiffFile[] | null {
  if (!/^@@ /m.test(text)) return null
  try {
    const files = parsePatch(text).filter(({ hunks }) => hunks.length > 0)
    if (files.length === 0) return null
    return files.map(({ oldFileName, newFileName, hunks }) => {
      const lines: Line[] = []
      for (const { oldStart, newStart, lines: held } of hunks) {
        let [before, after] = [oldStart, newStart]
        lines.push({ kind: 'gap', before: null, after: null, parts: plain(`lines ${newStart} and on`) })
        for (const line of held) {
          const parts = plain(line.slice(1))
          if (line.startsWith('+')) lines.push({ kind: 'added', before: null, after: after++, parts })
          else if (line.startsWith('-')) lines.push({ kind: 'removed', before: before++, after: null, parts })
          else if (!line.startsWith('\\')) lines.push({ kind: 'same', before: before++, after: after++, parts })
        }
      }
      const named = newFileName === undefined || newFileName === '/dev/null' ? oldFileName : newFileName
      return counted((named ?? 'file').replace(/^[ab]\//, ''), lines)
    })
  } catch {
    return null
  }
}

const AROUND = 3
const FOLDED_MIN = 2
/** Long stretches that are the same are folded to what stands around a change. */
function folded(lines: readonly Line[]): Line[] {
  if (lines.every(({ kind }) => kind === 'same')) return [...lines]
  const isNear = lines.map((_, i) => lines.slice(Math.max(0, i - AROUND), i + AROUND + 1).some(({ kind }) => kind !== 'same'))
  const result: Line[] = []
  for (let i = 0; i < lines.length; i++) {
    let end = i
    while (end < lines.length && isNear[end] === false) end++
    // One line takes no less room than the words that it was folded.
    if (end - i < FOLDED_MIN) {
      result.push(lines[i]!)
      continue
    }
    result.push({ kind: 'gap', before: null, after: null, parts: plain(`${end - i} unchanged lines`) })
    i = end - 1
  }
  return result
}

/** A text against the version before it; without one, all of it as it is. */
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
  return counted(name, folded(lines), before === null)
}

export type Pair = { readonly left: Line | null; readonly right: Line | null }
/** Side by side: what was removed beside what was added for it. */
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
