// HACP 0.1.0: roles, the seven objects, immutability, identifiers, the shape of a task.
import assert from 'node:assert/strict'
import { createIds } from '#kernel/codec/ids.ts'
import { stateHash } from '../support/in-process/world.ts'
import { linesOf, stage } from '../support/in-process/stage.ts'
import { hacp } from './hacp-cited.ts'

const { must } = hacp
const spec = { goal: 'Fix the login bug', acceptance_criteria: ['tests pass'] }
const hasFields = (value: object, fields: string): void =>
  assert.deepEqual(
    fields.split(' ').filter((field) => !Object.hasOwn(value, field)),
    [],
    `fields are missing from ${JSON.stringify(value)}`,
  )

must('H-ROLE-01', 'an agent, a key of a project, the admin key and the system never become principal', async () => {
  const { refused } = await stage()
  for (const as of ['devin', 'project', 'admin', 'system']) await refused('UNAUTHORIZED', as, 'task.create', { spec })
  await refused('UNAUTHORIZED', 'devin', 'task.create', { spec, principal: 'agent_devin' })
})

must(['H-ROLE-02', 'H-TASK-03'], 'the principal is the creator from the first event to the last, through every hand', async () => {
  const { refs, call, events } = await stage('delegable')
  const task_id = refs['task'].id
  await call('devin', 'ownership.delegate', { task_id, to: 'agent_robin' })
  await call('admin', 'ownership.transfer', { task_id, to: 'user_bob' })
  const { checkpoint } = await call('bob', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
  await call('rita', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'reassign', reassign_to: 'agent_devin' })
  await call('alice', 'task.cancel', { task_id })
  const principals = (await events()).flatMap((event) =>
    event.changes.filter((c: any) => c.kind === 'task').map((c: any) => c.after.ownership.principal),
  )
  assert.ok(principals.length >= 7)
  assert.deepEqual([...new Set(principals)], ['user_alice'])
})

must('H-TASK-03', 'no operation takes a new principal', async () => {
  const { refs, refused } = await stage('created')
  const input = { task_id: refs['task'].id, assignee: 'agent_devin' }
  await refused('UNAUTHORIZED', 'alice', 'task.assign', { ...input, principal: 'user_bob' })
  await refused('UNAUTHORIZED', 'alice', 'task.assign', { ...input, ownership: { principal: 'user_bob' } })
})

must(['H-ROLE-03', 'H-REV-02'], 'an agent cannot be named reviewer and cannot review, not even work of another', async () => {
  const { refs, refused } = await stage('review_ready')
  const review = { task_id: refs['task'].id, artifact_id: refs['artifact'].id, verdict: 'approved' }
  await refused('INVALID_SPEC', 'alice', 'task.create', { spec, reviewers: ['agent_robin'] })
  await refused('INVALID_SPEC', 'alice', 'reviewer.add', { task_id: refs['task'].id, user: 'agent_robin' })
  for (const as of ['devin', 'system', 'admin', 'project']) await refused('UNAUTHORIZED', as, 'review.submit', review)
  await refused('NOT_FOUND', 'robin', 'review.submit', review)
})

must('H-ROLE-04', 'a person may work on a task, and another person than the principal may review it', async () => {
  const { refs, call } = await stage('created')
  const task_id = refs['task'].id
  const { task } = await call('alice', 'task.assign', { task_id, assignee: 'user_bob' })
  assert.equal(task.ownership.assignee, 'user_bob')
  await call('bob', 'task.start', { task_id })
  const { artifact } = await call('bob', 'artifact.commit', { task_id, payload: { kind: 'inline', uri: 'data:,x' } })
  const { review } = await call('rita', 'review.submit', { task_id, artifact_id: artifact.id, verdict: 'approved' })
  assert.equal(review.reviewer, 'user_rita')
})

