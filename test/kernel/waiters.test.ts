// Calls that wait for something to answer with: over HTTP and over JSON-RPC, with a stopped clock and with a real one.
import assert from 'node:assert/strict'
import { request, type ClientRequest } from 'node:http'
import { PassThrough } from 'node:stream'
import { after, before, describe, test } from 'node:test'
import { contracts } from '#contracts/index.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { directory } from '#protocols/identity/directory.ts'
import { protocols } from '#protocols/index.ts'
import { createClient, type Client } from '#sdk/index.ts'
import { socketTransport } from '#sdk/transport/jsonrpc.ts'
import { memoryStore } from '#stores/memory.ts'
import { openStage, until, type Agent, type Stage } from '../support/as-processes/agents.ts'
import { manualClock, settled, type ManualClock } from '../support/in-process/manual-clock.ts'
import { testNotary } from '../support/in-process/notary.ts'
import { cast, seededEntropy } from '../support/in-process/world.ts'

// --- In the kernel, where time is given ----------------------------------------------------------------------------------------

type Quiet = { kernel: Kernel; clock: ManualClock; call(as: string, operation: string, input?: object, options?: object): Promise<any> }

async function quiet(): Promise<Quiet> {
  const clock = manualClock()
  const kernel = createKernel({
    store: memoryStore(),
    protocols,
    contracts,
    directory,
    now: clock.now,
    sleep: clock.sleep,
    entropy: seededEntropy(),
    notary: testNotary,
    asksPerMinute: null,
  })
  const call: Quiet['call'] = (as, operation, input = {}, options = {}) => kernel.call(operation, input, cast[as] ?? SYSTEM, options)
  await call('admin', 'identity/project.add', { id: 'project_default', name: 'Default' })
  await call('admin', 'identity/user.add', { id: 'user_alice', name: 'Alice' })
  for (const name of ['devin', 'robin']) await call('admin', 'identity/agent.add', { id: `agent_${name}`, name, owner: 'user_alice' })
  return { kernel, clock, call }
}
/** Whether it is over yet, without waiting for it. */
async function isOver(call: Promise<unknown>): Promise<boolean> {
  await settled()
  return Promise.race([call.then(() => true), Promise.resolve(false)])
}
const delegate = (on: Quiet, to = 'agent_devin') => on.call('system', 'delegation/agent.delegate', { to_agent: to })

