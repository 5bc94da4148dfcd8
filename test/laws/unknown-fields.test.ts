// A field that nothing knows is refused by every operation, at every depth, by its place; nothing changes (H31).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Refusal } from '#kernel/declare/errors.ts'
import { branchFor, type SchemaNode } from '#kernel/declare/schema.ts'
import { inputOf } from '../support/in-process/examples.ts'
import { createWorld, operationsOf, protocols, stateHash, type World } from '../support/in-process/world.ts'

const UNKNOWN = 'zzz_unheard_of'

/** The closed objects of an input, each by its path: '' is the input itself. */
function closedIn(node: SchemaNode, value: unknown, path = ''): string[] {
  if (typeof value !== 'object' || value === null) return []
  if (node.anyOf) return closedIn(branchFor(node.anyOf, value), value, path)
  if (Array.isArray(value)) return node.items ? value.flatMap((one, i) => closedIn(node.items!, one, `${path}${i}.`)) : []
  if (!node.properties || node.additionalProperties === true) return []
  const inner = Object.entries(value).flatMap(([name, held]) => closedIn(node.properties![name] ?? {}, held, `${path}${name}.`))
  return [path, ...inner]
}

function withUnknown(input: object, path: string): Record<string, unknown> {
  const copy = structuredClone(input) as Record<string, unknown>
  let place = copy
  for (const step of path.split('.').filter((one) => one !== '')) place = place[step] as Record<string, unknown>
  place[UNKNOWN] = 'words that nobody would see'
  return copy
}

async function assertRefused(world: World, as: string, name: string, input: object, field: string): Promise<void> {
  const before = await stateHash(world.store)
  await assert.rejects(world.call(as, name, input), (error: Refusal) => {
    assert.deepEqual([error.code, (error.details as { field?: string } | undefined)?.field], ['INVALID_REQUEST', field], error.message)
    assert.ok(error.message.startsWith(`${field} is not a field here`), error.message)
    return true
  })
  assert.equal(await stateHash(world.store), before)
}

for (const { protocol, op, name } of operationsOf(protocols)) {
  const { example } = op
  // Calls of the system wait in the store, some of them since an earlier version: they are read tolerantly.
  if (example.as === 'system') continue
  test(`${name}: an unknown field is refused at every depth`, async () => {
    const world = await createWorld()
    const input = inputOf(example, await world.play(protocol.scenes[example.given]!))
    for (const path of closedIn(op.input as SchemaNode, input))
      await assertRefused(world, example.as, name, withUnknown(input, path), path + UNKNOWN)
    await world.close()
  })
}

test('the payload of a request is refused with an unknown field, for each action', async () => {
  const world = await createWorld()
  const payloads = {
    DECIDE: { question: 'Which?', options: ['A', 'B'] },
    APPROVE: { item: 'The plan' },
    PROVIDE: { prompt: 'Which port?', input_type: 'text' },
  }
  for (const [action, payload] of Object.entries(payloads)) {
    const input = { action, payload: { ...payload, [UNKNOWN]: 1 } }
    await assertRefused(world, 'devin', 'execution/request.create', input, `payload.${UNKNOWN}`)
  }
  await world.close()
})

test('the refusal names the nearest known name', async () => {
  const world = await createWorld()
  const refusal = async (input: object): Promise<unknown[]> => {
    const error = await world.call('alice', 'collaboration/task.create', input).then(assert.fail, (thrown: Refusal) => thrown)
    return [error.message, error.details]
  }
  assert.deepEqual(await refusal({ spec: { goal: 'x', acceptance_critera: ['y'] } }), [
    'spec.acceptance_critera is not a field here; did you mean spec.acceptance_criteria?',
    { field: 'spec.acceptance_critera', nearest: 'spec.acceptance_criteria' },
  ])
  await world.close()
})

test('a field that names the sender is checked first, and taken when it is true', async () => {
  const world = await createWorld()
  const create = (more: object): Promise<unknown> => world.call('alice', 'collaboration/task.create', { spec: { goal: 'x' }, ...more })
  await assert.rejects(create({ by: 'user_bob', [UNKNOWN]: 1 }), { code: 'UNAUTHORIZED' })
  await assert.rejects(create({ by: 'user_alice', [UNKNOWN]: 1 }), { code: 'INVALID_REQUEST' })
  await assert.rejects(create({ ownership: { principal: 'user_alice', [UNKNOWN]: 1 } }), { code: 'INVALID_REQUEST' })
  await create({ by: 'user_alice', ownership: { principal: 'user_alice' } })
  await world.close()
})
