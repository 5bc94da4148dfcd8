// Rules for calls of tools: which one decides, and what missing values, hours and names mean.
import { deepEqual, equal, ok, throws } from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { definedFields } from '#kernel/codec/strict-json.ts'
import { evaluate, fitsName, isWithinHours, knownVerdict, type Proposed, type Ruling, type ScopedPolicy } from '#kernel/policy/evaluate.ts'
import { checkGatePolicy, sampleOf, type Condition, type GatePolicy, type GateRule } from '#kernel/policy/gate-policy.ts'

const NOW = '2026-11-18T10:00:00.000Z' // a Wednesday
const call = (more: Partial<Proposed> = {}): Proposed => ({
  kind: 'tool',
  name: 'pay/transfer',
  agent: 'agent_devin',
  project: 'project_shop',
  arguments: {},
  hints: {},
  ...more,
})
const verdict = (rules: GateRule[], more: Partial<Proposed> = {}, usual?: GatePolicy['default']): string => {
  const policy: GatePolicy = { version: 1, rules, ...(usual === undefined ? {} : { default: usual }) }
  checkGatePolicy(policy)
  const { verdict: found, rule } = evaluate([{ scope: 'project_shop', policy, updated_at: null }], call(more), NOW)
  return rule === null ? found : `${found} ${rule.id}`
}

const scoped = (policies: readonly GatePolicy[]): ScopedPolicy[] =>
  policies.map((policy, i) => ({ scope: `s${i}`, policy, updated_at: null }))

