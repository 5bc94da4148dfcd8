// Presence of agents: how little it costs to know, that a restart does not forget it, and how the command line tells it.
import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { exits } from '#apps/cli/exit-codes.ts'
import { createPresence, keepPresence } from '#workers/presence.ts'
import { inProcess, startUp, temporary } from '../support/as-processes/cli.ts'

const quiet = { debug() {}, info() {}, warn() {}, error() {} }

test('the last-seen time of a busy agent is written once every few minutes and at the stop', async () => {
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

test('keys are no agents, and the keys unused for longest are forgotten', () => {
  const known = new Map(Array.from({ length: limits.keysSeenMax }, (_, i) => [`key_${i}`, 5]))
  const { presence, all, connected } = createPresence(() => 7, new Map([['agent_old', 6], ...known]))
  assert.equal(connected(), 1)
  presence.heard('key_0')
  presence.heard('key_new')
  assert.deepEqual(
    ['key_0', 'key_new', 'key_1', 'key_2', 'agent_old'].map((id) => presence.lastSeen(id)),
    [7, 7, null, 5, 6],
  )
  assert.equal(all().size, limits.keysSeenMax + 1)
})

test('a list of keys says who issued each and when it was last used; a restart does not forget it', async (t) => {
  const { data, server, at, admin } = await withServer(t)
  const { key, issued } = await admin('key', 'issue', 'user_owner', '--label', 'mine')
  await admin('agent', 'add', 'Robot', '--id', 'agent_robot', '--owner', 'user_owner')
  const owner = at(key)
  const robot = JSON.parse((await owner.run(['key', 'issue', 'agent_robot', '--label', 'robots', '--json'])).out)
  assert.doesNotMatch((await owner.run(['key', 'list', 'agent_robot'])).out, /LAST USED/)
  assert.equal((await at(`${robot.key.slice(0, -1)}_`).run(['me', 'get'])).code, exits.unauthenticated)
  assert.doesNotMatch((await owner.run(['key', 'list', 'agent_robot'])).out, /LAST USED/)
  await at(robot.key).run(['me', 'get'])
  const { out } = await owner.run(['key', 'list', 'agent_robot'])
  assert.match(out, /ISSUED BY +CREATED +LAST USED\n[^]* Owner +(?:now|\ds ago) +(?:now|\ds ago)\n/)
  const usedAt = async (run: typeof owner.run): Promise<unknown> =>
    JSON.parse((await run(['key', 'list', 'agent_robot', '--json'])).out).items[0].last_used_at
  const before = await usedAt(owner.run)
  await server.stop()
  assert.ok(issued.id in JSON.parse(readFileSync(join(data, 'seen.json'), 'utf8')))
  const again = await startUp(data)
  t.after(() => again.stop())
  const env = { HOME: join(data, '..'), COUNTERSIGN_URL: again.url, COUNTERSIGN_KEY: key }
  assert.equal(await usedAt(inProcess({ home: env.HOME, env }).run), before)
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
  const kept = Object.entries(JSON.parse(readFileSync(join(data, 'seen.json'), 'utf8')))
  assert.deepEqual(
    kept.filter(([id]) => !id.startsWith('key_')),
    [['agent_robot', before]],
  )

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
