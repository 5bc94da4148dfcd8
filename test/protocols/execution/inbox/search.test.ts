// Searching the inbox by the text index: it finds what a look at every item finds, whatever has changed since the last search, and a rare word among
// many items at once.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import fc from 'fast-check'
import { createGramTable } from '#kernel/search/gram-table.ts'
import { limits } from '#kernel/limits.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import { textOf, wordsIn } from '#protocols/execution/inbox/search.ts'
import { Request } from '#protocols/execution/schema.ts'
import { memoryDisk, memoryStore } from '#stores/memory.ts'
import { allOf, ask } from '../../../support/over-sockets/asking.ts'
import { pause, until } from '../../../support/over-sockets/live.ts'
import { createWorld, storeMakers, type World } from '../../../support/in-process/world.ts'

const idsOf = (items: readonly { request_id: string }[]): string[] => items.map(({ request_id }) => request_id)
const asking = async (world: World, who: string, words: string, more: object = {}): Promise<string> =>
  (await ask(world, who, { payload: { item: 'Question', details: { words } }, ...more })).id

/** As a look at every item does it, with the text of the document as it is stored. */
async function lookedUp(world: World, who: string, text: string, names: Readonly<Record<string, string>>, more: object): Promise<string[]> {
  const found: string[] = []
  for (const request_id of idsOf(await allOf(world, who, more))) {
    const [stored] = await world.store.read([keyOf(Request, request_id)])
    const request = stored!.value as Request
    const all = `${textOf(request)}\n${wordsIn(names[request.requester]!).join(' ')}`
    if (wordsIn(text).every((word) => all.includes(word))) found.push(request_id)
  }
  return found
}

const pieces = [
  'Pay',
  'PAYROLL',
  'ﬁle',
  'İstanbul',
  'a%_*',
  '\u{202E}abc',
  're\u{200B}start',
  '日本語',
  '🙂🙂🙂🙂',
  'x'.repeat(40),
  'prod-db',
  'ab',
]
const words = fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 3 }).map((some) => some.join(' '))
const step = fc.oneof(
  fc.record({ kind: fc.constant('ask' as const), who: fc.constantFrom('devin', 'robin'), text: words, pool: fc.boolean() }),
  fc.record({ kind: fc.constant('answer' as const), which: fc.nat(20) }),
  fc.record({ kind: fc.constant('remark' as const), which: fc.nat(20), text: words }),
  fc.record({ kind: fc.constant('snooze' as const), which: fc.nat(20) }),
  fc.record({ kind: fc.constant('rename' as const), text: fc.constantFrom(...pieces) }),
  fc.record({
    kind: fc.constant('search' as const),
    text: fc.oneof(
      words,
      fc.tuple(fc.constantFrom(...pieces), fc.nat(3), fc.integer({ min: 1, max: 5 })).map(([one, i, n]) => one.slice(i, i + n)),
    ),
    more: fc.constantFrom({}, { order: 'urgency' }, { snoozed: true }, { priority: 'normal' }, { limit: 1 }, { agent_id: 'agent_devin' }),
  }),
)
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never

async function play(world: World, steps: readonly Step[]): Promise<void> {
  const open: string[] = []
  const names: Record<string, string> = { agent_devin: 'Devin', agent_robin: 'Robin' }
  const pick = (which: number): string | undefined => open[which % Math.max(1, open.length)]
  for (const one of steps) {
    const request_id = 'which' in one ? pick(one.which) : undefined
    if (one.kind === 'ask') open.push(await asking(world, one.who, one.text, one.pool ? { role: 'pool' } : {}))
    else if (one.kind === 'rename') {
      names['agent_devin'] = one.text.replaceAll(/\P{L}/gu, '') || 'Devin'
      await world.call('admin', 'identity/agent.update', { agent_id: 'agent_devin', name: names['agent_devin'] })
    } else if (one.kind === 'search') {
      if (wordsIn(one.text).length === 0) continue
      const found = idsOf(await allOf(world, 'alice', { ...one.more, text: one.text, view: 'row' }))
      assert.deepEqual(found, await lookedUp(world, 'alice', one.text, names, one.more), JSON.stringify(one))
    } else if (request_id !== undefined && one.kind === 'remark')
      await world.call('alice', 'execution/request.question', { request_id, text: one.text }).catch(() => undefined)
    else if (request_id !== undefined && one.kind === 'snooze')
      await world.call('alice', 'execution/request.snooze', { request_id, until: '2099-01-01T00:00:00Z' }).catch(() => undefined)
    else if (request_id !== undefined) {
      await world.call('alice', 'execution/request.resolve', { request_id, result: 'approved' })
      open.splice(open.indexOf(request_id), 1)
    }
  }
}

