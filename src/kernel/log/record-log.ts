// The port to the log: one tree over all facts, whose checkpoints the server signs, and the proofs that facts are in it.
import { Refusal } from '../declare/errors.ts'

/** A checkpoint as a signed note, with the cosignatures that it has so far. */
export type SignedHead = { readonly size: number; readonly note: string }

export type RecordLog = {
  readonly origin: string
  /** The newest checkpoint with enough cosignatures if it covers this position, otherwise the newest one, signed now if none covers it. */
  covering(position: number): Promise<SignedHead>
  /** The checkpoint of a size that was returned before, with the cosignatures that came since. */
  at(size: number): Promise<SignedHead>
  /** From the leaf up. */
  inclusion(index: number, size: number): Promise<Uint8Array[]>
}

/** The log behind a read; refuses if this process keeps none. */
export function logOrRefuse(log: RecordLog | null | undefined): RecordLog {
  if (log) return log
  throw new Refusal('UNAVAILABLE', 'this server keeps no log now, so it has no proofs: see `log` in /health', { retry_after: 5 })
}
