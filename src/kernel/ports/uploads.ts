// Bytes that an actor sends before a document names them. Each protocol has a document kind of its own for them; the input, the checks, the
// indexes and the expiry of these kinds are the same and are here.
import { Refusal } from '../declare/errors.ts'
import { rule, type Rule } from '../declare/operation.ts'
import { index, t, type Index } from '../declare/schema.ts'
import { limits } from '../limits.ts'
import { isPlainName, type Announced, type Received } from './blobs.ts'
import { timestampOf } from './clock.ts'

/** `open`: no document names the bytes yet; `expired`: none did in time. */
type Uploaded = { readonly checksum: string; readonly by: string; readonly at: string; readonly state: string }

export const AnnouncedSize = t.Integer({ minimum: 0, description: 'bytes; as checksum, compared with what comes' })

/** Refuses bytes that differ from what their sender announced. */
export function checkAnnounced(code: string, announced: Announced, { checksum, size }: Received): void {
  if (announced.checksum !== undefined && announced.checksum !== checksum)
    throw new Refusal(code, 'checksum does not match the bytes', { field: 'checksum' })
  if (announced.size !== undefined && announced.size !== size)
    throw new Refusal(code, `size does not match the bytes: there are ${size}`, { field: 'size' })
}

export const hasPlainName = (code: string): Rule<unknown, { readonly name?: string }> =>
  rule<unknown, { readonly name?: string }>(
    code,
    'a name has no slash, no control and no invisible character',
    (_, { name = 'file' }) => isPlainName(name),
    'name has a slash, a control character or an invisible one: leave these out',
  )

/** An index of the uploads whose bytes are stored. */
export const storedBy = <V extends Uploaded>(keyOf: (upload: V) => string): Index<V> =>
  index((upload) => (upload.state === 'expired' ? [] : [[keyOf(upload)]]), 1)

export const uploadIndexes = {
  /** The bytes of a checksum are kept while this index has an entry for it. */
  held: storedBy<Uploaded>(({ checksum }) => checksum),
  open: index<Uploaded>(({ state, by }) => (state === 'open' ? [[by]] : []), 1),
}

/** When an upload expires that no document names; null: one does, or it has expired. */
export const expiryOf = ({ state, at }: Uploaded): string | null =>
  state === 'open' ? timestampOf(Date.parse(at) + limits.uploadMs) : null

export const hasExpired = (upload: Uploaded, now: string): boolean => {
  const expiry = expiryOf(upload)
  return expiry !== null && expiry <= now
}
