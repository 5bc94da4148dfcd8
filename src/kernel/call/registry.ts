// The registry of operations, and helpers around one: its input, the proof of its caller, the kept part of its answer.
import type { Draft, DraftFact } from './unit-of-work.ts'
import { Conflict } from '../declare/errors.ts'
import { refuseFalseClaims, withoutClaims, type Actor } from '../declare/access.ts'
import type { Command, Contract, ContractFact, Decision, Operation, Protocol } from '../declare/operation.ts'
import { keyOf, parse } from '../declare/schema.ts'
import type { Value } from '../log/store.ts'
import { refuseUnknown, unknownFields } from '../declare/unknown-fields.ts'

export type Served = { readonly protocol: string; readonly op: Operation }

export type Registry = ReadonlyMap<string, Served>

export function registryOf(protocols: readonly Protocol[], contracts: readonly Contract[]): Registry {
  const registry = new Map<string, Served>()
  for (const { name, operations } of protocols) {
    for (const op of operations) {
      if (registry.has(`${name}/${op.name}`)) throw new Error(`there are two operations ${name}/${op.name}`)
      registry.set(`${name}/${op.name}`, { protocol: name, op })
    }
  }
  const events = new Set(protocols.flatMap(({ name, events: declared }) => Object.keys(declared).map((event) => `${name}/${event}`)))
  for (const { protocol, op } of registry.values()) {
    if (op.kind === 'command' && op.audit !== null && !events.has(`${protocol}/${op.audit}`))
      throw new Error(`${protocol}/${op.name} leaves ${op.audit}, which ${protocol} does not declare: add it to its events`)
  }
  for (const contract of contracts) {
    if (!events.has(contract.on)) throw new Error(`${contract.name} follows ${contract.on}, an event that no protocol declares`)
    const called = registry.get(contract.call)?.op
    if (called?.kind !== 'command') throw new Error(`${contract.name} calls ${contract.call}, which is no command`)
    // A consequence belongs into the batch of its cause; what is done outside never does.
    if (called.effect) throw new Error(`${contract.name} calls ${contract.call}, which has an effect`)
    if (called.fan) throw new Error(`${contract.name} calls ${contract.call}, which is more than one batch`)
  }
  for (const effect of effectsIn(registry)) {
    if (registry.get(effect)?.op.kind !== 'command') throw new Error(`there is no command ${effect} to record an effect`)
  }
  return registry
}

/** The operations that record what came of an effect. */
export const effectsIn = (registry: Registry): Set<string> =>
  new Set([...registry.values()].flatMap(({ op }) => (op.kind === 'command' && op.effect ? [op.effect.conclude] : [])))

/** The id of a remembered answer: of one actor, under one key. A credential for some projects only has answers of its own. */
export const replyIdOf = ({ id, narrowed, projects }: Actor, key: string): string =>
  `${id}/${narrowed && projects !== 'all' ? `${[...projects.keys()].join()}/` : ''}${key}`

export function inputOf(op: Operation, raw: unknown, actor: Actor): unknown {
  const input: unknown = parse(op.input, raw)
  const declared = (op.input as { properties?: object }).properties ?? {}
  refuseFalseClaims(raw, declared, actor)
  // Calls of the system wait in the store, some of them since an earlier version.
  if (actor.kind !== 'system') refuseUnknown(unknownFields(op.input, withoutClaims(raw, declared)))
  return input
}

/** The answer shows each document as the whole batch leaves it, consequences included. */
export function asLeftByTheBatch(draft: Draft, { facts, output }: Decision<unknown>): unknown {
  const latest = new Map<unknown, Value>()
  for (const { images } of facts) for (const { doc, id, after } of images) latest.set(after, draft.after.get(keyOf(doc, id)) ?? after)
  return Object.fromEntries(Object.entries(output as object).map(([name, value]) => [name, latest.get(value) ?? (value as unknown)]))
}

export function asContractsSee(draft: Draft, made: DraftFact, { via }: Actor): ContractFact {
  const { action, detail, actor, basis } = made
  const cause = made.cause === null ? null : draft.facts[made.cause]!.action
  return { action, subject: draft.after.get(made.subject), detail, cause, actor, basis, via: via ?? null }
}

/** The part of an input that a repeated call must have again, whoever repeats it. */
export function askedFor({ besides = [], understood }: Command, input: unknown): unknown {
  const said = understood ? understood(input) : input
  return besides.length === 0 ? said : Object.fromEntries(Object.entries(said as object).filter(([name]) => !besides.includes(name)))
}

/** A secret that is shown once is not kept: a repeated call gets null in its place. */
export function withoutSecrets(op: Command, output: Value): Value {
  return op.once ? { ...output, ...Object.fromEntries(op.once.map((field) => [field, null])) } : output
}

/**
 * The documents that the actor rests on must still be so at the commit; a decision that saw a newer version of one was taken for somebody
 * else.
 */
export function expectProof(draft: Draft, { proof = new Map() }: Actor): void {
  for (const [key, version] of proof) {
    if ((draft.expect.get(key) ?? version) !== version)
      throw new Conflict(key, `${key} was changed at the same time: read it again, then retry`)
    if (!draft.after.has(key)) draft.expect.set(key, version)
  }
}
