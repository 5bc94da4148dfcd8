// The run loop of a program agent on a kernel that lets its calls wait: it does not poll, and begins a run when it arrives.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { realClock } from '#apps/server/clock.ts'
import { contracts } from '#contracts/index.ts'
import { createKernel } from '#kernel/kernel.ts'
import { directory } from '#protocols/identity/directory.ts'
import { protocols } from '#protocols/index.ts'
import { memoryStore } from '#stores/memory.ts'
import { profiles } from '#agents/programs/profiles.ts'
import type { Plan, Port } from '#agents/programs/conversation.ts'
import { startRunLoop, withProgram } from '#agents/programs/run-loop.ts'
import { until } from '../../support/as-processes/agents.ts'
import { testNotary } from '../../support/in-process/notary.ts'
import { cast, seededEntropy } from '../../support/in-process/world.ts'

/** `againMs` is a minute: what is found sooner was waited for. */
async function startLoop(t: TestContext, argv: readonly [string, ...string[]], before: (operation: string) => unknown = () => null) {
  const { now, sleep } = realClock
  const world = { store: memoryStore(), protocols, contracts, directory, entropy: seededEntropy(), notary: testNotary, asksPerMinute: null }
  const kernel = createKernel({ ...world, now, sleep })
  const call = (as: string, operation: string, input: object = {}): Promise<any> => kernel.call(operation, input, cast[as]!)
  await call('admin', 'identity/project.add', { id: 'project_default', name: 'Default' })
  await call('admin', 'identity/user.add', { id: 'user_alice', name: 'Alice' })
  await call('admin', 'identity/agent.add', { id: 'agent_devin', name: 'Devin', owner: 'user_alice' })
  let takes = 0
  let refused = 0
  const troubles: string[] = []
  const port: Port = {
    async call(operation, input, options = {}) {
      await before(operation)
      if (operation === 'delegation/mailbox.take') takes++
      return kernel.call(operation, input, cast['devin']!, { signal: options.signal }).catch((error: unknown) => {
        if (operation === 'collaboration/artifact.commit') refused++
        throw error
      })
    },
    upload: () => Promise.reject(new Error('nothing here is large')),
  }
  const plan: Plan = {
    argv,
    profile: profiles['text']!,
    cwd: import.meta.dirname,
    env: { PATH: process.env['PATH']! },
    timeLimitMs: 60_000,
    waitMs: 60_000,
    graceMs: 100,
  }
  const loop = startRunLoop({
    agent_id: 'agent_devin',
    port,
    converse: withProgram(plan, port),
    concurrency: 1,
    tries: 1,
    worker: 'one',
    againMs: 60_000,
    note: () => undefined,
    trouble: (message) => troubles.push(message),
  })
  t.after(() => loop.stop(0))
  const stateOf = async (task_id: string): Promise<string> => (await call('alice', 'collaboration/task.get', { task_id })).task.state
  return {
    kernel,
    call,
    loop,
    troubles,
    takes: () => takes,
    refused: () => refused,
    async assign(): Promise<string> {
      const { task } = await call('alice', 'collaboration/task.create', { spec: { goal: 'act' } })
      await call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
      return task.id as string
    },
    reached: (task_id: string, state: string) => until(async () => (await stateOf(task_id)) === state, state, { lateMs: 10_000 }),
  }
}

test('an idle agent asks once and waits; a run is begun when it comes, and the next when there is room', async (t) => {
  const on = await startLoop(t, ['echo', 'done'])
  await until(() => on.kernel.stats().waiting === 1, 'it waits')
  await new Promise((done) => setTimeout(done, 300))
  assert.equal(on.takes(), 1)
  const tasks = [await on.assign(), await on.assign(), await on.assign()]
  for (const task_id of tasks) await on.reached(task_id, 'review_ready')
  assert.deepEqual(on.troubles, [])
})

test('a loop without room for another run still gets messages for the current one', async (t) => {
  const on = await startLoop(t, ['sleep', '60'])
  const first = await on.assign()
  await on.reached(first, 'in_progress')
  const second = await on.assign()
  await until(() => on.kernel.stats().waiting === 1, 'it waits')
  assert.equal(await on.call('alice', 'collaboration/task.get', { task_id: second }).then(({ task }) => task.state), 'assigned')
  await on.call('alice', 'collaboration/task.cancel', { task_id: first, reason: 'enough' })
  await on.reached(second, 'in_progress')
})

test('finishing ends the waiting call and lets running work end', async (t) => {
  const on = await startLoop(t, ['sh', '-c', 'sleep 0.5; echo done'])
  const task_id = await on.assign()
  await on.reached(task_id, 'in_progress')
  await on.loop.stop(Infinity)
  await on.reached(task_id, 'review_ready')
  assert.equal(on.kernel.stats().waiting, 0)

  const idle = await startLoop(t, ['true'])
  await until(() => idle.kernel.stats().waiting === 1, 'it waits')
  await idle.loop.stop(Infinity)
  assert.equal(idle.kernel.stats().waiting, 0)
  const later = await idle.assign()
  await new Promise((done) => setTimeout(done, 100))
  const { items } = await idle.call('devin', 'delegation/mailbox.take', { worker: 'two' })
  assert.deepEqual([items[0].run.task_id, items[0].attempt], [later, 1], 'nobody took it before')
})

test('a stop while the start of a run is reported starts no child, and releases the run', async (t) => {
  const file = join(mkdtempSync(join(tmpdir(), 'countersign-stop-')), 'started')
  t.after(() => rmSync(dirname(file), { recursive: true }))
  const reported = Promise.withResolvers<void>()
  const reporting = Promise.withResolvers<void>()
  const on = await startLoop(t, ['sh', '-c', `touch ${file}; sleep 60`], (operation) => {
    if (operation !== 'delegation/run.start') return null
    reporting.resolve()
    return reported.promise
  })
  const task_id = await on.assign()
  await reporting.promise
  const stopped = on.loop.stop(0)
  reported.resolve()
  await stopped
  assert.equal(existsSync(file), false, 'no child was started')
  const { items } = await on.call('devin', 'delegation/mailbox.take', { worker: 'two' })
  assert.deepEqual([items[0].run.task_id, items[0].attempt], [task_id, 2], 'another process takes the run without waiting for the lease')
})

test('a cancel ends a result that waits for a person, and the next run begins', async (t) => {
  const on = await startLoop(t, ['sh', '-c', 'sleep 0.5; echo done'])
  const first = await on.assign()
  await on.reached(first, 'in_progress')
  await on.call('alice', 'collaboration/task.interrupt', { task_id: first, reason: 'wait' })
  await until(() => on.refused() > 0, 'the result is refused while the task is interrupted')
  const second = await on.assign()
  await on.call('alice', 'collaboration/task.cancel', { task_id: first, reason: 'enough' })
  await on.reached(second, 'review_ready')
})