must('H-OBJ-01', 'task, checkpoint, ownership, review, artifact, ledger and audit can each be made and read', async () => {
  const { refs, call, events } = await stage('written')
  const { task, artifact, entry } = refs
  assert.equal((await call('alice', 'task.get', { task_id: task.id })).task.id, task.id)
  assert.equal((await call('alice', 'artifact.get', { artifact_id: artifact.id, version: 'v1' })).artifact.id, artifact.id)
  assert.equal((await call('alice', 'review.list', { task_id: task.id })).items[0].verdict, 'approved')
  assert.equal((await call('alice', 'ledger.read', { key: 'release' })).entry.id, entry.id)
  assert.equal((await call('alice', 'task.get', { task_id: task.id })).task.ownership.principal, 'user_alice')
  assert.ok((await events()).length > 5)
  const blocked = await stage('blocked')
  const checkpoint_id = blocked.refs['checkpoint'].id
  assert.equal((await blocked.call('alice', 'checkpoint.get', { checkpoint_id })).checkpoint.state, 'pending')
})

must(['H-IMM-01', 'H-TASK-02'], 'a spec in the body of a later operation is an immutable violation, in every state', async () => {
  const changed = { goal: 'Something else' }
  const created = await stage('created')
  await created.refused('IMMUTABLE_VIOLATION', 'alice', 'task.assign', {
    task_id: created.refs['task'].id,
    assignee: 'agent_devin',
    spec: changed,
  })
  const assigned = await stage('assigned')
  await assigned.refused('IMMUTABLE_VIOLATION', 'devin', 'task.start', { task_id: assigned.refs['task'].id, spec: changed })
  for (const scene of ['created', 'in_progress', 'review_ready', 'completed']) {
    const { refs, refused } = await stage(scene)
    await refused('IMMUTABLE_VIOLATION', 'alice', 'task.cancel', { task_id: refs['task'].id, spec: changed })
  }
})

must(['H-IMM-01', 'H-TASK-02'], 'the spec is the same text in every event of a whole life', async () => {
  const { events } = await stage('written')
  const specs = (await events()).flatMap((event) =>
    event.changes.filter((c: any) => c.kind === 'task').map((c: any) => JSON.stringify(c.after.spec)),
  )
  assert.equal(new Set(specs).size, 1)
})

must('H-IMM-02', 'a version that exists cannot be committed again, and stays what it was when the next one comes', async () => {
  const { refs, call, refused } = await stage('in_progress')
  const task_id = refs['task'].id
  const { artifact } = await call('devin', 'artifact.commit', { task_id, payload: { kind: 'inline', uri: 'data:,one' }, final: false })
  const next = { task_id, artifact_id: artifact.id, parent_version: 'v1', payload: { kind: 'inline', uri: 'data:,two' } }
  await refused('IMMUTABLE_VIOLATION', 'devin', 'artifact.commit', { ...next, version: 'v1' })
  await call('devin', 'artifact.commit', next)
  assert.deepEqual((await call('alice', 'artifact.get', { artifact_id: artifact.id, version: 'v1' })).artifact, artifact)
})

must(['H-IMM-03', 'H-REV-01'], 'a review that exists cannot be submitted again, and no remark changes it', async () => {
  const { refs, call, refused } = await stage('completed')
  const { task, artifact, review } = refs
  const given = { task_id: task.id, artifact_id: artifact.id, review_id: review.id }
  await refused('IMMUTABLE_VIOLATION', 'alice', 'review.submit', { ...given, verdict: 'rejected' })
  await refused('IMMUTABLE_VIOLATION', 'alice', 'review.comment', { ...given, severity: 'nit', body: 'No!', verdict: 'rejected' })
  await call('rita', 'review.comment', { ...given, severity: 'nit', body: 'Well done.' })
  const { items, comments } = await call('alice', 'review.list', { task_id: task.id })
  assert.deepEqual(items, [review])
  assert.equal(comments.length, 1)
})

must(['H-IMM-04', 'H-IMM-05', 'H-LED-01', 'H-AUD-02'], 'there is no operation that deletes or edits an entry or an event', async () => {
  const { world, refs, call } = await stage('written')
  const task_id = refs['task'].id
  const names = world.kernel.protocols.find(({ name }) => name === 'collaboration')!.operations.map((op) => op.name)
  assert.deepEqual(
    names.filter((name) => /delete|remove|erase|purge|edit|update/.test(name)),
    // An edit of an artifact is a new version.
    ['reviewer.remove', 'artifact.edit'],
  )
  const facts = await linesOf(world)
  const entries = (await call('alice', 'ledger.history', { key: 'release' })).items
  for (const value of [null, {}, 2]) await call('devin', 'ledger.write', { task_id, key: 'release', value })
  assert.deepEqual((await linesOf(world)).slice(0, facts.length), facts)
  assert.deepEqual((await call('alice', 'ledger.history', { key: 'release' })).items.slice(0, entries.length), entries)
})