describe('rules of the gate', () => {
  test('names match with a star that does not cross a slash', () => {
    const rows: [string, string, boolean][] = [
      ['files/read_*', 'files/read_file', true],
      ['files/*', 'files/a/b', false],
      ['*/read', 'files/read', true],
      ['files/read', 'files/reads', false],
      ['a.b/*', 'axb/c', false],
      ['*', 'files/read', false],
      ['**/x*y*z', 'files/xyz', true],
      ['f/x*y*z', 'f/xzy', false],
      ['f/ab*ba', 'f/aba', false],
      ['f/*.txt', 'f/a.txt.sh', false],
      ['f/*', 'f/', true],
      [`f/${'*a'.repeat(100)}b`, `f/${'a'.repeat(200)}`, false],
    ]
    for (const [pattern, name, fits] of rows) equal(fitsName(pattern, name), fits, `${pattern} and ${name}`)
  })

  test('deny rules come first, then the first rule that fits, then the default', () => {
    const allow: GateRule = { id: 'a', tool: 'pay/*', then: 'allow' }
    const deny: GateRule = { id: 'd', tool: 'pay/transfer', then: 'deny' }
    equal(verdict([allow, deny]), 'deny d')
    equal(verdict([{ id: 'first', tool: '*/transfer', then: 'ask' }, allow]), 'ask first')
    equal(verdict([]), 'ask')
    equal(verdict([], {}, 'allow'), 'allow')
    equal(verdict([], { kind: 'resource' }, 'deny'), 'allow', 'an unnamed resource is allowed')
    equal(verdict([{ id: 'r', resource: '*/*', then: 'ask' }], { kind: 'resource' }), 'ask r')
  })

  test('a missing or mistyped value counts against the call', () => {
    const conditions = [
      { at: '/v', is: 1 },
      { at: '/v', in: [1, 2] },
      { at: '/v', matches: '^1$' },
      { at: '/v', above: 0 },
      { at: '/v', below: 9 },
      { at: '/v', at_least: 1 },
      { at: '/v', at_most: 1 },
      { at: '/v', within: '/srv' },
    ]
    for (const condition of conditions)
      for (const args of [{}, { v: null }, { v: {} }, { v: [] }, [], { v: true }]) {
        equal(verdict([{ id: 'x', tool: '*/*', when: [condition], then: 'allow' }], { arguments: args }), 'ask', JSON.stringify(condition))
        equal(verdict([{ id: 'x', tool: '*/*', when: [condition], then: 'deny' }], { arguments: args }, 'allow'), 'deny x')
        equal(verdict([{ id: 'x', tool: '*/*', when: [condition], then: 'ask' }], { arguments: args }, 'allow'), 'ask x')
      }
    const upwards = { arguments: { v: '/srv/../etc/passwd' } }
    equal(verdict([{ id: 'x', tool: '*/*', when: [{ at: '/v', within: '/etc' }], then: 'deny' }], upwards, 'allow'), 'deny x')
    equal(
      verdict([{ id: 'x', tool: '*/*', when: [{ at: '/v', is: { a: 1 } }], then: 'deny' }], { arguments: { v: null } }, 'allow'),
      'deny x',
    )
  })

  test('a condition compares the value that its pointer names', () => {
    const allows = (condition: object, v: unknown): boolean =>
      verdict([{ id: 'x', tool: '*/*', when: [{ at: '/a~1b/0', ...condition }], then: 'allow' }], { arguments: { 'a/b': [v] } }) ===
      'allow x'
    deepEqual(
      [
        allows({ is: { x: [1] } }, { x: [1] }),
        allows({ in: ['a', 'b'] }, 'b'),
        allows({ matches: '(?i)\\bdrop\\b' }, 'please DROP it'),
        allows({ above: 5 }, 6),
        allows({ at_most: 5 }, 5),
        allows({ within: '/srv/www' }, '/srv/./www//b.txt'),
      ],
      [true, true, true, true, true, true],
    )
    deepEqual(
      [
        allows({ is: 'x' }, 'y'),
        allows({ in: ['a'] }, 'b'),
        allows({ matches: 'drop' }, 'raise'),
        allows({ above: 5 }, 5),
        allows({ below: 5 }, 5),
        allows({ within: '/srv/www' }, '/srv/www/../../etc/passwd'),
        allows({ within: '/srv/www' }, '/srv/www/link/../b.txt'),
        allows({ within: '/srv/www' }, '/srv/www\0/b.txt'),
        allows({ is: { x: 1 } }, null),
        allows({ within: '/srv/www' }, '/srv/wwwroot'),
        allows({ within: '/srv/www' }, 'a.txt'),
      ],
      Array.from({ length: 11 }, () => false),
    )
  })

  test('hints of a server count only if it is trusted, and doubt counts against the call', () => {
    const rule: GateRule = { id: 'r', tool: '*/*', trusted: true, read_only: true, then: 'allow' }
    equal(verdict([rule], { hints: { readOnlyHint: true } }), 'allow r')
    equal(verdict([rule], { hints: {} }), 'ask')
    throws(() => checkGatePolicy({ version: 1, rules: [{ ...rule, trusted: false }] }), /hints count only/)
  })

  test('hours hold in their zone, and over midnight', () => {
    const office = { days: 'mon-fri', from: '08:00', to: '18:00', zone: 'Europe/Vienna' }
    equal(isWithinHours(office, '2026-11-18T07:00:00.000Z'), true, '8 in Vienna')
    equal(isWithinHours(office, '2026-11-18T06:59:00.000Z'), false)
    equal(isWithinHours(office, '2026-11-18T17:00:00.000Z'), false, '18 in Vienna')
    equal(isWithinHours(office, '2026-11-22T10:00:00.000Z'), false, 'a Sunday')
    const night = { days: 'fri', from: '22:00', to: '06:00' }
    equal(isWithinHours(night, '2026-11-20T23:00:00.000Z'), true)
    equal(isWithinHours(night, '2026-11-21T05:00:00.000Z'), true, 'the night of Friday')
    equal(isWithinHours(night, '2026-11-20T05:00:00.000Z'), false)
  })

  test('the strictest of several scopes wins', () => {
    const allow: GatePolicy = { version: 1, default: 'allow', rules: [] }
    const ask: GatePolicy = { version: 1, default: 'allow', rules: [{ id: 'two', tool: '*/*', then: 'ask', risk: 'R4' }] }
    const deny: GatePolicy = { version: 1, default: 'deny', rules: [] }
    const of = (...policies: GatePolicy[]): string => evaluate(scoped(policies), call(), NOW).verdict
    deepEqual([of(allow, ask), of(ask, allow), of(allow, deny, ask), of()], ['ask', 'ask', 'deny', 'ask'])
  })

  test('scopes that ask combine all that they ask for', () => {
    const people = (ids: string[], more: Partial<GateRule>): GatePolicy => ({
      version: 1,
      rules: [{ id: ids.join('-'), tool: '*/*', then: 'ask', whom: { people: ids }, ...more }],
    })
    const of = (...policies: GatePolicy[]): Ruling => evaluate(scoped(policies), call(), NOW)
    const two = people(['a', 'b'], { quorum: 2, expires: 'PT1H', redact: ['/token'] })
    const risky = people(['b', 'c'], { risk: 'R4', expires: 'PT4H', redact: ['/key'] })
    const hidden: GatePolicy = { version: 1, rules: [{ id: 'h', tool: '*/*', then: 'allow', redact: ['/pin'] }] }
    for (const order of [
      [two, risky, hidden],
      [hidden, risky, two],
    ]) {
      const { verdict: found, rule, risk, quorum, expires, redact, whom } = of(...order)
      deepEqual([found, rule?.id, risk, quorum, expires, redact.toSorted()], ['ask', 'b-c', 'R4', 2, 'PT1H', ['/key', '/pin', '/token']])
      deepEqual(whom.flatMap((one) => one.people ?? []).toSorted(), ['a', 'b', 'b', 'c'])
    }
  })

  test('a suspended rule asks, and sampled rules of every scope are named', () => {
    const earned: GatePolicy = { version: 1, rules: [{ id: 'e', tool: '*/*', then: 'allow', rehearsal: 'a'.repeat(43) }] }
    const plain: GatePolicy = { version: 1, default: 'allow', rules: [{ id: 's', tool: '*/*', then: 'allow', sample: 3 }] }
    const of = (suspended: string[]): Ruling =>
      evaluate(
        [
          { ...scoped([earned])[0]!, suspended: new Set(suspended) },
          { ...scoped([plain])[0]!, scope: 'other' },
        ],
        call(),
        NOW,
      )
    deepEqual(
      of([]).sampled.map(({ scope, rule }) => [scope, rule.id, sampleOf(rule)]),
      [
        ['s0', 'e', 20],
        ['other', 's', 3],
      ],
    )
    deepEqual([of(['e']).verdict, of(['e']).isSuspended, of(['s']).verdict], ['ask', true, 'allow'])
  })

  test('a verdict that depends on arguments that were not kept is unknown', () => {
    const when = [{ at: '/sql', matches: 'drop' }]
    const deny: GateRule = { id: 'd', tool: '*/*', when, then: 'deny' }
    const ask: GateRule = { id: 'k', tool: '*/*', when, then: 'ask' }
    const known = (rules: GateRule[], usual: GatePolicy['default'], isKept: (at: string) => boolean, more: Partial<Proposed> = {}) =>
      knownVerdict(scoped([{ version: 1, default: usual!, rules }]), call({ isKept, ...more }), NOW)
    equal(
      known([deny], 'allow', () => false),
      null,
    )
    equal(
      known([deny], 'deny', () => false),
      'deny',
      'it is denied either way',
    )
    equal(
      known([ask], 'ask', () => false),
      'ask',
    )
    equal(
      known([deny, { id: 'all', tool: '*/*', then: 'deny' }], 'allow', () => false),
      'deny',
    )
    equal(
      known([deny], 'allow', () => true, { arguments: { sql: 'select' } }),
      'allow',
    )
    equal(
      known([{ ...deny, when: [...when, { at: '/n', above: 3 }] }], 'allow', (at) => at === '/n', { arguments: { n: 1 } }),
      'allow',
    )
    const strict = scoped([
      { version: 1, default: 'allow', rules: [ask] },
      { version: 1, default: 'ask', rules: [] },
    ])
    equal(knownVerdict(strict, call({ isKept: () => false }), NOW), 'ask', 'another scope asks anyway')
  })

  test('a policy that could not be applied as written is refused with its place', () => {
    const bad: [Partial<GateRule>, RegExp][] = [
      [{ tool: 'a', resource: 'b' }, /gate\.rules\.0: a rule names one of/],
      [{ tool: 'a', when: [{ at: '/x' }] }, /gate\.rules\.0\.when\.0: a condition has one of/],
      [{ tool: 'a', when: [{ at: '/x', matches: '(' }] }, /matches/],
      [{ tool: 'a', when: [{ at: '/x', within: 'relative' }] }, /a folder begins with/],
      [{ tool: 'a', hours: { days: 'someday', from: '08:00', to: '09:00' } }, /hours\.days/],
      [{ tool: 'a', hours: { from: '08:00', to: '09:00', zone: 'Mars/Base' } }, /no time zone Mars/],
      [{ tool: 'a', then: 'ask', expires: 'soon' }, /expires/],
      [{ tool: 'a', then: 'allow', quorum: 2 }, /go with "then": "ask"/],
      [{ tool: 'a', then: 'ask', whom: { people: ['user_a'] }, quorum: 2 }, /only 1 people are named/],
      [{ tool: 'a', then: 'deny', sample: 5 }, /sample goes with/],
      [{ tool: 'a', then: 'allow', risk: 'R4', rehearsal: 'a'.repeat(43) }, /earn themselves only below R4 \(rule x\)/],
      [{ tool: 'a', hours: { from: '08:00', to: '08:00' } }, /rules\.0\.hours: from and to are the same/],
      [{ tool: 'a', when: [{ at: '/x', matches: '(a' }] }, /gate\.rules\.0\.when\.0\.matches: .*\(rule x\)/],
      [{ tool: 'a', then: 'ask', expires: 'P1Y' }, /gate\.rules\.0\.expires: .*\(rule x\)/],
    ]
    for (const [rule, message] of bad) throws(() => checkGatePolicy({ version: 1, rules: [{ id: 'x', then: 'allow', ...rule }] }), message)
    throws(
      () => checkGatePolicy({ version: 1, rules: [1, 2].map(() => ({ id: 'x', tool: 'a', then: 'ask' as const })) }),
      /another rule has this id/,
    )
  })
})