describe('in the kernel', () => {
  test('a call that finds nothing waits, and is answered when something for it is durable', async () => {
    const on = await quiet()
    const waiting = on.call('devin', 'delegation/mailbox.take', { worker: 'one', wait: 'PT1M' })
    assert.equal(await isOver(waiting), false)
    const { run } = await delegate(on)
    const { items } = await waiting
    assert.deepEqual(
      items.map((item: any) => [item.run.id, item.attempt, item.messages.map(({ kind }: any) => kind)]),
      [[run.id, 1, ['run']]],
    )
    assert.deepEqual(on.kernel.stats(), { conflicts: 0, denials: 0, waiting: 0, woken: 1 })
  })

  test('a commit about another document wakes no waiter', async () => {
    const on = await quiet()
    const waiting = on.call('devin', 'delegation/mailbox.take', { wait: 'PT1M' })
    await settled()
    await delegate(on, 'agent_robin')
    assert.equal(await isOver(waiting), false)
    assert.deepEqual([on.kernel.stats().waiting, on.kernel.stats().woken], [1, 0])
    await delegate(on)
    assert.equal((await waiting).items.length, 1)
  })

  test('a call without a wait, or with something to take, is answered immediately', async () => {
    const on = await quiet()
    assert.deepEqual(await on.call('devin', 'delegation/mailbox.take'), { items: [] })
    await delegate(on)
    assert.equal((await on.call('devin', 'delegation/mailbox.take', { wait: 'PT1M' })).items.length, 1)
    assert.equal(on.clock.sleeps, 0)
  })

  test('at the end of its wait it is answered with nothing, and that is not remembered under its key', async () => {
    const on = await quiet()
    const take = () => on.call('devin', 'delegation/mailbox.take', { wait: 'PT10S' }, { key: 'again' })
    const waiting = take()
    await on.clock.advance(9_999)
    assert.equal(await isOver(waiting), false)
    await on.clock.advance(1)
    assert.deepEqual(await waiting, { items: [] })
    await delegate(on)
    const second = await take()
    assert.equal(second.items.length, 1)
    assert.deepEqual(await take(), second, 'an answer that was lost on the way is given again')
  })

  test('no call waits for more than a minute, regardless of its input and of clock steps', async () => {
    const on = await quiet()
    const waiting = on.call('devin', 'delegation/mailbox.take', { wait: 'PT5H' })
    await settled()
    on.clock.step(-3_600_000)
    await on.clock.advance(limits.waitMsMax)
    assert.deepEqual(await waiting, { items: [] })
    assert.ok(on.clock.longestSleepMs <= limits.waitMsMax)
    await assert.rejects(on.call('devin', 'delegation/mailbox.take', { wait: 'soon' }), { code: 'INVALID_REQUEST' })
  })

  test('the end of a lease of another process wakes who waits for its runs', async () => {
    const on = await quiet()
    await delegate(on)
    await on.call('devin', 'delegation/mailbox.take', { worker: 'one', lease: 'PT20S' })
    const waiting = on.call('devin', 'delegation/mailbox.take', { worker: 'two', wait: 'PT1M' })
    await on.clock.advance(19_000)
    assert.equal(await isOver(waiting), false)
    await on.clock.advance(1_000)
    assert.equal((await waiting).items[0].attempt, 2)
  })

  test('a message for a run that another process holds is not taken before its lease ends', async () => {
    const on = await quiet()
    const { run } = await delegate(on)
    await on.call('devin', 'delegation/mailbox.take', { worker: 'one', lease: 'PT20S' })
    const waiting = on.call('devin', 'delegation/mailbox.take', { worker: 'two', wait: 'PT1M' })
    await settled()
    await on.call('system', 'delegation/agent.steer', { run_id: run.id, text: 'Hurry.' })
    assert.equal(await isOver(waiting), false)
    await on.clock.advance(20_000)
    assert.deepEqual(
      (await waiting).items[0].messages.map(({ kind }: any) => kind),
      ['run', 'steer'],
    )
  })

  test('a released run goes to a waiting agent immediately', async () => {
    const on = await quiet()
    const { run } = await delegate(on)
    await on.call('devin', 'delegation/mailbox.take', { worker: 'one', lease: 'PT1H' })
    const waiting = on.call('devin', 'delegation/mailbox.take', { worker: 'two', wait: 'PT1M' })
    await settled()
    const stale = await on.call('devin', 'delegation/mailbox.release', { runs: [{ run_id: run.id, attempt: 7 }] })
    assert.deepEqual(stale, { released: 0 })
    assert.equal(await isOver(waiting), false)
    assert.deepEqual(await on.call('devin', 'delegation/mailbox.release', { runs: [{ run_id: run.id, attempt: 1 }] }), { released: 1 })
    assert.deepEqual(
      (await waiting).items.map(({ attempt, messages }: any) => [attempt, messages.length]),
      [[2, 1]],
    )
    await assert.rejects(on.call('robin', 'delegation/mailbox.release', { runs: [{ run_id: run.id, attempt: 2 }] }), {
      code: 'RUN_NOT_FOUND',
    })
  })

  test('held asks only for what the worker has taken before', async () => {
    const on = await quiet()
    const { run } = await delegate(on)
    await on.call('devin', 'delegation/mailbox.take', { worker: 'one' })
    await delegate(on)
    const waiting = on.call('devin', 'delegation/mailbox.take', { worker: 'one', held: true, wait: 'PT30S' })
    assert.equal(await isOver(waiting), false)
    await on.call('system', 'delegation/agent.steer', { run_id: run.id, text: 'Hurry.' })
    assert.deepEqual(
      (await waiting).items.map((item: any) => item.run.id),
      [run.id],
    )
  })

  test('a wait whose caller is gone ends and takes nothing', async () => {
    const on = await quiet()
    const gone = new AbortController()
    const waiting = on.call('devin', 'delegation/mailbox.take', { worker: 'one', wait: 'PT1M' }, { signal: gone.signal })
    await settled()
    gone.abort()
    assert.deepEqual(await waiting, { items: [] })
    await delegate(on)
    assert.equal((await on.call('devin', 'delegation/mailbox.take', { worker: 'two' })).items[0].attempt, 1)
  })

  test('a call that waits on several ids is one waiter, and is woken by each of them and by no other', async () => {
    const on = await quiet()
    const propose = (tool: string) =>
      on.call('devin', 'gate/call.propose', { server: 'pay', tool, arguments: {}, definition: { name: tool } })
    const approve = ({ request_id }: any) => on.call('alice', 'execution/request.resolve', { request_id, result: 'approved' })
    const wait = (...calls: any[]) =>
      on.call('devin', 'gate/call.await_any', { call_ids: calls.map(({ call_id }) => call_id), wait_seconds: 25 })
    const statesOf = async (waited: Promise<any>) => (await waited).items.map(({ call_id, state }: any) => [call_id, state])
    const [one, two, three, other] = [await propose('one'), await propose('two'), await propose('three'), await propose('other')]
    const waiting = [wait(one, two), wait(one, three)]
    await settled()
    await approve(other)
    await settled()
    assert.deepEqual([on.kernel.stats().waiting, on.kernel.stats().woken], [2, 0], 'a commit about another call wakes neither')
    await approve(two)
    assert.deepEqual(await statesOf(waiting[0]!), [[two.call_id, 'approved']])
    assert.deepEqual([on.kernel.stats().waiting, on.kernel.stats().woken], [1, 1], 'the wait without it goes on')
    await approve(one)
    assert.deepEqual(await statesOf(waiting[1]!), [[one.call_id, 'approved']])
    const late = wait(three)
    await on.clock.advance(25_000)
    assert.deepEqual([await late, on.kernel.stats().woken], [{ items: [] }, 2])
  })

  test('when the kernel is released all are answered, and from then on none waits', async () => {
    const on = await quiet()
    const waiting = on.call('devin', 'delegation/mailbox.take', { wait: 'PT1M' })
    await settled()
    on.kernel.release()
    assert.deepEqual(await waiting, { items: [] })
    assert.deepEqual(await on.call('devin', 'delegation/mailbox.take', { wait: 'PT1M' }), { items: [] })
    assert.equal(on.kernel.stats().waiting, 0)
  })

  test('an actor has a bounded number of calls that wait', async () => {
    const on = await quiet()
    const take = () => on.call('devin', 'delegation/mailbox.take', { wait: 'PT1M' })
    const all = Array.from({ length: limits.waitsPerActorMax }, take)
    await settled()
    assert.equal(on.kernel.stats().waiting, limits.waitsPerActorMax)
    await assert.rejects(take(), { code: 'QUOTA_EXCEEDED', details: { retry_after: 1 } })
    const other = on.call('robin', 'delegation/mailbox.take', { wait: 'PT1S' })
    await on.clock.advance(1_000)
    assert.deepEqual(await other, { items: [] })
    on.kernel.release()
    await Promise.all(all)
  })

  test('of many processes that wait for one run, one takes it and the others go on waiting', async () => {
    const on = await quiet()
    const all = Array.from({ length: 10 }, (_, i) => on.call('devin', 'delegation/mailbox.take', { worker: `w${i}`, wait: 'PT30S' }))
    await settled()
    await delegate(on)
    await settled()
    assert.equal(on.kernel.stats().waiting, 9)
    await on.clock.advance(30_000)
    assert.deepEqual((await Promise.all(all)).filter(({ items }) => items.length === 1).length, 1)
  })
})

