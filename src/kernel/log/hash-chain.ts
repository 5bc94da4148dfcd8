// The sealed line: what is hashed into the chain. It holds only a salted digest of each image, so that content can be erased
// without breaking the chain, and the hash of the line before, so that each line can be checked by itself.
import { hash } from 'node:crypto'
import { canonical } from './canonical-json.ts'
import type { Fact, StoredFact } from './store.ts'

export type Head = { readonly seq: number; readonly hash: string; readonly at: string }
export const GENESIS: Head = { seq: 0, hash: '', at: '' }

export const sha256 = (text: string | Uint8Array): string => hash('sha256', text, 'base64url')
export const sha256Bytes = (bytes: Uint8Array): Uint8Array => hash('sha256', bytes, 'buffer')
export const sha256Hex = (text: string | Uint8Array): string => hash('sha256', text, 'hex')
export const digestOf = (salt: string, text: string): string => sha256(salt + text)

export type Line = {
  readonly v: 1
  readonly id: string
  readonly seq: number
  readonly at: string
  readonly scope: string
  readonly prev: string
  readonly action: string
  readonly actor: string
  readonly behalf: string | null
  readonly basis: Fact['basis']
  readonly cause: number | null // seq of the fact that led to this one
  readonly subject: string
  readonly task: string | null
  readonly root: string | null
  readonly detail: Fact['detail']
  readonly images: readonly { readonly key: string; readonly version: number; readonly digest: string }[]
}

const q = JSON.stringify

/** Keys in RFC 8785 order, written once; no line is parsed to be written again. */
export function sealedLine(line: Line): string {
  let images = ''
  for (const { key, version, digest } of line.images)
    images += `${images && ','}{"digest":"${digest}","key":${q(key)},"version":${version}}`
  return (
    `{"action":${q(line.action)},"actor":${q(line.actor)},"at":"${line.at}","basis":{"id":${q(line.basis.id)},"kind":"${line.basis.kind}"},` +
    `"behalf":${q(line.behalf)},"cause":${line.cause},"detail":${line.detail === null ? 'null' : canonical(line.detail)},"id":"${line.id}","images":[${images}],` +
    `"prev":"${line.prev}","root":${q(line.root)},"scope":${q(line.scope)},"seq":${line.seq},"subject":${q(line.subject)},"task":${q(line.task)},"v":1}`
  )
}
export const hashOf = (line: string): string => sha256(line)

export type Difference = { readonly scope: string; readonly seq: number; readonly what: string }

/** The fault of a stored fact by itself, or null. `previous` is the hash of the fact before it, if it is known. */
export function differenceIn(stored: StoredFact, previous: string | null): Difference | null {
  const wrong = (what: string): Difference => ({ scope: stored.scope, seq: stored.seq, what })
  if (hashOf(stored.line) !== stored.hash) return wrong('the line does not match its hash')
  const line = JSON.parse(stored.line) as Line
  if (line.seq !== stored.seq || line.scope !== stored.scope) return wrong('the line belongs to another place in the record')
  const { at, actor, task, root } = line
  if (at !== stored.at || actor !== stored.actor || task !== stored.task || root !== stored.root)
    return wrong('it is filed under another time, actor or task than the line says')
  if (previous !== null && line.prev !== previous) return wrong('the line does not follow the one before it')
  if (line.images.length !== stored.images.length) return wrong('an image is missing or was added')
  for (const [i, image] of stored.images.entries()) {
    const sealed = line.images[i]!
    if (sealed.key !== image.key || sealed.version !== image.version) return wrong(`the image of ${sealed.key} was exchanged`)
    // No operation erases content yet: what is gone was taken away by hand.
    if (image.text === null) return wrong(`the image of ${image.key} is gone, and no erasure is on the record`)
    if (digestOf(image.salt, image.text) !== sealed.digest) return wrong(`the image of ${image.key} was changed`)
    if (image.version === 1 ? image.previous !== null : image.before === null)
      return wrong(`the image of ${image.key} does not lead to the one before it`)
  }
  return null
}
