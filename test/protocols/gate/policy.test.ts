// Policies beside the record: rehearsed, suggested from answers, sampled, suspended by the first no, and explained.
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { describe, test } from 'node:test'
import { boundAt95, percent } from '#protocols/gate/rehearsal/exact-bound.ts'
import { conditionsFor } from '#protocols/gate/rehearsal/conditions.ts'
import { stateHash } from '../../support/in-process/world.ts'
import { stage, type Stage } from '../../support/in-process/stage.ts'

const DAY_MS = 86_400_000
const reads = { id: 'reads', tool: 'files/read_*', then: 'allow' }
const setPolicy = (on: Stage, gate: object, scope: object = { installation: true }): Promise<any> =>
  on.call('owner', 'execution/policy.set', { ...scope, gate })
const policy = (...rules: object[]): object => ({ version: 1, default: 'ask', rules })
const propose = (on: Stage, args: object = {}, more: object = {}): Promise<any> =>
  on.call('devin', 'gate/call.propose', { server: 'files', tool: 'read_file', arguments: args, ...more })
const answer = (on: Stage, { request_id }: any, result = 'approved'): Promise<any> =>
  on.call('alice', 'execution/request.resolve', { request_id, result })
const whole = { installation: true, since: 'P30D' }
const tryOut = (on: Stage, gate: object, more: object = whole, as = 'owner'): Promise<any> =>
  on.call(as, 'gate/policy.test', { gate, ...more })
/** Calls that people are asked about, each with its own arguments, and their answers. */
async function answered(on: Stage, count: number, argsOf: (i: number) => object = (i) => ({ i }), result = 'approved'): Promise<any[]> {
  const calls = []
  for (let i = 0; i < count; i++) {
    const call = await propose(on, argsOf(i))
    await answer(on, call, result)
    calls.push(call)
  }
  return calls
}