for (const maker of storeMakers())
  describe(`a search on ${maker.name}`, () => {
    after(() => maker.dispose())
    test('finds the same as a scan of every item, after every kind of change', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 25 }), async (steps) => {
          const world = await createWorld({ store: maker.open() })
          await play(world, steps)
          await world.close()
        }),
        { numRuns: 8 },
      )
    })
  })

test('a rare word among more items than one call may look at is found by one call, once all were read beside the calls', async () => {
  let rests = 0
  const sleep = (): Promise<void> => new Promise((done) => setImmediate(done, void rests++))
  const world = await createWorld({ terms: { asksOpenMax: null }, sleep })
  const rare = await asking(world, 'devin', 'an unheard-of thing')
  const usual = (i: number): Promise<string> => asking(world, 'devin', `the usual ${i}`, { priority: 'high' })
  for (let i = 0; i < limits.examinedMax + 100; i += 100) await Promise.all(Array.from({ length: 100 }, (_, k) => usual(i + k)))
  const search = (): Promise<any> => world.call('alice', 'execution/inbox.list', { view: 'row', text: 'UNHEARD' })
  const first = await search()
  assert.deepEqual([first.items, first.next_cursor === null], [[], false], 'it looks at one item after the other, as far as one call does')
  await until(() => rests > 3, 'it is read beside the calls')
  let found = await search()
  for (; found.next_cursor !== null; found = await search()) await pause(1)
  assert.deepEqual(idsOf(found.items), [rare])
  const { open, next_cursor } = await world.call('alice', 'execution/inbox.count', { text: 'unheard' })
  assert.deepEqual([open, next_cursor], [1, null])
  const [, late] = await Promise.all([usual(-1), asking(world, 'devin', 'unheard of, too')])
  assert.deepEqual(idsOf((await search()).items), [rare, late])
  await world.call('alice', 'execution/request.resolve', { request_id: rare, result: 'approved' })
  assert.deepEqual(idsOf((await search()).items), [late])
  await world.close()
})

test('of two servers on one database each finds what the other one has made, changed and ended', async () => {
  const disk = memoryDisk()
  const one = await createWorld({ store: memoryStore({ disk, isShared: true }) })
  const two = await createWorld({ store: memoryStore({ disk, isShared: true }), populated: false, seed: 2 })
  const search = async (text: string): Promise<string[]> => idsOf(await allOf(two, 'alice', { view: 'row', text }))
  const usual = await asking(one, 'devin', 'the usual')
  assert.deepEqual(await search('unheard'), [])
  const rare = await asking(one, 'devin', 'an unheard-of thing')
  assert.deepEqual([await search('unheard'), await search('usual')], [[rare], [usual]])
  await one.call('alice', 'execution/request.question', { request_id: usual, text: 'Is it unheard of?' })
  assert.deepEqual(await search('unheard'), [usual, rare])
  await one.call('alice', 'execution/request.resolve', { request_id: rare, result: 'approved' })
  assert.deepEqual(await search('unheard'), [usual])
  await one.call('admin', 'identity/agent.update', { agent_id: 'agent_devin', name: 'Zeppelin' })
  assert.deepEqual([await search('zeppel'), await search('devinzeppel')], [[usual], []])
  await one.close()
  await two.close()
})

test('a gram table leaves out no text that holds the words, and forgets what is taken out', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', 'c', 'ä', '日', ' '), maxLength: 12 })
  const change = fc.record({ id: fc.nat(30), text: fc.option(text), group: fc.constantFrom('g', 'h') })
  fc.assert(
    fc.property(
      fc.array(change, { maxLength: 60 }),
      fc.array(text, { minLength: 1, maxLength: 2 }),
      fc.boolean(),
      (changes, sought, byGroup) => {
        const table = createGramTable()
        const model = new Map<string, { text: string; group: string }>()
        for (const one of changes) {
          const id = `d${one.id}`
          if (one.text === null) {
            table.delete(id)
            model.delete(id)
          } else {
            table.set(id, one.group, one.text)
            model.set(id, { text: one.text, group: one.group })
          }
        }
        const inGroup = sought.map(() => new Set(byGroup ? ['h'] : []))
        const found = table.holding(sought, inGroup, 1_000)
        if (found === null) return assert.ok(sought.every((word) => word.length < 3))
        assert.equal(new Set(found).size, found.length)
        for (const id of found) assert.ok(model.has(id))
        for (const [id, one] of model)
          if (sought.every((word) => one.text.includes(word) || (byGroup && one.group === 'h'))) assert.ok(found.includes(id), id)
        assert.deepEqual([table.size, new Set(table.groups())], [model.size, new Set([...model.values()].map(({ group }) => group))])
      },
    ),
    { numRuns: 500 },
  )
})
