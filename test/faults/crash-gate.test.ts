// kill -9 of `countersign gate`, of the server and of both, between every two steps of an asked call: proposed, asked, answered, begun, run
// upstream, concluded. One approval runs the tool at most once, and the same call again collects it or is asked again, with the reason.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { createClient } from '#sdk/index.ts'
import { enroll, startServer } from '../support/as-processes/server.ts'
import { dataFolder } from '../support/as-processes/server-process.ts'
import { chosenBy, VARIABLE } from '../simulation/choice.ts'
import { createRandom } from '../simulation/random.ts'
import { openGateLane, type GateLane, type Point, type Victim } from '../support/faults/gate-lane.ts'
import type { Moment } from '../support/faults/crash-proxy.ts'
import { callTool, officialClient, runsIn, textOf, toolServer, until, type Answer } from '../gate/gate-world.ts'

/** Chosen at random by each run; all of them in `npm run test:long`. */
const POINTS = 4
const { isAll, name: choice } = chosenBy(process.env[VARIABLE])

/**
 * What the death of the gate alone leaves: the runs of the approved call, and whether its approval is used up without an answer for the client.
 * null: unknown, for example because a result does not wait for its record.
 */
type After = { readonly runs: number | null; readonly isSpent: boolean | null }
const unused: After = { runs: 0, isSpent: false }
const steps: readonly (readonly [operation: string, moment: Moment | null, after: After])[] = [
  ['gate/call.propose', 'request', unused],
  ['gate/call.propose', 'answer', unused],
  ['gate/call.await_any', 'request', unused],
  ['execution/request.resolve', 'request', unused],
  // The gate can have begun the call by then.
  ['execution/request.resolve', 'answer', { runs: null, isSpent: null }],
  ['gate/call.begin', 'request', unused],
  ['gate/call.begin', 'answer', { runs: 0, isSpent: true }],
  ['run', null, { runs: 1, isSpent: true }],
  ['gate/call.conclude', 'request', { runs: 1, isSpent: null }],
  ['gate/call.conclude', 'answer', { runs: 1, isSpent: null }],
]
/** The client waits, and no answer of the person has arrived. */
const isHeld = (point: Point): boolean =>
  point.operation === 'gate/call.await_any' ||
  ('moment' in point && point.operation === 'execution/request.resolve' && point.moment === 'request')
const victims: readonly Victim[] = ['gate', 'server', 'both']
const rounds = victims.flatMap((victim) =>
  steps.map(([operation, moment, left]) => ({
    title: `kill -9 of ${victim === 'both' ? victim : `the ${victim}`} at ${moment === null ? 'the run of the tool' : `the ${moment} of ${operation}`}`,
    point: (moment === null ? { victim, operation: 'run' } : { victim, operation, moment }) as Point,
    left,
  })),
)

const random = createRandom(isAll ? 0 : Number(choice))
const chosen = isAll ? rounds : Array.from({ length: POINTS }, () => rounds.splice(random.below(rounds.length), 1)[0]!)

let lane: GateLane
before(async () => {
  lane = await openGateLane()
})
after(() => lane.close())

const calls = async (): Promise<any[]> => (await lane.alice.gate.call.list({ limit: 200 })).items
const stateOf = async (call_id: string): Promise<string> => (await lane.alice.gate.call.get({ call_id })).state

/** The only approval of a round, given as soon as its question is there. */
async function approve(known: ReadonlySet<string>): Promise<string> {
  const { call_id, request_id } = await until(async () =>
    (await calls()).find((call) => call.state === 'waiting' && !known.has(call.call_id)),
  )
  await lane.alice.execution.request.resolve({ request_id, result: 'approved' })
  return call_id
}

/** The question about the same call after its approval; null: stopped before there was one. */
async function askedAgain(approved: Promise<string>, stop: AbortSignal): Promise<any> {
  const call_id = await approved
  return until(async () => stop.aborted || (await calls()).find((call) => call.state === 'waiting' && call.call_id !== call_id)).then(
    (found) => (found === true ? null : found),
  )
}

const hasRun = (answer: Answer | null, args: object): boolean => answer !== null && textOf(answer) === `slow ${JSON.stringify(args)}`

