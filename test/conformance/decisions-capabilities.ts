// Decisions about capabilities: the meaning of autonomy.
import assert from 'node:assert/strict'
import { acting, autonomy, runUnder } from '../support/in-process/task-limits.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions

must('D8-read_only', 'nor does it run a capability', async () => {
  const { on, ran, invoke } = await acting()
  const { run_id } = await runUnder(on, autonomy('read_only'))
  await assert.rejects(invoke(run_id), { code: 'PRECONDITION_FAILED' })
  assert.equal(ran(), 0)
  await on.close()
})

must('D8-confirm', 'without a grant nothing runs, also what asks for no permission', async () => {
  const { on, ran, invoke } = await acting()
  const { run_id, task_id } = await runUnder(on, autonomy('confirm_each_action'))
  assert.equal((await invoke(run_id)).error.code, 'PERMISSION_DENIED')
  assert.equal(ran(), 0)
  await on.world.call('alice', 'collaboration/grant.add', { task_id, scope: 'cap:write', decision: 'allow', until: 'task', uses: 1 })
  assert.equal((await invoke(run_id)).ok, true)
  assert.equal((await invoke(run_id)).error.code, 'PERMISSION_DENIED', 'it was for one use')
  assert.equal(ran(), 1)
  await on.close()
})
