// An operation is one plain object. Routes, methods, help, types, OpenAPI and a suite of tests are derived from it.
import type { Ports } from '../ports/between-protocols.ts'
import type { Received } from '../ports/blobs.ts'
import type { EffectOf, Wanted } from '../call/effects.ts'
import type { Fault, Refusal } from './errors.ts'
import type { Events } from './facts.ts'
import { PROOF_WORDS, type Actor, type PeopleSought, type Role, type Subject } from './access.ts'
import type { NewId } from '../codec/ids.ts'
import type { Notary } from '../ports/notary.ts'
import type { NamedCovered, Passkeys, Signable } from '../ports/passkeys.ts'
import type { Signature } from '../signing/assertion.ts'
import type { ByteQuotas } from '../ports/stored-bytes.ts'
import type { Seen } from '../ports/presence.ts'
import type { RecordLog } from '../log/record-log.ts'
import type { LooksAt } from '../call/due-on-read.ts'
import type { AnyDoc, Doc, Part, Static, TSchema } from './schema.ts'
import type { SealedFact } from '../log/seals/seals.ts'
import type { Basis, FactsOf, FactsPage, Found, Key, Place, StoredFact, Value } from '../log/store.ts'

/** The inputs of a decision in addition to its documents. Time and randomness are passed in, never read directly. */
export type Context = {
  readonly actor: Actor
  readonly now: string
  /** Whether a deadline has passed by the clock of the server that holds the timers; if that server ends, its clock is continued. */
  hasPassed(deadline: string): boolean
  readonly newId: NewId
  /** 256 random bits as text, for credentials. */
  secret(): string
  /** Statements that only this server can make: signatures, pseudonyms, seals. */
  readonly notary: Notary
  /** Signatures by devices of people: which site they are made for, and how they are checked. */
  readonly passkeys: Passkeys
  /** The checked signature of this call; null: it carries none, or follows from another call. */
  readonly signature: Signature | null
  /** Bounds that the operator sets. */
  readonly terms: Terms
  /** The received bytes, for an operation that takes bytes. */
  readonly received?: Received | undefined
}

/** Limits that the operator can set; null: no limit. */
export type Terms = {
  /** Open questions of one agent. */
  readonly asksOpenMax: number | null
  /** Critical questions of one agent in an hour. */
  readonly criticalPerHourMax: number | null
  /** The minimum time that people have to answer before a stated default applies. */
  readonly defaultSecondsMin: number | null
  /** Webhooks are posted only to public addresses over https. */
  readonly publicHooksOnly: boolean
  /** E-mail can be sent. */
  readonly mails?: boolean
  /** The public key with which browsers subscribe to pushes; null: pushes are off. */
  readonly pushKey?: () => string | null
  /** The public address of the page, if the operator has set one. */
  readonly publicOrigin?: () => string | null
  /** The address that agents are given: the public one, or where this server listens. */
  readonly origin?: () => string
  /** Messages to one person in an hour, critical ones excluded. */
  readonly noticesPerHourMax?: number | null
  /** Stored bytes per task, actor and project; absent: the defaults. */
  readonly byteQuotas?: ByteQuotas
  /** How people sign in; absent: the defaults. */
  readonly signIn?: SignInTerms
  /** This installation's settings for other harnesses; null: it has no connection to any. */
  readonly harness: HarnessTerms | null
}

export type SignInTerms = {
  /** How long a session lasts. */
  readonly sessionMs: number
  /** How long the session of a remembered device lasts; null: no device is remembered. */
  readonly rememberMs: number | null
  /** Where people sign in when login links, mailed links, QR codes and typed keys are switched off; null: they are on. */
  readonly insteadOfLinks: string | null
}

export type HarnessTerms = {
  readonly id: string
  /** The time that a submission waits for an answer before it is sent again, and that an event waits for earlier events. */
  readonly replyMs: number
  readonly gapMs: number
  /** Messages are confidential in transit: TLS, or a broker on the same machine. */
  readonly isPrivate: boolean
  /** The broker vouches for the identity of senders. */
  readonly checksSenders: boolean
  /** Where artifacts can be fetched by HTTP; null: nowhere. */
  readonly origin: (() => string) | null
}

