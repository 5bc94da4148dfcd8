// The guard of an item: the phrase before a grave yes, and why it is not decided together with others. Every surface takes them from here.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { collaboration } from '#protocols/collaboration/index.ts'
import { APPROVE, DECIDE, requests } from '../../../support/in-process/requests.ts'
import { stage } from '../../../support/in-process/stage.ts'

const approve = (details: object, more: object = {}, item = 'Deploy 1.4.2'): object => ({
  action: 'APPROVE',
  payload: { item, details },
  ...more,
})

async function guardOf(question: object): Promise<any> {
  const on = await requests()
  const { id } = await on.ask(question)
  const whole = (await on.call('alice', 'inbox.get', { request_id: id })).item
  const [row] = (await on.call('alice', 'inbox.list', { view: 'row' })).items
  assert.deepEqual(row.guard, whole.guard, 'a row and an item have the same guard')
  return row
}

describe('the phrase', () => {
  const rows: [string, object, string | null][] = [
    ['none below R4', approve({ target: 'staging' }, { risk: 'R3' }), null],
    ['none without a risk', approve({ target: 'staging' }), null],
    ['the target', approve({ target: 'db-payments-0' }, { risk: 'R4' }), 'db-payments-0'],
    ['the target with a blank in it', approve({ target: 'eu north 1' }, { risk: 'R5' }), 'eu north 1'],
    ['the risk where no target is named', approve({}, { risk: 'R5' }), 'approve R5'],
    ['the risk for a target of two lines', approve({ target: 'a\nb' }, { risk: 'R4' }), 'approve R4'],
    ['the risk for a target that turns text around', approve({ target: 'a\u202Eb' }, { risk: 'R4' }), 'approve R4'],
    ['the risk for letters that look like others', approve({ target: 'pr\u043Eduction' }, { risk: 'R4' }), 'approve R4'],
    ['the risk for blanks that nobody sees', approve({ target: 'a  b' }, { risk: 'R4' }), 'approve R4'],
    ['the risk for a target that ends in a blank', approve({ target: 'a ' }, { risk: 'R4' }), 'approve R4'],
    ['the risk for what a command would take for a flag', approve({ target: '--force' }, { risk: 'R4' }), 'approve R4'],
    ['the risk for a long target', approve({ target: 'x'.repeat(41) }, { risk: 'R4' }), 'approve R4'],
    ['the risk for a target that is no text', approve({ target: ['a'] }, { risk: 'R4' }), 'approve R4'],
    ['a choice is answered', { ...DECIDE, risk: 'R4' }, 'answer R4'],
  ]
  for (const [name, question, phrase] of rows)
    test(name, async () => {
      const { guard } = await guardOf(question)
      assert.equal(guard.confirm, phrase)
      assert.match(guard.confirm ?? 'a', /^[\x20-\x7E]{1,40}$/)
    })
})

describe('a batch takes', () => {
  const rows: [string, object, string | null][] = [
    ['a small item whose arguments a list shows', approve({ to: 'staging', count: 3, dry: true }, { risk: 'R2' }), null],
    ['nothing that is not rated', approve({}), 'Its risk is not rated.'],
    ['nothing from R3 on', approve({}, { risk: 'R3' }), 'R3 and above are decided one at a time.'],
    ['no question', { ...DECIDE, risk: 'R1' }, 'It takes an answer of its own.'],
    [
      'nothing with more arguments than a list shows',
      approve({ a: 1, b: 2, c: 3, d: 4 }, { risk: 'R1' }),
      'It has more to read than a list shows.',
    ],
    ['nothing with an argument that a list cannot show', approve({ lines: [1] }, { risk: 'R1' }), 'It has more to read than a list shows.'],
    ['nothing with a long argument', approve({ a: 'x'.repeat(61) }, { risk: 'R1' }), 'It has more to read than a list shows.'],
    ['nothing that a title does not hold', approve({}, { risk: 'R1' }, 'Deploy\nand delete'), 'It has more to read than a list shows.'],
    ['nothing that was flagged', approve({}, { risk: 'R1' }, 'Merge p\u0430yments'), 'Its text was flagged: read it by itself.'],
    [
      'nothing that hides something in its arguments',
      approve({ to: 'a\u202Eb' }, { risk: 'R1' }),
      'Its text was flagged: read it by itself.',
    ],
  ]
  for (const [name, question, batch] of rows) test(name, async () => assert.equal((await guardOf(question)).guard.batch, batch))

  test('nothing that is talked about or decided, no review, no interrupt', async () => {
    const on = await requests()
    const { id } = await on.ask(approve({}, { risk: 'R1' }))
    const batch = async (): Promise<string> => (await on.call('alice', 'inbox.get', { request_id: id })).item.guard.batch
    await on.call('alice', 'request.question', { request_id: id, text: 'Why?' })
    assert.equal(await batch(), 'There are remarks to read first.')
    await on.call('alice', 'request.resolve', { request_id: id, result: 'approved' })
    assert.equal(await batch(), 'It is decided.')
    for (const [scene, message] of [
      ['review_ready', 'A review is decided by itself.'],
      ['taken_over', 'It is answered by itself.'],
    ] as const) {
      const there = await stage(collaboration.scenes[scene])
      assert.equal((await there.call('alice', 'execution/inbox.list')).items[0].guard.batch, message)
    }
  })

  test('arguments as a list shows them: three short ones, escaped', async () => {
    const row = await guardOf(approve({ a: 'a\u202Eb', list: [1], n: 3, ok: false, rest: 'x' }, { risk: 'R1' }))
    assert.deepEqual(row.arguments, [
      { name: 'a', value: 'a\\u{202E}b' },
      { name: 'n', value: '3' },
      { name: 'ok', value: 'false' },
    ])
    assert.deepEqual((await guardOf(DECIDE)).arguments, [])
    assert.deepEqual((await guardOf(APPROVE)).arguments, [{ name: 'to', value: 'production' }])
  })
})
