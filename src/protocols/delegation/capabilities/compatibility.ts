// Compatibility of a declared capability with a wanted one: the same capability in a compatible version (semantic versioning).
import type { CapabilityRef } from '../schema.ts'

const VERSION = /^(\d{1,9})\.(\d{1,9})\.(\d{1,9})(-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?$/

/** Whether the offered version can replace the wanted one: not older, and without a breaking change in between. */
export function isCompatible(offered: string, wanted: string): boolean {
  const [has, needs] = [VERSION.exec(offered), VERSION.exec(wanted)]
  // A non-semantic version or a prerelease is compatible only with itself.
  if (!has || !needs || has[4] !== undefined || needs[4] !== undefined) return offered === wanted
  const [major, minor, patch] = has.slice(1, 4).map(Number) as [number, number, number]
  const [wantedMajor, wantedMinor, wantedPatch] = needs.slice(1, 4).map(Number) as [number, number, number]
  if (major !== wantedMajor) return false
  // Before 1.0.0 every minor version can break.
  if (major === 0 && (minor !== wantedMinor || minor === 0)) return minor === wantedMinor && patch === wantedPatch
  return minor > wantedMinor || (minor === wantedMinor && patch >= wantedPatch)
}

export const serves = (declared: readonly CapabilityRef[], wanted: CapabilityRef): boolean =>
  declared.some(({ capability_id, version }) => capability_id === wanted.capability_id && isCompatible(version, wanted.version))

/** The version that serves a request: the exact one, or else the newest compatible one. */
export function bestOf<T extends { readonly version: string }>(offered: readonly T[], wanted: string | undefined): T | null {
  const exact = offered.find(({ version }) => version === wanted)
  if (exact) return exact
  const fit = wanted === undefined ? offered : offered.filter(({ version }) => isCompatible(version, wanted))
  return fit.toSorted((a, b) => compare(b.version, a.version))[0] ?? null
}

/** Compares by number. Non-semantic versions and prereleases are older than every release. */
function compare(a: string, b: string): number {
  const [left, right] = [VERSION.exec(a), VERSION.exec(b)].map((match) =>
    match && match[4] === undefined ? match.slice(1, 4).map(Number) : null,
  )
  if (!left || !right) return Number(Boolean(left)) - Number(Boolean(right)) || (a < b ? -1 : a > b ? 1 : 0)
  const place = left.findIndex((part, i) => part !== right[i])
  return place === -1 ? 0 : left[place]! - right[place]!
}
