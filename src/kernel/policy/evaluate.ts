// The decision about one call: deny rules of every scope first, then the first rule of each scope that fits; the scopes combine, and the stricter wins.
import { setBounded } from '../codec/bounded-map.ts'
import { durationMs } from '../codec/timestamps.ts'
import { canonical } from '../log/canonical-json.ts'
import { linearPattern } from '../foreign/linear-pattern.ts'
import { daysIn, sampleOf, type Condition, type GatePolicy, type GateRule, type Hours, type Risk, type Verdict } from './gate-policy.ts'

/** A call as rules see it. */
export type Proposed = {
  readonly kind: 'tool' | 'resource' | 'prompt'
  /** `<server>/<tool>`. */
  readonly name: string
  readonly agent: string
  readonly project: string
  readonly arguments: unknown
  /** Claims of the server: `readOnlyHint`, `destructiveHint`. */
  readonly hints: object
  /** Whether the argument at a JSON pointer was kept. Only a rehearsal has calls whose arguments are unknown. */
  isKept?(pointer: string): boolean
}
/** The policy of one scope, such as a project or the installation. */
export type ScopedPolicy = {
  readonly scope: string
  readonly policy: GatePolicy
  readonly updated_at: string | null
  /** Ids of allowing rules that a person's no has suspended: they ask. */
  readonly suspended?: ReadonlySet<string>
}
export type OfScope = { readonly scope: string; readonly rule: GateRule }
export type Ruling = {
  readonly verdict: Verdict
  /** The rule that decided; null: the default of the scope did, or there is no policy. */
  readonly rule: GateRule | null
  readonly scope: string | null
  /** The rule would allow, and is suspended. */
  readonly isSuspended: boolean
  /** The greatest risk of all rules that fit. */
  readonly risk: Risk | null
  /** The people of each scope that names any: only people named by all of these scopes can answer. */
  readonly whom: readonly NonNullable<GateRule['whom']>[]
  readonly quorum: number | null
  /** The shortest time of all rules that fit. */
  readonly expires: string | null
  readonly redact: readonly string[]
  /** Sampled rules that allow the call: some of their calls still go to a person. */
  readonly sampled: readonly OfScope[]
}

const strictness: Readonly<Record<Verdict, number>> = { allow: 0, ask: 1, deny: 2 }

/** Whether a name fits a pattern in which `*` stands for any characters but `/`. Linear in the name, however many stars there are. */
export function fitsName(pattern: string, name: string): boolean {
  const [wanted, given] = [pattern.split('/'), name.split('/')]
  return wanted.length === given.length && wanted.every((part, i) => fitsPart(part, given[i]!))
}
function fitsPart(pattern: string, text: string): boolean {
  const [first, ...others] = pattern.split('*')
  const last = others.pop()
  if (last === undefined) return pattern === text
  if (!text.startsWith(first!) || !text.endsWith(last)) return false
  const end = text.length - last.length
  let at = first!.length
  for (const piece of others) {
    const found = text.indexOf(piece, at)
    if (found === -1) return false
    at = found + piece.length
  }
  return at <= end
}
const fitsAny = (patterns: string | readonly string[] | undefined, name: string): boolean =>
  patterns === undefined || [patterns].flat().some((pattern) => fitsName(pattern, name))

/** The value that a JSON pointer leads to; undefined: it leads nowhere. */
export function valueAt(value: unknown, pointer: string): unknown {
  let found = value
  for (const step of pointer.split('/').slice(1)) {
    if (typeof found !== 'object' || found === null) return undefined
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~')
    found = Object.hasOwn(found, key) ? (found as Readonly<Record<string, unknown>>)[key] : undefined
  }
  return found
}

/** true and false: it holds or not; null: the value is missing or of another type. */
function holds(condition: Condition, args: unknown): boolean | null {
  const value = valueAt(args, condition.at)
  if (value === undefined) return null
  const answers: (boolean | null)[] = []
  if (condition.is !== undefined) answers.push(isAlike(value, condition.is))
  if (condition.in !== undefined) answers.push(isOneOf(value, condition.in))
  if (condition.matches !== undefined)
    answers.push(typeof value === 'string' ? linearPattern(condition.matches, 'INVALID_REQUEST', 'matches')(value) : null)
  const number = typeof value === 'number' ? value : null
  const compare = (bound: number | undefined, test: (value: number, bound: number) => boolean): void => {
    if (bound !== undefined) answers.push(number === null ? null : test(number, bound))
  }
  compare(condition.above, (of, bound) => of > bound)
  compare(condition.below, (of, bound) => of < bound)
  compare(condition.at_least, (of, bound) => of >= bound)
  compare(condition.at_most, (of, bound) => of <= bound)
  if (condition.within !== undefined) answers.push(typeof value === 'string' ? isWithin(value, condition.within) : null)
  if (answers.includes(false)) return false
  return answers.includes(null) ? null : true
}

