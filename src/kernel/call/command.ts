// One command, step by step. An attempt is one object, and each step a function on it: understand, replay, pay, decide, remember, commit. An attempt
// that lost a race is repeated from the start, which is safe because deciding has no effects.
import type { Caller, CallOptions, KernelOptions } from '../types.ts'
import { authorize, refusalOfLoad, refuseAuditor, refuseViewer, SYSTEM, type Actor } from '../declare/access.ts'
import { Conflict, isUnknown, Refusal } from '../declare/errors.ts'
import type { Command, Contract, Decision, Read, LongPoll } from '../declare/operation.ts'
import { assertMatches, keyOf, parse } from '../declare/schema.ts'
import { createKeyMutex } from '../codec/key-mutex.ts'
import { canonical } from '../log/canonical-json.ts'
import { sha256 } from '../log/hash-chain.ts'
import { refuseHidden, Reply } from '../log/outbox-document.ts'
import type { Value } from '../log/store.ts'
import type { Tail } from '../log/tail.ts'
import { limits } from '../limits.ts'
import { timestampOf } from '../ports/clock.ts'
import { contextOf, type ContextPorts } from './context.ts'
import type { Denials } from './denials.ts'
import type { DueOnRead } from './due-on-read.ts'
import { beginIn, concludeIn, concludeLost, outcomeElsewhere, type CallAnswer, type Effects, type Remembered } from './effects.ts'
import { errandsIn } from './errands-at-once.ts'
import type { Reading } from './query.ts'
import type { Quota } from './quota/quota.ts'
import { askedFor, replyIdOf, withoutSecrets } from './idempotency.ts'
import { effectsIn, stepNamed, type Registry, type Served } from './registry.ts'
import { signatureFor } from '../signing/signature.ts'
import { inputOf } from './input.ts'
import {
  asContractsSee,
  asLeftByTheBatch,
  scopesOf,
  batchOf,
  draftAt,
  expectProof,
  isCounted,
  isEmpty,
  record,
  subjectsIn,
  type Draft,
  type DraftFact,
} from './unit-of-work.ts'
import type { Waiter } from './waiters.ts'

/** A command as the caller requested it. */
export type CallRequest = {
  readonly served: Served
  readonly raw: unknown
  readonly caller: Caller
  readonly options: CallOptions
  /** Set for a long poll. */
  readonly waiter: Waiter | null
  /** The first attempt of the call: only this one is charged to the quota. */
  readonly isFirst: boolean
}

/** One attempt at a command. */
type Attempt = {
  readonly name: string
  readonly protocol: string
  readonly op: Command
  readonly actor: Actor
  readonly draft: Draft
  readonly input: unknown
  readonly poll: LongPoll | null
  readonly isFirst: boolean
  /** The id and digest of the stored answer; null for a call without an idempotency key. */
  readonly reply: Remembered | null
}

/** A decision to take: the call's own, or a consequence of a fact. */
type Deciding = {
  readonly protocol: string
  readonly op: Command
  readonly input: unknown
  readonly actor: Actor
  /** The fact that it follows from. */
  readonly cause: number | null
}

/** `isDone`: the call wrote something, now or earlier under the same key. */
export type Attempted = CallAnswer & { readonly nothing: Draft['nothing']; readonly actor: Actor; readonly isDone: boolean }

type Parts = {
  readonly options: KernelOptions
  readonly given: ContextPorts
  readonly registry: Registry
  readonly denials: Denials
  readonly quota: Quota
  readonly reading: Reading
  readonly effects: Effects
  readonly tail: Tail
  readerAs(draft: Draft, actor: Actor): Read
  call(name: string, input: unknown, as: Actor): Promise<unknown>
  readonly settle: DueOnRead
}

type Step = NonNullable<Decision<unknown>['steps']>[number]

/** The caller with the memberships that the batch has given or taken so far. A credential for some projects gets no more than it had. */
async function withNewRights(read: Read, caller: Actor): Promise<Actor> {
  if (caller.kind !== 'human' || caller.partial === true) return caller
  const person = await read.subject(caller.id)
  return person === null ? caller : { ...caller, projects: person.projects, owner: person.isChief }
}

export type Commands = {
  run(asked: CallRequest): Promise<Attempted>
  /** Every check before the decision: the subject exists, the actor is authorized, and the rules hold. */
  admit(draft: Draft, op: Command, input: unknown, actor: Actor): Promise<unknown>
  conflicts(): number
}

