// Attacks and traps at the gate, with a real server, real clients and a real program. Each test counts the runs that the program wrote down.
import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import type { GatePort } from '../../src/gate/port.ts'
import { callTool, openGateWorld, pause, textOf, until, type Answer, type GateWorld } from './gate-world.ts'

const decisionOf = ({ _meta }: Answer): unknown => _meta?.['countersign/decision']
/** The gate's side of the wire dies at a step: it never continues. */
const dead = (): Promise<never> => new Promise(() => undefined)

async function withClient<T>(
  world: GateWorld,
  options: Parameters<GateWorld['connect']>[2],
  work: (client: Awaited<ReturnType<GateWorld['connect']>>) => Promise<T>,
): Promise<T> {
  const connected = await world.connect('stdio', 'legacy', options)
  try {
    return await work(connected)
  } finally {
    await connected.close()
  }
}

test('A gate that dies between any two steps lets an approval run at most once, and the next call is asked again', async (t) => {
  const world = await openGateWorld(t)
  const steps = ['propose', 'begin', 'conclude'] as const
  for (const [i, step] of steps.entries())
    for (const when of ['before', 'after'] as const) {
      const before = world.runs().length
      const args = { step: `${when} ${step}`, i }
      const dying = (port: GatePort): GatePort => ({
        ...port,
        [step]: async (...of: unknown[]) => {
          if (when === 'after') await (port[step] as (...all: unknown[]) => Promise<unknown>)(...of)
          return dead()
        },
      })
      const first = await world.connect('stdio', 'legacy', { port: dying })
      const lost = callTool(first.client, 'echo', args).catch(() => null)
      if (step !== 'propose') await world.answer('approved')
      if (step === 'propose') await pause(when === 'after' ? 200 : 20)
      else if (step === 'begin' && when === 'after') await until(async () => (await world.calls()).at(-1)?.state === 'begun')
      else if (step === 'conclude') await until(() => world.runs().length === before + 1)
      else await pause(200)
      void first.close()
      await lost
      const ran = world.runs().length - before
      assert.ok(ran <= 1)
      const isSpent = step === 'conclude' || (step === 'begin' && when === 'after')
      await withClient(world, { holdMs: 500 }, async ({ client }) => {
        const again = await callTool(client, 'echo', args)
        // A spent approval is asked for again; an unspent one is collected by the same call.
        if (isSpent || step === 'propose') assert.equal(again._meta?.['countersign/state'], 'waiting', `${when} ${step}`)
        else assert.equal(textOf(again), `echo ${JSON.stringify(args)}`)
      })
      assert.ok(world.runs().length - before <= 1, `${when} ${step}: one approval, at most one run`)
      if (isSpent || step === 'propose') await world.answer('rejected')
    }
})

test('Denied, rejected, expired, cancelled and unreachable are five texts and five decisions, and the next call works', async (t) => {
  const world = await openGateWorld(t)
  await world.policy({
    default: 'ask',
    rules: [
      { id: 'no', tool: 'files/slow', then: 'deny', reason: 'too slow', instead: 'use echo' },
      { id: 'soon', tool: 'files/fail', then: 'ask', expires: 'PT1S' },
    ],
  })
  let isDown = false
  const port = (of: GatePort): GatePort => ({
    ...of,
    propose: (...all) => (isDown ? Promise.reject(new Error('connect ECONNREFUSED')) : of.propose(...all)),
  })
  await withClient(world, { port }, async ({ client }) => {
    const denied = await callTool(client, 'slow')
    const rejecting = callTool(client, 'echo', { a: 1 })
    await world.answer('rejected', 'not today')
    const rejected = await rejecting
    const expired = await callTool(client, 'fail')
    const cancelling = callTool(client, 'echo', { a: 2 })
    const open = await until(async () => (await world.calls()).find(({ state }) => state === 'waiting'))
    await world.call(world.keys.alice, 'gate/call.cancel', { call_id: open.call_id })
    const cancelled = await cancelling
    isDown = true
    const unreachable = await callTool(client, 'echo', { a: 3 })
    isDown = false
    const all = [denied, rejected, expired, cancelled, unreachable]
    assert.deepEqual(all.map(decisionOf), ['denied', 'rejected', 'expired', 'cancelled', 'unreachable'])
    assert.equal(new Set(all.map(textOf)).size, 5)
    assert.match(textOf(denied), /Rule: no\.[^]*too slow[^]*Instead: use echo/)
    assert.match(textOf(rejected), /not today/)
    for (const answer of all) assert.deepEqual([answer.isError, answer.structuredContent], [true, undefined])
    assert.equal(world.runs().length, 0)
    const next = callTool(client, 'echo', { a: 4 })
    await world.answer('approved')
    assert.equal((await next).isError, undefined)
  })
  assert.equal(world.runs().length, 1)
})

