// VERIFY from the question to the receipt: what is refused, how an inbox lists it, who answers, and what a task sees of it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { actionNames, actions } from '#protocols/execution/actions/index.ts'
import { claimsIn, requests } from '../../../support/in-process/requests.ts'

const evidence = [
  { kind: 'text', text: 'restored 4,211 of 4,211 rows' },
  { kind: 'link', uri: 'https://files.example.com/log', title: 'The log' },
]
const payload = { claim: 'The backup can be restored', evidence }
const VERIFY = { action: 'VERIFY', payload }
const many = (count: number): object[] => Array.from({ length: count }, (_, i) => ({ kind: 'text', text: `line ${i}` }))

test('a claim with evidence that does not fit is refused by its field, and nothing is stored', async () => {
  const on = await requests()
  const rows: readonly (readonly [title: string, input: object, field: string, message: RegExp])[] = [
    ['no claim', { payload: { evidence } }, 'payload.claim', /payload.claim is required/],
    ['a blank claim', { payload: { ...payload, claim: ' ' } }, 'payload.claim', /must not be blank/],
    ['a claim of 301 characters', { payload: { ...payload, claim: 'c'.repeat(301) } }, 'payload.claim', /more than 300 char/],
    ['a claim that turns its direction', { payload: { ...payload, claim: 'pay \u202E001' } }, 'payload.claim', /U\+202E/],
    ['21 pieces of evidence', { payload: { ...payload, evidence: many(21) } }, 'payload.evidence', /more than 20 items/],
    ['evidence that is a text', { payload: { ...payload, evidence: 'log' } }, 'payload.evidence', /must be array/],
    ['evidence of another kind', { payload: { ...payload, evidence: [{ kind: 'photo', uri: 'x' }] } }, 'payload.evidence.0', /evidence.0/],
    ['a text without text', { payload: { ...payload, evidence: [{ kind: 'text' }] } }, 'payload.evidence.0', /evidence.0/],
    ['a blank text', { payload: { ...payload, evidence: [{ kind: 'text', text: ' ' }] } }, 'payload.evidence.0.text', /must not be blank/],
    ['an unknown field', { payload: { ...payload, options: ['a', 'b'] } }, 'payload.options', /options/],
    ['an artifact that is not there', { payload: { ...payload, evidence: [{ kind: 'artifact', artifact_id: 'art_1', version: 'v1' }] } }, 'payload.evidence', /there is no artifact art_1 v1/], // prettier-ignore
    ['a default', { fallback: 'default' }, 'fallback', /is for DECIDE: nobody is taken to have answered VERIFY/],
    [
      'a default option',
      { payload: { ...payload, default_option: 'confirmed' } },
      'payload.default_option',
      /is for DECIDE, not for VERIFY/,
    ],
  ]
  for (const [title, input, field, message] of rows) {
    const { details, message: found } = await on.refused('INVALID_REQUEST', 'devin', 'request.create', { ...VERIFY, ...input })
    assert.match(found, message, title)
    assert.ok(String((details as { field?: string }).field).startsWith(field), `${title}: ${JSON.stringify(details)}`)
  }
  assert.equal((await on.call('alice', 'inbox.list')).items.length, 0)
})

test('evidence may be left out, and 20 pieces are not too many', async () => {
  const on = await requests()
  const { id } = await on.ask({ action: 'VERIFY', payload: { claim: 'It holds' } })
  assert.deepEqual((await on.stored(id)).payload, { claim: 'It holds', evidence: [] })
  await on.ask({ action: 'VERIFY', payload: { ...payload, evidence: many(limits.claimEvidenceMax) } })
})

