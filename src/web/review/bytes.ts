// The bytes of an artifact: fetched, hashed here, compared with the record. Then text for a diff, a raster image by its first bytes, or neither.
import { call, client } from '../server/client.ts'
import type { Artifact } from '../server/types.ts'

export type Content = {
  readonly artifact: Artifact
  readonly text: string | null
  /** A `blob:` address of a fixed type; null: no raster image. */
  readonly image: string | null
  /** null: its bytes are elsewhere, or too many to show. */
  readonly isVerified: boolean | null
  readonly why: string | null
}
const SHOWN_BYTES_MAX = 2 * 1024 * 1024
const IMAGE_BYTES_MAX = 16 * 1024 * 1024

export const hex = (bytes: ArrayBuffer): string => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('')
const isAt = (bytes: Uint8Array, at: number, text: string): boolean =>
  Array.from(text, (letter) => letter.charCodeAt(0)).every((code, i) => bytes[at + i] === code)

/** The type of an image by its bytes, not by its name. */
export function rasterType(bytes: Uint8Array): string | null {
  if (isAt(bytes, 0, '\x89PNG\r\n\x1a\n')) return 'image/png'
  if (isAt(bytes, 0, '\xff\xd8\xff')) return 'image/jpeg'
  if (isAt(bytes, 0, 'GIF87a') || isAt(bytes, 0, 'GIF89a')) return 'image/gif'
  if (isAt(bytes, 0, 'RIFF') && isAt(bytes, 8, 'WEBP')) return 'image/webp'
  return isAt(bytes, 4, 'ftypavif') ? 'image/avif' : null
}
function textIn(bytes: Uint8Array): string | null {
  if (bytes.includes(0)) return null
  try {
    return new TextDecoder('utf8', { fatal: true }).decode(bytes)
  } catch {
    return null
  }
}
function inlineBytes(uri: string): Uint8Array<ArrayBuffer> | null {
  const [, base64, data] = /^data:[^,]*?(;base64)?,(.*)$/s.exec(uri) ?? []
  if (data === undefined) return null
  if (base64 === undefined) return new TextEncoder().encode(decodeURIComponent(data))
  return Uint8Array.from(atob(decodeURIComponent(data)), (letter) => letter.charCodeAt(0))
}

export async function contentOf(artifact_id: string, version: string): Promise<Content> {
  const { artifact } = await call('collaboration/artifact.get', { artifact_id, version })
  const { payload } = artifact
  const nothing = { artifact, text: null, image: null, isVerified: null }
  const inline = payload.uri.startsWith('data:') ? inlineBytes(payload.uri) : null
  if (inline === null && !payload.verified)
    return { ...nothing, why: 'Its bytes were never uploaded here: only an address from the agent is known.' }
  if (payload.size > IMAGE_BYTES_MAX) return { ...nothing, why: 'It is too large to show. Download it to look at it.' }
  const bytes = inline ?? (await client.download('collaboration/artifact.download', { artifact_id, version })).bytes
  const isVerified = `sha256:${hex(await crypto.subtle.digest('SHA-256', bytes))}` === payload.checksum
  if (!isVerified) return { ...nothing, isVerified, why: 'The bytes are not those that the record names. They are not shown.' }
  const type = rasterType(bytes)
  if (type !== null) return { ...nothing, isVerified, image: URL.createObjectURL(new Blob([bytes], { type })), why: null }
  if (bytes.length > SHOWN_BYTES_MAX) return { ...nothing, isVerified, why: 'It is too large to show as text. Download it to look at it.' }
  const text = textIn(bytes)
  return { ...nothing, isVerified, text, why: text === null ? 'It is not text. Download it to look at it.' : null }
}
