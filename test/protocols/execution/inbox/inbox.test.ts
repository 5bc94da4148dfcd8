// The inbox: its items and their order, page by page, and only for its owner.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { scenes } from '#protocols/collaboration/examples.ts'
import { allOf, ask, castAs, item, titlesOf } from '../../../support/over-sockets/asking.ts'
import { createWorld, storeMakers } from '../../../support/in-process/world.ts'

const LIST = 'execution/inbox.list'
const COUNT = 'execution/inbox.count'

for (const maker of storeMakers()) {
  describe(`the inbox on ${maker.name}`, () => {
    after(() => maker.dispose())

    test('critical items come first, then high, normal and low, each with the oldest first (X17)', async () => {
      const world = await createWorld({ store: maker.open() })
      for (const [i, priority] of ['low', 'normal', 'critical', 'high', 'normal', 'critical', 'low', 'high'].entries())
        await ask(world, 'devin', { priority, ...item(`${priority} ${i}`) })
      await ask(world, 'devin', item('not said 8'))
      const expected = ['critical 2', 'critical 5', 'high 3', 'high 7', 'normal 1', 'normal 4', 'not said 8', 'low 0', 'low 6']
      assert.deepEqual(titlesOf(await allOf(world, 'alice')), expected)
      assert.deepEqual(titlesOf(await allOf(world, 'alice', { limit: 2 })), expected)
      assert.deepEqual(titlesOf(await allOf(world, 'alice', { priority: 'critical', limit: 1 })), ['critical 2', 'critical 5'])
      assert.deepEqual(await world.call('alice', COUNT), {
        open: 9,
        by_priority: { critical: 2, high: 2, normal: 3, low: 2 },
        mine: 9,
        unassigned: 0,
        groups: [],
        pool: 0,
        no_decider: 0,
        snoozed: 0,
        acting_for: [],
        next_cursor: null,
      })
      await world.close()
    })

    test('pages have no holes and repeat nothing while items come and go', async () => {
      const world = await createWorld({ store: maker.open() })
      const made: string[] = []
      for (let i = 0; i < 60; i++)
        made.push((await ask(world, 'devin', { priority: ['high', 'normal', 'low'][i % 3], ...item(`${i}`) })).id)
      const gone = new Set<string>()
      const seen: string[] = []
      let cursor: string | undefined
      for (let page = 0; ; page++) {
        const answer = await world.call('alice', LIST, { limit: 7, ...(cursor === undefined ? {} : { cursor }) })
        for (const { request_id } of answer.items) seen.push(request_id)
        if (answer.next_cursor === null) break
        cursor = answer.next_cursor
        // The item at the cursor, one before it and one far behind it go; two come.
        const last = answer.items.at(-1).request_id
        for (const id of [last, seen[page], made.at(-1 - page)!].filter((one) => !gone.has(one))) {
          gone.add(id)
          await world.call('alice', 'execution/request.resolve', { request_id: id, result: 'approved' })
        }
        for (const priority of ['critical', 'low']) await ask(world, 'robin', { priority, ...item('new') })
      }
      assert.equal(new Set(seen).size, seen.length, 'nothing comes twice')
      for (const id of made) assert.ok(seen.includes(id) || gone.has(id), 'nothing that stayed is missing')
      await world.close()
    })

    test('ended items are listed apart, newest first, also for the person who answered from a pool', async () => {
      const world = await createWorld({ store: maker.open() })
      const one = await ask(world, 'devin', item('one'))
      const two = await ask(world, 'devin', item('two'))
      const three = await ask(world, 'devin', { role: 'pool', ...item('three') })
      await ask(world, 'devin', item('open'))
      await world.call('alice', 'execution/request.resolve', { request_id: one.id, result: 'rejected' })
      await world.call('devin', 'execution/request.cancel', { request_id: two.id })
      await world.call('bob', 'execution/request.resolve', { request_id: three.id, result: 'approved' })
      assert.deepEqual(titlesOf(await allOf(world, 'alice', { status: 'closed', limit: 1 })), ['two', 'one'])
      assert.deepEqual(titlesOf(await allOf(world, 'alice', { status: 'completed' })), ['one'])
      assert.deepEqual(titlesOf(await allOf(world, 'alice', { status: 'cancelled' })), ['two'])
      assert.deepEqual(titlesOf(await allOf(world, 'alice', { status: 'failed' })), [])
      const [answered] = await allOf(world, 'bob', { status: 'closed' })
      assert.equal(answered.title, 'three')
      assert.match(answered.ended.by.id, /^person_/, 'a pool names nobody')
      await world.close()
    })

    test('every filter leaves what fits, and a cursor belongs to its question', async () => {
      const world = await createWorld({ store: maker.open() })
      const choose = { action: 'DECIDE', payload: { question: 'Which?', options: ['A', 'B'] } }
      await ask(world, 'devin', { ...choose, priority: 'high' })
      await ask(world, 'robin', item('robins'))
      await ask(world, 'devin', item('devins'))
      await ask(world, 'devin', { role: 'pool', ...item('anybody') })
      for (const [input, titles] of [
        [{ action: 'DECIDE' }, ['Which?']],
        [{ agent_id: 'agent_robin' }, ['robins']],
        [{ kind: 'request', action: 'APPROVE', agent_id: 'agent_devin' }, ['devins', 'anybody']],
        [{ kind: 'review' }, []],
        [{ assignee: 'user_alice', priority: 'normal' }, ['robins', 'devins']],
        [{ project_id: 'project_other' }, []],
        [{ project_id: 'project_default', action: 'APPROVE' }, ['robins', 'devins', 'anybody']],
        [{ task_id: 'task_none' }, []],
        [{ text: 'DEVIN' }, ['Which?', 'devins', 'anybody']],
        [{ text: 'which b' }, ['Which?']],
        [{ text: 'robins nobody' }, []],
        [{ text: 'ｒobins', action: 'APPROVE' }, ['robins']],
      ] as const) {
        assert.deepEqual(titlesOf(await allOf(world, 'alice', { ...input, limit: 1 })), titles, JSON.stringify(input))
        assert.equal((await world.call('alice', COUNT, input)).open, titles.length, JSON.stringify(input))
      }
      for (const text of ['', '  ', 'x'.repeat(limits.searchCharsMax + 1)])
        for (const operation of [LIST, COUNT])
          await assert.rejects(world.call('alice', operation, { text }), { code: 'INVALID_REQUEST', message: /^text / })
      const { next_cursor: cursor } = await world.call('alice', LIST, { limit: 1 })
      await assert.rejects(world.call('alice', LIST, { limit: 1, action: 'DECIDE', cursor }), { code: 'INVALID_REQUEST' })
      await assert.rejects(world.call('alice', LIST, { priority: 'urgent' }), { code: 'INVALID_REQUEST' })
      await world.close()
    })
  })
}

