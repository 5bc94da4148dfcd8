// A12: the number of runs that an agent works on at a time, and the fate of runs beyond that number.
import assert from 'node:assert/strict'
import { kindsIn, runOf, take } from '../support/in-process/runs.ts'
import { linesOf, stage, type Stage } from '../support/in-process/stage.ts'
import { aap } from './aap-cited.ts'

const { must } = aap
const ops = (name: string): string => `delegation/${name}`

type Asked = { readonly task_id: string; readonly run_id: string; readonly checkpoint_id: string }

/** Tasks of devin that wait for an answer each, made while it took as many as came; then it takes `concurrency` at a time. */
async function asking(count: number, concurrency: number | null, card: object = {}): Promise<{ on: Stage; asked: Asked[] }> {
  const on = await stage()
  const asked: Asked[] = []
  await on.call('devin', ops('agent.publish'), { name: 'Devin', ...card })
  for (let i = 0; i < count; i++) {
    const { task } = await on.call('alice', 'task.create', { spec: { goal: `Task ${i}` } })
    await on.call('alice', 'task.assign', { task_id: task.id, assignee: 'agent_devin' })
    await on.call('devin', 'task.start', { task_id: task.id })
    const { checkpoint } = await on.call('devin', 'checkpoint.raise', { task_id: task.id, kind: 'approval', prompt: 'Go?' })
    asked.push({ task_id: task.id, run_id: (await runOf(on, task.id)).id, checkpoint_id: checkpoint.id })
  }
  await on.call('devin', ops('agent.publish'), { name: 'Devin', concurrency, ...card })
  return { on, asked }
}
const approve = (on: Stage, { checkpoint_id }: Asked) => on.call('alice', 'checkpoint.resolve', { checkpoint_id, action: 'approve' })
const seen = async (on: Stage, { run_id }: Asked): Promise<string> => {
  const { state, queued } = (await on.call('alice', ops('run.get'), { run_id })).run
  return queued ? `${state}, queued` : state
}
const all = (on: Stage, asked: readonly Asked[]): Promise<string[]> => Promise.all(asked.map((one) => seen(on, one)))
const takenBy = async (on: Stage): Promise<string[]> => (await take(on, 'devin')).map(({ run }) => run.id as string)
const deliver = (on: Stage, { task_id }: Asked) =>
  on.call('devin', 'artifact.commit', { task_id, payload: { kind: 'inline', uri: 'data:,x' } })

