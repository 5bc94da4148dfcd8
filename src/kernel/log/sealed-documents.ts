// The check of a document against the record. A document of a fact is read from its sealed image alone and compared with the digest in that
// fact; one without a fact carries a tag that only this server can make.
import { digestOf, hashOf } from './hash-chain.ts'
import type { Key, StoredFact } from './store.ts'

/** The row of a document. It has `text` and `tag` only if no fact describes the document. */
export type DocAtRest = {
  readonly version: number
  readonly image: number | null
  readonly text: string | null
  readonly tag: string | null
}

/** The newest image of a key, with the fact that it belongs to and the line after that in its chain. */
export type ImageAtRest = {
  readonly id: number
  readonly version: number
  readonly salt: string
  readonly text: string | null
  /** These fields are of the image's fact. */
  readonly position: number | null
  readonly scope: string | null
  readonly seq: number | null
  readonly line: string | null
  readonly hash: string | null
  readonly after: string | null
}
export type AtRest = { readonly doc: DocAtRest | null; readonly newest: ImageAtRest | null }

/** Makes the tag of a document that no fact describes. */
export type Tag = (text: string) => string
/** The length prefix keeps the concatenation unambiguous. */
export const tagInput = (key: Key, version: number, text: string): string => `${key.length}:${key}${version}:${text}`

export type Sound = { readonly version: number; readonly image: number | null; readonly text: string }

const q = JSON.stringify
/** The digest as the line contains it. Inside a JSON string its quotes would be escaped, so it cannot match anywhere else. */
const sealedAs = (key: Key, version: number, digest: string): string => `{"digest":"${digest}","key":${q(key)},"version":${version}}`

/** The document, or a description of how it differs from the record. */
export function soundOr({ doc, newest }: AtRest, key: Key, tag: Tag): Sound | string {
  if (doc === null) return 'its row is missing, but the record describes it'
  if (newest === null) return soundPut(doc, key, tag)
  if (doc.image === null) return 'its row names no image, but the record describes it'
  if (doc.text !== null) return 'a sealed image has a plain text beside it'
  if (doc.image !== newest.id) return 'its row does not name its newest image'
  if (doc.version !== newest.version) return `its row says version ${doc.version}, its image version ${newest.version}`
  if (newest.text === null) return 'the content of its image is gone, and no erasure is on the record'
  const wrong = wrongIn(newest, newest.text, key)
  return wrong ?? { version: doc.version, image: doc.image, text: newest.text }
}

/** Whether the line of a fact seals this text as that version of the document. */
export const isSealedIn = (line: string, key: Key, version: number, salt: string, text: string): boolean =>
  line.includes(sealedAs(key, version, digestOf(salt, text)))

function soundPut({ version, image, text, tag: found }: DocAtRest, key: Key, tag: Tag): Sound | string {
  if (image !== null) return 'its image is missing'
  if (text === null) return 'its content is missing'
  if (found !== tag(tagInput(key, version, text))) return 'its tag does not fit: this server did not write it like this'
  return { version, image, text }
}

function wrongIn({ version, salt, line, hash, after, scope, seq }: ImageAtRest, text: string, key: Key): string | null {
  if (line === null || hash === null) return 'the fact of its image is missing'
  if (!isSealedIn(line, key, version, salt, text)) return 'its image does not match the digest in its fact'
  if (hashOf(line) !== hash || !line.includes(`"scope":${q(scope)},"seq":${seq},`)) return 'the fact of its image was changed'
  if (after !== null && !after.includes(`"prev":"${hash}"`)) return 'the fact of its image is not the one that the next fact follows'
  return null
}

/** Whether a fact can be shown: its line matches its hash, and its images match their digests. A verification checks more. */
export function isSound({ line, hash, images }: StoredFact): boolean {
  if (hashOf(line) !== hash) return false
  return images.every(({ key, version, salt, text, before, beforeSalt, beforeLine }) => {
    if (text === null || !isSealedIn(line, key, version, salt, text)) return false
    if (version === 1) return before === null
    return before !== null && beforeLine?.includes(sealedAs(key, version - 1, digestOf(beforeSalt!, before))) === true
  })
}
