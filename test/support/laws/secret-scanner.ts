// Looks for secrets where none may be: in every file of a folder and in given texts, in every form in which they could have been
// written down.
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'

/** `canary`: the secret itself. `form`: how it was written. `where`: the file, or the name of the text. */
export type Sighting = { readonly canary: string; readonly form: string; readonly where: string; readonly offset: number }

export type Place = {
  readonly folders?: readonly string[]
  /** Log lines, answers, events: by a name for the report. */
  readonly texts?: Readonly<Record<string, string | Uint8Array>>
}

/** Shorter ones would be found by chance. */
const CANARY_CHARS_MIN = 16
/** A secret that a page of the database cuts in two is found by the half that is longer than the cut. */
const HALVES_FROM = 16

const base64 = (bytes: Buffer): string => bytes.toString('base64').replaceAll('=', '')
const inUrl = (text: string): string => text.replaceAll('+', '-').replaceAll('/', '_')
const escapedJson = (text: string): string => JSON.stringify(text).slice(1, -1)
const asciiJson = (text: string): string =>
  escapedJson(text).replaceAll(/[^\u0020-\u007e]/g, (unit) => String.raw`\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
const percented = (text: string): string =>
  Array.from(Buffer.from(text), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')

/** Within a longer text, base64 depends on how many bytes stand before: the part that all of them share, for each of the three. */
function withinBase64(canary: string): [string, string][] {
  const bytes = Buffer.from(canary)
  return [0, 1, 2].map((before) => {
    const encoded = base64(Buffer.concat([Buffer.alloc(before), bytes]))
    const from = Math.ceil((before * 8) / 6)
    const to = Math.floor(((before + bytes.length) * 8) / 6)
    return [`base64 after ${before}`, encoded.slice(from, to)]
  })
}

/** Every way to write it, by name; those that come out the same are listed once. */
export function formsOf(canary: string): Map<string, Buffer> {
  if (canary.length < CANARY_CHARS_MIN) throw new RangeError(`a canary has at least ${CANARY_CHARS_MIN} characters`)
  const bytes = Buffer.from(canary)
  const within = withinBase64(canary)
  const written: [string, string | Buffer][] = [
    ['raw', canary],
    ...within,
    ...within.map(([form, text]): [string, string] => [form.replace('base64', 'base64url'), inUrl(text)]),
    ['hex', bytes.toString('hex')],
    ['HEX', bytes.toString('hex').toUpperCase()],
    ['percent-encoded', encodeURIComponent(canary)],
    ['percent-encoded in lower case', encodeURIComponent(canary).replaceAll(/%../g, (code) => code.toLowerCase())],
    ['percent-encoded throughout', percented(canary)],
    ['form-encoded', new URLSearchParams([['', canary]]).toString().slice(1)],
    ['JSON', escapedJson(canary)],
    ['JSON in ASCII', asciiJson(canary)],
    ['JSON in JSON', escapedJson(escapedJson(canary))],
    ['UTF-16', Buffer.from(canary, 'utf16le')],
  ]
  const forms = new Map<string, Buffer>()
  const seen = new Set<string>()
  for (const [form, text] of written) {
    const needle = Buffer.from(text)
    const mark = needle.toString('latin1')
    if (!seen.has(mark)) forms.set(form, needle)
    seen.add(mark)
  }
  return forms
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
}

function sightingsIn(bytes: Buffer, where: string, needles: readonly Needle[]): Sighting[] {
  return needles.flatMap(({ canary, form, parts }) => {
    const found = parts.map((part) => bytes.indexOf(part)).filter((offset) => offset >= 0)
    return found.length === 0 ? [] : [{ canary, form, where, offset: Math.min(...found) }]
  })
}

type Needle = { readonly canary: string; readonly form: string; readonly parts: readonly Buffer[] }

function needleOf(canary: string, form: string, bytes: Buffer): Needle {
  const half = bytes.length >> 1
  return { canary, form, parts: bytes.length < HALVES_FROM ? [bytes] : [bytes.subarray(0, half), bytes.subarray(half)] }
}

/** Where the canaries were seen; nothing, where all is well. */
export function canariesIn(canaries: readonly string[], { folders = [], texts = {} }: Place): Sighting[] {
  const needles = canaries.flatMap((canary) => [...formsOf(canary)].map(([form, bytes]) => needleOf(canary, form, bytes)))
  return [
    ...folders.flatMap((folder) => filesIn(folder).flatMap((file) => sightingsIn(readFileSync(file), relative(folder, file), needles))),
    ...Object.entries(texts).flatMap(([name, text]) => sightingsIn(Buffer.from(text as string), name, needles)),
  ]
}
