// Bodies at random over real sockets: every body gets an answer that is no failure of the server, and the server continues.
import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { test } from 'node:test'
import type { Refs } from '#kernel/declare/operation.ts'
import { limits } from '#kernel/limits.ts'
import { send, type Answer } from '../support/over-sockets/http-client.ts'
import { liveWorld } from '../support/over-sockets/live.ts'
import { mutated, numbers, type Pick } from '../support/laws/mutations.ts'
import { operationsOf, protocols } from '../support/in-process/world.ts'

const CASES = 20_000
const AT_ONCE = 16
const SEED = Number(process.env['FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
/** Statuses that may be answered; 429 to agents that change much. */
const STATUSES = [200, 400, 401, 403, 404, 409, 410, 413, 415, 429]

/** Some as they should be, most of them not, and some that are no JSON at all. */
function bodyFrom(example: object, pick: Pick): Buffer {
  const text = JSON.stringify(example)
  const kind = pick(40)
  if (kind < 8) return Buffer.from(text)
  if (kind === 8) return Buffer.from(Array.from({ length: pick(300) }, () => pick(256)))
  if (kind === 9) return Buffer.from(['[', '{"a":', '"\\ud800', '[[],'][pick(4)]!.repeat(pick(2_000)))
  if (kind === 10) return Buffer.alloc(pick(2) === 0 ? limits.bodyBytesMax + pick(1_000) : limits.bodyBytesMax - pick(1_000), 32)
  return mutated(text, pick)
}

function headersFrom(key: string, pick: Pick): Record<string, string> {
  return {
    authorization: `Bearer ${
      pick(50) === 0
        ? mutated(key, pick)
            .toString('latin1')
            .replaceAll(/[^ -~]/g, '_')
        : key
    }`,
    'content-type':
      pick(60) === 0 ? ['text/plain', 'application/json; charset=utf-7', 'application/octet-stream'][pick(3)]! : 'application/json',
    ...(pick(5) === 0 ? { 'transfer-encoding': 'chunked' } : {}),
    ...(pick(10) === 0 ? { 'idempotency-key': pick(8) === 0 ? ' '.repeat(pick(3)) : `key-${pick(50)}` } : {}),
  }
}

test(`${CASES} bodies of every kind: no crash, no 5xx, every error has its form, and memory is bounded (seed ${SEED})`, async (t) => {
  const world = await liveWorld(t)
  const refs = new Map<string, Refs>()
  for (const { name, scenes } of protocols)
    for (const [scene, steps] of Object.entries(scenes)) {
      refs.set(`${name}/${scene}`, await world.play(steps))
      // One of them ends with the agent switched off; the next ones want it to work.
      await world.play([{ as: 'system', call: 'identity/agent.update', input: { agent_id: 'agent_robin', disabled: false } }])
    }
  const operations = operationsOf(protocols)
  const keys = await Promise.all(['alice', 'devin', 'rita', 'bob', 'mallory'].map(async (who) => (await world.keyOf(who)).key))
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })
  t.after(() => agent.destroy())
  const pick = numbers(SEED)
  const seen = new Map<number, number>()

  async function one(): Promise<void> {
    const { op, name, protocol } = operations[pick(operations.length)]!
    const held = refs.get(`${protocol.name}/${op.example.given}`)!
    const body = bodyFrom(typeof op.example.input === 'function' ? op.example.input(held) : op.example.input, pick)
    // Alice's and Devin's more often: they can do most.
    const headers = headersFrom(keys[pick(3) === 0 ? pick(keys.length) : pick(2)]!, pick)
    const answer: Answer = await send(world.port, `/v1/${name}`, { headers, body, agent })
    const where = `${name} ${JSON.stringify(headers)} ${body.subarray(0, 300).toString('latin1')} (seed ${SEED}): ${answer.text.slice(0, 300)}`
    seen.set(answer.status, (seen.get(answer.status) ?? 0) + 1)
    assert.ok(STATUSES.includes(answer.status), `${answer.status}: ${where}`)
    if (answer.status !== 200) assert.deepEqual(Object.keys(answer.json?.error ?? {}), ['code', 'message', 'details'], where)
    if (pick(50) === 0) world.advance(1_000)
  }

  const before = process.memoryUsage().heapUsed
  for (let done = 0; done < CASES; done += AT_ONCE) await Promise.all(Array.from({ length: AT_ONCE }, one))
  assert.ok(process.memoryUsage().heapUsed - before < 150_000_000, 'what was sent is not kept')
  assert.deepEqual(world.logged, [])
  assert.equal(({} as { polluted?: unknown }).polluted, undefined)
  // A fuzzer that only ever meets the first door tests only that door.
  for (const status of [200, 400, 401, 403, 404, 409, 413, 415])
    assert.ok((seen.get(status) ?? 0) >= 20, `${status} was met: ${JSON.stringify([...seen])} (seed ${SEED})`)
  assert.equal((await send(world.port, '/health', { method: 'GET' })).status, 200)
  assert.equal((await world.call('admin', 'collaboration/audit.verify')).valid, true)
})
