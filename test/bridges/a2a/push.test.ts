// Push notifications of A2A: what a receiver gets after each change of a task, and what is never posted.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { a2a } from '#bridges/a2a/index.ts'
import { runPushes, type PushOptions } from '#bridges/a2a/push.ts'
import { realClock } from '#apps/server/clock.ts'
import { limits } from '#kernel/limits.ts'
import { openStage } from '#test/support/as-processes/agents.ts'
import { stateHash } from '#test/support/in-process/world.ts'
import { silent } from '#test/support/in-process/worker-world.ts'
import { send, type Answer } from '#test/support/over-sockets/http-client.ts'
import { hxpWorld } from '#test/support/over-sockets/hxp-world.ts'

type Post = { readonly headers: Record<string, string | string[] | undefined>; readonly task: any }

async function until<T>(look: () => Promise<T | false | undefined | null> | T | false | undefined | null): Promise<T> {
  for (let i = 0; i < 2_000; i++) {
    const found = await look()
    if (found) return found
    await new Promise((done) => setTimeout(done, 5))
  }
  throw new Error('it did not happen')
}

/** The system of a caller: it keeps what it gets, and answers with the statuses that it is given, then 200. */
async function receiver(t: TestContext) {
  const posts: Post[] = []
  const statuses: number[] = []
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const status = statuses.shift() ?? 200
      if (status === 200) posts.push({ headers: request.headers, task: JSON.parse(Buffer.concat(parts).toString()).task })
      response.writeHead(status, status === 302 ? { location: '/elsewhere' } : {}).end()
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  t.after(() => server.close())
  return { posts, statuses, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook` }
}

async function doorWorld(t: TestContext, more: Partial<PushOptions> = {}) {
  const bridge = a2a(() => ({ protected: '', signature: '' }), { isPublicOnly: false })
  const world = await hxpWorld(t, { now: Date.now, http: { bridges: [bridge] } })
  await world.call('devin', 'delegation/agent.publish', { name: 'Devin', a2a: true })
  const options = { allowsPrivate: true, attemptsMax: 3, random: () => 0, origin: () => 'https://here.example', ...more }
  const open = () => {
    const worker = runPushes(world.kernel, options, realClock, silent)
    t.after(() => worker.stop())
    return worker
  }
  const ask = (as: keyof typeof world.keys, method: string, path: string, body?: object): Promise<Answer> =>
    send(world.port, `/a2a/agent_devin${path}`, {
      method,
      headers: { authorization: `Bearer ${world.keys[as]}`, 'a2a-version': '1.0', 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const rpc = (method: string, params: object, as: keyof typeof world.keys = 'alice'): Promise<Answer> =>
    ask(as, 'POST', '', { jsonrpc: '2.0', id: 1, method, params })
  async function message(configuration: object = {}, as: keyof typeof world.keys = 'alice'): Promise<any> {
    const sent = {
      message: { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'Write' }] },
      configuration: { returnImmediately: true, ...configuration },
    }
    const { json, text } = await rpc('SendMessage', sent, as)
    assert.ok(json.result?.task, text)
    return json.result.task
  }
  return { ...world, open, ask, rpc, message, worker: open() }
}
const state = ({ task }: Post): string => task.status.state.replace('TASK_STATE_', '')

test('each change of a task is posted in its present state, with the token and the credentials, until the config is deleted', async (t) => {
  const on = await doorWorld(t)
  const there = await receiver(t)
  const authentication = { scheme: 'Bearer', credentials: 'theirs' }
  const { id } = await on.message({ taskPushNotificationConfig: { url: there.url, token: 't-1', authentication } })
  await until(() => there.posts.length === 1)
  const [first] = there.posts
  assert.deepEqual([first!.task.id, state(first!)], [id, 'SUBMITTED'])
  const { headers } = first!
  assert.deepEqual(
    [headers['content-type'], headers['x-a2a-notification-token'], headers['authorization']],
    ['application/a2a+json', 't-1', 'Bearer theirs'],
  )
  await on.call('devin', 'collaboration/task.start', { task_id: id })
  await until(() => there.posts.some((one) => state(one) === 'WORKING'))
  const [run] = (await on.call('alice', 'delegation/run.list', { task_id: id })).items
  await on.call('devin', 'delegation/run.ask', { run_id: run.id, message: 'Which one?' })
  const asked = await until(() => there.posts.find((one) => state(one) === 'INPUT_REQUIRED'))
  assert.equal(asked.task.status.message.parts[0].text, 'Which one?')
  await on.call('alice', 'collaboration/task.amend', { task_id: id, text: 'the second', intent: 'clarify' })
  await on.call('devin', 'collaboration/artifact.commit', {
    task_id: id,
    type: 'text',
    payload: { kind: 'inline', uri: 'data:text/plain,done' },
  })
  const delivered = await until(() => there.posts.find((one) => one.task.artifacts))
  assert.equal(delivered.task.artifacts[0].parts[0].text, 'done')
  const { task } = await on.call('alice', 'collaboration/task.get', { task_id: id })
  await on.call('alice', 'collaboration/review.submit', { task_id: id, artifact_id: task.artifacts[0], verdict: 'approved' })
  await until(() => there.posts.some((one) => state(one) === 'COMPLETED'))
  const bodies = there.posts.map((one) => JSON.stringify(one.task))
  assert.equal(new Set(bodies).size, bodies.length, 'no state is posted twice')
})

test('a config is set, fetched, listed and deleted by both wires, and never shows its credentials', async (t) => {
  const on = await doorWorld(t)
  const there = await receiver(t)
  const { id: taskId } = await on.message()
  const config = { taskId, id: 'one', url: there.url, token: 't', authentication: { scheme: 'Bearer', credentials: 'secret' } }
  const shown = { id: 'one', taskId, url: there.url, token: 't', authentication: { scheme: 'Bearer' } }
  assert.deepEqual((await on.rpc('CreateTaskPushNotificationConfig', config)).json.result, shown)
  const place = `/tasks/${taskId}/pushNotificationConfigs`
  const other = (await on.ask('alice', 'POST', place, { url: there.url })).json
  assert.match(other.id, /^push_/)
  assert.deepEqual((await on.ask('alice', 'GET', `${place}/one`)).json, shown)
  assert.deepEqual((await on.rpc('GetTaskPushNotificationConfig', { taskId, id: other.id })).json.result, other)
  const ids = async (): Promise<string[]> =>
    (await on.rpc('ListTaskPushNotificationConfigs', { taskId })).json.result.configs.map((one: any) => one.id)
  assert.deepEqual(new Set(await ids()), new Set(['one', other.id]))
  for (const _ of [1, 2]) assert.deepEqual((await on.ask('alice', 'DELETE', `${place}/one`)).json, {})
  assert.deepEqual((await on.rpc('DeleteTaskPushNotificationConfig', { taskId, id: other.id })).json.result, {})
  assert.deepEqual((await on.ask('alice', 'GET', place)).json, { configs: [], nextPageToken: '' })
  assert.equal((await on.ask('alice', 'GET', `${place}/one`)).status, 404)
  await on.call('devin', 'collaboration/task.start', { task_id: taskId })
  // A config that is set after the change shows when posts of the removed ones would be through.
  await on.rpc('CreateTaskPushNotificationConfig', { ...config, token: 'last' })
  await until(() => there.posts.some(({ headers }) => headers['x-a2a-notification-token'] === 'last'))
  assert.ok(there.posts.every((one) => one.headers['x-a2a-notification-token'] === 'last' || state(one) === 'SUBMITTED'))
})

test('a config is for the one who gave the work; others learn nothing, and a task has at most ten', async (t) => {
  const on = await doorWorld(t)
  const { id: taskId } = await on.message()
  const url = 'https://partner.example/hook'
  for (let i = 0; i < limits.a2aPushesPerTaskMax; i++) await on.rpc('CreateTaskPushNotificationConfig', { taskId, id: `c${i}`, url })
  await on.worker.stop()
  const before = await stateHash(on.store)
  const eleventh = await on.rpc('CreateTaskPushNotificationConfig', { taskId, id: 'more', url })
  assert.equal(eleventh.json.error.data[0].reason, 'RESOURCE_EXHAUSTED')
  for (const as of ['rita', 'bob', 'owner', 'devin'] as const) {
    for (const method of ['GetTaskPushNotificationConfig', 'DeleteTaskPushNotificationConfig', 'CreateTaskPushNotificationConfig']) {
      const { json } = await on.rpc(method, { taskId, id: 'c1', url }, as)
      assert.match(json.error.data[0].reason, /^(TASK_NOT_FOUND|PERMISSION_DENIED)$/, `${as} ${method}`)
    }
  }
  assert.equal(await stateHash(on.store), before)
})

test('a run that an agent delegated is posted to that agent alone', async (t) => {
  const on = await doorWorld(t)
  const there = await receiver(t)
  const { id } = await on.message({ taskPushNotificationConfig: { url: there.url } }, 'robin')
  await until(() => there.posts.length === 1)
  await on.call('devin', 'delegation/run.complete', { run_id: id, result: { four: 4 } })
  const done = await until(() => there.posts.find((one) => state(one) === 'COMPLETED'))
  assert.deepEqual(done.task.artifacts[0].parts[0].data, { four: 4 })
})

test('a refused post is tried again with the state of that time, a redirect is not followed, and 410 waits for the next change', async (t) => {
  const on = await doorWorld(t)
  const there = await receiver(t)
  there.statuses.push(503, 302)
  const { id } = await on.message({ taskPushNotificationConfig: { url: there.url } })
  await until(() => there.statuses.length === 1)
  await on.call('devin', 'collaboration/task.start', { task_id: id })
  await until(() => there.posts.length === 1)
  assert.deepEqual(there.posts.map(state), ['WORKING'])
  there.statuses.push(410)
  await on.call('alice', 'collaboration/task.amend', { task_id: id, text: 'more', intent: 'clarify' })
  const [run] = (await on.call('alice', 'delegation/run.list', { task_id: id })).items
  await on.call('devin', 'delegation/run.progress', { run_id: run.id, message: 'half' })
  await until(() => there.statuses.length === 0)
  await on.call('devin', 'delegation/run.progress', { run_id: run.id, message: 'done' })
  const last = await until(() => there.posts.find((one) => one.task.status.message?.parts[0].text === 'done'))
  assert.equal(state(last), 'WORKING')
})

test('a change while no server runs is posted at the next start, and the same state is not posted again', async (t) => {
  const on = await doorWorld(t)
  const there = await receiver(t)
  const { id } = await on.message({ taskPushNotificationConfig: { url: there.url } })
  await until(() => there.posts.length === 1)
  await on.worker.stop()
  await on.call('devin', 'collaboration/task.start', { task_id: id })
  const next = on.open()
  await until(() => there.posts.length === 2)
  await next.stop()
  on.open()
  await on.call('alice', 'collaboration/task.cancel', { task_id: id })
  await until(() => there.posts.some((one) => state(one) === 'CANCELED'))
  assert.deepEqual(there.posts.map(state), ['SUBMITTED', 'WORKING', 'CANCELED'])
})

test('an address that resolves to a private one gets nothing, and neither does a caller without access', async (t) => {
  const there = { lookups: 0 }
  const on = await doorWorld(t, {
    allowsPrivate: false,
    attemptsMax: 1,
    resolve: ((_: string, __: object, done: (error: null, found: object[]) => void) => {
      there.lookups++
      done(null, [{ address: '127.0.0.1', family: 4 }])
    }) as never,
  })
  const { id: taskId } = await on.message({ taskPushNotificationConfig: { id: 'one', url: 'https://partner.example/hook' } })
  await until(() => there.lookups === 1)
  await until(async () => (await on.store.keys('kernel.delivery/', 'kernel.delivery/~', 10)).length === 0)
  await on.call('system', 'identity/project.leave', { project_id: 'project_default', subject: 'user_alice' })
  await on.call('devin', 'collaboration/task.start', { task_id: taskId })
  const { found } = await on.call('system', 'delegation/push.ring', { push_id: `${taskId}/one` })
  assert.ok(found)
  await until(async () => (await on.store.keys('kernel.delivery/', 'kernel.delivery/~', 10)).length === 0)
  assert.equal(there.lookups, 1)
})

test('a config ends with its task', async (t) => {
  const on = await doorWorld(t)
  const { id: taskId } = await on.message({ taskPushNotificationConfig: { id: 'one', url: 'https://partner.example/hook' } })
  await on.worker.stop()
  const push_id = `${taskId}/one`
  const tidy = (): Promise<any> => on.call('system', 'delegation/push.tidy', { push_id })
  const settleAll = async (): Promise<void> => {
    for (const key of await on.store.keys('kernel.delivery/', 'kernel.delivery/~', 10))
      await on.call('system', 'kernel/delivery.settle', { outcomes: [{ id: key.slice('kernel.delivery/'.length), ok: true }] })
  }
  await settleAll()
  assert.deepEqual(await tidy(), { removed: false }, 'the task is open')
  await on.call('alice', 'collaboration/task.cancel', { task_id: taskId })
  await on.call('system', 'delegation/push.ring', { push_id })
  assert.deepEqual(await tidy(), { removed: false }, 'its last state is not posted yet')
  await settleAll()
  assert.deepEqual([await tidy(), await tidy()], [{ removed: true }, { removed: false }])
})

test('a whole server posts to an address that its operator allows, and its card says that it does', async (t) => {
  const there = await receiver(t)
  const stage = await openStage(['--webhook-private', 'on'])
  t.after(() => stage.close())
  const { id } = await stage.agent('writer')
  await stage.system('delegation/agent.publish', { agent_id: id, name: 'Writer', a2a: true })
  const card = (await (await fetch(`${stage.server.url}/a2a/${id}/.well-known/agent-card.json`)).json()) as { capabilities: object }
  assert.deepEqual(card.capabilities, { streaming: true, pushNotifications: true })
  const { key } = await stage.system('identity/key.issue', { subject: 'user_owner' })
  const message = { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'Write' }] }
  const configuration = { returnImmediately: true, taskPushNotificationConfig: { url: there.url, token: 't-1' } }
  const answer = await send(stage.server.port, `/a2a/${id}/message:send`, {
    headers: { authorization: `Bearer ${key}`, 'a2a-version': '1.0', 'content-type': 'application/json' },
    body: JSON.stringify({ message, configuration }),
  })
  await until(() => there.posts.length === 1)
  await stage.owner.collaboration.task.cancel({ task_id: answer.json.task.id })
  await until(() => there.posts.some((one) => state(one) === 'CANCELED'))
})
