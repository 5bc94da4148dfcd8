// Decisions about the record, readers, the ledger and the wire.
import assert from 'node:assert/strict'
import type { Actor } from '#kernel/declare/access.ts'
import { linesOf, refusalOf, stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions
const spec = { goal: 'Fix it' }

must('H16', 'what the system does stands under agent_system, which is neither an agent nor a person', async () => {
  const { refs, call, events, refused } = await stage('blocked')
  await call('system', 'checkpoint.expire', { checkpoint_id: refs['checkpoint'].id })
  assert.equal((await events()).at(-1)!.actor, 'agent_system')
  await refused('UNAUTHORIZED', 'system', 'task.create', { spec })
  const created = await stage('created')
  for (const id of ['agent_system', 'system', 'service_admin']) {
    await created.refused('NOT_FOUND', 'alice', 'task.assign', { task_id: created.refs['task'].id, assignee: id })
    await created.refused('NOT_FOUND', 'alice', 'reviewer.add', { task_id: created.refs['task'].id, user: id })
  }
})
must('H16', 'the last executor, the assignee and the principal write to the ledger, also after the end; nobody else', async () => {
  const { refs, call, refused } = await stage('completed')
  const write = { task_id: refs['task'].id, key: 'k', value: 1 }
  for (const as of ['devin', 'alice']) assert.equal((await call(as, 'ledger.write', write)).entry.by, refs['task'].id)
  for (const as of ['rita', 'owner', 'admin', 'system', 'project']) await refused('UNAUTHORIZED', as, 'ledger.write', write)
})

must('H22-seq', 'seq counts within the project, without a gap, over all its tasks; audit_trail is the first event', async () => {
  const { world, call, events } = await stage('written')
  const second = (await call('bob', 'task.create', { spec })).task
  const [first] = await events(second.id)
  assert.equal(second.audit_trail, first.id)
  const seqs = (await linesOf(world)).filter((line) => line.scope === 'project_default').map((line) => line.seq)
  assert.deepEqual(
    seqs,
    Array.from(seqs, (_, i) => i + 1),
  )
  assert.equal(first.seq, seqs.length)
})
must('H22-ledger', 'a scope has one ledger, made at the first write; org is another; versions are optional to name', async () => {
  const { refs, call, refused } = await stage('completed')
  const write = { task_id: refs['task'].id, key: 'k' }
  const one = (await call('devin', 'ledger.write', { ...write, value: 1, expected_version: 0 })).entry
  const other = (await call('devin', 'ledger.write', { ...write, key: 'other', value: 1 })).entry
  const org = (await call('devin', 'ledger.write', { ...write, value: 'all', scope: 'org' })).entry
  assert.equal(one.ledger_id, other.ledger_id)
  assert.notEqual(one.ledger_id, org.ledger_id)
  await refused('CONFLICT', 'devin', 'ledger.write', { ...write, value: 2, expected_version: 0 })
  await call('devin', 'ledger.write', { ...write, value: 2, expected_version: 1 })
  assert.equal((await call('alice', 'ledger.write', { ...write, value: 3 })).entry.version, 3, 'the last write wins')
  assert.equal((await call('bob', 'ledger.read', { key: 'k' })).entry.value, 3)
  assert.equal((await call('bob', 'ledger.read', { key: 'k', scope: 'org' })).entry.value, 'all')
  await refused('INVALID_REQUEST', 'devin', 'ledger.write', { ...write, value: 1, scope: 'galaxy' })
  await refused('INVALID_SPEC', 'devin', 'ledger.write', { ...write, value: 'x'.repeat(70_000) })
})

must('H23-codes', 'each code of the draft has its class', async () => {
  const { world } = await stage()
  const classes = {
    INVALID_SPEC: 'invalid',
    INVALID_REQUEST: 'invalid',
    UNAUTHENTICATED: 'unauthenticated',
    UNAUTHORIZED: 'forbidden',
    NOT_FOUND: 'missing',
    CONFLICT: 'conflict',
    PRECONDITION_FAILED: 'conflict',
    IMMUTABLE_VIOLATION: 'conflict',
    DEADLINE_EXCEEDED: 'conflict',
    CHECKPOINT_EXPIRED: 'gone',
    TOO_LARGE: 'too_large',
    QUOTA_EXCEEDED: 'quota',
    BUSY: 'busy',
  } as const
  for (const [code, fault] of Object.entries(classes)) assert.equal(world.kernel.codes[code], fault, code)
})
must('H23-order', 'shape comes before existence, existence before authority, authority before the precondition', async () => {
  const { refs, refused } = await stage('completed')
  const missing = { task_id: 'task_none', assignee: 'agent_devin' }
  await refused('INVALID_REQUEST', 'devin', 'task.assign', { task_id: 'task_none' })
  await refused('NOT_FOUND', 'devin', 'task.assign', missing)
  await refused('UNAUTHORIZED', 'devin', 'task.assign', { ...missing, task_id: refs['task'].id })
  await refused('PRECONDITION_FAILED', 'alice', 'task.assign', { ...missing, task_id: refs['task'].id })
})

must('H25', 'readers are the principal, the reviewers, everyone who ever executed it, and owners of the project', async () => {
  const { refs, call, refused } = await stage('delegable')
  const task_id = refs['task'].id
  await refused('NOT_FOUND', 'robin', 'task.get', { task_id })
  await call('devin', 'ownership.delegate', { task_id, to: 'agent_robin' })
  for (const as of ['alice', 'rita', 'devin', 'robin', 'owner', 'project', 'admin']) await call(as, 'task.get', { task_id })
  for (const as of ['bob', 'mallory', 'spy']) await refused('NOT_FOUND', as, 'task.get', { task_id })
})
must(
  'H25-inputs',
  'the executor reads the versions that its spec names, until another one executes the task or it has left the project',
  async () => {
    const { refs, call, refused, world } = await stage('review_ready')
    const which = { artifact_id: refs['artifact'].id, version: 'v1' }
    const spec = { goal: 'Go on from it', inputs: [{ kind: 'artifact', id: which.artifact_id, version: 'v1' }] }
    const given = async (assignee: string): Promise<string> => {
      const { task } = await call('alice', 'task.create', { spec })
      await refused('NOT_FOUND', assignee.slice('agent_'.length), 'artifact.get', which)
      await call('alice', 'task.assign', { task_id: task.id, assignee })
      return task.id
    }
    const task_id = await given('agent_robin')
    for (const operation of ['artifact.get', 'artifact.download']) await call('robin', operation, which)
    await refused('NOT_FOUND', 'robin', 'artifact.get', { artifact_id: which.artifact_id })
    await refused('NOT_FOUND', 'robin', 'task.get', { task_id: refs['task'].id })
    await call('admin', 'ownership.transfer', { task_id, to: 'agent_devin' })
    await refused('NOT_FOUND', 'robin', 'artifact.get', which)
    await given('agent_robin')
    await call('robin', 'artifact.get', which)
    const gone: Actor = { ...world.cast['robin']!, projects: new Map() }
    assert.equal((await refusalOf(world.kernel.call('collaboration/artifact.get', which, gone))).code, 'NOT_FOUND')
  },
)
must('H25', 'who has left the project reads nothing of it any more', async () => {
  const { refs, world } = await stage('created')
  const gone: Actor = { ...world.cast['alice']!, projects: new Map() }
  assert.equal((await refusalOf(world.kernel.call('collaboration/task.get', { task_id: refs['task'].id }, gone))).code, 'NOT_FOUND')
})
must('H26', 'expire and transfer are for the system and the admin key, and for no person', async () => {
  for (const as of ['system', 'admin']) {
    const blocked = await stage('blocked')
    await blocked.call(as, 'checkpoint.expire', { checkpoint_id: blocked.refs['checkpoint'].id })
    const working = await stage('in_progress')
    await working.call(as, 'ownership.transfer', { task_id: working.refs['task'].id, to: 'agent_robin' })
    assert.equal((await working.events()).at(-1)!.actor, working.world.cast[as]!.id)
  }
  const blocked = await stage('blocked')
  for (const as of ['alice', 'rita', 'owner', 'devin', 'project']) {
    await blocked.refused('UNAUTHORIZED', as, 'checkpoint.expire', { checkpoint_id: blocked.refs['checkpoint'].id })
    await blocked.refused('UNAUTHORIZED', as, 'ownership.transfer', { task_id: blocked.refs['task'].id, to: 'agent_robin' })
  }
})
must('H27', 'for every changed document an event carries the image before and the image after, and they join up', async () => {
  const { events } = await stage('written')
  const known = new Map<string, unknown>()
  for (const { changes, after, before } of await events()) {
    assert.deepEqual([before, after], [changes[0].before, changes[0].after])
    for (const change of changes) {
      const name = `${change.kind} ${change.after.id}`
      assert.deepEqual(change.before, known.get(name) ?? null, name)
      known.set(name, change.after)
    }
  }
  assert.ok(known.size >= 6)
})
must('H27', 'a replay shows the same events as a query, with their task and their images before and after', async () => {
  const { call, refs } = await stage('written')
  const task_id = refs['task'].id
  const { items } = await call('alice', 'audit.query', { task_id, limit: 200 })
  const { events, next_cursor, replayed } = await call('alice', 'audit.replay', { task_id })
  assert.deepEqual([events, next_cursor, replayed], [items, null, items.length])
  assert.ok(events.every((event: any) => event.task_id === task_id && event.after !== null && 'before' in event))
})
must('H27', 'a replay of much shows its events in pages and rebuilds the task from all of them each time', async () => {
  const { call, refs } = await stage('in_progress')
  const task_id = refs['task'].id
  const payload = { kind: 'inline', uri: `data:,${'x'.repeat(120_000)}` }
  for (let n = 0; n < 12; n++) await call('devin', 'artifact.commit', { task_id, payload, final: false })
  const seqs: number[] = []
  let pages = 0
  for (let cursor: string | null = null; cursor !== null || pages === 0; pages++) {
    const page: any = await call('alice', 'audit.replay', { task_id, ...(cursor === null ? {} : { cursor }) })
    assert.deepEqual([page.matches, page.task], [true, (await call('alice', 'task.get', { task_id })).task])
    seqs.push(...page.events.map(({ seq }: any) => seq as number))
    if (page.next_cursor === null) assert.equal(seqs.length, page.replayed)
    cursor = page.next_cursor
  }
  assert.ok(pages > 1)
  assert.deepEqual(
    seqs,
    [...new Set(seqs)].toSorted((a, b) => a - b),
  )
})
must(
  'H31',
  'times with an offset become UTC; fields that nobody knows are refused by their path, at any depth, and never stored',
  async () => {
    const { call, refused } = await stage()
    const deadline = '2027-06-01T02:00:00.5+02:00'
    for (const [field, input] of [
      ['id', { spec, id: 'task_mine' }],
      ['outcome', { spec, outcome: 'accepted' }],
      ['spec.mood', { spec: { ...spec, mood: 'good' } }],
      ['spec.constraints.colour', { spec: { ...spec, constraints: { max_duration: 'PT1H', colour: 'red' } } }],
    ] as const)
      assert.equal((await refused('INVALID_REQUEST', 'alice', 'task.create', { deadline, ...input })).details?.['field'], field)
    const { task } = await call('alice', 'task.create', { spec, deadline })
    assert.equal(task.deadline, '2027-06-01T00:00:00.500Z')
  },
)

must('LOOPS-3', 'a person is who is registered as one: neither a spelling without agent_ nor the system counts', async () => {
  const { refs, world } = await stage('blocked')
  const projects = new Map([['project_default', 'owner' as const]])
  const answer = { checkpoint_id: refs['checkpoint'].id, action: 'approve' }
  const strangers: Actor[] = [
    { id: 'system', kind: 'system', projects: 'all' },
    { id: 'user_alice', kind: 'agent', projects },
    { id: 'user_rita', kind: 'service', projects },
    { id: 'bot', kind: 'agent', projects },
  ]
  for (const actor of strangers) {
    assert.equal((await refusalOf(world.kernel.call('collaboration/checkpoint.resolve', answer, actor))).code, 'UNAUTHORIZED', actor.id)
    assert.equal((await refusalOf(world.kernel.call('collaboration/task.create', { spec }, actor))).code, 'UNAUTHORIZED', actor.id)
  }
})

must('H44-replay', 'a reviewer who was removed, and one who left the project, do not get their old answers again', async () => {
  const on = await stage('blocked')
  const { refs, call, refused, world } = on
  const answer = { checkpoint_id: refs['checkpoint'].id, action: 'approve' }
  const first = await call('rita', 'checkpoint.resolve', answer, 'k1')
  const made = await call('rita', 'task.create', { spec }, 'k2')
  assert.deepEqual(await call('rita', 'checkpoint.resolve', answer, 'k1'), first)
  await call('alice', 'reviewer.remove', { task_id: refs['task'].id, user: 'user_rita' })
  const { message } = await refused('NOT_FOUND', 'rita', 'checkpoint.resolve', answer, 'k1')
  assert.equal(message, `there is no checkpoint ${refs['checkpoint'].id}`)
  assert.equal((await linesOf(world)).at(-1).action, 'kernel/authorization.denied')
  assert.deepEqual(await call('rita', 'task.create', { spec }, 'k2'), made, 'her own task is still hers')
  await refused('CONFLICT', 'rita', 'task.create', { spec: { goal: 'Another' } }, 'k2')
  const rita = world.cast['rita']!
  world.cast['rita'] = { ...rita, projects: new Map() }
  try {
    await refused('NOT_FOUND', 'rita', 'task.create', { spec }, 'k2')
  } finally {
    world.cast['rita'] = rita
  }
  assert.deepEqual(await call('rita', 'task.create', { spec }, 'k2'), made)
  await call('alice', 'reviewer.add', { task_id: refs['task'].id, user: 'user_rita' })
  assert.deepEqual(await call('rita', 'checkpoint.resolve', answer, 'k1'), first)
})