function isAlike(value: unknown, wanted: unknown): boolean | null {
  if (canonical(value) === canonical(wanted)) return true
  return typeName(value) === typeName(wanted) ? false : null
}
const typeName = (value: unknown): string => (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value)
function isOneOf(value: unknown, wanted: readonly unknown[]): boolean | null {
  const answers = wanted.map((candidate) => isAlike(value, candidate))
  if (answers.includes(true)) return true
  return answers.includes(false) ? false : null
}
/** A path without a root, or with a step upwards, counts as another type: through a link, `a/../b` can lead anywhere. */
function isWithin(path: string, folder: string): boolean | null {
  const [inner, outer] = [stepsOf(path), stepsOf(folder)]
  if (!path.startsWith('/') || path.includes('\0') || inner.includes('..')) return null
  return outer.every((step, i) => inner[i] === step)
}
const stepsOf = (path: string): string[] => path.split('/').filter((step) => step !== '' && step !== '.')

const clocks = new Map<string, Intl.DateTimeFormat>()
/** Cached: creating a formatter takes a hundred times as long as using it. */
function clockIn(zone: string): Intl.DateTimeFormat {
  const known = clocks.get(zone)
  if (known) return known
  const options = { timeZone: zone, weekday: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } as const
  const format = new Intl.DateTimeFormat('en-GB', options)
  setBounded(clocks, zone, format, CLOCKS_MAX)
  return format
}
const CLOCKS_MAX = 100

/** Whether a time of day is within hours; a span over midnight belongs to the day on which it begins. */
export function isWithinHours({ days, from, to, zone = 'UTC' }: Hours, now: string): boolean {
  const parts = new Map(
    clockIn(zone)
      .formatToParts(Date.parse(now))
      .map(({ type, value }) => [type, value]),
  )
  const time = `${parts.get('hour')}:${parts.get('minute')}`
  const [today] = daysIn(parts.get('weekday')!.slice(0, 3)) ?? []
  const allowed = days === undefined ? null : daysIn(days)
  const isOn = (day: number): boolean => allowed === null || allowed.has(day)
  if (from <= to) return isOn(today!) && time >= from && time < to
  return (isOn(today!) && time >= from) || (isOn((today! + 6) % 7) && time < to)
}

/**
 * Whether everything that a rule asks for holds. Missing or mistyped values count against the call: not met in `allow`, met in `ask` and
 * `deny`. Null: it depends on arguments that were not kept.
 */
function fitsRule(rule: GateRule, call: Proposed, now: string): boolean | null {
  const named = rule[call.kind]
  if (named === undefined || !fitsAny(named, call.name)) return false
  if (!fitsAny(rule.agent, call.agent) || !fitsAny(rule.project, call.project)) return false
  const doubt = rule.then !== 'allow'
  const fitsHint = (wanted: boolean | undefined, hint: string): boolean => {
    if (wanted === undefined) return true
    const hinted = valueAt(call.hints, `/${hint}`)
    return typeof hinted === 'boolean' ? hinted === wanted : doubt
  }
  if (!fitsHint(rule.read_only, 'readOnlyHint') || !fitsHint(rule.destructive, 'destructiveHint')) return false
  if (rule.hours !== undefined && !isWithinHours(rule.hours, now)) return false
  const { when = [] } = rule
  const kept = call.isKept === undefined ? when : when.filter(({ at }) => call.isKept!(at))
  if (!kept.every((condition) => holds(condition, call.arguments) ?? doubt)) return false
  return kept.length === when.length ? true : null
}

