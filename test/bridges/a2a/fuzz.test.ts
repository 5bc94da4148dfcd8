// A2A with everything that no honest client sends: an answer in its form to each, never a failure of the server's, and it continues.
import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { test } from 'node:test'
import { serve } from '#sdk/agent/index.ts'
import { openStage } from '#test/support/as-processes/agents.ts'
import { send } from '#test/support/over-sockets/http-client.ts'
import { mutated, numbers, type Pick } from '#test/support/laws/mutations.ts'

const CASES = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all' ? 200_000 : 3_000
const AT_ONCE = 16
const SEED = Number(process.env['FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 31))

type Shape = { readonly method: string; readonly path: string; readonly body?: unknown }
const message = (more: object = {}): object => ({
  message: { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'Write' }, { data: { a: 1 } }], ...more },
  configuration: { returnImmediately: true, historyLength: 2 },
})
/** Every method by both wires, with what an honest client would send. */
function shapes(id: string): readonly Shape[] {
  const calls: readonly (readonly [string, object])[] = [
    ['SendMessage', message()],
    ['SendMessage', message({ taskId: id })],
    ['GetTask', { id, historyLength: 1 }],
    ['ListTasks', { pageSize: 3, status: 'TASK_STATE_WORKING', includeArtifacts: true }],
    ['SubscribeToTask', { id: 'task_none' }],
    ['CancelTask', { id: 'task_none' }],
    ['CreateTaskPushNotificationConfig', { taskId: id, id: 'mine', url: 'https://partner.example/hook', token: 't' }],
    ['GetTaskPushNotificationConfig', { taskId: id, id: 'mine' }],
    ['ListTaskPushNotificationConfigs', { taskId: id }],
    ['DeleteTaskPushNotificationConfig', { taskId: id, id: 'mine' }],
  ]
  return [
    ...calls.map(([method, params]) => ({ method: 'POST', path: '', body: { jsonrpc: '2.0', id: 1, method, params } })),
    { method: 'POST', path: '/message:send', body: message() },
    { method: 'GET', path: `/tasks/${id}?historyLength=1` },
    { method: 'GET', path: '/tasks?pageSize=2&pageToken=abc&includeArtifacts=true' },
    { method: 'POST', path: '/tasks/task_none:cancel', body: {} },
    { method: 'POST', path: `/tasks/${id}/pushNotificationConfigs`, body: { id: 'other', url: 'https://partner.example/hook' } },
    { method: 'GET', path: `/tasks/${id}/pushNotificationConfigs` },
    { method: 'GET', path: '/.well-known/agent-card.json' },
  ]
}

const printable = (bytes: Buffer): string => bytes.toString('latin1').replaceAll(/[^!-~]/g, '%')
const bodyFrom = (honest: unknown, pick: Pick): Buffer => {
  const text = JSON.stringify(honest)
  const kind = pick(8)
  if (kind < 2) return Buffer.from(text)
  if (kind === 2)
    return Buffer.from(text.replaceAll(/"[^"]{3,}"/g, (word) => [word, word, 'null', '1e300', '-1', '[]', '{}', '"\\u202e"'][pick(8)]!))
  return mutated(text, pick)
}

test(`${CASES} calls of every kind get an answer in the form of A2A, and none fails the server (seed ${SEED})`, async (t) => {
  const stage = await openStage()
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })
  t.after(() => agent.destroy())
  const { id: worker, key: workersKey } = await stage.agent('worker')
  await stage.system('delegation/agent.publish', { agent_id: worker, name: 'Worker', concurrency: 64, a2a: true })
  // It delivers nothing, so people are asked, and no message waits for long.
  const quiet = { log: () => undefined, onError: () => undefined, concurrency: 64, graceMs: 100 }
  const serving = serve(worker, () => undefined, { url: stage.server.url, key: workersKey, ...quiet })
  t.after(async () => {
    await serving.stop()
    await stage.close()
  })
  const { key } = await stage.system('identity/key.issue', { subject: 'user_owner' })
  const pick = numbers(SEED)
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'a2a-version': '1.0' }
  const ask = ({ method, path, body }: Shape, bytes?: Buffer) =>
    send(stage.server.port, `/a2a/${worker}${path}`, {
      method,
      headers,
      agent,
      ...(body === undefined ? {} : { body: bytes ?? JSON.stringify(body) }),
    })
  const first = await ask({ method: 'POST', path: '/message:send', body: message() })
  const { id } = first.json.task
  const all = shapes(id)
  const seen = new Map<string, number>()

  async function one(): Promise<void> {
    const shape = all[pick(all.length)]!
    const path = pick(5) === 0 ? printable(mutated(shape.path, pick)).replaceAll(/stream|subscribe/g, '') : shape.path
    const bytes = shape.body === undefined ? undefined : bodyFrom(shape.body, pick)
    const { status, json, text } = await ask({ ...shape, path }, bytes)
    const said = `${shape.method} ${path} ${bytes?.toString('latin1').slice(0, 400)} (seed ${SEED}): ${status} ${text.slice(0, 300)}`
    assert.ok(status < 500, said)
    const error = json?.error
    if (status >= 400) assert.ok(error, said)
    if (error) assert.equal((error.data ?? error.details)[0].domain, 'a2a-protocol.org', said)
    const reason = String((error?.data ?? error?.details)?.[0].reason ?? 'OK')
    assert.notEqual(reason, 'INTERNAL_ERROR', said)
    seen.set(reason, (seen.get(reason) ?? 0) + 1)
  }
  for (let done = 0; done < CASES; done += AT_ONCE) await Promise.all(Array.from({ length: AT_ONCE }, one))
  for (const reason of ['OK', 'PARSE_ERROR', 'INVALID_REQUEST', 'INVALID_PARAMS', 'METHOD_NOT_FOUND', 'TASK_NOT_FOUND'])
    assert.ok((seen.get(reason) ?? 0) > 0, `${reason} was met: ${JSON.stringify([...seen])} (seed ${SEED})`)
  assert.equal((await ask({ method: 'GET', path: `/tasks/${id}` })).json.id, id)
  assert.equal((await stage.owner.collaboration.audit.verify({})).valid, true)
})