/** A person's advance decision about a scope. `left`: how often it can still be used; null: without limit. */
export type Granted = { readonly id: string; readonly decision: 'allow' | 'deny'; readonly by: string; readonly left: number | null }

export type Listed = { readonly id: string; readonly at: string }
export type ListPage = { readonly after?: string | undefined; readonly limit: number; readonly reverse?: boolean | undefined }

export type Counted = { readonly parts: readonly string[]; readonly count: number }

export type Read = {
  /** The document, or NOT_FOUND if it is absent or the actor has no access to it. */
  <S extends TSchema>(doc: Doc<S>, id: string): Promise<Static<S>>
  /** The document; null if it is absent or the actor has no access to it. The commit checks that an absent document is still absent. */
  maybe<S extends TSchema>(doc: Doc<S>, id: string): Promise<Static<S> | null>
  /** The document without an access check, for rules about documents that the actor need not see. */
  raw<S extends TSchema>(doc: Doc<S>, id: string): Promise<Static<S> | null>
  /** Ids in index order, merged over several prefixes. Not checked at commit: a rule about a set uses a document or `atMost`. */
  list(doc: AnyDoc, index: string, prefixes: readonly (readonly Part[])[], page: ListPage): Promise<Listed[]>
  count(doc: AnyDoc, index: string, prefix: readonly Part[]): Promise<number>
  /** The counts above zero below a prefix, in order: the parts after the prefix, and the count. */
  counts(doc: AnyDoc, index: string, prefix: readonly Part[], page: Omit<ListPage, 'reverse'>): Promise<Counted[]>
  /**
   * Ids of documents that might hold all words in their text, or in the text of their group: unordered, with false positives. Null: a scan
   * is faster. `rows`: how many are wanted.
   */
  holding(
    doc: AnyDoc,
    words: readonly string[],
    groupText: (group: string) => Promise<string>,
    rows: number,
  ): Promise<readonly string[] | null>
  facts(of: FactsOf, page: FactsPage): Promise<StoredFact[]>
  seek(scope: string, at: string): Promise<number>
  /** How each fact differs from the seal of its group; null: it does not. */
  sealFaults(facts: readonly SealedFact[]): Promise<(string | null)[]>
  head(scope: string): Promise<{ readonly seq: number; readonly hash: string }>
  /** The place of the fact that left a document in its current state; null: it is absent, or no fact describes it. */
  place(doc: AnyDoc, id: string): Promise<Place | null>
  /** The call has read enough for one page, however few items it has. */
  isFull(): boolean
  /** A registered person, agent or service, without an access check. */
  subject(id: string): Promise<Subject | null>
  /** Active people by role; at most `limits.peopleSoughtMax`. */
  people(sought: PeopleSought): Promise<readonly Subject[]>
  /** The task's grant that currently covers a scope, without an access check; null: no person has decided in advance. */
  grant(task_id: string, scope: string, now: string): Promise<Granted | null>
  /** Views that other protocols give of their documents. */
  readonly ports: Ports
  /** The log over all facts; refuses if this process keeps none. */
  log(): RecordLog
  /** What a person would sign for a call of this actor, after every check before its decision. */
  signable(operation: string, input: unknown): Promise<NamedCovered>
  /** A blob's size; null: it is not stored here. */
  blob(checksum: string): Promise<{ readonly size: number } | null>
  /** When an agent last called or a key was last used, as far as this server knows. */
  seen(id: string): Seen
  /** Known differences from the record in all projects: only for actors with access to all of them. */
  findings(): readonly Found[]
}

