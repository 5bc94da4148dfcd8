// Our own MCP server with the official client of both families of revisions, over stdio lines and over HTTP.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { callTool, eras, openMcpWorld, until, ways, type Answer } from './mcp-world.ts'

/** Operations that decide. A tool of any of them would let an agent decide, or let a person's key decide through an agent's client. */
const DECIDING =
  /^(?:request_(?:resolve|decline|claim|assign|escalate|release)|inbox_resolve|checkpoint_(?:resolve|decline|settle)|review_|grant_(?:add|revoke)|policy_set|rule_(?:add|remove|order)|tool_trust|task_(?:create|assign|cancel|complete|takeover|amend|extend|interrupt)|key_|user_(?:add|update)|project_(?:add|join|leave)|login_|session_(?:open|close)|ticket_|secret_|substitute_(?:add|remove))/
const LISTS = new Set(['review_list', 'review_read', 'key_list', 'session_list', 'substitute_list'])

test('The tools of an agent call its operations, in both families and over both ways', async (t) => {
  const world = await openMcpWorld(t)
  const { task } = await world.call(world.keys.alice, 'collaboration/task.create', {
    spec: { goal: 'Write the report', acceptance_criteria: ['it is written'] },
  })
  const task_id: string = task.id
  await world.call(world.keys.alice, 'collaboration/task.assign', { task_id, assignee: 'agent_devin' })
  for (const way of ways)
    for (const era of eras) {
      const { client, close } = await world.connect(way, era)
      const { tools } = await client.listTools()
      const named = (name: string) => tools.find((tool) => tool.name === name)
      assert.deepEqual(named('task_get')!.annotations, { readOnlyHint: true, idempotentHint: true, openWorldHint: false })
      assert.deepEqual(named('run_complete')!.annotations, {
        readOnlyHint: false,
        destructiveHint: true,
        idempotentHint: false,
        openWorldHint: false,
      })
      assert.equal(named('capability_invoke')!.annotations!.openWorldHint, true)
      assert.ok(['task_id', 'idempotency_key'].every((field) => Object.hasOwn(named('task_start')!.inputSchema.properties!, field)))
      assert.deepEqual(
        tools.filter(({ name }) => DECIDING.test(name) && !LISTS.has(name)).map(({ name }) => name),
        [],
      )
      const answer = await callTool(client, 'task_get', { task_id })
      assert.equal(JSON.parse(answer.content[0]!.text).task.spec.goal, 'Write the report')
      const refused = await callTool(client, 'task_get', {})
      assert.deepEqual(
        [refused.isError, refused._meta!['countersign/code'], refused._meta!['countersign/field']],
        [true, 'INVALID_REQUEST', 'task_id'],
      )
      await assert.rejects(callTool(client, 'grant_add', { task_id }), { code: -32_602, message: /there is no tool "grant_add" for you/ })
      const { resources } = await client.listResources()
      assert.deepEqual(
        resources.map(({ uri }) => uri.split('/')[2]),
        ['task', 'run'].slice(0, resources.length),
      )
      const [read] = (await client.readResource({ uri: `countersign://task/${task_id}` })).contents as { text: string }[]
      assert.equal(JSON.parse(read!.text).task.id, task_id)
      for (const uri of ['countersign://task/task_01M7GMWX16CYD5TMA0423FKEE4', 'countersign://key/x', 'file:///etc/passwd'])
        await assert.rejects(client.readResource({ uri }), /not found/i)
      assert.deepEqual(
        (await client.listResourceTemplates()).resourceTemplates.map(({ name }) => name),
        ['task', 'artifact', 'run'],
      )
      assert.deepEqual(
        (await client.listPrompts()).prompts.map(({ name }) => name),
        ['hand_over', 'ask_for_approval'],
      )
      const { messages } = await client.getPrompt({ name: 'ask_for_approval', arguments: { item: 'Deploy' } })
      assert.match(JSON.stringify(messages), /ask_approve: Deploy/)
      await assert.rejects(client.getPrompt({ name: 'hand_over' }), /goal is required/)
      await close()
    }
})

test("A person's key has reading tools alone, in every family and way", async (t) => {
  const world = await openMcpWorld(t)
  for (const way of ways)
    for (const era of eras) {
      const { client, close } = await world.connect(way, era, { key: world.keys.alice })
      const { tools } = await client.listTools()
      assert.ok(tools.length > 20 && tools.every(({ annotations }) => annotations?.readOnlyHint === true))
      for (const name of ['ask_approve', 'request_create', 'request_resolve', 'task_create'])
        await assert.rejects(callTool(client, name, {}), { code: -32_602 })
      assert.equal(client.getServerCapabilities()?.prompts, undefined)
      assert.equal(JSON.parse((await callTool(client, 'me_get')).content[0]!.text).id, 'user_alice')
      await close()
    }
})

