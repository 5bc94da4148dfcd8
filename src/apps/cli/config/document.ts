// A configuration file as a value, with the line of each part of it. JSON is read as YAML, of which it is a part.
import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, type Node, type ParsedNode, type Scalar } from 'yaml'
import { limits } from '#kernel/limits.ts'

export type Place = { readonly file: string; readonly line: number }
/** `lines`: by path, such as `people.user_ada.role`. */
export type Document = { readonly file: string; readonly value: unknown; readonly lines: ReadonlyMap<string, number> }

/** A mistake in a file, with its line. */
export class Misplaced extends Error {
  readonly place: Place
  constructor(file: string, line: number, message: string) {
    super(message)
    this.place = { file, line }
  }
}

type Anchored = { readonly value: unknown; readonly size: number } | 'open'
type Walk = {
  readonly lines: Map<string, number>
  readonly anchors: Map<string, Anchored>
  size: number
  lineOf(node: Node | null): number
  refuse(node: Node | null, message: string): never
}

const TOO_DEEP = `more than ${limits.depthMax} levels`
/** Clearer than those of the parser. */
const messages: Readonly<Record<string, string>> = {
  MULTIPLE_DOCS: 'the file has several documents: give each a file of its own',
  TAB_AS_INDENT: 'a tab cannot indent: use spaces',
}

/** The kinds of values that JSON has too. */
const PLAIN_TAG = /^(?:!|tag:yaml\.org,2002:(?:str|int|float|bool|null|map|seq))$/

export function readDocument(file: string, text: string): Document {
  const counter = new LineCounter()
  const fail = (offset: number, message: string): never => {
    throw new Misplaced(file, Math.max(1, counter.linePos(offset).line), message)
  }
  // Keys are compared below: the parser would compare each with each.
  const options = { lineCounter: counter, schema: 'core', version: '1.2', uniqueKeys: false, prettyErrors: false } as const
  const document = parseDocument(text, options)
  const [first] = [...document.errors, ...document.warnings]
  if (first) return fail(first.pos[0], /call stack/.test(first.message) ? TOO_DEEP : (messages[first.code] ?? first.message))
  const lineOf = (node: Node | null): number => counter.linePos(node?.range?.[0] ?? 0).line
  const walk: Walk = {
    lines: new Map(),
    anchors: new Map(),
    size: 0,
    lineOf,
    refuse: (node, message) => fail(node?.range?.[0] ?? 0, message),
  }
  const value = document.contents === null ? {} : valueOf(document.contents, [], walk)
  return { file, value, lines: walk.lines }
}

function valueOf(node: ParsedNode, path: readonly string[], walk: Walk): unknown {
  if (path.length > limits.depthMax) walk.refuse(node, TOO_DEEP)
  if (node.tag !== undefined && !PLAIN_TAG.test(node.tag)) walk.refuse(node, `the tag ${node.tag} is not known here`)
  if (isAlias(node)) return aliasOf(node, walk)
  const { anchor } = node as { readonly anchor?: string }
  if (anchor !== undefined) walk.anchors.set(anchor, 'open')
  const before = walk.size
  grow(node, 1, walk)
  const value = isMap(node)
    ? mapOf(node.items, path, walk)
    : isSeq(node)
      ? node.items.map((item, i) => itemOf(item, [...path, String(i)], walk))
      : scalarOf(node, walk)
  if (anchor !== undefined) walk.anchors.set(anchor, { value, size: walk.size - before })
  return value
}

/** Counts the values as if aliases were written out. */
function grow(node: Node, by: number, walk: Walk): void {
  walk.size += by
  if (walk.size > limits.configValuesMax)
    walk.refuse(node, `more than ${limits.configValuesMax} values, with those that aliases stand for: write less`)
}

function aliasOf(node: { readonly source: string } & Node, walk: Walk): unknown {
  const found = walk.anchors.get(node.source)
  if (found === undefined) return walk.refuse(node, `there is no anchor &${node.source} before this line`)
  if (found === 'open') return walk.refuse(node, `the anchor &${node.source} contains itself`)
  grow(node, found.size, walk)
  return found.value
}

function itemOf(item: ParsedNode, path: readonly string[], walk: Walk): unknown {
  walk.lines.set(path.join('.'), walk.lineOf(item))
  return valueOf(item, path, walk)
}

function mapOf(pairs: readonly { readonly key: unknown; readonly value: unknown }[], path: readonly string[], walk: Walk): object {
  const value: Record<string, unknown> = {}
  for (const { key, value: inner } of pairs) {
    const node = key as Scalar & { readonly range?: [number, number, number] }
    const name = isScalar(key)
      ? typeof node.value === 'string'
        ? node.value
        : (node.source ?? '')
      : walk.refuse(key as Node, 'a name is a text')
    if (name === '' || name === '__proto__') walk.refuse(node, `${JSON.stringify(name)} cannot be a name`)
    if (Object.hasOwn(value, name)) walk.refuse(node, `${name} is given twice, first in line ${walk.lines.get([...path, name].join('.'))}`)
    walk.lines.set([...path, name].join('.'), walk.lineOf(node))
    value[name] = inner === null ? null : valueOf(inner as ParsedNode, [...path, name], walk)
  }
  return value
}

function scalarOf(node: Scalar, walk: Walk): unknown {
  const { value } = node
  if (typeof value === 'number' && !Number.isFinite(value)) walk.refuse(node, `${node.source ?? 'this'} is not a number of JSON`)
  return value ?? null
}
