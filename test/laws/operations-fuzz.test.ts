// Every operation with inputs that no honest client sends, by every kind of caller. Each gets an answer or a listed refusal, and a
// refusal leaves every document as it was.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Refusal } from '#kernel/declare/errors.ts'
import { decodeText } from '#kernel/codec/strict-json.ts'
import type { Refs } from '#kernel/declare/operation.ts'
import { memoryStore } from '#stores/memory.ts'
import { cast, createWorld, operationsOf, protocols, stateHash, type World } from '../support/in-process/world.ts'

const CASES = 20_000
const WORLDS = 10
const SEED = Number(process.env['FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 31))

/** Seeded, so that a failure can be repeated with FUZZ_SEED. */
function randomOf(seed: number) {
  let state = seed >>> 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let z = Math.imul(state ^ (state >>> 15), state | 1)
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61)
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32
  }
  return { chance: (p: number): boolean => next() < p, pick: <T>(all: readonly T[]): T => all[Math.floor(next() * all.length)]! }
}
type Random = ReturnType<typeof randomOf>

const message = (
  '|.|/|@|%|__proto__|constructor|toString|../..|P1D|PT0S|2030-01-01T00:00:00Z|9999-12-31T23:59:60Z|v1|v2|project:project_default|org|data:,x|' +
  'data:;base64,!!|approve|reject|choose|provide|reassign|approved|changes_requested|rejected|created|blocked|hold|fail'
).split('|')
const things: unknown[] = [
  0,
  -1,
  1.5,
  2 ** 31,
  2 ** 53 - 1,
  {},
  [],
  [[]],
  [null],
  { id: {} },
  { length: 1e9 },
  { constructor: { prototype: { polluted: 1 } } },
]
const odd: unknown[] = [
  ...fc.sample(fc.jsonValue({ maxDepth: 4 }), { numRuns: 600, seed: SEED }),
  ...fc.sample(fc.string({ unit: 'binary', maxLength: 200 }), { numRuns: 200, seed: SEED }),
  ...things,
  'x'.repeat(5_000),
]
const claims = ['actor', 'actor_id', 'by', 'principal', 'ownership', 'reviewer', 'constructor', 'hasOwnProperty', 'toString', 'prototype']

/** Every id that the scenes have made, so that inputs can name things that exist. */
function idsIn(refs: Refs): string[] {
  const found = new Set(JSON.stringify(refs).match(/[a-z]+_[0-9A-Z]{26}/g))
  return [
    ...found,
    'user_alice',
    'user_bob',
    'agent_devin',
    'agent_system',
    'project_default',
    'project_other',
    'task_none',
    'service_admin',
  ]
}

type Scene = { readonly world: World; readonly refs: Map<string, Refs>; readonly ids: string[]; written(): number }

async function sceneOf(seed: number): Promise<Scene> {
  let rows = 0
  const store = memoryStore({
    onWrite(group, apply) {
      rows += group.create.length + group.update.length + group.remove.length + group.entries.length + group.counts.length
      apply()
    },
  })
  const world = await createWorld({ store, seed })
  const refs = new Map<string, Refs>()
  for (const protocol of protocols) {
    for (const [name, steps] of Object.entries(protocol.scenes)) {
      refs.set(`${protocol.name}/${name}`, await world.play(steps))
      // One scene switches this agent off, and those that follow in the same world need it.
      await world.call('system', 'identity/agent.update', { agent_id: 'agent_robin', disabled: false })
    }
  }
  return { world, refs, ids: idsIn(Object.fromEntries(refs)), written: () => rows }
}

/** The example with some of its fields dropped, exchanged or added; sometimes nothing of it is left. */
function inputFor(
  example: Record<string, unknown>,
  declared: readonly string[],
  ids: readonly string[],
  { chance, pick }: Random,
): unknown {
  if (chance(0.05)) return pick(odd)
  const value = (): unknown => (chance(0.35) ? pick(ids) : chance(0.4) ? pick(message) : pick(odd))
  const input: Record<string, unknown> = {}
  for (const [name, held] of Object.entries(example)) if (!chance(0.12)) input[name] = chance(0.25) ? mutated(held, value, chance) : held
  if (chance(0.5)) input[pick(declared)] = value()
  if (chance(0.1)) input[pick(claims)] = value()
  return input
}

function mutated(held: unknown, value: () => unknown, chance: Random['chance']): unknown {
  if (chance(0.5) || typeof held !== 'object' || held === null) return value()
  if (Array.isArray(held)) return [...(held as unknown[]), value()]
  const entries = Object.entries(held).map(([name, inner]) => [name, chance(0.4) ? mutated(inner, value, chance) : (inner as unknown)])
  return Object.fromEntries(entries)
}

