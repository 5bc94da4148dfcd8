// One entrance for every binding: check the shape, load, authorize, check the rules, decide, draw the consequences, commit.
// A decision that lost a race is loaded and taken again, which is safe because deciding has no effects.
import { canonical } from './canonical.ts'
import { sha256 } from './chain.ts'
import { timestampOf, type Entropy } from './clock.ts'
import { bookkeeping, Reply } from './delivery.ts'
import { batchOf, draftAt, isEmpty, type Draft, type DraftFact } from './draft.ts'
import { Conflict, kernelCodes, Refusal, type Fault } from './errors.ts'
import { authorize, refuseFalseClaims, SYSTEM, SYSTEM_SCOPE, type Actor } from './identity.ts'
import { createIds, type NewId } from './ids.ts'
import { limits } from './limits.ts'
import type { Command, Context, Contract, ContractFact, Decision, Operation, Protocol, Query } from './operation.ts'
import { createMeter } from './meter.ts'
import { readerOf, type Directory } from './reader.ts'
import { assertMatches, keyOf, kindOf, parse } from './schema.ts'
import type { Basis, Key, Store, Value } from './store.ts'
import { followStream, type Followed, type FollowOptions } from './streams.ts'

/** The actor, or how to find out who it is: asked again with every attempt, so that a revoked credential cannot win a race. */
export type Caller = Actor | (() => Promise<Actor>)
export type CallOptions = { readonly key?: string | undefined }

export type Kernel = {
  readonly store: Store
  readonly protocols: readonly Protocol[]
  readonly codes: Readonly<Record<string, Fault>>
  // oxlint-disable-next-line typescript/no-explicit-any -- the answer of whichever operation was called; its schema describes it
  call(operation: string, input: unknown, caller: Caller, options?: CallOptions): Promise<any>
  /** The items of a stream operation from a place on, until the signal aborts. Each names the place to go on from. */
  follow(operation: string, input: unknown, caller: Caller, options: FollowOptions): AsyncIterable<Followed>
  now(): number
  stats(): { conflicts: number; denials: number }
}

export type KernelOptions = {
  readonly store: Store
  readonly protocols: readonly Protocol[]
  readonly contracts: readonly Contract[]
  readonly directory: Directory
  now(): number
  readonly entropy: Entropy
  /** false: answers are not held against their schemas, as every test does; a mismatch is a bug, not something a caller can cause. */
  readonly checksAnswers?: boolean
  /** null: no quotas, for development and tests. */
  readonly asksPerMinute: number | null
}

type Served = { readonly protocol: string; readonly op: Operation }