// --- Properties ------------------------------------------------------------------------------------------------------------

const verdicts = ['allow', 'ask', 'deny'] as const
const values = fc.constantFrom<unknown>(undefined, null, 0, 5, 10, 'a', 'drop it', '/srv/a', '/srv/../etc', [], {})
const conditions = fc.constantFrom<Condition>(
  { at: '/v', is: 5 },
  { at: '/v', in: ['a', 10] },
  { at: '/v', matches: 'drop' },
  { at: '/v', above: 4 },
  { at: '/w', at_most: 5 },
  { at: '/w', within: '/srv' },
)
const rules = fc
  .record({
    tool: fc.constantFrom('pay/transfer', 'pay/*', '*/*', 'files/*', '*'),
    agent: fc.constantFrom(undefined, 'agent_*', 'agent_other'),
    then: fc.constantFrom(...verdicts),
    when: fc.array(conditions, { maxLength: 2 }),
    hours: fc.constantFrom(undefined, { from: '08:00', to: '12:00' }, { from: '22:00', to: '06:00' }),
    risk: fc.constantFrom(undefined, 'R2' as const, 'R4' as const),
    people: fc.constantFrom<string[] | undefined>(undefined, ['user_a'], ['user_a', 'user_b']),
    expires: fc.constantFrom(undefined, 'PT1H', 'P1D'),
    redact: fc.constantFrom<string[] | undefined>(undefined, ['/v'], ['/w']),
  })
  .map(({ people, expires, ...rule }): Omit<GateRule, 'id'> => {
    const asking =
      rule.then === 'ask' ? { ...(people ? { whom: { people }, quorum: people.length } : {}), ...(expires ? { expires } : {}) } : {}
    return definedFields({ ...rule, ...asking })
  })
