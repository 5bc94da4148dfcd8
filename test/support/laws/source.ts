// A scanner for TypeScript that is just good enough to reason about imports and names: it separates comments, and never takes the content
// of a string or a regular expression for code.

export type Token = { readonly kind: 'word' | 'mark' | 'string' | 'template' | 'regex'; readonly text: string; readonly line: number }
export type Source = { readonly tokens: readonly Token[]; readonly comments: readonly { text: string; line: number }[] }

const WORD = /[\p{ID_Start}$_#][\p{ID_Continue}$\u200c\u200d]*/uy
const NUMBER = /(?:0[xXbBoO][\da-fA-F_]+n?|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?n?)/y
const COMMENT = /\/\/[^\n]*|\/\*[^]*?\*\//y
const STRING = /'(?:[^'\\\n]|\\[^])*'|"(?:[^"\\\n]|\\[^])*"/y
const REGEX = /\/(?:[^/\\[\n]|\\[^\n]|\[(?:[^\]\\\n]|\\[^\n])*\])+\/[a-z]*/y
/** Up to the end of the template or to the next `${`. */
const TEMPLATE = /(?:[^`\\$]|\\[^]|\$(?!\{))*(`|\$\{)/y
/** After these words a slash begins a regular expression, not a division. */
const BEFORE_REGEX = new Set(['return', 'typeof', 'case', 'in', 'of', 'new', 'delete', 'void', 'throw', 'do', 'else', 'yield', 'await'])

export function scan(text: string): Source {
  const tokens: Token[] = []
  const comments: { text: string; line: number }[] = []
  /** For each open brace: does a template go on where it closes? */
  const braces: boolean[] = []
  let i = 0
  let line = 1

  function take(pattern: RegExp): string | null {
    pattern.lastIndex = i
    const found = pattern.exec(text)?.[0] ?? null
    if (found === null) return null
    i += found.length
    return found
  }
  function push(kind: Token['kind'], found: string): void {
    tokens.push({ kind, text: found, line })
    line += found.split('\n').length - 1
  }
  function takeTemplate(): void {
    const found = take(TEMPLATE)
    if (found === null) throw new Error(`line ${line}: a template without an end`)
    push('template', found)
    if (found.endsWith('${')) braces.push(true)
  }
  function isRegexNext(): boolean {
    const last = tokens.at(-1)
    if (!last || last.kind === 'template') return last === undefined || last.text.endsWith('${')
    if (last.kind === 'mark') return ![')', ']', '}'].includes(last.text)
    return last.kind === 'word' && BEFORE_REGEX.has(last.text)
  }

  while (i < text.length) {
    const character = text[i]!
    if (/\s/.test(character)) {
      if (character === '\n') line++
      i++
      continue
    }
    const comment = take(COMMENT)
    if (comment !== null) {
      comments.push({ text: comment, line })
      line += comment.split('\n').length - 1
      continue
    }
    if (character === '`') {
      i++
      takeTemplate()
      continue
    }
    if (character === "'" || character === '"') {
      const found = take(STRING)
      if (found === null) throw new Error(`line ${line}: a string without an end`)
      push('string', found)
      continue
    }
    const regex = character === '/' && isRegexNext() ? take(REGEX) : null
    if (regex !== null) {
      push('regex', regex)
      continue
    }
    const word = take(WORD) ?? take(NUMBER)
    if (word !== null) {
      push('word', word)
      continue
    }
    i++
    push('mark', character)
    if (character === '{') braces.push(false)
    if (character === '}' && braces.pop() === true) takeTemplate()
  }
  return { tokens, comments }
}

export type Import = {
  /** null: it is computed. */
  readonly specifier: string | null
  /** Names that are imported as values; `*` and `default` for whole modules. */
  readonly values: readonly string[]
  readonly line: number
}

/** import ... from, import '...', import(...), export ... from. */
export function importsOf({ tokens }: Source): Import[] {
  const found: Import[] = []
  for (const [i, token] of tokens.entries()) {
    const [before, first] = [tokens[i - 1], tokens[i - 2]]
    if (token.kind === 'string' && before?.kind === 'word' && ['from', 'import'].includes(before.text)) {
      found.push({ specifier: token.text.slice(1, -1), values: valuesBefore(tokens, i), line: token.line })
    } else if (before?.text === '(' && first?.text === 'import' && tokens[i - 3]?.text !== '.') {
      found.push({ specifier: token.kind === 'string' ? token.text.slice(1, -1) : null, values: ['*'], line: token.line })
    } else if (before?.text === '(' && first?.text === 'getBuiltinModule') {
      const specifier = token.kind === 'string' && tokens[i + 1]?.text === ')' ? token.text.slice(1, -1) : null
      found.push({ specifier, values: takenFrom(tokens, i - 5), line: token.line })
    }
  }
  return found
}

/** The names before `= process.getBuiltinModule(...)`, or all of them. */
function takenFrom(tokens: readonly Token[], equals: number): string[] {
  if (tokens[equals]?.text !== '=' || tokens[equals - 1]?.text !== '}') return ['*']
  let start = equals - 1
  while (start > 0 && tokens[start]!.text !== '{') start--
  const names = tokens.slice(start + 1, equals - 1).map(({ text }) => text)
  return names.includes('...')
    ? ['*']
    : names
        .join(' ')
        .split(' , ')
        .filter(Boolean)
        .map((part) => part.split(' ')[0]!)
}

function valuesBefore(tokens: readonly Token[], end: number): string[] {
  let start = end
  while (start > 0 && !(tokens[start]!.kind === 'word' && ['import', 'export'].includes(tokens[start]!.text))) start--
  const clause = tokens.slice(start + 1, end - 1)
  if (clause[0]?.text === 'type' && clause[1]?.text !== ',' && clause[1]?.text !== 'from') return []
  const open = clause.findIndex(({ text }) => text === '{')
  const whole = (open === -1 ? clause : clause.slice(0, open)).flatMap(({ kind, text }) =>
    text === '*' ? ['*'] : kind === 'word' && text !== 'as' ? ['default'] : [],
  )
  if (open === -1) return whole
  const names = clause.slice(
    open + 1,
    clause.findIndex(({ text }) => text === '}'),
  )
  const parts = names
    .map(({ text }) => text)
    .join(' ')
    .split(' , ')
  return [...whole, ...parts.filter((part) => part !== '' && !part.startsWith('type ')).map((part) => part.split(' ')[0]!)]
}
