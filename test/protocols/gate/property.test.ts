// Any sequence of calls, answers, changes of the policy and of a tool, and runs: nothing runs that was not allowed, and no approval runs twice.
import { deepEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { enlist, stage, type Stage } from '../../support/in-process/stage.ts'

const RUNS = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all' ? 400 : 40
const verdicts = ['allow', 'ask', 'deny'] as const
type Verdict = (typeof verdicts)[number]
type Step =
  | { readonly kind: 'policy'; readonly then: Verdict }
  | { readonly kind: 'propose'; readonly n: number }
  | { readonly kind: 'change'; readonly n: number }
  | { readonly kind: 'trust'; readonly n: number }
  | { readonly kind: 'answer'; readonly n: number; readonly result: 'approved' | 'rejected' }
  | { readonly kind: 'begin'; readonly n: number; readonly isOther: boolean }
  | { readonly kind: 'cancel' | 'conclude'; readonly n: number; readonly isOther: boolean }

const n = fc.nat(2)
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('propose' as const), n }) },
    {
      weight: 4,
      arbitrary: fc.record({ kind: fc.constantFrom('begin' as const, 'conclude' as const, 'cancel' as const), n, isOther: fc.boolean() }),
    },
    {
      weight: 3,
      arbitrary: fc.record({ kind: fc.constant('answer' as const), n, result: fc.constantFrom('approved' as const, 'rejected' as const) }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('policy' as const), then: fc.constantFrom(...verdicts) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('change' as const, 'trust' as const), n }) },
  ),
  { minLength: 5, maxLength: 30 },
)

/** What the test knows of a call, from its answers alone. */
type Known = { readonly call: any; readonly version: string; allowedBy: Verdict | 'person' | null }

async function play(on: Stage, all: readonly Step[]): Promise<void> {
  let policy: Verdict = 'ask'
  const offered = new Map<number, number>()
  const trusted = new Map<number, number>()
  const calls = new Map<string, Known>()
  const latest = new Map<number, string>()
  const runs: string[] = []
  const versionOf = (tool: number): string => `v${offered.get(tool) ?? 0}`
  const attempt = async (who: string, operation: string, input: object): Promise<any> => on.call(who, operation, input).catch(() => null)
  const latestOf = (tool: number): Known | undefined => calls.get(latest.get(tool) ?? '')

  async function propose(tool: number): Promise<void> {
    const definition = { name: `t${tool}`, description: versionOf(tool) }
    const call = await on.call('devin', 'gate/call.propose', { server: 's', tool: `t${tool}`, arguments: {}, definition })
    if (!trusted.has(tool)) trusted.set(tool, offered.get(tool) ?? 0)
    const isTrusted = trusted.get(tool) === (offered.get(tool) ?? 0)
    const known = calls.get(call.call_id) ?? { call, version: versionOf(tool), allowedBy: null }
    if (policy === 'deny') deepEqual(call.state, 'denied')
    if (call.decision === 'allow') {
      ok(policy === 'allow' && isTrusted, `allowed under ${policy}`)
      known.allowedBy = 'allow'
    }
    calls.set(call.call_id, known)
    latest.set(tool, call.call_id)
  }

  async function begin(tool: number, isOther: boolean): Promise<void> {
    const known = latestOf(tool)
    if (!known) return
    const { call_id, digest } = known.call
    const begun = await attempt(isOther ? 'other' : 'devin', 'gate/call.begin', { call_id, digest })
    if (begun === null) return
    ok(!isOther, 'another agent began it')
    ok(known.allowedBy !== null, 'nobody allowed it')
    ok(policy === 'allow' || (policy === 'ask' && known.allowedBy === 'person'), `begun under ${policy}, allowed by ${known.allowedBy}`)
    deepEqual(known.version, `v${trusted.get(tool)}`, 'its definition is the trusted one')
    runs.push(call_id)
  }

  for (const step of all) {
    if (step.kind === 'policy') {
      policy = step.then
      await on.call('owner', 'execution/policy.set', { installation: true, gate: { version: 1, default: policy, rules: [] } })
    } else if (step.kind === 'propose') await propose(step.n)
    else if (step.kind === 'change') offered.set(step.n, (offered.get(step.n) ?? 0) + 1)
    else if (step.kind === 'begin') await begin(step.n, step.isOther)
    else if (step.kind === 'trust') {
      const answer = await attempt('owner', 'gate/tool.trust', { server: 's', tool: `t${step.n}` })
      if (answer !== null) trusted.set(step.n, Number(answer.tool.trusted.definition.description.slice(1)))
    } else if (step.kind === 'answer') {
      const known = latestOf(step.n)
      if (!known?.call.request_id) continue
      const answer = await attempt('alice', 'execution/request.resolve', { request_id: known.call.request_id, result: step.result })
      if (answer !== null && step.result === 'approved') known.allowedBy = 'person'
    } else {
      const known = latestOf(step.n)
      const outcome = step.kind === 'conclude' ? { outcome: 'succeeded' } : {}
      if (known) await attempt(step.isOther ? 'other' : 'devin', `gate/call.${step.kind}`, { call_id: known.call.call_id, ...outcome })
    }
  }
  deepEqual(runs.length, new Set(runs).size, 'a call ran twice')
}

test('No sequence of calls, answers and changes runs what was not allowed, nor anything twice', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const on = await stage()
      await enlist(on, 'other')
      await play(on, all)
    }),
    { numRuns: RUNS },
  )
})
