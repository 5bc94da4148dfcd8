// Decisions about tasks, reviews and artifacts.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { linesOf, stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions
const spec = { goal: 'Fix it' }
const inline = (text = 'x') => ({ payload: { kind: 'inline', uri: `data:,${text}` } })

must('H1', 'task.start is for the assignee (for one that is another harness, the system) and leaves task.started', async () => {
  const { refs, call, refused, actions } = await stage('assigned')
  const task_id = refs['task'].id
  for (const as of ['alice', 'rita', 'admin']) await refused('UNAUTHORIZED', as, 'task.start', { task_id })
  await call('devin', 'task.start', { task_id })
  assert.equal((await actions()).at(-1), 'task.started')
})
must('H2', 'completion is an event of the system with its outcome', async () => {
  const { events } = await stage('completed')
  const { action, actor, detail } = (await events()).at(-1)!
  assert.deepEqual([action, actor, detail], ['task.completed', 'agent_system', { outcome: 'accepted' }])
})
must('H3', 'a rejected task has no exit and is with its principal; a new attempt names it as its parent', async () => {
  const { refs, call, refused, task } = await stage('rejected')
  const task_id = refs['task'].id
  assert.deepEqual([(await task()).ownership.assignee, (await task()).outcome], ['user_alice', 'rejected_in_review'])
  await refused('PRECONDITION_FAILED', 'alice', 'task.cancel', { task_id })
  await refused('PRECONDITION_FAILED', 'devin', 'artifact.commit', { task_id, ...inline() })
  await refused('PRECONDITION_FAILED', 'alice', 'review.submit', { task_id, artifact_id: refs['artifact'].id, verdict: 'approved' })
  const again = (await call('alice', 'task.create', { spec, parent_task: task_id })).task
  assert.deepEqual([again.parent_task, again.root_task_id, again.state], [task_id, task_id, 'created'])
})
must('H4', 'a completed task says how it ended, and why', async () => {
  const accepted = await stage('completed')
  assert.deepEqual([(await accepted.task()).outcome, (await accepted.task()).outcome_reason], ['accepted', null])
  const cancelled = await stage('in_progress')
  const { task } = await cancelled.call('alice', 'task.cancel', { task_id: cancelled.refs['task'].id, reason: 'not needed' })
  assert.deepEqual([task.outcome, task.outcome_reason], ['cancelled', 'not needed'])
  const blocked = await stage('blocked')
  const answer = { checkpoint_id: blocked.refs['checkpoint'].id, action: 'reject', comment: 'no' }
  const rejected = (await blocked.call('alice', 'checkpoint.resolve', answer)).task
  assert.deepEqual([rejected.outcome, rejected.outcome_reason], ['rejected_at_checkpoint', 'no'])
})

