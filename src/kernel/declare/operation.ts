// An operation is one plain object. Routes, methods, help, types, OpenAPI and a suite of tests are derived from it.
import type { Ports } from '../ports/between-protocols.ts'
import type { Received } from '../ports/blobs.ts'
import type { EffectOf, Wanted } from '../call/effects.ts'
import type { Fault, Refusal } from './errors.ts'
import type { Events } from './facts.ts'
import { PROOF_WORDS, type Actor, type PeopleSought, type Role, type Subject } from './access.ts'
import type { NewId } from '../codec/ids.ts'
import type { Notary } from '../ports/notary.ts'
import type { ByteQuotas } from '../ports/stored-bytes.ts'
import type { Seen } from '../ports/presence.ts'
import type { LooksAt } from '../call/due-on-read.ts'
import type { AnyDoc, Doc, Part, Static, TSchema } from './schema.ts'
import type { SealedFact } from '../log/seals/seals.ts'
import type { Basis, FactsOf, FactsPage, Found, Key, Place, StoredFact, Value } from '../log/store.ts'

/** Knowledge that a decision may have beyond the documents. Clock and chance are given, never taken. */
export type Context = {
  readonly actor: Actor
  readonly now: string
  /** Whether a deadline has come, by the clock of the server that holds the timers; after that one ended its clock is carried on. */
  hasPassed(deadline: string): boolean
  readonly newId: NewId
  /** 256 random bits as text, for credentials. */
  secret(): string
  /** Statements that only this server can make: signatures, pseudonyms, seals. */
  readonly notary: Notary
  /** Bounds that the operator sets. */
  readonly terms: Terms
  /** For an operation that takes bytes: those that the server has received. */
  readonly received?: Received | undefined
}

/** Bounds that are the operator's to set; null: none. */
export type Terms = {
  /** Questions of one agent that may be open at a time. */
  readonly asksOpenMax: number | null
  /** Questions of one agent in an hour that may be called critical. */
  readonly criticalPerHourMax: number | null
  /** Seconds that people have at least before a stated default may decide in their place. */
  readonly defaultSecondsMin: number | null
  /** Posts go to public addresses by https alone. */
  readonly publicHooksOnly: boolean
  /** E-mail can be sent. */
  readonly mails?: boolean
  /** The public key that browsers subscribe to pushes with; null: there are none. */
  readonly pushKey?: () => string | null
  /** The address that people open, where the operator has named one. */
  readonly publicOrigin?: () => string | null
  /** Messages to one person in an hour, apart from what is critical. */
  readonly noticesPerHourMax?: number | null
  /** Bytes that are stored for one task, one actor and one project; the usual ones without it. */
  readonly byteQuotas?: ByteQuotas
  /** This installation among other harnesses; null: it speaks to none. */
  readonly harness: HarnessTerms | null
}

export type HarnessTerms = {
  readonly id: string
  /** How long a submission waits for an answer before it is sent again, and an event for those before it. */
  readonly replyMs: number
  readonly gapMs: number
  /** Messages are hidden from others on their way: TLS, or a broker on this machine. */
  readonly isPrivate: boolean
  /** Senders are known by the broker's word for them. */
  readonly checksSenders: boolean
  /** Where artifacts can be fetched by HTTP; null: nowhere. */
  readonly origin: (() => string) | null
}

/** A decision that somebody made beforehand about a scope. `left`: how often it may still be used; null: at will. */
export type Granted = { readonly id: string; readonly decision: 'allow' | 'deny'; readonly by: string; readonly left: number | null }

export type Listed = { readonly id: string; readonly at: string }
export type ListPage = { readonly after?: string | undefined; readonly limit: number; readonly reverse?: boolean | undefined }

