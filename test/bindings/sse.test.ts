// Live streams as server-sent events, on real sockets: in order, complete, only for permitted readers, and cheap for many.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { createHub, type Sink } from '#bindings/live/hub.ts'
import { memoryStore } from '#stores/memory.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { liveWorld, pause, until, type LiveWorld } from '../support/over-sockets/live.ts'
import { storeMakers } from '../support/in-process/world.ts'
import { SOON_MS } from '../support/over-sockets/soon.ts'

const scenes = collaboration.scenes as Record<string, any>
const spec = (goal: string): object => ({ spec: { goal, acceptance_criteria: ['it is done'] } })
const idsOf = (events: readonly { id: string }[]): string[] => events.map(({ id }) => id)

/** Every event that audit.query has for these filters, oldest first. */
async function recordOf(world: LiveWorld, as: string, filters: object): Promise<any[]> {
  const all: any[] = []
  for (let cursor: string | null | undefined; cursor !== null;) {
    const page: any = await world.call(as, 'collaboration/audit.query', {
      ...filters,
      limit: 200,
      ...(cursor === undefined ? {} : { cursor }),
    })
    // Names are those of today; a stream says what was written.
    all.push(...page.items.map(({ actor_name: _, behalf_name: __, ...event }: any) => event))
    cursor = page.next_cursor
  }
  return all
}

const createTask = async (world: LiveWorld, goal = 'work'): Promise<any> =>
  (await world.call('alice', 'collaboration/task.create', spec(goal))).task

for (const maker of storeMakers()) {
  describe(`events on ${maker.name}`, () => {
    after(() => maker.dispose())

    test('a stream sends past and new events, as audit.query shows them, and resumes from a cursor', async (t) => {
      const world = await liveWorld(t, { store: maker.open() })
      const { task } = await world.play(scenes['created'])
      const { key } = await world.keyOf('alice')
      const stream = await world.events(key, `task_id=${task.id}`)
      assert.equal(stream.status, 200)
      assert.equal(stream.headers['content-type'], 'text/event-stream; charset=utf-8')
      assert.equal(stream.headers['cache-control'], 'no-store')
      await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'user_bob' })
      await world.call('bob', 'collaboration/task.start', { task_id: task.id })
      await until(() => stream.items.length === 3, 'three events')
      assert.deepEqual(stream.items, await recordOf(world, 'alice', { task_id: task.id }))
      assert.deepEqual(
        stream.frames.map(({ event }) => event),
        ['task.created', 'task.assigned', 'task.started'],
      )
      const rest = await world.events(key, `task_id=${task.id}&after=${stream.frames[0]!.id}`)
      await until(() => rest.items.length === 2, 'two events')
      const byHeader = await world.events(key, `task_id=${task.id}&after=${stream.frames[0]!.id}`, {
        'last-event-id': stream.frames[1]!.id!,
      })
      await until(() => byHeader.items.length === 1, 'one event')
      assert.deepEqual([...idsOf(rest.items), ...idsOf(byHeader.items)], idsOf([stream.items[1], stream.items[2], stream.items[2]]))
    })

    test('nothing is lost or repeated for subscribers that break off and come again while others write', async (t) => {
      const world = await liveWorld(t, { store: maker.open(), bounds: { portionEvents: 7, ringEvents: 16 } })
      const { key } = await world.keyOf('owner')
      const started = await createTask(world, 'the first')
      let writing = true
      const writers = [1, 2, 3].map(async (writer) => {
        for (let i = 0; i < 40; i++) {
          await createTask(world, `writer ${writer} number ${i}`)
          if (i % 10 === 9) await pause(2)
        }
      })
      let chance = 7
      const random = (below: number): number => (chance = (Math.imul(chance, 1_103_515_245) + 12_345) >>> 0) % below
      const followers = Array.from({ length: 5 }, async () => {
        const got: any[] = []
        let cursor = ''
        for (let i = 0; writing || i < 3; i++) {
          const stream = await world.events(key, `project_id=project_default${cursor && `&after=${cursor}`}`)
          assert.equal(stream.status, 200, stream.text())
          await pause(random(20))
          stream.close()
          await stream.ended()
          got.push(...stream.items)
          cursor = stream.cursor() ?? cursor
        }
        return { got, cursor }
      })
      await Promise.all(writers)
      writing = false
      const wanted = idsOf(await recordOf(world, 'owner', {}))
      assert.ok(wanted.length > 120 && started)
      for (const { got, cursor } of await Promise.all(followers)) {
        const last = await world.events(key, `project_id=project_default${cursor && `&after=${cursor}`}`)
        await until(
          () => got.length + last.items.length >= wanted.length,
          `all events: ${got.length} + ${last.items.length} of ${wanted.length}`,
        )
        assert.deepEqual(idsOf([...got, ...last.items]), wanted)
        last.close()
      }
    })
  })
}