test('a filtered page examines a bounded number of items and has a cursor', async () => {
  const world = await createWorld({ terms: { asksOpenMax: null } })
  for (let i = 0; i < limits.examinedMax + 40; i++) await ask(world, 'devin', item(`${i}`))
  await ask(world, 'robin', item('the one'))
  const first = await world.call('alice', LIST, { agent_id: 'agent_robin' })
  assert.deepEqual(first.items, [])
  assert.notEqual(first.next_cursor, null)
  const second = await world.call('alice', LIST, { agent_id: 'agent_robin', cursor: first.next_cursor })
  assert.deepEqual([titlesOf(second.items), second.next_cursor], [['the one'], null])
  await world.close()
})

test('a search reaches every item, and its count is true, however many calls that takes', async () => {
  const world = await createWorld({ terms: { asksOpenMax: null } })
  const details = { log: 'x'.repeat(15_000) }
  for (let i = 0; i < 300; i++) await ask(world, 'devin', { payload: { item: `Deploy service ${i}`, details } })
  for (const [where, payload] of [
    ['details', { item: 'One', details: { note: ['it is the Needle'] } }],
    ['context', { item: 'Two', details: {}, context: 'a NEEDLE\u200B here' }],
  ] as const)
    assert.ok(await ask(world, 'robin', { payload }), where)
  assert.deepEqual(titlesOf((await world.call('alice', LIST, { text: 'needle' })).items), ['One', 'Two'], 'the index knows where')
  // Two letters are too few for it.
  const first = await world.call('alice', LIST, { text: 'dl' })
  assert.deepEqual(first.items, [], 'so much text was looked at')
  assert.notEqual(first.next_cursor, null)
  assert.deepEqual(titlesOf(await allOf(world, 'alice', { text: 'dl' })), ['One', 'Two'])
  assert.deepEqual(titlesOf(await allOf(world, 'alice', { text: 'needle' })), ['One', 'Two'])
  assert.deepEqual(titlesOf(await allOf(world, 'alice', { text: 'service 151' })), ['Deploy service 151'])
  const counts: number[] = []
  for (let cursor: string | null | undefined; cursor !== null;) {
    const page: any = await world.call('alice', COUNT, { text: 'deploy', ...(cursor === undefined ? {} : { cursor }) })
    counts.push(page.open)
    cursor = page.next_cursor
  }
  assert.ok(counts.length > 1, 'more than one call looks at')
  assert.equal(
    counts.reduce((sum, one) => sum + one, 0),
    300,
  )
  await world.close()
})

