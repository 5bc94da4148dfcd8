// HACP 0.1.0: operations, who calls them, and their preconditions.
import assert from 'node:assert/strict'
import { again, HOUR_MS, refusalOf, stage, type Stage } from '../support/in-process/stage.ts'
import { hacp } from './hacp-cited.ts'

const { must } = hacp
const spec = { goal: 'Fix the login bug' }
const inline = (text: string) => ({ kind: 'inline', uri: `data:,${text}` })

must('H-OP-01', 'all 21 operations are there by their names: the 20 of the table, and task.start', async () => {
  const { world } = await stage()
  const names = world.kernel.protocols.find(({ name }) => name === 'collaboration')!.operations.map((op) => op.name)
  const draft = `task.create task.assign task.start task.cancel task.get task.list checkpoint.raise checkpoint.resolve checkpoint.expire
    ownership.transfer ownership.delegate review.submit review.comment artifact.commit artifact.get artifact.reference ledger.read
    ledger.write ledger.history audit.query audit.replay`.split(/\s+/)
  assert.equal(draft.length, 21)
  assert.deepEqual(
    draft.filter((name) => !names.includes(name)),
    [],
  )
})

/** Those of these who may call it; the others are refused with UNAUTHORIZED or do not find it. */
async function isFor(scene: string, operation: string, input: (refs: Stage['refs']) => object, allowed: readonly string[]): Promise<void> {
  const prepared = await stage(scene)
  for (const as of Object.keys(prepared.world.cast)) {
    const { call, refs } = await again(prepared)
    const calling = call(as, operation, input(refs))
    if (allowed.includes(as)) await calling
    else assert.match((await refusalOf(calling)).code, /^(UNAUTHORIZED|NOT_FOUND)$/, `${as} ${operation}`)
  }
}
const ofTask =
  (more: object = {}) =>
  (refs: Stage['refs']): object => ({ task_id: refs['task'].id, ...more })

must(
  'H-OP-02',
  'a person creates a task and is its principal; only the principal assigns and cancels (and the system, by policy)',
  async () => {
    await isFor('empty', 'task.create', () => ({ spec }), ['alice', 'rita', 'bob', 'owner', 'lead', 'deputy'])
    await isFor('created', 'task.assign', ofTask({ assignee: 'agent_devin' }), ['alice', 'deputy'])
    await isFor('in_progress', 'task.cancel', ofTask(), ['alice', 'deputy', 'system'])
  },
)
must(
  'H-OP-03',
  'only the executing agent raises, commits and delegates; what another harness delivered is committed by the system',
  async () => {
    await isFor('in_progress', 'checkpoint.raise', ofTask({ kind: 'approval', prompt: 'Go?' }), ['devin'])
    await isFor('in_progress', 'artifact.commit', ofTask({ payload: inline('x') }), ['devin', 'system'])
    await isFor('delegable', 'ownership.delegate', ofTask({ to: 'agent_robin' }), ['devin'])
  },
)
must('H-OP-04', 'only people of the task resolve, review and comment', async () => {
  const people = ['alice', 'rita', 'deputy']
  const ofArtifact = (more: object) => (refs: Stage['refs']) => ({ task_id: refs['task'].id, artifact_id: refs['artifact'].id, ...more })
  await isFor('blocked', 'checkpoint.resolve', (refs) => ({ checkpoint_id: refs['checkpoint'].id, action: 'approve' }), people)
  await isFor('review_ready', 'review.submit', ofArtifact({ verdict: 'approved' }), people)
  await isFor('review_ready', 'review.comment', ofArtifact({ severity: 'nit', body: 'x' }), people)
})
must('H-OP-05', 'only the system and the admin key expire and transfer', async () => {
  await isFor('blocked', 'checkpoint.expire', (refs) => ({ checkpoint_id: refs['checkpoint'].id }), ['system', 'admin'])
  await isFor('in_progress', 'ownership.transfer', ofTask({ to: 'agent_robin' }), ['system', 'admin'])
})
must('H-OP-06', 'only who acts for the task references and writes', async () => {
  const edge = (refs: Stage['refs']): object => ({ task_id: refs['task'].id, artifact_id: refs['artifact'].id, version: 'v1' })
  await isFor('review_ready', 'artifact.reference', edge, ['alice', 'deputy', 'devin'])
  await isFor('in_progress', 'ledger.write', ofTask({ key: 'k', value: 1 }), ['alice', 'deputy', 'devin'])
})
must('H-OP-07', 'who may read a task reads it, its artifacts and its record; the ledger is for the project', async () => {
  const readers = ['alice', 'deputy', 'rita', 'devin', 'owner', 'lead', 'viewer', 'auditor', 'project', 'admin', 'system']
  const members = [...readers, 'bob', 'robin']
  await isFor('written', 'task.get', ofTask(), readers)
  await isFor('written', 'task.list', () => ({}), members)
  await isFor('written', 'artifact.get', (refs) => ({ artifact_id: refs['artifact'].id }), readers)
  await isFor('written', 'audit.query', ofTask(), readers)
  await isFor('written', 'audit.replay', ofTask(), readers)
  await isFor('written', 'ledger.read', () => ({ key: 'release' }), members)
  await isFor('written', 'ledger.history', () => ({ key: 'release' }), members)
})