test('an event that is not durable yet is neither sent nor skipped', async (t) => {
  let open: () => void = () => undefined
  let gate: Promise<void> | null = null
  const store = memoryStore({
    async onWrite(_, apply) {
      if (gate) await gate
      apply()
    },
  })
  const world = await liveWorld(t, { store, bounds: { recheckMs: 10 } })
  const { key } = await world.keyOf('owner')
  const before = await world.events(key, '')
  gate = new Promise((done) => (open = done))
  const writing = createTask(world, 'on its way')
  await pause(40)
  const between = await world.events(key, 'after=latest')
  await pause(40)
  assert.deepEqual([before.items, between.items], [[], []])
  open()
  await writing
  await until(() => before.items.length === 1 && between.items.length === 1, 'both get it')
})

test('the operation itself is a GET, and the alias answers the same', async (t) => {
  const world = await liveWorld(t)
  const { task } = await world.play(scenes['created'])
  const { key } = await world.keyOf('alice')
  const stream = await world.events(key, `/v1/collaboration/audit.follow?task_id=${task.id}`)
  await until(() => stream.items.length === 1, 'one event')
  const alias = await world.events(key, `task_id=${task.id}`, { 'last-event-id': '' })
  await until(() => alias.items.length === 1, 'one event')
  assert.deepEqual(alias.frames, stream.frames)
})

test('the description of the API names the stream under both of its paths', async (t) => {
  const { port } = await liveWorld(t)
  const { paths } = (await (await fetch(`http://127.0.0.1:${port}/openapi.json`)).json()) as any
  for (const path of ['/v1/events', '/v1/collaboration/audit.follow']) {
    assert.deepEqual(Object.keys(paths[path]), ['get'])
    assert.ok(paths[path].get.responses[200].content['text/event-stream'], path)
  }
})

test('a stream is narrowed by task, by root, by project and by action', async (t) => {
  const world = await liveWorld(t)
  const { key } = await world.keyOf('owner')
  const one = await createTask(world, 'one')
  await createTask(world, 'two')
  const child = (await world.call('alice', 'collaboration/task.create', { ...spec('child'), parent_task: one.id })).task
  await world.call('alice', 'collaboration/task.assign', { task_id: one.id, assignee: 'agent_devin' })
  const filters = [
    { task_id: one.id },
    { task_id: child.id },
    { root_task_id: one.id },
    { project_id: 'project_default' },
    { action: 'task.assigned' },
    { root_task_id: one.id, action: 'task.created' },
    { task_id: child.id, root_task_id: one.id },
    {},
  ]
  for (const filter of filters) {
    const wanted = idsOf(await recordOf(world, 'owner', filter))
    assert.ok(wanted.length > 0, JSON.stringify(filter))
    const stream = await world.events(key, new URLSearchParams(filter).toString())
    await until(() => stream.items.length >= wanted.length, JSON.stringify(filter))
    const later = await world.events(key, new URLSearchParams({ ...filter, after: 'latest' }).toString())
    const { task } = await world.call('alice', 'collaboration/task.create', { ...spec('live'), parent_task: one.id })
    await world.call('alice', 'collaboration/task.cancel', { task_id: task.id, reason: 'tidy' })
    const now = idsOf(await recordOf(world, 'owner', filter))
    await until(() => stream.items.length >= now.length && later.items.length >= now.length - wanted.length, JSON.stringify(filter))
    assert.deepEqual(idsOf(stream.items), now, JSON.stringify(filter))
    assert.deepEqual(idsOf(later.items), now.slice(wanted.length), JSON.stringify(filter))
    stream.close()
    later.close()
  }
  const none = await world.events(key, `task_id=${one.id}&project_id=project_other`)
  const beside = await world.events(key, `task_id=${one.id}`)
  await until(() => beside.items.length > 0, 'the task has events')
  assert.deepEqual(none.items, [])
})