/** One audit event: the first document is its subject, the others changed with it. */
export type Made = {
  /** Set if a document must name its own event; otherwise the kernel creates the id. */
  readonly id: string | null
  readonly action: string
  readonly subject: { readonly doc: AnyDoc; readonly id: string }
  readonly images: readonly { readonly doc: AnyDoc; readonly id: string; readonly after: Value }[]
  readonly detail: Value | null
  /** The basis, and the person acted for, if the basis is not the caller's role but, for example, a policy. */
  readonly basis: Basis | null
  readonly behalf: string | null
  /** Index, within this decision, of the event that led to this one. */
  readonly cause: number | null
  /** The event follows from a rule and not from the caller's request: its actor is the system. */
  readonly bySystem: boolean
}
export type Change = { readonly doc: AnyDoc; readonly id: string; readonly value: Value | null; readonly isNew?: boolean }
export type Bound = {
  readonly doc: AnyDoc
  readonly index: string
  readonly prefix: readonly Part[]
  readonly max: number
  readonly message: string
  /** Seconds after which a retry can succeed, if known. */
  readonly retry_after?: number
  /**
   * The decision has its own message for this bound: a call that lost a race for the last place is decided again, to be refused with it.
   */
  readonly decidesAgain?: boolean
}

export type Decision<O> = {
  readonly facts: readonly Made[]
  readonly puts?: readonly Change[]
  readonly atMost?: readonly Bound[]
  /** The chain that the facts belong to; by default the scope of the first image. */
  readonly scope?: string
  /** The effect to perform. Without it, the output is the answer. */
  readonly effect?: Wanted
  /** The answer; with an effect, the answer while its outcome is unknown. */
  readonly output: O
  /**
   * Calls that become part of this batch: all or nothing. Each is authorized and checked as if the caller made it alone, with the rights that
   * the steps before it gave.
   */
  readonly steps?: readonly { readonly call: string; readonly input: object }[]
  /** No result yet; the caller may long-poll. `again`: the time at which a result may appear without a commit. */
  readonly nothing?: { readonly again: string | null }
}

/** The ids that a long poll listens on, and how long. */
export type LongPoll = { readonly wakeIds: readonly string[]; readonly maxMs: number }

/** For a command that only calls other operations: the calls, and how their answers are combined. */
export type Fan<I, O> = {
  each(input: I): readonly { readonly call: string; readonly input: object }[]
  gather(input: I, came: readonly Came[]): O
}
export type Came = { readonly output: unknown } | { readonly refusal: Refusal }

/** A precondition: it reads as a sentence and carries its code. */
export type Rule<S, I = unknown> = {
  readonly code: string
  /** The rule that must hold, as a sentence. */
  readonly message: string
  holds(state: S, input: I, context: Context): boolean
  /** The message of the refusal: what is wrong, and what to do next. */
  readonly refusal: string
  /** A refusal with details of this case. Only for callers that can read the state. */
  refusalFor?(state: S, input: I, context: Context): string
  /** The `details` of the refusal, for programs. */
  detailsFor?(state: S, input: I): Readonly<Record<string, unknown>>
}
export const rule = <S, I = unknown>(
  code: string,
  message: string,
  holds: Rule<S, I>['holds'],
  refusal: string,
  refusalFor?: Rule<S, I>['refusalFor'],
): Rule<S, I> => ({
  code,
  message,
  holds,
  refusal,
  ...(refusalFor ? { refusalFor } : {}),
})

/** Requires a fresh sign-in on a remembered device; `unless`: states that need none. */
export const freshProof = <S>(unless: (state: S) => boolean = () => false): Rule<S, unknown> =>
  rule<S>(
    'PROOF_REQUIRED',
    'on a remembered device, the sign-in is fresh',
    (state, _, { actor }) => actor.via !== 'remembered' || unless(state),
    PROOF_WORDS,
  )

/** An example of the operation: a scene of its protocol, the caller, and the input. */
// oxlint-disable-next-line typescript/no-explicit-any -- refs hold whatever the scene's steps answered
export type Refs = Record<string, any>
export type Example = {
  readonly given: string
  readonly as: string
  readonly input: object | ((refs: Refs) => object)
  /** The code of the refusal, for an operation that cannot succeed with a single call. */
  readonly refused?: string
  /** The bytes to send, for an operation that takes bytes. */
  readonly bytes?: string
}
export type Step =
  | { readonly as: string; readonly call: string; readonly input: object | ((refs: Refs) => object) }
  | { readonly advanceMs: number }