/** The rules of one policy that can decide, null for its default. There is one, unless arguments were not kept. */
function rulesFor({ rules }: GatePolicy, call: Proposed, now: string): (GateRule | null)[] {
  const possible: GateRule[] = []
  const inOrder = [rules.filter(({ then }) => then === 'deny'), rules.filter(({ then }) => then !== 'deny')]
  for (const rule of inOrder.flat()) {
    const fits = fitsRule(rule, call, now)
    if (fits === true) return [...possible, rule]
    if (fits === null) possible.push(rule)
  }
  return [...possible, null]
}

const usualVerdict = ({ kind }: Proposed, policy?: GatePolicy): Verdict => (kind === 'tool' ? (policy?.default ?? 'ask') : 'allow')

function rulingOf({ scope, policy, suspended }: ScopedPolicy, rule: GateRule | null, call: Proposed): Ruling {
  const isSuspended = rule?.then === 'allow' && suspended?.has(rule.id) === true
  const verdict = isSuspended ? 'ask' : (rule?.then ?? usualVerdict(call, policy))
  return {
    verdict,
    rule,
    scope,
    isSuspended,
    risk: rule?.risk ?? null,
    whom: rule?.whom === undefined ? [] : [rule.whom],
    quorum: rule?.quorum ?? null,
    expires: rule?.expires ?? null,
    redact: rule?.redact ?? [],
    sampled: rule !== null && verdict === 'allow' && sampleOf(rule) !== null ? [{ scope, rule }] : [],
  }
}

/** By the verdict; of two that ask, by the risk, by how many people it takes, and a rule before a default. */
function isStricter(one: Ruling, other: Ruling): boolean {
  const ranks = (ruling: Ruling): number[] => [
    strictness[ruling.verdict],
    Number(ruling.risk?.slice(1) ?? 0),
    ruling.quorum ?? 0,
    ruling.rule === null ? 0 : 1,
  ]
  const [a, b] = [ranks(one), ranks(other)]
  const at = a.findIndex((rank, i) => rank !== b[i])
  return at !== -1 && a[at]! > b[at]!
}

const msOf = (duration: string): number => durationMs(duration, 'INVALID_REQUEST', 'expires')
const greater = <T extends string | number>(a: T | null, b: T | null): T | null => (a === null || (b !== null && b > a) ? b : a)

/** Two scopes together: the verdict of the stricter, and every demand of both. */
function combine(a: Ruling, b: Ruling): Ruling {
  const { verdict, rule, scope, isSuspended } = isStricter(b, a) ? b : a
  const [shorter] = [a.expires, b.expires].filter((one) => one !== null).toSorted((one, other) => msOf(one) - msOf(other))
  return {
    verdict,
    rule,
    scope,
    isSuspended,
    risk: greater(a.risk, b.risk),
    whom: [...a.whom, ...b.whom],
    quorum: greater(a.quorum, b.quorum),
    expires: shorter ?? null,
    redact: [...new Set([...a.redact, ...b.redact])],
    sampled: [...a.sampled, ...b.sampled],
  }
}

const defaultRuling = (call: Proposed): Ruling => ({
  verdict: usualVerdict(call),
  rule: null,
  scope: null,
  isSuspended: false,
  risk: null,
  whom: [],
  quorum: null,
  expires: null,
  redact: [],
  sampled: [],
})

/** Without any policy a tool is asked about; resources and prompts are allowed. */
export function evaluate(policies: readonly ScopedPolicy[], call: Proposed, now: string): Ruling {
  const rulings = policies.map((scoped) => rulingOf(scoped, rulesFor(scoped.policy, call, now)[0]!, call))
  return rulings.length === 0 ? defaultRuling(call) : rulings.reduce(combine)
}

/** The verdict; null: it depends on arguments that were not kept. */
export function knownVerdict(policies: readonly ScopedPolicy[], call: Proposed, now: string): Verdict | null {
  let verdicts: ReadonlySet<Verdict> | null = null
  for (const scoped of policies) {
    const ruled: readonly Verdict[] = rulesFor(scoped.policy, call, now).map((rule) => rulingOf(scoped, rule, call).verdict)
    const before: readonly Verdict[] = verdicts === null ? ['allow'] : [...verdicts]
    verdicts = new Set(ruled.flatMap((a) => before.map((b) => (strictness[a] > strictness[b] ? a : b))))
  }
  const [verdict, ...others] = verdicts ?? [usualVerdict(call)]
  return others.length === 0 ? verdict! : null
}
