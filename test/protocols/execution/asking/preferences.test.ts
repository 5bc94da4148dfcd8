// Delegation rules (HXP 0.1, 6.2; X10, X26) and whether time may decide (X4).
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Actor } from '#kernel/declare/access.ts'
import fc from 'fast-check'
import { limits } from '#kernel/limits.ts'
import { actionNames } from '#protocols/execution/actions/index.ts'
import { ruleFor, type Rule } from '#protocols/execution/asking/preferences.ts'
import { agent, APPROVE, DECIDE, person, requests } from '../../../support/in-process/requests.ts'

const delegate = { role: 'delegate' }
const off = (id: string): [string, string, object] => ['system', 'identity/user.update', { user_id: id, disabled: true }]

describe('a request for a delegate', () => {
  test('goes where the rules of 6.2 send it, and to the owner where none fits', async () => {
    const { call, ask } = await requests()
    await call('alice', 'rule.add', { action: 'APPROVE', tag: 'finance', delegate_to: 'user_rita' })
    await call('alice', 'rule.add', { action: 'DECIDE', project_id: 'project_beta', delegate_to: 'user_bob' })
    const routed = async (input: object): Promise<string> => (await ask({ ...delegate, ...input })).assigned_to
    assert.equal(await routed({ ...APPROVE, tags: ['ops', 'finance'] }), 'user_rita')
    assert.equal(await routed({ ...APPROVE, tags: ['ops'] }), 'user_alice')
    assert.equal(await routed(APPROVE), 'user_alice')
    assert.equal(await routed({ ...DECIDE, project_id: 'project_beta' }), 'user_bob')
    assert.equal(await routed({ ...APPROVE, project_id: 'project_beta' }), 'user_alice')
    assert.equal(await routed({ ...DECIDE, tags: ['finance'] }), 'user_alice')
  })

  test('is answered by the delegate or the owner, and by no one else', async () => {
    for (const who of ['bob', 'alice']) {
      const { call, ask, refused, stored } = await requests()
      await call('alice', 'rule.add', { delegate_to: 'user_bob' })
      const { id } = await ask({ ...DECIDE, ...delegate })
      const { people, assigned_to, assigned_at, created_at } = await stored(id)
      assert.deepEqual({ people, assigned_to, assigned_at }, { people: ['user_bob'], assigned_to: 'user_bob', assigned_at: created_at })
      await refused('NOT_FOUND', 'rita', 'request.resolve', { request_id: id, result: 'Small' })
      const { receipt } = await call(who, 'request.resolve', { request_id: id, result: 'Small' })
      assert.equal(receipt.completed_by, `user_${who}`)
    }
  })

  test('is the owner’s when the delegate was switched off or has left the project', async () => {
    const { call, ask } = await requests()
    await call('alice', 'rule.add', { delegate_to: 'user_bob' })
    await call('alice', 'rule.add', { action: 'DECIDE', delegate_to: 'user_rita' })
    await call(...off('user_rita'))
    assert.equal((await ask({ ...DECIDE, ...delegate })).assigned_to, 'user_alice', 'not the next rule')
    assert.equal((await ask({ ...APPROVE, ...delegate })).assigned_to, 'user_bob')
    await call('system', 'identity/project.leave', { project_id: 'project_default', subject: 'user_bob' })
    assert.equal((await ask({ ...APPROVE, ...delegate })).assigned_to, 'user_alice')
  })

  test('follows only the rules of the agent’s owner', async () => {
    const { call, ask } = await requests()
    await call('system', 'identity/agent.add', { id: 'agent_carl', name: 'Carl', owner: 'user_bob' })
    await call('alice', 'rule.add', { delegate_to: 'user_rita' })
    assert.equal((await ask({ ...DECIDE, ...delegate })).assigned_to, 'user_rita')
    assert.equal((await ask({ ...DECIDE, ...delegate }, agent('agent_carl'))).assigned_to, 'user_bob')
  })

  test('costs one read more; that the person asked is there to answer is read for every request', async () => {
    const { on, call, ask } = await requests()
    await call('alice', 'rule.add', { delegate_to: 'user_rita' })
    const read: string[] = []
    const { store } = on.world
    const plain = store.read.bind(store)
    store.peek = () => undefined
    store.read = (keys) => {
      read.push(...keys.map((key) => key.slice(0, key.indexOf('/'))))
      return plain(keys)
    }
    await ask(DECIDE)
    assert.deepEqual(
      read.filter((kind) => kind !== 'execution.request'),
      ['identity.agent', 'execution.policy', 'execution.policy', 'execution.policy', 'identity.user'],
    )
    read.length = 0
    await ask({ ...DECIDE, ...delegate })
    assert.deepEqual(
      read.filter((kind) => kind !== 'execution.request'),
      ['identity.agent', 'execution.policy', 'execution.policy', 'execution.policy', 'execution.rules', 'identity.user'],
    )
  })

  test('goes by the rules of the moment at which it is written', async () => {
    const { on, call, ask } = await requests()
    const first = (await call('alice', 'rule.add', { delegate_to: 'user_rita' })).rule
    const { store } = on.world
    const plain = store.commit.bind(store)
    let isMoved = false
    store.commit = async (batch) => {
      if (!isMoved && batch.facts.some(({ action }) => action === 'execution/request.created')) {
        isMoved = true
        await call('alice', 'rule.remove', { rule_id: first.id })
      }
      return plain(batch)
    }
    assert.equal((await ask({ ...DECIDE, ...delegate })).assigned_to, 'user_alice')
    assert.ok(isMoved)
  })
})