must('H-ID-01', 'an id is 48 bits of time and 80 bits of chance in Crockford base 32, and differs by its chance', () => {
  let fill = 0
  const newId = createIds(
    () => 1_469_918_176_385,
    (count) => new Uint8Array(count).fill(fill++),
  )
  assert.match(newId('task'), /^task_01ARYZ6S41[0-9A-HJKMNP-TV-Z]{16}$/)
  const other = createIds(
    () => 1_469_918_176_385,
    (count) => new Uint8Array(count).fill(9),
  )
  assert.notEqual(newId('task').slice(-16), other('task').slice(-16))
})

must('H-ID-02', 'ids sort in the order in which they were made, also in one millisecond and when the clock steps back', () => {
  const times = [5, 5, 5, 4, 1, 6, 6, 2 ** 40]
  const newId = createIds(
    () => times.shift()!,
    (count) => new Uint8Array(count).fill(31),
  )
  const made = Array.from({ length: 8 }, () => newId('task'))
  assert.deepEqual(made.toSorted(), made)
  assert.equal(new Set(made).size, made.length)
})

must('H-ID-03', 'each object carries its prefix', async () => {
  const { refs, events } = await stage('written')
  const blocked = await stage('blocked')
  const ulid = '[0-7][0-9A-HJKMNP-TV-Z]{25}$'
  const matches = (id: string, prefix: string): void => assert.match(id, new RegExp(`^${prefix}_${ulid}`))
  matches(refs['task'].id, 'task')
  matches(blocked.refs['checkpoint'].id, 'ckpt')
  matches(refs['review'].id, 'rev')
  matches(refs['artifact'].id, 'art')
  matches(refs['entry'].ledger_id, 'led')
  for (const event of await events()) matches(event.id, 'aud')
})

must('H-ID-04', 'every timestamp that is answered is RFC 3339 in UTC, also where it came with an offset', async () => {
  const { refs, call, events } = await stage('blocked')
  const { task } = await call('alice', 'task.create', { spec, deadline: '2027-03-01T12:00:00+02:00' })
  assert.equal(task.deadline, '2027-03-01T10:00:00.000Z')
  const utc = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/
  const times = (value: unknown): string[] =>
    typeof value !== 'object' || value === null
      ? []
      : Object.entries(value).flatMap(([name, inner]) =>
          /(^at|_at|_since|deadline)$/.test(name) && typeof inner === 'string' ? [inner] : times(inner),
        )
  const found = times([task, refs, await events()])
  assert.ok(found.length > 20)
  for (const time of found) assert.match(time, utc)
})

must('H-TASK-01', 'a task and its spec have the fields of the draft; what is not said is empty, not missing', async () => {
  const { call } = await stage()
  const { task } = await call('alice', 'task.create', { spec: { goal: 'Only a goal' } })
  hasFields(task, 'id type spec ownership state parent_task created_at deadline checkpoints artifacts audit_trail')
  assert.deepEqual(task.spec, { goal: 'Only a goal', acceptance_criteria: [], inputs: [], constraints: {} })
  const full = {
    goal: 'All of it',
    acceptance_criteria: ['a', 'b'],
    inputs: [{ kind: 'resource', id: 'doc', version: '3', uri: 'https://example.com/doc' }],
    constraints: { max_duration: 'PT2H', must_use_capabilities: [{ capability_id: 'git.push', version: '1.0.0' }] },
  }
  assert.deepEqual((await call('alice', 'task.create', { spec: full, type: 'code' })).task.spec, full)
})

