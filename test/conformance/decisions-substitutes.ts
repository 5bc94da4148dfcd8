// Substitutes (H9): with dates, with real credentials, and always as "B for A".
import assert from 'node:assert/strict'
import { authenticate } from '#protocols/identity/authenticate.ts'
import { HOUR_MS, refusalOf, stage, type Stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions
const at = ({ world }: Stage, hours: number): string => new Date(world.kernel.now() + hours * HOUR_MS).toISOString()

/** Bob as his own key makes him at this moment. */
async function bobOn(on: Stage): Promise<(operation: string, input: object) => Promise<any>> {
  const { key } = await on.call('admin', 'identity/key.issue', { subject: 'user_bob' })
  const { kernel } = on.world
  return (operation, input) =>
    kernel.call(`collaboration/${operation}`, input, () => authenticate(kernel.store, { kind: 'bearer', token: key }, kernel.now()))
}
const naming = (on: Stage, more: object): Promise<any> =>
  on.call('alice', 'identity/substitute.add', { person: 'user_alice', substitute: 'user_bob', ...more })

must('H9', 'between its dates a substitute sees, decides and is recorded as acting for the principal, who stays', async () => {
  const on = await stage('blocked')
  const [task_id, checkpoint_id] = [on.refs['task'].id, on.refs['checkpoint'].id]
  const bob = await bobOn(on)
  await naming(on, { from: at(on, 1), until: at(on, 3) })
  assert.equal((await refusalOf(bob('task.get', { task_id }))).code, 'NOT_FOUND', 'not yet')
  on.world.advance(HOUR_MS)
  assert.deepEqual(
    (await bob('checkpoint.list', {})).items.map(({ id }: { id: string }) => id),
    [checkpoint_id],
    'it waits in the inbox of the substitute too',
  )
  assert.equal((await bob('task.list', {})).items.length, 1)
  const { checkpoint, task } = await bob('checkpoint.resolve', { checkpoint_id, action: 'approve' })
  assert.deepEqual([checkpoint.resolution.by, task.ownership.principal], ['user_bob', 'user_alice'])
  const event = (await on.events()).at(-1)
  assert.deepEqual([event.action, event.actor, event.behalf], ['task.checkpoint.resolved', 'user_bob', 'user_alice'])
  on.world.advance(2 * HOUR_MS)
  assert.equal((await refusalOf(bob('task.get', { task_id }))).code, 'NOT_FOUND', 'no longer')
})
must('H9', 'what the principal does in person is for nobody else', async () => {
  const on = await stage('blocked')
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: on.refs['checkpoint'].id, action: 'approve' })
  assert.equal((await on.events()).at(-1).behalf, null)
})
must('H9', 'a substitution ends at once when it is taken back', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  const bob = await bobOn(on)
  await naming(on, { until: at(on, 3) })
  await bob('task.amend', { task_id, text: 'Slowly.', intent: 'constrain' })
  await on.call('alice', 'identity/substitute.remove', { person: 'user_alice', substitute: 'user_bob' })
  assert.equal((await refusalOf(bob('task.amend', { task_id, text: 'Again.', intent: 'constrain' }))).code, 'NOT_FOUND')
})
must('H9', 'who works on a task does not judge it in the place of its principal', async () => {
  const on = await stage()
  const { task } = await on.call('alice', 'task.create', { spec: { goal: 'Fix it' } })
  const task_id = task.id
  await on.call('alice', 'task.assign', { task_id, assignee: 'user_bob' })
  await on.call('deputy', 'task.start', { task_id })
  const { artifact } = await on.call('deputy', 'artifact.commit', { task_id, payload: { kind: 'inline', uri: 'data:,x' } })
  await on.refused('UNAUTHORIZED', 'deputy', 'review.submit', { task_id, artifact_id: artifact.id, verdict: 'approved' })
})
must('H9', 'only the person themself or an administrator names a substitute, and only with sensible dates', async () => {
  const on = await stage()
  const input = { person: 'user_alice', substitute: 'user_bob', until: at(on, 3) }
  for (const as of ['bob', 'rita', 'devin', 'project', 'deputy']) await on.refused('UNAUTHORIZED', as, 'identity/substitute.add', input)
  await on.refused('INVALID_REQUEST', 'alice', 'identity/substitute.add', { ...input, until: '2020-01-01T00:00:00Z' })
  await on.refused('INVALID_REQUEST', 'alice', 'identity/substitute.add', { ...input, from: at(on, 4) })
  await on.refused('PRECONDITION_FAILED', 'alice', 'identity/substitute.add', { ...input, substitute: 'user_alice' })
  await on.refused('NOT_FOUND', 'alice', 'identity/substitute.add', { ...input, substitute: 'user_mallory' })
  await on.refused('PRECONDITION_FAILED', 'alice', 'identity/substitute.remove', { person: 'user_alice', substitute: 'user_bob' })
})
must('H9', 'a narrowed key names no substitute, and for whom somebody stands in concerns those two alone', async () => {
  const on = await stage()
  const { kernel } = on.world
  const { key } = await on.call('admin', 'identity/key.issue', { subject: 'user_alice', project_id: 'project_default' })
  const narrowed = () => authenticate(kernel.store, { kind: 'bearer', token: key }, kernel.now())
  const input = { person: 'user_alice', substitute: 'user_bob', until: at(on, 3) }
  assert.equal((await refusalOf(kernel.call('identity/substitute.add', input, narrowed))).code, 'UNAUTHORIZED')
  const { user } = await naming(on, { until: input.until })
  assert.deepEqual(
    user.acts_for.map(({ user_id }: { user_id: string }) => user_id),
    ['user_alice'],
  )
  const seenBy = async (as: string): Promise<number> =>
    (await on.call(as, 'identity/user.get', { user_id: 'user_bob' })).user.acts_for.length
  assert.deepEqual([await seenBy('alice'), await seenBy('bob'), await seenBy('owner'), await seenBy('rita')], [1, 1, 1, 0])
})