const policies = fc
  .record({ default: fc.constantFrom(...verdicts), rules: fc.array(rules, { maxLength: 6 }) })
  .map((policy): GatePolicy => ({ version: 1, ...policy, rules: policy.rules.map((rule, i) => ({ id: `r${i}`, ...rule })) }))
const calls = fc.record({ v: values, w: values }).map((args) => call({ arguments: definedFields(args) }))

describe('properties of the evaluation', () => {
  test('deny wins for every order of the rules', () => {
    fc.assert(
      fc.property(policies, calls, fc.integer({ min: 0, max: 5 }), (policy, proposed, turn) => {
        checkGatePolicy(policy)
        const turned = [...policy.rules.slice(turn), ...policy.rules.slice(0, turn)].toReversed()
        const [one, other] = [policy, { ...policy, rules: turned }].map((each) => evaluate(scoped([each]), proposed, NOW).verdict)
        const isDenied = policy.rules.some(
          (rule) =>
            rule.then === 'deny' && evaluate(scoped([{ ...policy, default: 'allow', rules: [rule] }]), proposed, NOW).verdict === 'deny',
        )
        equal(one === 'deny' && policy.default !== 'deny', isDenied && policy.default !== 'deny')
        if (isDenied) deepEqual([one, other], ['deny', 'deny'])
      }),
      { numRuns: 500 },
    )
  })

  test('another scope never loosens a verdict, nor anything that is asked for', () => {
    const ms = (expires: string | null): number => ({ PT1H: 1, P1D: 24 })[expires ?? ''] ?? Infinity
    fc.assert(
      fc.property(fc.array(policies, { minLength: 1, maxLength: 2 }), policies, fc.nat(2), calls, (before, more, at, proposed) => {
        const was = evaluate(scoped(before), proposed, NOW)
        const is = evaluate(scoped(before.toSpliced(at, 0, more)), proposed, NOW)
        const rank = ({ verdict: found }: Ruling): number => verdicts.indexOf(found)
        ok(rank(is) >= rank(was), `${was.verdict} became ${is.verdict}`)
        ok((is.risk ?? '') >= (was.risk ?? ''), 'the risk')
        ok((is.quorum ?? 0) >= (was.quorum ?? 0), 'the quorum')
        ok(ms(is.expires) <= ms(was.expires), 'the time')
        ok(
          was.redact.every((pointer) => is.redact.includes(pointer)),
          'what is redacted',
        )
        ok(is.whom.length >= was.whom.length, 'the people')
      }),
      { numRuns: 500 },
    )
  })

  test('a known verdict of a rehearsal is the verdict with the arguments', () => {
    fc.assert(
      fc.property(fc.array(policies, { maxLength: 3 }), calls, fc.constantFrom('/v', '/w', '/'), (all, proposed, kept) => {
        const { verdict: found } = evaluate(scoped(all), proposed, NOW)
        equal(knownVerdict(scoped(all), proposed, NOW), found)
        const known = knownVerdict(scoped(all), { ...proposed, isKept: (at) => at === kept }, NOW)
        ok(known === null || known === found)
      }),
      { numRuns: 500 },
    )
  })
})
