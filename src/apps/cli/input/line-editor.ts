// A line editor for the terminal: the text and the cursor position. A character is a grapheme.
import type { Key } from './keyboard.ts'

export type Line = { readonly text: string; /** The number of characters before the cursor. */ readonly at: number }

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' })
export const charactersOf = (text: string): string[] => Array.from(graphemes.segment(text), ({ segment }) => segment)

export const newLine = (text: string): Line => ({ text, at: charactersOf(text).length })

const CHARS_MAX = 20_000

/** The line after a key; a key that edits nothing leaves it as it is. */
export function editLine({ text, at }: Line, { name, text: typed }: Key): Line {
  const all = charactersOf(text)
  const [before, after] = [all.slice(0, at), all.slice(at)]
  const joinLine = (left: readonly string[], right: readonly string[]): Line => {
    const start = left.join('')
    return { text: `${start}${right.join('')}`, at: charactersOf(start).length }
  }
  switch (name) {
    case 'character':
    case 'paste':
      return joinLine([...before, typed.slice(0, Math.max(0, CHARS_MAX - text.length))], after)
    case 'left':
    case 'ctrl-b':
      return { text, at: Math.max(0, at - 1) }
    case 'right':
    case 'ctrl-f':
      return { text, at: Math.min(all.length, at + 1) }
    case 'home':
    case 'ctrl-a':
      return { text, at: 0 }
    case 'end':
    case 'ctrl-e':
      return { text, at: all.length }
    case 'backspace':
      return joinLine(before.slice(0, -1), after)
    case 'delete':
      return joinLine(before, after.slice(1))
    case 'clear':
      return joinLine([], after)
    case 'ctrl-k':
      return joinLine(before, [])
    case 'ctrl-w':
      return joinLine([before.join('').replace(/\S*\s*$/u, '')], after)
    default:
      return { text, at }
  }
}
