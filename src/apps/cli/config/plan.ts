// The difference between a configuration and the server, part by part: what is added, changed and removed, and by which steps. It calls nothing.
import { canonical } from '#kernel/log/canonical-json.ts'
import { INSTALLATION, KINDS, keyOf, ownedAs, usualOf, withoutUsual, type Item } from './items.ts'
import { calls, isFixed, type Step } from './steps.ts'

export type Difference = { readonly before: unknown; readonly after: unknown }
export type Change = {
  readonly change: 'add' | 'change' | 'remove'
  readonly item: Item
  readonly fields: Readonly<Record<string, Difference>>
  readonly steps: readonly Step[]
}
/** `before`, `owns`: what the file had set in this part, and has set from now on. `isOwned`: the server knows that already. */
export type PartPlan = {
  readonly part: string
  readonly changes: readonly Change[]
  readonly before: readonly string[]
  readonly owns: readonly string[]
  readonly isOwned: boolean
}
export type Plan = {
  readonly parts: readonly PartPlan[]
  readonly problems: readonly { readonly path: string; readonly message: string }[]
}

/** What files have set: of this file, and of all others, each as `part` and what it owns there. */
export type Owned = { readonly mine: ReadonlyMap<string, readonly string[]>; readonly others: ReadonlyMap<string, ReadonlySet<string>> }

/** `me`: the caller. */
type Situation = { readonly present: ReadonlyMap<string, Item>; readonly owned: Owned; readonly prunes: boolean; readonly me: string }

export function planOf(wanted: readonly Item[], { present, owned, prunes, me }: Situation): Plan {
  const problems: { path: string; message: string }[] = []
  const parts = new Set([INSTALLATION, ...wanted.map(({ part }) => part), ...owned.mine.keys()])
  const byPart = Map.groupBy(wanted, ({ part }) => part)
  return {
    problems,
    parts: [...parts].map((part) => {
      const items = byPart.get(part) ?? []
      const now = items.map(ownedAs)
      const before = owned.mine.get(part) ?? []
      const left = before.filter((one) => !now.includes(one))
      const changes = items.flatMap((item) => changeOf(item, present.get(keyOf(item)), problems))
      const removals = prunes ? left.flatMap((one) => removalOf(part, one, present, owned)) : []
      const owns = [...new Set([...now, ...(prunes ? [] : left)])].toSorted()
      const isOwned = canonical(owns) === canonical(before.toSorted())
      return { part, changes: inOrder([...changes, ...removals], me), before, owns, isOwned }
    }),
  }
}

function changeOf(item: Item, there: Item | undefined, problems: { path: string; message: string }[]): Change[] {
  if (there === undefined) {
    if (item.kind === 'policy' && isSame(usualOf(item.name, item.fields['value']), item.fields['value'])) return []
    const fields = Object.fromEntries(
      Object.entries(withoutUsual(item.fields)).map(([name, after]) => [name, { before: undefined, after }]),
    )
    return [{ change: 'add', item, fields, steps: calls[item.kind].add(item) }]
  }
  const differing = Object.entries(item.fields).filter(([name, after]) => !isSame(there.fields[name], after))
  for (const [name] of differing.filter(([field]) => isFixed(item.kind, field))) {
    const held = String(there.fields[name])
    problems.push({
      path: `${item.path}.${name}`,
      message: `the ${name} of ${item.name} is ${held}, which nothing changes: write that, or leave it out`,
    })
  }
  if (differing.length === 0) return []
  const fields = Object.fromEntries(differing.map(([name, after]) => [name, { before: there.fields[name], after }]))
  return [{ change: 'change', item, fields, steps: calls[item.kind].change(item, Object.fromEntries(differing), there) }]
}
/** The order of members and of types means nothing. */
const textOf = (value: unknown): string =>
  canonical({ value: Array.isArray(value) && value.every((one) => typeof one === 'string') ? value.toSorted() : value })
const isSame = (before: unknown, after: unknown): boolean => before !== undefined && textOf(before) === textOf(after)

/** What another file has set as well stays. */
function removalOf(part: string, owned: string, present: ReadonlyMap<string, Item>, { others }: Owned): Change[] {
  const there = present.get(`${part} ${owned}`)
  if (there === undefined || others.get(part)?.has(owned) === true) return []
  const steps = calls[there.kind].remove(there)
  return steps.length === 0 ? [] : [{ change: 'remove', item: there, fields: {}, steps }]
}

/**
 * Rights come before what needs them, and the caller's own go after it: who makes a project owns it until a member's role is set. Removals run the
 * other way around, so that a group is gone before its members are.
 */
const inOrder = (changes: readonly Change[], me: string): Change[] =>
  changes
    .map((change, i) => [rankOf(change, me), i, change] as const)
    .toSorted(([a, i], [b, j]) => a - b || i - j)
    .map(([, , change]) => change)
function rankOf({ change, item: { kind, name, fields } }: Change, me: string): number {
  const place = KINDS.indexOf(kind)
  if (change === 'remove') return 2 * KINDS.length - place
  return kind === 'member' && name === me && fields['role'] !== 'owner' ? 3 * KINDS.length : place
}
