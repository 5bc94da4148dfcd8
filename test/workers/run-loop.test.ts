// The run loop of a program agent on a kernel that lets its calls wait: it does not poll, and what comes is begun at once.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { realClock } from '#apps/server/clock.ts'
import { contracts } from '#contracts/index.ts'
import { createKernel } from '#kernel/kernel.ts'
import { directory } from '#protocols/identity/directory.ts'
import { protocols } from '#protocols/index.ts'
import { memoryStore } from '#stores/memory.ts'
import { profiles } from '#workers/programs/profiles.ts'
import { startRunLoop } from '#workers/programs/run-loop.ts'
import { until } from '../support/as-processes/agents.ts'
import { cast, seededEntropy } from '../support/in-process/world.ts'

/** `againMs` is a minute: what is found sooner was waited for. */
async function startLoop(t: TestContext, argv: readonly [string, ...string[]]) {
  const { now, sleep } = realClock
  const world = { store: memoryStore(), protocols, contracts, directory, entropy: seededEntropy(), asksPerMinute: null }
  const kernel = createKernel({ ...world, now, sleep })
  const call = (as: string, operation: string, input: object = {}): Promise<any> => kernel.call(operation, input, cast[as]!)
  await call('admin', 'identity/project.add', { id: 'project_default', name: 'Default' })
  await call('admin', 'identity/user.add', { id: 'user_alice', name: 'Alice' })
  await call('admin', 'identity/agent.add', { id: 'agent_devin', name: 'Devin', owner: 'user_alice' })
  let takes = 0
  const troubles: string[] = []
  const loop = startRunLoop({
    port: {
      call(operation, input, options = {}) {
        if (operation === 'delegation/mailbox.take') takes++
        const { timeoutMs: _, ...rest } = options
        return kernel.call(operation, input, cast['devin']!, rest)
      },
      upload: () => Promise.reject(new Error('nothing here is large')),
    },
    plan: {
      argv,
      profile: profiles['text']!,
      cwd: import.meta.dirname,
      env: { PATH: process.env['PATH']! },
      timeLimitMs: 60_000,
      waitMs: 60_000,
      graceMs: 100,
    },
    concurrency: 1,
    tries: 1,
    worker: 'one',
    clock: realClock,
    againMs: 60_000,
    note: () => undefined,
    trouble: (message) => troubles.push(message),
  })
  t.after(() => loop.stop())
  const stateOf = async (task_id: string): Promise<string> => (await call('alice', 'collaboration/task.get', { task_id })).task.state
  return {
    kernel,
    call,
    loop,
    troubles,
    takes: () => takes,
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

test('who has no room for another run still hears what comes for the one at hand', async (t) => {
  const on = await startLoop(t, ['sleep', '60'])
  const first = await on.assign()
  await on.reached(first, 'in_progress')
  const second = await on.assign()
  await until(() => on.kernel.stats().waiting === 1, 'it waits')
  assert.equal(await on.call('alice', 'collaboration/task.get', { task_id: second }).then(({ task }) => task.state), 'assigned')
  await on.call('alice', 'collaboration/task.cancel', { task_id: first, reason: 'enough' })
  await on.reached(second, 'in_progress')
})

test('finishing ends a call that waits for more, and lets what is at hand come to its end', async (t) => {
  const on = await startLoop(t, ['sh', '-c', 'sleep 0.5; echo done'])
  const task_id = await on.assign()
  await on.reached(task_id, 'in_progress')
  await on.loop.finish()
  await on.reached(task_id, 'review_ready')
  assert.equal(on.kernel.stats().waiting, 0)

  const idle = await startLoop(t, ['true'])
  await until(() => idle.kernel.stats().waiting === 1, 'it waits')
  await idle.loop.finish()
  assert.equal(idle.kernel.stats().waiting, 0)
  const later = await idle.assign()
  await new Promise((done) => setTimeout(done, 100))
  const { items } = await idle.call('devin', 'delegation/mailbox.take', { worker: 'two' })
  assert.deepEqual([items[0].run.task_id, items[0].attempt], [later, 1], 'nobody took it before')
})