export function createCommandRunner(parts: Parts): Commands {
  const { options, given, registry, denials, quota, reading, effects, tail, readerAs, call, settle } = parts
  const { store, now } = options
  const { newId, notary } = given
  const concluding = effectsIn(registry)
  const following = Map.groupBy(options.contracts, (contract: Contract) => contract.on)
  const mutex = createKeyMutex()
  const checksAnswers = options.checksAnswers ?? true
  let conflicts = 0

  async function run({ served, raw, caller, options: { key, received, since }, waiter, isFirst }: CallRequest): Promise<Attempted> {
    const { protocol } = served
    const op = served.op as Command
    const name = `${protocol}/${op.name}`
    // A checksum alone does not prove that the caller has the bytes; only received bytes do.
    if (op.upload && !received) throw new Refusal('INVALID_REQUEST', `${name} takes bytes: send them with PUT over HTTP`)
    let leave: (() => void) | undefined
    /**
     * Set when the outcome of an attempt is unknown. The caller gets this refusal even if a later attempt is refused for another reason.
     */
    let unknown: Refusal | null = null
    const began = now()
    try {
      for (let attempt = 1; ; attempt++) {
        const isVeryFirst = isFirst && attempt === 1
        const barrier = store.fresh(isVeryFirst ? since : undefined)
        if (barrier) await barrier
        const draft = draftAt(timestampOf(now()), received)
        const found = typeof caller === 'function' ? caller() : caller
        const actor = found instanceof Promise ? await found : found
        if (actor.kind === 'agent') options.presence?.heard(actor.id)
        try {
          const input = inputOf(op, raw, actor)
          const poll = waiter && op.waits!(input, actor)
          waiter?.listen(poll, actor.id)
          if (isVeryFirst) reading.admit(actor)
          const reply = key === undefined ? null : replyFor(op, name, input, draft, actor, key)
          const answer = await once({ name, protocol, op, actor, draft, input, poll, isFirst: isVeryFirst, reply })
          if (attempt === 1 && (await settle(op.looksAt, input))) continue
          return { ...answer, nothing: draft.nothing, actor, isDone: answer.isReplayed === true || !isEmpty(draft) }
        } catch (error) {
          if (isUnknown(error)) unknown = error
          if (draft.wanted) effects.drop(draft.wanted.id)
          if (draft.wanted && isUnknown(error)) void concludeLost({ store, sleep: options.sleep }, draft.wanted.id, call)
          if (error instanceof Conflict && (await mayTryAgain(attempt, began))) {
            conflicts++
            // Two calls that lost a race over one document would collide again, so serialize them from now on.
            leave ??= await mutex.enter(error.key)
            continue
          }
          if (error instanceof Refusal && attempt < limits.attemptsMax && (await isAnsweredByNow(draft, actor, key))) continue
          if (error instanceof Refusal) denials.record(draft, name, actor, error)
          throw error
        }
      }
    } catch (error) {
      // An error that is not a refusal is a bug and is thrown as it is.
      throw unknown && error instanceof Refusal ? unknown : error
    } finally {
      leave?.()
    }
  }

  /** The id of the stored answer, and the digest that a retry must match. */
  function replyFor(op: Command, name: string, input: unknown, { received }: Draft, actor: Actor, key: string): Remembered {
    const callText = `${name} ${canonical(askedFor(op, input))}${received?.checksum ?? ''}`
    return { id: replyIdOf(actor, key), digest: op.hides ? notary.commit(callText) : sha256(callText) }
  }

  /**
   * Whether a concurrent call with the same key committed first. Then this call was refused because of its own effect, and replays that
   * answer.
   */
  async function isAnsweredByNow({ before }: Draft, actor: Actor, key: string | undefined): Promise<boolean> {
    const reply = key === undefined ? null : keyOf(Reply, replyIdOf(actor, key))
    return reply !== null && before.get(reply) === null && (await store.read([reply]))[0] !== undefined
  }

  /**
   * With several servers, some calls lose more races than others: they retry for longer, with random pauses so that they do not collide
   * again.
   */
  async function mayTryAgain(attempt: number, began: number): Promise<boolean> {
    if (attempt < limits.attemptsMax) return true
    if (!store.isShared || !options.sleep || now() - began > limits.attemptsMs) return false
    const [chance = 0] = options.entropy(1)
    await options.sleep(1 + (Math.min(limits.attemptPauseMsMax, 5 * attempt) * chance) / 256, new AbortController().signal)
    return true
  }

  async function once(attempt: Attempt): Promise<CallAnswer> {
    const again = attempt.reply && (await replay(attempt, attempt.reply))
    if (again) return again
    const paid = pay(attempt)
    if (paid) await paid
    const output = await decide(attempt)
    await remember(attempt, output)
    return commit(attempt, output)
  }

  /** The stored answer of an earlier call with this key; null: there is none. */
  async function replay({ draft, actor }: Attempt, { id, digest }: Remembered): Promise<CallAnswer | null> {
    const reply = await readerAs(draft, SYSTEM).maybe(Reply, id)
    if (reply && reply.digest !== digest)
      throw new Refusal('CONFLICT', 'this idempotency key was used before with another body', { reason: 'idempotency_key_reused' })
    // Look this up before the next `await`: the effect in flight may end during it.
    const joined = reply?.pending === undefined ? undefined : (effects.joined(reply.pending) ?? elsewhere(reply.pending, id))
    if (reply) await refuseHidden(readerAs(draft, actor), draft, reply.about ?? [])
    if (joined) return { output: null, outcome: () => joined }
    if (!reply) return null
    reading.again(actor)
    return { output: reply.output, isReplayed: true }
  }

  /**
   * Waits for an effect in another process. With a single process, an unknown pending effect was left by a crash: the stored answer is
   * replayed.
   */
  function elsewhere(id: string, replyId: string): Promise<unknown> | undefined {
    if (!store.isShared) return undefined
    const outcome = outcomeElsewhere({ store, tail, sleep: options.sleep }, id, replyId)
    // The outcome can reject before the call awaits it. Without this handler that would be an unhandled rejection.
    outcome.catch(() => undefined)
    return outcome
  }

  /** Charges the quota once per call: a call that lost a race, or has waited, has paid already. */
  function pay({ op, actor, isFirst }: Attempt): Promise<void> | undefined {
    return isFirst && (actor.kind === 'agent' || (op.asks && actor.kind === 'service')) ? quota.take(op, actor.id) : undefined
  }

  async function decide({ protocol, op, input, actor, draft }: Attempt): Promise<unknown> {
    const output = await decideInto(draft, { protocol, op, input, actor, cause: null })
    const { wanted } = draft
    if (op.effect && wanted) effects.refuseWithoutPort(op.effect)
    const elsewhereOnly = op.effect && wanted ? (options.doneElsewhere?.(op.effect.port, wanted.request) ?? null) : null
    if (elsewhereOnly !== null) throw new Refusal('UNAVAILABLE', elsewhereOnly, { retry_after: 1 })
    return output
  }

  async function decideInto(draft: Draft, { protocol, op, input, actor, cause }: Deciding): Promise<unknown> {
    if (++draft.consequences > limits.consequencesMax) throw new Error('contracts call each other without end')
    const { state, allowed, context } = await admit(draft, op, input, actor)
    const name = `${protocol}/${op.name}`
    const signed = cause === null ? await signatureFor(readerAs(draft, actor), name, op, { state, input, context }) : null
    const decision = op.decide(state, input, signed?.signature ? { ...context, signature: signed.signature } : context)
    if (cause === null) draft.nothing = decision.nothing ?? null
    if (actor.kind === 'human') refuseViewer(op.name, actor, scopesOf(decision))
    const first = draft.facts.length
    const behalf = actor.behalf ?? allowed.behalf(actor, state)
    const as: Actor = behalf === null ? actor : { ...actor, behalf }
    record(draft, newId, protocol, decision, as, actor.basis ?? { kind: 'role', id: allowed.name }, cause)
    for (const { doc, id, value, isNew } of [...(decision.puts ?? []), ...(signed?.changes ?? [])]) {
      if (isNew !== true) await readerAs(draft, SYSTEM).raw(doc, id)
      draft.after.set(keyOf(doc, id), value)
      draft.puts.add(keyOf(doc, id))
    }
    // Depth first, in the order of the facts: the record reads as cause, then consequence.
    const before = draft.consequences
    for (let i = 0; i < decision.facts.length; i++) await drawConsequences(draft, draft.facts[first + i]!, first + i, actor)
    // A contract cannot call an operation with an effect, so this effect is the call's own.
    draft.wanted ??= decision.effect ?? null
    const isAsDecided = draft.consequences === before && !isCounted(decision)
    const output = isAsDecided ? decision.output : asLeftByTheBatch(draft, decision)
    if (checksAnswers) assertMatches(op.output, output, op.name)
    for (const [i, step] of (decision.steps ?? []).entries()) await takeStep(draft, step, i, actor)
    return output
  }

  /** Without a cause, as the caller's own call: what people sign is asked for, and the record names the caller's role. */
  async function takeStep(draft: Draft, { call: name, input }: Step, number: number, caller: Actor): Promise<void> {
    // The bound is that of one call.
    draft.consequences = 0
    try {
      const { protocol, op } = stepNamed(registry, name)
      const actor = await withNewRights(readerAs(draft, SYSTEM), caller)
      await decideInto(draft, { protocol, op, input: inputOf(op, input, actor), actor, cause: null })
    } catch (error) {
      if (!(error instanceof Refusal) || error instanceof Conflict) throw error
      throw new Refusal(error.code, error.message, { ...error.details, step: number })
    }
  }

  async function admit(draft: Draft, op: Command, input: unknown, actor: Actor) {
    refuseAuditor(op, actor)
    const context = contextOf(given, actor, draft)
    let state: unknown
    try {
      state = await op.load(readerAs(draft, actor), input, context)
    } catch (error) {
      throw refusalOfLoad(error, op.name, op.callers, actor)
    }
    const allowed = authorize(op.name, op.callers, actor, state)
    const broken = op.requires.find((rule) => !rule.holds(state, input, context))
    if (broken)
      throw new Refusal(broken.code, broken.refusalFor?.(state, input, context) ?? broken.refusal, broken.detailsFor?.(state, input))
    return { state, allowed, context }
  }

  async function drawConsequences(draft: Draft, draftFact: DraftFact, cause: number, actor: Actor): Promise<void> {
    for (const contract of following.get(draftFact.action) ?? []) {
      const { protocol, op } = registry.get(contract.call) as { protocol: string; op: Command }
      const about = asContractsSee(draft, draftFact, actor)
      if (contract.when && !contract.when(about)) continue
      const input = await contract.input(about, readerAs(draft, SYSTEM))
      const basis = contract.basis?.(about) ?? { kind: 'contract', id: contract.name }
      const as: Actor = contract.as === 'actor' ? actor : { ...SYSTEM, behalf: actor.behalf ?? actor.id, basis }
      try {
        for (const item of input === null ? [] : [input].flat())
          await decideInto(draft, { protocol, op, input: parse(op.input, item), actor: as, cause })
      } catch (error) {
        throw error instanceof Refusal && !(error instanceof Conflict) && contract.refused ? contract.refused(error) : error
      }
    }
  }

  /**
   * Stores the answer for a retry with the same key. Two answers are not stored: an empty long poll, because the retry waits again, and a
   * look at the state, because the retry must be authorized again.
   */
  async function remember({ name, op, input, draft, poll, reply }: Attempt, output: unknown): Promise<void> {
    const isLook = op.finish !== undefined && isEmpty(draft)
    if (reply !== null && !isLook && (poll === null || draft.nothing === null)) {
      const open = draft.wanted === null ? {} : { pending: draft.wanted.id }
      const remembered = withoutSecrets(op, output as Value)
      draft.after.set(keyOf(Reply, reply.id), { ...reply, output: remembered, at: draft.at, about: subjectsIn(draft), ...open })
      draft.puts.add(keyOf(Reply, reply.id))
    }
    if (concluding.has(name)) await concludeIn(draft, readerAs(draft, SYSTEM), (input as { id: string }).id, output as Value)
  }

  async function commit({ op, actor, draft, reply }: Attempt, output: unknown): Promise<CallAnswer> {
    const { wanted } = draft
    expectProof(draft, actor)
    const pending = op.effect && wanted ? beginIn(draft, wanted, op.effect, actor, reply, options.node?.()) : null
    if (pending) effects.begin(pending.id)
    if (!isEmpty(draft)) await store.commit(batchOf(draft))
    if (pending) return { output, outcome: () => effects.perform(pending, op.effect!.port, wanted!.request) }
    return options.doesErrands ? { output, errands: errandsIn(draft) } : { output }
  }

  return { run, admit, conflicts: () => conflicts }
}
