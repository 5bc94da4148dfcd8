// Text for a terminal. An agent's text can contain escape sequences that move the cursor, hide lines or reverse text: they are shown as
// text and never interpreted.

/** Control characters (including tab and newline), bidirectional controls, and invisible characters. */
const HOSTILE = /[\p{Cc}\p{Bidi_Control}\u2028\u2029\u200b\u2060-\u2064\ufeff\u{e0000}-\u{e007f}]|\p{Surrogate}/gu

const escapeChar = (char: string): string => {
  const code = char.codePointAt(0)!
  if (char === '\n') return String.raw`\n`
  if (char === '\t') return String.raw`\t`
  if (char === '\r') return String.raw`\r`
  if (code <= 0xff) return String.raw`\x${code.toString(16).padStart(2, '0')}`
  return code <= 0xffff ? String.raw`\u${code.toString(16).padStart(4, '0')}` : String.raw`\u{${code.toString(16)}}`
}

/** Escapes control, bidirectional and invisible characters, line breaks included. */
export const escapeControl = (text: string): string => text.replaceAll(HOSTILE, escapeChar)

/** Escapes like `escapeControl`, but keeps line breaks and tabs. */
export const inertLines = (text: string): string =>
  text.replaceAll(HOSTILE, (char) => (char === '\n' || char === '\t' ? char : escapeChar(char)))

/** JSON that is safe to print in a terminal. The value is unchanged, since JSON can escape any character. */
export const inertJson = (value: unknown, indent: number): string =>
  JSON.stringify(value, null, indent).replaceAll(HOSTILE, (char) => {
    // All newlines belong to the indentation: JSON has escaped those within strings.
    if (char === '\n') return char
    return [...Array(char.length).keys()].map((i) => String.raw`\u${char.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')
  })

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' })
/** East Asian Width W and F with the gaps between them, and everything that is drawn as a picture. */
const WIDE =
  /[\u1100-\u115f\u2329\u232a\u2630-\u2637\u268a-\u268f\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe1f\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{16fe0}-\u{18dff}\u{1aff0}-\u{1b2ff}\u{1d300}-\u{1d37f}\u{1f000}-\u{1faff}\u{20000}-\u{3ffff}]|\p{Emoji_Presentation}/u
const NO_WIDTH = /[\p{Mn}\p{Me}\u200c\u200d]/u
/** Makes a picture of the character before it. */
const AS_PICTURE = '\ufe0f'
const ASCII = /^[ -~]*$/

/**
 * The most columns that a terminal can use for a text, counted by code point: not every terminal joins the code points of an emoji, and an
 * underestimated line would wrap to the start of the next one, where the server's own lines begin.
 */
export function widthOf(text: string): number {
  if (ASCII.test(text)) return text.length
  let width = 0
  let before = 0
  for (const char of text) {
    if (char === AS_PICTURE) before = before === 1 ? 1 : 0
    else before = NO_WIDTH.test(char) ? 0 : WIDE.test(char) ? 2 : 1
    width += before
  }
  return width
}

/** Graphemes; one that is wider than `columns` is split into code points. */
function* charactersIn(text: string, columns: number): Iterable<string> {
  for (const { segment } of graphemes.segment(text))
    if (widthOf(segment) <= columns) yield segment
    else yield* segment
}

/** Cuts a text to `columns`, ending with an ellipsis. */
export function cutToWidth(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text
  let kept = ''
  let width = 0
  for (const character of charactersIn(text, columns - 1)) {
    width += widthOf(character)
    if (width > columns - 1) break
    kept += character
  }
  return `${kept}…`
}

export const padToWidth = (text: string, columns: number): string => text + ' '.repeat(Math.max(0, columns - widthOf(text)))

/** Lines of at most `columns`, broken between words. */
export function wrapWords(text: string, columns: number): string[] {
  return text.split('\n').flatMap((line) => {
    const lines: string[] = []
    const indent = /^ */.exec(line)![0]
    let current = indent
    let width = indent.length
    for (const [i, word] of line.slice(indent.length).split(' ').entries()) {
      const more = widthOf(word)
      if (i > 0 && width + 1 + more > columns) {
        lines.push(current)
        current = word
        width = more
      } else {
        current = i === 0 ? `${current}${word}` : `${current} ${word}`
        width += more + (i === 0 ? 0 : 1)
      }
    }
    return [...lines, current]
  })
}

/** Like the above, but breaks words that are longer than a line: nothing is cut off, and the terminal never wraps. */
export const foldLines = (text: string, columns: number): string[] =>
  wrapWords(text.replaceAll('\t', '    '), columns).flatMap((line) => {
    if (line.length <= columns && ASCII.test(line)) return [line]
    const lines: string[] = []
    let current = ''
    let width = 0
    for (const character of charactersIn(line, columns)) {
      const more = widthOf(character)
      if (width + more > columns && current !== '') {
        lines.push(current)
        current = ''
        width = 0
      }
      current += character
      width += more
    }
    return [...lines, current]
  })

/** Prefix of every line of foreign text, from an agent or a person: no line of the server's own begins with it (X32). */
export const MARK = '   │ '
const NARROW = 4
/** Foreign text with each line marked; `first` replaces the first mark, and further lines are indented to its width. */
export function markedLines(text: string, columns: number, first = MARK): string[] {
  const room = Math.max(NARROW, columns - widthOf(first))
  const rest = `${' '.repeat(Math.max(0, widthOf(first) - 2))}│ `
  return foldLines(inertLines(text), room).map((line, i) => `${i === 0 ? first : rest}${line}`)
}

/** A sentence of our own. It can contain a long quotation, so every line after the first is indented deeper than a sentence. */
export function ownLines(text: string, columns: number): string[] {
  const escaped = escapeControl(text)
  const first = foldLines(escaped, columns)[0]!
  const rest = escaped.slice(first.length).trimStart()
  const indent = columns > 4 * NARROW ? '    ' : ' '
  return [first, ...(rest === '' ? [] : foldLines(rest, Math.max(1, columns - indent.length)).map((line) => `${indent}${line}`))]
}

export const shellQuote = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`)
