// Traps of approvals that users of other gates ran into, each with the runs that the tool itself has written down.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { callTool, eras, openGateWorld, textOf, toolServer, until, type Answer, type GateWorld } from './gate-world.ts'

const metaOf = ({ _meta = {} }: Answer, name: string): unknown => _meta[`countersign/${name}`]
const waitingCall = (world: GateWorld): Promise<any> =>
  until(async () => (await world.calls()).findLast(({ state }) => state === 'waiting'))
const resolve = (world: GateWorld, { request_id }: any, result: string): Promise<any> =>
  world.call(world.keys.alice, 'execution/request.resolve', { request_id, result })

// Most of the time they wait.
describe('a trap', { concurrency: 4 }, () => {
  test('"Not run yet" is an error of every revision that no program takes for a result, also of a tool with an output schema', async (t) => {
    const world = await openGateWorld(t)
    for (const era of eras) {
      const upstream = toolServer(world.file, 'shaped')
      const { client, close } = await world.connect('stdio', era, { holdMs: 200, upstream })
      assert.ok((await client.listTools()).tools.find(({ name }) => name === 'echo')!.outputSchema)
      const answer = await callTool(client, 'echo', { era })
      assert.deepEqual([answer.isError, 'structuredContent' in answer, answer.content.length], [true, false, 1])
      assert.deepEqual([metaOf(answer, 'state'), metaOf(answer, 'decision')], ['waiting', 'ask'])
      const { call_id, request_id } = await waitingCall(world)
      assert.equal(metaOf(answer, 'call_id'), call_id)
      assert.match(textOf(answer), new RegExp(`^NOT RUN YET: .*${request_id}`))
      await close()
    }
    assert.deepEqual(world.runs(), [])
  })

  test('After a denial, a rejection and an expiry the next tool call and the next prompt work, for clients of both families', async (t) => {
    const world = await openGateWorld(t)
    await world.policy({
      default: 'ask',
      rules: [
        { id: 'no', tool: 'files/slow', then: 'deny' },
        { id: 'images', tool: 'files/image', then: 'allow' },
        { id: 'soon', tool: 'files/fail', then: 'ask', expires: 'PT1S' },
      ],
    })
    for (const era of eras) {
      const { client, close } = await world.connect('http', era)
      const next = async (): Promise<void> => {
        assert.equal((await callTool(client, 'image')).isError, undefined)
        assert.equal((await client.getPrompt({ name: 'hello' })).messages.length, 1)
      }
      assert.equal(metaOf(await callTool(client, 'slow'), 'decision'), 'denied')
      await next()
      const rejecting = callTool(client, 'echo', { era })
      await world.answer('rejected')
      assert.equal(metaOf(await rejecting, 'decision'), 'rejected')
      await next()
      assert.equal(metaOf(await callTool(client, 'fail'), 'decision'), 'expired')
      await next()
      await close()
    }
    assert.deepEqual(
      world.runs().map(({ name }) => name),
      Array.from({ length: 6 }, () => 'image'),
    )
  })

  test('Equal calls of two agents with equal ids on the wire are two questions, and each answer is for its own agent', async (t) => {
    const world = await openGateWorld(t)
    await world.call(world.keys.owner, 'identity/agent.add', { id: 'agent_coder', name: 'Coder', owner: 'user_alice' })
    const { key } = await world.call(world.keys.owner, 'identity/key.issue', { subject: 'agent_coder' })
    const one = await world.connect('stdio', 'legacy')
    const other = await world.connect('stdio', 'legacy', { key })
    const calls = [callTool(one.client, 'echo', { n: 1 }), callTool(other.client, 'echo', { n: 1 })]
    const asked = await until(async () => {
      const { items } = await world.call(world.keys.alice, 'gate/call.list', { state: 'waiting' })
      return items.length === 2 ? (items as any[]) : null
    })
    const of = (agent: string): any => asked.find(({ agent_id }) => agent_id === agent)
    assert.notEqual(of('agent_devin').digest, of('agent_coder').digest)
    await resolve(world, of('agent_coder'), 'approved')
    assert.equal(textOf(await calls[1]!), 'echo {"n":1}')
    assert.equal((await world.call(world.keys.devin, 'gate/call.get', { call_id: of('agent_devin').call_id })).state, 'waiting')
    await resolve(world, of('agent_devin'), 'rejected')
    assert.equal(metaOf(await calls[0]!, 'decision'), 'rejected')
    assert.equal(world.runs().length, 1)
    await one.close()
    await other.close()
  })

  test('A revoked key lets nothing run, and the answer says so', async (t) => {
    const world = await openGateWorld(t)
    await world.policy({ default: 'allow' })
    const { key, issued } = await world.call(world.keys.owner, 'identity/key.issue', { subject: 'agent_devin' })
    const { client, close } = await world.connect('stdio', 'legacy', { key })
    assert.equal((await callTool(client, 'echo', { a: 1 })).isError, undefined)
    await world.call(world.keys.owner, 'identity/key.revoke', { key_id: issued.id })
    const refused = await callTool(client, 'echo', { a: 2 })
    assert.deepEqual([refused.isError, metaOf(refused, 'decision')], [true, 'refused'])
    assert.match(textOf(refused), /^NOT RUN: Countersign refuses/)
    assert.equal(world.runs().length, 1)
    await close()
  })

  test('The task of a call is working until it is decided, and no other end looks like a rejection', async (t) => {
    const world = await openGateWorld(t)
    await world.policy({ default: 'ask', rules: [{ id: 'soon', tool: 'files/fail', then: 'ask', expires: 'PT1S' }] })
    const { lines, close } = await world.connect('stdio', 'modern')
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/tasks': {} } },
    }
    let id = 0
    const ask = async (method: string, params: object): Promise<any> => {
      const own = `task ${++id}`
      lines!.toGate.write(`${JSON.stringify({ jsonrpc: '2.0', id: own, method, params: { ...params, _meta } })}\n`)
      return JSON.parse(await until(() => lines!.raw.find((text) => (JSON.parse(text) as { id: unknown }).id === own))).result
    }
    const end = async (taskId: string): Promise<any> =>
      until(async () => {
        const task = await ask('tasks/get', { taskId })
        return task.status === 'working' ? null : task
      })
    const ends: readonly (readonly [tool: string, end: (call: any) => Promise<unknown>, status: string, decision: string | undefined])[] = [
      ['echo', (call) => resolve(world, call, 'rejected'), 'completed', 'rejected'],
      ['fail', async () => undefined, 'completed', 'expired'],
      ['slow', ({ call_id }) => ask('tasks/cancel', { taskId: call_id }), 'cancelled', undefined],
    ]
    for (const [name, decide, status, decision] of ends) {
      const { taskId } = await ask('tools/call', { name, arguments: {} })
      assert.equal((await ask('tasks/get', { taskId })).status, 'working')
      await decide(await world.call(world.keys.devin, 'gate/call.get', { call_id: taskId }))
      const ended = await end(taskId)
      assert.deepEqual([ended.status, ended.result?._meta['countersign/decision'], ended.result?.isError ?? true], [status, decision, true])
    }
    assert.deepEqual(world.runs(), [])
    lines!.toGate.end()
    await close()
  })

  test('A yes after the time of the client is collected by the same call, once', async (t) => {
    const world = await openGateWorld(t)
    for (const era of eras) {
      const { client, close } = await world.connect('http', era)
      await assert.rejects(callTool(client, 'echo', { era }, { timeout: 500 }))
      const left = await until(async () => (await world.calls()).find((call) => call.state === 'waiting' && call.unattended))
      await resolve(world, left, 'approved')
      assert.equal(textOf(await callTool(client, 'echo', { era })), `echo {"era":"${era}"}`)
      const next = callTool(client, 'echo', { era }).catch(() => null)
      await resolve(world, await waitingCall(world), 'rejected')
      assert.equal(metaOf((await next)!, 'decision'), 'rejected')
      await close()
    }
    assert.equal(world.runs().length, 2)
  })

  test('An approval does not survive a policy that denies the call, and is not for other arguments', async (t) => {
    const world = await openGateWorld(t)
    const { client, close } = await world.connect('stdio', 'legacy', { holdMs: 300 })
    assert.equal(metaOf(await callTool(client, 'echo', { a: 1 }), 'state'), 'waiting')
    await world.answer('approved')
    assert.equal(metaOf(await callTool(client, 'echo', { a: 2 }), 'state'), 'waiting')
    await world.policy({ default: 'ask', rules: [{ id: 'stop', tool: 'files/*', then: 'deny' }] })
    assert.equal(metaOf(await callTool(client, 'echo', { a: 1 }), 'decision'), 'denied')
    await world.policy({ default: 'ask' })
    assert.equal(metaOf(await callTool(client, 'echo', { a: 1 }), 'state'), 'waiting', 'the approval has ended')
    assert.deepEqual(world.runs(), [])
    await close()
  })

  test('The state of a round is for its own agent and its own arguments, and ends with the run', async (t) => {
    const world = await openGateWorld(t)
    await world.call(world.keys.owner, 'identity/agent.add', { id: 'agent_coder', name: 'Coder', owner: 'user_alice' })
    const { key } = await world.call(world.keys.owner, 'identity/key.issue', { subject: 'agent_coder' })
    // The client with the shortest rounds.
    const own = await world.connect('http', 'modern', { name: 'mcp' })
    const other = await world.connect('http', 'modern', { name: 'mcp', key })
    const anything = { '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) } } as const
    const call = ({ client }: typeof own, params: object): Promise<any> =>
      client.request({ method: 'tools/call', params: { name: 'echo', arguments: { a: 1 }, ...params } }, anything, {
        allowInputRequired: true,
      })
    const { resultType, requestState } = await call(own, {})
    assert.equal(resultType, 'input_required')
    for (const foreign of [
      call(other, { requestState }),
      call(own, { requestState, arguments: { a: 2 } }),
      call(own, { requestState, name: 'slow' }),
    ])
      await assert.rejects(foreign, { code: -32_602 })
    await world.answer('approved')
    assert.equal(textOf(await call(own, { requestState })), 'echo {"a":1}')
    await assert.rejects(call(own, { requestState }), { code: -32_602 })
    assert.equal(world.runs().length, 1)
    await own.close()
    await other.close()
  })

  test('Arguments travel as parsed: two spellings of one call are one question, and the tool gets the value', async (t) => {
    const world = await openGateWorld(t)
    const { client, lines, close } = await world.connect('stdio', 'legacy', { holdMs: 300 })
    for (const [i, args] of ['{"n":1e2,"text":"\\u0061"}', '{ "text": "a", "n": 100.0 }'].entries())
      lines!.toGate.write(`{"jsonrpc":"2.0","id":"raw ${i}","method":"tools/call","params":{"name":"echo","arguments":${args}}}\n`)
    await until(() => lines!.raw.filter((line) => line.includes('NOT RUN YET')).length === 2)
    assert.equal((await world.calls()).length, 1)
    await world.answer('approved')
    assert.equal((await callTool(client, 'echo', { n: 100, text: 'a' })).isError, undefined)
    assert.deepEqual(
      world.runs().map(({ args }) => args),
      [{ n: 100, text: 'a' }],
    )
    await close()
  })
})
