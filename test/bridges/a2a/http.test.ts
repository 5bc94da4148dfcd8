// `/a2a/<agent_id>` of a real server: what a client of A2A 1.0 sends, and what it gets.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createPublicKey, verify } from 'node:crypto'
import { serve, type Serving } from '#sdk/agent/index.ts'
import { openStage, until, type Agent, type Stage } from '#test/support/as-processes/agents.ts'
import { approveAll, serveSteered } from '#test/support/a2a/steered-agent.ts'

let stage: Stage
let agent: Agent
let other: Agent
let key: string
let serving: Serving
let rest: () => void

type Sent = { readonly as?: string; readonly to?: string; readonly headers?: Record<string, string>; readonly method?: string }
type Answer = { readonly status: number; readonly type: string; readonly json: any; readonly text: string }
async function ask(path: string, body?: unknown, { as = key, to = agent.id, headers = {}, method }: Sent = {}): Promise<Answer> {
  const response = await fetch(`${stage.server.url}/a2a/${to}${path}`, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      'a2a-version': '1.0',
      'content-type': 'application/json',
      ...(as === '' ? {} : { authorization: `Bearer ${as}` }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  const type = response.headers.get('content-type') ?? ''
  return { status: response.status, type, text, json: type.includes('json') ? JSON.parse(text) : null }
}
const rpc = (method: string, params: unknown, sent: Sent = {}): Promise<Answer> => ask('', { jsonrpc: '2.0', id: 7, method, params }, sent)
const message = (messageId: string, more: object = {}): object => ({
  message: { messageId, role: 'ROLE_USER', parts: [{ text: 'Write a haiku' }], ...more },
})
const started = (messageId: string, more: object = {}): object => ({
  ...message(messageId, more),
  configuration: { returnImmediately: true },
})
async function taskOf(params: object, sent: Sent = {}): Promise<any> {
  const { json, text } = await rpc('SendMessage', params, sent)
  assert.ok(json?.result?.task, text)
  return json.result.task
}
const get = async (id: string, sent: Sent = {}): Promise<any> => (await rpc('GetTask', { id }, sent)).json.result
const inState = (id: string, state: string): Promise<any> =>
  until(async () => {
    const task = await get(id)
    return task.status.state === `TASK_STATE_${state}` && task
  }, `${id} is ${state}`)
const events = (text: string): any[] => text.split('\n\n').flatMap((one) => (one.startsWith('data: ') ? [JSON.parse(one.slice(6))] : []))
const count = async (): Promise<number> => (await stage.owner.collaboration.task.list({ limit: 100 })).items.length

before(async () => {
  stage = await openStage()
  agent = await stage.agent('writer')
  other = await stage.agent('quiet')
  await stage.system('delegation/agent.publish', { agent_id: agent.id, name: 'Writer', description: 'writes', concurrency: 32, a2a: true })
  await stage.system('delegation/agent.publish', { agent_id: other.id, name: 'Quiet' })
  ;({ key } = await stage.system('identity/key.issue', { subject: 'user_owner' }))
  serving = serveSteered(stage, agent)
})
after(async () => {
  rest?.()
  await serving.stop()
  await stage.close()
})

describe('the agent card', () => {
  it('the card is public, and its signature is by a published key', async () => {
    const { status, json: card } = await ask('/.well-known/agent-card.json', undefined, { as: '' })
    assert.equal(status, 200)
    const url = `${stage.server.url}/a2a/${agent.id}`
    assert.deepEqual(card.supportedInterfaces, [
      { url, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
      { url, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
    ])
    const { signatures, ...unsigned } = card
    const header = JSON.parse(Buffer.from(signatures[0].protected, 'base64url').toString())
    const { keys } = (await (await fetch(`${stage.server.url}/.well-known/jwks.json`)).json()) as { keys: any[] }
    const jwk = keys.find(({ kid }) => kid === header.kid)
    const sorted = (value: any): any =>
      Array.isArray(value)
        ? value.map(sorted)
        : value !== null && typeof value === 'object'
          ? Object.fromEntries(
              Object.keys(value)
                .toSorted()
                .map((name) => [name, sorted(value[name])]),
            )
          : value
    const signs = (text: string): boolean => {
      const input = `${signatures[0].protected}.${Buffer.from(text).toString('base64url')}`
      const publicKey = createPublicKey({ key: jwk, format: 'jwk' })
      return verify(null, Buffer.from(input), publicKey, Buffer.from(signatures[0].signature, 'base64url'))
    }
    assert.ok(signs(JSON.stringify(sorted(unsigned))))
    assert.ok(!signs(JSON.stringify(sorted({ ...unsigned, name: 'Mallory' }))))
  })

  it('an agent that is not shown by A2A is as absent as one that does not exist', async () => {
    const absent = (id: string): Promise<Answer> => ask('/.well-known/agent-card.json', undefined, { to: id, as: '' })
    const [hidden, none] = [await absent(other.id), await absent('agent_none')]
    assert.deepEqual([hidden.status, none.status], [404, 404])
    assert.equal(hidden.text.replaceAll(other.id, 'X'), none.text.replaceAll('agent_none', 'X'))
    const refused = await rpc('SendMessage', message('m-hidden'), { to: other.id })
    assert.deepEqual([refused.status, refused.json.error.data[0].reason], [404, 'AGENT_NOT_FOUND'])
  })
})

describe('a message', () => {
  it('a message is a task of the caller, assigned to the agent, and a repeated one is the same task', async () => {
    const before = await count()
    const sent = started('m-repeat-input-required')
    const [one, two] = [await taskOf(sent), await taskOf(sent)]
    assert.equal(one.id, two.id)
    assert.equal(one.contextId, two.contextId)
    assert.equal(await count(), before + 1)
    const { task } = await stage.owner.collaboration.task.get({ task_id: one.id })
    assert.deepEqual([task.spec.goal, task.executor, task.ownership.principal], ['Write a haiku', agent.id, 'user_owner'])
    assert.deepEqual(task.origin, { protocol: 'a2a', context_id: one.contextId, message_id: 'm-repeat-input-required' })
  })

  it('a question of the run is INPUT_REQUIRED without a checkpoint, and the next message reaches the run', async () => {
    const { id, contextId } = await taskOf(started('m-input-required'))
    const asked = await inState(id, 'INPUT_REQUIRED')
    assert.equal(asked.status.message.parts[0].text, 'Which one do you mean?')
    assert.deepEqual((await stage.owner.collaboration.checkpoint.list({ task_id: id })).items, [])
    const next = await taskOf(started('m-answer', { taskId: id, contextId, parts: [{ text: 'The second' }] }))
    assert.equal(next.status.state, 'TASK_STATE_WORKING')
    const task = await stage.taskIn(id, 'review_ready')
    const seen = await get(id)
    assert.deepEqual([seen.status.state, seen.artifacts[0].parts[0].text], ['TASK_STATE_WORKING', 'You said: The second'])
    assert.deepEqual(
      seen.history.map((one: any) => one.parts[0].text),
      ['Write a haiku', 'The second'],
    )
    await stage.owner.collaboration.review.submit({ task_id: id, artifact_id: task.delivered.artifact_id, verdict: 'approved' })
    assert.equal((await get(id)).status.state, 'TASK_STATE_COMPLETED')
  })

  it('a message to a task that people decide about is a comment and never an answer', async () => {
    const { id, contextId } = await taskOf(started('m-reject-task'))
    const blocked = await inState(id, 'AUTH_REQUIRED')
    assert.match(blocked.status.message.parts[0].text, /^A person decides here: /)
    const after = await taskOf(started('m-yes', { taskId: id, contextId, parts: [{ text: 'approve' }] }))
    assert.equal(after.status.state, 'TASK_STATE_AUTH_REQUIRED')
    const { id: checkpoint_id, state } = await stage.question(id)
    assert.equal(state, 'pending')
    await stage.owner.collaboration.checkpoint.resolve({ checkpoint_id, action: 'reject', comment: 'no' })
    assert.equal((await get(id)).status.state, 'TASK_STATE_REJECTED')
    const late = await rpc('SendMessage', message('m-late', { taskId: id }))
    assert.equal(late.json.error.code, -32_004)
  })

  it('a cancelled task is CANCELED once', async () => {
    const { id } = await taskOf(started('m-cancel-input-required'))
    assert.equal((await rpc('CancelTask', { id })).json.result.status.state, 'TASK_STATE_CANCELED')
    assert.equal((await rpc('CancelTask', { id })).json.error.code, -32_002)
  })

  it('a message that waits and one that streams end with the task', async () => {
    rest = approveAll(stage)
    const done = await taskOf(message('m-wait'))
    assert.equal(done.status.state, 'TASK_STATE_COMPLETED')
    const { text, type } = await ask('/message:stream', message('m-stream'))
    assert.equal(type, 'text/event-stream')
    const [first, ...more] = events(text)
    assert.equal(first.task.status.state, 'TASK_STATE_SUBMITTED')
    assert.equal(more.filter(({ artifactUpdate }) => artifactUpdate).length, 1)
    assert.equal(more.at(-1).statusUpdate.status.state, 'TASK_STATE_COMPLETED')
    const over = await rpc('SubscribeToTask', { id: first.task.id })
    assert.equal(over.json.error.code, -32_004)
    rest()
  })

  it('parts are text, data and files by url; other bytes are refused by their type', async () => {
    const parts = [{ text: 'Sum up' }, { data: { a: [1] } }, { url: 'https://example.com/a.pdf', filename: 'a.pdf' }]
    const { id } = await taskOf(started('m-parts-input-required', { parts }))
    const { task } = await stage.owner.collaboration.task.get({ task_id: id })
    assert.equal(task.spec.goal, 'Sum up\n\n{"a":[1]}')
    assert.deepEqual(task.spec.inputs, [{ kind: 'resource', id: 'a.pdf', uri: 'https://example.com/a.pdf' }])
    const raw = await rpc('SendMessage', message('m-raw', { parts: [{ raw: 'AAAA', mediaType: 'image/png' }] }))
    assert.equal(raw.json.error.code, -32_005)
  })
})

describe('an agent as the caller', () => {
  it('work of an agent is a run without a task, which no other agent finds', async () => {
    const { id } = await taskOf(message('m-agent'), { as: other.key })
    assert.match(id, /^run_/)
    const seen = await get(id, { as: other.key })
    assert.deepEqual([seen.status.state, seen.artifacts[0].parts[0].data], ['TASK_STATE_COMPLETED', { text: 'Hello from TCK' }])
    const third = await stage.agent('third')
    for (const as of [third.key, key]) assert.equal((await rpc('GetTask', { id }, { as })).json.error.code, -32_001)
    const { json } = await rpc('ListTasks', {}, { as: other.key })
    assert.deepEqual([json.result.tasks.map((one: any) => one.id), json.result.totalSize], [[id], 1])
  })
})

describe('tasks', () => {
  it('a list is of the caller, newest change first, in pages', async () => {
    const ids: string[] = []
    for (const name of ['a', 'b', 'c']) ids.push((await taskOf(started(`m-list-input-required-${name}`, { contextId: 'ctx-list' }))).id)
    for (const id of ids) await inState(id, 'INPUT_REQUIRED')
    const first = (await rpc('ListTasks', { contextId: 'ctx-list', pageSize: 2 })).json.result
    const second = (await rpc('ListTasks', { contextId: 'ctx-list', pageSize: 2, pageToken: first.nextPageToken })).json.result
    const all = [...first.tasks, ...second.tasks]
    assert.deepEqual([first.tasks.length, first.totalSize, second.tasks.length, second.nextPageToken], [2, 3, 1, ''])
    assert.deepEqual(new Set(all.map(({ id }) => id)), new Set(ids))
    const times = all.map(({ status }) => status.timestamp)
    assert.deepEqual(
      times,
      times.toSorted((a: string, b: string) => b.localeCompare(a)),
    )
    assert.equal((await ask('/tasks?contextId=ctx-list&status=TASK_STATE_COMPLETED')).json.totalSize, 0)
  })

  it('a task of another person is not found, though its agent and an owner of its project read it elsewhere', async () => {
    await stage.system('identity/user.add', { id: 'user_member', name: 'Member' })
    const { key: member } = await stage.system('identity/key.issue', { subject: 'user_member' })
    const { id } = await taskOf(started('m-member-input-required'), { as: member })
    assert.equal((await get(id, { as: member })).id, id)
    assert.equal((await stage.owner.collaboration.task.get({ task_id: id })).task.id, id)
    for (const as of [key, agent.key])
      for (const method of ['GetTask', 'CancelTask', 'SubscribeToTask'])
        assert.equal((await rpc(method, { id }, { as })).json.error.code, -32_001, method)
    assert.equal((await rpc('SendMessage', message('m-foreign', { taskId: id }))).json.error.code, -32_001)
  })

  it('a task of another agent, of another door, or without an agent is not found', async () => {
    const plain = await stage.assign(other)
    for (const id of [plain, 'task_none', 'run_none', 'x']) {
      const { json } = await rpc('GetTask', { id })
      assert.deepEqual([json.error.code, json.error.data[0].reason], [-32_001, 'TASK_NOT_FOUND'], id)
      assert.equal((await ask(`/tasks/${id}`)).status, 404)
      assert.equal((await rpc('SendMessage', message(`m-to-${id}`, { taskId: id }))).json.error.code, -32_001)
    }
  })
})

describe('bad input', () => {
  it('a bad request gets the error of its kind, and nothing changes', async () => {
    const before = await count()
    const { id } = (await stage.owner.collaboration.task.list({ type: 'a2a', principal: 'user_owner', limit: 1 })).items[0]!
    const bad: readonly [string, Promise<Answer>, number][] = [
      ['no JSON', ask('', '{'), -32_700],
      ['a repeated name', ask('', '{"jsonrpc":"2.0","id":1,"id":2,"method":"GetTask"}'), -32_700],
      ['a batch', ask('', [{ jsonrpc: '2.0', id: 1, method: 'GetTask' }]), -32_600],
      ['no version of JSON-RPC', ask('', { id: 1, method: 'GetTask' }), -32_600],
      ['no id', ask('', { jsonrpc: '2.0', method: 'GetTask' }), -32_600],
      ['an unknown method', rpc('message/send', {}), -32_601],
      ['params as a list', rpc('GetTask', []), -32_602],
      ['no message', rpc('SendMessage', {}), -32_602],
      ['no parts', rpc('SendMessage', message('m', { parts: [] })), -32_602],
      ['a part with two contents', rpc('SendMessage', message('m', { parts: [{ text: 'a', url: 'b' }] })), -32_602],
      ['an empty goal', rpc('SendMessage', message('m', { parts: [{ text: ' ' }] })), -32_602],
      ['a role of the agent', rpc('SendMessage', message('m', { role: 'ROLE_AGENT' })), -32_602],
      ['a foreign context', rpc('SendMessage', message('m', { taskId: id, contextId: 'other' })), -32_602],
      ['a foreign tenant', rpc('SendMessage', { ...message('m'), tenant: 'project_x' }), -32_051],
      ['a negative history', rpc('GetTask', { id, historyLength: -1 }), -32_602],
      ['a page of none', rpc('ListTasks', { pageSize: 0 }), -32_602],
      ['a forged page', rpc('ListTasks', { pageToken: 'zzz' }), -32_602],
      ['a config without an address', rpc('CreateTaskPushNotificationConfig', { taskId: id }), -32_602],
      ['a config without a task', rpc('CreateTaskPushNotificationConfig', { url: 'https://example.com' }), -32_602],
      ...[
        'http://127.0.0.1/hook',
        'https://10.0.0.1/hook',
        'https://localhost/x',
        'https://a:b@example.com/',
        'ftp://example.com/',
        'x',
      ].flatMap((url): [string, Promise<Answer>, number][] => [
        [url, rpc('CreateTaskPushNotificationConfig', { taskId: id, url }), -32_602],
        [
          `a message with ${url}`,
          rpc('SendMessage', { ...message(`m ${url}`), configuration: { taskPushNotificationConfig: { url } } }),
          -32_602,
        ],
      ]),
      ...[
        { token: 'a\r\nb' },
        { id: 'a/b' },
        { authentication: { scheme: 'Bearer x' } },
        { authentication: { scheme: 'Bearer', credentials: 'a\nb' } },
      ].map((more): [string, Promise<Answer>, number] => [
        JSON.stringify(more),
        rpc('CreateTaskPushNotificationConfig', { taskId: id, url: 'https://example.com/', ...more }),
        -32_602,
      ]),
      ['a config of no task', rpc('CreateTaskPushNotificationConfig', { taskId: 'task_none', url: 'https://example.com/' }), -32_001],
      ['an unknown config', rpc('GetTaskPushNotificationConfig', { taskId: id, id: 'none' }), -32_001],
      ['an extended card', rpc('GetExtendedAgentCard', {}), -32_007],
      ['another version', rpc('GetTask', { id }, { headers: { 'a2a-version': '0.5' } }), -32_009],
      ['another type', rpc('GetTask', { id }, { headers: { 'content-type': 'text/plain' } }), -32_005],
      ['no key', rpc('GetTask', { id }, { as: '' }), -32_050],
      ['a wrong key', rpc('GetTask', { id }, { as: 'cs_nonsense' }), -32_050],
      ['a foreign page', rpc('GetTask', { id }, { headers: { origin: 'https://evil.example' } }), -32_051],
    ]
    for (const [name, answer, code] of bad) {
      const { json, text } = await answer
      assert.equal(json?.error?.code, code, `${name}: ${text}`)
      assert.equal(json.error.data[0].domain, 'a2a-protocol.org', name)
    }
    assert.equal(await count(), before)
  })

  it('HTTP+JSON says the same as google.rpc.Status', async () => {
    const { status, type, json } = await ask('/tasks/task_none')
    assert.deepEqual([status, type, json.error.status, json.error.code], [404, 'application/a2a+json', 'NOT_FOUND', 404])
    assert.equal((await ask('/nothing')).status, 404)
    assert.equal((await ask('/tasks/x:cancel')).json.error.details[0].reason, 'METHOD_NOT_FOUND')
    assert.equal((await ask(`/message:send`, 'x'.repeat(300_000))).json.error.details[0].reason, 'INVALID_REQUEST')
  })

  it('a person who shares no project with the agent is refused', async () => {
    await stage.system('identity/user.add', { id: 'user_guest', name: 'Guest' })
    await stage.system('identity/project.leave', { project_id: 'project_default', subject: 'user_guest' })
    const { key: guest } = await stage.system('identity/key.issue', { subject: 'user_guest' })
    const { status, json } = await rpc('SendMessage', started('m-guest'), { as: guest })
    assert.deepEqual([status, json.error.code], [403, -32_051])
  })
})

describe('a restart', () => {
  it('the same message after a restart is the same task', async () => {
    const sent = started('m-restart-input-required')
    const { id } = await taskOf(sent)
    await serving.stop()
    await stage.restart()
    serving = serve(agent.id, () => undefined, { url: stage.server.url, key: agent.key, log: () => undefined })
    assert.equal((await taskOf(sent)).id, id)
  })
})
