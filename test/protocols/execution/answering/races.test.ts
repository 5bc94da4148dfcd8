// One request, and everybody at once: over the draft's own routes, over /v1, over JSON-RPC, from the command line, many answers in one
// call, the agent that withdraws it and the clock. All have read and decided before any of them is written. Exactly one takes effect,
// everybody else is told why not in the words of their binding, and who listens hears one outcome.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { memoryStore } from '#stores/memory.ts'
import { barrier } from '../../../support/in-process/barrier.ts'
import { inProcess, temporary } from '../../../support/as-processes/cli.ts'
import { send } from '../../../support/over-sockets/http-client.ts'
import { hxpWorld, QUESTION, type HxpWorld } from '../../../support/over-sockets/hxp-world.ts'
import { until } from '../../../support/over-sockets/live.ts'
import { numbers } from '../../../support/laws/mutations.ts'
import { rpcClient, serveRpc } from '../../../support/over-sockets/rpc.ts'

const SEED = Number(process.env['RACE_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const ENDINGS = ['request.completed', 'request.failed', 'request.cancelled']

/** The word that a caller was told, whatever the binding: null where it took effect. */
type Told = { readonly by: string; readonly code: string | null; readonly status?: number }
type Contender = (id: string) => Promise<Told>

async function stage(t: TestContext) {
  const gate = barrier(memoryStore())
  const world = await hxpWorld(t, { store: gate.store })
  const { path } = await serveRpc(t, world.kernel)
  const rpc = await rpcClient(path, 'alice')
  t.after(() => rpc.socket.destroy())
  return { gate, world, contenders: contendersOf(world, rpc) }
}

function contendersOf(world: HxpWorld, rpc: Awaited<ReturnType<typeof rpcClient>>): Record<string, Contender> {
  const home = temporary('races')
  const v1 = (operation: string, body: object) =>
    send(world.port, `/v1/execution/${operation}`, {
      headers: { authorization: `Bearer ${world.keys.alice}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const ofDraft = (by: string, answer: { status: number; json: any }): Told => ({
    by,
    status: answer.status,
    code: answer.status === 200 ? null : answer.json.error.toUpperCase(),
  })
  return {
    draft: async (id) => ofDraft('draft', await world.resolve(id, 'Approve')),
    owner: async (id) => ofDraft('owner', await world.resolve(id, 'Deny', {}, 'owner')),
    cancel: async (id) => ofDraft('cancel', await world.http('devin', 'POST', `/requests/${id}/cancel`, { reason: 'enough' })),
    async v1(id) {
      const { status, json } = await v1('request.resolve', { request_id: id, result: 'Deny' })
      return { by: 'v1', status, code: status === 200 ? null : json.error.code }
    },
    async batch(id) {
      const digest = (await world.call('alice', 'execution/inbox.get', { request_id: id })).item.digest
      const { status, json } = await v1('inbox.resolve', { answers: [{ request_id: id, digest, result: 'Approve' }] })
      assert.equal(status, 200, 'each answer is told by itself')
      return { by: 'batch', code: json.results[0].ok ? null : json.results[0].code }
    },
    async rpc(id) {
      const { error } = await rpc.call('execution/request.resolve', { request_id: id, result: 'Approve' })
      return { by: 'rpc', code: error ? error.data.code : null }
    },
    async cli(id) {
      const { run } = inProcess({ home, env: { COUNTERSIGN_URL: `http://127.0.0.1:${world.port}`, COUNTERSIGN_KEY: world.keys.alice } })
      const { code, out, err } = await run(['request', 'resolve', id, 'Deny', '--json'])
      if (code === 0) return { by: 'cli', code: null }
      const told = /\b(ALREADY_RESOLVED|EXPIRED)\b/.exec(`${out}${err}`)
      assert.ok(told, `${code}: ${out}${err}`)
      return { by: 'cli', code: told[1]! }
    },
  }
}

/** Whatever the order, what is told is what became of it, once. */
async function assertOne(world: HxpWorld, id: string, told: readonly Told[], heard: readonly any[]): Promise<any> {
  const { json } = await world.http('devin', 'GET', `/requests/${id}`)
  const winners = told.filter(({ code }) => code === null).map(({ by }) => by)
  const isLate = json.status === 'failed'
  assert.equal(winners.length, isLate ? 0 : 1, JSON.stringify(told))
  const [code, status] = isLate ? ['EXPIRED', 408] : ['ALREADY_RESOLVED', 409]
  for (const one of told) {
    if (one.code === null) continue
    assert.equal(one.code, code, JSON.stringify(told))
    if (one.status !== undefined) assert.equal(one.status, status, JSON.stringify(one))
  }
  const outcomes = heard.filter(({ receipt }) => receipt !== undefined)
  assert.deepEqual(
    outcomes.map(({ receipt }) => receipt),
    [json.receipt],
  )
  const facts = (await world.store.facts({ by: 'position' }, { after: null, limit: 100_000 })).map(({ line }) => JSON.parse(line))
  const ended = facts.filter(({ subject, action }: any) => subject.endsWith(id) && ENDINGS.includes(action.slice('execution/'.length)))
  assert.equal(ended.length, 1, 'one end in the record')
  return json
}

test(`six answer over five bindings and the agent withdraws it: one of them wins (seed ${SEED})`, async (t) => {
  const { gate, world, contenders } = await stage(t)
  const pick = numbers(SEED)
  const won = new Set<string>()
  for (let round = 0; round < 40; round++) {
    const { request_id } = await world.ask()
    const listening = await world.listen(`/hxp/ws/${request_id}`, 'devin')
    await until(() => listening.heard.length === 1, 'it listens')
    // In another order each time: the first call is written first, or last.
    const names = Object.keys(contenders).sort(() => pick(3) - 1)
    gate.arm(names.length, round % 2 === 1)
    const racing: Promise<Told>[] = []
    for (const name of names) {
      const before = racing.length
      racing.push(contenders[name]!(request_id))
      if (before < names.length - 1) await gate.arrived(before + 1)
    }
    const told = await Promise.all(racing)
    assert.equal((await listening.closed()).code, 1000)
    await assertOne(world, request_id, told, listening.heard)
    won.add(told.find(({ code }) => code === null)!.by)
  }
  assert.ok(won.size >= 5, `nearly everybody is first at some time: ${[...won].join()}`)
})

for (const fallback of ['fail', 'default', 'pause'] as const)
  test(`they decide in time and its time is up before they are written, fallback ${fallback}: one end`, async (t) => {
    const { gate, world, contenders } = await stage(t)
    const payload = { ...QUESTION.payload, ...(fallback === 'default' ? { default_option: 'Deny' } : {}) }
    const statuses = new Set<string>()
    for (let round = 0; round < 16; round++) {
      const { request_id } = await world.ask('devin', { timeout_seconds: 60, fallback, payload })
      const listening = await world.listen(`/hxp/ws/${request_id}`, 'devin')
      await until(() => listening.heard.length === 1, 'it listens')
      const names = Object.keys(contenders)
      gate.arm(names.length + 1, round % 2 === 1)
      const racing = names.map((name) => contenders[name]!(request_id))
      await gate.arrived(names.length)
      world.advance(60_000)
      const timer = world.call('system', 'execution/request.expire', { request_id }).then(
        () => true,
        (error: { code: string }) => {
          assert.equal(error.code, 'PRECONDITION_FAILED')
          return false
        },
      )
      const told = await Promise.all(racing)
      assert.equal((await listening.closed()).code, 1000)
      const wasTimed = await timer
      if (wasTimed && fallback === 'default') {
        // The default is an answer like any other.
        assert.deepEqual([...new Set(told.map(({ code }) => code))], ['ALREADY_RESOLVED'])
        const { json } = await world.http('devin', 'GET', `/requests/${request_id}`)
        assert.deepEqual([json.status, json.receipt.completed_by], ['completed', 'system:fallback'])
        statuses.add('default')
        continue
      }
      const { status, overdue } = await assertOne(world, request_id, told, listening.heard)
      statuses.add(overdue ? `${status} overdue` : status)
    }
    const both = { fail: ['failed'], default: ['default'], pause: ['completed overdue'] }[fallback]
    for (const one of both) assert.ok(statuses.has(one), `${[...statuses].join()} holds ${one}`)
    assert.ok(statuses.has('completed') || statuses.has('cancelled'), `somebody was faster at some time: ${[...statuses].join()}`)
  })

test('an answer after the deadline is late on every path, even before the timer has fired', async (t) => {
  const { world, contenders } = await stage(t)
  const { request_id } = await world.ask('devin', { timeout_seconds: 60, fallback: 'fail' })
  world.advance(60_000)
  for (const [name, contender] of Object.entries(contenders)) assert.equal((await contender(request_id)).code, 'EXPIRED', name)
  // One of them has looked at it, and a look settles what is due.
  assert.equal((await world.call('alice', 'execution/request.get', { request_id })).request.status, 'failed')
  for (const [name, contender] of Object.entries(contenders)) assert.equal((await contender(request_id)).code, 'EXPIRED', name)
})

test('for whom it does not exist, it does not exist before, during and after', async (t) => {
  const { world } = await stage(t)
  const { request_id } = await world.ask()
  const strangers = () =>
    Promise.all([
      world.resolve(request_id, 'Approve', {}, 'mallory'),
      world.resolve(request_id, 'Approve', {}, 'bob'),
      world.http('robin', 'POST', `/requests/${request_id}/cancel`),
      world.http('spy', 'GET', `/requests/${request_id}`),
    ])
  const [, during] = await Promise.all([world.resolve(request_id, 'Approve'), strangers()])
  for (const { status } of [...during, ...(await strangers())]) assert.equal(status, 404)
})