test('Answers to several calls never cross, and an approval is for these arguments, this agent and once', async (t) => {
  const world = await openGateWorld(t)
  await withClient(world, {}, async (one) => {
    await withClient(world, {}, async (two) => {
      const calls = [callTool(one.client, 'echo', { n: 1 }), callTool(one.client, 'echo', { n: 2 }), callTool(two.client, 'echo', { n: 2 })]
      const waiting = await until(async () => {
        const found = (await world.calls()).filter(({ state }) => state === 'waiting')
        return found.length === 2 ? found : null
      })
      await pause(100)
      assert.deepEqual((await world.calls()).length, 2, 'equal calls share one question')
      const asked = await Promise.all(
        waiting.map(async ({ request_id }) => (await world.call(world.keys.alice, 'execution/request.get', { request_id })).request),
      )
      const second = asked.find(({ payload }) => payload.details.arguments.n === 2)
      const first = asked.find(({ payload }) => payload.details.arguments.n === 1)
      await world.call(world.keys.alice, 'execution/request.resolve', { request_id: second.id, result: 'approved' })
      await world.call(world.keys.alice, 'execution/request.resolve', { request_id: first.id, result: 'rejected' })
      assert.equal(decisionOf(await calls[0]!), 'rejected')
      const shared = await Promise.all([calls[1]!, calls[2]!].map((call) => Promise.race([call, pause(300).then(() => null)])))
      assert.equal(shared.filter((answer) => answer !== null && answer.isError === undefined).length, 1, 'one approval, one run')
      for (const [i, answer] of shared.entries()) if (answer === null) void calls[i + 1]!.catch(() => undefined)
      assert.deepEqual(
        world.runs().map(({ args }) => args),
        [{ n: 2 }],
      )
    })
  })
})

test('A tool that changes between approval and run does not run, and neither does an allowed one until it is trusted', async (t) => {
  const world = await openGateWorld(t)
  const marker = `${world.file}.changed`
  t.after(() => rmSync(marker, { force: true }))
  await withClient(world, { holdMs: 500 }, async ({ client }) => {
    await client.listTools()
    assert.equal((await callTool(client, 'echo', { a: 1 }))._meta?.['countersign/state'], 'waiting')
    await world.answer('approved')
    writeFileSync(marker, '')
    // The list is read again: the call is another one now, and its approval is void.
    const { tools } = await client.listTools()
    assert.equal(tools.find(({ name }) => name === 'echo')!.description, 'echo', 'the agent is shown the trusted description')
    const changed = await callTool(client, 'echo', { a: 1 })
    assert.equal(changed._meta?.['countersign/state'], 'waiting')
    await world.policy({ default: 'allow' })
    const allowed = await callTool(client, 'echo', { a: 2 })
    assert.equal(allowed._meta?.['countersign/state'], 'waiting', 'not even by an allow')
    assert.equal(world.runs().length, 0)
    await world.call(world.keys.owner, 'gate/tool.trust', { server: 'files', tool: 'echo' })
    assert.equal(textOf(await callTool(client, 'echo', { a: 3 })), 'echo {"a":3}')
  })
  assert.equal(world.runs().length, 1)
})

