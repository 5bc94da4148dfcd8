// Asking back: a question to the agent and its reply decide nothing.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createKernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { contracts } from '#contracts/index.ts'
import { directory } from '#protocols/identity/directory.ts'
import { protocols } from '#protocols/index.ts'
import { cardOf, shownDigest } from '#protocols/execution/answering/shown-request.ts'
import { manualClock, settled } from '../../../support/in-process/manual-clock.ts'
import { testNotary } from '../../../support/in-process/notary.ts'
import { DECIDE, requests } from '../../../support/in-process/requests.ts'
import { cast, seededEntropy } from '../../../support/in-process/world.ts'

const of = (id: string): { request_id: string } => ({ request_id: id })
const say = (id: string, text: string): object => ({ request_id: id, text })

describe('asking back', () => {
  test('leaves the request open, and both sides see what was said', async () => {
    const { ask, call, stored, facts } = await requests()
    const { id } = await ask(DECIDE)
    await call('alice', 'request.question', say(id, 'For how many?'))
    await call('devin', 'request.reply', say(id, 'Five.'))
    assert.equal((await stored(id)).status, 'pending')
    const expected = [
      { by: 'user_alice', kind: 'question', text: 'For how many?' },
      { by: 'agent_devin', kind: 'reply', text: 'Five.' },
    ]
    for (const who of ['alice', 'devin']) {
      const { thread } = (await call(who, 'request.get', of(id))).request
      assert.deepEqual(
        thread.map(({ at: _, ...remark }: any) => remark),
        expected,
      )
    }
    assert.deepEqual(
      (await facts(id)).map(({ action }) => action),
      ['request.created', 'request.questioned', 'request.replied'],
    )
    await call('alice', 'request.resolve', { ...of(id), result: 'Small' })
  })

  test('is for who may answer, replying for who asked', async () => {
    const { ask, call, refused } = await requests()
    const { id } = await ask(DECIDE)
    await refused('PRECONDITION_FAILED', 'devin', 'request.reply', say(id, 'Unasked.'))
    for (const who of ['bob', 'mallory', 'robin', 'spy']) await refused('NOT_FOUND', who, 'request.question', say(id, 'x'))
    for (const who of ['devin', 'admin', 'project', 'system']) await refused('UNAUTHORIZED', who, 'request.question', say(id, 'x'))
    for (const who of ['alice', 'deputy', 'owner']) await call(who, 'request.question', say(id, `I am ${who}`))
    for (const who of ['bob', 'mallory', 'robin', 'spy']) await refused('NOT_FOUND', who, 'request.reply', say(id, 'x'))
    for (const who of ['alice', 'owner', 'admin', 'system']) await refused('UNAUTHORIZED', who, 'request.reply', say(id, 'x'))
    for (const who of ['devin', 'project', 'devin']) await call(who, 'request.reply', say(id, 'Good.'))
    await refused('PRECONDITION_FAILED', 'devin', 'request.reply', say(id, 'And another thing.'))
    const pool = await ask({ ...DECIDE, role: 'pool' })
    await call('bob', 'request.question', say(pool.id, 'x'))
  })

  test('has bounds, and every question leaves room for its reply', async () => {
    const { ask, call, refused, stored } = await requests()
    const { id } = await ask(DECIDE)
    for (const text of ['', 'x'.repeat(limits.textCharsMax + 1), 7, null])
      await refused('INVALID_REQUEST', 'alice', 'request.question', { ...of(id), text })
    for (let i = 0; i < limits.remarksMax / 2; i++) await call('alice', 'request.question', say(id, 'Why?'))
    await refused('QUOTA_EXCEEDED', 'alice', 'request.question', say(id, 'Why?'))
    for (let i = 0; i < limits.remarksMax / 2; i++) await call('devin', 'request.reply', say(id, 'So.'))
    assert.equal((await stored(id)).thread?.length, limits.remarksMax)
  })

  test('is over when the request is', async () => {
    const { ask, call, refused } = await requests()
    const { id } = await ask(DECIDE)
    await call('alice', 'request.question', say(id, 'Why?'))
    await call('alice', 'request.resolve', { ...of(id), result: 'None' })
    await refused('ALREADY_RESOLVED', 'alice', 'request.question', say(id, 'Why?'))
    await refused('ALREADY_RESOLVED', 'devin', 'request.reply', say(id, 'So.'))
  })

  test('is shown with everything that would hide or turn text made visible', async () => {
    const { ask, call, stored } = await requests()
    const { id } = await ask(DECIDE)
    await call('alice', 'request.question', say(id, 'Why?'))
    await call('devin', 'request.reply', say(id, 'Free\u202Eegrahc on\u200B'))
    const [, reply] = cardOf(await stored(id)).thread!
    assert.doesNotMatch(reply!.text, /[\u202E\u200B]/)
    assert.match(reply!.text, /^Free.*202e.*egrahc on/i)
  })

  test('changes what a person is shown: an answer to what was shown before is refused', async () => {
    const { ask, call, refused, stored } = await requests()
    const { id } = await ask(DECIDE)
    const before = shownDigest(await stored(id))
    await call('alice', 'request.question', say(id, 'Why?'))
    await call('devin', 'request.reply', say(id, 'Because.'))
    await refused('CHANGED', 'alice', 'request.resolve', { ...of(id), result: 'Small', digest: before })
    const now = await stored(id)
    assert.deepEqual(
      cardOf(now).thread?.map(({ text }) => text),
      ['Why?', 'Because.'],
    )
    await call('alice', 'request.resolve', { ...of(id), result: 'Small', digest: shownDigest(now) })
  })
})

test('a caller that waits for the answer can hear of a question', async () => {
  const { on, ask, call } = await requests()
  const { id } = await ask(DECIDE)
  const clock = manualClock()
  const kernel = createKernel({
    store: on.world.store,
    protocols,
    contracts,
    directory,
    notary: testNotary,
    now: clock.now,
    sleep: clock.sleep,
    entropy: seededEntropy(3),
    asksPerMinute: null,
    changesPerMinute: null,
  })
  const waiting = (input: object): { answer: any } => {
    const got: { answer: any } = { answer: null }
    void kernel.call('execution/request.await', { ...of(id), wait: 60, ...input }, cast['devin']!).then((answer) => (got.answer = answer))
    return got
  }
  const [plain, listening] = [waiting({}), waiting({ seen: 0 })]
  await settled()
  assert.deepEqual([plain.answer, listening.answer], [null, null])
  await kernel.call('execution/request.question', say(id, 'Why?'), cast['alice']!)
  await settled()
  assert.equal(plain.answer, null, 'who did not ask for remarks waits on')
  assert.equal(listening.answer.request.thread[0].text, 'Why?')
  const knows = waiting({ seen: 1 })
  await settled()
  assert.equal(knows.answer, null)
  await kernel.call('execution/request.resolve', { ...of(id), result: 'Small' }, cast['alice']!)
  await settled()
  for (const { answer } of [plain, knows]) assert.equal(answer.receipt.result, 'Small')
  assert.equal((await call('devin', 'request.await', { ...of(id), seen: 0 })).request.status, 'completed')
})