export type Read = {
  /** The document, or NOT_FOUND: what is not yours does not exist. */
  <S extends TSchema>(doc: Doc<S>, id: string): Promise<Static<S>>
  /** null when it is not there or not yours; that it is not there is then checked at commit. */
  maybe<S extends TSchema>(doc: Doc<S>, id: string): Promise<Static<S> | null>
  /** The document whatever the actor may see: for rules about documents that it need not see. */
  raw<S extends TSchema>(doc: Doc<S>, id: string): Promise<Static<S> | null>
  /** Ids in index order, merged over several prefixes. Not checked at commit: a rule about a set uses a document or `atMost`. */
  list(doc: AnyDoc, index: string, prefixes: readonly (readonly Part[])[], page: ListPage): Promise<Listed[]>
  count(doc: AnyDoc, index: string, prefix: readonly Part[]): Promise<number>
  /**
   * Ids of documents that may hold all words in their text, or in the text of their group; in no order, and not all of them do. Null: it is quicker to
   * look at one after the other. `rows`: how many are wanted.
   */
  holding(
    doc: AnyDoc,
    message: readonly string[],
    groupText: (group: string) => Promise<string>,
    rows: number,
  ): Promise<readonly string[] | null>
  facts(of: FactsOf, page: FactsPage): Promise<StoredFact[]>
  seek(scope: string, at: string): Promise<number>
  /** For each fact how it differs from the seal of its group; null: it does not. */
  sealFaults(facts: readonly SealedFact[]): Promise<(string | null)[]>
  head(scope: string): Promise<{ readonly seq: number; readonly hash: string }>
  /** Where in the record a document came to be as it is; null: it is not there, or no fact describes it. */
  place(doc: AnyDoc, id: string): Promise<Place | null>
  /** So much was read that a page ends here, however few items it has. */
  isFull(): boolean
  /** A registered person, agent or service, for any caller; null when there is none. */
  subject(id: string): Promise<Subject | null>
  /** People who are not switched off, by what they are; at most `limits.peopleSoughtMax`. */
  people(sought: PeopleSought): Promise<readonly Subject[]>
  /** The grant of a task that speaks for a scope now, for any caller; null when nobody decided beforehand. */
  grant(task_id: string, scope: string, now: string): Promise<Granted | null>
  /** Views that other protocols give of their documents. */
  readonly ports: Ports
  /** Bytes that are stored here; null when they are not. */
  blob(checksum: string): Promise<{ readonly size: number } | null>
  /** When an agent was last there, as far as is known. */
  seen(agent_id: string): Seen
  /** Differences from the record that were found, in all projects: for those alone who see all of them. */
  findings(): readonly Found[]
}

/** One audit event: the first document is its subject, the others changed with it. */
export type Made = {
  /** Given where a document must name its own event; otherwise the kernel makes one. */
  readonly id: string | null
  readonly action: string
  readonly subject: { readonly doc: AnyDoc; readonly id: string }
  readonly images: readonly { readonly doc: AnyDoc; readonly id: string; readonly after: Value }[]
  readonly detail: Value | null
  /** By what right, and for whom, where that is not the caller's role: a policy that somebody set. */
  readonly basis: Basis | null
  readonly behalf: string | null
  /** Index, within this decision, of the event that led to this one. */
  readonly cause: number | null
  /** It follows from a rule and not from the caller's wish: the system is its actor. */
  readonly bySystem: boolean
}
export type Change = { readonly doc: AnyDoc; readonly id: string; readonly value: Value | null; readonly isNew?: boolean }
export type Bound = {
  readonly doc: AnyDoc
  readonly index: string
  readonly prefix: readonly Part[]
  readonly max: number
  readonly message: string
  /** Seconds after which it may be worth asking again, where that is known. */
  readonly retry_after?: number
  /** The decision has words of its own for it: a call that lost a race over the last place is decided again, and refused by them. */
  readonly decidesAgain?: boolean
}

export type Decision<O> = {
  readonly facts: readonly Made[]
  readonly puts?: readonly Change[]
  readonly atMost?: readonly Bound[]
  /** The chain that the facts belong to; by default the scope of the first image. */
  readonly scope?: string
  /** For a command with an effect: what is to be done; without it nothing is, and the output is the answer. */
  readonly effect?: Wanted
  /** With an effect: the answer where its outcome stays unknown. */
  readonly output: O
  /** There is nothing to answer with yet: who would wait for it may. `again`: when time alone may bring something. */
  readonly nothing?: { readonly again: string | null }
}

/** For whom a call would wait, and how long. */
export type LongPoll = { readonly wakeId: string; readonly maxMs: number }

/** For a command that only calls others: which, and what their answers make together. */
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
  /** The message of the refusal: what is the case, and what to do next. */
  readonly refusal: string
  /** The same, with what is known of this case; only for callers who may read the state. */
  refusalFor?(state: S, input: I, context: Context): string
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

/** On a remembered device only after a fresh sign-in; `unless`: what needs none. */
export const freshProof = <S>(unless: (state: S) => boolean = () => false): Rule<S, unknown> =>
  rule<S>(
    'PROOF_REQUIRED',
    'on a remembered device, the sign-in is fresh',
    (state, _, { actor }) => actor.via !== 'remembered' || unless(state),
    PROOF_WORDS,
  )

/** How to show the operation: a scene that its protocol describes, who calls, and with what. */
// oxlint-disable-next-line typescript/no-explicit-any -- refs hold whatever the scene's steps answered
export type Refs = Record<string, any>
export type Example = {
  readonly given: string
  readonly as: string
  readonly input: object | ((refs: Refs) => object)
  /** The code it answers, for an operation that no single call can bring to succeed. */
  readonly refused?: string
  /** The bytes that are sent along, for an operation that takes some. */
  readonly bytes?: string
}
export type Step =
  | { readonly as: string; readonly call: string; readonly input: object | ((refs: Refs) => object) }
  | { readonly advanceMs: number }

