// One entrance for every binding: check the shape, load, authorize, check the rules, decide, draw the consequences, commit.
// A decision that lost a race is loaded and taken again, which is safe because deciding has no effects.
import type { Caller, CallOptions, Kernel, KernelOptions } from './types.ts'
import { portsOf } from './ports/between-protocols.ts'
import { canonical } from './log/canonical-json.ts'
import { sha256 } from './log/hash-chain.ts'
import { timestampOf } from './ports/clock.ts'
import { contextOf, givenBy } from './call/context.ts'
import { bookkeeping, refuseHidden, Reply } from './log/outbox-document.ts'
import { createDenials } from './call/denials.ts'
import { batchOf, draftAt, isEmpty, readingAt, record, subjectsIn, type Draft, type DraftFact } from './call/unit-of-work.ts'
import { Conflict, kernelCodes, Refusal, type Fault } from './declare/errors.ts'
import { beginIn, concludeLost, concludeIn, createEffects, outcomeElsewhere, type Answer } from './call/effects.ts'
import { callEach } from './call/fan-out.ts'
import { authorize, SYSTEM, type Actor } from './declare/access.ts'
import { createLanes } from './codec/key-mutex.ts'
import { limits } from './limits.ts'
import type { Command, Read } from './declare/operation.ts'
import { createQueries, createReading } from './call/query.ts'
import { createQuota } from './call/quota.ts'
import { readerOf } from './call/reader.ts'
import { createTextIndex } from './search/text-index.ts'
import { assertMatches, keyOf, parse } from './declare/schema.ts'
import {
  askedFor,
  asContractsSee,
  asLeftByTheBatch,
  effectsIn,
  expectProof,
  inputOf,
  replyIdOf,
  registryOf,
  withoutSecrets,
  type Served,
} from './call/registry.ts'
import type { Value } from './log/store.ts'
import { createSettling } from './call/due-on-read.ts'
import { doErrands, errandsIn, type DueErrand } from './call/errands-at-once.ts'
import { createStreams } from './log/streams.ts'
import { createTail } from './log/tail.ts'
import { createWaiting, type Seat } from './call/waiters.ts'

export type { Caller, CallOptions, Kernel, KernelOptions } from './types.ts'

