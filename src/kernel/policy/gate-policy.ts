// The part `gate` of a policy: rules that allow, ask about or deny the calls of agents to tools, and the checks of their text.
import { durationMs } from '../codec/timestamps.ts'
import { Refusal } from '../declare/errors.ts'
import { either, t, type Static } from '../declare/schema.ts'
import { linearPattern } from '../foreign/linear-pattern.ts'
import { canonical } from '../log/canonical-json.ts'
import { sha256 } from '../log/hash-chain.ts'
import { limits } from '../limits.ts'

const Id = t.String({ minLength: 1, maxLength: limits.idCharsMax })
const Text = t.String({ maxLength: limits.textCharsMax })
export const Verdict = either('allow', 'ask', 'deny')
export type Verdict = Static<typeof Verdict>
export const Risk = either('R1', 'R2', 'R3', 'R4', 'R5')
export type Risk = Static<typeof Risk>

/** A name such as `files/read_*`: `*` stands for any characters but `/`. */
const Pattern = t.String({ minLength: 1, maxLength: limits.gatePatternCharsMax, description: 'a name; * matches all but /' })
const Patterns = t.Union([Pattern, t.Array(Pattern, { minItems: 1, maxItems: limits.gatePatternsMax })])
const Pointer = t.String({
  pattern: '^(/([^~/]|~[01])*)*$',
  maxLength: limits.gatePatternCharsMax,
  description: 'a JSON pointer into the arguments',
})

const Condition = t.Object({
  at: Pointer,
  is: t.Optional(t.Unknown({ description: 'equal to this value' })),
  in: t.Optional(t.Array(t.Unknown(), { minItems: 1, maxItems: limits.gatePatternsMax, description: 'one of these values' })),
  matches: t.Optional(t.String({ maxLength: 200, description: 'an RE2 pattern that the text holds' })),
  above: t.Optional(t.Number()),
  below: t.Optional(t.Number()),
  at_least: t.Optional(t.Number()),
  at_most: t.Optional(t.Number()),
  within: t.Optional(t.String({ minLength: 1, maxLength: limits.gatePatternCharsMax, description: 'a path below this folder' })),
})
export type Condition = Static<typeof Condition>

const Hours = t.Object({
  days: t.Optional(t.String({ maxLength: 40, description: 'days such as mon-fri or sat,sun; every day by default' })),
  from: t.String({ pattern: '^([01]\\d|2[0-3]):[0-5]\\d$', description: 'HH:MM, included' }),
  to: t.String({ pattern: '^(([01]\\d|2[0-3]):[0-5]\\d|24:00)$', description: 'HH:MM, excluded' }),
  zone: t.Optional(t.String({ maxLength: 60, description: 'a time zone such as Europe/Vienna; UTC by default' })),
})
export type Hours = Static<typeof Hours>

/** One in this many calls of an earned rule still goes to a person. */
const SAMPLE = 20

export const GateRule = t.Object({
  id: t.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$', description: 'the name of the rule, once in a policy' }),
  tool: t.Optional(Patterns),
  resource: t.Optional(Patterns),
  prompt: t.Optional(Patterns),
  agent: t.Optional(Patterns),
  project: t.Optional(Patterns),
  when: t.Optional(t.Array(Condition, { maxItems: limits.gateConditionsMax })),
  hours: t.Optional(Hours),
  trusted: t.Optional(t.Boolean({ description: "the server's own hints count" })),
  read_only: t.Optional(t.Boolean({ description: 'the hint readOnlyHint of a trusted server' })),
  destructive: t.Optional(t.Boolean({ description: 'the hint destructiveHint of a trusted server' })),
  then: Verdict,
  reason: t.Optional(Text),
  instead: t.Optional(Text),
  risk: t.Optional(Risk),
  whom: t.Optional(
    t.Object({
      people: t.Optional(t.Array(Id, { minItems: 1, maxItems: 20 })),
      groups: t.Optional(t.Array(Id, { minItems: 1, maxItems: 20 })),
    }),
  ),
  quorum: t.Optional(t.Integer({ minimum: 1, maximum: 20 })),
  expires: t.Optional(t.String({ maxLength: 40, description: 'an ISO 8601 duration such as PT4H' })),
  redact: t.Optional(t.Array(Pointer, { maxItems: limits.gatePatternsMax })),
  record: t.Optional({ ...either('hash', 'sealed'), description: 'sealed: the arguments are kept, so that conditions can be rehearsed' }),
  sample: t.Optional(
    t.Integer({
      minimum: 1,
      maximum: 10_000,
      description: `one in this many allowed calls still goes to a person; ${SAMPLE} of an earned rule`,
    }),
  ),
  rehearsal: t.Optional(
    t.String({
      pattern: '^[A-Za-z0-9_-]{43}$',
      description: 'the digest of the rehearsal that the rule was published with: it has earned itself',
    }),
  ),
})
export type GateRule = Static<typeof GateRule>

/** One in this many calls of the rule still goes to a person; null: none. */
export const sampleOf = ({ then, sample, rehearsal }: GateRule): number | null =>
  then === 'allow' ? (sample ?? (rehearsal === undefined ? null : SAMPLE)) : null
