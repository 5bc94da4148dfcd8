// The law of named places: a document that names an identifier beside a file names the file that declares it.
import { scan } from './source.ts'

/** `paths`: every file of the project; `textOf`: their texts. */
export type Files = { readonly paths: readonly string[]; textOf(path: string): string }

const CODE = /`([^`\n]+)`/g
const PATH = /^(?:[\w.-]+\/)*[\w.-]+\.tsx?$/
/** `handlerOf(steps)` names `handlerOf`, `hub.subscribe` a member, `audit.follow` an operation. */
const IDENTIFIER = /^([A-Za-z_$][\w$]*(?:\.[a-z_]+)?)(?:\([^)]*\))?$/
/** "`x` in `path`", "`x` of `path`", "`path` (`x`)". */
const BESIDE = /`([^`]+)` (?:in|of) `([^`]+)`/g
const BEHIND = /`([^`]+)` \(`([^`]+)`/g

const identifierIn = (code: string): string | null => (PATH.test(code) ? null : (IDENTIFIER.exec(code)?.[1] ?? null))

/** Each identifier with the files of which one must declare it. In the cells of a table, words with a dot are operations and events: they have no file. */
function pairsIn(markdown: string): (readonly [identifier: string, paths: readonly string[]])[] {
  const prose = markdown.replaceAll(/^```[^]*?^```/gm, '')
  const cells = prose
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .flatMap((line) => line.split('|'))
  const inCells = cells.flatMap((cell) => {
    const codes = [...cell.matchAll(CODE)].map(([, code]) => code!)
    const paths = codes.filter((code) => PATH.test(code))
    return paths.some((path) => path.startsWith('src/'))
      ? codes.filter((code) => !code.includes('.')).flatMap((code) => named(code, paths))
      : []
  })
  const flat = prose.replaceAll(/\s+/g, ' ')
  const beside = [...flat.matchAll(BESIDE)].flatMap(([, code, path]) => (PATH.test(path!) ? named(code!, [path!]) : []))
  const behind = [...flat.matchAll(BEHIND)].flatMap(([, path, code]) => (PATH.test(path!) ? named(code!, [path!]) : []))
  return [...inCells, ...beside, ...behind]
}
function named(code: string, paths: readonly string[]): (readonly [string, readonly string[]])[] {
  const identifier = identifierIn(code)
  return identifier === null ? [] : [[identifier, paths]]
}

export function placeProblems(document: string, markdown: string, files: Files): string[] {
  const problems = pairsIn(markdown).flatMap(([identifier, paths]) => {
    const found = paths.map((path) => filesNamed(path, files))
    const missing = paths.filter((_, i) => found[i]!.length === 0)
    if (missing.length > 0) return missing.map((path) => `${document}: \`${path}\` beside \`${identifier}\` is not a file`)
    const homes = found.flat().map((path) => homeOf(identifier, files.textOf(path)))
    if (homes.includes('here')) return []
    const elsewhere = homes.find((home) => home !== null)
    const hint = elsewhere === undefined ? 'which does not mention it' : `which imports it from ${elsewhere}`
    return [`${document}: \`${identifier}\` is named beside ${paths.map((path) => `\`${path}\``).join(', ')}, ${hint}`]
  })
  return [...new Set(problems)]
}

/** A path may be written from the root, from `src`, or from a folder that the text around it names. */
const filesNamed = (path: string, { paths }: Files): string[] =>
  paths.includes(path) ? [path] : paths.filter((whole) => whole.startsWith('src/') && whole.endsWith(`/${path}`))

/** `here`: declared by the file, or imported from a package; a path: imported from another file of the project; null: not mentioned. */
function homeOf(identifier: string, text: string): string | null {
  const { tokens } = scan(text)
  const member = identifier.slice(identifier.indexOf('.') + 1)
  const isMentioned = tokens.some(({ kind, text: token }) =>
    kind === 'word' ? token === member : kind === 'string' && token.slice(1, -1) === identifier,
  )
  if (!isMentioned) return null
  const imported = [...text.matchAll(/^import ([^'"]*) from '([.#][^']+)'/gms)].find(([, names]) =>
    new RegExp(`\\b${identifier.replaceAll('$', '\\$')}\\b`).test(names!),
  )
  return imported?.[2] ?? 'here'
}