describe('a rehearsal', () => {
  test('counts what a policy would have done beside what people answered, and changes nothing', async () => {
    const on = await stage()
    await answered(on, 5)
    await answered(on, 2, (i) => ({ path: `/x${i}` }), 'rejected')
    await propose(on, { still: 'waiting' })
    await on.call('devin', 'gate/call.propose', { server: 'db', tool: 'drop', arguments: {} })
    const before = await stateHash(on.world.store)
    const found = await tryOut(on, policy(reads, { id: 'no', tool: 'db/*', then: 'deny' }))
    equal(found.text, 'would have allowed 8, 2 of which a person rejected; asked 0; denied 1, none of which a person approved')
    deepEqual(
      [found.calls, found.allowed, found.denied, found.unknown],
      [9, { calls: 8, approved: 5, rejected: 2 }, { calls: 1, approved: 0, rejected: 0 }, 0],
    )
    const calls = await on.call('owner', 'gate/call.list', { limit: 200 })
    equal(calls.items[0].server, 'db', 'the newest first')
    await on.call('owner', 'gate/policy.why', { call_id: calls.items[0].call_id })
    await on.call('owner', 'gate/policy.suggest', whole)
    equal(await stateHash(on.world.store), before, 'no item, no call, no notice')
  })

  test('is the same at the same time, and another at another', async () => {
    const on = await stage()
    await answered(on, 2)
    const waiting = await propose(on, { waiting: true })
    const first = await tryOut(on, policy(reads))
    on.world.advance(1_000)
    await answer(on, waiting, 'rejected')
    const later = await propose(on, { later: true })
    await answer(on, later)
    const again = await tryOut(on, policy({ ...reads, rehearsal: 'a'.repeat(43) }), { ...whole, until: first.until })
    equal(again.digest, first.digest, 'the digest that a rule carries is left out')
    ok((await tryOut(on, policy(reads))).digest !== first.digest)
  })

  test('looks at the hours in which a call was made, at its hints, and only so far back', async () => {
    const on = await stage()
    await propose(on, {}, { hints: { readOnlyHint: true, other: 'x' } })
    on.world.advance(40 * DAY_MS)
    await propose(on, { second: 1 })
    const hinted = policy({ ...reads, trusted: true, read_only: true })
    deepEqual([(await tryOut(on, hinted)).allowed.calls, (await tryOut(on, hinted, { ...whole, since: 'P60D' })).allowed.calls], [0, 1])
    equal((await tryOut(on, policy(reads), { ...whole, since: 'P60D' })).calls, 2)
    await on.refused('INVALID_REQUEST', 'owner', 'gate/policy.test', { gate: policy(reads), installation: true, since: 'soon' })
    await on.refused('INVALID_REQUEST', 'owner', 'gate/policy.test', { gate: policy({ ...reads, quorum: 2 }), installation: true })
    await on.refused('INVALID_REQUEST', 'owner', 'gate/policy.test', { gate: policy(reads), until: '2999-01-01T00:00:00Z' })
  })

  test('knows conditions only of calls whose arguments were sealed, and never of redacted ones', async () => {
    const on = await stage()
    const small = policy({ ...reads, when: [{ at: '/n', below: 10 }] })
    await propose(on, { n: 1 })
    equal((await tryOut(on, small)).unknown, 1)
    match((await tryOut(on, small)).text, /1 is unknown, because arguments were not kept/)
    await setPolicy(on, policy({ id: 'look', tool: 'files/*', then: 'ask', record: 'sealed', redact: ['/token'] }))
    const call = await propose(on, { n: 2, token: 'hush' })
    await propose(on, { n: 20, token: 'hush' })
    const found = await tryOut(on, small)
    deepEqual([found.allowed.calls, found.asked.calls, found.unknown], [1, 1, 1])
    equal((await tryOut(on, policy({ ...reads, when: [{ at: '/token', is: 'hush' }] }))).unknown, 3, 'redacted')
    equal((await tryOut(on, policy({ ...reads, when: [{ at: '/token', is: '[redacted]' }] }))).unknown, 3)
    const disk = JSON.stringify([...on.disk.docs])
    ok(disk.includes('gate.sealed_arguments') && disk.includes(call.call_id))
    const kept = [...disk.matchAll(/sealed here ([\w-]+)/g)].map(([, text]) => Buffer.from(text!, 'base64url').toString())
    ok(kept.includes('{"n":2,"token":"[redacted]"}') && !kept.some((text) => text.includes('hush')), 'not even sealed')
  })

  test('combines with the other scopes, and is for those who set the policy', async () => {
    const on = await stage()
    await answered(on, 2)
    await setPolicy(on, policy({ id: 'all', tool: '*/*', then: 'ask' }))
    equal((await tryOut(on, policy(reads), {}, 'alice')).allowed.calls, 0, 'the installation asks all the same')
    equal((await tryOut(on, policy(reads))).allowed.calls, 2)
    equal((await tryOut(on, policy(reads), {}, 'bob')).calls, 0, 'bob has no agents')
    await on.refused('UNAUTHORIZED', 'alice', 'gate/policy.test', { gate: policy(reads), installation: true })
    await on.refused('UNAUTHORIZED', 'alice', 'gate/policy.test', { gate: policy(reads), project_id: 'project_default' })
    await on.refused('NOT_FOUND', 'alice', 'gate/policy.suggest', { project_id: 'project_elsewhere' })
    await on.refused('UNAUTHORIZED', 'devin', 'gate/policy.suggest', {})
  })
})

