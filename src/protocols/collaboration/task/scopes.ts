// Scopes of grants (HLP 3.2): coverage and overlap. A `*` is alone or at the end and is a plain prefix; behind
// a colon it also covers the paths below: `fs:/repo:*` covers `fs:/repo/x`.

/** The texts that a scope covers: one text, or all texts with one of these prefixes. */
type Reach = { readonly texts: readonly string[]; readonly isOpen: boolean }

function reachOf(scope: string): Reach {
  if (!scope.endsWith('*')) return { texts: [scope], isOpen: false }
  const begin = scope.slice(0, -1)
  return { texts: begin.endsWith(':') ? [begin, `${begin.slice(0, -1)}/`] : [begin], isOpen: true }
}

/** Whether a granted scope covers all of a requested one. */
export function covers(granted: string, requested: string): boolean {
  const { texts, isOpen } = reachOf(granted)
  return granted === requested || (isOpen && texts.some((text) => requested.startsWith(text)))
}

/** Whether two scopes have a part in common. A request for `fs:/repo:*` must not slip past a deny of `fs:/repo/secrets:*`. */
export function overlaps(one: string, other: string): boolean {
  const [a, b] = [reachOf(one), reachOf(other)]
  const meets = (x: string, y: string): boolean => x === y || (b.isOpen && x.startsWith(y)) || (a.isOpen && y.startsWith(x))
  return a.texts.some((x) => b.texts.some((y) => meets(x, y)))
}

/** The beginning that all texts of a scope share. */
export const beginningOf = (scope: string): string => scope.replace(/:?\*$/, '')
