// The narrowest conditions that hold for the arguments of all these calls.
import { limits } from '#kernel/limits.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { valueAt } from '#kernel/policy/evaluate.ts'
import type { Condition } from '#kernel/policy/gate-policy.ts'

const DEPTH_MAX = 4
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Pointers to all values that are no objects. */
export function pointersIn(value: unknown, at = '', depth = 0): string[] {
  if (!isObject(value) || depth === DEPTH_MAX) return [at]
  return Object.entries(value).flatMap(([key, inner]) =>
    pointersIn(inner, `${at}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`, depth + 1),
  )
}

/** The folder that holds all these paths; null: they are no plain paths, or only the root holds all. */
function folderOf(paths: readonly string[]): string | null {
  if (!paths.every((path) => path.startsWith('/') && !path.includes('\0') && !path.split('/').includes('..'))) return null
  const [first = [], ...others] = paths.map((path) => path.split('/').slice(1, -1))
  const end = first.findIndex((step, i) => !others.every((steps) => steps[i] === step))
  const shared = end === -1 ? first : first.slice(0, end)
  return shared.length === 0 ? null : `/${shared.join('/')}`
}

function conditionAt(at: string, values: readonly unknown[]): Condition | null {
  if (at.length > limits.gatePatternCharsMax) return null
  const different = [...new Map(values.map((value) => [canonical(value), value])).values()]
  if (different.length === 1) return { at, is: different[0] }
  if (different.every((value) => typeof value === 'number'))
    return { at, at_least: Math.min(...different), at_most: Math.max(...different) }
  const texts = different.filter((value) => typeof value === 'string')
  const folder = texts.length === different.length ? folderOf(texts) : null
  if (folder !== null && folder.length <= limits.gatePatternCharsMax) return { at, within: folder }
  return different.length <= limits.gatePatternsMax ? { at, in: different } : null
}

/** The conditions. An argument that some calls lack gets none: a missing value never matches an allowing rule. */
export function conditionsFor(all: readonly unknown[]): Condition[] {
  const [first, ...others] = all
  const shared = pointersIn(first).filter((at) => others.every((other) => valueAt(other, at) !== undefined))
  return shared
    .flatMap((at) => {
      const found =
        at === ''
          ? null
          : conditionAt(
              at,
              all.map((args) => valueAt(args, at)),
            )
      return found === null ? [] : [found]
    })
    .slice(0, limits.gateConditionsMax)
}
