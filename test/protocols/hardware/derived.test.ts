// Laws of every operation of the daemon, derived from the operation itself, on every store: its example works or is refused as it says, leaves its
// event, can be repeated under a key, and is visible to its own session only. (The operations of the server are in test/laws/derived.test.ts.)
import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { differenceIn } from '#kernel/log/hash-chain.ts'
import type { Example, Refs } from '#kernel/declare/operation.ts'
import type { Store } from '#kernel/log/store.ts'
import { auditedFact, recordedLines, GENESIS } from '#devices/audit/audit-file.ts'
import { auditLine } from '#protocols/hardware/daemon/audit-line.ts'
import { isPostgresOff } from '../../support/as-processes/postgres.ts'
import { postgresMaker, sampleOf } from '../../support/as-processes/postgres-stores.ts'
import { daemonKernel, type DaemonKernel } from '../../support/hardware/kernel.ts'
import { stateHash, storeMakers } from '../../support/in-process/world.ts'

const inputOf = (example: Example, refs: Refs): Record<string, unknown> =>
  (typeof example.input === 'function' ? example.input(refs) : example.input) as Record<string, unknown>

async function assertChainVerifies(store: Store): Promise<void> {
  let [before, seq] = ['', 0]
  for (const fact of await store.facts({ by: 'position' }, { after: null, limit: 1_000 })) {
    equal(fact.seq, ++seq, 'the one chain has no gaps')
    equal(differenceIn(fact, before), null)
    before = fact.hash
  }
}

const actionsOf = async (store: Store): Promise<string[]> =>
  (await store.facts({ by: 'position' }, { after: null, limit: 1_000 })).map((fact) => auditedFact(fact).action)

for (const maker of [...storeMakers(), postgresMaker()])
  describe(`operations of the daemon on ${maker.name}`, { skip: maker.name === 'postgres' && isPostgresOff }, () => {
    after(() => maker.dispose())
    const opened = async (work: (on: DaemonKernel) => Promise<void>): Promise<void> => {
      const on = daemonKernel(await maker.open())
      await work(on)
      await on.close()
    }
    const { operations, scenes } = daemonKernel.protocol
    for (const op of maker.name === 'postgres' ? sampleOf(operations, 6) : operations) {
      const { name, example } = op
      const stranger = example.as === 'system' ? 'client' : 'stranger'
      test(`${name}: its example ${example.refused ? `answers ${example.refused}` : 'works'}, and leaves its event in the chain and in the audit`, () =>
        opened(async (on) => {
          const refs = await on.play(scenes[example.given]!)
          const before = (await actionsOf(on.store)).length
          const calling = on.call(example.as, name, inputOf(example, refs))
          if (example.refused) await rejects(calling, { code: example.refused })
          else equal(typeof (await calling), 'object')
          const made = (await actionsOf(on.store)).slice(before)
          if (op.kind !== 'command') deepEqual(made, [], 'reading leaves nothing')
          else if (op.audit !== null && !example.refused)
            ok(made.includes(`hardware/${op.audit}`), `it leaves ${op.audit}: ${made.join(', ')}`)
          await assertChainVerifies(on.store)
          let prev = ''
          for await (const { line, seq, hash } of recordedLines(on.store, 'dev', GENESIS)) {
            const [fact] = await on.store.facts({ by: 'scope', scope: 'device' }, { after: seq - 1 || null, limit: 1 })
            equal(line, auditLine('dev', auditedFact(fact!), prev))
            prev = hash
          }
        }))
      test(`${name}: is not for ${stranger === 'client' ? 'clients' : 'the session of another principal'}, and a refusal changes nothing`, () =>
        opened(async (on) => {
          const refs = await on.play(scenes[example.given]!)
          const input = inputOf(example, refs)
          if (stranger === 'stranger' && !('session_id' in input)) return
          const state = await stateHash(on.store)
          // An example about a missing document is refused for that reason, for every caller.
          const expected = [stranger === 'client' ? 'UNAUTHORIZED' : 'SESSION_INVALID', example.refused]
          await rejects(on.call(stranger, name, input), ({ code }: { code?: string }) => expected.includes(code))
          equal(await stateHash(on.store), state)
        }))
      if (op.kind === 'command' && !example.refused)
        test(`${name}: repeated under its key it gets its first answer, and is done once`, () =>
          opened(async (on) => {
            const input = inputOf(example, await on.play(scenes[example.given]!))
            const first = await on.call(example.as, name, input, 'k1')
            const count = (await actionsOf(on.store)).length
            deepEqual(await on.call(example.as, name, input, 'k1'), first)
            equal((await actionsOf(on.store)).length, count)
          }))
    }
  })