must(['H10', 'LOOPS-2'], 'a remark is a record of its own: no review is made or changed, no verdict copied, no state moved', async () => {
  const { refs, call, actions, task } = await stage('review_ready')
  const of = { task_id: refs['task'].id, artifact_id: refs['artifact'].id }
  const before = await task()
  const { comment } = await call('rita', 'review.comment', { ...of, anchor: 'line 3', severity: 'major', body: 'Why?' })
  assert.match(comment.id, /^rcm_/)
  assert.ok(!('verdict' in comment))
  assert.deepEqual((await call('alice', 'review.list', { task_id: of.task_id })).items, [])
  const { review } = await call('alice', 'review.submit', { ...of, verdict: 'approved' })
  await call('rita', 'review.comment', { ...of, review_id: review.id, severity: 'nit', body: 'Late to the party.' })
  const { items, comments } = await call('alice', 'review.list', { task_id: of.task_id })
  assert.deepEqual(items, [review])
  assert.deepEqual(
    comments.map((one: any) => [one.by, one.review_id, one.artifact_version]),
    [
      ['user_rita', null, 'v1'],
      ['user_rita', review.id, 'v1'],
    ],
  )
  assert.equal((await actions()).filter((action) => action === 'review.commented').length, 2)
  assert.equal(before.state, 'review_ready')
})
/** Every page of a question, until there is no other. */
async function pagesOf(call: (cursor: object) => Promise<any>): Promise<any[]> {
  const pages: any[] = []
  for (let cursor: string | null | undefined; cursor !== null;) {
    const page = await call(cursor ? { cursor } : {})
    pages.push(page)
    cursor = page.next_cursor
    assert.ok(pages.length < 100, 'it comes to an end')
  }
  return pages
}
must('H10', 'reviews and remarks are read page by page to the last, each once and in order', async () => {
  const { refs, call, refused } = await stage('review_ready')
  const of = { task_id: refs['task'].id, artifact_id: refs['artifact'].id }
  const reviews: string[] = []
  const remarks: string[] = []
  for (let i = 1; i <= 3; i++) {
    for (let j = 0; j < 3; j++) remarks.push((await call('rita', 'review.comment', { ...of, severity: 'nit', body: 'Hm.' })).comment.id)
    reviews.push((await call('alice', 'review.submit', { ...of, verdict: 'changes_requested', requested_changes: ['y'] })).review.id)
    await call('devin', 'artifact.commit', { ...of, parent_version: `v${i}`, ...inline('y') })
  }
  for (const limit of [1, 2, 3, 4, 9, 200]) {
    const pages = await pagesOf((cursor) => call('alice', 'review.list', { task_id: of.task_id, limit, ...cursor }))
    const ids = (field: string): string[] => pages.flatMap((page) => page[field].map(({ id }: { id: string }) => id))
    assert.deepEqual([ids('items'), ids('comments')], [reviews, remarks], `${limit} a page`)
    for (const page of pages) assert.ok(page.items.length <= limit && page.comments.length <= limit)
  }
  await refused('INVALID_REQUEST', 'alice', 'review.list', { task_id: of.task_id, cursor: 'bm90IG9uZSBvZiBvdXJz' })
})
must('H13', 'the references of a version are read page by page, of one version only', async () => {
  const { refs, call, refused } = await stage('review_ready')
  const { task, artifact } = refs
  const using = { artifact_id: artifact.id, version: 'v1' }
  const wanted: string[] = []
  for (let i = 0; i < 5; i++) {
    const other = (await call('alice', 'task.create', { spec: { goal: 'x' } })).task.id
    await call('alice', 'artifact.reference', { task_id: other, ...using })
    wanted.push(other)
  }
  const get = (cursor: object, limit: number) => call('alice', 'artifact.get', { artifact_id: artifact.id, limit, ...cursor })
  for (const limit of [1, 2, 5, 6]) {
    const pages = await pagesOf((cursor) => get(cursor, limit))
    assert.deepEqual(
      pages.flatMap((page) => page.artifact.references.map((one: any) => one.task_id)),
      wanted,
      `${limit} a page`,
    )
  }
  assert.equal((await call('alice', 'artifact.get', using)).artifact.references.length, 5, 'all of them, where they are few')
  const { next_cursor } = await get({}, 2)
  const rest = await call('alice', 'artifact.get', { ...using, cursor: next_cursor })
  assert.equal(rest.artifact.references.length, 3, 'the same version by name')
  await call('alice', 'review.submit', {
    task_id: task.id,
    artifact_id: artifact.id,
    verdict: 'changes_requested',
    requested_changes: ['y'],
  })
  await call('devin', 'artifact.commit', { task_id: task.id, artifact_id: artifact.id, parent_version: 'v1', ...inline('y') })
  await refused('INVALID_REQUEST', 'alice', 'artifact.get', { artifact_id: artifact.id, cursor: next_cursor })
})
must('H10', 'a reference leaves artifact.referenced, and a second time is refused', async () => {
  const { refs, call, refused, actions } = await stage('review_ready')
  const edge = { task_id: refs['task'].id, artifact_id: refs['artifact'].id, version: 'v1' }
  await call('alice', 'artifact.reference', edge)
  await refused('CONFLICT', 'alice', 'artifact.reference', edge)
  assert.equal((await actions()).at(-1), 'artifact.referenced')
})
must('H11', 'a comment moves nothing; review.submit takes both edges in one event', async () => {
  const { refs, call, task, world } = await stage('review_ready')
  const of = { task_id: refs['task'].id, artifact_id: refs['artifact'].id }
  const before = await task()
  await call('alice', 'review.comment', { ...of, severity: 'nit', body: 'Hm.' })
  assert.deepEqual(await task(), before)
  const facts = (await linesOf(world)).length
  await call('alice', 'review.submit', { ...of, verdict: 'rejected' })
  const made = (await linesOf(world)).slice(facts).filter(({ action }) => action.startsWith('collaboration/'))
  assert.deepEqual(
    made.map((line) => [line.action, line.detail.path]),
    [['collaboration/review.submitted', ['review_ready', 'under_review', 'rejected']]],
  )
})
must('H12', 'a review says which version it is about: the newest by default, and never an old one', async () => {
  const { refs, call, refused } = await stage('review_ready')
  const of = { task_id: refs['task'].id, artifact_id: refs['artifact'].id }
  const { review } = await call('alice', 'review.submit', { ...of, verdict: 'changes_requested', requested_changes: ['y'] })
  assert.equal(review.artifact_version, 'v1')
  await call('devin', 'artifact.commit', { ...of, parent_version: 'v1', ...inline('y') })
  await refused('CONFLICT', 'alice', 'review.submit', { ...of, verdict: 'approved', artifact_version: 'v1' })
  const second = await call('alice', 'review.submit', { ...of, verdict: 'approved', artifact_version: 'v2' })
  assert.equal(second.review.artifact_version, 'v2')
})
must('H13', 'a reference is shown with the version, and the version stays what it was', async () => {
  const { refs, call, world } = await stage('review_ready')
  const { task, artifact } = refs
  const key = `collaboration.artifact/${artifact.id}@v1`
  const [before] = await world.store.read([key])
  await call('devin', 'artifact.reference', { task_id: task.id, artifact_id: artifact.id, version: 'v1', as: 'output' })
  assert.deepEqual((await call('alice', 'artifact.get', { artifact_id: artifact.id })).artifact.references, [
    { task_id: task.id, as: 'output' },
  ])
  assert.deepEqual(await world.store.read([key]), [before])
})
must(['H14', 'LOOPS-4'], 'versions count within an artifact, not over all of them; final: false commits without moving', async () => {
  const { refs, call, refused } = await stage('in_progress')
  const task_id = refs['task'].id
  const draft = { task_id, final: false, ...inline() }
  const first = (await call('devin', 'artifact.commit', draft)).artifact
  const second = (await call('devin', 'artifact.commit', draft)).artifact
  assert.deepEqual([first.version, second.version], ['v1', 'v1'], 'a second artifact begins with v1, whatever came before')
  const next = await call('devin', 'artifact.commit', { ...draft, artifact_id: first.id, parent_version: 'v1' })
  assert.deepEqual([next.artifact.id, next.artifact.version, next.task.state], [first.id, 'v2', 'in_progress'])
  await refused('INVALID_SPEC', 'devin', 'artifact.commit', { ...draft, artifact_id: first.id, parent_version: 'v2', version: 'v7' })
  const last = await call('devin', 'artifact.commit', { task_id, artifact_id: second.id, parent_version: 'v1', version: 'v2', ...inline() })
  assert.deepEqual([last.artifact.version, last.task.state, last.task.artifacts], ['v2', 'review_ready', [first.id, second.id]])
})
must('H15', 'bytes are hashed as they are, percent-encoded or in base64; anything else is refused', async () => {
  const { refs, call, refused } = await stage('in_progress')
  const task_id = refs['task'].id
  const sha = (bytes: Buffer): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
  for (const [uri, bytes] of [
    ['data:,a%20b', Buffer.from('a b')],
    ['data:text/plain;base64,w6Q=', Buffer.from('ä')],
    ['data:,', Buffer.alloc(0)],
    ['data:,%ff%00', Buffer.from([255, 0])],
  ] as const) {
    const { artifact } = await call('devin', 'artifact.commit', { task_id, final: false, payload: { kind: 'inline', uri } })
    assert.deepEqual([artifact.payload.checksum, artifact.payload.size, artifact.payload.verified], [sha(bytes), bytes.length, true], uri)
  }
  for (const uri of ['data:text/plain', 'data:;base64,w6Q*', 'data:,ä', 'data:,%zz', 'hello', `data:,${'x'.repeat(140_000)}`])
    await refused('INVALID_SPEC', 'devin', 'artifact.commit', { task_id, payload: { kind: 'inline', uri } })
})
must('H17', 'in review a task cannot be cancelled, by anybody; a rejecting review ends it', async () => {
  const { refs, call, refused } = await stage('review_ready')
  for (const as of ['alice', 'system']) await refused('PRECONDITION_FAILED', as, 'task.cancel', { task_id: refs['task'].id })
  const review = { task_id: refs['task'].id, artifact_id: refs['artifact'].id, verdict: 'rejected' }
  assert.equal((await call('alice', 'review.submit', review)).task.state, 'rejected')
})
must('H20', 'a person works on a task as an agent does, and the task comes back to the principal in between', async () => {
  const { refs, call } = await stage('created')
  const task_id = refs['task'].id
  await call('alice', 'task.assign', { task_id, assignee: 'user_bob' })
  assert.equal((await call('bob', 'task.start', { task_id })).task.ownership.assignee, 'user_bob')
  const { task } = await call('bob', 'artifact.commit', { task_id, ...inline() })
  assert.deepEqual([task.state, task.ownership.assignee], ['review_ready', 'user_alice'])
})