test('descendants that a reader of the root may not see are left out, before and while it is live', async (t) => {
  const world = await liveWorld(t)
  const root = (await world.call('alice', 'collaboration/task.create', { ...spec('root'), reviewers: ['user_rita'] })).task
  const hidden = (await world.call('alice', 'collaboration/task.create', { ...spec('hidden'), parent_task: root.id })).task
  const shown = (
    await world.call('alice', 'collaboration/task.create', { ...spec('shown'), parent_task: root.id, reviewers: ['user_rita'] })
  ).task
  const { key } = await world.keyOf('rita')
  const isReader = await world.call('rita', 'collaboration/task.get', { task_id: hidden.id }).then(
    () => true,
    () => false,
  )
  assert.equal(isReader, false, 'rita cannot read the hidden child')
  const stream = await world.events(key, `root_task_id=${root.id}`)
  await until(() => stream.items.length >= 3, 'the first events')
  await world.call('alice', 'collaboration/task.assign', { task_id: hidden.id, assignee: 'agent_devin' })
  await world.call('alice', 'collaboration/task.assign', { task_id: shown.id, assignee: 'agent_devin' })
  const late = (await world.call('alice', 'collaboration/task.create', { ...spec('late'), parent_task: root.id, reviewers: ['user_rita'] }))
    .task
  await world.call('alice', 'collaboration/task.create', { ...spec('late and hidden'), parent_task: root.id })
  const readable = idsOf(await recordOf(world, 'rita', { root_task_id: root.id }))
  await until(() => stream.items.length >= readable.length, 'the live events')
  assert.deepEqual(
    stream.items.filter(({ action }) => action !== 'task.child_added').map(({ task_id, action }) => [task_id, action]),
    [
      [root.id, 'task.created'],
      [shown.id, 'task.created'],
      [shown.id, 'task.assigned'],
      [shown.id, 'run.delegated'],
      [late.id, 'task.created'],
    ],
  )
  assert.deepEqual(idsOf(stream.items), readable)
})

test('a foreign document cannot be followed, and no stream opens without a credential', async (t) => {
  const world = await liveWorld(t)
  const { task } = await world.play(scenes['created'])
  const { key: stranger } = await world.keyOf('mallory')
  const { key: member } = await world.keyOf('bob')
  const rows = [
    [stranger, `task_id=${task.id}`, 404, 'NOT_FOUND'],
    [stranger, `root_task_id=${task.id}`, 404, 'NOT_FOUND'],
    [stranger, 'project_id=project_default', 404, 'NOT_FOUND'],
    [member, '', 403, 'UNAUTHORIZED'],
    [member, `task_id=${task.id}`, 404, 'NOT_FOUND'],
    ['', `task_id=${task.id}`, 401, 'UNAUTHENTICATED'],
    ['cs_wrong', '', 401, 'UNAUTHENTICATED'],
  ] as const
  for (const [key, query, status, code] of rows) {
    const refused = await world.events(key, query)
    await refused.ended()
    assert.deepEqual([refused.status, JSON.parse(refused.text()).error.code], [status, code], query)
  }
  const denials = (await recordOf(world, 'admin', { action: 'authorization.denied' })).length
  assert.ok(denials > 0, 'a refused stream is written down as a refused call is')
})