test('a search neither finds nor counts items of others', async () => {
  const world = await createWorld()
  await ask(world, 'devin', item('needle of alice'))
  for (const who of ['rita', 'bob', 'owner', 'mallory']) {
    assert.deepEqual(await allOf(world, who, { text: 'needle' }), [], who)
    assert.equal((await world.call(who, COUNT, { text: 'needle' })).open, 0, who)
  }
  assert.equal((await world.call('owner', COUNT, { person: 'user_alice' })).open, 1)
  await assert.rejects(world.call('bob', COUNT, { person: 'user_alice' }), { code: 'UNAUTHORIZED' })
  const narrow = castAs(world, 'narrow', 'alice', { partial: true })
  await assert.rejects(world.call(narrow, COUNT), { code: 'UNAUTHORIZED' })
  assert.equal((await world.call(narrow, COUNT, { text: 'needle' })).open, 1, 'item by item it learns of nothing else')
  await world.close()
})

test('a page ends when it holds enough, however few that is', async () => {
  const world = await createWorld()
  const details = Object.fromEntries(Array.from({ length: 6 }, (_, i) => [`d${i}`, 'x'.repeat(2_500)]))
  for (let i = 0; i < 90; i++) await ask(world, 'devin', { payload: { item: `${i}`, details } })
  const { items, next_cursor } = await world.call('alice', LIST, { limit: 200 })
  assert.ok(items.length < 90 && next_cursor !== null, `${items.length} items`)
  assert.equal((await allOf(world, 'alice', { limit: 200 })).length, 90)
  await world.close()
})