/** The digest of the written rule: a changed rule is another rule. */
export const ruleDigest = (rule: GateRule): string => sha256(canonical(rule))
/** The id of the policy for the whole installation. */
export const INSTALLATION = 'installation'

/** From R4 on, every call is asked about: no grant and no earned rule spares the question. */
export const mustBeAsked = (risk: Risk | null | undefined): boolean => (risk ?? 'R1') >= 'R4'

export const GatePolicy = t.Object({
  version: t.Literal(1, { description: '1' }),
  default: t.Optional({ ...Verdict, description: 'for tools that no rule fits: ask unless it is set' }),
  rules: t.Array(GateRule, { maxItems: limits.gateRulesMax, description: 'tried from top to bottom, denying rules first' }),
})
export type GatePolicy = Static<typeof GatePolicy>

const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']

/** The days of a text such as `mon-fri` or `sat,sun`, as numbers from Sunday on; null: it names none. */
export function daysIn(text: string): ReadonlySet<number> | null {
  const days = new Set<number>()
  for (const part of text.toLowerCase().split(',')) {
    const [from, to = from] = part.trim().split('-')
    const [first, last] = [DAYS.indexOf(from!), DAYS.indexOf(to!)]
    if (first === -1 || last === -1 || part.split('-').length > 2) return null
    for (let day = first; ; day = (day + 1) % 7) {
      days.add(day)
      if (day === last) break
    }
  }
  return days
}

const isZone = (zone: string): boolean => {
  try {
    Intl.DateTimeFormat('en', { timeZone: zone })
    return true
  } catch {
    return false
  }
}

const subjects = ['tool', 'resource', 'prompt'] as const
const operators = ['is', 'in', 'matches', 'above', 'below', 'at_least', 'at_most', 'within'] as const

/** Refuses a policy that could not be applied as written, with the place of the first mistake. */
export function checkGatePolicy({ rules }: GatePolicy, field = 'gate'): void {
  const ids = new Set<string>()
  for (const [i, rule] of rules.entries()) {
    const place = `${field === '' ? '' : `${field}.`}rules.${i}`
    const refuse = (name: string, message: string): never => {
      throw new Refusal('INVALID_REQUEST', `${place}${name}: ${message} (rule ${rule.id})`, { field: `${place}${name}` })
    }
    if (ids.has(rule.id)) refuse('.id', 'another rule has this id')
    ids.add(rule.id)
    if (subjects.filter((name) => rule[name] !== undefined).length !== 1) refuse('', 'a rule names one of tool, resource and prompt')
    checkConditions(rule, refuse)
    if (rule.hours?.days !== undefined && daysIn(rule.hours.days) === null)
      refuse('.hours.days', 'days are mon to sun, such as mon-fri or sat,sun')
    if (rule.hours?.zone !== undefined && !isZone(rule.hours.zone)) refuse('.hours.zone', `there is no time zone ${rule.hours.zone}`)
    if (rule.hours !== undefined && rule.hours.from === rule.hours.to) refuse('.hours', 'from and to are the same time')
    if (rule.expires !== undefined)
      orRefuse(
        () => durationMs(rule.expires!, 'INVALID_REQUEST', 'it'),
        (message) => refuse('.expires', message),
      )
    if (rule.then !== 'ask' && (rule.whom ?? rule.quorum ?? rule.expires) !== undefined)
      refuse('', 'whom, quorum and expires go with "then": "ask"')
    if (rule.whom !== undefined && rule.whom.people === undefined && rule.whom.groups === undefined)
      refuse('.whom', 'give people or groups')
    const named = rule.whom?.groups === undefined ? rule.whom?.people?.length : undefined
    if (named !== undefined && (rule.quorum ?? 1) > named) refuse('.quorum', `only ${named} people are named`)
    if (rule.quorum !== undefined && rule.whom === undefined) refuse('.quorum', 'a quorum needs whom')
    if ((rule.read_only ?? rule.destructive) !== undefined && rule.trusted !== true)
      refuse('', 'a server\'s hints count only with "trusted": true')
    if (rule.then !== 'allow' && rule.sample !== undefined) refuse('.sample', 'sample goes with "then": "allow"')
    if (rule.then === 'allow' && rule.rehearsal !== undefined && mustBeAsked(rule.risk))
      refuse('.rehearsal', 'rules earn themselves only below R4')
  }
}

function checkConditions({ when = [] }: GateRule, refuse: (name: string, message: string) => never): void {
  for (const [i, condition] of when.entries()) {
    const named = operators.filter((operator) => condition[operator] !== undefined)
    if (named.length === 0) refuse(`.when.${i}`, `a condition has one of ${operators.join(', ')}`)
    if (condition.matches !== undefined)
      orRefuse(
        () => linearPattern(condition.matches!, 'INVALID_REQUEST', 'the pattern'),
        (message) => refuse(`.when.${i}.matches`, message),
      )
    if (condition.within !== undefined && !condition.within.startsWith('/')) refuse(`.when.${i}.within`, 'a folder begins with /')
  }
}

/** Repeats the refusal of a check with the place in the policy. */
function orRefuse(check: () => unknown, refuse: (message: string) => never): void {
  try {
    check()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    refuse(error.message)
  }
}