must('H30-ref', 'a ref is taken at its word and marked so; without checksum and size it is refused', async () => {
  const { refs, call, refused } = await stage('in_progress')
  const payload = { kind: 'ref', uri: 'https://example.com/build.tar', checksum: `sha256:${'a'.repeat(64)}`, size: 12 }
  for (const wrong of [{ checksum: undefined }, { size: undefined }, { uri: 'no uri' }, { kind: 'blob' }])
    await refused('INVALID_SPEC', 'devin', 'artifact.commit', { task_id: refs['task'].id, payload: { ...payload, ...wrong } })
  const { artifact } = await call('devin', 'artifact.commit', { task_id: refs['task'].id, payload })
  assert.deepEqual(artifact.payload, { ...payload, verified: false })
})
must('H30-inputs', 'an input is an artifact of this project, with its version; another project’s is refused', async () => {
  const { refs, call, refused } = await stage('review_ready')
  const id = refs['artifact'].id
  const withInput = (input: object) => ({ spec: { ...spec, inputs: [{ kind: 'artifact', ...input }] } })
  await refused('INVALID_SPEC', 'alice', 'task.create', withInput({ id }))
  await refused('INVALID_SPEC', 'alice', 'task.create', withInput({ id, version: 'v9' }))
  await call('alice', 'task.create', withInput({ id, version: 'v1' }))
  await call('admin', 'identity/project.join', { project_id: 'project_other', subject: 'user_alice' })
  const both = {
    projects: new Map([
      ['project_default', 'member' as const],
      ['project_other', 'member' as const],
    ]),
  }
  const on = await stage('review_ready')
  const alice = { ...on.world.cast['alice']!, ...both }
  const { task } = await on.world.kernel.call('collaboration/task.create', { spec, project_id: 'project_other' }, alice)
  const edge = { task_id: task.id, artifact_id: on.refs['artifact'].id, version: 'v1' }
  await assert.rejects(on.world.kernel.call('collaboration/artifact.reference', edge, alice), { code: 'UNAUTHORIZED' })
  const foreign = { ...withInput({ id: on.refs['artifact'].id, version: 'v1' }), project_id: 'project_other' }
  await assert.rejects(on.world.kernel.call('collaboration/task.create', foreign, alice), { code: 'INVALID_SPEC' })
})