/** Calls again until the tool has answered, or the question comes again although it was approved: then it is returned. */
async function repeat(args: Record<string, unknown>, approved: Promise<string>): Promise<any> {
  for (;;) {
    const stop = new AbortController()
    const calling = lane.call(args)
    const asked = await Promise.race([askedAgain(approved, stop.signal), calling.then(() => null)])
    stop.abort()
    if (asked !== null) return asked
    if (hasRun(await calling, args)) return null
  }
}

describe('one approval, at most one run', () => {
  for (const { title, point, left } of chosen)
    test(title, async () => {
      const args = { title }
      const known = new Set((await calls()).map(({ call_id }) => String(call_id)))
      lane.arm(point)
      const approved = approve(known)
      const first = await lane.call(args)
      await lane.recovered()
      const again = hasRun(first, args) ? null : await repeat(args, approved)
      const call_id = await approved
      const runs = lane.runsOf(args)
      if (point.victim === 'server' && isHeld(point)) assert.ok(hasRun(first, args), 'the held call survives the restart')
      if (point.victim === 'gate') {
        assert.equal(again !== null, left.isSpent ?? again !== null)
        assert.equal(runs, left.isSpent === false ? 1 : (left.runs ?? runs))
      }
      if (again === null) assert.equal(runs, 1)
      else {
        assert.ok(runs <= 1)
        const { request } = await lane.alice.execution.request.get({ request_id: again.request_id })
        const isKnown = (await stateOf(call_id)) === 'ended'
        assert.equal(JSON.stringify(request.payload).includes('its end is not known: it may have acted'), !isKnown)
        await lane.alice.execution.request.resolve({ request_id: again.request_id, result: 'rejected' })
      }
      const begun = (await calls()).filter((call) => !known.has(call.call_id) && (call.state === 'begun' || call.state === 'ended'))
      assert.deepEqual(
        begun.map((call) => call.call_id),
        [call_id],
        'the approved call alone has begun',
      )
    })
})

const title =
  'kill -9 of a server with the gate inside, while a call waits and while its tool acts: one run, and then the call is asked again'
test(title, { skip: isAll ? false : 'in the long run' }, async (t) => {
  const data = dataFolder(t)
  const [file, gates] = [`${data}.runs`, `${data}.gates.json`]
  writeFileSync(gates, JSON.stringify({ mcpServers: { files: toolServer(file) } }))
  const env = { COUNTERSIGN_GATES: gates }
  let server = await startServer(data, 0, env)
  t.after(() => server.end('SIGKILL'))
  const keys = await enroll(server.port, server.adminKey)
  const alice = createClient({ url: `http://127.0.0.1:${server.port}`, key: keys.alice, attempts: 20 })
  t.after(() => alice.close())
  // The tool acts until its caller has gone.
  const args = { until: 'cancelled' }
  const runs = (): number => runsIn(file).filter(({ name }) => name === 'slow').length
  async function callAgain(): Promise<void> {
    const client = officialClient('legacy')
    const requestInit = { headers: { authorization: `Bearer ${keys.devin}` } }
    await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${server.port}/gate/files/mcp`), { requestInit }))
    t.after(() => client.close())
    callTool(client, 'slow', args).catch(() => undefined)
  }
  async function killServer(): Promise<void> {
    await server.end('SIGKILL')
    server = await startServer(data, server.port, env)
  }
  const asked = (): Promise<any> =>
    until(async () => (await alice.gate.call.list({ limit: 9 })).items.find(({ state }) => state === 'waiting'))

  await callAgain()
  const { call_id, request_id } = await asked()
  await killServer()
  await callAgain()
  assert.equal((await asked()).call_id, call_id)
  await alice.execution.request.resolve({ request_id, result: 'approved' })
  await until(() => runs() === 1)
  await killServer()
  await callAgain()
  const again = await asked()
  assert.notEqual(again.call_id, call_id)
  const { request } = await alice.execution.request.get({ request_id: again.request_id! })
  assert.match(JSON.stringify(request.payload), /its end is not known: it may have acted/)
  assert.equal(runs(), 1)
})
