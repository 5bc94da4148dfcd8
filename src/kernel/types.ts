// Types of the kernel's entrance: its options, a caller, a call, an answer.
import type { Received } from './ports/blobs.ts'
import type { Clock, Entropy } from './ports/clock.ts'
import type { Timekeeper } from './call/due-on-read.ts'
import type { NodeEpoch, Perform } from './call/effects.ts'
import type { Actor } from './declare/access.ts'
import type { Fault } from './declare/errors.ts'
import type { Notary } from './ports/notary.ts'
import type { Contract, Protocol, Terms } from './declare/operation.ts'
import type { QuotaOptions } from './call/quota/quota.ts'
import type { Outside } from './call/reader.ts'
import type { Store } from './log/store.ts'
import type { Caller, Streams } from './log/streams.ts'
import type { Tail } from './log/tail.ts'

export type { Caller } from './log/streams.ts'
export type CallOptions = {
  readonly key?: string | undefined
  /** The bytes that came with the call, as the server itself has counted and hashed them. */
  readonly received?: Received
  /** The client has gone: a call that waits ends. */
  readonly signal?: AbortSignal
  /** The store's barriers when the call came: one that its credential has waited for since then serves its first look too. */
  readonly since?: number
}

export type Kernel = {
  readonly store: Store
  /** Tells of what is committed, here and elsewhere. */
  readonly tail: Tail
  readonly protocols: readonly Protocol[]
  readonly codes: Readonly<Record<string, Fault>>
  // oxlint-disable-next-line typescript/no-explicit-any -- the answer of whichever operation was called; its schema describes it
  call(operation: string, input: unknown, caller: Caller, options?: CallOptions): Promise<any>
  /** Whether a command would get as far as its decision: asked before bytes are taken for it. Refuses as the call itself would. */
  check(operation: string, input: unknown, caller: Caller, options?: CallOptions): Promise<void>
  /** Reading beyond what the call itself has cost: events of a stream, bytes of a download. It is paid before the next call. */
  charge(actor: Actor, units: number): void
  now(): number
  stats(): { conflicts: number; denials: number; waiting: number; woken: number }
  /** Calls that wait are answered with what there is, and from now on none waits. */
  release(): void
} & Streams

/** Lets actors take turns, so that one that asks for much does not keep the others waiting. Told who asks; knows the connections, which the kernel does not. */
export type Turns = {
  /** Refuses an actor that has not taken the answers to earlier calls. */
  admit(actor: string): void
  /** The same, and waits until it is their turn to read; without a promise it is at once. */
  begin(actor: string): Promise<void> | undefined
  /** Said once for each `begin`, with what the reading cost. */
  end(actor: string, units: number): void
}

export type KernelOptions = Outside & {
  readonly store: Store
  readonly protocols: readonly Protocol[]
  readonly contracts: readonly Contract[]
  /** Does what commands want to be done outside; without it they are refused. */
  readonly perform?: Perform
  /** Why another server has to do it, in words; null: it can be done here. Asked before anything is recorded. */
  doneElsewhere?(port: string, request: unknown): string | null
  /** Signs and seals; without it what needs it is refused. */
  readonly notary?: Notary
  /** The right to act on due documents; absent: no other process has the store open. */
  readonly timekeeper?: Timekeeper
  /** Bounds that the operator has changed. */
  readonly terms?: Partial<Terms>
  /** Without it everybody is served at once. */
  readonly turns?: Turns | undefined
  /** This process among several: what it does outside names it. */
  node?(): NodeEpoch | undefined
  /** Errands that a call leaves are done before it is answered; without it they are left to the worker. */
  readonly doesErrands?: boolean
  /** Told what failed where no caller waits for an answer. */
  bug?(error: unknown): void
  /** The store's tail where its owner follows it already; otherwise the kernel creates one. */
  readonly tail?: Tail
  now(): number
  /** Lets calls wait for something to answer with; without it all are answered at once. */
  readonly sleep?: Clock['sleep']
  readonly entropy: Entropy
  /** false: answers are not held against their schemas, as every test does; a mismatch is a bug, not something a caller can cause. */
  readonly checksAnswers?: boolean
} & QuotaOptions
