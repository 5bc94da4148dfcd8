// The inbox as rows: by urgency, by filters, by words, and the facts that a person sees before they answer.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import fc from 'fast-check'
import { allOf, ask, item, titlesOf } from '../../../support/over-sockets/asking.ts'
import { createWorld, storeMakers, type World } from '../../../support/in-process/world.ts'

const COUNT = 'execution/inbox.count'
const RESOLVE = 'execution/request.resolve'

type Asked = { priority: string; risk: string | null; timeout: number }
const anyAsked: fc.Arbitrary<Asked> = fc.record({
  priority: fc.constantFrom('critical', 'high', 'normal', 'low'),
  risk: fc.constantFrom(null, 'R1', 'R2', 'R3', 'R4', 'R5'),
  timeout: fc.constantFrom(0, 60, 600, 3_600),
})
const input = ({ priority, risk, timeout }: Asked, message: string): object => ({
  priority,
  ...(risk === null ? {} : { risk }),
  timeout_seconds: timeout,
  ...item(message),
})
/** Priority, risk, deadline, age: written down once more, apart from the index. Here nothing is late or escalated. */
function isBefore(a: any, b: any): boolean {
  const of = (one: any): (string | number)[] => [
    ['critical', 'high', 'normal', 'low'].indexOf(one.priority),
    one.risk === null ? 9 : -Number(one.risk.slice(1)),
    one.expires_at === null ? Infinity : Date.parse(one.expires_at),
    one.created_at,
    one.request_id,
  ]
  const [left, right] = [of(a), of(b)]
  const at = left.findIndex((part, i) => part !== right[i])
  return at !== -1 && left[at]! < right[at]!
}

for (const maker of storeMakers()) {
  describe(`rows of the inbox on ${maker.name}`, () => {
    after(() => maker.dispose())

    test('urgency is a total order for all requests, and every page keeps to it', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(anyAsked, { minLength: 1, maxLength: 12 }), fc.integer({ min: 1, max: 5 }), async (asked, limit) => {
          const world = await createWorld({ store: maker.open() })
          for (const [i, one] of asked.entries()) await ask(world, 'devin', input(one, `no ${i}`))
          const items = await allOf(world, 'alice', { order: 'urgency', view: 'row', limit })
          assert.equal(items.length, asked.length)
          for (let i = 1; i < items.length; i++) assert.ok(isBefore(items[i - 1], items[i]), JSON.stringify(items.slice(i - 1, i + 1)))
          await world.close()
        }),
        { numRuns: 15, seed: 16 },
      )
    })

    test('pages by urgency have no holes and repeat nothing while items come and go', async () => {
      const world = await createWorld({ store: maker.open() })
      const made: string[] = []
      for (let i = 0; i < 30; i++)
        made.push((await ask(world, 'devin', input({ priority: 'normal', risk: `R${(i % 5) + 1}`, timeout: 0 }, `${i}`))).id)
      const gone = new Set<string>()
      const seen: string[] = []
      for (let cursor: string | undefined, page = 0; ; page++) {
        const answer = await world.call('alice', 'execution/inbox.list', { order: 'urgency', limit: 4, ...(cursor ? { cursor } : {}) })
        for (const { request_id } of answer.items) seen.push(request_id)
        if (answer.next_cursor === null) break
        cursor = answer.next_cursor
        for (const id of [answer.items.at(-1).request_id, seen[page]!, made.at(-1 - page)!].filter((one) => !gone.has(one))) {
          gone.add(id)
          await world.call('alice', RESOLVE, { request_id: id, result: 'approved' })
        }
        await ask(world, 'robin', input({ priority: 'critical', risk: null, timeout: 0 }, 'new'))
      }
      assert.equal(new Set(seen).size, seen.length, 'nothing comes twice')
      for (const id of made) assert.ok(seen.includes(id) || gone.has(id), 'nothing that stayed is missing')
      await world.close()
    })

    test('a row has no card, facts and effects, and everything else of the item', async () => {
      const world = await createWorld({ store: maker.open() })
      await ask(world, 'devin')
      const [row] = await allOf(world, 'alice', { view: 'row' })
      const [{ card: _, facts: __, effects: ___, ...rest }] = (await allOf(world, 'alice')) as [any]
      assert.deepEqual(row, rest)
      await world.close()
    })

    test('filters by risk, by whose turn it is and by group are lists, counts and each other’s complement', async () => {
      const world = await createWorld({ store: maker.open() })
      await world.call('owner', 'execution/group.set', { name: 'on-call', members: ['user_bob', 'user_rita'] })
      await ask(world, 'devin', { risk: 'R4', ...item('mine R4') })
      await ask(world, 'devin', item('mine'))
      await ask(world, 'devin', { role: 'pool', ...item('pool') })
      const called = await ask(world, 'devin', item('called'))
      await world.call('alice', 'execution/request.escalate', { request_id: called.id, to: ['group:on-call'] })
      assert.deepEqual(titlesOf(await allOf(world, 'alice', { risk: 'R4' })), ['mine R4'])
      for (const order of ['priority', 'urgency']) {
        assert.deepEqual(titlesOf(await allOf(world, 'alice', { unassigned: true, order })), ['pool'])
        assert.deepEqual(titlesOf(await allOf(world, 'alice', { unassigned: false, order })).toSorted(), ['called', 'mine', 'mine R4'])
        assert.deepEqual(titlesOf(await allOf(world, 'bob', { group: 'on-call', order })), ['called'])
      }
      const mine = await world.call('alice', COUNT)
      assert.deepEqual([mine.open, mine.mine, mine.unassigned, mine.groups], [4, 3, 1, []])
      const bobs = await world.call('bob', COUNT)
      assert.deepEqual([bobs.mine, bobs.unassigned, bobs.groups], [0, 1, [{ group: 'group:on-call', open: 1 }]])
      const filtered = await world.call('bob', COUNT, { status: 'open' })
      assert.deepEqual([filtered.mine, filtered.unassigned, filtered.groups], [0, 1, bobs.groups])
      const through = async (as: string): Promise<unknown> =>
        Object.fromEntries((await allOf(world, as)).map(({ title, through }) => [title, through]))
      assert.deepEqual(await through('bob'), { pool: 'pool', called: 'group:on-call' })
      assert.deepEqual(await through('alice'), { 'mine R4': 'you', mine: 'you', pool: 'pool', called: 'you' })
      const substitutes = (await allOf(world, 'deputy')).find(({ title }) => title === 'mine')
      assert.equal(substitutes.through, 'user_alice')
      await world.close()
    })

    test('a search finds what a look at every item finds, also with hostile text', async () => {
      const texts = ['Pay €40', 'PAY\u{200B}ROLL', 'ﬁle ①', '\u{202E}abc', 'a%_*\\"\' b', 'İstanbul', 'x'.repeat(180)]
      const world = await createWorld({ store: maker.open() })
      for (const message of texts) await ask(world, 'devin', { payload: { item: 'Question', details: { message } } })
      const whole = await allOf(world, 'alice')
      const plain = (text: string): string =>
        text
          .normalize('NFKC')
          .replaceAll(/\p{Default_Ignorable_Code_Point}/gu, '')
          .toLowerCase()
      await fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...texts.flatMap((one) => [one, one.slice(0, 3), one.slice(-2), one.toUpperCase()])),
          async (text) => {
            if (plain(text).trim() === '') return
            const message = plain(text).split(/\s+/).filter(Boolean)
            const fits = (one: any): boolean => {
              const all = plain([texts[whole.indexOf(one)]!, 'words Question agent_devin Devin user_alice', one.request_id].join('\n'))
              return message.every((word) => all.includes(word))
            }
            const found = (await allOf(world, 'alice', { text, view: 'row' })).map(({ request_id }) => request_id)
            assert.deepEqual(
              found,
              whole.filter(fits).map(({ request_id }) => request_id),
              text,
            )
          },
        ),
        { numRuns: 60, seed: 3 },
      )
      await assert.rejects(allOf(world, 'alice', { text: '\u{200B}\u{200D}' }), { code: 'INVALID_REQUEST' })
      await assert.rejects(allOf(world, 'alice', { text: 'x'.repeat(10_000) }), { code: 'INVALID_REQUEST' })
      assert.equal((await allOf(world, 'alice', { text: 'q' })).length, texts.length, 'one letter is a search')
      await world.close()
    })
  })
}

