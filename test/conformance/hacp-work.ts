// HACP 0.1.0: checkpoint, ownership, review, artifact, ledger.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { again, raced, stage } from '../support/in-process/stage.ts'
import { hacp } from './hacp-cited.ts'

const { must } = hacp
const spec = { goal: 'Fix the login bug' }
const inline = (text: string) => ({ kind: 'inline', uri: `data:,${text}` })

must('H-CKPT-02', 'only the principal and the reviewers of the task resolve, and the resolution names them', async () => {
  const blocked = await stage('blocked')
  const answer = { checkpoint_id: blocked.refs['checkpoint'].id, action: 'approve' }
  for (const as of ['devin', 'owner', 'project', 'admin', 'system']) await blocked.refused('UNAUTHORIZED', as, 'checkpoint.resolve', answer)
  for (const as of ['bob', 'robin', 'mallory', 'spy']) await blocked.refused('NOT_FOUND', as, 'checkpoint.resolve', answer)
  for (const [as, id] of [
    ['alice', 'user_alice'],
    ['rita', 'user_rita'],
  ] as const) {
    const { checkpoint } = await (await again(blocked)).call(as, 'checkpoint.resolve', answer)
    assert.deepEqual([checkpoint.state, checkpoint.resolution.by, checkpoint.resolution.action], ['resolved', id, 'approve'])
  }
})

must('H-CKPT-03', 'the task that a checkpoint was raised on is blocked, lists it, and is held by the principal', async () => {
  const { refs, task } = await stage('blocked')
  const { state, checkpoints, ownership } = await task()
  assert.deepEqual([state, checkpoints, ownership.assignee], ['blocked', [refs['checkpoint'].id], 'user_alice'])
})

must(
  'H-CKPT-04',
  'while a checkpoint is pending the agent can do nothing; afterwards it goes on, with the checkpoint resolved',
  async () => {
    const { refs, call, refused, events } = await stage('blocked')
    const task_id = refs['task'].id
    await refused('PRECONDITION_FAILED', 'devin', 'artifact.commit', { task_id, payload: inline('x') })
    await refused('PRECONDITION_FAILED', 'devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Again?' })
    await refused('PRECONDITION_FAILED', 'devin', 'task.start', { task_id })
    await call('alice', 'checkpoint.resolve', { checkpoint_id: refs['checkpoint'].id, action: 'approve' })
    const { changes } = (await events()).find((event) => event.action === 'task.checkpoint.resolved')
    assert.deepEqual(
      changes.map((change: any) => [change.kind, change.before.state, change.after.state]),
      [
        ['checkpoint', 'pending', 'resolved'],
        ['task', 'blocked', 'in_progress'],
      ],
    )
    await call('devin', 'artifact.commit', { task_id, payload: inline('x') })
  },
)

must('H-CKPT-05', 'a checkpoint that expires leaves task.checkpoint.expired', async () => {
  const { refs, call, actions } = await stage('blocked')
  const { checkpoint } = await call('system', 'checkpoint.expire', { checkpoint_id: refs['checkpoint'].id })
  assert.equal(checkpoint.state, 'expired')
  assert.ok((await actions()).includes('task.checkpoint.expired'))
})

