// Any sequence of calls, answers, changes of the policy and of a tool, hours, restarts, and runs: nothing runs that was not allowed, and no
// approval runs twice.
import { deepEqual, ok } from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { sqliteStore } from '#stores/sqlite.ts'
import { again, enlist, HOUR_MS, stage, type Stage } from '../../support/in-process/stage.ts'

const RUNS = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all' ? 2_000 : 100
const verdicts = ['allow', 'ask', 'deny'] as const
type Verdict = (typeof verdicts)[number]
type Step =
  | { readonly kind: 'policy'; readonly then: Verdict }
  | { readonly kind: 'propose'; readonly n: number; readonly begins: boolean }
  | { readonly kind: 'change'; readonly n: number }
  | { readonly kind: 'trust'; readonly n: number }
  | { readonly kind: 'answer'; readonly n: number; readonly result: 'approved' | 'rejected' }
  /** `back`: 0 is the newest call of the tool. */
  | { readonly kind: 'begin' | 'cancel' | 'conclude'; readonly n: number; readonly back: number; readonly isOther: boolean }
  | { readonly kind: 'restart' }
  | { readonly kind: 'pass'; readonly isRung: boolean }

const n = fc.nat(1)
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('propose' as const), n, begins: fc.boolean() }) },
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constantFrom('begin' as const, 'begin' as const, 'conclude' as const, 'cancel' as const),
        n,
        back: fc.constantFrom(0, 0, 0, 1, 2),
        isOther: fc.constantFrom(false, false, false, true),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({ kind: fc.constant('answer' as const), n, result: fc.constantFrom('approved' as const, 'rejected' as const) }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('policy' as const), then: fc.constantFrom(...verdicts) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('change' as const, 'trust' as const), n }) },
    { weight: 2, arbitrary: fc.constant({ kind: 'restart' as const }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('pass' as const), isRung: fc.boolean() }) },
  ),
  { minLength: 15, maxLength: 45 },
)

/** What the test knows of a call, from its answers alone. */
type Known = { readonly call: any; readonly version: string; allowedBy: Verdict | 'person' | null }

/** Every question has this time, and so has its approval. */
const soon = { id: 'soon', tool: '*/*', then: 'ask', expires: 'PT1H' }
const gateOf = (then: Verdict): object => ({ version: 1, default: then, rules: then === 'ask' ? [soon] : [] })

/** Opens the store of a stage again, under a new kernel. */
type Reopen = (on: Stage, count: number) => Promise<Stage>