describe('a suggestion', () => {
  test('is the narrowest rule over calls that people answered alike, with the exact bound', async () => {
    const on = await stage()
    await setPolicy(on, policy({ id: 'look', tool: 'files/*', then: 'ask', record: 'sealed' }))
    await answered(on, 19, (i) => ({ path: `/srv/www/${i}.txt`, depth: i, mode: 'text' }))
    deepEqual((await on.call('owner', 'gate/policy.suggest', whole)).items, [], 'nineteen are too few')
    await answered(on, 1, () => ({ path: '/srv/x/20.txt', depth: 3, mode: 'text', more: true }))
    const { items } = await on.call('owner', 'gate/policy.suggest', whole)
    equal(items.length, 1)
    const [{ rule, before, text, rehearsal, scope }] = items
    equal(text, '20 in 30 days, none rejected; at 95 % at most 14 % would be')
    deepEqual([scope, before, rule.then, rule.tool, rule.agent], ['installation', 'look', 'allow', 'files/read_file', 'agent_devin'])
    deepEqual(rule.when, [
      { at: '/depth', at_least: 0, at_most: 18 },
      { at: '/mode', is: 'text' },
      { at: '/path', within: '/srv' },
    ])
    equal(rule.rehearsal, rehearsal.digest)
    const { rehearsal: _, ...bare } = rule
    const tried = await tryOut(on, policy(bare, { id: 'look', tool: 'files/*', then: 'ask', record: 'sealed' }), {
      ...whole,
      until: rehearsal.until,
    })
    equal(tried.digest, rule.rehearsal, 'the rehearsal can be repeated')
    await setPolicy(on, policy(rule, { id: 'look', tool: 'files/*', then: 'ask', record: 'sealed' }))
    deepEqual((await on.call('owner', 'gate/policy.suggest', whole)).items, [], 'it counts already')
  })

  test('is not made of mixed answers, but of the part of them that has an argument in common', async () => {
    const on = await stage()
    await setPolicy(on, policy({ id: 'look', tool: 'files/*', then: 'ask', record: 'sealed' }))
    await answered(on, 20, (i) => ({ repo: 'docs', i }))
    await answered(on, 20, (i) => ({ repo: 'secrets', i }), 'rejected')
    const { items } = await on.call('owner', 'gate/policy.suggest', whole)
    deepEqual(
      items.map(({ rule, text }: any) => [rule.then, rule.when.find(({ at }: any) => at === '/repo').is, text.split(';')[0]]).toSorted(),
      [
        ['allow', 'docs', '20 in 30 days, none rejected'],
        ['deny', 'secrets', '20 in 30 days, none approved'],
      ],
    )
  })

  test('is never made for R4, for named people, or from a floor above the rule', async () => {
    for (const demand of [{ risk: 'R4' }, { whom: { people: ['user_alice'] } }]) {
      const on = await stage()
      await setPolicy(on, policy({ id: 'look', tool: 'files/*', then: 'ask', ...demand }))
      await answered(on, 20)
      deepEqual((await on.call('owner', 'gate/policy.suggest', whole)).items, [], JSON.stringify(demand))
    }
    const on = await stage()
    await on.call('alice', 'execution/policy.set', { floors: [{ agent_id: 'agent_devin', risk: 'R4' }] })
    await answered(on, 20)
    deepEqual((await on.call('owner', 'gate/policy.suggest', whole)).items, [])
    const plain = await stage()
    await answered(plain, 20)
    const [{ text }] = (await plain.call('alice', 'gate/policy.suggest', {})).items
    match(text, /^20 in 30 days, none rejected; .*Arguments were not kept/)
  })

  test('has conditions that hold for all calls and for little else', () => {
    deepEqual(
      conditionsFor([
        { a: 1, b: { c: 'x' } },
        { a: 1, b: { c: 'y' }, d: 2 },
      ]),
      [
        { at: '/a', is: 1 },
        { at: '/b/c', in: ['x', 'y'] },
      ],
    )
    deepEqual(conditionsFor([{ p: '/a/b' }, { p: '/c/d' }]), [{ at: '/p', in: ['/a/b', '/c/d'] }], 'only the root holds both')
    deepEqual(conditionsFor([{ p: '/a/../b' }, { p: '/a/c' }]), [{ at: '/p', in: ['/a/../b', '/a/c'] }])
    deepEqual(conditionsFor([{ 'a/b': [1] }, { 'a/b': [1] }]), [{ at: '/a~1b', is: [1] }])
    deepEqual(conditionsFor(Array.from({ length: 60 }, (_, i) => ({ text: `t${i}` }))), [], 'too many values')
  })

  test('states the exact bound of Clopper and Pearson', () => {
    equal(percent(boundAt95(0, 214)), '1.4 %')
    for (const n of [1, 20, 214, 5_000]) ok(Math.abs(boundAt95(0, n) - (1 - 0.05 ** (1 / n))) < 1e-9, String(n))
    ok(Math.abs(boundAt95(3, 214) - 0.0358) < 0.0005)
    equal(boundAt95(4, 4), 1)
  })
})