// --- Over the wire -------------------------------------------------------------------------------------------------------------

let stage: Stage
before(async () => {
  stage = await openStage()
})
after(() => stage.close())

const overHttp = ({ key }: Agent, url = stage.server.url): Client => createClient({ url, key, attempts: 1 })
const overSocket = ({ key }: Agent): Client => createClient({ transport: socketTransport({ path: stage.socket, key, attempts: 1 }) })
const waitingNow = (count: number): Promise<unknown> =>
  until(() => stage.server.kernel.stats().waiting === count, `${count} calls that wait`)
const give = (to: Agent) => stage.system('delegation/agent.delegate', { to_agent: to.id })

for (const [name, open] of [
  ['HTTP', overHttp],
  ['a Unix socket', overSocket],
] as const) {
  describe(`over ${name}`, () => {
    test('a call waits, beside others of the same client, and is answered in the order of events', async (t) => {
      const agent = await stage.agent()
      const client = open(agent)
      t.after(client.close)
      const waiting = client.delegation.mailbox.take({ wait: 'PT30S' })
      await waitingNow(1)
      assert.equal((await client.identity.me.get()).id, agent.id)
      const { run } = await give(agent)
      assert.deepEqual(
        (await waiting).items.map((item) => item.run.id),
        [run.id],
      )
    })

    test('a revoked key ends the wait immediately and gets nothing', async (t) => {
      const agent = await stage.agent()
      const client = open(agent)
      t.after(client.close)
      const waiting = assert.rejects(client.delegation.mailbox.take({ wait: 'PT30S' }), { code: 'UNAUTHENTICATED', status: 401 })
      await waitingNow(1)
      await stage.owner.identity.key.revoke({ key_id: agent.key_id })
      await waiting
      await give(agent)
      const { items } = await stage.system('delegation/mailbox.take', { agent_id: agent.id })
      assert.equal(items[0].attempt, 1, 'nobody took it before')
    })

    test('an agent that is switched off gets nothing', async (t) => {
      const agent = await stage.agent()
      const client = open(agent)
      t.after(client.close)
      const waiting = assert.rejects(client.delegation.mailbox.take({ wait: 'PT30S' }), { code: 'UNAUTHENTICATED' })
      await waitingNow(1)
      await stage.system('identity/agent.update', { agent_id: agent.id, disabled: true })
      await waiting
    })

    test('a client that goes away leaves nothing behind', async () => {
      const agent = await stage.agent()
      const client = open(agent)
      const waiting = assert.rejects(client.delegation.mailbox.take({ wait: 'PT30S' }))
      await waitingNow(1)
      await client.close()
      await waiting
      await waitingNow(0)
      await give(agent)
      const { items } = await stage.system('delegation/mailbox.take', { agent_id: agent.id })
      assert.equal(items[0].attempt, 1, 'nobody took it before')
    })

    test('a server that stops answers it, and stops without waiting for it', async () => {
      const agent = await stage.agent()
      const client = open(agent)
      const waiting = client.delegation.mailbox.take({ wait: 'PT30S' })
      await waitingNow(1)
      const began = performance.now()
      const stopped = stage.restart()
      assert.deepEqual(await waiting, { items: [] })
      await stopped
      assert.ok(performance.now() - began < limits.stopMsMax - 1_000, 'nothing waited for the bound')
      await client.close()
    })
  })
}

