// Types of the kernel's entrance: its options, a caller, a call, an answer.
import type { Received } from './ports/blobs.ts'
import type { Clock, Entropy } from './ports/clock.ts'
import type { Timekeeper } from './call/due-on-read.ts'
import type { NodeEpoch, Perform } from './call/effects.ts'
import type { Actor } from './declare/access.ts'
import type { Fault } from './declare/errors.ts'
import type { Notary } from './ports/notary.ts'
import type { Passkeys } from './ports/passkeys.ts'
import type { Contract, Protocol, Terms } from './declare/operation.ts'
import type { QuotaOptions } from './call/quota/quota.ts'
import type { Outside } from './call/reader.ts'
import type { Store } from './log/store.ts'
import type { Caller, Streams } from './log/streams.ts'
import type { Tail } from './log/tail.ts'

export type { Caller } from './log/streams.ts'
export type CallOptions = {
  readonly key?: string | undefined
  /** The bytes sent with the call, counted and hashed by the server itself. */
  readonly received?: Received
  /** Aborts when the client disconnects: a waiting call ends. */
  readonly signal?: AbortSignal | undefined
  /** The store's barrier count when the call arrived. If the credential has awaited a later barrier, the first read needs no other. */
  readonly since?: number
}

export type Kernel = {
  readonly store: Store
  /** Reports commits of this process and of others. */
  readonly tail: Tail
  readonly protocols: readonly Protocol[]
  readonly codes: Readonly<Record<string, Fault>>
  // oxlint-disable-next-line typescript/no-explicit-any -- the answer of whichever operation was called; its schema describes it
  call(operation: string, input: unknown, caller: Caller, options?: CallOptions): Promise<any>
  /** Checks that a command would reach its decision, before its bytes are received. Refuses as the call itself would. */
  check(operation: string, input: unknown, caller: Caller, options?: CallOptions): Promise<void>
  /** Charges reads beyond the cost of the call: events of a stream, bytes of a download. They are paid before the next call. */
  charge(actor: Actor, units: number): void
  now(): number
  stats(): { conflicts: number; denials: number; waiting: number; woken: number }
  /** Answers waiting calls with the current result. From then on no call waits. */
  release(): void
} & Streams

/** Lets actors take turns, so that a busy actor does not delay the others. It knows the connections; the kernel knows only the actors. */
export type Turns = {
  /** Refuses an actor that has not taken the answers to earlier calls. */
  admit(actor: string): void
  /** Does the same check, then waits until it is the actor's turn to read. Undefined: it is the actor's turn now. */
  begin(actor: string): Promise<void> | undefined
  /** Called once for each `begin`, with the cost of the read. */
  end(actor: string, units: number): void
}

export type KernelOptions = Outside & {
  readonly store: Store
  readonly protocols: readonly Protocol[]
  readonly contracts: readonly Contract[]
  /** Performs the effects of commands; without it such commands are refused. */
  readonly perform?: Perform
  /** The reason why only another server can perform the request; null: this one can. Called before anything is recorded. */
  doneElsewhere?(port: string, request: unknown): string | null
  /** Signs and seals; without it, operations that need it are refused. */
  readonly notary?: Notary
  /** Checks passkeys; without it, operations that need them are refused. */
  readonly passkeys?: Passkeys
  /** The right to act on due documents. Absent if no other process has the store open. */
  readonly timekeeper?: Timekeeper
  /** Bounds that the operator has changed. */
  readonly terms?: Partial<Terms>
  /** Without it, every actor is served immediately. */
  readonly turns?: Turns | undefined
  /** Identifies this process among several: its pending effects carry this name. */
  node?(): NodeEpoch | undefined
  /** Does the errands of a call before answering it; otherwise the worker does them. */
  readonly doesErrands?: boolean
  /** Receives errors that no caller waits for. */
  bug?(error: unknown): void
  /** The store's tail, if its owner has one already; otherwise the kernel creates one. */
  readonly tail?: Tail
  now(): number
  /** Enables long polls; without it every call is answered immediately. */
  readonly sleep?: Clock['sleep']
  readonly entropy: Entropy
  /** False skips the check of answers against their schemas. Every test does this check; a mismatch is a bug that no caller can cause. */
  readonly checksAnswers?: boolean
} & QuotaOptions
