// The law of tics: habits of REVIEW.md that a machine can find, counted for each folder. A count may only fall.
import { readFileSync } from 'node:fs'

/** Each tic with the text to write instead. */
const TICS: readonly { readonly tic: RegExp; readonly instead: string }[] = [
  { tic: /\b(?:some|no|every)body\b|\bwhoever\b/gi, instead: 'name the component: the caller, the client, the subscriber, the server' },
  { tic: /\bstands\b(?!\s+for\b)/gi, instead: 'is' },
  { tic: /\banew\b/gi, instead: 'again' },
  { tic: /\bbesides\b/gi, instead: 'also, or: in addition to' },
  { tic: /\bat\s+once\b/gi, instead: 'immediately, or: concurrently' },
  { tic: /\bThe\s+same\s+for\b/g, instead: 'say what it does' },
]
const [PERSON] = TICS

/** Texts about people, in which "nobody" and "somebody" are people. The list may only shrink. */
export const ABOUT_PEOPLE: readonly string[] = [
  'src/protocols/execution/asking/recipients.ts',
  'src/protocols/execution/asking/routing.ts',
  'src/protocols/execution/inbox/consequences.ts',
  'test/protocols/execution/asking/recipients.test.ts',
]

export type Tic = { readonly path: string; readonly line: number; readonly found: string; readonly instead: string }

/** The tics in the comments of a source file, or in the prose of a document. */
export function ticsIn(path: string, text: string): Tic[] {
  const parts = path.endsWith('.md') ? proseIn(text) : commentsIn(text)
  return parts.flatMap(({ line, text: part }) =>
    TICS.filter((row) => row !== PERSON || !ABOUT_PEOPLE.includes(path)).flatMap(({ tic, instead }) =>
      [...part.matchAll(tic)].map(({ 0: found, index }) => ({
        path,
        line: line + part.slice(0, index).split('\n').length - 1,
        found: found.replaceAll(/\s+/g, ' '),
        instead,
      })),
    ),
  )
}

/** The folder that a file is counted in: `src/kernel`, `test/laws`, `docs`; `.` for the documents of the root. */
export const folderOf = (path: string): string => /^(?:src|test)\/[\w-]+(?=\/)|^[\w-]+(?=\/)/.exec(path)?.[0] ?? '.'

/** Every file under the law: documents that are generated, and the history, are not. */
export const TIC_FILES = ['{src,test,bench,scripts,examples}/**/*.{ts,tsx}', '{*,docs/**/*,src/**/*}.md']
export const NO_TIC_FILES = [
  'docs/api/**',
  'docs/cli.md',
  'CHANGELOG.md',
  'REVIEW.md',
  'test/support/laws/tics.ts',
  'test/laws/names.test.ts',
  '**/node_modules/**',
]

/** The counts that were reached; a folder that is not listed has none. `node scripts/tics.ts --lower` writes them. */
export const TIC_TABLE = 'test/support/laws/tics.json'
export const readTable = (root: string): Record<string, number> =>
  JSON.parse(readFileSync(`${root}/${TIC_TABLE}`, 'utf8')) as Record<string, number>

export function countTics(tics: readonly Tic[]): Record<string, number> {
  const folders = Map.groupBy(tics, ({ path }) => folderOf(path))
  return Object.fromEntries([...folders].map(([folder, rows]) => [folder, rows.length] as const).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

/** Folders with more tics than before. */
export const risen = (counts: Readonly<Record<string, number>>, table: Readonly<Record<string, number>>): string[] =>
  Object.entries(counts)
    .filter(([folder, count]) => count > (table[folder] ?? 0))
    .map(
      ([folder, count]) =>
        `${folder}: ${count} tics of REVIEW.md, at most ${table[folder] ?? 0}; rewrite the new ones (\`node scripts/tics.ts ${folder}\` lists all)`,
    )

type Part = { readonly line: number; readonly text: string }

/** The paragraphs of a document, without code. */
function proseIn(markdown: string): Part[] {
  const lines = markdown
    .replaceAll(/^```[^]*?^```/gm, (block) => block.replaceAll(/[^\n]/g, ''))
    .replaceAll(/`[^`\n]*`/g, '``')
    .split('\n')
  return joined(lines.map((text, index) => ({ line: index + 1, text })).filter(({ text }) => text.trim() !== ''))
}

/** The comments of a source file. */
function commentsIn(source: string): Part[] {
  const lines: Part[] = []
  let isOpen = false
  for (const [index, raw] of source.split('\n').entries()) {
    const line = index + 1
    if (isOpen) {
      lines.push({ line, text: raw.replace(/^\s*\*(?!\/) ?/, '').split('*/')[0]! })
      isOpen = !raw.includes('*/')
      continue
    }
    const opened = /(?:^|\s|\{)\/\*\*? ?(.*)$/.exec(raw)?.[1]
    const whole = /^\s*\/\/ ?(.*)$/.exec(raw)?.[1]
    const text = whole ?? opened?.split('*/')[0] ?? /\s\/\/ (.*)$/.exec(raw)?.[1]
    if (text !== undefined) lines.push({ line, text })
    isOpen = whole === undefined && opened !== undefined && !opened.includes('*/')
  }
  return joined(lines)
}

/** Neighbouring lines as one text, so that words that a line break parts are found. */
function joined(lines: readonly Part[]): Part[] {
  const parts: (Part & { last: number })[] = []
  for (const { line, text } of lines) {
    const before = parts.at(-1)
    if (before?.last === line - 1) parts[parts.length - 1] = { line: before.line, text: `${before.text}\n${text}`, last: line }
    else parts.push({ line, text, last: line })
  }
  return parts
}