test('a request that goes the long way waits as well, and ends with its client', async () => {
  const agent = await stage.agent()
  const send = (): ClientRequest => {
    const headers = { authorization: `Bearer ${agent.key}`, 'content-type': 'application/json; charset=utf-8' }
    const sent = request(`${stage.server.url}/v1/delegation/mailbox.take`, { method: 'POST', headers })
    sent.on('error', () => undefined).end('{"wait":"PT30S"}')
    return sent
  }
  const sent = send()
  await waitingNow(1)
  sent.destroy()
  await waitingNow(0)
})

test('a pair of streams that breaks ends it too', async () => {
  const agent = await stage.agent()
  const [input, output] = [new PassThrough(), new PassThrough()]
  const served = stage.server.rpc.serve(input, output)
  const call = (id: number, method: string, params: object): string => `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`
  input.write(call(1, 'rpc.authenticate', { token: agent.key }) + call(2, 'delegation/mailbox.take', { wait: 'PT30S' }))
  await waitingNow(1)
  output.destroy()
  await waitingNow(0)
  await served
})

test('200 agents wait, and each is woken for its own and for nothing else', async () => {
  const agents = await Promise.all(Array.from({ length: 200 }, () => stage.agent('many')))
  const clients = agents.map((agent) => overHttp(agent))
  const answered = clients.map((client) => client.delegation.mailbox.take({ wait: 'PT1M', worker: 'one' }, { timeoutMs: 90_000 }))
  await waitingNow(200)
  const before = stage.server.kernel.stats().woken
  const runs = new Map<string, string>()
  for (const agent of agents.toReversed()) runs.set(agent.id, (await give(agent)).run.id)
  for (const [i, { items }] of (await Promise.all(answered)).entries()) {
    assert.deepEqual(
      items.map((item) => item.run.id),
      [runs.get(agents[i]!.id)],
    )
  }
  assert.equal(stage.server.kernel.stats().woken - before, 200)
  await waitingNow(0)
  await Promise.all(clients.map((client) => client.close()))
})
