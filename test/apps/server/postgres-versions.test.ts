// Servers on every available PostgreSQL other than the newest embedded one: the oldest that is supported and Debian's, with JIT compilation on as
// Debian ships it. No plan is one that PostgreSQL was forbidden to make, which older versions count as 1e10 and then compile.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { debians, isPostgresOff, oldestPostgres, startPostgres, type PostgresPrograms } from '../../support/as-processes/postgres.ts'
import { enroll, type Answer } from '../../support/as-processes/server.ts'
import { startServers, type Node } from '../../support/as-processes/servers.ts'

const FORBIDDEN = 1e10
const { name: oldestName, folder } = oldestPostgres()
const oldest: PostgresPrograms | null = folder === null ? null : { name: oldestName, folder, isPacked: true }
const versions: readonly (readonly [string, PostgresPrograms | null])[] = [
  [oldestName, oldest],
  ...(debians().length > 0 ? debians().map((one) => [one.name, one] as const) : [["Debian's PostgreSQL", null] as const]),
]

const ok = async (answer: Promise<Answer>): Promise<any> => {
  const { status, body } = await answer
  assert.equal(status, 200, JSON.stringify(body))
  return body
}

/** The whole cost of each plan that was run, with its statement. */
function plansIn(log: string): { cost: number; text: string }[] {
  return log
    .split(/\n(?=\d{4}-\d\d-\d\d )/)
    .filter((entry) => entry.includes('Query Text:'))
    .map((text) => ({ cost: Math.max(...[...text.matchAll(/\(cost=[\d.]+\.\.([\d.]+)/g)].map(([, cost]) => Number(cost))), text }))
}

for (const [name, from] of versions)
  describe(`two servers on ${name}`, { skip: isPostgresOff || (from === null && `${name} is not installed here`) }, () => {
    test('answer as one, and every plan uses an index and no JIT', async (t) => {
      const database = await startPostgres({
        from: from!,
        settings: {
          jit: 'on',
          session_preload_libraries: 'auto_explain',
          'auto_explain.log_min_duration': '0',
          'auto_explain.log_analyze': 'on',
        },
      })
      t.after(database.stop)
      await work(t, database.url)
      const plans = plansIn(database.log())
      assert.ok(plans.length > 100, `${plans.length} plans were logged`)
      assert.deepEqual(
        plans.filter(({ cost, text }) => cost >= FORBIDDEN || /^\s*JIT:/m.test(text)).map(({ text }) => text),
        [],
      )
    })
  })

async function work(t: TestContext, url: string): Promise<void> {
  const { nodes, adminKey } = await startServers(t, 2, { url })
  const [a, b] = nodes as [Node, Node]
  const { alice, devin } = await enroll(a.port, adminKey)
  for (let i = 0; i < 5; i++) {
    const { task } = await ok(a.call(alice, 'collaboration/task.create', { spec: { goal: `Goal ${i}` } }))
    await ok(b.call(alice, 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' }))
    assert.equal((await ok(a.call(alice, 'collaboration/task.get', { task_id: task.id }))).task.executor, 'agent_devin')
  }
  const { request } = await ok(b.call(devin, 'execution/request.create', { action: 'APPROVE', payload: { item: 'Deploy', details: {} } }))
  assert.equal((await ok(a.call(alice, 'execution/inbox.list'))).items[0].request_id, request.id)
  await ok(a.call(alice, 'execution/inbox.count'))
  await ok(a.call(alice, 'execution/request.resolve', { request_id: request.id, result: 'approved' }))
  assert.equal((await ok(b.call(devin, 'execution/request.await', { request_id: request.id, wait: 5 }))).request.status, 'completed')
  await ok(b.call(alice, 'collaboration/task.list', {}))
  const owner = (await ok(a.call(adminKey, 'identity/key.issue', { subject: 'user_owner' }))).key
  assert.equal((await ok(b.call(owner, 'collaboration/audit.verify', {}))).valid, true)
  await ok(b.call(owner, 'collaboration/audit.query', {}))
  for (const node of nodes) assert.equal((await node.end('SIGTERM')).code, 0)
}
