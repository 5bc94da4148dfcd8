// `npm run messages`: prints every text in the sources that a person can read (errors, help, log lines, labels), so that they can be read from top to bottom.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { scan, type Token } from '#test/support/laws/source.ts'

const root = join(import.meta.dirname, '..')

const HEAD = `# Messages

Every error, help and log text in \`src\`, in the order of the files. \`…\` marks a part that is filled in.`

/** The texts of each source file that has any, by its path. */
export function messages(): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, readonly string[]>()
  for (const file of globSync('src/**/*.ts', { cwd: root }).sort()) {
    const texts = textsIn(readFileSync(join(root, file), 'utf8')).filter(isProse)
    if (texts.length > 0) found.set(file, [...new Set(texts)])
  }
  return found
}

function messagesText(): string {
  const parts = [...messages()].map(([file, texts]) => `## ${file}\n\n${texts.map((text) => `- ${shown(text)}`).join('\n')}`)
  return [HEAD, ...parts].join('\n\n')
}

/** The literals of a source file; the parts of a template are joined by `…`. */
export function textsIn(source: string): string[] {
  const found: string[] = []
  const open: string[] = []
  /** For each open brace: is it the hole of a template? */
  const braces: boolean[] = []
  let goesOn = false
  for (const token of scan(source).tokens) {
    if (token.kind === 'string') found.push(unescaped(token.text.slice(1, -1)))
    else if (token.kind === 'template') {
      const before = goesOn ? open.pop()! : ''
      if (token.text.endsWith('${')) {
        open.push(`${before}${unescaped(token.text.slice(0, -2))}…`)
        braces.push(true)
      } else found.push(before + unescaped(token.text.slice(0, -1)))
    }
    goesOn = isEndOfHole(token, braces)
  }
  return found
}

function isEndOfHole(token: Token, braces: boolean[]): boolean {
  if (token.kind !== 'mark') return false
  if (token.text === '{') braces.push(false)
  return token.text === '}' && braces.pop() === true
}

const unescaped = (text: string): string => text.replaceAll('\\n', '\n').replace(/\\(['"`\\$])/g, '$1')

/** Two words beside each other, and no statement of SQL. */
const isProse = (text: string): boolean =>
  /\p{Ll}{2,}[,:;)]? \(?\p{L}/u.test(text) && !/^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|BEGIN)\b/.test(text)

const shown = (text: string): string =>
  text
    .trim()
    .replace(/\s*\n\s*/g, ' / ')
    .replaceAll('<', '&lt;')

if (import.meta.main) console.log(messagesText())
