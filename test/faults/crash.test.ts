// kill -9 in the middle of everything, ten times on the same data and thirty in `npm run test:long`: what was acknowledged is there, and nothing
// is there by half.
import assert from 'node:assert/strict'
import { closeSync, fsyncSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { sqliteStore } from '#stores/sqlite.ts'
import { flowSteps, remember, type FlowRefs } from '../support/as-processes/flow.ts'
import { sampleOf } from '../support/as-processes/postgres-stores.ts'
import { createCaller, enroll, startServer, type Keys, type ServerProcess } from '../support/as-processes/server.ts'

const TESTS = sampleOf([1, 2, 3], 1).length
const ROUNDS_PER_TEST = 10
const CLIENTS = 8
const SEED = Number(process.env['CRASH_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const PROJECT = 'project_default'

const folder = mkdtempSync(join(tmpdir(), 'countersign-crash-'))
const data = join(folder, 'data')
const ackFile = join(folder, 'acknowledged.jsonl')

let state = SEED >>> 0
function random(below: number): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
  return Math.floor((state / 2 ** 32) * below)
}

type Acknowledged = { readonly round: number; readonly step: number; readonly tag: string; readonly output: any }
/** One client: the position in its flow, and the call whose answer it never got. */
type Client = { readonly name: number; flows: number; step: number; refs: FlowRefs; unanswered: boolean }
type Caller = ReturnType<typeof createCaller>

let server: ServerProcess
let caller: Caller
let keys: Keys
let finishedActions: string[]
const heads: { seq: number; hash: string }[] = []
const clients: Client[] = Array.from({ length: CLIENTS }, (_, name) => ({
  name,
  flows: 0,
  step: 0,
  refs: { tag: `c${name}-f0` },
  unanswered: false,
}))
const totals = { acknowledged: 0, unanswered: 0, finished: 0 }

before(async () => {
  console.log(`seed ${SEED} (CRASH_SEED repeats it)`)
  server = await startServer(data)
  caller = createCaller(server.port)
  keys = await enroll(server.port, server.adminKey)
  const golden: Client = { name: -1, flows: 0, step: 0, refs: { tag: 'golden' }, unanswered: false }
  for (let i = 0; i < flowSteps.length; i++) finishedActions = actionsIn(await callStep(golden)) ?? finishedActions
})
after(async () => {
  caller.close()
  await server.end('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

const actionsIn = (output: any): string[] | undefined => output.events?.map((event: { action: string }) => event.action)
const keyOf = ({ refs, step }: Client): string => `${refs.tag}-${step}`

/** The next call of a client's flow, with its idempotency key. Throws when no whole answer came. */
async function callStep(client: Client): Promise<any> {
  const { as, operation, input } = flowSteps[client.step]!
  const { status, body } = await caller.call(keys[as], operation, input(client.refs), keyOf(client))
  assert.equal(status, 200, `${operation} of ${client.refs.tag} answered ${status}: ${JSON.stringify(body)}`)
  remember(client.refs, body)
  client.step++
  return body
}

function goOn(client: Client): void {
  if (client.step < flowSteps.length) return
  totals.finished++
  client.flows++
  client.step = 0
  client.refs = { tag: `c${client.name}-f${client.flows}` }
}

/** Works until the server is gone. Each answer is on disk before the next call. */
async function work(client: Client, round: number, acks: number): Promise<void> {
  for (;;) {
    const { step } = client
    const { tag } = client.refs
    let output: any
    try {
      output = await callStep(client)
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error
      client.unanswered = true
      return
    }
    writeSync(acks, `${JSON.stringify({ round, step, tag, output } satisfies Acknowledged)}\n`)
    fsyncSync(acks)
    goOn(client)
  }
}

async function ask(bearer: string, operation: string, input: object): Promise<any> {
  const { status, body } = await caller.call(bearer, `collaboration/${operation}`, input)
  assert.equal(status, 200, `${operation} answered ${status}: ${JSON.stringify(body)}`)
  return body
}

async function crash(round: number): Promise<Acknowledged[]> {
  const acks = openSync(ackFile, 'w')
  const working = clients.map((client) => work(client, round, acks))
  await new Promise((done) => setTimeout(done, 50 + random(750)))
  await server.end('SIGKILL')
  caller.close()
  await Promise.all(working)
  closeSync(acks)
  server = await startServer(data)
  caller = createCaller(server.port)
  return readFileSync(ackFile, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Acknowledged)
}

/** Every object that was acknowledged is in the record exactly as it was acknowledged. */
async function assertAcknowledged(acknowledged: readonly Acknowledged[]): Promise<void> {
  const byTask = Map.groupBy(acknowledged, ({ output, tag }) => (output.task?.id as string | undefined) ?? tag)
  for (const [task_id, acks] of byTask) {
    if (!task_id.startsWith('task_')) continue
    const { items } = await ask(keys.alice, 'audit.query', { task_id, limit: 200 })
    const images: any[] = items.flatMap((event: any) => event.changes.map((change: any) => change.after))
    for (const { output, tag, step } of acks) {
      for (const name of ['task', 'checkpoint', 'review']) {
        const found = output[name] === undefined || images.some((image) => isDeepStrictEqual(image, output[name]))
        assert.ok(found, `the ${name} that ${flowSteps[step]!.operation} of ${tag} acknowledged is in the record`)
      }
    }
  }
  for (const { output } of acknowledged) {
    if (output.artifact) {
      const { id: artifact_id, version } = output.artifact
      assert.deepEqual((await ask(keys.alice, 'artifact.get', { artifact_id, version })).artifact, output.artifact)
    }
    if (output.entry) assert.deepEqual((await ask(keys.alice, 'ledger.read', { key: output.entry.key })).entry, output.entry)
  }
}

/** No task is there by half: its events rebuild exactly what is stored. */
async function assertWhole(acknowledged: readonly Acknowledged[]): Promise<void> {
  const tasks = new Set(acknowledged.flatMap(({ output }) => (output.task ? [output.task.id as string] : [])))
  for (const task_id of tasks) {
    const { matches, difference } = await ask(keys.alice, 'audit.replay', { task_id })
    assert.equal(matches, true, JSON.stringify(difference))
  }
  for (const project_id of [PROJECT, 'system']) {
    for (let cursor: string | null = ''; cursor !== null;) {
      const verified = await ask(server.adminKey, 'audit.verify', { project_id, ...(cursor ? { cursor } : {}) })
      assert.equal(verified.valid, true, JSON.stringify(verified.difference))
      if (project_id === PROJECT && verified.next_cursor === null) heads.push(verified.head)
      cursor = verified.next_cursor
    }
  }
}

/** The record only ever grew: every head that was seen before is still in its place. */
async function assertGrown(): Promise<void> {
  const store = sqliteStore(join(data, 'countersign.db'), { readOnly: true })
  for (const { seq, hash } of heads) {
    const [found] = await store.facts({ by: 'scope', scope: PROJECT }, { after: seq - 1, limit: 1 })
    assert.equal(found?.hash, hash, `the head that was number ${seq} is still there`)
  }
  await store.close()
}

/** A call that was never answered is sent twice more: both times the same answer. */
async function retryUnanswered(): Promise<void> {
  for (const client of clients.filter(({ unanswered }) => unanswered)) {
    totals.unanswered++
    client.unanswered = false
    const { step } = client
    const first = await callStep(client)
    client.step = step
    assert.deepEqual(await callStep(client), first)
    goOn(client)
  }
}

for (let part = 0; part < TESTS; part++) {
  const [from, to] = [part * ROUNDS_PER_TEST + 1, (part + 1) * ROUNDS_PER_TEST]
  test(`kill -9 number ${from} to ${to}: acknowledged work is there, nothing is there by half, a retry has one effect`, async () => {
    for (let round = from; round <= to; round++) {
      const acknowledged = await crash(round)
      totals.acknowledged += acknowledged.length
      await assertAcknowledged(acknowledged)
      await assertWhole(acknowledged)
      await assertGrown()
      await retryUnanswered()
    }
  })
}

test('every flow that came to its end did so in exactly the steps of one that was never disturbed', async () => {
  const seen = new Map<string, number>()
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: any = await ask(keys.alice, 'task.list', { limit: 200, ...(cursor ? { cursor } : {}) })
    for (const task of page.items) {
      seen.set(task.type, (seen.get(task.type) ?? 0) + 1)
      const { events, matches } = await ask(keys.alice, 'audit.replay', { task_id: task.id })
      assert.equal(matches, true)
      const actions = actionsIn({ events })!
      assert.deepEqual(actions, finishedActions.slice(0, actions.length), `${task.type} repeated or left out a step`)
    }
    cursor = page.next_cursor
  }
  for (const [tag, count] of seen) assert.equal(count, 1, `${tag} was created ${count} times`)
  console.log(`${totals.acknowledged} acknowledged, ${totals.unanswered} unanswered and retried, ${totals.finished} flows finished`)
  assert.ok(totals.acknowledged > 160 * TESTS && totals.unanswered > 10 * TESTS, 'enough was under way to be lost')
})
