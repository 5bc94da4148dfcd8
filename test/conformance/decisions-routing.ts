// Decisions about whom a question reaches: whose turn it is (H7), and who finds it (H8).
import assert from 'node:assert/strict'
import { HOUR_MS, stage, type Stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions

/** A task of alice that asks alice, then rita, then bob, each for an hour. */
async function escalating(more: object = {}): Promise<Stage> {
  const on = await stage()
  await asking(on, { expires_in: 'PT1H', on_expiry: 'escalate', ...more })
  return on
}
async function asking(on: Stage, question: object): Promise<void> {
  on.refs['task'] = (await on.call('alice', 'task.create', { spec: { goal: 'x' }, reviewers: ['user_rita', 'user_bob'] })).task
  const task_id = on.refs['task'].id
  await on.call('alice', 'task.assign', { task_id, assignee: 'agent_devin' })
  await on.call('devin', 'task.start', { task_id })
  const { checkpoint } = await on.call('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?', ...question })
  on.refs['checkpoint'] = checkpoint
}
/** Its time passes; who is asked now, and what happens if they do not answer. */
async function next(on: Stage): Promise<string> {
  on.world.advance(2 * HOUR_MS)
  assert.deepEqual(await on.ring(), ['collaboration/checkpoint.expire'])
  const { checkpoint } = await on.call('admin', 'checkpoint.get', { checkpoint_id: (await on.task()).pending_checkpoint })
  return `${checkpoint.routed_to} ${checkpoint.on_expiry}`
}
const switched = (on: Stage, user_id: string, disabled: boolean): Promise<unknown> =>
  on.call('admin', 'identity/user.update', { user_id, disabled })

must('H7-active', 'who was switched off or has left the project is passed over', async () => {
  const off = await escalating()
  await switched(off, 'user_rita', true)
  assert.equal(await next(off), 'user_bob hold')
  const gone = await escalating()
  await gone.call('admin', 'identity/project.leave', { project_id: 'project_default', subject: 'user_rita' })
  assert.equal(await next(gone), 'user_bob hold')
})
must('H7-active', 'with nobody else left it rests with the principal', async () => {
  const on = await escalating()
  await switched(on, 'user_rita', true)
  await switched(on, 'user_bob', true)
  assert.equal(await next(on), 'user_alice hold')
})
must('H7-active', 'who is switched off when it is their turn is followed by the one after them', async () => {
  const on = await escalating()
  assert.equal(await next(on), 'user_rita escalate')
  await switched(on, 'user_rita', true)
  assert.equal(await next(on), 'user_bob hold')
})
must('H7-active', 'the last one of those who are left may take all the time they need', async () => {
  const on = await escalating()
  await switched(on, 'user_bob', true)
  assert.equal(await next(on), 'user_rita hold')
})

const inbox = async (on: Stage, as: string, more: object = {}): Promise<string[]> =>
  (await on.call(as, 'checkpoint.list', more)).items.map(({ id }: { id: string }) => id)

must('H8-found', 'each of those who may answer finds it, and nobody else', async () => {
  const on = await escalating()
  await next(on)
  const waiting = (await on.task()).pending_checkpoint
  for (const as of ['alice', 'rita', 'bob', 'deputy']) assert.deepEqual(await inbox(on, as), [waiting], as)
  for (const as of ['devin', 'robin', 'owner', 'mallory', 'spy', 'admin', 'project', 'system'])
    assert.deepEqual(await inbox(on, as), [], as)
  await on.call('bob', 'checkpoint.resolve', { checkpoint_id: waiting, action: 'approve' })
  for (const as of ['alice', 'rita', 'bob']) assert.deepEqual(await inbox(on, as), [], as)
})
must('H8-found', 'a reviewer who comes finds it too; one who goes, or works on the task, does not', async () => {
  const on = await stage()
  await asking(on, {})
  const task_id = on.refs['task'].id
  await on.call('alice', 'reviewer.remove', { task_id, user: 'user_bob' })
  assert.deepEqual(await inbox(on, 'bob'), [])
  await on.call('alice', 'reviewer.add', { task_id, user: 'user_bob' })
  assert.deepEqual(await inbox(on, 'bob'), [on.refs['checkpoint'].id])
  await on.call('admin', 'ownership.transfer', { task_id, to: 'user_bob' })
  for (const as of ['bob', 'deputy']) assert.deepEqual(await inbox(on, as), [], `${as} does not judge his own work`)
  assert.deepEqual(await inbox(on, 'alice'), [on.refs['checkpoint'].id])
})
must('H8-found', 'the list goes from page to page, oldest question first, each once', async () => {
  const on = await stage()
  const asked: string[] = []
  for (let i = 0; i < 5; i++) {
    await asking(on, {})
    asked.push(on.refs['checkpoint'].id)
  }
  for (const as of ['bob', 'deputy']) {
    const seen: string[] = []
    for (let cursor: string | null | undefined; cursor !== null;) {
      const page: any = await on.call(as, 'checkpoint.list', { limit: 2, ...(cursor ? { cursor } : {}) })
      seen.push(...page.items.map(({ id }: { id: string }) => id))
      cursor = page.next_cursor
    }
    assert.deepEqual(seen, asked, as)
  }
})

must('H44-expire', 'the administrator ends a question under every policy, and the next person is asked', async () => {
  const policies = [
    { on_expiry: 'hold' },
    { on_expiry: 'escalate' },
    { on_expiry: 'fail' },
    { on_expiry: 'default', default: { action: 'provide', input: 'x' } },
  ]
  for (const policy of policies) {
    const on = await stage()
    const spec = { goal: 'Fix it', constraints: { on_expiry: ['fail', 'default'] } }
    const { task } = await on.call('alice', 'task.create', { spec, reviewers: ['user_rita'] })
    const task_id = task.id
    await on.call('alice', 'task.assign', { task_id, assignee: 'agent_devin' })
    await on.call('devin', 'task.start', { task_id })
    const asked = { task_id, kind: 'input', prompt: 'Which?', expires_in: 'PT1H', ...policy }
    const { checkpoint } = await on.call('devin', 'checkpoint.raise', asked)
    on.world.advance(2 * HOUR_MS)
    const ended = await on.call('admin', 'checkpoint.expire', { checkpoint_id: checkpoint.id })
    assert.deepEqual([ended.checkpoint.state, ended.task.state], ['expired', 'blocked'], policy.on_expiry)
    const next = (await on.call('rita', 'checkpoint.get', { checkpoint_id: ended.task.pending_checkpoint })).checkpoint
    assert.deepEqual([next.succeeds, next.routed_to, next.state], [checkpoint.id, 'user_rita', 'pending'], policy.on_expiry)
    await on.call('rita', 'checkpoint.resolve', { checkpoint_id: next.id, action: 'provide', input: 'the first' })
  }
})
