// The law of the page: it talks to the server through the SDK alone, nothing imports it, and no text of others ever becomes markup.

/** Packages that the page is made of; none of them is one that running needs. */
export const packages = [
  'react',
  'react-dom',
  'react-dom/client',
  '@tanstack/react-query',
  '@tanstack/react-virtual',
  'wouter',
  'diff',
  'uqr',
]

/** Ways in which a text becomes markup, code or an address that is loaded. */
const banned: readonly (readonly [message: RegExp, instead: string])[] = [
  [
    /dangerouslySetInnerHTML|\b(?:inner|outer)HTML\b|insertAdjacentHTML|createContextualFragment|document\.write/,
    'a text is a text node: let React render it',
  ],
  [/\beval\(|new Function\(/, 'code comes from files alone'],
  [/\blocalStorage\.setItem\(\s*['"`](?:token|key|session)/, 'no credential is kept in the page'],
]

const importsIn = (text: string): string[] => [...text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*'([^'\n]+)'/g)].map(([, name]) => name!)
const LINES_MAX = 450

function importProblem(path: string, name: string): string | null {
  if (name === '#sdk/index.ts' || name === '#sdk/answers.ts') return null
  if (name.startsWith('#')) return `${name}: the page talks through #sdk/index.ts alone, and checks answers by #sdk/answers.ts`
  if (!name.startsWith('.')) return packages.includes(name) ? null : `${name} is no package of the page; see test/support/laws/page.ts`
  const target = new URL(name, `file:///${path}`).pathname
  if (name.startsWith('../'.repeat(path.split('/').length))) return `${name} leaves src/web`
  return /\.(?:tsx?|css)$/.test(target) ? null : `${name} must end in .ts, .tsx or .css`
}

/** Everything that is wrong with one file; `path` is relative to src/web. */
export function pageProblems(path: string, text: string): string[] {
  const lines = text.trimEnd().split('\n').length
  return [
    ...importsIn(text).flatMap((name) => importProblem(path, name) ?? []),
    ...banned.flatMap(([message, instead]) => (message.test(text) ? [`${message.exec(text)![0]}: ${instead}`] : [])),
    ...(lines > LINES_MAX ? [`${lines} lines; split it by subject at ${LINES_MAX}`] : []),
    ...(text.startsWith('// ') ? [] : ['its first line says what it is']),
  ].map((message) => `src/web/${path}: ${message}`)
}
