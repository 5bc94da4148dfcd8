// The mapping of A2A parts: the parts of a message become the goal and the inputs of a task, and an artifact becomes a part.
import { bytesIn, isDataUri, mediaTypeIn } from '#kernel/ports/blobs.ts'
import { A2aError } from './failures.ts'
import type { Part } from './wire.ts'

/** The media types of messages and of text in answers. */
export const INPUT_MODES = ['text/plain', 'text/markdown', 'application/json']
export const OUTPUT_MODES = ['text/plain', 'text/markdown', 'application/json', 'application/octet-stream']

type Resource = { readonly kind: 'resource'; readonly id: string; readonly uri: string }
export type Said = { readonly text: string; readonly files: readonly Resource[] }

const contents = ['text', 'raw', 'url', 'data'] as const
const typeOf = (media: string): string => media.split(';', 1)[0]!.trim().toLowerCase()
const isText = (media: string): boolean => typeOf(media).startsWith('text/')
const isJson = (media: string): boolean => typeOf(media) === 'application/json'

/** The words of a message, and the files that it names. */
export function saidIn(parts: readonly Part[]): Said {
  const texts: string[] = []
  const files: Resource[] = []
  for (const [i, part] of parts.entries()) {
    const field = `message.parts.${i}`
    const given = contents.filter((name) => part[name] !== undefined)
    if (given.length !== 1) throw new A2aError('INVALID_PARAMS', `${field} has exactly one of ${contents.join(', ')}`, { field })
    const { mediaType = '' } = part
    if (part.url !== undefined) {
      files.push({ kind: 'resource', id: (part.filename ?? '').slice(0, 80) || `file-${files.length + 1}`, uri: part.url })
      continue
    }
    if (mediaType !== '' && !INPUT_MODES.includes(typeOf(mediaType)))
      throw new A2aError('CONTENT_TYPE_NOT_SUPPORTED', `${field} is ${mediaType}: send ${INPUT_MODES.join(', ')}, or a file by url`, {
        field,
      })
    texts.push(textIn(part, mediaType, field))
  }
  return { text: texts.join('\n\n'), files }
}

function textIn(part: Part, mediaType: string, field: string): string {
  if (part.text !== undefined) return part.text
  if (part.data !== undefined) return JSON.stringify(part.data)
  if (mediaType === '')
    throw new A2aError('CONTENT_TYPE_NOT_SUPPORTED', `${field} has bytes without a mediaType: send a file by url`, { field })
  const bytes = Buffer.from(part.raw!, 'base64')
  const text = bytes.toString('utf8')
  if (!Buffer.from(text, 'utf8').equals(bytes) || text.includes('\u0000'))
    throw new A2aError('INVALID_PARAMS', `${field}.raw is no text in UTF-8`, { field })
  return text
}

type Payload = { readonly uri: string; readonly name?: string; readonly media_type?: string; readonly verified: boolean }

/** An artifact as a part: text and JSON by type, other inline bytes as bytes, and a file by its address. */
export function partOf({ uri, name, media_type }: Payload, type: string, addressOf: () => string): object {
  const about = name === undefined ? {} : { filename: name }
  if (!isDataUri(uri)) {
    const elsewhere = /^https?:/.test(uri) ? URL.parse(uri) : null
    const filename = name ?? elsewhere?.pathname.split('/').at(-1) ?? ''
    // Bytes that were never uploaded have no known type, unless the agent named the artifact after it.
    const mediaType = media_type ?? (/^[\w.+-]+\/[\w.+-]+$/.test(type) ? type : '')
    return { url: elsewhere ? uri : addressOf(), ...(filename === '' ? {} : { filename }), ...(mediaType === '' ? {} : { mediaType }) }
  }
  const mediaType = media_type ?? mediaTypeIn(uri)
  const bytes = bytesIn(uri, 'INVALID_SPEC', 'payload.uri')
  if (name === undefined && isJson(mediaType)) {
    try {
      return { data: JSON.parse(bytes.toString('utf8')) as unknown, mediaType }
    } catch {
      return { raw: bytes.toString('base64'), mediaType }
    }
  }
  if (name === undefined && isText(mediaType)) return { text: bytes.toString('utf8'), mediaType }
  return { raw: bytes.toString('base64'), mediaType, ...about }
}

/** The result of a run without a task, as a part. */
export const partOfResult = (result: unknown): object =>
  typeof result === 'string' ? { text: result, mediaType: 'text/plain' } : { data: result, mediaType: 'application/json' }
