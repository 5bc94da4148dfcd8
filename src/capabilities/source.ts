// A source of capabilities. Upper layers see only a manifest and a result.
import type { CapabilityManifest } from '#protocols/delegation/capabilities/manifest.ts'
import type { CapabilityRef } from '#protocols/delegation/schema.ts'

export type CapabilitySource = {
  /** Unique among all sources. */
  readonly name: string
  /** The projects whose agents can find and invoke its capabilities. */
  readonly projects: readonly string[]
  /** Calls `offer` with all manifests now, and again whenever they change. */
  start(offer: Offer): void
  /** Resolves with the output, or throws a CapabilityFailure with the reason. It ends soon after the signal aborts. */
  invoke(ref: CapabilityRef, input: unknown, signal: AbortSignal, about: InvokedFor): Promise<unknown>
  stop(): Promise<void>
}
/** The run of an invocation, for a source with its own record. */
export type InvokedFor = { readonly run_id: string; readonly invocation_id: string }
export type Offer = (manifests: readonly CapabilityManifest[]) => void

/** A failure with the source's message for the caller. */
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
