// Risk assessment (HCP 1.0, L3; C1): the floor, raised by the inputs and by the context. A rule that cannot be judged raises.
import { limits } from '#kernel/limits.ts'
import type { Capability, ContextRule, Risk, RiskRule } from '../schema.ts'

export const risks = ['R1', 'R2', 'R3', 'R4', 'R5'] as const
export const rankOf = (risk: Risk): number => risks.indexOf(risk)
export const isAbove = (one: Risk, other: Risk): boolean => rankOf(one) > rankOf(other)
const greater = (one: Risk, other: Risk): Risk => (isAbove(one, other) ? one : other)

/** Work on physical resources begins at R4, unless the declaration says otherwise (C1). */
export const floorOf = ({ safety = {} }: Capability['capability']): Risk =>
  safety.risk_floor ?? (safety.involves_physical_resources === true ? 'R4' : 'R1')
export const ceilingOf = ({ safety = {} }: Capability['capability']): Risk => safety.risk_ceiling ?? 'R5'

/** A place in the inputs: names and numbers between dots. */
export function valueAt(inputs: unknown, path: string): unknown {
  let value: unknown = inputs
  for (const step of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    value = (value as Record<string, unknown>)[step]
  }
  return value
}

/** Whether a rule applies. An absent value never matches; a value of another type than the rule's cannot be compared and counts as a match. */
export function applies({ path, op, value }: RiskRule, inputs: unknown): boolean {
  const found = valueAt(inputs, path)
  if (found === undefined) return false
  if (op === '==') return found === value
  if (op === '!=') return found !== value
  if (typeof found !== typeof value || typeof found === 'boolean' || found === null) return true
  const [a, b] = [found as number | string, value as number | string]
  if (op === '>') return a > b
  if (op === '>=') return a >= b
  return op === '<' ? a < b : a <= b
}

const MINUTES_OF_DAY = 24 * 60
const minutesOf = (time: string): number => Number(time.slice(0, 2)) * 60 + Number(time.slice(3))

export function minuteOfDay(now: string, zone: string): number | null {
  try {
    const format = new Intl.DateTimeFormat('en-GB', { timeZone: zone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
    return minutesOf(format.format(new Date(now))) % MINUTES_OF_DAY
  } catch {
    return null
  }
}

/** `hides`: the submission is confidential, and messages about it are not sealed. */
type Surroundings = { readonly now: string; readonly busy: ReadonlySet<string>; readonly hides?: boolean }
function appliesNow(rule: ContextRule, { now, busy }: Surroundings): boolean {
  if (rule.kind === 'resource') return busy.has(rule.resource)
  const minute = minuteOfDay(now, rule.zone)
  const [from, to] = [minutesOf(rule.from), minutesOf(rule.to)]
  // A span such as 22:00 to 06:00 crosses midnight.
  return minute === null || (from <= to ? minute >= from && minute < to : minute >= from || minute < to)
}

export type Assessment = {
  readonly level: Risk
  /** The reasons that raised it, each with the change of the task that would lower it. */
  readonly because: readonly { readonly risk: Risk; readonly message: string }[]
}

const opposite = { '>': 'at most', '>=': 'below', '<': 'at least', '<=': 'above', '==': 'another value than', '!=': '' } as const

export function assess(of: Capability, inputs: unknown, surroundings: Surroundings): Assessment {
  const because: { risk: Risk; message: string }[] = []
  let level = floorOf(of.capability)
  for (const rule of of.risk_rules) {
    if (!applies(rule, inputs)) continue
    level = greater(level, rule.raise_to)
    const bound = `${opposite[rule.op]} ${JSON.stringify(rule.value)}`.trim()
    const found = surroundings.hides ? '' : ` (it is ${JSON.stringify(valueAt(inputs, rule.path)).slice(0, limits.labelCharsMax)})`
    because.push({ risk: rule.raise_to, message: `set inputs.${rule.path} to ${bound}${found}` })
  }
  for (const rule of of.context_rules) {
    if (!appliesNow(rule, surroundings)) continue
    level = greater(level, rule.raise_to)
    const message =
      rule.kind === 'hours'
        ? `submit outside of ${rule.from} to ${rule.to} (${rule.zone})`
        : `wait until no other session uses ${rule.resource}`
    because.push({ risk: rule.raise_to, message })
  }
  return { level, because }
}

/** How to lower the task to a level; null: no input has raised it above. */
export function adviceFor({ because }: Assessment, max: Risk): string | null {
  const above = because.filter(({ risk }) => isAbove(risk, max)).map(({ message }) => message)
  return above.length === 0 ? null : `${above.join('; ')}.`
}

/** People are asked (C2, C29, C30): by the flag, from R4 on, from the policy's level on, and always for T4. */
export function needsPeople(of: Capability, level: Risk, data: string): boolean {
  const isFlagged = of.capability.safety?.requires_human_approval === true
  const isAsked = of.ask_from !== null && rankOf(level) >= rankOf(of.ask_from)
  return isFlagged || isAsked || rankOf(level) >= rankOf('R4') || data === 'T4'
}