describe('whose inbox it is', () => {
  test("nobody lists, counts or fetches others' items", async () => {
    const world = await createWorld()
    const { id } = await ask(world, 'devin')
    await ask(world, 'spy', item('of another project'))
    for (const who of ['rita', 'bob', 'owner']) {
      assert.deepEqual(await allOf(world, who), [], who)
      assert.equal((await world.call(who, COUNT)).open, 0, who)
    }
    for (const who of ['rita', 'bob', 'mallory'])
      await assert.rejects(world.call(who, 'execution/inbox.get', { request_id: id }), { code: 'NOT_FOUND' })
    assert.deepEqual(titlesOf(await allOf(world, 'mallory')), ['of another project'])
    for (const who of ['devin', 'project', 'admin', 'system'])
      for (const name of [LIST, COUNT]) await assert.rejects(world.call(who, name), { code: 'UNAUTHORIZED' }, `${name} by ${who}`)
    await world.close()
  })

  test('the owner of the installation may look into the inbox of a person, nobody else may', async () => {
    const world = await createWorld()
    await ask(world, 'devin', item('hers'))
    assert.deepEqual(titlesOf(await allOf(world, 'owner', { person: 'user_alice' })), ['hers'])
    assert.deepEqual(titlesOf(await allOf(world, 'alice', { person: 'user_alice' })), ['hers'])
    for (const who of ['bob', 'mallory', 'deputy', 'admin'])
      await assert.rejects(world.call(who, LIST, { person: 'user_alice' }), { code: 'UNAUTHORIZED' }, who)
    await world.close()
  })

  test('a substitute sees the items of those for whom they act, once each, for as long as they do', async () => {
    const world = await createWorld()
    await ask(world, 'devin', item('hers'))
    const quorum = { n: 1, of: ['user_alice', 'user_bob'] }
    await ask(world, 'devin', { quorum, ...item('both') })
    assert.deepEqual(titlesOf(await allOf(world, 'deputy', { limit: 1 })), ['hers', 'both'])
    assert.deepEqual(titlesOf(await allOf(world, 'bob')), ['both'])
    const { open, acting_for } = await world.call('deputy', COUNT)
    assert.deepEqual({ open, acting_for }, { open: 1, acting_for: [{ person: 'user_alice', open: 2 }] })
    await world.close()
  })

  test('an unclaimed item is in the inbox of everyone in the project', async () => {
    const world = await createWorld()
    await ask(world, 'devin', { role: 'pool', priority: 'critical', ...item('anybody') })
    await ask(world, 'devin', item('alice'))
    assert.deepEqual(titlesOf(await allOf(world, 'alice', { limit: 1 })), ['anybody', 'alice'])
    assert.deepEqual(titlesOf(await allOf(world, 'bob')), ['anybody'])
    assert.deepEqual(await allOf(world, 'mallory'), [])
    const { open, pool, by_priority } = await world.call('bob', COUNT)
    assert.deepEqual([open, pool, by_priority.critical], [1, 1, 1])
    const [{ request_id }] = await allOf(world, 'bob')
    await world.call('bob', 'execution/request.escalate', { request_id, to: ['user_alice'] })
    const escalated = await world.call('alice', COUNT)
    assert.deepEqual([escalated.open, escalated.pool, escalated.by_priority.critical], [2, 1, 1], 'in the pool and with alice: once')
    await world.close()
  })

  test('a person who was called to a pool item sees it once and counts it once', async () => {
    const world = await createWorld()
    const { id } = await ask(world, 'devin', { role: 'pool', ...item('Who can?') })
    await world.call('bob', 'execution/request.escalate', { request_id: id, to: ['user_rita'] })
    for (const who of ['rita', 'bob']) {
      assert.deepEqual(titlesOf(await allOf(world, who)), ['Who can?'])
      const { open, pool, by_priority } = await world.call(who, COUNT)
      assert.deepEqual([open, pool, by_priority.high], [1, 1, 1], who)
    }
    await world.close()
  })

  test('a key for one project shows nothing of the others, and counts nothing', async () => {
    const world = await createWorld()
    await world.play([
      { as: 'system', call: 'identity/project.join', input: { project_id: 'project_other', subject: 'user_alice', role: 'member' } },
      {
        as: 'system',
        call: 'identity/agent.add',
        input: { id: 'agent_far', name: 'Far', owner: 'user_alice', project_id: 'project_other' },
      },
    ])
    const far = castAs(world, 'far', 'spy', { id: 'agent_far' })
    const whole = castAs(world, 'whole', 'alice', {
      projects: new Map([
        ['project_default', 'member'],
        ['project_other', 'member'],
      ]),
    })
    const narrow = castAs(world, 'narrow', 'alice', { narrowed: true, partial: true })
    await ask(world, far, item('far'))
    await ask(world, 'devin', item('near'))
    assert.deepEqual(titlesOf(await allOf(world, whole)), ['far', 'near'])
    assert.deepEqual(titlesOf(await allOf(world, narrow)), ['near'])
    await assert.rejects(world.call(narrow, COUNT), { code: 'UNAUTHORIZED' })
    const ending = castAs(world, 'ending', whole, { narrowed: true })
    assert.equal((await world.call(ending, COUNT)).open, 2, 'a credential that ends, such as a token, is for all projects')
    await world.close()
  })

  test('items of a task are for the people of the task', async () => {
    const world = await createWorld()
    const { task } = await world.play(scenes.in_progress)
    const { id } = await ask(world, 'devin', { metadata: { task_id: task.id }, ...item('May I deploy?') })
    const [asked] = await allOf(world, 'alice')
    assert.equal(asked.request_id, id)
    assert.deepEqual(
      [asked.task_id, asked.facts.task.id, asked.facts.task.principal, asked.facts.task.state],
      [task.id, task.id, 'user_alice', 'blocked'],
    )
    assert.equal(asked.facts.task.goal, task.spec.goal)
    assert.deepEqual(await allOf(world, 'bob'), [])
    await assert.rejects(world.call('bob', 'execution/inbox.get', { request_id: id }), { code: 'NOT_FOUND' })
    await world.close()
  })
})

