// The standing of sampled rules: some of the calls that such a rule allows still go to a person, and the first no suspends the rule.
import { put } from '#kernel/declare/facts.ts'
import type { Change, Read } from '#kernel/declare/operation.ts'
import { limits } from '#kernel/limits.ts'
import { sha256Hex } from '#kernel/log/hash-chain.ts'
import type { Ruling, ScopedPolicy } from '#kernel/policy/evaluate.ts'
import { ruleDigest, sampleOf, type GateRule } from '#kernel/policy/gate-policy.ts'
import type { Notary } from '#kernel/ports/notary.ts'
import { Standing, type Call, type OfRule, type Suspended } from './schema.ts'

export type PolicyWithStanding = ScopedPolicy & { readonly standing: Standing | null }

/** A rule that was changed since is a different rule: its suspension has ended. */
const isOf = (entry: OfRule, rule: GateRule): boolean => entry.rule === rule.id && entry.digest === ruleDigest(rule)
export const suspensionOf = (standing: Standing | null, rule: GateRule): Suspended | null =>
  standing?.suspended.find((entry) => isOf(entry, rule)) ?? null

export async function withStanding(read: Read, scoped: ScopedPolicy): Promise<PolicyWithStanding> {
  const standing = await read.raw(Standing, scoped.scope)
  const suspended = scoped.policy.rules.filter((rule) => sampleOf(rule) !== null && suspensionOf(standing, rule) !== null)
  return { ...scoped, standing, suspended: new Set(suspended.map(({ id }) => id)) }
}

/** The policies for calls of an agent in a project, with their suspended rules. */
export async function policiesFor(read: Read, project_id: string, owner: string | null): Promise<readonly PolicyWithStanding[]> {
  const policies = await read.ports.policies.gate(read, project_id, owner)
  return Promise.all(policies.map((scoped) => withStanding(read, scoped)))
}

/** The rules that sample this call; undefined: none. An agent cannot predict which of its calls are sampled. */
export function sampleFor(call_id: string, { sampled }: Ruling, policies: readonly PolicyWithStanding[], notary: Notary): Call['sample'] {
  const isDrawn = sampled.some(({ scope, rule }) => {
    const owed = policies.find((policy) => policy.scope === scope)?.standing?.owed ?? []
    const drawn = Number.parseInt(sha256Hex(notary.commit(`sample ${call_id} ${scope}#${rule.id}`)).slice(0, 12), 16)
    return drawn % sampleOf(rule)! === 0 || owed.some((entry) => isOf(entry, rule))
  })
  return isDrawn ? sampled.map(({ scope, rule }) => ({ scope, rule: rule.id, digest: ruleDigest(rule) })) : undefined
}

const isSame = (a: OfRule, b: OfRule): boolean => a.scope === b.scope && a.rule === b.rule && a.digest === b.digest
const without = <T extends OfRule>(entries: readonly T[], gone: OfRule): T[] => entries.filter((entry) => !isSame(entry, gone))

/** The owed samples that this call is. */
export function sampleTaken({ state, sample = [] }: Call, policies: readonly PolicyWithStanding[]): Change[] {
  if (state !== 'waiting') return []
  return sample.flatMap((sampled) => {
    const standing = policies.find(({ scope }) => scope === sampled.scope)?.standing ?? null
    if (standing === null || !standing.owed.some((owed) => isSame(owed, sampled))) return []
    return [put(Standing, sampled.scope, { ...standing, owed: without(standing.owed, sampled) })]
  })
}

export type OfSample = readonly { readonly rule: OfRule; readonly standing: Standing | null }[]
export const sampleOfCall = (read: Read, { sample = [] }: Call): Promise<OfSample> =>
  Promise.all(sample.map(async (rule) => ({ rule, standing: await read.raw(Standing, rule.scope) })))

const emptyStanding = (id: string): Standing => ({ id, suspended: [], owed: [] })
const newest = <T>(entries: T[]): T[] => entries.slice(-limits.gateRulesMax)

/** An unanswered sample stays owed: otherwise an agent could withdraw it and retry until a call is not sampled. */
export const sampleOwed = (sample: OfSample): Change[] =>
  sample.map(({ rule, standing }) => {
    const before = standing ?? emptyStanding(rule.scope)
    return put(Standing, rule.scope, { ...before, owed: newest([...without(before.owed, rule), rule]) })
  })

export const sampleRejected = (sample: OfSample, { call_id, by, at }: Omit<Suspended, keyof OfRule>): Change[] =>
  sample.map(({ rule, standing }) => {
    const before = standing ?? emptyStanding(rule.scope)
    const suspended = newest([...without(before.suspended, rule), { ...rule, call_id, by, at }])
    return put(Standing, rule.scope, { ...before, suspended })
  })

export const suspensionLifted = (sample: OfSample, call_id: string): Change[] =>
  sample.flatMap(({ rule, standing }) =>
    standing === null
      ? []
      : [
          put(Standing, rule.scope, {
            ...standing,
            suspended: standing.suspended.filter((entry) => !isSame(entry, rule) || entry.call_id !== call_id),
          }),
        ],
  )