/** The document that a call looks at; whatever is due with it is done first (`due-on-read.ts`). */
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
  /** Fields of the answer that are shown once and never kept, also not for a repeated call. */
  readonly once?: readonly string[]
  /** Its input may hold a secret: what is remembered of it cannot be guessed by trying. */
  readonly hides?: boolean
  /** Fields that say which process repeats a call, not what it asks for: a repeated call may differ in them. */
  readonly besides?: readonly string[]
  /** The input as it is understood, where that is less than was sent: a repeated call must be the same in it alone. */
  understood?(input: Static<I>): unknown
  /** It takes a person's attention, so an agent may do it only so often. */
  readonly asks?: boolean
  /** It takes bytes beside its input: only a binding that has received and stored them can call it. */
  readonly upload?: boolean
  /** It may be answered later, when there is something to answer with: what this caller wishes; null: an answer at once. */
  waits?(input: Static<I>, actor: Actor): LongPoll | null
  /** It has something done outside, between its own batch and that of the operation named here, whose answer is its answer. */
  readonly effect?: EffectOf
  /** It decides nothing itself: see `fan`. */
  readonly fan?: Fan<Static<I>, Static<O>>
  load(read: Read, input: Static<I>, context: Context): Promise<S>
  decide(state: S, input: Static<I>, context: Context): Decision<Static<O>>
  /**
   * Things that only the durable record can tell, such as the place of a fact in it, are added to the answer after the commit, also to a
   * repeated one.
   */
  finish?(output: Static<O>, after: () => { readonly read: Read; readonly context: Context }): Promise<Static<O>> | Static<O>
}
export type Query<I extends TSchema = TSchema, O extends TSchema = TSchema, S = unknown, N extends string = string> = Common<I, O, N> & {
  readonly kind: 'query'
  readonly callers: readonly Role<NoInfer<S>>[]
  /** Its answer names bytes (`uri`, `checksum`, `size`, `name`), which a binding that can carry them sends instead. */
  readonly download?: boolean
  load(read: Read, input: Static<I>, context: Context): Promise<S>
  view(state: S, input: Static<I>, context: Context, read: Read): Static<O> | Promise<Static<O>>
}
/**
 * Facts as they become durable; it goes on from a place until the subscriber leaves. `wants` and `view` know nothing of who
 * subscribed, so that a fact is chosen once for a question and written once for everybody.
 */
export type Stream<I extends TSchema = TSchema, O extends TSchema = TSchema, S = unknown, N extends string = string> = Common<I, O, N> & {
  readonly kind: 'stream'
  readonly callers: readonly Role<NoInfer<S>>[]
  /** Run again and again while the stream is open, so that who may not read any more gets no more. */
  load(read: Read, input: Static<I>, context: Context): Promise<S>
  of(state: S): FactsOf
  /** The one document that it is about, so that nothing else of `of` need be looked at while it is followed. */
  about?(state: S): Key
  /** Those who are told the same, by a name that `view` is given; without it, everybody. */
  audience?(actor: Actor): string
  /** Whether the question asks for this fact; without it, for all of them. */
  wants?(input: Static<I>, fact: StoredFact): boolean
  /** Which of the facts this subscriber may see, where `load` alone cannot say so for all of them; null: it can. */
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
  /** Everything that can happen in it: only these events are recorded, and only these can be followed by contracts. */
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
  /** The basis of the consequence where that is not the contract itself. */
  readonly basis?: (fact: ContractFact<V>) => Basis | null
  /** A refusal of the called operation in the words of the one that led to it; without it, as it is. */
  readonly refused?: (refusal: Refusal) => Refusal
  /** Whether it is about such a fact at all; without it, about every one. */
  readonly when?: (fact: ContractFact<V>) => boolean
  /** null: nothing to do here; a list: one call for each. Reads see what the batch has decided so far. */
  input(fact: ContractFact<V>, read: Read): Calls<I> | Promise<Calls<I>>
}
type Calls<I> = I | readonly I[] | null
export type ContractFact<V = unknown> = {
  readonly action: string
  readonly subject: V
  readonly detail: Value | null
  /** The action of the fact that led to it; null: it is the call's own. */
  readonly cause: string | null
  /** The actor who made it, by what right, and how they had proven their identity. */
  readonly actor: string
  readonly basis: Basis
  readonly via: NonNullable<Actor['via']> | null
}