must(['H-OWN-02', 'H-OWN-03'], 'over a whole life, the chain leads from the creator to the present assignee without a gap', async () => {
  const { refs, call, events, task } = await stage('delegable')
  const task_id = refs['task'].id
  await call('devin', 'ownership.delegate', { task_id, to: 'agent_robin' })
  await call('admin', 'ownership.transfer', { task_id, to: 'agent_devin' })
  const { checkpoint } = await call('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
  await call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
  const { artifact } = await call('devin', 'artifact.commit', { task_id, payload: inline('x') })
  await call('alice', 'review.submit', { task_id, artifact_id: artifact.id, verdict: 'changes_requested', requested_changes: ['y'] })
  await call('devin', 'artifact.commit', { task_id, artifact_id: artifact.id, parent_version: 'v1', payload: inline('y') })
  await call('alice', 'review.submit', { task_id, artifact_id: artifact.id, verdict: 'approved' })
  const { chain, assignee } = (await task()).ownership
  assert.deepEqual(
    chain.map((one: any) => `${one.from} ${one.to} ${one.via}`),
    [
      'user_alice agent_devin assign',
      'agent_devin agent_robin assign',
      'agent_robin agent_devin handoff',
      'agent_devin user_alice checkpoint',
      'user_alice agent_devin approve',
      'agent_devin user_alice handoff',
      'user_alice agent_devin reject',
      'agent_devin user_alice handoff',
    ],
  )
  assert.equal(assignee, 'user_alice')
  await assertEveryTransferHasItsEvent(await events(), chain)
})

/** A transfer is in the image of exactly one event, at its time; an event that changes the assignee appends exactly one. */
async function assertEveryTransferHasItsEvent(events: any[], chain: any[]): Promise<void> {
  const appended = events.flatMap((event) =>
    event.changes
      .filter((change: any) => change.kind === 'task' && change.before !== null)
      .flatMap(({ before, after }: any) => {
        const grown = after.ownership.chain.length - before.ownership.chain.length
        assert.equal(grown, before.ownership.assignee === after.ownership.assignee ? 0 : 1, event.action)
        return grown === 1 ? [{ ...after.ownership.chain.at(-1), by: event.at }] : []
      }),
  )
  assert.deepEqual(
    appended.map(({ by: _, ...transfer }: any) => transfer),
    chain,
  )
  for (const { at, by } of appended) assert.equal(at, by)
}

must('H-OWN-03', 'a word for via that the draft does not know is refused', async () => {
  const { refs, refused } = await stage('in_progress')
  await refused('INVALID_SPEC', 'admin', 'ownership.transfer', { task_id: refs['task'].id, to: 'agent_robin', via: 'gift' })
})

must(['H-OWN-04', 'H-PRE-06'], 'an agent whose task is not delegable cannot delegate it', async () => {
  for (const scene of ['assigned', 'in_progress']) {
    const { refs, refused } = await stage(scene)
    const delegating = { task_id: refs['task'].id, to: 'agent_robin' }
    await refused('PRECONDITION_FAILED', 'devin', 'ownership.delegate', delegating)
    await refused('PRECONDITION_FAILED', 'devin', 'ownership.delegate', { ...delegating, spec })
    await refused('PRECONDITION_FAILED', 'devin', 'ownership.delegate', { ...delegating, delegable: true })
  }
})

must('H-REV-03', 'changes requested without requested_changes is refused; an empty list is none', async () => {
  const { refs, call, refused } = await stage('review_ready')
  const review = { task_id: refs['task'].id, artifact_id: refs['artifact'].id, verdict: 'changes_requested' }
  await refused('INVALID_SPEC', 'alice', 'review.submit', review)
  await refused('INVALID_SPEC', 'alice', 'review.submit', { ...review, requested_changes: [] })
  const answer = await call('alice', 'review.submit', { ...review, requested_changes: ['add a test'] })
  assert.deepEqual(answer.review.requested_changes, ['add a test'])
})

must('H-ART-01', 'ids are made by the server, versions count up within an artifact, and two commits at once get one version', async () => {
  const { refs, call } = await stage('in_progress')
  const task_id = refs['task'].id
  const commit = (more: object): Promise<any> => call('devin', 'artifact.commit', { task_id, payload: inline('x'), final: false, ...more })
  const [a, b] = [(await commit({})).artifact, (await commit({})).artifact]
  assert.notEqual(a.id, b.id)
  assert.deepEqual([a.version, b.version], ['v1', 'v1'])
  const both = [1, 2].map(() => commit({ artifact_id: a.id, parent_version: 'v1' }))
  assert.deepEqual(await raced(both, ({ artifact }) => artifact.version), ['CONFLICT', 'v2'])
})

must('H-ART-02', 'a reference without a version, or to one that does not exist, is refused; a good one names both', async () => {
  const { refs, call, refused } = await stage('review_ready')
  const reference = { task_id: refs['task'].id, artifact_id: refs['artifact'].id }
  await refused('INVALID_SPEC', 'alice', 'artifact.reference', reference)
  await refused('NOT_FOUND', 'alice', 'artifact.reference', { ...reference, version: 'v2' })
  await refused('INVALID_SPEC', 'alice', 'task.create', { spec: { ...spec, inputs: [{ kind: 'artifact', id: refs['artifact'].id }] } })
  await call('alice', 'artifact.reference', { ...reference, version: 'v1', as: 'output' })
  const { artifact } = await call('alice', 'artifact.get', { artifact_id: refs['artifact'].id, version: 'v1' })
  assert.deepEqual(artifact.references, [{ task_id: refs['task'].id, as: 'output' }])
})

must('H-ART-03', 'the checksum is over the bytes; one that does not match is refused, and so is a size', async () => {
  const { refs, call, refused } = await stage('in_progress')
  const task_id = refs['task'].id
  const bytes = Buffer.from([0, 255, 10, 195, 164])
  const payload = { kind: 'blob', uri: `data:application/octet-stream;base64,${bytes.toString('base64')}` }
  const checksum = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
  for (const wrong of [
    { checksum: `sha256:${'0'.repeat(64)}` },
    { size: 4 },
    { checksum: 'md5:abc' },
    { checksum: checksum.toUpperCase() },
  ])
    await refused('INVALID_SPEC', 'devin', 'artifact.commit', { task_id, payload: { ...payload, ...wrong } })
  const { artifact } = await call('devin', 'artifact.commit', { task_id, payload: { ...payload, checksum, size: 5 } })
  assert.deepEqual([artifact.payload.checksum, artifact.payload.size], [checksum, 5])
})

must('H-ART-04', 'an update without parent_version, or with one that is unknown or not the newest, is refused', async () => {
  const { refs, call, refused } = await stage('in_progress')
  const task_id = refs['task'].id
  const commit = { task_id, payload: inline('x'), final: false }
  const { artifact } = await call('devin', 'artifact.commit', commit)
  const update = { ...commit, artifact_id: artifact.id }
  await refused('INVALID_SPEC', 'devin', 'artifact.commit', update)
  await refused('NOT_FOUND', 'devin', 'artifact.commit', { ...update, parent_version: 'v9' })
  const second = (await call('devin', 'artifact.commit', { ...update, parent_version: 'v1' })).artifact
  assert.deepEqual([second.id, second.version, second.parent_version], [artifact.id, 'v2', 'v1'])
  await refused('CONFLICT', 'devin', 'artifact.commit', { ...update, parent_version: 'v1' })
})

must(['H-LED-01', 'H-LED-02'], 'writing a key again appends: the history keeps every value, reading gives the newest', async () => {
  const { refs, call } = await stage('completed')
  const write = (value: unknown): Promise<any> => call('devin', 'ledger.write', { task_id: refs['task'].id, key: 'k', value })
  const ids = [(await write(1)).entry.ledger_id, (await write({ a: [null] })).entry.ledger_id, (await write(null)).entry.ledger_id]
  assert.equal(new Set(ids).size, 1)
  const { items } = await call('bob', 'ledger.history', { key: 'k' })
  assert.deepEqual(
    items.map((entry: any) => [entry.value, entry.version]),
    [
      [1, 1],
      [{ a: [null] }, 2],
      [null, 3],
    ],
  )
  assert.equal((await call('bob', 'ledger.read', { key: 'k' })).entry.value, null)
})

must('H-LED-03', 'every write leaves ledger.written', async () => {
  const { refs, call, actions } = await stage('completed')
  for (const value of [1, 2]) await call('devin', 'ledger.write', { task_id: refs['task'].id, key: 'k', value })
  assert.equal((await actions()).filter((action) => action === 'ledger.written').length, 2)
})
