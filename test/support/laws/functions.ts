// The law of short functions: at most 70 lines, where a factory counts without its inner functions. There are no exceptions.
import { parseSync } from 'oxc-parser'

const FUNCTION_LINES_MAX = 70

type Node = { readonly type: string; readonly start: number; readonly end: number; readonly [field: string]: unknown }
type Range = { readonly first: number; readonly last: number }
type Found = Range & { readonly name: string; readonly inner: Range[] }

const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'])
/** A function in one of these has the name of its parent. A callback has none, and counts as part of the function around it, if there is one. */
const NAMING: Readonly<Record<string, string>> = {
  VariableDeclarator: 'id',
  Property: 'key',
  MethodDefinition: 'key',
  PropertyDefinition: 'key',
}
const isNode = (value: unknown): value is Node => typeof (value as Node | null)?.type === 'string'
const nameIn = (value: unknown): string | null => (isNode(value) && typeof value['name'] === 'string' ? value['name'] : null)
const nameOf = (node: Node, parent: Node | null): string | null =>
  nameIn(node['id']) ?? (parent && Object.hasOwn(NAMING, parent.type) ? nameIn(parent[NAMING[parent.type]!]) : null)

/** The lines of every named function of a file, without those of the named functions inside it. */
function functionLines(path: string, text: string): { name: string; line: number; lines: number }[] {
  const { program, errors } = parseSync(path, text)
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]!.message}`)
  const lineAt = createLineCounter(text)
  const found: Found[] = []
  const visit = (value: unknown, parent: Node | null, outer: Found | null): void => {
    if (Array.isArray(value)) for (const item of value) visit(item, parent, outer)
    if (!isNode(value)) return
    const name = FUNCTIONS.has(value.type) ? (nameOf(value, parent) ?? (outer === null ? 'anonymous' : null)) : null
    const self: Found | null = name === null ? outer : { name, first: lineAt(value.start), last: lineAt(value.end), inner: [] }
    if (self !== null && self !== outer) {
      found.push(self)
      outer?.inner.push(self)
    }
    for (const child of Object.values(value)) if (typeof child === 'object') visit(child, value, self)
  }
  visit(program, null, null)
  return found.map(({ name, first, last, inner }) => {
    const within = new Set(inner.flatMap((range) => (range.first < range.last ? linesOf(range) : [])))
    return { name, line: first, lines: linesOf({ first, last }).filter((line) => !within.has(line)).length }
  })
}

/** The line of each offset. */
function createLineCounter(text: string): (offset: number) => number {
  const starts = [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)]
  return (offset) => {
    let [low, high] = [0, starts.length]
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if (starts[middle]! <= offset) low = middle
      else high = middle
    }
    return low + 1
  }
}
const linesOf = ({ first, last }: Range): number[] => Array.from({ length: last - first + 1 }, (_, i) => first + i)

/** In formatted source. Only for speed: most files have no statement that is long enough (4.7 -> 1.7 s for all, on a busy machine). */
const STATEMENT_END = /^[)\]}]/m

/** Functions that are too long. */
export function longFunctionProblems(files: readonly (readonly [path: string, text: string])[]): string[] {
  const worthParsing = files.filter(([, text]) => text.split(STATEMENT_END).some((part) => part.split('\n').length > FUNCTION_LINES_MAX))
  return worthParsing.flatMap(([path, text]) =>
    functionLines(path, text)
      .filter(({ lines }) => lines > FUNCTION_LINES_MAX)
      .map(
        ({ name, line, lines }) =>
          `${path}:${line}: ${name} has ${lines} lines, at most ${FUNCTION_LINES_MAX}: split it, or turn its closure into a state object`,
      ),
  )
}