describe('a sampled rule', () => {
  const earned = { ...reads, rehearsal: 'a'.repeat(43) }
  /** Proposes until a call is asked about. */
  async function asked(on: Stage, from = 0): Promise<any> {
    for (let i = from; i < from + 400; i++) {
      const call = await propose(on, { i })
      if (call.state === 'waiting') return call
    }
    throw new Error('none was asked about')
  }

  test('asks about one in twenty calls', async () => {
    const on = await stage()
    await setPolicy(on, policy(earned))
    let count = 0
    for (let i = 0; i < 400; i++) if ((await propose(on, { i })).state === 'waiting') count++
    ok(count >= 6 && count <= 40, `${count} of 400`)
  })

  test('is suspended by the first no, says so, and an owner lets it allow again', async () => {
    const on = await stage()
    await setPolicy(on, policy(earned))
    const call = await asked(on)
    deepEqual([call.rule, call.decision], ['reads', 'ask'])
    match(call.reason, /one of the sampled calls that still go to a person/)
    await answer(on, call)
    const second = await asked(on, 400)
    await answer(on, second, 'rejected')
    const suspended = await propose(on, { after: 1 })
    deepEqual([suspended.state, suspended.rule], ['waiting', 'reads'])
    match(suspended.reason, /suspended/)
    const got = await on.call('owner', 'execution/policy.get', { installation: true })
    deepEqual(
      got.suspended.map(({ rule, call_id, by }: any) => [rule, call_id, by]),
      [['reads', second.call_id, 'user_alice']],
    )
    const why = await on.call('alice', 'gate/policy.why', { call_id: suspended.call_id })
    match(why.text, new RegExp(`asked by rule reads of installation.*suspended since .* user_alice rejected ${second.call_id}`))
    const { items: facts } = await on.call('owner', 'audit.query', { action: 'rule.suspended' })
    deepEqual(
      facts.map(({ detail }: any) => detail),
      [{ scope: 'installation', rule: 'reads' }],
    )
    const { items } = await on.call('owner', 'execution/inbox.list', {})
    const item = items.find(({ title }: any) => /rule reads/.test(title))
    ok(item, 'an owner of the installation is told in the inbox')
    await setPolicy(on, policy(earned, { id: 'other', tool: 'x/y', then: 'deny' }))
    equal((await propose(on, { after: 2 })).state, 'waiting', 'another rule of the policy changes nothing')
    await on.call('owner', 'execution/request.resolve', { request_id: item.request_id, result: 'approved' })
    deepEqual((await on.call('owner', 'execution/policy.get', { installation: true })).suspended, [])
    const states = []
    for (let i = 0; i < 20; i++) states.push((await propose(on, { again: i })).state)
    ok(states.includes('approved'))
  })

  test('stays suspended after a no to that question, and a changed rule is another one', async () => {
    const on = await stage()
    await setPolicy(on, policy({ ...reads, sample: 1 }))
    await answer(on, await propose(on), 'rejected')
    const { items } = await on.call('owner', 'execution/inbox.list', {})
    await on.call('owner', 'execution/request.resolve', { request_id: items[0].request_id, result: 'rejected' })
    equal((await on.call('owner', 'execution/policy.get', { installation: true })).suspended.length, 1)
    await setPolicy(on, policy({ ...reads, sample: 10_000 }))
    deepEqual((await on.call('owner', 'execution/policy.get', { installation: true })).suspended, [])
  })

  test('owes a sample that was withdrawn: the next call is asked', async () => {
    const on = await stage()
    await setPolicy(on, policy(earned))
    const call = await asked(on)
    await on.call('devin', 'gate/call.cancel', { call_id: call.call_id })
    const next = await propose(on, { next: 1 })
    equal(next.state, 'waiting')
    await answer(on, next)
    const states = []
    for (let i = 0; i < 20; i++) states.push((await propose(on, { again: i })).state)
    ok(states.includes('approved'), 'it is owed once')
  })
})

