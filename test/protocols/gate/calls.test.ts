// Calls at the gate: allowed, asked and denied by policy, answered by people, run once with what was approved.
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { again, stage, type Stage } from '../../support/in-process/stage.ts'

const definition = { name: 'transfer', inputSchema: { type: 'object' } }
const transfer = { server: 'pay', tool: 'transfer', arguments: { amount: 50, token: 'hush' }, definition }

const allowReads = { version: 1, default: 'ask', rules: [{ id: 'reads', tool: 'files/read_*', then: 'allow' }] }
const setPolicy = (on: Stage, gate: object): Promise<any> => on.call('owner', 'execution/policy.set', { installation: true, gate })
const propose = (on: Stage, input: object = transfer): Promise<any> => on.call('devin', 'gate/call.propose', input)
const answer = async (on: Stage, call: any, result: string): Promise<any> =>
  on.call('alice', 'execution/request.resolve', { request_id: call.request_id, result })
const begin = (on: Stage, { call_id, digest }: any): Promise<any> => on.call('devin', 'gate/call.begin', { call_id, digest })

describe('a call at the gate', () => {
  test('is allowed by a rule, runs once, and ends with a digest of its result', async () => {
    const on = await stage()
    await setPolicy(on, allowReads)
    const call = await propose(on, { server: 'files', tool: 'read_file', arguments: { path: '/a' } })
    deepEqual([call.state, call.decision, call.rule, call.request_id], ['approved', 'allow', 'reads', null])
    equal((await begin(on, call)).state, 'begun')
    await on.refused('CALL_USED', 'devin', 'gate/call.begin', { call_id: call.call_id, digest: call.digest })
    const ended = await on.call('devin', 'gate/call.conclude', { call_id: call.call_id, outcome: 'succeeded', size: 3, hash: 'abc' })
    deepEqual([ended.state, ended.outcome, ended.result.size], ['ended', 'succeeded', 3])
    const again = await propose(on, { server: 'files', tool: 'read_file', arguments: { path: '/a' } })
    ok(again.call_id !== call.call_id, 'an equal allowed call is a call of its own')
  })

  test('is begun in the batch that allows it if the gate wants so, and never if people are asked or a rule denies it', async () => {
    const on = await stage()
    await setPolicy(on, { ...allowReads, rules: [...allowReads.rules, { id: 'no', tool: 'pay/*', then: 'deny' }] })
    const read = { server: 'files', tool: 'read_file', arguments: { path: '/a' }, begin: true }
    const call = await propose(on, read)
    deepEqual([call.state, call.rule, call.begun_at], ['begun', 'reads', call.decided_at])
    await on.refused('CALL_USED', 'devin', 'gate/call.begin', { call_id: call.call_id, digest: call.digest })
    ok((await propose(on, read)).call_id !== call.call_id, 'a begun call is not handed out again')
    const { items } = await on.call('owner', 'collaboration/audit.query', { subject_id: call.call_id })
    deepEqual(items.map(({ action }: any) => action).toSorted(), ['call.allowed', 'call.begun'])
    const asked = await propose(on, { ...read, tool: 'write_file' })
    equal(asked.state, 'waiting')
    await answer(on, asked, 'approved')
    equal((await propose(on, { ...read, tool: 'write_file' })).state, 'approved', 'the gate begins it, with the digest that was approved')
    equal((await propose(on, { ...transfer, begin: true })).state, 'denied')
  })

  test('is waited for together with others, by its own agent alone', async () => {
    const on = await stage()
    const [one, other] = [await propose(on), await propose(on, { ...transfer, arguments: { amount: 51 } })]
    const both = { call_ids: [one.call_id, other.call_id] }
    deepEqual((await on.call('devin', 'gate/call.await_any', both)).items, [])
    await answer(on, other, 'approved')
    deepEqual(
      (await on.call('devin', 'gate/call.await_any', both)).items.map(({ call_id, state }: any) => [call_id, state]),
      [[other.call_id, 'approved']],
    )
    await on.refused('UNAUTHORIZED', 'alice', 'gate/call.await_any', both)
    await on.refused('NOT_FOUND', 'devin', 'gate/call.await_any', { call_ids: [one.call_id, 'call_none'] })
    await on.refused('INVALID_REQUEST', 'devin', 'gate/call.await_any', { call_ids: [] })
  })

  test('is denied with rule and reason, and never begins', async () => {
    const on = await stage()
    await setPolicy(on, {
      version: 1,
      rules: [{ id: 'no', tool: 'pay/*', then: 'deny', reason: 'use the shop', instead: 'call shop/buy' }],
    })
    const call = await propose(on)
    deepEqual([call.state, call.rule, call.reason, call.instead], ['denied', 'no', 'use the shop', 'call shop/buy'])
    await on.refused('CALL_NOT_APPROVED', 'devin', 'gate/call.begin', { call_id: call.call_id, digest: call.digest })
  })

  test('is asked in the inbox with its arguments, and the same call finds its question', async () => {
    const on = await stage()
    const call = await propose(on)
    equal(call.state, 'waiting')
    equal((await propose(on)).call_id, call.call_id)
    const { request } = await on.call('alice', 'execution/request.get', { request_id: call.request_id })
    equal(request.payload.item, 'Run pay/transfer')
    deepEqual(request.payload.details, {
      server: 'pay',
      tool: 'transfer',
      arguments: transfer.arguments,
      rule: null,
      call_id: call.call_id,
      changed: false,
    })
    await on.refused('CALL_NOT_APPROVED', 'devin', 'gate/call.begin', { call_id: call.call_id, digest: call.digest })
    await answer(on, call, 'approved')
    const approved = await propose(on)
    deepEqual([approved.call_id, approved.state, approved.basis], [call.call_id, 'approved', { kind: 'human', id: 'user_alice' }])
    await on.refused('CALL_MISMATCH', 'devin', 'gate/call.begin', { call_id: call.call_id, digest: 'other' })
    await begin(on, approved)
    const next = await propose(on)
    ok(next.call_id !== call.call_id && next.state === 'waiting', 'a used approval is asked for again')
  })

  test('is listed after a restart with all that wait, and says whose it is and whether a client waits', async () => {
    const before = await stage()
    const one = await propose(before, { ...transfer, client: { name: 'claude-code', session_id: 's1' } })
    const two = await propose(before, { ...transfer, arguments: { amount: 51 } })
    await before.call('devin', 'gate/call.leave', { call_id: two.call_id })
    const three = await before.call('robin', 'gate/call.propose', transfer)
    const on = await again(before)
    const { items } = await on.call('alice', 'gate/call.list', { state: 'waiting' })
    deepEqual(
      items.map((call: any) => [call.call_id, call.agent_id, call.unattended, call.client]),
      [
        [three.call_id, 'agent_robin', false, {}],
        [two.call_id, 'agent_devin', true, {}],
        [one.call_id, 'agent_devin', false, { name: 'claude-code', session_id: 's1' }],
      ],
    )
    await answer(on, two, 'approved')
    equal((await begin(on, two)).state, 'begun')
    for (const call of [one, three])
      equal((await on.call('alice', 'gate/call.get', { call_id: call.call_id })).state, 'waiting', 'the answer is for one of them')
  })

  test('is rejected with the reason of the person', async () => {
    const on = await stage()
    const call = await propose(on)
    await on.call('alice', 'execution/request.resolve', { request_id: call.request_id, result: 'rejected', reason: 'too much' })
    const after = await on.call('devin', 'gate/call.get', { call_id: call.call_id })
    deepEqual([after.state, after.reason, after.basis.kind], ['denied', 'too much', 'human'])
  })

  test('is declined like a no, and cancelled together with its question', async () => {
    const on = await stage()
    const [one, two] = [await propose(on), await propose(on, { ...transfer, arguments: { amount: 51 } })]
    await on.call('alice', 'execution/request.decline', { request_id: one.request_id, reason: 'not mine' })
    equal((await on.call('devin', 'gate/call.get', { call_id: one.call_id })).state, 'denied')
    await on.call('devin', 'gate/call.cancel', { call_id: two.call_id })
    const { request } = await on.call('alice', 'execution/request.get', { request_id: two.request_id })
    equal(request.status, 'cancelled')
    await on.refused('PRECONDITION_FAILED', 'devin', 'gate/call.cancel', { call_id: two.call_id })
  })

  test('expires with its rule, and nothing runs', async () => {
    const on = await stage()
    await setPolicy(on, { version: 1, rules: [{ id: 'soon', tool: 'pay/*', then: 'ask', expires: 'PT1H' }] })
    const call = await propose(on)
    on.world.advance(3_601_000)
    await on.ring()
    const after = await on.call('devin', 'gate/call.get', { call_id: call.call_id })
    deepEqual([after.state, after.reason], ['expired', 'nobody answered in time'])
    await on.refused('CALL_NOT_APPROVED', 'devin', 'gate/call.begin', { call_id: call.call_id, digest: call.digest })
  })

  test('that was approved begins within the time of its question, and is asked about again afterwards', async () => {
    const on = await stage()
    await setPolicy(on, { version: 1, rules: [{ id: 'soon', tool: 'pay/*', then: 'ask', expires: 'PT1H' }] })
    const call = await propose(on)
    await answer(on, call, 'approved')
    on.world.advance(3_601_000)
    const late = await on.refused('CALL_NOT_APPROVED', 'devin', 'gate/call.begin', { call_id: call.call_id, digest: call.digest })
    match(late.message, /the approval was not used in time: propose the call again/)
    const shown = async (): Promise<any> => on.call('devin', 'gate/call.get', { call_id: call.call_id })
    const expired = ['expired', { kind: 'human', id: 'user_alice' }, 'the approval was not used in time']
    const { state, basis, reason, ended_at, expires_at } = await shown()
    deepEqual([state, basis, reason], expired)
    equal(ended_at, expires_at)
    for (const operation of ['call.await', 'call.list', 'call.await_any']) {
      const input =
        operation === 'call.await'
          ? { call_id: call.call_id }
          : operation === 'call.list'
            ? { state: 'expired' }
            : { call_ids: [call.call_id] }
      const found = await on.call('devin', `gate/${operation}`, input)
      equal((found.items?.[0] ?? found).state, 'expired', operation)
    }
    deepEqual((await on.call('alice', 'gate/call.list', { state: 'approved' })).items, [])
    const next = await propose(on)
    deepEqual([next.state, next.call_id === call.call_id], ['waiting', false])
    const { items } = await on.call('owner', 'collaboration/audit.query', { subject_id: call.call_id })
    ok(items.some(({ action }: any) => action === 'call.expired'))
    await on.refused('CALL_NOT_APPROVED', 'devin', 'gate/call.begin', { call_id: call.call_id, digest: call.digest })
    await answer(on, next, 'approved')
    equal((await begin(on, next)).state, 'begun')
  })

  test('has more time where a person gives its question more, and never where its agent does', async () => {
    const on = await stage()
    await setPolicy(on, { version: 1, rules: [{ id: 'soon', tool: 'pay/*', then: 'ask', expires: 'PT1H' }] })
    const call = await propose(on)
    const more = { request_id: call.request_id, timeout_seconds: 7_200 }
    await on.refused('UNAUTHORIZED', 'devin', 'execution/request.extend', more)
    const { request } = await on.call('alice', 'execution/request.extend', more)
    on.world.advance(3_601_000)
    await on.ring()
    await answer(on, call, 'approved')
    const approved = await on.call('devin', 'gate/call.get', { call_id: call.call_id })
    equal(approved.expires_at, request.expires_at)
    const late = await again(on)
    late.world.advance(3_601_000)
    await late.refused('CALL_NOT_APPROVED', 'devin', 'gate/call.begin', { call_id: call.call_id, digest: call.digest })
    equal((await begin(on, call)).state, 'begun')
    const unbound = await propose(on, { ...transfer, arguments: { amount: 51 } })
    await on.call('alice', 'execution/request.extend', { request_id: unbound.request_id, timeout_seconds: 0 })
    await answer(on, unbound, 'approved')
    on.world.advance(30 * 86_400_000)
    equal((await begin(on, unbound)).state, 'begun', 'without a deadline, an approval waits')
  })

  test('hides redacted arguments from people', async () => {
    const on = await stage()
    await setPolicy(on, { version: 1, rules: [{ id: 'big', tool: 'pay/*', then: 'ask', redact: ['/token'] }] })
    const call = await propose(on)
    const { request } = await on.call('alice', 'execution/request.get', { request_id: call.request_id })
    deepEqual(request.payload.details.arguments, { amount: 50, token: '[redacted]' })
  })

  test('waits for the people and the quorum of its rule', async () => {
    const on = await stage()
    const people = ['user_alice', 'user_rita']
    await setPolicy(on, { version: 1, rules: [{ id: 'two', tool: 'pay/*', then: 'ask', risk: 'R4', whom: { people }, quorum: 2 }] })
    const call = await propose(on)
    await answer(on, call, 'approved')
    equal((await on.call('devin', 'gate/call.get', { call_id: call.call_id })).state, 'waiting', 'one of two')
    await on.call('rita', 'execution/request.resolve', { request_id: call.request_id, result: 'approved' })
    equal((await on.call('devin', 'gate/call.get', { call_id: call.call_id })).state, 'approved')
  })

  test('is answered by those whom the rules for approvals name, and a grant of another person does not spare the question', async () => {
    const on = await stage('in_progress')
    await setPolicy(on, { version: 1, rules: [{ id: 'pay', tool: 'pay/*', then: 'ask', risk: 'R3' }] })
    const { id: task_id } = on.refs['task']
    await on.call('alice', 'grant.add', { task_id, scope: 'gate:pay/transfer', decision: 'allow', until: 'task' })
    equal((await propose(on, { ...transfer, task_id })).state, 'approved', 'without a rule, the grant spares it')
    const approvals = [{ from_risk: 'R3', by: { people: ['user_rita'] } }]
    await on.call('owner', 'execution/policy.set', { installation: true, approvals })
    const call = await propose(on, { ...transfer, task_id, arguments: { amount: 51 } })
    equal(call.state, 'waiting')
    await on.refused('UNAUTHORIZED', 'alice', 'execution/request.resolve', { request_id: call.request_id, result: 'approved' })
    await on.call('rita', 'execution/request.resolve', { request_id: call.request_id, result: 'approved' })
    equal((await on.call('devin', 'gate/call.get', { call_id: call.call_id })).state, 'approved')
  })

  test('with a changed definition does not run until an owner trusts it, not even by an allow', async () => {
    const on = await stage()
    await setPolicy(on, { version: 1, default: 'allow', rules: [] })
    equal((await propose(on)).state, 'approved', 'the first definition is trusted')
    const changed = await propose(on, { ...transfer, definition: { ...definition, description: 'now evil' } })
    deepEqual([changed.state, changed.changed], ['waiting', true])
    await answer(on, changed, 'approved')
    await on.refused('TOOL_CHANGED', 'devin', 'gate/call.begin', { call_id: changed.call_id, digest: changed.digest })
    await on.call('owner', 'gate/tool.trust', { server: 'pay', tool: 'transfer' })
    equal((await begin(on, changed)).state, 'begun')
  })

  test('that waits or is approved is void once a rule denies it', async () => {
    const on = await stage()
    const waiting = await propose(on)
    const approved = await propose(on, { ...transfer, arguments: { amount: 60 } })
    await answer(on, approved, 'approved')
    await setPolicy(on, { version: 1, default: 'ask', rules: [{ id: 'stop', tool: 'pay/*', then: 'deny' }] })
    for (const [call, input] of [
      [waiting, transfer],
      [approved, { ...transfer, arguments: { amount: 60 } }],
    ]) {
      const again = await propose(on, input)
      deepEqual([again.state, again.rule, again.call_id === call.call_id], ['denied', 'stop', false])
      const before = await on.call('devin', 'gate/call.get', { call_id: call.call_id })
      deepEqual([before.state, before.reason], ['cancelled', 'the policy denies it since then'])
      await on.refused('CALL_NOT_APPROVED', 'devin', 'gate/call.begin', { call_id: call.call_id, digest: call.digest })
    }
    const { request } = await on.call('alice', 'execution/request.get', { request_id: waiting.request_id })
    equal(request.status, 'cancelled')
  })

  test('that was allowed or approved does not begin once the policy denies it, asks people, or may do so by its arguments', async () => {
    const on = await stage()
    const read = { server: 'files', tool: 'read_file', arguments: { path: '/a' } }
    const refused = async (call: any): Promise<any> =>
      on.refused('CALL_NOT_APPROVED', 'devin', 'gate/call.begin', { call_id: call.call_id, digest: call.digest })
    const rules = (...more: object[]): object => ({ version: 1, default: 'ask', rules: [...more, ...allowReads.rules] })
    const asked = { ...transfer, arguments: { path: '/srv' } }
    const approved = await propose(on, asked)
    await answer(on, approved, 'approved')
    await setPolicy(on, rules())
    const hoarded = [await propose(on, read), await propose(on, read), await propose(on, read)]
    await setPolicy(on, rules({ id: 'no', tool: '*/*', then: 'deny' }))
    match((await refused(hoarded[0])).message, /the policy denies it since then: propose the call again/)
    await refused(approved)
    await setPolicy(on, { version: 1, default: 'ask', rules: [] })
    match((await refused(hoarded[1])).message, /asks people since then/)
    await setPolicy(on, rules({ id: 'root', tool: '*/*', when: [{ at: '/path', within: '/root' }], then: 'deny' }))
    match((await refused(hoarded[2])).message, /has changed since then/)
    await refused(approved)
    equal((await propose(on, asked)).call_id, approved.call_id, 'proposed again, the policy sees its arguments')
    equal((await begin(on, approved)).state, 'begun')
    const fresh = await propose(on, read)
    equal((await begin(on, fresh)).state, 'begun')
    const old = await propose(on, read)
    on.world.advance(3_601_000)
    match((await refused(old)).message, /allowed too long ago/)
  })

  test('is asked about with a warning while the end of the same call is not known', async () => {
    const on = await stage()
    const earlierOf = async ({ request_id }: any): Promise<string | undefined> =>
      (await on.call('alice', 'execution/request.get', { request_id })).request.payload.details.earlier
    const begun = async (): Promise<any> => {
      const call = await propose(on)
      await answer(on, call, 'approved')
      return begin(on, call)
    }
    const conclude = (call: any, outcome: string): Promise<any> =>
      on.call('devin', 'gate/call.conclude', { call_id: call.call_id, outcome })
    const one = await begun()
    const next = await propose(on)
    match((await earlierOf(next))!, new RegExp(`its end is not known: it may have acted \\(${one.call_id}\\)`))
    await conclude(one, 'succeeded')
    equal((await propose(on)).call_id, next.call_id, 'the end of the earlier call leaves the question')
    await on.call('devin', 'gate/call.cancel', { call_id: next.call_id })
    const two = await begun()
    await conclude(two, 'unknown')
    const third = await propose(on)
    ok((await earlierOf(third))!.includes(two.call_id))
    await answer(on, third, 'approved')
    await conclude(await begin(on, third), 'failed')
    equal(await earlierOf(await propose(on)), undefined)
  })

  test('with long arguments is asked about with their digest, and people read them whole, without what is redacted', async () => {
    const on = await stage()
    const args = { text: 'x'.repeat(13_000), token: 'hush' }
    const call = await propose(on, { ...transfer, arguments: args, redact: ['/token'] })
    equal(call.state, 'waiting')
    const { request } = await on.call('alice', 'execution/request.get', { request_id: call.request_id })
    const { arguments: none, arguments_file: file } = request.payload.details
    deepEqual([none, file.name], [undefined, 'arguments.json'])
    const read = await on.call('alice', 'execution/request.arguments', { request_id: call.request_id })
    deepEqual(JSON.parse(read.text), { ...args, token: '[redacted]' })
    deepEqual([read.sha256, read.size], [file.sha256, file.size])
    equal(file.sha256, createHash('sha256').update(read.text).digest('hex'))
    await on.refused('NOT_FOUND', 'mallory', 'execution/request.arguments', { request_id: call.request_id })
    const short = await propose(on)
    await on.refused('NOT_FOUND', 'alice', 'execution/request.arguments', { request_id: short.request_id })
    await answer(on, call, 'approved')
    equal((await begin(on, call)).state, 'begun')
  })

  test('above the bound of a call is denied, even by a rule that allows it', async () => {
    const on = await stage()
    await setPolicy(on, { version: 1, default: 'allow', rules: [] })
    const call = await propose(on, { ...transfer, arguments: { text: 'x'.repeat(256 * 1024) } })
    deepEqual([call.state, call.basis], ['denied', { kind: 'system', id: 'size' }])
    match(call.reason, /262155 bytes, at most 262144/)
  })

  test("is proposed by agents alone, and is another agent's to nobody", async () => {
    const on = await stage()
    await on.refused('UNAUTHORIZED', 'alice', 'gate/call.propose', transfer)
    const call = await propose(on)
    await on.refused('NOT_FOUND', 'robin', 'gate/call.get', { call_id: call.call_id })
    await on.refused('NOT_FOUND', 'mallory', 'gate/call.get', { call_id: call.call_id })
    await on.refused('INVALID_REQUEST', 'devin', 'execution/request.create', {
      action: 'APPROVE',
      payload: { item: 'Run pay/transfer', details: {} },
      call_id: call.call_id,
    })
  })
})

