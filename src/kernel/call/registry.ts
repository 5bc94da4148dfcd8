// The registry: every operation by its full name, checked at the start together with events, contracts and effects.
import { Refusal } from '../declare/errors.ts'
import type { Command, Contract, Operation, Protocol } from '../declare/operation.ts'

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
    if (op.kind === 'command' && op.isStep && (op.effect || op.fan || op.upload || op.waits))
      throw new Error(`${protocol}/${op.name} cannot be a step: it is more than one batch, or takes bytes`)
    if (op.kind === 'command' && op.audit !== null && !events.has(`${protocol}/${op.audit}`))
      throw new Error(`${protocol}/${op.name} leaves ${op.audit}, which ${protocol} does not declare: add it to its events`)
  }
  for (const contract of contracts) {
    if (!events.has(contract.on)) throw new Error(`${contract.name} follows ${contract.on}, an event that no protocol declares`)
    const called = registry.get(contract.call)?.op
    if (called?.kind !== 'command') throw new Error(`${contract.name} calls ${contract.call}, which is not a command`)
    // A consequence belongs to the batch of its cause; an effect outside never does.
    if (called.effect) throw new Error(`${contract.name} calls ${contract.call}, which has an effect`)
    if (called.fan) throw new Error(`${contract.name} calls ${contract.call}, which is more than one batch`)
  }
  for (const effect of effectsIn(registry)) {
    if (registry.get(effect)?.op.kind !== 'command') throw new Error(`there is no command ${effect} to record an effect`)
  }
  return registry
}

/** A command that another one can make part of its batch. */
export function stepNamed(registry: Registry, name: string): { readonly protocol: string; readonly op: Command } {
  const found = registry.get(name)
  if (found?.op.kind !== 'command' || found.op.isStep !== true)
    throw new Refusal('INVALID_REQUEST', `${name} cannot be a step: only commands that configure can`, { field: 'steps' })
  return { protocol: found.protocol, op: found.op }
}

/** The operations that record what came of an effect. */
export const effectsIn = (registry: Registry): Set<string> =>
  new Set([...registry.values()].flatMap(({ op }) => (op.kind === 'command' && op.effect ? [op.effect.conclude] : [])))