must(
  'A12',
  'a resume over the bound is running and queued, and is handed over when a run has left its place: the oldest first',
  async () => {
    const { on, asked } = await asking(3, 1)
    const [first, second, third] = asked as [Asked, Asked, Asked]
    for (const one of [first, third, second]) await approve(on, one)
    assert.deepEqual(await all(on, asked), ['running', 'running, queued', 'running, queued'])
    const { items } = await on.call('alice', ops('run.list'), { task_id: third.task_id })
    assert.equal(items[0].queued, true)
    assert.deepEqual(await takenBy(on), [first.run_id])
    await on.ring()
    assert.deepEqual(await takenBy(on), [], 'nobody has left a place')

    await deliver(on, first)
    assert.deepEqual(await on.ring(), [ops('run.admit')])
    assert.deepEqual(await all(on, asked), ['completed', 'running, queued', 'running'])
    const [item] = await take(on, 'devin')
    assert.deepEqual([item.run.id, kindsIn([item])], [third.run_id, [['resume']]])

    // One that asks again leaves its place too; nothing of it is on the record.
    const facts = (await linesOf(on.world)).length
    await on.call('devin', 'checkpoint.raise', { task_id: third.task_id, kind: 'input', prompt: 'Which?' })
    const raised = (await linesOf(on.world)).length
    await on.ring()
    assert.ok(raised > facts)
    assert.equal((await linesOf(on.world)).length, raised)
    assert.deepEqual(await all(on, asked), ['completed', 'running', 'blocked'])
    assert.deepEqual(await takenBy(on), [second.run_id])
  },
)
must('A12', 'of several that are answered at once as many go on as the agent takes, and new work is refused meanwhile', async () => {
  const { on, asked } = await asking(5, 2)
  await Promise.all(asked.map((one) => approve(on, one)))
  const message = await all(on, asked)
  assert.deepEqual(message.toSorted(), ['running', 'running', 'running, queued', 'running, queued', 'running, queued'])
  assert.equal((await takenBy(on)).length, 2)
  const { task } = await on.call('alice', 'task.create', { spec: { goal: 'One more' } })
  const assigned = { task_id: task.id, assignee: 'agent_devin' }
  const { details } = await on.refused('PRECONDITION_FAILED', 'alice', 'task.assign', assigned)
  assert.equal(details?.['aap_code'], 'DELEGATION_REFUSED')
})
must('A12', 'a run that begins again over the bound waits as well: after a review, and handed over by a person', async () => {
  const { on, asked } = await asking(2, 1)
  const [first, second] = asked as [Asked, Asked]
  await approve(on, first)
  const { artifact } = await deliver(on, first)
  await approve(on, second)
  await on.ring()
  const rework = { task_id: first.task_id, artifact_id: artifact.id, verdict: 'changes_requested', requested_changes: ['more'] }
  await on.call('alice', 'review.submit', rework)
  assert.equal((await runOf(on, first.task_id)).queued, true)
  assert.deepEqual(await takenBy(on), [second.run_id])
  const { task } = await on.call('alice', 'task.create', { spec: { goal: 'For robin' } })
  await on.call('alice', 'task.assign', { task_id: task.id, assignee: 'agent_robin' })
  await on.call('admin', 'ownership.transfer', { task_id: task.id, to: 'agent_devin' })
  await on.ring()
  assert.deepEqual(await takenBy(on), [])
  await deliver(on, second)
  await on.ring()
  assert.deepEqual(kindsIn(await take(on, 'devin')), [['run']])
})
must('A12', 'what is said to a run that waits comes with its answer, and one that is cancelled is told at once', async () => {
  const { on, asked } = await asking(3, 1)
  const [first, second, third] = asked as [Asked, Asked, Asked]
  await take(on, 'devin')
  for (const one of asked) await approve(on, one)
  await take(on, 'devin')
  await on.call('alice', 'task.amend', { task_id: second.task_id, text: 'Be brief.', intent: 'constrain' })
  await on.call('alice', 'task.cancel', { task_id: third.task_id })
  assert.deepEqual(await takenBy(on), [])
  await on.call('alice', 'task.cancel', { task_id: first.task_id })
  await on.ring()
  const items = await take(on, 'devin')
  assert.deepEqual(kindsIn(items.filter(({ run }) => run.id === second.run_id)), [['resume', 'steer']])
})
must('A12', 'a run that is stopped while it waits does not wait any more, and is told both when it goes on', async () => {
  const { on, asked } = await asking(2, 1)
  const [first, second] = asked as [Asked, Asked]
  for (const one of asked) await approve(on, one)
  const { checkpoint } = await on.call('alice', 'task.interrupt', { task_id: second.task_id })
  await deliver(on, first)
  await on.ring()
  assert.deepEqual(await all(on, asked), ['completed', 'blocked'])
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
  assert.deepEqual(await all(on, asked), ['completed', 'running'])
  assert.deepEqual(kindsIn(await take(on, 'devin')), [['resume', 'resume']])
})
for (const concurrency of [2, null])
  must('A12', `a card that says ${concurrency ?? 'no bound'} lets those go on that waited`, async () => {
    const { on, asked } = await asking(3, 1)
    for (const one of asked) await approve(on, one)
    assert.equal((await takenBy(on)).length, 1)
    await on.ring()
    await on.call('devin', ops('agent.publish'), { name: 'Devin', concurrency })
    await on.ring()
    assert.equal((await takenBy(on)).length, concurrency === null ? 2 : 1)
    assert.equal((await all(on, asked)).filter((word) => word === 'running').length, concurrency ?? 3)
  })
must('A12', 'a webhook and a program are told of a run that waited when it has its place, and not before', async () => {
  for (const reach of ['webhook', 'process'] as const) {
    const { on, asked } = await asking(2, 1, { reach, ...(reach === 'webhook' ? { endpoint: 'https://devin.example/hook' } : {}) })
    const [first, second] = asked as [Asked, Asked]
    const told = async ({ run_id }: Asked) => {
      const keys = await on.world.store.keys(`kernel.delivery/${reach}/${run_id}/`, `kernel.delivery/${reach}/${run_id}0`, 10)
      return keys.map((key) => Number(key.split('/').at(-1)))
    }
    const before = (await told(second)).length
    for (const one of asked) await approve(on, one)
    assert.equal((await told(second)).length, before, reach)
    await deliver(on, first)
    await on.ring()
    assert.equal((await told(second)).length, before + 1, reach)
    if (reach === 'process') continue
    const { item } = await on.call('system', ops('mailbox.push'), { run_id: second.run_id, number: (await told(second)).at(-1) })
    assert.equal(item.messages[0].kind, 'resume')
  }
})
must('A12', 'an agent without a bound costs no timer, and its runs go on at once', async () => {
  const { on, asked } = await asking(3, null)
  for (const one of asked) await approve(on, one)
  for (const one of asked) await deliver(on, one)
  assert.deepEqual(await on.ring(), [])
})
