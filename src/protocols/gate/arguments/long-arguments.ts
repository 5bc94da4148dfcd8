// Arguments that are too long for a card: sealed under the key of the server, without what is redacted. The question names their digest.
import { limits } from '#kernel/limits.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256Hex } from '#kernel/log/hash-chain.ts'
import type { Notary } from '#kernel/ports/notary.ts'
import { redact } from './redaction.ts'
import type { LongArguments } from '../schema.ts'

/** Null: they fit on the card, or are too long for any call. */
export async function longArguments(args: object, pointers: readonly string[], notary: Notary): Promise<Omit<LongArguments, 'id'> | null> {
  const isLong = (text: string): boolean => Buffer.byteLength(text) > limits.gateShownBytesMax
  if (!isLong(canonical(args)) || Buffer.byteLength(canonical(args)) > limits.gateArgumentsBytesMax) return null
  const text = canonical(redact(args, pointers))
  return { sealed: await notary.seal(text, null), sha256: sha256Hex(text), size: Buffer.byteLength(text) }
}