test('an item says what is asked, and its card holds the claim and the evidence', async () => {
  const on = await requests()
  const { id } = await on.ask({ ...VERIFY, risk: 'R4' })
  const { item } = await on.call('alice', 'inbox.get', { request_id: id })
  assert.deepEqual([item.action, item.asks, item.title], ['VERIFY', 'verification', payload.claim])
  assert.deepEqual(
    item.options.map(({ label }: any) => label),
    ['confirmed', 'refuted', 'cannot_tell'],
  )
  assert.deepEqual(item.card.payload, payload)
  assert.deepEqual([item.guard.confirm, item.guard.batch], ['answer R4', 'It takes an answer of its own.'])
  assert.deepEqual([item.effects.approve, item.reject_ends_task, item.declinable], ['the agent gets your verdict', false, true])
  for (const query of [{ kind: 'verification' }, { action: 'VERIFY' }, { text: '4,211 rows' }])
    assert.equal((await on.call('alice', 'inbox.list', query)).items.length, 1, JSON.stringify(query))
  for (const query of [{ kind: 'choice' }, { action: 'DECIDE' }])
    assert.equal((await on.call('alice', 'inbox.list', query)).items.length, 0, JSON.stringify(query))
})

test('evidence that hides something is flagged', async () => {
  const on = await requests()
  const { id } = await on.ask({ action: 'VERIFY', payload: { ...payload, evidence: [{ kind: 'text', text: 'total \u202E001' }] } })
  const { item } = await on.call('alice', 'inbox.get', { request_id: id })
  assert.ok(item.facts.flagged.length > 0)
  assert.doesNotMatch(JSON.stringify(item.card.payload), /\u202E/)
})

test('each verdict is a bare string in a signed receipt, with its note; every other word is refused', async () => {
  const on = await requests()
  for (const verdict of ['confirmed', 'refuted', 'cannot_tell']) {
    const { id: request_id } = await on.ask(VERIFY)
    for (const result of ['approved', 'Confirmed', '', null, 1, ['confirmed'], { verdict }])
      await on.refused('INVALID_RESULT', 'alice', 'request.resolve', { request_id, result })
    const { receipt } = await on.call('alice', 'request.resolve', { request_id, result: verdict, reason: 'I looked.' })
    assert.deepEqual([receipt.status, receipt.result, receipt.reason], ['completed', verdict, 'I looked.'])
    assert.equal(claimsIn(receipt).result, verdict)
    assert.equal((await on.call('devin', 'request.get', { request_id })).receipt.result, verdict)
  }
  const { id: request_id } = await on.ask(VERIFY)
  await on.refused('INVALID_REQUEST', 'alice', 'request.resolve', { request_id, result: 'confirmed', edited: { a: 1 } })
  const declined = await on.call('alice', 'request.decline', { request_id, reason: 'Not mine to say.' })
  assert.deepEqual([declined.request.status, declined.receipt.result], ['declined', null])
})

test('a quorum counts equal verdicts, and fails when none can win', async () => {
  const on = await requests()
  const asking = { ...VERIFY, quorum: { n: 2, of: ['user_alice', 'user_bob', 'user_rita'] } }
  const { id } = await on.ask(asking)
  await on.call('alice', 'request.resolve', { request_id: id, result: 'refuted' })
  await on.call('bob', 'request.resolve', { request_id: id, result: 'confirmed' })
  const { receipt } = await on.call('rita', 'request.resolve', { request_id: id, result: 'refuted' })
  assert.equal(receipt.result, 'refuted')
  const { id: split } = await on.ask(asking)
  await on.call('alice', 'request.resolve', { request_id: split, result: 'refuted' })
  await on.call('bob', 'request.resolve', { request_id: split, result: 'confirmed' })
  const failed = await on.call('rita', 'request.resolve', { request_id: split, result: 'cannot_tell' })
  assert.deepEqual([failed.receipt.status, failed.receipt.reason], ['failed', 'no_quorum'])
})

test('a delegation rule and a policy name it as any other action', async () => {
  const on = await requests()
  await on.call('alice', 'rule.add', { action: 'VERIFY', delegate_to: 'user_bob' })
  assert.equal((await on.ask({ ...VERIFY, role: 'delegate' })).assigned_to, 'user_bob')
  await on.call('alice', 'policy.set', { forbid: [{ action: 'VERIFY' }] })
})

test('every action has a word of its own, and says what becomes of an answer', () => {
  const words = actionNames.map((name) => actions[name].asks)
  assert.equal(new Set(words).size, actionNames.length)
  assert.deepEqual(actionNames, ['DECIDE', 'APPROVE', 'PROVIDE', 'VERIFY'])
})
