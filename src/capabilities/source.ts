// A source of capabilities. Upper layers see only a manifest and a result.
import type { CapabilityManifest } from '#protocols/delegation/capabilities/manifest.ts'
import type { CapabilityRef } from '#protocols/delegation/schema.ts'

export type CapabilitySource = {
  /** Among all sources there is one of this name. */
  readonly name: string
  /** Where its capabilities are found and may be invoked. */
  readonly projects: readonly string[]
  /** Begins to offer: `offer` gets everything that there is, again whenever that changes. */
  start(offer: Offer): void
  /** Resolves with the output, or throws; a CapabilityFailure says why. It ends soon after the signal aborts. */
  invoke(ref: CapabilityRef, input: unknown, signal: AbortSignal, about: InvokedFor): Promise<unknown>
  stop(): Promise<void>
}
/** The run that an invocation belongs to: a source that keeps a record of its own names it there. */
export type InvokedFor = { readonly run_id: string; readonly invocation_id: string }
export type Offer = (manifests: readonly CapabilityManifest[]) => void

/** A failure in the words that a source has for the caller. */
export class CapabilityFailure extends Error {
  override name = 'CapabilityFailure'
  readonly reason: 'failed' | 'unreachable'
  constructor(reason: 'failed' | 'unreachable', message: string) {
    super(message)
    this.reason = reason
  }
}

export type SourceLog = {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}