/** The document that a call looks at; due work on it is done first (`due-on-read.ts`). */
type Looking = { readonly looksAt?: LooksAt }

type Common<I extends TSchema, O extends TSchema, N extends string> = {
  /** Kept as a literal type: the SDK's methods are derived from it. */
  readonly name: N
  readonly summary: string
  /** The clause that it implements, or `ours` with the reason. */
  readonly draft: string
  readonly input: I
  readonly output: O
  readonly example: Example
} & Looking

export type Command<I extends TSchema = TSchema, O extends TSchema = TSchema, S = unknown, N extends string = string> = Common<I, O, N> & {
  readonly kind: 'command'
  /** The roles that may call it; `NoInfer`, so that the type of the state comes from `load`. */
  readonly callers: readonly Role<NoInfer<S>>[]
  readonly requires: readonly Rule<NoInfer<S>, NoInfer<Static<I>>>[]
  /** The event that it leaves in the record; null for bookkeeping that needs none. */
  readonly audit: string | null
  /** Fields of the answer that are shown once and never stored, not even for a retry. */
  readonly once?: readonly string[]
  /** The input may hold a secret: its stored digest is keyed, so the secret cannot be guessed from it. */
  readonly hides?: boolean
  /** Fields that identify the calling process, not the request: a retry can differ in them. */
  readonly besides?: readonly string[]
  /** The part of the input that the operation uses, if that is less than was sent: a retry must match only this part. */
  understood?(input: Static<I>): unknown
  /** The command asks for a person's attention, so calls of agents are rate-limited. */
  readonly asks?: boolean
  /** It changes nothing but the caller's own session, so auditors can make it, too. */
  readonly isForAuditors?: boolean
  /** The largest body over HTTP, if `limits.bodyBytesMax` is too small. */
  readonly bodyBytesMax?: number
  /** The command takes bytes in addition to its input: only a binding that has received and stored them can call it. */
  readonly upload?: boolean
  /** What a person signs by passkey when they make this call: its input has the field `assertion`. Absent: nothing can be signed. */
  signs?(state: S, input: Static<I>, context: Context): Signable
  /** The long poll that this input asks for; null: answer immediately. */
  waits?(input: Static<I>, actor: Actor): LongPoll | null
  /** The command has an effect outside, between its own batch and that of the concluding operation, whose answer becomes its answer. */
  readonly effect?: EffectOf
  /** It can be a step of another command: see `Decision.steps`. */
  readonly isStep?: boolean
  /** It decides nothing itself: see `fan`. */
  readonly fan?: Fan<Static<I>, Static<O>>
  load(read: Read, input: Static<I>, context: Context): Promise<S>
  decide(state: S, input: Static<I>, context: Context): Decision<Static<O>>
  /**
   * Completes the answer after the commit with data that only the durable record holds, such as the place of a fact. Also runs for a
   * replayed answer.
   */
  finish?(output: Static<O>, after: () => { readonly read: Read; readonly context: Context }): Promise<Static<O>> | Static<O>
}
export type Query<I extends TSchema = TSchema, O extends TSchema = TSchema, S = unknown, N extends string = string> = Common<I, O, N> & {
  readonly kind: 'query'
  readonly callers: readonly Role<NoInfer<S>>[]
  /** The answer names bytes (`uri`, `checksum`, `size`, `name`); a binding that can carry bytes sends them instead. */
  readonly download?: boolean
  load(read: Read, input: Static<I>, context: Context): Promise<S>
  view(state: S, input: Static<I>, context: Context, read: Read): Static<O> | Promise<Static<O>>
}
/**
 * Facts as they become durable, from a place on until the subscriber leaves. `wants` and `view` do not depend on the subscriber, so that a
 * fact is selected once per query and serialized once per audience.
 */