must('H-CKPT-01', 'a checkpoint has the fields of the draft, for each of the four kinds; a fifth kind is refused', async () => {
  const options = [{ id: 'a', label: 'A', risk: 'low' }]
  for (const kind of ['approval', 'choice', 'input', 'escalation']) {
    const { refs, call } = await stage('in_progress')
    const context = [{ kind: 'link', uri: 'https://example.com' }]
    const { checkpoint } = await call('devin', 'checkpoint.raise', { task_id: refs['task'].id, kind, prompt: 'So?', options, context })
    hasFields(checkpoint, 'id task_id kind prompt options context state raised_at expires_at resolution')
    assert.deepEqual(
      [checkpoint.kind, checkpoint.state, checkpoint.options, checkpoint.context, checkpoint.resolution],
      [kind, 'pending', options, context, null],
    )
  }
  const { refs, refused } = await stage('in_progress')
  await refused('INVALID_SPEC', 'devin', 'checkpoint.raise', { task_id: refs['task'].id, kind: 'poll', prompt: 'So?' })
  await refused('INVALID_SPEC', 'devin', 'checkpoint.raise', {
    task_id: refs['task'].id,
    kind: 'choice',
    prompt: 'So?',
    options: [{ id: 'a', label: 'A', risk: 'none' }],
  })
})

must('H-OWN-01', 'ownership has the fields of the draft, and so has each transfer', async () => {
  const { refs } = await stage('blocked')
  const { ownership } = refs['task']
  hasFields(ownership, 'task_id principal assignee delegable chain')
  assert.equal(ownership.task_id, refs['task'].id)
  for (const transfer of ownership.chain) hasFields(transfer, 'from to at via')
})

must('H-REV-04', 'a review has the fields of the draft; a severity that is none of the four is refused', async () => {
  const { refs, call, refused, world } = await stage('review_ready')
  const given = { task_id: refs['task'].id, artifact_id: refs['artifact'].id, verdict: 'approved' }
  const before = await stateHash(world.store)
  await refused('INVALID_SPEC', 'alice', 'review.submit', { ...given, comments: [{ anchor: 'a', severity: 'fatal', body: 'b' }] })
  await refused('INVALID_SPEC', 'alice', 'review.comment', { ...given, verdict: undefined, severity: 'fatal', body: 'b' })
  assert.equal(await stateHash(world.store), before)
  const comments = ['blocker', 'major', 'minor', 'nit'].map((severity) => ({ anchor: 'line 1', severity, body: 'Say why.' }))
  const { review } = await call('alice', 'review.submit', { ...given, comments })
  hasFields(review, 'id task_id artifact_id reviewer verdict comments requested_changes at')
  assert.deepEqual(review.comments, comments)
})

must('H-ART-05', 'an artifact has the fields of the draft, its payload one of four kinds', async () => {
  const checksum = `sha256:${'0'.repeat(64)}`
  for (const kind of ['diff', 'blob', 'ref', 'inline']) {
    const { refs, call } = await stage('in_progress')
    const payload = kind === 'ref' ? { kind, uri: 'https://example.com/x', checksum, size: 3 } : { kind, uri: 'data:,abc' }
    const { artifact } = await call('devin', 'artifact.commit', { task_id: refs['task'].id, type: 'patch', payload })
    hasFields(artifact, 'id type provenance version parent_version payload references')
    assert.deepEqual([artifact.type, artifact.version, artifact.parent_version, artifact.references], ['patch', 'v1', null, []])
    assert.equal(artifact.provenance.produced_by, refs['task'].id)
    hasFields(artifact.payload, 'kind uri checksum size')
    assert.equal(artifact.payload.kind, kind)
  }
  const { refs, refused } = await stage('in_progress')
  await refused('INVALID_SPEC', 'devin', 'artifact.commit', { task_id: refs['task'].id, payload: { kind: 'zip', uri: 'data:,abc' } })
})

must('H-LED-04', 'an entry has the fields of the draft and belongs to a ledger with a scope; by is the task', async () => {
  const { refs } = await stage('written')
  const { entry, task } = refs
  hasFields(entry, 'key value written_at by')
  assert.deepEqual([entry.key, entry.by, entry.scope], ['release', task.id, 'project:project_default'])
})