test('A question waits for its answer: yes, no, decline and withdrawal are told apart in every family and way', async (t) => {
  const world = await openMcpWorld(t)
  for (const way of ways)
    for (const era of eras) {
      const { client, close } = await world.connect(way, era)
      const seen: string[] = []
      const onprogress = ({ message }: { message?: string }): void => void seen.push(message ?? '')
      const asked = (): Promise<Answer> => callTool(client, 'ask_approve', { item: 'Deploy', details: { sha: '1f0c' } }, { onprogress })
      const decision = ({ isError = false, structuredContent, content, _meta }: Answer): unknown[] => {
        assert.equal(structuredContent, undefined)
        return [isError, _meta!['countersign/decision'], content[0]!.text.split(/[.:{]/, 1)[0]]
      }
      const yes = asked()
      await world.answer('approved')
      assert.deepEqual(decision(await yes), [false, 'approved', ''])
      assert.match(seen[0]!, /^waiting for hxp_/)
      // The yes was for one call: the same words ask again.
      const no = asked()
      await world.answer('rejected', 'not today')
      const rejected = await no
      assert.deepEqual(decision(rejected), [true, 'rejected', 'REJECTED'])
      assert.match(rejected.content[0]!.text, /Reason: not today/)
      const open = (): Promise<any> => until(async () => (await world.requests()).find(({ status }) => /pending|assigned/.test(status)))
      const declined = asked()
      await world.call(world.keys.alice, 'execution/request.decline', { request_id: (await open()).id, reason: 'ask Rita' })
      assert.deepEqual(decision(await declined), [true, 'declined', 'DECLINED'])
      const withdrawn = asked()
      await world.call(world.keys.devin, 'execution/request.cancel', { request_id: (await open()).id })
      assert.deepEqual(decision(await withdrawn), [true, 'cancelled', 'NOT ANSWERED'])
      const choice = callTool(client, 'ask_decide', { question: 'Which region?', options: ['eu', 'us'] })
      await world.answer('eu')
      assert.equal(JSON.parse((await choice).content[0]!.text).result, 'eu')
      const odd = await callTool(client, 'ask_provide', { prompt: 'The key', input_type: 'text', sensitive: true })
      assert.deepEqual([odd.isError, odd._meta!['countersign/field']], [true, 'sensitive'])
      const empty = await callTool(client, 'ask_decide', { options: ['a', 'b'] })
      assert.match(empty.content[0]!.text, /^INVALID_REQUEST: question is required/)
      await close()
    }
})

test('A cancelled wait leaves the question open, the same call finds it from another client, and one of two calls gets the answer', async (t) => {
  const world = await openMcpWorld(t)
  for (const era of eras) {
    const first = await world.connect('stdio', era)
    const question = { question: `Ship it (${era})?`, options: ['yes', 'no'] }
    const leave = new AbortController()
    const left = callTool(first.client, 'ask_decide', question, { signal: leave.signal })
    const { id } = await until(async () => (await world.requests()).find(({ payload }) => payload.question === question.question))
    leave.abort()
    await assert.rejects(left)
    await first.close()
    assert.equal((await world.call(world.keys.devin, 'execution/request.get', { request_id: id })).request.status, 'pending')
    const second = await world.connect('http', era)
    await world.call(world.keys.alice, 'execution/request.resolve', { request_id: id, result: 'yes' })
    const found = await callTool(second.client, 'ask_decide', question)
    assert.deepEqual([JSON.parse(found.content[0]!.text).result, found._meta!['countersign/request_id']], ['yes', id])
    const shown = await callTool(second.client, 'ask_await', { request_id: id, wait_seconds: 0 })
    assert.equal(JSON.parse(shown.content[0]!.text).result, 'yes')
    const both = [1, 2].map(() => callTool(second.client, 'ask_decide', question))
    const next = await world.answer('no')
    assert.notEqual(next, id)
    const decisions = (await Promise.all(both)).map(({ _meta }) => String(_meta!['countersign/decision']))
    assert.deepEqual(decisions.toSorted(), ['answered', 'collected'])
    const waiting = await world.call(world.keys.devin, 'execution/request.create', { action: 'DECIDE', payload: question })
    const pending = await callTool(second.client, 'ask_await', { request_id: waiting.request.id, wait_seconds: 0 })
    assert.deepEqual([pending.isError, pending._meta!['countersign/state']], [true, 'waiting'])
    await world.call(world.keys.devin, 'execution/request.cancel', { request_id: waiting.request.id })
    await second.close()
  }
})

test('A command with an idempotency key has one effect', async (t) => {
  const world = await openMcpWorld(t)
  const { client, close } = await world.connect('http', 'modern')
  const input = { action: 'DECIDE', payload: { question: 'Ship it?', options: ['yes', 'no'] }, idempotency_key: 'k1' }
  const [one, two] = [await callTool(client, 'request_create', input), await callTool(client, 'request_create', input)]
  assert.deepEqual(one.content, two.content)
  const wrong = await callTool(client, 'request_create', { ...input, idempotency_key: 'with space' })
  assert.equal(wrong._meta!['countersign/field'], 'idempotency_key')
  assert.equal((await world.requests()).length, 1)
  await close()
})
