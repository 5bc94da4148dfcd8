// Laws of every operation, derived from the operation itself: all of them in memory, some, chosen at random, on the other stores, and all there in
// `npm run test:long`.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { differenceIn } from '#kernel/log/hash-chain.ts'
import { type Refusal } from '#kernel/declare/errors.ts'
import type { Example, Operation, Refs } from '#kernel/declare/operation.ts'
import { isPostgresOff } from '../support/as-processes/postgres.ts'
import { postgresMaker, sampleOf } from '../support/as-processes/postgres-stores.ts'
import { createWorld, operationsOf, protocols, stateHash, storeMakers, type World } from '../support/in-process/world.ts'

export const inputOf = (example: Example, refs: Refs): Record<string, unknown> =>
  (typeof example.input === 'function' ? example.input(refs) : example.input) as Record<string, unknown>

async function factsOf(world: World): Promise<{ action: string; seq: number; scope: string }[]> {
  const facts = await world.store.facts({ by: 'position' }, { after: null, limit: 10_000 })
  return facts.map((stored) => JSON.parse(stored.line) as { action: string; seq: number; scope: string })
}

async function assertChainsVerify(world: World): Promise<void> {
  const previous = new Map<string, { hash: string; seq: number }>()
  for (const stored of await world.store.facts({ by: 'position' }, { after: null, limit: 10_000 })) {
    const head = previous.get(stored.scope) ?? { hash: '', seq: 0 }
    assert.equal(stored.seq, head.seq + 1, 'seq is contiguous within its scope')
    assert.equal(differenceIn(stored, head.hash), null)
    previous.set(stored.scope, stored)
  }
}

/** Fields that an answer shows only once. */
const hiddenAgain = (op: Operation): object =>
  op.kind === 'command' && op.once ? Object.fromEntries(op.once.map((field) => [field, null])) : {}

for (const maker of [...storeMakers(), postgresMaker()]) {
  const isAsked = maker.name === 'postgres'
  describe(`operations on ${maker.name}`, { skip: isAsked && isPostgresOff }, () => {
    after(() => maker.dispose())
    const all = operationsOf(protocols)
    for (const { protocol, op, name } of maker.name === 'memory' ? all : sampleOf(all, isAsked ? 16 : 90)) {
      const { example } = op
      const scene = protocol.scenes[example.given]

      test(`${name}: its example ${example.refused ? `answers ${example.refused}` : 'works'}, leaves its event, and the chain verifies`, async () => {
        assert.ok(scene, `there is a scene ${example.given}`)
        const world = await createWorld({ store: await maker.open() })
        const refs = await world.play(scene)
        const before = (await factsOf(world)).length
        const calling = world.call(example.as, name, inputOf(example, refs))
        if (example.refused) await assert.rejects(calling, { code: example.refused })
        else assert.equal(typeof (await calling), 'object')
        const made = (await factsOf(world)).slice(before)
        if (op.kind === 'command' && op.audit && !example.refused)
          assert.ok(
            made.some((fact) => fact.action === `${protocol.name}/${op.audit}`),
            `it leaves ${op.audit}`,
          )
        if (op.kind === 'query') assert.deepEqual(made, [], 'reading leaves nothing')
        await assertChainsVerify(world)
        await world.close()
      })

      if (op.kind === 'command' && !op.fan && !example.refused)
        test(`${name}: a repeated call gets its first answer, and NOT_FOUND for a former member of the project`, async () => {
          const world = await createWorld({ store: await maker.open() })
          const input = inputOf(example, await world.play(scene!))
          const before = (await world.store.facts({ by: 'position' }, { after: null, limit: 10_000 })).length
          const first = { ...(await world.call(example.as, name, input, { key: 'k1' })), ...hiddenAgain(op) }
          assert.deepEqual(await world.call(example.as, name, input, { key: 'k1' }), first)
          const facts = await world.store.facts({ by: 'position' }, { after: null, limit: 10_000 })
          const made = facts[before]
          const actor = world.cast[example.as]!
          if (made === undefined || !made.scope.startsWith('project_') || actor.projects === 'all') return world.close()
          world.cast[example.as] = { ...actor, projects: new Map() }
          try {
            const state = await stateHash(world.store)
            await assert.rejects(world.call(example.as, name, input, { key: 'k1' }), { code: 'NOT_FOUND' })
            assert.equal(await stateHash(world.store), state)
          } finally {
            world.cast[example.as] = actor
            await world.close()
          }
        })

      for (const field of (op.input as { required?: string[] }).required ?? []) {
        test(`${name}: without ${field} it is refused and nothing changes`, async () => {
          const world = await createWorld({ store: await maker.open() })
          const { [field]: _, ...rest } = inputOf(example, await world.play(scene!))
          const before = await stateHash(world.store)
          await assert.rejects(world.call(example.as, name, rest), (error: Refusal) => {
            assert.match(error.code, /^INVALID_(REQUEST|SPEC)$/)
            assert.match(error.message, new RegExp(`${field} is required`))
            return true
          })
          assert.equal(await stateHash(world.store), before)
          await world.close()
        })
      }
    }
  })
}
