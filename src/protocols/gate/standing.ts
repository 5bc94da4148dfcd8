// The standing of rules that allow calls and are sampled: one in so many calls is asked all the same, and the first no suspends the rule.
import { put } from '#kernel/declare/facts.ts'
import type { Change, Read } from '#kernel/declare/operation.ts'
import { limits } from '#kernel/limits.ts'
import { sha256Hex } from '#kernel/log/hash-chain.ts'
import type { Ruling, ScopedPolicy } from '#kernel/policy/evaluate.ts'
import { ruleDigest, sampleOf, type GateRule } from '#kernel/policy/gate-policy.ts'
import type { Notary } from '#kernel/ports/notary.ts'
import { Standing, type Call, type OfRule, type Suspended } from './schema.ts'

export type PolicyWithStanding = ScopedPolicy & { readonly standing: Standing | null }

/** A rule that was changed since is another one: its suspension has ended. */
const isOf = (entry: OfRule, rule: GateRule): boolean => entry.rule === rule.id && entry.digest === ruleDigest(rule)
export const suspensionOf = (standing: Standing | null, rule: GateRule): Suspended | null =>
  standing?.suspended.find((one) => isOf(one, rule)) ?? null

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

/** The rules of which this call is a sample; undefined: of none. An agent cannot know beforehand which of its calls are. */
export function sampleFor(call_id: string, { sampled }: Ruling, policies: readonly PolicyWithStanding[], notary: Notary): Call['sample'] {
  const isDrawn = sampled.some(({ scope, rule }) => {
    const owed = policies.find((one) => one.scope === scope)?.standing?.owed ?? []
    const drawn = Number.parseInt(sha256Hex(notary.commit(`sample ${call_id} ${scope}#${rule.id}`)).slice(0, 12), 16)
    return drawn % sampleOf(rule)! === 0 || owed.some((one) => isOf(one, rule))
  })
  return isDrawn ? sampled.map(({ scope, rule }) => ({ scope, rule: rule.id, digest: ruleDigest(rule) })) : undefined
}

const isSame = (a: OfRule, b: OfRule): boolean => a.scope === b.scope && a.rule === b.rule && a.digest === b.digest
const without = <T extends OfRule>(entries: readonly T[], gone: OfRule): T[] => entries.filter((one) => !isSame(one, gone))

/** The owed samples that this call is. */
export function sampleTaken({ state, sample = [] }: Call, policies: readonly PolicyWithStanding[]): Change[] {
  if (state !== 'waiting') return []
  return sample.flatMap((one) => {
    const standing = policies.find(({ scope }) => scope === one.scope)?.standing ?? null
    if (standing === null || !standing.owed.some((owed) => isSame(owed, one))) return []
    return [put(Standing, one.scope, { ...standing, owed: without(standing.owed, one) })]
  })
}

export type OfSample = readonly { readonly rule: OfRule; readonly standing: Standing | null }[]
export const sampleOfCall = (read: Read, { sample = [] }: Call): Promise<OfSample> =>
  Promise.all(sample.map(async (rule) => ({ rule, standing: await read.raw(Standing, rule.scope) })))

const emptyStanding = (id: string): Standing => ({ id, suspended: [], owed: [] })
const newest = <T>(entries: T[]): T[] => entries.slice(-limits.gateRulesMax)

/** An unanswered sample is owed: otherwise an agent could withdraw it, and call again until it is none. */
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
            suspended: standing.suspended.filter((one) => !isSame(one, rule) || one.call_id !== call_id),
          }),
        ],
  )
