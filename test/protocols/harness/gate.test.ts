// The safety gate: every code, and of every pair of failing checks the first one in the order of C18.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { gateCodes, judge, type Gate, type GateCode } from '#protocols/harness/gate/gate.ts'
import { assess, needsPeople } from '#protocols/harness/gate/risk.ts'
import { isInRange } from '#protocols/harness/gate/versions.ts'
import type { Capability } from '#protocols/harness/schema.ts'

const capability: Capability = {
  id: 'synthesis',
  capability: {
    name: 'synthesis',
    version: '1.2.0',
    input_schema: { type: 'object', properties: { temperature: { type: 'number' } }, required: ['temperature'] },
    safety: { risk_ceiling: 'R4' },
    constraints: { concurrent_limit: 2 },
  },
  agent_id: 'agent_devin',
  approvers: [],
  risk_rules: [{ path: 'temperature', op: '>', value: 800, raise_to: 'R4' }],
  context_rules: [],
  safety_envelope: {},
  abort_timeout: 'PT30S',
  approval_timeout: null,
  ask_from: null,
  declared_at: '2026-01-01T00:00:00.000Z',
  withdrawn: false,
}
const good = {
  payload: {
    capability: 'synthesis',
    caller_id: 'lab-alpha',
    intent: 'Grow a film.',
    inputs: { temperature: 700 },
  } as Record<string, any>,
  gate: {
    sender: 'lab-alpha',
    caller: {
      id: 'lab-alpha',
      caller_id: 'lab-alpha',
      capabilities: ['*'],
      risk_max: 'R4',
      data_max: 'T3',
      allowed_at: '2026-01-01T00:00:00.000Z',
      disallowed: false,
    },
    capability,
    isPrivate: true,
    now: '2026-01-01T12:00:00.000Z',
    busyResources: new Set(),
    openSessions: 0,
    agentBusy: null,
    resumed: undefined,
    approvers: ['user_alice'],
  } as Gate,
}
type Asked = typeof good
type Fault = (asked: Asked) => Asked
const withGate =
  (more: Partial<Gate>): Fault =>
  ({ payload, gate }) => ({ payload, gate: { ...gate, ...more } })
const withPayload =
  (more: object): Fault =>
  ({ payload, gate }) => ({ payload: { ...payload, ...more }, gate })
const withCaller =
  (more: object): Fault =>
  ({ payload, gate }) => ({ payload, gate: { ...gate, caller: { ...gate.caller!, ...more } } })

/** Changes that make each check fail, each without touching what the others look at. */
const faults: Record<GateCode, Fault> = {
  unauthorized: withGate({ sender: 'lab-beta' }),
  forbidden: withCaller({ disallowed: true }),
  capability_not_found: ({ payload, gate }) => ({
    payload,
    gate: { ...gate, capability: { ...gate.capability!, withdrawn: true } },
  }),
  version_unsupported: withPayload({ capability_version: '^2.0.0' }),
  invalid_input: withPayload({ context: 7 }),
  classification_denied: ({ payload, gate }) => ({
    payload: { ...payload, constraints: { data_classification: 'T4' } },
    gate,
  }),
  risk_too_high: ({ payload, gate }) => ({
    payload: { ...payload, inputs: { temperature: 900 } },
    gate: { ...gate, caller: { ...gate.caller!, risk_max: 'R3' } },
  }),
  busy: withGate({ openSessions: 2 }),
  approval_denied: ({ payload, gate }) => ({
    payload,
    gate: {
      ...gate,
      approvers: [],
      capability: {
        ...gate.capability!,
        capability: {
          ...gate.capability!.capability,
          safety: { ...gate.capability!.capability.safety, requires_human_approval: true },
        },
      },
    },
  }),
}
const answerTo = ({ payload, gate }: Asked): string => {
  const verdict = judge(payload, gate)
  return 'passed' in verdict ? 'passed' : verdict.rejected.reason_code
}

describe('the safety gate', () => {
  test('a task that breaks nothing passes', () => assert.equal(answerTo(good), 'passed'))

  for (const code of gateCodes) test(`one failing check is answered ${code}`, () => assert.equal(answerTo(faults[code](good)), code))

  test('the first of two failing checks is the answer', () => {
    for (const [i, first] of gateCodes.entries())
      for (const second of gateCodes.slice(i + 1)) {
        assert.equal(answerTo(faults[first](faults[second](good))), first, `${first} and ${second}`)
        assert.equal(answerTo(faults[second](faults[first](good))), first, `${second} and ${first}`)
      }
  })

  test('a caller without permission learns nothing about the capability', () => {
    const known = judge(good.payload, { ...good.gate, caller: null })
    const unknown = judge(good.payload, { ...good.gate, caller: null, capability: null })
    assert.deepEqual(known, unknown)
  })

  test('a rejection for risk names the path and the bound', () => {
    const verdict = judge(
      { ...good.payload, inputs: { temperature: 900 } },
      { ...good.gate, caller: { ...good.gate.caller!, risk_max: 'R3' } },
    )
    assert.ok('rejected' in verdict)
    assert.deepEqual(
      [verdict.rejected.assessed_risk_level, verdict.rejected.suggestion],
      ['R4', 'set inputs.temperature to at most 800 (it is 900).'],
    )
  })

  test('a rejection says no value of confidential data: it is kept as it is, and so is what was confided', () => {
    for (const data_classification of ['T3', 'T4']) {
      const verdict = judge(
        { ...good.payload, inputs: { temperature: 900 }, constraints: { data_classification } },
        { ...good.gate, caller: { ...good.gate.caller!, risk_max: 'R3', data_max: 'T4' } },
      )
      assert.ok('rejected' in verdict)
      assert.equal(verdict.rejected.suggestion, 'set inputs.temperature to at most 800.')
      assert.ok(!JSON.stringify(verdict).includes('900'))
    }
  })

  test('confidential data is refused on an unencrypted connection, for every caller', () => {
    const asked = withPayload({ constraints: { data_classification: 'T3' } })(good)
    assert.equal(answerTo(asked), 'passed')
    assert.equal(answerTo(withGate({ isPrivate: false })(asked)), 'classification_denied')
  })

  test('ranges, durations, schemas and snapshots that are none are invalid_input', () => {
    for (const more of [
      { capability_version: 'newest' },
      { constraints: { max_duration: 'an hour' } },
      { constraints: { confidence_threshold: 2 } },
      { constraints: { data_classification: 'T9' } },
      { constraints: { priority: 'soon' } },
      { inputs: { temperature: 'hot' } },
      { inputs: [] },
      { intent: '' },
      { expected_output: { schema: { type: 7 } } },
    ])
      assert.equal(answerTo(withPayload(more)(good)), 'invalid_input', JSON.stringify(more))
    assert.equal(answerTo(withGate({ resumed: null })(good)), 'invalid_input')
    const { capability: _, ...unnamed } = good.payload
    assert.equal(answerTo({ ...good, payload: unnamed }), 'invalid_input')
  })
})