describe('facts before an answer', () => {
  const facts = async (world: World, request_id: string): Promise<any> =>
    (await world.call('alice', 'execution/inbox.get', { request_id })).item.facts

  test('the chain leads from the person through the agents to the target', async () => {
    const world = await createWorld()
    const { id } = await ask(world, 'devin', { payload: { item: 'Drop it', details: { target: 'prod-db' } } })
    assert.deepEqual((await facts(world, id)).chain, [
      { kind: 'person', id: 'user_alice', name: 'Alice' },
      { kind: 'agent', id: 'agent_devin', name: 'Devin' },
      { kind: 'target', id: 'prod-db', name: null },
    ])
    await world.close()
  })

  test('precedents are what people answered in the same case, the latest first, and nothing else', async () => {
    const world = await createWorld()
    const answers: [string, string, object][] = [
      ['Send it', 'approved', {}],
      ['Send it', 'rejected', { reason: 'Not today.' }],
      ['Another', 'approved', {}],
    ]
    const ids: string[] = []
    for (const [message, result, more] of answers) {
      const { id } = await ask(world, 'devin', item(message))
      await world.call('alice', RESOLVE, { request_id: id, result, ...more })
      ids.push(id)
    }
    await ask(world, 'robin', item('Send it'))
    const { id } = await ask(world, 'devin', item('Send it'))
    const { precedents } = await facts(world, id)
    assert.deepEqual(
      precedents.map(({ request_id, result, reason, by }: any) => [request_id, result, reason, by]),
      [
        [ids[1], 'rejected', 'Not today.', { id: 'user_alice', name: 'Alice' }],
        [ids[0], 'approved', null, { id: 'user_alice', name: 'Alice' }],
      ],
    )
    const { item: ended } = await world.call('alice', 'execution/inbox.get', { request_id: ids[1] })
    const { at, ...end } = ended.ended
    assert.ok(at)
    assert.deepEqual(end, {
      by: { id: 'user_alice', name: 'Alice' },
      result: 'rejected',
      reason: 'Not today.',
      via: null,
      by_default: false,
    })
    await world.close()
  })
})
