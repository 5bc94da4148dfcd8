// Keys of a terminal in raw mode. Pasted text is always text, even if it looks like keys.

export type Key = { readonly name: string; readonly text: string }

const named: Readonly<Record<string, string>> = {
  '\u0001': 'ctrl-a',
  '\u0002': 'ctrl-b',
  '\u0003': 'ctrl-c',
  '\u0004': 'ctrl-d',
  '\u0005': 'ctrl-e',
  '\u0006': 'ctrl-f',
  '\u000b': 'ctrl-k',
  '\u000c': 'ctrl-l',
  '\u0017': 'ctrl-w',
  '\u001a': 'ctrl-z',
  '\u0008': 'backspace',
  '\u007f': 'backspace',
  '\r': 'enter',
  '\n': 'enter',
  '\u0015': 'clear',
  '\u001b[A': 'up',
  '\u001b[B': 'down',
  '\u001b[C': 'right',
  '\u001b[D': 'left',
  '\u001bOA': 'up',
  '\u001bOB': 'down',
  '\u001bOC': 'right',
  '\u001bOD': 'left',
  // Each terminal has its own spelling of these two.
  '\u001b[H': 'home',
  '\u001bOH': 'home',
  '\u001b[1~': 'home',
  '\u001b[7~': 'home',
  '\u001b[F': 'end',
  '\u001bOF': 'end',
  '\u001b[4~': 'end',
  '\u001b[8~': 'end',
  '\u001b[3~': 'delete',
  '\u001b[15~': 'ctrl-l', // F5
  '\u001b[5~': 'pageup',
  '\u001b[6~': 'pagedown',
  '\u001b': 'esc',
}
const ESC = '\u001b'
export const PASTE_ON = '\u001b[?2004h'
export const PASTE_OFF = '\u001b[?2004l'
const [PASTE_BEGINS, PASTE_ENDS] = ['\u001b[200~', '\u001b[201~']
// oxlint-disable-next-line no-control-regex -- the sequences of keys begin with a control character
const SEQUENCE = /^\u001b(?:\[[0-9;?]*[ -/]*[@-~]|O[A-Z])/
/** An escape character followed by nothing for this long is the Esc key. */
const ALONE_MS = 40
const PASTE_CHARS_MAX = 100_000

export type Keyboard = { push(text: string): void; stop(): void }

/** `pressed` gets all keys of one read together. */
export function createKeyboard(pressed: (keys: readonly Key[]) => void): Keyboard {
  let rest = ''
  let timer: NodeJS.Timeout | undefined

  function take(isOver: boolean): Key[] {
    const keys: Key[] = []
    while (rest !== '') {
      const found = next(rest, isOver)
      if (found === null) break
      rest = rest.slice(found.length)
      if (found.key) keys.push(found.key)
    }
    return keys
  }
  function tell(isOver: boolean): void {
    const keys = take(isOver)
    if (keys.length > 0) pressed(keys)
  }
  return {
    push(text) {
      clearTimeout(timer)
      rest += text
      tell(rest.length > PASTE_CHARS_MAX)
      if (rest !== '' && !rest.startsWith(PASTE_BEGINS)) timer = setTimeout(() => tell(true), ALONE_MS)
    },
    stop: () => clearTimeout(timer),
  }
}

/** null: the sequence is incomplete. */
function next(text: string, isOver: boolean): { length: number; key: Key | null } | null {
  if (text.startsWith(PASTE_BEGINS)) {
    const end = text.indexOf(PASTE_ENDS)
    if (end < 0 && !isOver) return null
    const pasted = end < 0 ? text.slice(PASTE_BEGINS.length) : text.slice(PASTE_BEGINS.length, end)
    return { length: end < 0 ? text.length : end + PASTE_ENDS.length, key: { name: 'paste', text: pasted.replaceAll(/\r\n?/g, '\n') } }
  }
  if (text.startsWith(ESC)) {
    const sequence = SEQUENCE.exec(text)?.[0]
    // Swallow an unknown sequence whole: its last character must not count as an answer.
    if (sequence !== undefined) return { length: sequence.length, key: keyOf(sequence) }
    if (!isOver) return null
    return { length: 1, key: keyOf(ESC) }
  }
  const character = String.fromCodePoint(text.codePointAt(0)!)
  const name = named[character]
  if (name !== undefined) return { length: 1, key: { name, text: '' } }
  const isPrintable = character >= ' '
  return { length: character.length, key: isPrintable ? { name: 'character', text: character } : null }
}

const keyOf = (sequence: string): Key | null => (named[sequence] === undefined ? null : { name: named[sequence], text: '' })