describe('tools of a server', () => {
  test('are listed without denied, doubled and reserved ones, and with the trusted description', async () => {
    const on = await stage()
    await setPolicy(on, { version: 1, rules: [{ id: 'no', tool: 'files/rm', then: 'deny' }] })
    const tool = (name: string, description = ''): object => ({ name, definition: { name, description } })
    const report = (...tools: object[]): Promise<any> => on.call('devin', 'gate/tool.report', { server: 'files', tools })
    const first = await report(tool('read', 'old'), tool('rm'), tool('twin'), tool('twin'), tool('countersign_await'))
    deepEqual(
      first.tools.map(({ name, state, listed }: any) => [name, state, listed]),
      [
        ['read', 'new', true],
        ['rm', 'denied', false],
        ['twin', 'doubled', false],
        ['twin', 'doubled', false],
        ['countersign_await', 'reserved', false],
      ],
    )
    const [read] = (await report(tool('read', 'new'))).tools
    deepEqual([read.state, read.definition.description], ['changed', 'old'])
    await on.refused('UNAUTHORIZED', 'alice', 'gate/tool.trust', { server: 'files', tool: 'read' })
    await on.refused('CONFLICT', 'owner', 'gate/tool.trust', { server: 'files', tool: 'read', digest: 'other' })
    await on.call('owner', 'gate/tool.trust', { server: 'files', tool: 'read' })
    const [after] = (await report(tool('read', 'new'))).tools
    deepEqual([after.state, after.definition.description], ['trusted', 'new'])
  })
})
