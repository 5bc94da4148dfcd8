// The decision of a hook: what it asks the gate for, and what it makes of the answer.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CHECK_TOOL, decide, refusal, type CallView, type Gate, type Memory } from '#bridges/hooks/decide.ts'
import { dialects, type Late } from '#bridges/hooks/dialects.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { shellOf } from './events.ts'

const view = (fields: Partial<CallView>): CallView => ({
  call_id: 'call_1',
  state: 'approved',
  rule: null,
  risk: null,
  reason: null,
  instead: null,
  request_id: null,
  url: null,
  digest: 'd1',
  ...fields,
})
const call = { ...dialects['claude-code'].read({ ...shellOf('claude-code') })!, server: 'claude-code' }

/** Answers in turn; time passes with each wait. */
function gateWith(...views: readonly (CallView | Error)[]): Gate & { readonly calls: [string, object][]; isEnding: boolean } {
  const calls: [string, object][] = []
  let now = 0
  let next = 0
  const gate = {
    calls,
    isEnding: false,
    now: () => now,
    isOver: () => gate.isEnding,
    async call(operation: string, input: object) {
      calls.push([operation, input])
      if (operation === 'gate/call.await') now += (input as { wait_seconds: number }).wait_seconds * 1000
      const found = views[Math.min(next++, views.length - 1)]!
      if (found instanceof Error) throw found
      return found
    },
  }
  return gate
}
function memory(): Memory & { readonly texts: Map<string, string> } {
  const texts = new Map<string, string>()
  return {
    texts,
    read: async (key) => texts.get(key) ?? null,
    write: async (key, text) => !texts.has(key) && texts.set(key, text).has(key),
    remove: async (key, text) => void (texts.get(key) === text && texts.delete(key)),
  }
}
const names = ({ calls }: { readonly calls: readonly [string, object][] }): string[] => calls.map(([name]) => name)

