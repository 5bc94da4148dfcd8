// Presence of agents: how little it costs to know, that a restart does not forget it, and how the command line tells it.
import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { keepPresence } from '#workers/presence.ts'
import { inProcess, startUp, temporary } from '../support/as-processes/cli.ts'

const quiet = { debug() {}, info() {}, warn() {}, error() {} }

test('however often an agent calls, its time is written once in some minutes, and at the stop', async () => {
  const written: Map<string, number>[] = []
  let now = Date.UTC(2026, 0, 1)
  let wake: () => void = () => undefined
  const clock = {
    now: () => now,
    sleep: (_: number, signal: AbortSignal) =>
      new Promise<void>((done) => {
        wake = done
        if (signal.aborted) done()
        signal.addEventListener('abort', () => done())
      }),
  }
  const file = {
    read: () => Promise.resolve(new Map([['agent_old', 5]])),
    write: (seen: ReadonlyMap<string, number>) => Promise.resolve(void written.push(new Map(seen))),
  }
  const minutes = async (count: number) => {
    for (let i = 0; i < count; i++) {
      now += 60_000
      wake()
      await new Promise(setImmediate)
    }
  }
  const { presence, worker } = await keepPresence(file, clock, quiet)
  assert.deepEqual([presence.lastSeen('agent_old'), presence.lastSeen('agent_new')], [5, null])
  await minutes(5)
  assert.equal(written.length, 0, 'nobody was there')
  for (let i = 0; i < 10_000; i++) presence.heard('agent_new')
  const leave = presence.listens('agent_streaming')
  const at = now
  await minutes(4)
  assert.equal(written.length, 0)
  await minutes(1)
  assert.deepEqual(written, [
    new Map([
      ['agent_old', 5],
      ['agent_new', at],
      ['agent_streaming', now],
    ]),
  ])
  leave()
  leave()
  now += 1
  presence.heard('agent_new')
  await worker.stop()
  assert.equal(written.length, 2)
  assert.equal(written[1]!.get('agent_new'), now)
})

async function withServer(t: TestContext) {
  const home = temporary('presence')
  const data = join(home, 'data')
  const server = await startUp(data)
  t.after(async () => {
    await server.stop()
    rmSync(home, { recursive: true, force: true })
  })
  const at = (key?: string) =>
    inProcess({ home, env: { HOME: home, COUNTERSIGN_URL: server.url, ...(key ? { COUNTERSIGN_KEY: key } : {}) } })
  const admin = async (...argv: string[]) => JSON.parse((await at().run([...argv, '--json'])).out)
  return { home, data, server, at, admin }
}

test('the command line says when agents were last there, and that one is not connected; a restart forgets neither', async (t) => {
  const { data, server, at, admin } = await withServer(t)
  await admin('agent', 'add', 'Robot', '--id', 'agent_robot', '--owner', 'user_owner')
  await admin('agent', 'add', 'Idle', '--id', 'agent_idle', '--owner', 'user_owner')
  const { key } = await admin('key', 'issue', 'user_owner')
  const { key: robot } = await admin('key', 'issue', 'agent_robot')
  const owner = at(key)
  assert.doesNotMatch((await owner.run(['agent', 'list'])).out, /LAST SEEN/, 'nobody was there yet')
  await at(robot).run(['me', 'get'])
  assert.match(
    (await owner.run(['agent', 'list'])).out,
    /AGENT +NAME +OWNER +LAST SEEN +DISABLED\n[^]*agent_idle .* - +no\n[^]*agent_robot .* (?:now|\ds ago) +no\n/,
  )
  const assigned = async (agent: string, ...more: string[]) => {
    const created = JSON.parse((await owner.run(['task', 'create', '--goal', 'Fix it', '--json'])).out)
    return owner.run(['task', 'assign', created.task.id, agent, ...more])
  }
  assert.equal((await assigned('agent_idle')).err, '! agent_idle is offline; it receives the task when it connects.\n')
  assert.deepEqual(
    [await assigned('agent_idle', '--pick', 'task.state'), await assigned('agent_robot')].map(({ err }) => err),
    ['', ''],
  )
  const before = JSON.parse((await owner.run(['agent', 'get', 'agent_robot', '--json'])).out).agent.last_seen
  await server.stop()
  assert.deepEqual(JSON.parse(readFileSync(join(data, 'seen.json'), 'utf8')), { agent_robot: before })

  const again = await startUp(data)
  t.after(() => again.stop())
  const env = { HOME: join(data, '..'), COUNTERSIGN_URL: again.url, COUNTERSIGN_KEY: key }
  const seen = JSON.parse((await inProcess({ home: env.HOME, env }).run(['agent', 'list', '--json'])).out).items
  assert.deepEqual(
    seen.map(({ id, last_seen }: { id: string; last_seen: string | null }) => [id, last_seen]),
    [
      ['agent_idle', null],
      ['agent_robot', before],
    ],
  )
  await again.stop()
  // A file that cannot be read costs the times and nothing else.
  writeFileSync(join(data, 'seen.json'), '{"agent_robot":"soon"')
  const third = await startUp(data)
  await third.stop()
})