async function play(first: Stage, all: readonly Step[], reopen: Reopen): Promise<void> {
  let on = first
  let restarts = 0
  let policy: Verdict = 'ask'
  const offered = new Map<number, number>()
  const trusted = new Map<number, number>()
  const calls = new Map<string, Known>()
  const ofTool = new Map<number, string[]>()
  const runs: string[] = []
  const versionOf = (tool: number): string => `v${offered.get(tool) ?? 0}`
  const attempt = async (who: string, operation: string, input: object): Promise<any> => on.call(who, operation, input).catch(() => null)
  const callOf = (tool: number, back = 0): Known | undefined => calls.get(ofTool.get(tool)?.at(-1 - back) ?? '')

  async function propose(tool: number, begins: boolean): Promise<void> {
    const definition = { name: `t${tool}`, description: versionOf(tool) }
    const call = await on.call('devin', 'gate/call.propose', { server: 's', tool: `t${tool}`, arguments: {}, definition, begin: begins })
    if (!trusted.has(tool)) trusted.set(tool, offered.get(tool) ?? 0)
    const isTrusted = trusted.get(tool) === (offered.get(tool) ?? 0)
    const known = calls.get(call.call_id) ?? { call, version: versionOf(tool), allowedBy: null }
    if (policy === 'deny') deepEqual(call.state, 'denied')
    if (call.decision === 'allow') {
      ok(policy === 'allow' && isTrusted, `allowed under ${policy}`)
      known.allowedBy = 'allow'
    }
    if (call.state === 'begun') {
      ok(begins && call.decision === 'allow', 'begun by a proposal')
      runs.push(call.call_id)
    }
    if (!calls.has(call.call_id)) ofTool.set(tool, [...(ofTool.get(tool) ?? []), call.call_id])
    calls.set(call.call_id, known)
  }

  async function begin(tool: number, back: number, isOther: boolean): Promise<void> {
    const known = callOf(tool, back)
    if (!known) return
    const { call_id, digest, created_at, expires_at } = known.call
    const now = on.world.kernel.now()
    const begun = await attempt(isOther ? 'other' : 'devin', 'gate/call.begin', { call_id, digest })
    if (begun === null) return
    ok(!isOther, 'another agent began it')
    ok(known.allowedBy !== null, 'nobody allowed it')
    const end = known.allowedBy === 'person' ? Date.parse(expires_at) : Date.parse(created_at) + HOUR_MS
    ok(Number.isNaN(end) || now < end, 'its time was over')
    ok(policy === 'allow' || (policy === 'ask' && known.allowedBy === 'person'), `begun under ${policy}, allowed by ${known.allowedBy}`)
    deepEqual(known.version, `v${trusted.get(tool)}`, 'its definition is the trusted one')
    runs.push(call_id)
  }

  await on.call('owner', 'execution/policy.set', { installation: true, gate: gateOf(policy) })
  for (const step of all) {
    if (step.kind === 'policy') {
      policy = step.then
      await on.call('owner', 'execution/policy.set', { installation: true, gate: gateOf(policy) })
    } else if (step.kind === 'restart') on = await reopen(on, ++restarts)
    else if (step.kind === 'pass') {
      on.world.advance(1.1 * HOUR_MS)
      if (step.isRung) await on.ring()
    } else if (step.kind === 'propose') await propose(step.n, step.begins)
    else if (step.kind === 'change') offered.set(step.n, (offered.get(step.n) ?? 0) + 1)
    else if (step.kind === 'begin') await begin(step.n, step.back, step.isOther)
    else if (step.kind === 'trust') {
      const answer = await attempt('owner', 'gate/tool.trust', { server: 's', tool: `t${step.n}` })
      if (answer !== null) trusted.set(step.n, Number(answer.tool.trusted.definition.description.slice(1)))
    } else if (step.kind === 'answer') {
      const known = callOf(step.n)
      if (!known?.call.request_id) continue
      const answer = await attempt('alice', 'execution/request.resolve', { request_id: known.call.request_id, result: step.result })
      if (answer !== null && step.result === 'approved') known.allowedBy = 'person'
    } else {
      const known = callOf(step.n, step.back)
      const outcome = step.kind === 'conclude' ? { outcome: 'succeeded' } : {}
      if (known) await attempt(step.isOther ? 'other' : 'devin', `gate/call.${step.kind}`, { call_id: known.call.call_id, ...outcome })
    }
  }
  deepEqual(runs.length, new Set(runs).size, 'a call ran twice')
}

const title = 'No sequence of calls, answers, changes and restarts runs what was not allowed, nor anything twice'
test(`${title}, in memory`, async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const on = await stage()
      await enlist(on, 'other')
      // A copy of the disk is all that the next kernel has.
      await play(on, all, (before, seed) => again(before, undefined, { seed }))
    }),
    { numRuns: RUNS },
  )
})

test(`${title}, on SQLite`, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-gate-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  let files = 0
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const file = join(folder, `${++files}.db`)
      let on = await stage('empty', { store: sqliteStore(file) })
      await enlist(on, 'other')
      await play(on, all, async (before, seed) => {
        await before.world.close()
        return (on = await again(before, () => sqliteStore(file), { seed }))
      })
      await on.world.close()
    }),
    { numRuns: RUNS / 10 },
  )
})