describe('an item', () => {
  test('says who asks and for whom, what the server knows, and what each answer does', async () => {
    const world = await createWorld()
    const context = 'The readers wait.'
    const payload = { item: 'Send it\nto all', details: { readers: 1_200 }, context }
    const request = await ask(world, 'devin', { payload, timeout_seconds: 3_600, fallback: 'fail', risk: 'R3', priority: 'high' })
    world.advance(90_000)
    const { item: shown, thread, votes } = await world.call('alice', 'execution/inbox.get', { request_id: request.id })
    const { card, digest, effects, facts, ...rest } = shown
    assert.deepEqual(rest, {
      request_id: request.id,
      kind: 'request',
      asks: 'approval',
      action: 'APPROVE',
      status: 'pending',
      title: 'Send it',
      task_id: null,
      checkpoint_id: null,
      agent: { id: 'agent_devin', name: 'Devin', label: 'agent_devin' },
      project: { id: 'project_default', name: 'Default' },
      acts_for: { id: 'user_alice', name: 'Alice' },
      through: 'you',
      risk: 'R3',
      guard: { confirm: null, batch: 'R3 and above are decided one at a time.' },
      arguments: [{ name: 'readers', value: '1200' }],
      options: null,
      order: null,
      reject_ends_task: false,
      declinable: true,
      reason: { text: context, by_agent: true },
      priority: 'high',
      created_at: request.created_at,
      age_seconds: 90,
      expires_at: request.expires_at,
      overdue: false,
      escalated: false,
      assignee: 'user_alice',
      assignee_name: 'Alice',
      people: 1,
      no_decider: false,
      snoozed_until: null,
      remarks: 0,
      quorum: null,
      approval: null,
      ended: null,
    })
    assert.deepEqual([thread, votes], [[], []])
    assert.equal(card.asks, 'An agent asks')
    assert.deepEqual(card.payload, payload)
    assert.deepEqual(facts.agent.owner, 'user_alice')
    assert.equal(facts.agent.open_requests, 1)
    assert.deepEqual(facts.project, { id: 'project_default', name: 'Default' })
    assert.deepEqual(facts.flagged, [])
    assert.match(effects.timeout, new RegExp(request.expires_at))
    // The digest is the one that an answer is held against.
    await assert.rejects(world.call('alice', 'execution/request.resolve', { request_id: request.id, result: 'approved', digest: 'x' }), {
      code: 'CHANGED',
    })
    await world.call('alice', 'execution/request.resolve', { request_id: request.id, result: 'approved', digest })
    await world.close()
  })

  test('deceptive text is escaped everywhere and flagged', async () => {
    const world = await createWorld()
    const hostile = 'safe\u202Egnp.exe\u200B'
    const payload = { item: 'Open the file', details: { [`na\u200Bme`]: hostile }, context: hostile }
    await ask(world, 'devin', { payload })
    const [shown] = await allOf(world, 'alice')
    const text = JSON.stringify(shown)
    for (const character of ['\u202E', '\u200B']) assert.ok(!text.includes(character), 'no hidden character leaves the server')
    assert.equal(shown.reason.text, 'safe\\u{202E}gnp.exe\\u{200B}')
    assert.equal(shown.card.payload.details['na\\u{200B}me'], 'safe\\u{202E}gnp.exe\\u{200B}')
    assert.match(shown.facts.flagged.join(), /cannot be seen/)
    await world.close()
  })

  test('a card whose escaped text is longer than any agent may send is shown all the same', async () => {
    const world = await createWorld()
    await ask(world, 'devin', { payload: { item: 'Open it', details: {}, context: '\u200B'.repeat(limits.contextCharsMax) } })
    const [shown] = await allOf(world, 'alice')
    assert.equal(shown.card.payload.context, '\\u{200B}'.repeat(limits.contextCharsMax))
    await world.close()
  })

  test('a title is one line, however long the question', async () => {
    const world = await createWorld()
    await ask(world, 'devin', item(`${'x'.repeat(250)}\nand more`))
    const [{ title }] = await allOf(world, 'alice')
    assert.equal(title.length, limits.labelCharsMax)
    assert.match(title, /^x+…$/)
    await world.close()
  })
})