test(`${CASES} calls with odd inputs end in an answer or a listed refusal that changed nothing (seed ${SEED})`, async () => {
  const operations = operationsOf(protocols)
  const actors = Object.keys(cast)
  const plain = Object.getOwnPropertyNames(Object.prototype)
  const seen = new Map<string, number>()
  for (let w = 0; w < WORLDS; w++) {
    const random = randomOf(SEED + w)
    const scene = await sceneOf(SEED + w)
    let before = { hash: await stateHash(scene.world.store), written: scene.written() }
    for (let i = 0; i < CASES / WORLDS; i++) {
      const { op, name, protocol } = random.pick(operations)
      const refs = scene.refs.get(`${protocol.name}/${op.example.given}`)!
      const example = (typeof op.example.input === 'function' ? op.example.input(refs) : op.example.input) as Record<string, unknown>
      const declared = Object.keys((op.input as { properties?: object }).properties ?? {})
      const raw = inputFor(example, [...declared, 'extra'], scene.ids, random)
      const as = random.chance(0.4) ? op.example.as : random.pick(actors)
      const key = random.chance(0.2) ? `key-${i % 50}` : undefined
      if (op.looksAt !== undefined) {
        // The first look at a document brings about what its time has come for, whatever it answers; the next one changes nothing.
        await codeOf(scene.world, as, name, raw, key)
        before = { hash: '', written: scene.written() }
      }
      const code = await codeOf(scene.world, as, name, raw, key)
      seen.set(code, (seen.get(code) ?? 0) + 1)
      const again = `${name} as ${as} with ${JSON.stringify(raw)} (seed ${SEED})`
      assert.ok(code === 'OK' || Object.hasOwn(scene.world.kernel.codes, code), `${code}: ${again}`)
      assert.notEqual(code, 'INTERNAL', again)
      // A violation of a guard is refused and recorded: the summary of the session names it (HCP L3, risk_events).
      const isRecorded = code === 'OK' || code === 'SAFETY_VIOLATION'
      if (isRecorded && op.kind === 'command') before = { hash: '', written: scene.written() }
      else assert.equal(scene.written(), before.written, `a document changed although it answered ${code}: ${again}`)
    }
    // Documents that counted as unchanged above are compared as a whole where nothing succeeded since.
    if (before.hash !== '') assert.equal(await stateHash(scene.world.store), before.hash)
    assert.equal((await scene.world.call('admin', 'collaboration/audit.verify')).valid, true)
    await scene.world.close()
  }
  assert.deepEqual(Object.getOwnPropertyNames(Object.prototype), plain)
  assert.equal(({} as { polluted?: number }).polluted, undefined)
  // A fuzzer that only ever meets the first door tests only that door.
  for (const code of ['OK', 'INVALID_REQUEST', 'INVALID_SPEC', 'NOT_FOUND', 'UNAUTHORIZED', 'PRECONDITION_FAILED', 'CONFLICT']) {
    assert.ok((seen.get(code) ?? 0) > CASES / 1_000, `${code} was met ${seen.get(code) ?? 0} times (seed ${SEED})`)
  }
})

/** As a binding does it: what the one decoder refuses never reaches the kernel. */
async function codeOf(world: World, as: string, name: string, raw: unknown, key: string | undefined): Promise<string> {
  try {
    const input = decodeText(JSON.stringify(raw) ?? '{}')
    await world.kernel.call(name, input, cast[as]!, { key })
    return 'OK'
  } catch (error) {
    if (error instanceof Refusal) return error.code
    throw new Error(`${name} as ${as} with ${JSON.stringify(raw)} (seed ${SEED}) threw`, { cause: error })
  }
}

test('a required field of a wrong form is refused by every operation, and the state hash stays as it was', async () => {
  const scene = await sceneOf(SEED)
  const before = await stateHash(scene.world.store)
  // Operations may change the state when they succeed, so what takes any value is left out by name.
  const takesAnything = [
    'collaboration/ledger.write value',
    'delegation/memo.put value',
    'delegation/agent.resume resolution',
    'delegation/run.report payload',
    'gate/call.propose arguments',
    'execution/receipt.verify receipt', // whatever it is, it is no receipt of ours
  ]
  for (const { op, name, protocol } of operationsOf(protocols)) {
    const refs = scene.refs.get(`${protocol.name}/${op.example.given}`)!
    const example = (typeof op.example.input === 'function' ? op.example.input(refs) : op.example.input) as Record<string, unknown>
    for (const field of (op.input as { required?: string[] }).required ?? []) {
      if (takesAnything.includes(`${name} ${field}`)) continue
      const { anyOf = [] } = (op.input as { properties: Record<string, { anyOf?: { type?: string }[] }> }).properties[field]!
      const takesNull = anyOf.some(({ type }) => type === 'null')
      for (const wrong of [{ deep: { er: [{}] } }, 5.5, ...(takesNull ? [] : [null]), [[]], [5, {}]]) {
        const code = await codeOf(scene.world, op.example.as, name, { ...example, [field]: wrong }, undefined)
        assert.match(code, /^INVALID_(REQUEST|SPEC|RESULT)$/, `${name} with ${field} = ${JSON.stringify(wrong)}`)
      }
    }
  }
  assert.equal(await stateHash(scene.world.store), before)
  await scene.world.close()
})