export function createKernel(options: KernelOptions): Kernel {
  const { store, now } = options
  const protocols = [bookkeeping, ...options.protocols]
  const registry = registryOf(protocols, options.contracts)
  const concluding = effectsIn(registry)
  const following = Map.groupBy(options.contracts, (contract) => contract.on)
  const effects = createEffects(options.perform, (name, input, as) => call(name, input, as))
  const given = givenBy(options)
  const { newId, notary } = given
  const ports = portsOf(options.protocols)
  const texts = createTextIndex(store, options.sleep)
  const readerAs = (draft: Draft, actor: Actor): Read => readerOf(store, texts, options, ports, draft, actor)
  const lanes = createLanes()
  const codes = Object.assign({}, kernelCodes, ...protocols.map((protocol) => protocol.codes)) as Record<string, Fault>
  const denials = createDenials(store, codes, newId, now)
  const quota = createQuota(options)
  const reading = createReading(quota, options.turns)
  const ask = createQueries({ options, given, denials, reading, readerAs })
  const stats = { conflicts: 0 }
  const tail = createTail(store, options.bug)
  const waiting = createWaiting(now, options.sleep)
  tail.hear(({ wakes }) => waiting.ring(wakes))
  tail.hear(texts.heard)
  const settled = createSettling(store, now, call)

  function call(name: string, raw: unknown, caller: Caller, more: CallOptions = {}): Promise<unknown> {
    const served = registry.get(name)
    return settled(served?.op.looksAt, raw, () =>
      served?.op.kind === 'query' ? ask(name, served.op, raw, caller, more.since) : order(name, served, raw, caller, more),
    )
  }

  async function order(name: string, served: Served | undefined, raw: unknown, caller: Caller, more: CallOptions): Promise<unknown> {
    if (served?.op.kind !== 'command') throw new Refusal('NOT_FOUND', `there is no operation ${name}`)
    if (served.op.fan) {
      const output = await callEach({ call, check, notary }, name, served.op, raw, caller, more)
      if (options.checksAnswers ?? true) assertMatches(served.op.output, output, name)
      return output
    }
    if (!served.op.waits) {
      const { output, outcome, actor, errands } = await attempts(served, raw, caller, more, null, true)
      if (errands && errands.length > 0) await doErrands(errands, onErrand)
      if (served.op.finish) return finish(served.op, output, actor)
      // Whatever becomes of it, what has begun is not begun again.
      return outcome ? outcome() : output
    }
    const seat = waiting.seat(more.signal)
    try {
      for (let isFirst = true; ; isFirst = false) {
        // The caller is found out anew each time: nothing is handed to a credential that was revoked meanwhile.
        const { output, nothing, actor } = await attempts(served, raw, caller, more, seat, isFirst)
        if (nothing === null || !(await seat.wait(nothing.again))) return served.op.finish ? await finish(served.op, output, actor) : output
      }
    } finally {
      seat.leave()
    }
  }

  async function onErrand({ call: name, input }: DueErrand, as: Actor): Promise<readonly DueErrand[]> {
    return (await attempts(registry.get(name)!, input, as, {}, null, true)).errands ?? []
  }

  async function attempts(
    served: Served,
    raw: unknown,
    caller: Caller,
    { key, received, since }: CallOptions,
    seat: Seat | null,
    isFirst: boolean,
  ) {
    const { protocol } = served
    const op = served.op as Command
    const name = `${protocol}/${op.name}`
    // A call that names a checksum need not have the bytes: that they were sent is proven by receiving them.
    if (op.upload && !received) throw new Refusal('INVALID_REQUEST', `${name} takes bytes: send them with PUT over HTTP`)
    let leave: (() => void) | undefined
    const began = now()
    try {
      for (let attempt = 1; ; attempt++) {
        const barrier = store.fresh(isFirst && attempt === 1 ? since : undefined)
        if (barrier) await barrier
        const draft = draftAt(timestampOf(now()), received)
        const asked = typeof caller === 'function' ? caller() : caller
        const actor = asked instanceof Promise ? await asked : asked
        if (actor.kind === 'agent') options.presence?.heard(actor.id)
        try {
          const answer = await once(draft, served, raw, actor, key, seat, isFirst && attempt === 1)
          return { ...answer, nothing: draft.nothing, actor }
        } catch (error) {
          if (draft.wanted) effects.drop(draft.wanted.id)
          if (draft.wanted && isUnknown(error)) void concludeLost({ store, sleep: options.sleep }, draft.wanted.id, call)
          if (error instanceof Conflict && (await mayTryAgain(attempt, began))) {
            stats.conflicts++
            // Two losers over one document would lose again together: from now on they go one after the other.
            leave ??= await lanes.enter(error.key)
            continue
          }
          if (error instanceof Refusal && attempt < limits.attemptsMax && (await isAnsweredByNow(draft, actor, key))) continue
          if (error instanceof Refusal) denials.record(draft, name, actor, error)
          throw error
        }
      }
    } finally {
      leave?.()
    }
  }

  /** Nobody knows whether it was committed. */
  const isUnknown = (error: unknown): boolean => error instanceof Refusal && error.details?.['outcome'] === 'unknown'

  /** The same call came twice at once, and the other one was first: what it met was its own effect, so it gets the same answer. */
  async function isAnsweredByNow({ before }: Draft, actor: Actor, key: string | undefined): Promise<boolean> {
    const reply = key === undefined ? null : keyOf(Reply, replyIdOf(actor, key))
    return reply !== null && before.get(reply) === null && (await store.read([reply]))[0] !== undefined
  }

  /** Among several servers some lose more often: they go on for a while, after pauses that differ, so that the same do not meet again. */
  async function mayTryAgain(attempt: number, began: number): Promise<boolean> {
    if (attempt < limits.attemptsMax) return true
    if (!store.isShared || !options.sleep || now() - began > limits.attemptsMs) return false
    const [chance = 0] = options.entropy(1)
    await options.sleep(1 + (Math.min(limits.attemptPauseMsMax, 5 * attempt) * chance) / 256, new AbortController().signal)
    return true
  }

  /** Whatever may be read by now: the answer is about what this call itself has done. */
  function finish(op: Command, output: unknown, actor: Actor): unknown {
    return op.finish!(output, () => {
      const draft = readingAt(timestampOf(now()))
      return { read: readerAs(draft, SYSTEM), context: contextOf(given, actor, draft) }
    })
  }

  async function once(
    draft: Draft,
    { protocol, op: served }: Served,
    raw: unknown,
    actor: Actor,
    key: string | undefined,
    seat: Seat | null,
    isFirst: boolean,
  ): Promise<Answer> {
    const op = served as Command
    const input = inputOf(op, raw, actor)
    const wish = seat && op.waits!(input, actor)
    seat?.listen(wish, actor.id)
    if (isFirst) reading.admit(actor)
    const name = `${protocol}/${op.name}`
    const replyId = key === undefined ? undefined : replyIdOf(actor, key)
    const asked = key === undefined ? '' : `${name} ${canonical(askedFor(op, input))}${draft.received?.checksum ?? ''}`
    const digest = key === undefined ? '' : op.hides ? notary.commit(asked) : sha256(asked)
    if (replyId !== undefined) {
      const reply = await readerAs(draft, SYSTEM).maybe(Reply, replyId)
      if (reply && reply.digest !== digest)
        throw new Refusal('CONFLICT', 'this idempotency key was used before with another body', { reason: 'idempotency_key_reused' })
      // Looked for at once: what is under way may end while something else is waited for.
      const joined = reply?.pending === undefined ? undefined : (effects.joined(reply.pending) ?? elsewhere(reply.pending, replyId))
      if (reply) await refuseHidden(readerAs(draft, actor), draft, reply.about ?? [])
      if (joined) return { output: null, outcome: () => joined }
      if (reply) {
        reading.again(actor)
        return { output: reply.output }
      }
    }
    if (op.effect) effects.refuseWithoutPort(op.effect)
    // A call that lost a race, or has waited, has paid already.
    const paid = isFirst && (actor.kind === 'agent' || (op.asks && actor.kind === 'service')) ? quota.take(op, actor.id) : undefined
    if (paid) await paid
    const output = await decideInto(draft, protocol, op, input, actor, null)
    const { wanted } = draft
    const elsewhereOnly = op.effect && wanted ? (options.doneElsewhere?.(op.effect.port, wanted.request) ?? null) : null
    if (elsewhereOnly !== null) throw new Refusal('UNAVAILABLE', elsewhereOnly, { retry_after: 1 })
    // That nothing came in time is not worth remembering: who asks again waits again. Nor is a look at what is there by then: whoever
    // looks again must still be allowed to.
    const isLook = op.finish !== undefined && isEmpty(draft)
    if (replyId !== undefined && !isLook && (wish === null || draft.nothing === null)) {
      const open = wanted === null ? {} : { pending: wanted.id }
      const kept = withoutSecrets(op, output as Value)
      draft.after.set(keyOf(Reply, replyId), { id: replyId, digest, output: kept, at: draft.at, about: subjectsIn(draft), ...open })
      draft.puts.add(keyOf(Reply, replyId))
    }
    if (concluding.has(name)) await concludeIn(draft, readerAs(draft, SYSTEM), (input as { id: string }).id, output as Value)
    expectProof(draft, actor)
    const pending =
      op.effect && wanted
        ? beginIn(draft, wanted, op.effect, actor, replyId === undefined ? null : { id: replyId, digest }, options.node?.())
        : null
    if (pending) effects.begin(pending.id)
    if (!isEmpty(draft)) await store.commit(batchOf(draft))
    if (pending) return { output, outcome: () => effects.perform(pending, op.effect!.port, wanted!.request) }
    return options.doesErrands ? { output, errands: errandsIn(draft) } : { output }
  }

  /** A process alone does everything itself: what it does not know of was left open by a crash, and is answered as it stands. */
  function elsewhere(id: string, replyId: string): Promise<unknown> | undefined {
    if (!store.isShared) return undefined
    const outcome = outcomeElsewhere({ store, tail, sleep: options.sleep }, id, replyId)
    // It may fail before the call has come so far as to wait for it: that must not be a failure that nobody caught.
    outcome.catch(() => undefined)
    return outcome
  }

  async function decideInto(
    draft: Draft,
    protocol: string,
    op: Command,
    input: unknown,
    actor: Actor,
    cause: number | null,
  ): Promise<unknown> {
    if (++draft.consequences > limits.consequencesMax) throw new Error('contracts call each other without end')
    const { state, allowed, context } = await admit(draft, op, input, actor)
    const decision = op.decide(state, input, context)
    if (cause === null) draft.nothing = decision.nothing ?? null
    const first = draft.facts.length
    const behalf = actor.behalf ?? allowed.behalf(actor, state)
    const as: Actor = behalf === null ? actor : { ...actor, behalf }
    record(draft, newId, protocol, decision, as, actor.basis ?? { kind: 'role', id: allowed.name }, cause)
    for (const { doc, id, value, isNew } of decision.puts ?? []) {
      if (isNew !== true) await readerAs(draft, SYSTEM).raw(doc, id)
      draft.after.set(keyOf(doc, id), value)
      draft.puts.add(keyOf(doc, id))
    }
    // Depth first, in the order of the facts: the record reads as cause, then consequence.
    const before = draft.consequences
    for (let i = 0; i < decision.facts.length; i++) await drawConsequences(draft, draft.facts[first + i]!, first + i, actor)
    // A contract cannot call what has an effect, so this is the call's own.
    draft.wanted ??= decision.effect ?? null
    const output = draft.consequences === before ? decision.output : asLeftByTheBatch(draft, decision)
    if (options.checksAnswers ?? true) assertMatches(op.output, output, op.name)
    return output
  }

  /** Everything but the decision: what it is about is there, the actor may, and the rules hold. */
  async function admit(draft: Draft, op: Command, input: unknown, actor: Actor) {
    const context = contextOf(given, actor, draft)
    const state: unknown = await op.load(readerAs(draft, actor), input, context)
    const allowed = authorize(op.name, op.callers, actor, state)
    const broken = op.requires.find((rule) => !rule.holds(state, input, context))
    if (broken) throw new Refusal(broken.code, broken.refusalFor?.(state, input, context) ?? broken.refusal)
    return { state, allowed, context }
  }

  async function check(name: string, raw: unknown, caller: Caller, { key }: CallOptions = {}): Promise<void> {
    const op = registry.get(name)?.op
    if (op?.kind !== 'command') throw new Refusal('NOT_FOUND', `there is no command ${name}`)
    await store.fresh()
    const draft = draftAt(timestampOf(now()))
    const actor = typeof caller === 'function' ? await caller() : caller
    try {
      const input = inputOf(op, raw, actor)
      const replyId = key === undefined ? undefined : replyIdOf(actor, key)
      const reply = replyId === undefined ? null : await readerAs(draft, SYSTEM).maybe(Reply, replyId)
      // A call that is repeated gets the answer that it had, whatever has changed since, except that it can no longer be read.
      if (reply) return await refuseHidden(readerAs(draft, actor), draft, reply.about ?? [])
      await admit(draft, op, input, actor)
    } catch (error) {
      if (error instanceof Refusal) denials.record(draft, name, actor, error)
      throw error
    }
  }

  async function drawConsequences(draft: Draft, made: DraftFact, cause: number, actor: Actor): Promise<void> {
    for (const contract of following.get(made.action) ?? []) {
      const { protocol, op } = registry.get(contract.call) as { protocol: string; op: Command }
      const about = asContractsSee(draft, made, actor)
      if (contract.when && !contract.when(about)) continue
      const input = await contract.input(about, readerAs(draft, SYSTEM))
      const basis = contract.basis?.(about) ?? { kind: 'contract', id: contract.name }
      const as: Actor = contract.as === 'actor' ? actor : { ...SYSTEM, behalf: actor.behalf ?? actor.id, basis }
      try {
        for (const one of input === null ? [] : [input].flat()) await decideInto(draft, protocol, op, parse(op.input, one), as, cause)
      } catch (error) {
        throw error instanceof Refusal && !(error instanceof Conflict) && contract.refused ? contract.refused(error) : error
      }
    }
  }

  const streams = createStreams(store, tail, {
    now,
    streamOf(name) {
      const op = registry.get(name)?.op
      return op?.kind === 'stream' ? op : undefined
    },
    async load(draft, op, raw, actor) {
      const input = inputOf(op, raw, actor)
      const state: unknown = await op.load(readerAs(draft, actor), input, contextOf(given, actor, draft))
      authorize(op.name, op.callers, actor, state)
      return { input, state }
    },
    denied: denials.record,
    begins: reading.again,
    presence: options.presence,
  })

  const figures = (): ReturnType<Kernel['stats']> => ({ ...stats, denials: denials.count(), ...waiting.stats() })
  function release(): void {
    texts.stop()
    waiting.stop()
  }
  return { store, tail, protocols: options.protocols, codes, call, check, ...streams, charge: reading.charge, now, stats: figures, release }
}