test('a cursor of another question, of no question, or from beyond the end is refused', async (t) => {
  const world = await liveWorld(t)
  const { key } = await world.keyOf('owner')
  const one = await createTask(world)
  const two = await createTask(world)
  const stream = await world.events(key, `task_id=${one.id}`)
  await until(() => stream.items.length === 1, 'one event')
  const cursor = stream.frames[0]!.id!
  const beyond = cursor.slice(0, 16) + Buffer.from('999999').toString('base64url')
  const wordy = cursor.slice(0, 16) + Buffer.from('1e1').toString('base64url')
  const rows = [
    `task_id=${two.id}&after=${cursor}`,
    `root_task_id=${one.id}&after=${cursor}`,
    `task_id=${one.id}&action=task.created&after=${cursor}`,
    `after=${cursor}`,
    `task_id=${one.id}&after=${beyond}`,
    `task_id=${one.id}&after=${wordy}`,
    `task_id=${one.id}&after=`,
    `task_id=${one.id}&after=nonsense`,
    `task_id=${one.id}&after=${cursor}&after=${cursor}`,
    `task_id=${one.id}&task_id=${two.id}`,
    'task_id=%00',
    '__proto__=1',
  ]
  for (const query of rows) {
    const refused = await world.events(key, query)
    if (refused.status === 200) refused.close()
    await refused.ended()
    assert.deepEqual([refused.status, JSON.parse(refused.text()).error.code], [400, 'INVALID_REQUEST'], query)
  }
  // Neither an empty id nor bytes that are no text are taken for "no filter".
  for (const query of ['task_id=', 'task_id=%ED%A0%80']) assert.equal((await world.events(key, query)).status, 404, query)
})

test('a stream of a filter that nothing matches moves its cursor on all the same', async (t) => {
  const world = await liveWorld(t, { bounds: { beatMs: 20 } })
  const { key } = await world.keyOf('owner')
  const stream = await world.events(key, 'action=task.started')
  const before = stream.cursor()
  for (let i = 0; i < 5; i++) await createTask(world)
  await until(() => stream.cursor() !== before, 'the cursor moves')
  assert.deepEqual(stream.items, [])
  const again = await world.events(key, `action=task.started&after=${stream.cursor()}`)
  assert.equal(again.status, 200)
})

type Loss = {
  readonly name: string
  readonly lose: (world: LiveWorld, key: string, task: string) => Promise<unknown>
  readonly code: string
}
const losses: readonly Loss[] = [
  { name: 'a revoked key', lose: (world, id) => world.call('system', 'identity/key.revoke', { key_id: id }), code: 'UNAUTHENTICATED' },
  {
    name: 'a disabled person',
    lose: (world) => world.call('system', 'identity/user.update', { user_id: 'user_rita', disabled: true }),
    code: 'UNAUTHENTICATED',
  },
  {
    name: 'a removed reviewer',
    lose: (world, _, task) => world.call('alice', 'collaboration/reviewer.remove', { task_id: task, user: 'user_rita' }),
    code: 'NOT_FOUND',
  },
]
for (const { name, lose, code } of losses) {
  test(`${name} loses the stream and gets nothing after it`, async (t) => {
    const world = await liveWorld(t, { bounds: { recheckMs: 500 } })
    const { task } = await world.play(scenes['created'])
    const { key, id } = await world.keyOf('rita')
    const stream = await world.events(key, `task_id=${task.id}`)
    await until(() => stream.items.length === 1, 'one event')
    const began = performance.now()
    await lose(world, id, task.id)
    await stream.ended()
    const ms = performance.now() - began
    assert.ok(ms < SOON_MS, `it took ${ms} ms`)
    const last = stream.frames.at(-1)!
    assert.deepEqual([last.event, last.data.code], ['error', code])
    const count = stream.items.length
    await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
    await pause(50)
    assert.equal(stream.items.length, count)
    const again = await world.events(key, `task_id=${task.id}`)
    assert.equal(again.status, code === 'NOT_FOUND' ? 404 : 401)
  })
}

test('an event is read and written once for a hundred subscribers, and one write carries what came together', async (t) => {
  const world = await liveWorld(t)
  const { key } = await world.keyOf('owner')
  const streams = await Promise.all(Array.from({ length: 100 }, () => world.events(key, 'after=latest')))
  const others = await Promise.all(Array.from({ length: 10 }, () => world.events(key, 'action=task.created&after=latest')))
  let reads = 0
  const { facts } = world.store
  world.store.facts = (of, page) => {
    reads++
    return facts(of, page)
  }
  await Promise.all(Array.from({ length: 20 }, (_, i) => createTask(world, `number ${i}`)))
  await until(() => [...streams, ...others].every(({ items }) => items.length === 20), 'twenty events each')
  assert.equal(world.writes.size, 20)
  assert.deepEqual(
    [...world.writes.values()].filter((times) => times !== 1),
    [],
  )
  assert.ok(reads <= 20, `${reads} reads`)
})