export type Stream<I extends TSchema = TSchema, O extends TSchema = TSchema, S = unknown, N extends string = string> = Common<I, O, N> & {
  readonly kind: 'stream'
  readonly callers: readonly Role<NoInfer<S>>[]
  /** Runs repeatedly while the stream is open, so that a subscriber that loses access gets no more facts. */
  load(read: Read, input: Static<I>, context: Context): Promise<S>
  of(state: S): FactsOf
  /** The one document that the stream is about: other facts of `of` are skipped. */
  about?(state: S): Key
  /** The name of the group of subscribers that get the same items, passed to `view`; without it, all subscribers get the same. */
  audience?(actor: Actor): string
  /** Whether the input selects this fact; without it, all facts are selected. */
  wants?(input: Static<I>, fact: StoredFact): boolean
  /** The facts that this subscriber can see, if `load` does not authorize all of them; null: it does. */
  sees?(state: S): ((fact: StoredFact) => boolean | Promise<boolean>) | null
  view(fact: StoredFact, audience: string): Static<O>
}
// oxlint-disable-next-line typescript/no-explicit-any -- a list of operations of many shapes
export type Operation = Command<any, any, any> | Query<any, any, any> | Stream<any, any, any>

export const command = <I extends TSchema, O extends TSchema, S, N extends string>(
  op: Omit<Command<I, O, S, N>, 'kind'>,
): Command<I, O, S, N> => ({
  kind: 'command',
  ...op,
})
export const query = <I extends TSchema, O extends TSchema, S, N extends string>(
  op: Omit<Query<I, O, S, N>, 'kind'>,
): Query<I, O, S, N> => ({
  kind: 'query',
  ...op,
})
export const stream = <I extends TSchema, O extends TSchema, S, N extends string>(
  op: Omit<Stream<I, O, S, N>, 'kind'>,
): Stream<I, O, S, N> => ({
  kind: 'stream',
  ...op,
})

export type Protocol = {
  readonly name: string
  readonly title: string
  readonly version: string
  readonly operations: readonly Operation[]
  /** All events of the protocol: only these are recorded, and only these can trigger contracts. */
  readonly events: Events
  readonly codes: Readonly<Record<string, Fault>>
  /** Named states of the world that examples and derived tests start from. */
  readonly scenes: Readonly<Record<string, readonly Step[]>>
  /** Views of its documents for other protocols. */
  readonly ports?: Partial<Ports>
}

/**
 * A fact of one protocol calls an operation of another (or of its own), in the same batch. `src/contracts/contract.ts` types subject and input by the
 * names of both.
 */
// oxlint-disable-next-line typescript/no-explicit-any -- a list of contracts about documents of many kinds
export type Contract<V = any, I extends object = object> = {
  readonly name: string
  readonly on: string // `${protocol}/${action}`
  readonly call: string // `${protocol}/${operation}`
  /** actor: the same caller, authorized again by the called operation. system: a consequence, recorded on the caller's behalf. */
  readonly as: 'actor' | 'system'
  /** The basis of the consequence, if it is not the contract itself. */
  readonly basis?: (fact: ContractFact<V>) => Basis | null
  /** Translates a refusal of the called operation for the caller of the first one; without it, the refusal is passed on. */
  readonly refused?: (refusal: Refusal) => Refusal
  /** Whether the contract applies to this fact; without it, it applies to every one. */
  readonly when?: (fact: ContractFact<V>) => boolean
  /** null: nothing to do here; a list: one call for each. Reads see what the batch has decided so far. */
  input(fact: ContractFact<V>, read: Read): Calls<I> | Promise<Calls<I>>
}
type Calls<I> = I | readonly I[] | null
export type ContractFact<V = unknown> = {
  readonly action: string
  readonly subject: V
  readonly detail: Value | null
  /** The action of the fact that caused this one; null: the call itself did. */
  readonly cause: string | null
  /** The actor, its basis, and how it authenticated. */
  readonly actor: string
  readonly basis: Basis
  readonly via: NonNullable<Actor['via']> | null
}