test('the rule with the most conditions counts, and among equals the first', () => {
  const word: fc.Arbitrary<string> = fc.constantFrom('a', 'b')
  const action = fc.constantFrom(...actionNames)
  const maybe = <T>(of: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(of, { nil: undefined })
  const rules = fc.array(fc.record({ action: maybe(action), project_id: maybe(word), tag: maybe(word) }), { maxLength: 12 })
  const asked = fc.record({ action, project_id: word, label: maybe(word), tags: fc.array(word, { maxLength: 2 }) })
  fc.assert(
    fc.property(rules, asked, (conditions, request) => {
      const all = conditions.map(({ action: on, project_id, tag }, i): Rule => ({
        id: `rule_${i}`,
        ...(on === undefined ? {} : { action: on }),
        ...(project_id === undefined ? {} : { project_id }),
        ...(tag === undefined ? {} : { tag }),
        delegate_to: 'user_bob',
        created_at: '',
      }))
      const fits = all.filter(
        (rule) =>
          [undefined, request.action].includes(rule.action) &&
          [undefined, request.project_id, request.label].includes(rule.project_id) &&
          (rule.tag === undefined || request.tags.includes(rule.tag)),
      )
      const count = ({ action: on, project_id, tag }: Rule): number => Number(!!on) + Number(!!project_id) + Number(!!tag)
      const best = fits.toSorted((a, b) => count(b) - count(a) || all.indexOf(a) - all.indexOf(b))[0] ?? null
      assert.equal(ruleFor(all, request), best)
    }),
    { numRuns: 2_000 },
  )
})

describe('rules', () => {
  test('are listed in their order, and the order decides between those that fit alike', async () => {
    const { call, ask, refused } = await requests()
    const rita = (await call('alice', 'rule.add', { tag: 'x', delegate_to: 'user_rita' })).rule
    const bob = (await call('alice', 'rule.add', { action: 'DECIDE', delegate_to: 'user_bob' })).rule
    assert.deepEqual([rita.order, bob.order], [1, 2])
    const routed = async (): Promise<string> => (await ask({ ...DECIDE, ...delegate, tags: ['x'] })).assigned_to
    assert.equal(await routed(), 'user_rita')
    const { items } = await call('alice', 'rule.order', { order: [bob.id, rita.id] })
    assert.deepEqual(items, (await call('alice', 'rule.list')).items)
    assert.deepEqual(
      items.map(({ id, order }: any) => [id, order]),
      [
        [bob.id, 1],
        [rita.id, 2],
      ],
    )
    assert.equal(await routed(), 'user_bob')
    for (const order of [[bob.id], [bob.id, bob.id], [bob.id, rita.id, rita.id], []])
      await refused('INVALID_REQUEST', 'alice', 'rule.order', { order })
    await call('alice', 'rule.remove', { rule_id: bob.id })
    assert.equal(await routed(), 'user_rita')
  })

  test('are a person’s own: no one else sees, changes or creates them', async () => {
    const { on, call, refused } = await requests()
    const { rule } = await call('alice', 'rule.add', { delegate_to: 'user_rita' })
    for (const who of ['bob', 'owner', 'mallory', 'deputy']) {
      assert.deepEqual((await call(who, 'rule.list')).items, [], who)
      await refused('NOT_FOUND', who, 'rule.remove', { rule_id: rule.id })
      await refused('NOT_FOUND', who, 'rule.order', { order: [rule.id] })
    }
    for (const who of ['devin', 'admin', 'project', 'system']) await refused('UNAUTHORIZED', who, 'rule.add', { delegate_to: 'user_rita' })
    const narrowed = { ...on.world.cast['alice']!, narrowed: true }
    for (const less of [
      narrowed,
      { ...narrowed, via: 'key' },
      { ...narrowed, via: 'token', partial: true },
      { ...narrowed, via: 'ticket' },
    ])
      await assert.rejects(call(less as Actor, 'rule.remove', { rule_id: rule.id }), { code: 'UNAUTHORIZED' })
    for (const via of ['token', 'development'] as const)
      assert.equal((await call({ ...narrowed, via }, 'rule.add', { delegate_to: 'user_rita' })).rule.delegate_to, 'user_rita')
  })

  test('delegate to active people of a common project, also to oneself', async () => {
    const { call, refused } = await requests()
    await call(...off('user_rita'))
    for (const delegate_to of ['user_mallory', 'user_nobody', 'agent_robin', 'user_rita', 'project_default', 'user_ALICE', ' user_bob'])
      await refused('NOT_FOUND', 'alice', 'rule.add', { delegate_to })
    await refused('INVALID_REQUEST', 'alice', 'rule.add', { delegate_to: 'user_bob', action: 'SIGN' })
    await refused('INVALID_REQUEST', 'alice', 'rule.add', { delegate_to: 'user_bob', tag: '' })
    assert.equal((await call('alice', 'rule.add', { tag: 'mine', delegate_to: 'user_alice' })).rule.delegate_to, 'user_alice')
  })

  test(`are at most ${limits.rulesPerPersonMax}`, async () => {
    const { call, refused } = await requests()
    for (let i = 0; i < limits.rulesPerPersonMax; i++) await call('alice', 'rule.add', { tag: `t${i}`, delegate_to: 'user_bob' })
    await refused('QUOTA_EXCEEDED', 'alice', 'rule.add', { delegate_to: 'user_bob' })
    await call('bob', 'rule.add', { delegate_to: 'user_alice' })
  })
})

describe('a timeout default', () => {
  const byDefault = { action: 'DECIDE', fallback: 'default', timeout_seconds: 60 }
  const payload = { ...DECIDE.payload, default_option: 'Small' }

  test('is the word of the person who answers for the agent', async () => {
    const { call, ask, refused } = await requests()
    assert.deepEqual((await call('alice', 'policy.get')).policy, {
      id: 'user_alice',
      defaults: 'allow',
      forbid: [],
      floors: [],
      updated_at: null,
    })
    await ask({ ...byDefault, payload })
    await call('alice', 'policy.set', { defaults: 'forbid' })
    const refusal = await refused('INVALID_REQUEST', 'devin', 'request.create', { ...byDefault, payload })
    assert.equal(refusal.details?.['field'], 'fallback')
    await ask({ ...byDefault, fallback: 'fail', payload })
    await ask({ ...byDefault, fallback: 'pause', payload })
    assert.equal((await call('alice', 'policy.get')).policy.defaults, 'forbid')
    assert.equal((await call('bob', 'policy.get')).policy.defaults, 'allow')
  })

  test('may depend on the action and on the risk, which forbids every greater one', async () => {
    const { call, ask, refused } = await requests()
    await call('alice', 'policy.set', { defaults: 'allow', forbid: [{ action: 'PROVIDE' }, { action: 'DECIDE', risk: 'R2' }] })
    await ask({ ...byDefault, payload })
    await ask({ ...byDefault, payload, risk: 'R1' })
    await refused('INVALID_REQUEST', 'devin', 'request.create', { ...byDefault, payload, risk: 'R2' })
    await call('alice', 'policy.set', { defaults: 'allow', forbid: [{ risk: 'R1' }] })
    await refused('INVALID_REQUEST', 'devin', 'request.create', { ...byDefault, payload, risk: 'R2' })
    await call('alice', 'policy.set', { defaults: 'allow', forbid: [{ action: 'DECIDE' }] })
    await refused('INVALID_REQUEST', 'devin', 'request.create', { ...byDefault, payload })
    await call('alice', 'policy.set', { forbid: [] })
    await ask({ ...byDefault, payload, risk: 'R2' })
    for (const risk of ['R3', 'R4', 'R5']) await refused('INVALID_REQUEST', 'devin', 'request.create', { ...byDefault, payload, risk })
  })

  test('is set by people for themselves', async () => {
    const { refused, call } = await requests()
    for (const who of ['devin', 'admin', 'project', 'system']) await refused('UNAUTHORIZED', who, 'policy.set', { defaults: 'allow' })
    await refused('INVALID_REQUEST', 'alice', 'policy.set', { defaults: 'sometimes' })
    await refused('INVALID_REQUEST', 'alice', 'policy.set', { defaults: 'allow', forbid: [{}] })
    const many = Array.from({ length: limits.policyEntriesMax + 1 }, () => ({ action: 'DECIDE' }))
    await refused('INVALID_REQUEST', 'alice', 'policy.set', { defaults: 'allow', forbid: many })
    await call('bob', 'policy.set', { defaults: 'forbid' })
    await call(person('user_alice'), 'policy.get')
    assert.equal((await call('alice', 'policy.get')).policy.defaults, 'allow')
  })
})