test('Hostile messages, names, sizes and states reach no tool', async (t) => {
  const world = await openGateWorld(t)
  await world.policy({ default: 'allow' })
  const modern = await world.connect('stdio', 'modern')
  const { client, lines } = await world.connect('stdio', 'legacy')
  const say = (line: string): void => void lines!.toGate.write(`${line}\n`)
  const deep = `${'['.repeat(100)}${']'.repeat(100)}`
  say('{"jsonrpc":"2.0","id":901,"method":"tools/call","params":{"name":"echo","name":"slow","arguments":{}}}')
  say('{"jsonrpc":"2.0","id":902,"method":"tools/call","params":{"name":"echo","arguments":{"a":1,"a":2}}}')
  say(`{"jsonrpc":"2.0","id":903,"method":"tools/call","params":{"name":"echo","arguments":{"a":${deep}}}}`)
  say('no JSON')
  say('{"jsonrpc":"2.0","id":99999,"result":{}}')
  say(`"${'x'.repeat(11 * 1024 * 1024)}"`)
  const large = await callTool(client, 'echo', { text: 'x'.repeat(2_000_000) })
  assert.equal(decisionOf(large), 'denied')
  const above = await callTool(client, 'echo', { text: 'x'.repeat(257 * 1024) })
  assert.equal(decisionOf(above), 'denied')
  for (const name of ['twice', 'есho', 'countersign_awaìt', 'absent', '../echo', 'echo\u200b'])
    assert.equal(decisionOf(await callTool(client, name)), 'denied', name)
  await assert.rejects(callTool(client, 'countersign_await', { call_id: 7 }), /call_id must be a text/)
  assert.equal(decisionOf(await callTool(client, 'countersign_await', { call_id: 'call_unknown' })), 'refused')
  for (const requestState of ['e30.AAAA', 'x', ''])
    await assert.rejects(modern.client.request({ method: 'tools/call', params: { name: 'echo', arguments: {}, requestState } }, anything))
  assert.equal(world.runs().length, 0)
  const refusals = lines!.raw.map((line) => JSON.parse(line) as { id: unknown; error?: { code: number } }).filter(({ error }) => error)
  assert.deepEqual(
    refusals.slice(0, 5).map(({ id, error }) => [id, error!.code]),
    [
      [901, -32_600],
      [902, -32_600],
      [903, -32_600],
      [null, -32_700],
      [null, -32_700],
    ],
  )
  await client.close()
  await modern.close()
})
const anything = { '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) } } as const

test('The question of a running call cannot be answered by another call, and then by its own', async (t) => {
  const world = await openGateWorld(t)
  await world.policy({ default: 'allow' })
  const { client, close } = await world.connect('http', 'modern')
  const call = (params: object): Promise<any> =>
    client.request({ method: 'tools/call', params: { ...params } }, anything, { allowInputRequired: true })
  const own = { name: 'ask', arguments: { a: 1 } }
  const { requestState } = await call(own)
  const answered = { requestState, inputResponses: { who: { action: 'accept', content: { one: 'this' } } } }
  for (const other of [
    { name: 'echo', arguments: { a: 1 } },
    { name: 'ask', arguments: { a: 2 } },
  ])
    await assert.rejects(call({ ...other, ...answered }), { code: -32_602 })
  assert.match((await call({ ...own, ...answered })).content[0].text, /^answered .*this/)
  await assert.rejects(call({ ...own, ...answered }), { code: -32_602 })
  assert.equal(world.runs().length, 1)
  await close()
})

test('An upstream that prints nonsense, floods progress, crashes or answers too much harms nothing else', async (t) => {
  const world = await openGateWorld(t)
  await world.policy({ default: 'allow' })
  await withClient(world, {}, async ({ client }) => {
    assert.equal(textOf(await callTool(client, 'nonsense')), 'nonsense {}')
    let heard = 0
    assert.equal(textOf(await callTool(client, 'flood', {}, { onprogress: () => heard++ })), 'flood {}')
    assert.ok(heard <= 5_000)
    assert.equal(decisionOf(await callTool(client, 'crash')), 'unknown')
    assert.match(textOf(await callTool(client, 'big')), /at most 1048576 .* SHA-256/)
    assert.equal(textOf(await callTool(client, 'echo', { a: 1 })), 'echo {"a":1}')
    await until(async () => (await world.calls()).every(({ state }) => state === 'ended'))
  })
  assert.deepEqual(
    (await world.calls()).map(({ tool, outcome }) => [tool, outcome]),
    [
      ['nonsense', 'succeeded'],
      ['flood', 'succeeded'],
      ['crash', 'unknown'],
      ['big', 'succeeded'],
      ['echo', 'succeeded'],
    ],
  )
})

test('Redacted arguments reach the tool and nothing else', async (t) => {
  const world = await openGateWorld(t)
  await withClient(world, { redact: ['/token', '/deep/secret'] }, async ({ client }) => {
    const args = { token: 'tok-hush-1', deep: { secret: 'tok-hush-2', open: 1 } }
    const pending = callTool(client, 'echo', args)
    const { request_id } = await until(async () => (await world.calls()).find(({ state }) => state === 'waiting'))
    const { request } = await world.call(world.keys.alice, 'execution/request.get', { request_id })
    assert.deepEqual(request.payload.details.arguments, { token: '[redacted]', deep: { secret: '[redacted]', open: 1 } })
    await world.answer('approved')
    await pending
    assert.deepEqual(world.runs()[0]!.args, args)
    const { items } = await world.call(world.keys.owner, 'collaboration/audit.query', { limit: 200 })
    assert.ok(!JSON.stringify(items).includes('tok-hush'), 'the record has none of them')
  })
})

test('A task is the answer only to a request that declares tasks, and runs when its client asks for it', async (t) => {
  const world = await openGateWorld(t)
  const { client, close } = await world.connect('stdio', 'modern', { holdMs: 300 })
  const declared = { 'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/tasks': {} } } }
  const plain = await callTool(client, 'echo', { a: 1 })
  assert.deepEqual([plain.isError, plain._meta?.['countersign/state'], plain.structuredContent], [true, 'waiting', undefined])
  const { lines } = await world.connect('stdio', 'modern', {})
  const envelope = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
    ...declared,
  }
  const ask = async (id: string, method: string, params: object): Promise<any> => {
    lines!.toGate.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params: { ...params, _meta: envelope } })}\n`)
    const line = await until(() => lines!.raw.find((text) => (JSON.parse(text) as { id: unknown }).id === id))
    return JSON.parse(line).result
  }
  const task = await ask('t1', 'tools/call', { name: 'echo', arguments: { a: 2 } })
  assert.deepEqual([task.resultType, task.status, task.content], ['task', 'working', undefined])
  assert.equal((await ask('t2', 'tasks/get', { taskId: task.taskId })).status, 'working')
  const { request_id } = await world.call(world.keys.devin, 'gate/call.get', { call_id: task.taskId })
  await world.call(world.keys.alice, 'execution/request.resolve', { request_id, result: 'approved' })
  assert.equal(world.runs().length, 0, 'approved, and not collected yet')
  let n = 3
  const done = await until(async () => {
    const got = await ask(`t${n++}`, 'tasks/get', { taskId: task.taskId })
    return got.status === 'completed' ? got : null
  })
  assert.equal(done.result.content[0].text, 'echo {"a":2}')
  assert.equal(world.runs().length, 1)
  lines!.toGate.end()
  await close()
})
