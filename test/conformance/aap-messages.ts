// AAP 0.1.0: messages to an agent that comes for them: order, leases, attempts, leftovers, and notes.
import assert from 'node:assert/strict'
import { limits } from '#kernel/limits.ts'
import { delegation } from '#protocols/delegation/index.ts'
import { kindsIn, runOf, runsOf, take } from '../support/in-process/runs.ts'
import { stage, type Stage } from '../support/in-process/stage.ts'
import { aap } from './aap-cited.ts'

const { must } = aap
const ops = (name: string): string => `delegation/${name}`
const MINUTE_MS = 60_000
const amend = (on: Stage, text: string): Promise<any> =>
  on.call('alice', 'task.amend', { task_id: on.refs['task'].id, text, intent: 'clarify' })
const mailboxes = (on: Stage): Promise<string[]> => on.world.store.keys('delegation.mailbox/', 'delegation.mailbox/~', 100)

must('M-ORDER', 'messages of a run come in order, whatever was taken before; two runs do not wait for each other', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  await amend(on, 'one')
  const { checkpoint } = await on.call('alice', 'task.interrupt', { task_id })
  await amend(on, 'two')
  const first = await take(on, 'devin')
  assert.deepEqual(kindsIn(first), [['run', 'steer', 'block', 'steer']])
  assert.deepEqual(
    first[0].messages.map(({ number }: any) => number),
    [1, 2, 3, 4],
  )
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
  const { task } = await on.call('alice', 'task.create', { spec: { goal: 'Another' } })
  await on.call('alice', 'task.assign', { task_id: task.id, assignee: 'agent_devin' })
  assert.deepEqual(kindsIn(await take(on, 'devin')), [['resume'], ['run']], 'only what is new')
  assert.deepEqual(await take(on, 'devin'), [])
  assert.deepEqual(kindsIn(await take(on, 'robin')), [])
})
must('M-LEASE', 'while it is held nobody else gets it; after the lease it comes again, with all that is not settled', async () => {
  const on = await stage('in_progress')
  const [one] = await take(on, 'devin', 'p1', { lease: 'PT2M' })
  assert.equal(one.attempt, 1)
  await amend(on, 'faster')
  assert.deepEqual(await take(on, 'devin', 'p2'), [], 'not even what came since')
  assert.deepEqual(kindsIn(await take(on, 'devin', 'p1')), [['steer']])
  on.world.advance(3 * MINUTE_MS)
  const [again] = await take(on, 'devin', 'p2')
  assert.deepEqual([again.attempt, kindsIn([again])], [2, [['run', 'steer']]])
  await on.call('devin', ops('mailbox.ack'), { run_id: again.run.id, attempt: 2, number: 1 })
  on.world.advance(3 * MINUTE_MS)
  const [third] = await take(on, 'devin', 'p3')
  assert.deepEqual([third.attempt, kindsIn([third])], [3, [['steer']]], 'what was settled does not come again')
})
must('M-LEASE', 'a lease is lengthened by asking and by progress, and is an hour at most', async () => {
  const on = await stage('in_progress')
  const [{ run, attempt }] = await take(on, 'devin', 'p1')
  for (let i = 0; i < 5; i++) {
    on.world.advance(MINUTE_MS / 2)
    if (i % 2) await on.call('devin', ops('run.progress'), { run_id: run.id, attempt })
    else await on.call('devin', ops('mailbox.extend'), { runs: [{ run_id: run.id, attempt }] })
    assert.deepEqual(await take(on, 'devin', 'p2'), [])
  }
  await on.call('devin', ops('mailbox.extend'), { runs: [{ run_id: run.id, attempt }], lease: 'P7D' })
  on.world.advance(50 * MINUTE_MS)
  assert.deepEqual(await take(on, 'devin', 'p2'), [])
  on.world.advance(11 * MINUTE_MS)
  assert.equal((await take(on, 'devin', 'p2'))[0].attempt, 2)
  const extending = { runs: [{ run_id: run.id, attempt: 1 }] }
  assert.deepEqual((await on.call('devin', ops('mailbox.extend'), extending)).items, [{ run_id: run.id, lease_until: null }])
})
must(
  'M-LEASE',
  'another lease is as long as the one before: what was taken for a second is free a second after the last word',
  async () => {
    const on = await stage('in_progress')
    const [{ run }] = await take(on, 'devin', 'p0', { lease: 'PT1S' })
    const message = [
      (attempt: number) => on.call('devin', ops('run.progress'), { run_id: run.id, attempt }),
      (attempt: number) => on.call('devin', ops('mailbox.extend'), { runs: [{ run_id: run.id, attempt }] }),
    ]
    for (const [i, say] of message.entries()) {
      on.world.advance(900)
      await say(i + 1)
      on.world.advance(900)
      assert.deepEqual(await take(on, 'devin', 'another'), [])
      on.world.advance(200)
      assert.equal((await take(on, 'devin', `p${i + 1}`, { lease: 'PT1S' }))[0]?.attempt, i + 2)
    }
  },
)
must('M-ATTEMPT', 'once another process has taken over, whatever the one before says is refused and changes nothing', async () => {
  const on = await stage('in_progress')
  const [{ run }] = await take(on, 'devin', 'p1')
  on.world.advance(2 * MINUTE_MS)
  await take(on, 'devin', 'p2')
  const run_id = run.id
  const message: Record<string, object> = {
    'run.progress': { message: 'x' },
    'run.complete': {},
    'run.fail': { error: 'x' },
    'run.report': { type: 'needs_input', payload: { prompt: 'x' } },
    'agent.handoff': { to_agent: 'agent_robin' },
    'mailbox.ack': { number: 1 },
    'memo.put': { key: 'k', value: 1 },
  }
  for (const [op, input] of Object.entries(message))
    for (const attempt of [1, 0, 3, undefined])
      await on.refused('CONFLICT', 'devin', ops(op), { run_id, ...input, ...(attempt === undefined ? {} : { attempt }) })
  for (const [op, input] of Object.entries({ 'run.progress': {}, 'memo.put': { key: 'k', value: 1 } }))
    await on.call('devin', ops(op), { run_id, attempt: 2, ...input })
  const fixed = await stage(delegation.scenes['delegated'])
  await take(fixed, 'robin')
  await fixed.refused('CONFLICT', 'robin', ops('agent.delegate'), { to_agent: 'agent_devin', parent_run: fixed.refs['run'].id })
})
must('M-ATTEMPT', 'an agent that never takes its messages needs no attempt', async () => {
  const on = await stage('in_progress')
  const run_id = (await runOf(on)).id
  await on.call('devin', ops('run.progress'), { run_id, percent: 1 })
  await on.call('devin', ops('run.progress'), { run_id, attempt: 0, percent: 2 })
})
must('M-ONCE', 'two processes at once: one gets the resume; delivered again, only the last to get it may act', async () => {
  const on = await stage('blocked')
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: on.refs['checkpoint'].id, action: 'approve' })
  const both = await Promise.all([take(on, 'devin', 'p1'), take(on, 'devin', 'p2')])
  assert.deepEqual(
    both.map((items) => items.length).toSorted((a, b) => a - b),
    [0, 1],
  )
  on.world.advance(2 * MINUTE_MS)
  const [again] = await take(on, 'devin', 'p3')
  assert.deepEqual([again.attempt, kindsIn([again])], [2, [['resume']]])
  const run_id = again.run.id
  const asking = { run_id, type: 'needs_approval', payload: { prompt: 'Next?' } }
  const answers = await Promise.allSettled([1, 2].map((attempt) => on.call('devin', ops('run.report'), { ...asking, attempt })))
  assert.deepEqual(
    answers.map(({ status }) => status),
    ['rejected', 'fulfilled'],
  )
  assert.deepEqual(await take(on, 'devin', 'p3'), [], 'who asks has read what brought it so far')
})
must('M-END', 'an agent that never came leaves no mailbox; one that did is told, once', async () => {
  for (const [scene, op] of [
    ['in_progress', 'task.cancel'],
    ['blocked', 'task.cancel'],
  ] as const) {
    const on = await stage(scene)
    await on.call('alice', op, { task_id: on.refs['task'].id })
    assert.deepEqual(await mailboxes(on), [])
  }
  const delivered = await stage('review_ready')
  assert.deepEqual(await mailboxes(delivered), [])
  const on = await stage('in_progress')
  const [{ run }] = await take(on, 'devin', 'p1')
  await on.call('alice', 'task.cancel', { task_id: on.refs['task'].id })
  assert.deepEqual(kindsIn(await take(on, 'devin', 'p1')), [['cancel']])
  await on.call('devin', ops('mailbox.ack'), { run_id: run.id, attempt: 1, number: 2 })
  assert.deepEqual(await mailboxes(on), [])
  const unheard = await stage('in_progress')
  await take(unheard, 'devin', 'p1')
  await unheard.call('alice', 'task.cancel', { task_id: unheard.refs['task'].id })
  unheard.world.advance(2 * limits.memoMs)
  assert.deepEqual(await unheard.ring(), ['delegation/run.forget'])
  assert.deepEqual(await mailboxes(unheard), [], 'after a day it is forgotten')
})
must('M-ORDER', 'what steers is bounded: the oldest is left to the steering log, and nobody is refused', async () => {
  const on = await stage('in_progress')
  for (let i = 0; i < limits.messagesPerRunMax + 20; i++) await amend(on, `number ${i}`)
  const [item] = await take(on, 'devin')
  assert.deepEqual([item.messages.length, item.messages[0].kind], [limits.messagesPerRunMax + 1, 'run'])
  assert.equal(item.messages[1].body.text, 'number 20')
  assert.equal(item.messages.at(-1).body.text, `number ${limits.messagesPerRunMax + 19}`)
})
must('M-MEMO', 'the first value stays, a foreign one is not seen, each is bounded, and all are forgotten a day after the end', async () => {
  const on = await stage(delegation.scenes['delegated'])
  const run_id = on.refs['run'].id
  const put = (value: unknown, key = 'clone'): Promise<any> => on.call('robin', ops('memo.put'), { run_id, key, value })
  const get = (key = 'clone'): Promise<any> => on.call('robin', ops('memo.get'), { run_id, key })
  assert.equal((await get()).found, false)
  assert.deepEqual(await put({ commit: 'a' }), { value: { commit: 'a' }, first: true })
  assert.deepEqual(await put({ commit: 'b' }), { value: { commit: 'a' }, first: false })
  const { value, found } = await get()
  assert.deepEqual([value, found], [{ commit: 'a' }, true])
  await on.refused('INVALID_REQUEST', 'robin', ops('memo.put'), { run_id, key: 'big', value: 'x'.repeat(limits.memoBytesMax) })
  for (let i = 1; i < limits.memosPerRunMax; i++) await put(i, `key ${i}`)
  await on.refused('QUOTA_EXCEEDED', 'robin', ops('memo.put'), { run_id, key: 'one more', value: 1 })
  await on.refused('PRECONDITION_FAILED', 'system', ops('run.forget'), { run_id })
  await on.call('robin', ops('run.complete'), { run_id })
  assert.equal((await get()).found, true, 'a process that comes late still reads them')
  on.world.advance(2 * limits.memoMs)
  for (let i = 0; i < 3; i++) await on.call('system', ops('run.forget'), { run_id })
  assert.deepEqual(await on.world.store.keys('delegation.memo/', 'delegation.memo/~', 10), [])
})
must('M-MEMO', 'the notes of a run of a task stay while the task is open, for the runs that continue it', async () => {
  const on = await stage('in_progress')
  const { id: task_id } = on.refs['task']
  const [run] = await runsOf(on)
  await on.call('devin', ops('memo.put'), { run_id: run.id, key: 'session', value: 's_1' })
  const notes = (): Promise<string[]> => on.world.store.keys('delegation.memo/', 'delegation.memo/~', 10)
  const artifact = { task_id, type: 'text', payload: { kind: 'inline', uri: 'data:,done' } }
  await on.call('devin', 'artifact.commit', artifact)
  for (let day = 0; day < 3; day++) {
    on.world.advance(limits.memoMs)
    assert.deepEqual(await on.ring(), ['delegation/run.forget'])
  }
  assert.equal((await notes()).length, 1)
  await on.call('alice', 'review.submit', {
    task_id,
    artifact_id: (await on.call('alice', 'task.get', { task_id })).task.artifacts[0],
    verdict: 'approved',
  })
  on.world.advance(limits.memoMs)
  assert.deepEqual(await on.ring(), ['delegation/run.forget'])
  assert.deepEqual(await notes(), [])
})
must('M-PUSH', 'an agent that is reached by push has a delivery for each message, in the order of the run', async () => {
  const on = await stage('created')
  await on.call('devin', ops('agent.publish'), { name: 'Devin', reach: 'webhook', endpoint: 'https://devin.example/' })
  await on.call('alice', 'task.assign', { task_id: on.refs['task'].id, assignee: 'agent_devin' })
  await on.call('devin', 'task.start', { task_id: on.refs['task'].id })
  await amend(on, 'faster')
  const [run] = await runsOf(on)
  const keys = await on.world.store.keys('kernel.delivery/webhook/', 'kernel.delivery/webhook/~', 10)
  assert.deepEqual(
    keys,
    ['000000001', '000000002'].map((number) => `kernel.delivery/webhook/${run.id}/${number}`),
  )
  const [first] = await on.world.store.read(keys)
  assert.deepEqual((first!.value as any).body, { agent_id: 'agent_devin', run_id: run.id, number: 1 })
  const { items } = await on.call('system', ops('mailbox.take'), { agent_id: 'agent_devin', run_id: run.id, worker: 'webhook' })
  assert.deepEqual(kindsIn(items), [['run', 'steer']], 'the channel finds them where an agent would')
})
