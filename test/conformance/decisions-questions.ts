// Decisions about whose question an answer counts for: what the system asks is its own question (H34), and a question that goes to the
// next person stays the question that it was (H44).
import assert from 'node:assert/strict'
import { canonical } from '#kernel/log/canonical-json.ts'
import type { Image, Store } from '#kernel/log/store.ts'
import { memoryDisk, memoryStore } from '#stores/memory.ts'
import { runOf } from '../support/in-process/runs.ts'
import { HOUR_MS, linesOf, stage, type Stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions

const actions = ['drop', 'keep'].map((id) => ({ id, kind: 'sql', summary: `${id} the table`, risk: 'high' }))
const raising = { kind: 'approval', prompt: 'Drop the production database?', proposed_actions: actions }

/** The system had to ask while a question of the agent waited. */
async function superseded(by: 'failure' | 'deadline', error = 'out of memory'): Promise<Stage & { own: any; asked: any }> {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  const deadline = new Date(on.world.kernel.now() + HOUR_MS).toISOString()
  if (by === 'deadline') await on.call('alice', 'task.extend', { task_id, deadline })
  const { checkpoint: asked } = await on.call('devin', 'checkpoint.raise', { task_id, ...raising })
  if (by === 'failure') await on.call('devin', 'delegation/run.fail', { run_id: (await runOf(on)).id, error })
  else {
    on.world.advance(2 * HOUR_MS)
    await on.ring()
  }
  return { ...on, asked, own: await checkpointOf(on, (await on.task()).pending_checkpoint) }
}
const checkpointOf = async (on: Stage, checkpoint_id: string): Promise<any> =>
  (await on.call('alice', 'checkpoint.get', { checkpoint_id })).checkpoint

for (const by of ['failure', 'deadline'] as const) {
  must('H34-ends', `${by}: the question of the agent has expired, superseded, before the system asks`, async () => {
    const on = await superseded(by)
    const lines = await linesOf(on.world)
    const [over, raised] = ['expired', 'raised'].map((what) => lines.findLast(({ action }) => action.endsWith(`checkpoint.${what}`)))
    assert.deepEqual([over.detail, over.at, over.seq < raised.seq], [{ reason: 'superseded' }, raised.at, true])
    const { state, reason, resolution } = await checkpointOf(on, on.asked.id)
    assert.deepEqual([state, reason, resolution], ['expired', 'superseded', null])
    for (const action of ['approve', 'reject'])
      await on.refused('CHECKPOINT_EXPIRED', 'alice', 'checkpoint.resolve', { checkpoint_id: on.asked.id, action })
    const { items } = await on.call('alice', 'execution/inbox.list', { task_id: on.asked.task_id })
    assert.deepEqual(
      items.map((item: any) => [item.action, item.title]),
      [['APPROVE', on.own.prompt.split('\n')[0]]],
    )
  })
  must('H34-own', `${by}: it asks for nothing that the agent had asked for, and quotes it`, async () => {
    const { own, asked } = await superseded(by)
    const { kind, options, proposed_actions, request_id, state_shown, raised_by, succeeds, supersedes } = own
    assert.deepEqual(
      [kind, options, proposed_actions, request_id, state_shown, raised_by, succeeds],
      ['escalation', [], [], undefined, null, 'agent_system', asked.id],
    )
    assert.deepEqual(supersedes, { checkpoint_id: asked.id, prompt: raising.prompt })
  })
  must(
    'H34-answers',
    `${by}: approve lets it try again and approves no action; lists of actions, words and choices are refused`,
    async () => {
      const on = await superseded(by)
      const checkpoint_id = on.own.id
      for (const wrong of [
        { action: 'provide', input: 'yes' },
        { action: 'choose', choice: 'drop' },
        { action: 'approve', approved_actions: ['drop'] },
      ]) {
        if (by === 'failure' || wrong.action !== 'approve')
          await on.refused('INVALID_SPEC', 'alice', 'checkpoint.resolve', { checkpoint_id, ...wrong })
      }
      if (by === 'deadline') {
        await on.refused('DEADLINE_EXCEEDED', 'alice', 'checkpoint.resolve', { checkpoint_id, action: 'approve' })
        await on.call('alice', 'task.extend', { task_id: on.asked.task_id, deadline: null })
      }
      const { checkpoint, task } = await on.call('alice', 'checkpoint.resolve', { checkpoint_id, action: 'approve' })
      assert.equal(task.state, 'in_progress')
      assert.deepEqual([checkpoint.resolution.approved_actions, checkpoint.resolution.action], [undefined, 'approve'])
      assert.equal((await checkpointOf(on, on.asked.id)).resolution, null)
    },
  )
  must('H34-answers', `${by}: it may go to another agent, or end`, async () => {
    const elsewhere = await superseded(by)
    await elsewhere.call('alice', 'checkpoint.resolve', {
      checkpoint_id: elsewhere.own.id,
      action: 'reassign',
      reassign_to: 'agent_robin',
    })
    assert.equal((await runOf(elsewhere)).agent_id, 'agent_robin')
    const over = await superseded(by)
    const { task } = await over.call('alice', 'checkpoint.resolve', { checkpoint_id: over.own.id, action: 'reject' })
    assert.deepEqual([task.state, task.outcome], ['completed', 'rejected_at_checkpoint'])
  })
}
must('H34-own', 'no words of an agent push the quoted question out', async () => {
  const { own, asked } = await superseded('failure', 'x'.repeat(3_900))
  assert.deepEqual(own.supersedes, { checkpoint_id: asked.id, prompt: raising.prompt })
  assert.match(own.prompt, /^Devin is stuck: /)
})
must('H34-own', 'words of an agent that are too long are cut between characters', async () => {
  for (const before of ['', 'x']) {
    const { own } = await superseded('failure', `${before}${'🙂'.repeat(1_999)}`)
    assert.ok(own.prompt.isWellFormed())
  }
})
must('H34-told', 'the run that waited goes on with the answer to the other question, and is told that its own had none', async () => {
  const on = await superseded('deadline')
  await on.call('alice', 'task.extend', { task_id: on.asked.task_id, deadline: null })
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: on.own.id, action: 'approve' })
  const { items } = await on.call('devin', 'delegation/mailbox.take', {})
  const { kind, body } = items[0].messages.at(-1)
  assert.deepEqual([kind, body.checkpoint_id, body.superseded], ['resume', on.own.id, on.asked.id])
  assert.equal(body.resolution.action, 'approve')
})
must('H34-told', 'so is the next run, after a failure', async () => {
  const on = await superseded('failure')
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: on.own.id, action: 'approve' })
  const { request } = await on.call('devin', 'delegation/run.get', { run_id: (await runOf(on)).id })
  assert.deepEqual([request.context.checkpoint_id, request.context.superseded], [on.own.id, on.asked.id])
})
must('H34-own', 'work that a person took over stays in their hands when the agent behind it fails', async () => {
  const on = await stage('taken_over')
  const { checkpoint: interrupt } = on.refs
  await on.call('devin', 'delegation/run.fail', { run_id: (await runOf(on)).id, error: 'no' })
  const own = await checkpointOf(on, (await on.task()).pending_checkpoint)
  assert.deepEqual([own.kind, own.takeover, own.supersedes.checkpoint_id], ['escalation', true, interrupt.id])
  await on.call('alice', 'task.return', { task_id: own.task_id })
  assert.equal((await runOf(on)).state, 'running')
})
/** As earlier versions left it: a question of the system that still carries all of the agent's. */
async function ofEarlierVersion(ask: (on: Stage) => Promise<string>): Promise<Stage & { own: any; asked: string }> {
  const disk = memoryDisk()
  const inner = memoryStore({ disk })
  const store: Store = {
    ...inner,
    commit: (batch) => inner.commit({ ...batch, facts: batch.facts.map((one) => ({ ...one, images: one.images.map(aged) })) }),
  }
  const on = await stage('in_progress', { store, disk })
  const asked = await ask(on)
  await on.call('admin', 'checkpoint.expire', { checkpoint_id: asked })
  return { ...on, asked, own: await checkpointOf(on, (await on.task()).pending_checkpoint) }
}
function aged(image: Image): Image {
  const { escalates, ...value } = image.value as Record<string, unknown>
  return escalates === undefined ? image : { ...image, value, text: canonical(value) }
}
must('H34-answers', 'in a record of an earlier version approve approves no action of the agent', async () => {
  const on = await ofEarlierVersion(
    async (it) => (await it.call('devin', 'checkpoint.raise', { task_id: it.refs['task'].id, ...raising })).checkpoint.id,
  )
  assert.deepEqual([on.own.raised_by, on.own.proposed_actions.length], ['agent_system', 2])
  const answer = { checkpoint_id: on.own.id, action: 'approve' }
  await on.refused('INVALID_SPEC', 'alice', 'checkpoint.resolve', { ...answer, approved_actions: ['drop'] })
  const { checkpoint } = await on.call('alice', 'checkpoint.resolve', answer)
  assert.deepEqual([checkpoint.resolution.action, checkpoint.resolution.approved_actions], ['approve', undefined])
  const { items } = await on.call('devin', 'delegation/mailbox.take', {})
  assert.equal(items[0].messages.at(-1).body.superseded, on.asked, 'its agent is told that its question had no answer')
})
must('H34-ends', 'in a record of an earlier version approve does not sign the request of the agent as approved', async () => {
  let request_id = ''
  const on = await ofEarlierVersion(async (it) => {
    const payload = { item: 'Drop the production database?', details: {} }
    const input = { action: 'APPROVE', metadata: { task_id: it.refs['task'].id }, payload }
    request_id = (await it.call('devin', 'execution/request.create', input)).request.id
    return (await it.task()).pending_checkpoint
  })
  assert.equal(on.own.request_id, request_id)
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: on.own.id, action: 'approve' })
  const { request, receipt } = await on.call('devin', 'execution/request.get', { request_id })
  assert.deepEqual([request.status, receipt.result, receipt.reason], ['cancelled', null, 'superseded'])
  assert.equal((await on.task()).state, 'in_progress')
})

must('H44-kind', 'the next person answers a choice by a choice, words by words, and an approval by yes or no', async () => {
  const fitting: Record<string, object> = {
    approval: { action: 'approve' },
    choice: { action: 'choose', choice: 'a' },
    input: { action: 'provide', input: '80' },
  }
  for (const [kind, answer] of Object.entries(fitting)) {
    const on = await stage('in_progress')
    const options = kind === 'choice' ? [{ id: 'a', label: 'A', risk: 'low' }] : []
    const question = { kind, prompt: 'So?', options, expires_in: 'PT1H', on_expiry: 'escalate' }
    await on.call('devin', 'checkpoint.raise', { task_id: on.refs['task'].id, ...question })
    on.world.advance(2 * HOUR_MS)
    await on.ring()
    const checkpoint_id = (await on.task()).pending_checkpoint
    for (const other of Object.values(fitting))
      if (other !== answer) await on.refused('INVALID_SPEC', 'alice', 'checkpoint.resolve', { checkpoint_id, ...other })
    assert.equal((await on.call('alice', 'checkpoint.resolve', { checkpoint_id, ...answer })).task.state, 'in_progress')
  }
})