export function createKernel(options: KernelOptions): Kernel {
  const { store, now, entropy, directory } = options
  const protocols = [bookkeeping, ...options.protocols]
  const registry = registryOf(protocols)
  const following = Map.groupBy(options.contracts, (contract) => contract.on)
  for (const contract of options.contracts) {
    if (registry.get(contract.call)?.op.kind !== 'command') throw new Error(`${contract.name} calls ${contract.call}, which is no command`)
  }
  const newId = createIds(now, entropy)
  const secret = (): string => Buffer.from(entropy(32)).toString('base64url')
  const lanes = createLanes()
  const denialMeter = createMeter(limits.denialsPerMinute, now)
  const askMeter = options.asksPerMinute === null ? null : createMeter(options.asksPerMinute, now)
  const stats = { conflicts: 0, denials: 0 }

  async function call(name: string, raw: unknown, caller: Caller, { key }: CallOptions = {}): Promise<unknown> {
    const found = registry.get(name)
    if (!found || found.op.kind === 'stream') throw new Refusal('NOT_FOUND', `there is no operation ${name}`)
    const { protocol, op } = found
    let leave: (() => void) | undefined
    try {
      for (let attempt = 1; ; attempt++) {
        const draft = draftAt(timestampOf(now()))
        const actor = typeof caller === 'function' ? await caller() : caller
        try {
          return op.kind === 'query' ? await ask(draft, op, raw, actor) : await once(draft, protocol, op, raw, actor, key)
        } catch (error) {
          if (error instanceof Conflict && attempt < limits.attemptsMax) {
            stats.conflicts++
            // Two losers over one document would lose again together: from now on they go one after the other.
            leave ??= await lanes.enter(error.key)
            continue
          }
          if (error instanceof Refusal) await recordDenial(draft, name, actor, error)
          throw error
        }
      }
    } finally {
      leave?.()
    }
  }

  async function ask(draft: Draft, op: Query, raw: unknown, actor: Actor): Promise<unknown> {
    const input = inputOf(op, raw, actor)
    const context: Context = { actor, now: draft.at, newId, secret }
    const read = readerOf(store, directory, draft, actor)
    const state = await op.load(read, input, context)
    authorize(op.name, op.callers, actor, state)
    const output = await op.view(state, input, context, read)
    if (options.checksAnswers ?? true) assertMatches(op.output, output, op.name)
    return output
  }

  async function once(draft: Draft, protocol: string, op: Command, raw: unknown, actor: Actor, key: string | undefined): Promise<unknown> {
    const input = inputOf(op, raw, actor)
    const name = `${protocol}/${op.name}`
    const replyId = key === undefined ? undefined : `${actor.id}/${narrowingOf(actor)}${key}`
    const digest = key === undefined ? '' : sha256(`${name} ${canonical(input)}`)
    if (replyId !== undefined) {
      const reply = await readerOf(store, directory, draft, SYSTEM).maybe(Reply, replyId)
      if (reply && reply.digest !== digest)
        throw new Refusal('CONFLICT', 'this idempotency key came before with another body', { reason: 'idempotency_key_reused' })
      if (reply) return reply.output
    }
    if (op.asks && actor.kind === 'agent' && askMeter && !askMeter.take(actor.id)) {
      throw new Refusal('QUOTA_EXCEEDED', `an agent may ask at most ${options.asksPerMinute} questions a minute`, { retry_after: 60 })
    }
    const output = await decideInto(draft, protocol, op, input, actor, null)
    if (replyId !== undefined) {
      draft.after.set(keyOf(Reply, replyId), { id: replyId, digest, output: withoutSecrets(op, output as Value), at: draft.at })
      draft.puts.add(keyOf(Reply, replyId))
    }
    expectProof(draft, actor)
    if (!isEmpty(draft)) await store.commit(batchOf(draft))
    return output
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
    const context: Context = { actor, now: draft.at, newId, secret }
    const read = readerOf(store, directory, draft, actor)
    const state: unknown = await op.load(read, input, context)
    const allowed = authorize(op.name, op.callers, actor, state)
    for (const rule of op.requires) if (!rule.holds(state, input, context)) throw new Refusal(rule.code, rule.words)
    const decision = op.decide(state, input, context)
    const first = draft.facts.length
    record(draft, newId, protocol, decision, actor, actor.basis ?? { kind: 'role', id: allowed.name }, cause)
    for (const { doc, id, value } of decision.puts ?? []) {
      await readerOf(store, directory, draft, SYSTEM).raw(doc, id)
      draft.after.set(keyOf(doc, id), value)
      draft.puts.add(keyOf(doc, id))
    }
    // Depth first, in the order of the facts: the record reads as cause, then consequence.
    for (let i = 0; i < decision.facts.length; i++) await drawConsequences(draft, draft.facts[first + i]!, first + i, actor)
    const output = asLeftByTheBatch(draft, decision)
    if (options.checksAnswers ?? true) assertMatches(op.output, output, op.name)
    return output
  }

  async function drawConsequences(draft: Draft, made: DraftFact, cause: number, actor: Actor): Promise<void> {
    for (const contract of following.get(made.action) ?? []) {
      const { protocol, op } = registry.get(contract.call) as { protocol: string; op: Command }
      const about: ContractFact = { action: made.action, subject: draft.after.get(made.subject), detail: made.detail }
      const input = await contract.input(about, readerOf(store, directory, draft, SYSTEM))
      if (input === null) continue
      const basis = contract.basis?.(about) ?? { kind: 'contract', id: contract.name }
      const as: Actor = contract.as === 'actor' ? actor : { ...SYSTEM, behalf: actor.behalf ?? actor.id, basis }
      await decideInto(draft, protocol, op, parse(op.input, input), as, cause)
    }
  }

  /** An authenticated actor reached for what is not theirs. Written down, within bounds; the refusal itself changes nothing. */
  async function recordDenial(draft: Draft, operation: string, actor: Actor, refusal: Refusal): Promise<void> {
    const denied = refusal.code === 'UNAUTHORIZED' || (refusal.code === 'NOT_FOUND' && draft.hidden !== null)
    if (!denied || actor.kind === 'system') return
    stats.denials++
    if (!denialMeter.take(actor.id)) return
    const target = draft.hidden ?? [...draft.before].find(([, value]) => value !== null)?.[0] ?? null
    const value = target === null ? null : (draft.before.get(target) ?? null)
    const note = draftAt(draft.at)
    note.scope = target === null || value === null ? SYSTEM_SCOPE : kindOf(target).scopeOf(value)
    note.facts.push({
      id: newId('aud'),
      action: 'kernel/authorization.denied',
      actor: actor.id,
      behalf: actor.behalf ?? null,
      basis: { kind: 'role', id: actor.kind },
      cause: null,
      subject: target ?? `kernel.operation/${operation}`,
      task: null,
      root: null,
      detail: { operation },
      images: [],
    })
    // The answer is a refusal either way; that it could not be written down must not turn it into something else.
    await store.commit(batchOf(note)).catch(() => undefined)
  }

  const codes = Object.assign({}, kernelCodes, ...protocols.map((protocol) => protocol.codes)) as Record<string, Fault>
  function follow(name: string, raw: unknown, caller: Caller, how: FollowOptions): AsyncIterable<Followed> {
    const op = registry.get(name)?.op
    if (op?.kind !== 'stream') throw new Refusal('NOT_FOUND', `there is no stream ${name}`)
    return followStream(store, op, how, async () => {
      const draft = draftAt(timestampOf(now()))
      const actor = typeof caller === 'function' ? await caller() : caller
      const input = inputOf(op, raw, actor)
      const state: unknown = await op.load(readerOf(store, directory, draft, actor), input, { actor, now: draft.at, newId, secret })
      authorize(op.name, op.callers, actor, state)
      return state
    })
  }

  return { store, protocols: options.protocols, codes, call, follow, now, stats: () => ({ ...stats }) }
}