test('a session that only watches still ends when it is idle', async (t) => {
  const world = await liveWorld(t)
  const { task } = await world.play(scenes['created'])
  const { token } = await world.call('system', 'identity/login.issue', { user_id: 'user_alice' })
  const { session } = await world.call('system', 'identity/session.open', { token })
  const stream = await world.events('', `task_id=${task.id}`, { cookie: `countersign=${session}` })
  assert.equal(stream.status, 200)
  const foreign = await world.events('', `task_id=${task.id}`, { cookie: `countersign=${session}`, origin: 'https://evil.example' })
  assert.equal(foreign.status, 403)
  world.advance(31 * 60_000)
  await stream.ended()
  assert.equal(stream.frames.at(-1)!.data.code, 'UNAUTHENTICATED')
})

test('a heartbeat comes when nothing else does', async (t) => {
  const world = await liveWorld(t, { bounds: { beatMs: 20 } })
  const { key } = await world.keyOf('owner')
  const stream = await world.events(key, '')
  await until(() => stream.comments.length >= 3, 'three beats')
})

test('streams are bounded per actor and in all', async (t) => {
  const world = await liveWorld(t, { bounds: { perActor: 2, total: 3 } })
  const { key: owner } = await world.keyOf('owner')
  const { key: alice } = await world.keyOf('alice')
  const { task } = await world.play(scenes['created'])
  const first = await world.events(owner, '')
  await world.events(owner, '')
  const third = await world.events(owner, '')
  assert.equal(third.status, 429)
  assert.equal((await world.events(alice, `task_id=${task.id}`)).status, 200)
  assert.equal((await world.events(alice, `task_id=${task.id}`)).status, 503)
  first.close()
  await first.ended()
  await pause(20)
  assert.equal((await world.events(owner, '')).status, 200)
})

const bulk = 'x'.repeat(9_000)
const narrow = { unsentBytes: 64 * 1024, unsentEvents: 8, slowMs: 50, portionBytes: 128 * 1024, lingerMs: 20_000 }

test('a slow consumer is closed with a cursor, and from there nothing is missing', async (t) => {
  const world = await liveWorld(t, { bounds: narrow })
  const { key } = await world.keyOf('owner')
  const quick = await world.events(key, 'after=latest')
  const slow = await world.events(key, 'after=latest')
  slow.pause()
  for (let i = 0; i < 60; i++) {
    await Promise.all(Array.from({ length: 20 }, (_, j) => createTask(world, `${i}.${j} ${bulk}`)))
    if (i % 10 === 9) await pause(30)
  }
  await pause(300)
  slow.resume()
  await slow.ended()
  const last = slow.frames.at(-1)!
  assert.equal(last.event, 'slow')
  assert.equal(last.data.cursor, last.id)
  const rest = await world.events(key, `after=${last.data.cursor}`)
  await until(() => slow.items.length + rest.items.length >= 1_200, 'the rest')
  await until(() => quick.items.length === 1_200, 'the quick one was not held up')
  assert.ok(slow.items.length < 1_200)
  assert.deepEqual(idsOf([...slow.items, ...rest.items]), idsOf(quick.items))
})

test('a subscriber that lags behind the events in memory reads them from the store, on the same stream', async (t) => {
  const world = await liveWorld(t, { bounds: { ringEvents: 16, slowMs: 60_000, stuckMs: 60_000 } })
  const { key } = await world.keyOf('owner')
  const held = await world.events(key, 'after=latest')
  held.pause()
  for (let i = 0; i < 60; i++) await Promise.all(Array.from({ length: 20 }, (_, j) => createTask(world, `${i}.${j} ${bulk}`)))
  held.resume()
  await until(() => held.items.length >= 1_200, 'all events', 10_000)
  const record = await recordOf(world, 'owner', {})
  assert.deepEqual(idsOf(held.items), idsOf(record.slice(-1_200)))
  assert.equal(held.isOver(), false)
})

