// Which of the proposed actions may be taken: a list to walk through and to tick.

export type Choosing = { readonly at: number; readonly chosen: ReadonlySet<number> }

const toggled = (kept: ReadonlySet<number>, one: number): ReadonlySet<number> =>
  kept.has(one) ? new Set([...kept].filter((other) => other !== one)) : new Set([...kept, one])

/** After a key; null: it was left. Enter is for whoever asks. */
export function choosingAfter({ at, chosen }: Choosing, name: string, count: number): Choosing | null {
  if (name === 'esc' || name === 'q') return null
  if (name === 'up' || name === 'k') return { at: Math.max(0, at - 1), chosen }
  if (name === 'down' || name === 'j') return { at: Math.min(count - 1, at + 1), chosen }
  if (name === ' ') return { at, chosen: toggled(chosen, at) }
  if (name === 'a') return { at, chosen: chosen.size === count ? new Set() : new Set(Array(count).keys()) }
  return { at, chosen }
}
