// When an agent was last seen, and how its principal learns of it (A13).
import assert from 'node:assert/strict'
import { limits } from '#kernel/limits.ts'
import { stage, type Stage } from '../support/in-process/stage.ts'
import { stateHash } from '../support/in-process/world.ts'
import { aap } from './aap-cited.ts'

const { must } = aap

const lastSeen = async (on: Stage, agent_id = 'agent_robin'): Promise<string | null> => {
  const { agent } = await on.call('alice', 'identity/agent.get', { agent_id })
  const { items } = await on.call('alice', 'identity/agent.list', {})
  assert.equal(items.find(({ id }: { id: string }) => id === agent_id).last_seen, agent.last_seen, 'the list says the same')
  return agent.last_seen
}
/** Whether the assignee of a new task is connected, as its principal sees it. */
async function connected(on: Stage, assignee = 'agent_robin'): Promise<boolean | null> {
  const { task } = await on.call('alice', 'task.create', { spec: { goal: 'Fix it' } })
  return (await on.call('alice', 'task.assign', { task_id: task.id, assignee })).connected
}
const msAfter = (at: string | null, earlier: number): number => Date.parse(at!) - earlier

must(
  'A13',
  'agents carry last_seen: the time of their last call, also of one that was refused, and nothing is written for it',
  async () => {
    const on = await stage()
    assert.equal(await lastSeen(on), null)
    const before = await stateHash(on.world.store)
    for (const calling of [
      () => on.call('robin', 'identity/me.get'),
      () => on.call('robin', 'delegation/mailbox.take', { agent_id: 'agent_robin' }),
      () => on.refused('NOT_FOUND', 'robin', 'task.get', { task_id: 'task_nowhere' }),
    ]) {
      on.world.advance(3_600_000)
      const began = on.world.kernel.now()
      await calling()
      assert.ok(msAfter(await lastSeen(on), began) >= 0)
    }
    assert.equal(await stateHash(on.world.store), before)
    assert.equal(await lastSeen(on, 'agent_devin'), null, 'and of its own calls alone')
  },
)
must('A13', 'task.assign answers whether the agent is connected: heard of within the last 90 seconds', async () => {
  const on = await stage()
  assert.equal(await connected(on), false)
  await on.call('robin', 'identity/me.get')
  assert.equal(await connected(on), true)
  on.world.advance(limits.connectedMs - 1_000)
  assert.equal(await connected(on), true)
  on.world.advance(2_000)
  assert.equal(await connected(on), false)
})
must('A13', 'an agent that follows a stream is connected for as long as it does', async () => {
  const on = await stage('assigned')
  const stop = new AbortController()
  const { world } = on
  const question = { task_id: on.refs['task'].id }
  const items = world.kernel.follow('collaboration/audit.follow', question, world.cast['devin']!, { after: null, signal: stop.signal })
  const reading = items[Symbol.asyncIterator]()
  await reading.next()
  world.advance(10 * limits.connectedMs)
  assert.equal(await connected(on, 'agent_devin'), true)
  stop.abort()
  while (!(await reading.next()).done);
  assert.equal(await connected(on, 'agent_devin'), true, 'it was there a moment ago')
  world.advance(2 * limits.connectedMs)
  assert.equal(await connected(on, 'agent_devin'), false)
})
must('A13', 'nothing is said of people and of agents that do not come for their messages', async () => {
  const on = await stage()
  assert.equal(await connected(on, 'user_bob'), null)
  for (const reach of ['webhook', 'process'] as const) {
    const card = { name: 'Robin', reach, ...(reach === 'webhook' ? { endpoint: 'https://robin.example/hook' } : {}) }
    await on.call('robin', 'delegation/agent.publish', card)
    on.world.advance(2 * limits.connectedMs)
    assert.equal(await connected(on), null, reach)
  }
  await on.call('robin', 'delegation/agent.publish', { name: 'Robin', reach: 'pull' })
  assert.equal(await connected(on), true)
})