test('clients that never read are closed, and what was kept for them is given back', async (t) => {
  const world = await liveWorld(t, { bounds: { ...narrow, stuckMs: 300, lingerMs: 100 } })
  const { key } = await world.keyOf('owner')
  const silent = await Promise.all(Array.from({ length: 40 }, () => world.events(key, 'after=latest')))
  for (const stream of silent) stream.pause()
  const written = 60
  const before = process.memoryUsage().arrayBuffers
  for (let i = 0; i < written; i++) await Promise.all(Array.from({ length: 10 }, (_, j) => createTask(world, `${i}.${j} ${bulk}`)))
  // 40 subscribers were sent 600 events of about 40 kB: kept for each by itself that were 1 GB.
  const kept = process.memoryUsage().arrayBuffers - before
  assert.ok(kept < 300 * 1024 * 1024, `${kept} bytes`)
  const gauge = async (): Promise<string> => (await fetch(`http://127.0.0.1:${world.port}/metrics`)).text()
  for (let i = 0; i < 100 && !/^countersign_streams 0$/m.test(await gauge()); i++) await pause(50)
  assert.match(await gauge(), /^countersign_streams 0$/m)
})

test('a stop ends streams with a cursor from which they resume after the next start', async (t) => {
  const world = await liveWorld(t)
  const { key } = await world.keyOf('owner')
  await createTask(world)
  const stream = await world.events(key, '')
  await until(() => stream.items.length > 0, 'events')
  await Promise.all([world.stop(), stream.ended()])
  const last = stream.frames.at(-1)!
  assert.equal(last.event, 'stopping')
  assert.equal(last.id, stream.frames.at(-2)!.id)
})

test('a stream whose events cannot be read ends, and those of others go on', async (t) => {
  const world = await liveWorld(t)
  const { task } = await world.play(scenes['in_progress'])
  await world.call('alice', 'collaboration/reviewer.add', { task_id: task.id, user: 'user_bob' })
  const bugs: unknown[] = []
  const admit: typeof world.kernel.admit = async (...asked) => {
    const admission = await world.kernel.admit(...asked)
    const { id } = admission.actor
    const failing = (): never => {
      throw new Error('it cannot be told')
    }
    if (id === 'user_rita') return { ...admission, sees: failing }
    return id === 'user_bob' ? { ...admission, audience: 'bob', op: { ...admission.op, wants: failing } } : admission
  }
  const hub = createHub({ kernel: { ...world.kernel, admit }, bug: (error) => void bugs.push(error) })
  t.after(hub.stop)
  const heard: Record<string, string[]> = { alice: [], rita: [], bob: [] }
  const follow = (who: string): Promise<unknown> =>
    hub.subscribe(
      { name: 'collaboration/audit.follow', input: { task_id: task.id }, after: 'latest', who, caller: world.cast[who]! },
      (): Sink => ({
        send(portion, taken) {
          heard[who]!.push(...portion.entries.map(({ written }) => written.action))
          taken()
        },
        beat: () => undefined,
        end: ({ reason }) => void heard[who]!.push(reason),
      }),
    )
  for (const who of ['rita', 'bob', 'alice']) await follow(who)
  await pause(50)
  const amended = { task_id: task.id, text: 'Slowly.', intent: 'clarify' }
  await world.call('alice', 'collaboration/task.amend', amended)
  await until(() => heard['alice']!.length === 2, 'the first amendment is told')
  await world.call('alice', 'collaboration/task.amend', amended)
  await until(() => heard['alice']!.length === 4, 'the second amendment is told')
  const told = ['task.amended', 'run.steered']
  assert.deepEqual(heard, { alice: [...told, ...told], rita: ['failed'], bob: ['failed'] })
  assert.equal(bugs.length, 2)
})

test('events that are read again are paid for out of the quota of reads', async (t) => {
  const world = await liveWorld(t, { readsPerMinute: 20 })
  const { key } = await world.keyOf('alice')
  const { task } = await world.play(scenes['in_progress'])
  for (let i = 0; i < 20; i++)
    await world.call('alice', 'collaboration/task.amend', { task_id: task.id, text: 'y'.repeat(3_000), intent: 'clarify' })
  const first = await world.events(key, `task_id=${task.id}`)
  await until(() => first.items.length >= 20, 'the amendments are told')
  first.close()
  assert.equal((await world.events(key, `task_id=${task.id}`)).status, 429)
  assert.equal((await world.events((await world.keyOf('owner')).key, 'project_id=project_default')).status, 200, 'others have their own')
})