describe('scopes, grants and reasons', () => {
  test('people whom all scopes name answer, and without enough of them it is denied', async () => {
    const on = await stage()
    const ask = (people: string[], more: object = {}): object =>
      policy({ id: 'who', tool: 'files/*', then: 'ask', whom: { people }, ...more })
    await setPolicy(on, ask(['user_alice', 'user_rita'], { quorum: 2 }))
    await on.call('alice', 'execution/policy.set', { gate: ask(['user_alice']) })
    const call = await propose(on)
    deepEqual([call.state, call.reason], ['denied', 'the rules ask for 2 people, and name 1 of this project together'])
  })

  test('a grant of the task allows what a rule asks, uses it up, and only below R4', async () => {
    const on = await stage('in_progress')
    const { id: task_id } = on.refs['task']
    const scope = 'gate:files/read_file'
    await on.call('alice', 'grant.add', { task_id, scope, decision: 'allow', until: 'task', uses: 1 })
    const first = await propose(on, { a: 1 }, { task_id })
    deepEqual([first.state, first.basis.kind], ['approved', 'grant'])
    /** A question blocks the task until it is answered. */
    const isAsked = async (a: number): Promise<boolean> => {
      const call = await propose(on, { a }, { task_id })
      if (call.state === 'waiting') await answer(on, call)
      return call.state === 'waiting'
    }
    equal(await isAsked(2), true, 'it had one use')
    await on.call('alice', 'grant.add', { task_id, scope, decision: 'allow', until: 'task' })
    await setPolicy(on, policy({ id: 'big', tool: 'files/*', then: 'ask', risk: 'R4' }))
    equal(await isAsked(3), true)
    await setPolicy(on, policy({ id: 'who', tool: 'files/*', then: 'ask', whom: { people: ['user_alice'] } }))
    equal(await isAsked(4), true)
    await setPolicy(on, policy(reads))
    await on.call('alice', 'grant.add', { task_id, scope: 'gate:*', decision: 'deny', until: 'task' })
    const denied = await propose(on, { a: 5 }, { task_id })
    deepEqual([denied.state, denied.basis.kind], ['denied', 'grant'])
  })

  test('several calls of one task are asked about at a time, each of its people alone, and none begins after the task has ended', async () => {
    const on = await stage('in_progress')
    const { id: task_id } = on.refs['task']
    const calls = [
      await propose(on, { a: 1 }, { task_id }),
      await propose(on, { a: 2 }, { task_id }),
      await propose(on, { a: 3 }, { task_id }),
    ]
    deepEqual(
      calls.map(({ state }) => state),
      ['waiting', 'waiting', 'waiting'],
    )
    equal((await on.task()).state, 'blocked')
    const answers = calls.map(({ request_id }) => ({ request_id, result: 'approved' }))
    await on.refused('NOT_FOUND', 'bob', 'execution/request.resolve', answers[1]!)
    for (const answer of answers) await on.call('alice', 'execution/request.resolve', answer)
    equal((await on.task()).state, 'in_progress')
    const begin = ({ call_id, digest }: any): object => ({ call_id, digest })
    for (const call of calls.slice(0, 2)) equal((await on.call('devin', 'gate/call.begin', begin(call))).state, 'begun')
    await on.call('alice', 'task.cancel', { task_id })
    const late = await on.refused('CALL_NOT_APPROVED', 'devin', 'gate/call.begin', begin(calls[2]))
    ok(late.message.includes('no longer works on the task'))
    await on.refused('NOT_FOUND', 'devin', 'gate/call.propose', { server: 's', tool: 't', arguments: {}, task_id })
  })

  test('a call of a task that was not started yet is asked about', async () => {
    const on = await stage('assigned')
    const call = await propose(on, { a: 1 }, { task_id: on.refs['task'].id })
    equal(call.state, 'waiting')
    await on.call('alice', 'execution/request.resolve', { request_id: call.request_id, result: 'approved' })
    equal((await on.call('devin', 'gate/call.begin', { call_id: call.call_id, digest: call.digest })).state, 'begun')
  })

  test('every decision has its reason', async () => {
    const on = await stage()
    const why = async (call: any, as = 'alice'): Promise<any> => on.call(as, 'gate/policy.why', { call_id: call.call_id })
    const unruled = await propose(on)
    equal((await why(unruled)).text, 'It was asked because there is no policy. Today it would be asked.')
    await answer(on, unruled, 'rejected')
    match((await why(unruled)).text, /^It was asked because there is no policy; user_alice rejected it: a person rejected it\./)
    await setPolicy(on, policy({ id: 'no', tool: 'db/*', then: 'deny', reason: 'use a migration' }, reads))
    const denied = await propose(on, {}, { server: 'db', tool: 'drop' })
    const found = await why(denied)
    equal(found.text, 'It was denied by rule no of installation: use a migration. Today it would be denied by rule no of installation.')
    deepEqual([found.rule.id, found.policy.changed, found.today.rule], ['no', false, 'no'])
    await setPolicy(on, policy({ id: 'no', tool: 'db/*', when: [{ at: '/sql', matches: 'drop' }], then: 'deny' }))
    const changed = await why(denied)
    deepEqual([changed.rule, changed.policy.changed, changed.today.verdict], [null, true, null])
    match(changed.text, /unknown: its arguments were not kept/)
    await on.refused('UNAUTHORIZED', 'devin', 'gate/policy.why', { call_id: denied.call_id })
    await on.refused('NOT_FOUND', 'mallory', 'gate/policy.why', { call_id: denied.call_id })
  })
})