describe('risk', () => {
  const at = (more: Partial<Capability>, inputs: object = {}, now = '2026-01-01T12:00:00.000Z', busy: string[] = []) =>
    assess({ ...capability, risk_rules: [], ...more }, inputs, { now, busy: new Set(busy) }).level
  const declared = (safety: NonNullable<Capability['capability']['safety']>) => ({ capability: { ...capability.capability, safety } })

  test('the floor is R1, R4 for physical resources, or what is declared', () => {
    assert.equal(at(declared({})), 'R1')
    assert.equal(at(declared({ involves_physical_resources: true })), 'R4')
    assert.equal(at(declared({ involves_physical_resources: true, risk_floor: 'R2' })), 'R2')
  })

  test('rules raise and never lower, and one that cannot be judged raises', () => {
    const rule = { path: 'oven.zones.0', op: '>', value: 10, raise_to: 'R3' } as const
    assert.equal(at({ risk_rules: [rule] }, { oven: { zones: [11] } }), 'R3')
    assert.equal(at({ risk_rules: [rule] }, { oven: { zones: [10] } }), 'R1')
    assert.equal(at({ risk_rules: [rule] }, { oven: { zones: ['11'] } }), 'R3')
    assert.equal(at({ risk_rules: [rule] }, {}), 'R1')
    assert.equal(at({ ...declared({ risk_floor: 'R4' }), risk_rules: [rule] }, { oven: { zones: [11] } }), 'R4')
    for (const [op, value, found, raises] of [
      ['>=', 5, 5, true],
      ['<', 5, 4, true],
      ['<=', 5, 6, false],
      ['==', 'on', 'on', true],
      ['!=', 'on', 'on', false],
    ] as const)
      assert.equal(
        at({ risk_rules: [{ path: 'x', op, value, raise_to: 'R2' }] }, { x: found }),
        raises ? 'R2' : 'R1',
        `${found} ${op} ${value}`,
      )
  })

  test('hours over midnight, 24:00, and other work on a resource raise', () => {
    const hours = (from: string, to: string) => ({
      context_rules: [{ kind: 'hours', from, to, zone: 'Europe/Berlin', raise_to: 'R3' } as const],
    })
    assert.equal(at(hours('22:00', '06:00'), {}, '2026-01-01T22:30:00.000Z'), 'R3')
    assert.equal(at(hours('22:00', '06:00'), {}, '2026-01-01T12:00:00.000Z'), 'R1')
    assert.equal(at(hours('22:00', '24:00'), {}, '2026-01-01T21:30:00.000Z'), 'R3')
    const resource = { context_rules: [{ kind: 'resource', resource: 'oven', raise_to: 'R4' } as const] }
    assert.deepEqual([at(resource, {}, undefined, ['oven']), at(resource)], ['R4', 'R1'])
  })

  test('people are asked by the flag, from R4 on, from where the policy asks, and for T4', () => {
    const asks = (more: Partial<Capability>, level: 'R1' | 'R3' | 'R4' | 'R5', data = 'T1') =>
      needsPeople({ ...capability, ...more }, level, data)
    assert.equal(asks({}, 'R3'), false)
    assert.equal(asks({}, 'R4'), true)
    assert.equal(asks(declared({ requires_human_approval: true }), 'R1'), true)
    assert.equal(asks(declared({ requires_human_approval: false }), 'R5'), true)
    assert.equal(asks({ ask_from: 'R3' }, 'R3'), true)
    assert.equal(asks({}, 'R1', 'T4'), true)
  })

  test('ranges of versions', () => {
    for (const [version, range, isIn] of [
      ['1.2.0', '^1.0.0', true],
      ['2.0.0', '^1.0.0', false],
      ['0.2.5', '^0.2.0', true],
      ['0.3.0', '^0.2.0', false],
      ['1.2.9', '~1.2.0', true],
      ['1.3.0', '~1.2.0', false],
      ['1.5.0', '>=1.0.0 <2.0.0', true],
      ['2.0.0', '>=1.0.0 <2.0.0', false],
      ['3.1.4', '1.x || 3.x', true],
      ['1.2.0', '*', true],
      ['1.2.0', 'latest', null],
      ['1.2.0', '', null],
    ] as const)
      assert.equal(isInRange(version, range), isIn, `${version} in ${range}`)
  })
})