function registryOf(protocols: readonly Protocol[]): Map<string, Served> {
  const registry = new Map<string, Served>()
  for (const { name, operations } of protocols) {
    for (const op of operations) {
      if (registry.has(`${name}/${op.name}`)) throw new Error(`there are two operations ${name}/${op.name}`)
      registry.set(`${name}/${op.name}`, { protocol: name, op })
    }
  }
  return registry
}

/** What the actor rests on must still be so at the commit; a decision that saw a newer version of it was taken for somebody else. */
function expectProof(draft: Draft, { proof = new Map() }: Actor): void {
  for (const [key, version] of proof) {
    if ((draft.expect.get(key) ?? version) !== version) throw new Conflict(key, `${key} was changed by somebody else at the same time`)
    if (!draft.after.has(key)) draft.expect.set(key, version)
  }
}

/** A key for some projects only has answers of its own. */
const narrowingOf = ({ narrowed, projects }: Actor): string => (narrowed && projects !== 'all' ? `${[...projects.keys()].join()}/` : '')

function inputOf(op: Operation, raw: unknown, actor: Actor): unknown {
  const input: unknown = parse(op.input, raw)
  refuseFalseClaims(raw, (op.input as { properties?: object }).properties ?? {}, actor)
  return input
}

function record(
  draft: Draft,
  newId: NewId,
  protocol: string,
  decision: Decision<unknown>,
  actor: Actor,
  basis: Basis,
  cause: number | null,
): void {
  const first = draft.facts.length
  for (const made of decision.facts) {
    const subject = made.images[0]!
    const scope = decision.scope ?? subject.doc.scopeOf(subject.after)
    draft.scope ??= scope
    if (draft.scope !== scope) throw new Error(`one batch, one chain: ${made.action} belongs to ${scope}, not ${draft.scope}`)
    draft.facts.push({
      id: made.id ?? newId('aud'),
      action: `${protocol}/${made.action}`,
      actor: actor.id,
      behalf: made.behalf ?? actor.behalf ?? null,
      basis: made.basis ?? basis,
      cause: made.cause === null ? cause : first + made.cause,
      subject: keyOf(subject.doc, subject.id),
      task: subject.doc.taskOf(subject.after),
      root: subject.doc.rootOf(subject.after),
      detail: made.detail,
      images: made.images.map(({ doc, id, after }) => ({ key: keyOf(doc, id), value: after })),
    })
    for (const { doc, id, after } of made.images) draft.after.set(keyOf(doc, id), after)
  }
  draft.bounds.push(...(decision.atMost ?? []))
}

/** The answer shows each document as the whole batch leaves it, consequences included. */
function asLeftByTheBatch(draft: Draft, { facts, output }: Decision<unknown>): unknown {
  const latest = new Map<unknown, Value>()
  for (const { images } of facts) for (const { doc, id, after } of images) latest.set(after, draft.after.get(keyOf(doc, id)) ?? after)
  return Object.fromEntries(Object.entries(output as object).map(([name, value]) => [name, latest.get(value) ?? (value as unknown)]))
}

/** What is shown once is not kept: a repeated call gets null in its place. */
function withoutSecrets(op: Command, output: Value): Value {
  return op.once ? { ...output, ...Object.fromEntries(op.once.map((field) => [field, null])) } : output
}

function createLanes(): { enter(key: Key): Promise<() => void> } {
  const lanes = new Map<Key, Promise<unknown>>()
  return {
    async enter(key) {
      const before = lanes.get(key) ?? Promise.resolve()
      const { promise: mine, resolve: leave } = Promise.withResolvers<void>()
      const tail = before.then(() => mine)
      lanes.set(key, tail)
      await before
      return () => {
        leave()
        if (lanes.get(key) === tail) lanes.delete(key)
      }
    },
  }
}