const scenes = ['created', 'assigned', 'in_progress', 'blocked', 'review_ready', 'rejected', 'completed']
async function needs(states: readonly string[], as: string, operation: string, input: (refs: Stage['refs']) => object): Promise<void> {
  for (const scene of scenes) {
    const { refs, call, refused } = await stage(scene)
    if (states.includes(scene)) await call(as, operation, input(refs))
    else await refused('PRECONDITION_FAILED', as, operation, input(refs))
  }
}
must(['H-PRE-01', 'H-PRE-02'], 'task.assign needs the state created', () =>
  needs(['created'], 'alice', 'task.assign', ofTask({ assignee: 'agent_robin' })),
)
must(['H-PRE-01', 'H-PRE-03'], 'task.cancel needs created, assigned, in_progress or blocked', () =>
  needs(['created', 'assigned', 'in_progress', 'blocked'], 'alice', 'task.cancel', ofTask()),
)
must(['H-PRE-01', 'H-PRE-04'], 'checkpoint.raise needs the state in_progress', async () => {
  for (const scene of scenes.slice(1)) {
    const { refs, call, refused } = await stage(scene)
    const input = { task_id: refs['task'].id, kind: 'approval', prompt: 'Go?' }
    if (scene === 'in_progress') await call('devin', 'checkpoint.raise', input)
    else await refused('PRECONDITION_FAILED', 'devin', 'checkpoint.raise', input)
  }
})
must(
  ['H-PRE-01', 'H-PRE-05'],
  'checkpoint.resolve needs a pending checkpoint: a second answer is refused, and so is one after the end',
  async () => {
    const { refs, call, refused } = await stage('blocked')
    const answer = { checkpoint_id: refs['checkpoint'].id, action: 'approve' }
    await call('rita', 'checkpoint.resolve', answer)
    await refused('PRECONDITION_FAILED', 'alice', 'checkpoint.resolve', answer)
    await refused('PRECONDITION_FAILED', 'rita', 'checkpoint.resolve', { ...answer, action: 'reject' })
  },
)
must(['H-PRE-01', 'H-PRE-07'], 'artifact.commit needs in_progress, also when it is rework', async () => {
  for (const scene of scenes.slice(1)) {
    const { refs, call, refused } = await stage(scene)
    const input = { task_id: refs['task'].id, payload: inline('x') }
    if (scene === 'in_progress') await call('devin', 'artifact.commit', input)
    else await refused('PRECONDITION_FAILED', 'devin', 'artifact.commit', input)
  }
  const { refs, call } = await stage('review_ready')
  const of = { task_id: refs['task'].id, artifact_id: refs['artifact'].id }
  await call('alice', 'review.submit', { ...of, verdict: 'changes_requested', requested_changes: ['y'] })
  await call('devin', 'artifact.commit', { ...of, parent_version: 'v1', payload: inline('y') })
})
must(['H-PRE-01', 'H-PRE-08'], 'review.submit needs review_ready; under_review is gone when the answer comes', async () => {
  for (const scene of ['review_ready', 'rejected', 'completed']) {
    const { refs, call, refused } = await stage(scene)
    const input = { task_id: refs['task'].id, artifact_id: refs['artifact'].id, verdict: 'approved' }
    if (scene === 'review_ready') await call('alice', 'review.submit', input)
    else await refused('PRECONDITION_FAILED', 'alice', 'review.submit', input)
  }
  const { refs, call, refused } = await stage('in_progress')
  const { artifact } = await call('devin', 'artifact.commit', { task_id: refs['task'].id, payload: inline('x'), final: false })
  await refused('PRECONDITION_FAILED', 'alice', 'review.submit', {
    task_id: refs['task'].id,
    artifact_id: artifact.id,
    verdict: 'approved',
  })
})
must('H-PRE-05', 'a checkpoint on hold stays answerable after its time', async () => {
  const { world, refs, call } = await stage('waiting')
  world.advance(HOUR_MS)
  assert.equal(
    (await call('alice', 'checkpoint.resolve', { checkpoint_id: refs['checkpoint'].id, action: 'approve' })).task.state,
    'in_progress',
  )
})