describe('the decision of a hook', () => {
  it('an allowed call is begun with its digest before the tool runs', async () => {
    const gate = gateWith(view({ rule: 'reads' }))
    assert.deepEqual(await decide(gate, 'claude-code', call, { waitMs: 1000, late: 'ask' }, memory()), {
      kind: 'allow',
      reason: 'Countersign allowed claude-code/Bash (rule reads)',
    })
    assert.deepEqual(names(gate), ['gate/call.propose', 'gate/call.begin'])
    assert.deepEqual(gate.calls[1]![1], { call_id: 'call_1', digest: 'd1' })
    assert.deepEqual((gate.calls[0]![1] as { definition: unknown }).definition, null)
  })

  it('an approval that another collection used up runs nothing', async () => {
    const gate = gateWith(view({}), new Refusal('CONFLICT', 'the approval is used up'))
    await assert.rejects(decide(gate, 'claude-code', call, { waitMs: 1000, late: 'ask' }, memory()), /used up/)
  })

  it('an answer without a call runs nothing', async () => {
    for (const answer of [{}, null, { state: 'approved' }])
      await assert.rejects(decide(gateWith(answer as CallView), 'claude-code', call, { waitMs: 1, late: 'ask' }, memory()), TypeError)
  })

  for (const state of ['denied', 'expired', 'cancelled', 'begun', 'ended', 'nonsense'])
    it(`a call that is ${state} is denied with a reason`, async () => {
      const verdict = await decide(gateWith(view({ state })), 'claude-code', call, { waitMs: 1, late: 'ask' }, memory())
      assert.equal(verdict.kind, 'deny')
      assert.match(verdict.reason, /was not run/)
    })

  it('rules, people, silence and withdrawal have texts of their own', () => {
    const states: Partial<CallView>[] = [
      { state: 'denied', rule: 'no-drop' },
      { state: 'denied', request_id: 'hxp_1' },
      { state: 'expired' },
      { state: 'cancelled' },
      { state: 'begun' },
    ]
    const texts = states.map((fields) => refusal(view({ ...fields, reason: 'because', instead: 'use a migration' }), 'db/query'))
    assert.equal(new Set(texts).size, texts.length)
    assert.match(texts[0]!, /rule no-drop denies it: because\. Instead: use a migration/)
    for (const text of texts.slice(2)) assert.doesNotMatch(text, /reject|denie/)
  })

  for (const late of ['ask', 'deny', 'defer'] satisfies Late[])
    it(`a late call answers ${late}, and its item learns that nobody waits`, async () => {
      const gate = gateWith(view({ state: 'waiting', request_id: 'hxp_1', url: 'http://x/inbox/hxp_1' }))
      const verdict = await decide(gate, 'claude-code', call, { waitMs: 540_000, late }, memory())
      assert.equal(verdict.kind, late)
      assert.match(verdict.reason, /not run yet.*hxp_1 \(http:\/\/x\/inbox\/hxp_1\).*same arguments/)
      assert.equal(names(gate).at(-1), 'gate/call.leave')
      assert.equal(gate.now(), 540_000)
    })

  it('a late question of R4 is not left to the person at the terminal of the agent', async () => {
    for (const [risk, kind] of [
      ['R3', 'ask'],
      ['R4', 'deny'],
    ] as const)
      assert.equal(
        (await decide(gateWith(view({ state: 'waiting', risk })), 'claude-code', call, { waitMs: 1_000, late: 'ask' }, memory())).kind,
        kind,
      )
  })

  const defer = { waitMs: 1000, late: 'defer' } as const
  const other = { ...call, arguments: { command: 'other' }, use: 'toolu_2' }

  it('one of two deferred calls of a turn is denied, and its item does not stay open', async () => {
    const shared = memory()
    const first = await decide(gateWith(view({ state: 'waiting' })), 'claude-code', call, defer, shared)
    const gate = gateWith(view({ state: 'waiting', call_id: 'call_2' }))
    const second = await decide(gate, 'claude-code', other, defer, shared)
    assert.deepEqual([first.kind, second.kind], ['defer', 'deny'])
    assert.match(second.reason, /Call again/)
    assert.deepEqual(gate.calls.at(-1), ['gate/call.cancel', { call_id: 'call_2' }])
    // The resumed session collects the first, then the second can be deferred.
    await decide(gateWith(view({})), 'claude-code', call, defer, shared)
    assert.equal(shared.texts.size, 0)
    const third = await decide(gateWith(view({ state: 'waiting', call_id: 'call_2' })), 'claude-code', other, defer, shared)
    assert.equal(third.kind, 'defer')
  })

  it('one of two equal deferred calls is denied, and their one item stays open', async () => {
    const shared = memory()
    await decide(gateWith(view({ state: 'waiting' })), 'claude-code', call, defer, shared)
    const gate = gateWith(view({ state: 'waiting' }))
    const twin = await decide(gate, 'claude-code', { ...call, use: 'toolu_2' }, defer, shared)
    assert.equal(twin.kind, 'deny')
    assert.equal(names(gate).includes('gate/call.cancel'), false)
    // Claude Code sends the deferred one again when the session is resumed.
    assert.equal((await decide(gateWith(view({ state: 'waiting' })), 'claude-code', call, defer, shared)).kind, 'defer')
  })

  it('a deferred call that expired does not keep the session from deferring another', async () => {
    const shared = memory()
    await decide(gateWith(view({ state: 'waiting' })), 'claude-code', call, defer, shared)
    const waiting = view({ state: 'waiting', call_id: 'call_2' })
    const gate = gateWith(waiting, waiting, view({ state: 'expired' }), waiting)
    assert.equal((await decide(gate, 'claude-code', other, defer, shared)).kind, 'defer')
  })

  for (const state of ['denied', 'expired', 'cancelled'])
    it(`a call that was left and is ${state} meanwhile brings that answer once, then it is asked about again`, async () => {
      const shared = memory()
      await decide(gateWith(view({ state: 'waiting' })), 'claude-code', call, { waitMs: 1000, late: 'deny' }, shared)
      const gate = gateWith(view({ state, request_id: 'hxp_1' }))
      assert.equal((await decide(gate, 'claude-code', call, { waitMs: 1000, late: 'deny' }, shared)).kind, 'deny')
      assert.deepEqual(names(gate), ['gate/call.get'])
      const next = gateWith(view({}))
      await decide(next, 'claude-code', call, { waitMs: 1000, late: 'deny' }, shared)
      assert.deepEqual(names(next), ['gate/call.propose', 'gate/call.begin'])
    })

  it('a call that was left and has run elsewhere, or is gone, is proposed again', async () => {
    for (const found of [view({ state: 'begun' }), new Refusal('NOT_FOUND', 'no such call')]) {
      const shared = memory()
      await decide(gateWith(view({ state: 'waiting' })), 'claude-code', call, { waitMs: 1000, late: 'deny' }, shared)
      const gate = gateWith(found, view({}))
      await decide(gate, 'claude-code', call, { waitMs: 1000, late: 'deny' }, shared)
      assert.deepEqual(names(gate), ['gate/call.get', 'gate/call.propose', 'gate/call.begin'])
    }
  })

  it('nothing waits, and no approval is used up, for an agent that is gone', async () => {
    for (const state of ['waiting', 'approved']) {
      const gate = gateWith(view({ state }))
      gate.isEnding = true
      assert.equal((await decide(gate, 'claude-code', call, { waitMs: 540_000, late: 'ask' }, memory())).kind, 'deny')
      assert.deepEqual(names(gate), ['gate/call.propose', 'gate/call.leave'])
    }
  })

  it('long names of sessions and sub-agents are cut to their bounds', async () => {
    const gate = gateWith(view({}))
    const long = { ...call, session: 's'.repeat(1000), subAgent: 'a'.repeat(1000) }
    await decide(gate, 'claude-code', long, { waitMs: 1000, late: 'ask' }, memory())
    const { client } = gate.calls[0]![1] as { client: { session_id: string; sub_agent: string } }
    assert.deepEqual([client.session_id.length, client.sub_agent.length], [200, 200])
  })

  it('a check is denied and proposes nothing', async () => {
    const gate = gateWith(view({}))
    const verdict = await decide(gate, 'claude-code', { ...call, tool: CHECK_TOOL }, { waitMs: 1000, late: 'ask' }, memory())
    assert.equal(verdict.kind, 'deny')
    assert.deepEqual(names(gate), ['gate/call.list'])
  })
})
