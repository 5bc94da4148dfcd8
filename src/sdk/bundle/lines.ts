// Lines of a bundle, read strictly: canonical JSON with exactly the fields of its form. Every defect is a sentence with the number of its line.
import { canonical } from '#kernel/log/canonical-json.ts'
import { BUNDLE, type FactLine, type FirstLine, type LastLine, type ReceiptLine, type SeenLine } from '#kernel/log/bundle/bundle.ts'
import { bytesOfBase64 } from '#kernel/log/tree/base64.ts'
import { HASH_BYTES } from '#kernel/log/tree/tree.ts'
import type { Line } from '#kernel/log/hash-chain.ts'
import { limits } from '#kernel/limits.ts'

/** A bundle that is not genuine. `line` null: it is not a bundle at all. */
export class Broken extends Error {
  override name = 'Broken'
  readonly line: number | null
  constructor(line: number | null, what: string) {
    super(what)
    this.line = line
  }
}

type Fields = Readonly<Record<string, unknown>>
const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value)

/** JSON with every key once, in the one form that it has: other texts of the same value are refused, never repaired. */
export function fieldsIn(text: string, at: number): Fields {
  let value: unknown
  try {
    value = JSON.parse(text)
    if (canonical(value) !== text) throw new Broken(at, 'it is not canonical JSON: spaces, another order, repeated keys or CR')
  } catch (error) {
    throw error instanceof Broken ? error : new Broken(at, 'it is not JSON')
  }
  if (!isFields(value)) throw new Broken(at, 'it is not an object')
  return value
}

const hasExactly = (value: unknown, names: string): value is Fields => isFields(value) && Object.keys(value).toSorted().join() === names

export function firstLineIn(text: string): FirstLine {
  if (text.charCodeAt(0) === 0xfeff) throw new Broken(null, 'it begins with a byte order mark, and a bundle has none')
  const line = fieldsIn(text, 1)
  if (line['countersign'] !== BUNDLE) throw new Broken(1, `it is not a bundle of the form ${BUNDLE}`)
  const isFirst =
    hasExactly(line, 'about,complete,countersign,made_at,origin') &&
    hasExactly(line['about'], 'id,kind') &&
    Object.values(line['about']).every((held) => typeof held === 'string') &&
    typeof line['complete'] === 'boolean' &&
    isTime(line['made_at']) &&
    typeof line['origin'] === 'string'
  if (!isFirst) throw new Broken(1, 'it is not the first line of a bundle: a field is missing, unknown or of another type')
  return line as FirstLine
}

export function lastLineIn(text: string, at: number): LastLine {
  const line = fieldsIn(text, at)
  const isLast =
    hasExactly(line, 'checkpoint,lines,sha256') &&
    typeof line['checkpoint'] === 'string' &&
    Number.isSafeInteger(line['lines']) &&
    typeof line['sha256'] === 'string'
  if (!isLast) throw new Broken(at, 'it is not the last line of a bundle: the end was cut off')
  return line as LastLine
}

export type MiddleLine =
  | {
      readonly is: 'fact'
      readonly fact: FactLine['fact']
      readonly sealed: Line
      readonly ms: number
      readonly proof: readonly Uint8Array[] | null
    }
  | { readonly is: 'seen'; readonly checkpoint: string; readonly proof: readonly Uint8Array[] }
  | ({ readonly is: 'receipt' } & ReceiptLine)

export function middleLineIn(text: string, at: number): MiddleLine {
  const line = fieldsIn(text, at)
  const names = Object.keys(line).toSorted().join()
  if (names === 'fact') return factIn(line['fact'], at)
  if (names === 'seen') return seenIn(line as SeenLine, at)
  if (names === 'receipt' || names === 'receipt,request') {
    if (!Object.values(line).every(isFields)) throw new Broken(at, 'the receipt is not an object')
    return { is: 'receipt', ...(line as ReceiptLine) }
  }
  throw new Broken(at, 'it is neither a fact, an earlier checkpoint nor a receipt')
}

function factIn(value: unknown, at: number): MiddleLine {
  const isFact =
    (hasExactly(value, 'images,index,line') || hasExactly(value, 'images,index,line,proof')) &&
    Array.isArray(value['images']) &&
    value['images'].every(isImage) &&
    Number.isSafeInteger(value['index']) &&
    typeof value['line'] === 'string'
  if (!isFact) throw new Broken(at, 'it is not a fact: a field is missing, unknown or of another type')
  const fact = value as FactLine['fact']
  const sealed = sealedIn(fact.line, at)
  return { is: 'fact', fact, sealed, ms: Date.parse(sealed.at), proof: fact.proof === undefined ? null : hashesIn(fact.proof, at) }
}

const isImage = (value: unknown): boolean =>
  hasExactly(value, 'erased,key,version')
    ? Number.isSafeInteger(value['erased']) && typeof value['key'] === 'string' && Number.isSafeInteger(value['version'])
    : hasExactly(value, 'key,salt,text,version') &&
      ['key', 'salt', 'text'].every((name) => typeof value[name] === 'string') &&
      Number.isSafeInteger(value['version'])

const LINE = 'action,actor,at,basis,behalf,cause,detail,id,images,prev,root,scope,seq,subject,task,v'
const TEXTS = ['action', 'actor', 'at', 'id', 'prev', 'scope', 'subject']

/** A sealed line has exactly the fields of version 1. */
function sealedIn(text: string, at: number): Line {
  const line = fieldsIn(text, at)
  const isLine =
    hasExactly(line, LINE) &&
    line['v'] === 1 &&
    TEXTS.every((name) => typeof line[name] === 'string') &&
    Number.isSafeInteger(line['seq']) &&
    (line['seq'] as number) >= 1 &&
    isTime(line['at']) &&
    (line['detail'] === null || isFields(line['detail'])) &&
    Array.isArray(line['images']) &&
    line['images'].every((image) => hasExactly(image, 'digest,key,version'))
  if (!isLine) throw new Broken(at, 'its line is not that of a fact of version 1')
  return line as Line
}

const isTime = (value: unknown): boolean =>
  typeof value === 'string' && /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/.test(value) && !Number.isNaN(Date.parse(value))

function seenIn({ seen }: SeenLine, at: number): MiddleLine {
  if (!hasExactly(seen, 'checkpoint,proof') || typeof seen.checkpoint !== 'string')
    throw new Broken(at, 'it is not an earlier checkpoint: a field is missing, unknown or of another type')
  return { is: 'seen', checkpoint: seen.checkpoint, proof: hashesIn(seen.proof, at) }
}

function hashesIn(value: unknown, at: number): readonly Uint8Array[] {
  const hashes =
    Array.isArray(value) && value.length <= limits.logProofHashesMax
      ? value.map((text) => (typeof text === 'string' ? bytesOfBase64(text) : null))
      : [null]
  if (hashes.some((hash) => hash?.length !== HASH_BYTES)) throw new Broken(at, 'its proof cannot be read')
  return hashes as Uint8Array[]
}
