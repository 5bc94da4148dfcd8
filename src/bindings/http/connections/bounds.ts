// Bounds of the HTTP server: times and counts.
import { limits } from '#kernel/limits.ts'

/** Bounds that tests shrink. */
export type HttpBounds = {
  readonly requestMs: number
  readonly connections: number
  readonly stopMs: number
  readonly keepAliveMs: number
  readonly readMs: number
  readonly stuckMs: number
}
export const usualBounds: HttpBounds = {
  requestMs: limits.requestMsMax,
  connections: limits.connectionsMax,
  stopMs: limits.stopMsMax - 1_000, // the workers and the store stop after it
  readMs: limits.downloadIdleMsMax,
  keepAliveMs: 72_000, // longer than the 60 s of the usual proxies, so that the proxy closes first
  stuckMs: 120_000, // a client that takes no answer for this long holds memory, not a conversation
}
