// A process whose run another process has taken over: every act of it on the task is refused, and nothing changes.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR_MS, stage, type Stage } from '../../support/in-process/stage.ts'
import { runOf, take } from '../../support/in-process/runs.ts'

type Does = (task_id: string) => readonly [string, object]
const doings: readonly Does[] = [
  (task_id) => ['artifact.commit', { task_id, type: 'patch', payload: { kind: 'inline', uri: 'data:text/plain,stale' } }],
  (task_id) => ['checkpoint.raise', { task_id, kind: 'approval', prompt: 'May I?' }],
  (task_id) => ['ledger.write', { task_id, key: 'colour', value: 'red' }],
]

/** The first process has the run, then its lease ends and the second takes it. */
async function takenOver(): Promise<{ on: Stage; task_id: string; run_id: string }> {
  const on = await stage('in_progress')
  const [first] = await take(on, 'devin', 'first')
  on.world.advance(2 * HOUR_MS)
  const [second] = await take(on, 'devin', 'second')
  assert.deepEqual([first.attempt, second.attempt], [1, 2])
  return { on, task_id: on.refs['task'].id, run_id: first.run.id }
}

for (const does of doings) {
  const [operation] = does('')
  test(`${operation}: an attempt that is not the present one is refused`, async () => {
    const { on, task_id, run_id } = await takenOver()
    const [, input] = does(task_id)
    for (const by of [{ attempt: 1 }, { run_id, attempt: 1 }, { run_id, attempt: 3 }, { attempt: 0 }]) {
      const { message } = await on.refused('CONFLICT', 'devin', operation, { ...input, ...by })
      assert.match(message, /another process has taken the run since/)
    }
    await on.refused('NOT_FOUND', 'devin', operation, { ...input, run_id: 'run_none', attempt: 2 })
    await on.call('devin', operation, { ...input, run_id, attempt: 2 })
  })

  test(`${operation}: who says nothing of runs works as ever, and so does one whose run nobody took`, async () => {
    const { on, task_id } = await takenOver()
    await on.call('devin', operation, does(task_id)[1])
    const plain = await stage('in_progress')
    const id = plain.refs['task'].id
    await plain.call('devin', operation, { ...does(id)[1], run_id: (await runOf(plain)).id, attempt: 0 })
  })

  test(`${operation}: the next attempt repeats a call by its key and gets the answer that it had`, async () => {
    const on = await stage('in_progress')
    const task_id = on.refs['task'].id as string
    const [{ run }] = await take(on, 'devin', 'first')
    const input = { ...does(task_id)[1], run_id: run.id }
    const answer = await on.call('devin', operation, { ...input, attempt: 1 }, 'step')
    assert.deepEqual(await on.call('devin', operation, { ...input, attempt: 2 }, 'step'), answer)
    await on.refused('CONFLICT', 'devin', operation, { ...input, run_id: 'run_other', attempt: 1 }, 'step')
  })
}

test('a run that has ended may still write, until another one has followed it', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id as string
  const [{ run, attempt }] = await take(on, 'devin', 'first')
  const by = { run_id: run.id as string, attempt: attempt as number }
  const payload = { kind: 'inline', uri: 'data:text/plain,done' }
  const { artifact } = await on.call('devin', 'artifact.commit', { task_id, type: 'patch', payload, ...by })
  await on.call('devin', 'ledger.write', { task_id, key: 'colour', value: 'red', ...by })
  const review = { task_id, artifact_id: artifact.id, verdict: 'changes_requested', requested_changes: ['More.'] }
  await on.call('alice', 'review.submit', review)
  // The next run is in its first attempt as well: the number alone would not tell them apart.
  const [next] = await take(on, 'devin', 'second')
  assert.deepEqual([next.run.continues, next.attempt], [run.id, 1])
  await on.refused('CONFLICT', 'devin', 'artifact.commit', { task_id, type: 'patch', payload, ...by })
  await on.refused('CONFLICT', 'devin', 'ledger.write', { task_id, key: 'colour', value: 'blue', ...by })
})
