// Arguments as people see them: configured places are replaced before the question is asked.
const REDACTED = '[redacted]'

/** A copy in which the values at these JSON pointers are replaced. */
export function redact(args: object, pointers: readonly string[]): object {
  const copy = structuredClone(args)
  for (const pointer of pointers) {
    const steps = pointer
      .split('/')
      .slice(1)
      .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
    const last = steps.pop()
    if (last === undefined) return { redacted: true }
    let place: unknown = copy
    for (const step of steps)
      place =
        typeof place === 'object' && place !== null && Object.hasOwn(place, step) ? (place as Record<string, unknown>)[step] : undefined
    if (typeof place === 'object' && place !== null && Object.hasOwn(place, last)) (place as Record<string, unknown>)[last] = REDACTED
  }
  return copy
}
