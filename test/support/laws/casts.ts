// The law of casts: code does not overrule the compiler. Each exception has its reason, and the list may only shrink.

/** Files with one cast each. A cast that is gone leaves the list. */
export const castReasons: Readonly<Record<string, string>> = {
  'src/apps/cli/device/mcp.ts': 'the types of the MCP library do not know results that are tasks',
  'src/capabilities/mcp.ts': 'the validator of the MCP library is generic in a type that no argument names',
  'src/kernel/call/reader.ts': 'a function with fields, assigned one by one for speed',
  'src/kernel/declare/schema-builders.ts': 'builders of our own under the types of typebox',
  'src/sdk/seal.ts': 'the types of WebCrypto do not know that X25519 makes a pair',
  'src/stores/postgres/link.ts': 'the types of pg leave out the socket',
  'src/web/offline/worker.ts': 'a service worker, without the library of its types, which contradicts that of the page',
}

const CAST = /\bas (?:never|unknown as)\b/
/** As a type: after a colon, in type arguments, a union, a cast. */
const ANY = /(?::\s|<|\|\s|\bas\s|=>\s)any(?=[\])>,;\s|=]|$)/
const NO_ANY = /^src\/(?:web|apps|sdk)\//

/** The code of each line: without comments, and without text in quotes. */
const codeIn = (text: string): string[] =>
  text
    .replaceAll(/\/\*.*?\*\//gs, (comment) => comment.replaceAll(/[^\n]/g, ''))
    .split('\n')
    .map((line) => line.replace(/(^|\s)\/\/.*$/, '').replaceAll(/'[^']*'/g, "''"))

/** Every cast and every `any` of a file, but the cast that it has a reason for. */
export function castProblems(path: string, text: string): string[] {
  const at = (pattern: RegExp): number[] => codeIn(text).flatMap((line, i) => (pattern.test(line) ? [i + 1] : []))
  const casts = at(CAST)
  const isAllowed = Object.hasOwn(castReasons, path)
  if (isAllowed && casts.length === 0) return [`${path} has no cast any more: take it out of castReasons`]
  const problems = casts
    .slice(isAllowed ? 1 : 0)
    .map((line) => `${path}:${line}: no \`as never\`, no \`as unknown as\`: type the value where it comes from`)
  if (!NO_ANY.test(path)) return problems
  return [...problems, ...at(ANY).map((line) => `${path}:${line}: no \`any\`: take the type of the operation (Input, Output)`)]
}
