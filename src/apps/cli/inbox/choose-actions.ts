// The list of proposed actions, to tick the ones that an approval covers.
import type { Item } from '#protocols/execution/inbox/item.ts'

/** `item`: the version that was read. The answer is for that version, even if the list has moved on. */
export type Choosing = { readonly item: Item; readonly at: number; readonly chosen: ReadonlySet<number> }

const toggle = (kept: ReadonlySet<number>, one: number): ReadonlySet<number> =>
  kept.has(one) ? new Set([...kept].filter((other) => other !== one)) : new Set([...kept, one])

/** The state after a key; null: the person left the list. The caller handles Enter. */
export function choosingAfter(before: Choosing, name: string, count: number): Choosing | null {
  const { at, chosen } = before
  if (name === 'esc' || name === 'q') return null
  if (name === 'up' || name === 'k') return { ...before, at: Math.max(0, at - 1) }
  if (name === 'down' || name === 'j') return { ...before, at: Math.min(count - 1, at + 1) }
  if (name === ' ') return { ...before, chosen: toggle(chosen, at) }
  if (name === 'a') return { ...before, chosen: chosen.size === count ? new Set() : new Set(Array(count).keys()) }
  return before
}
