// Turns of reads: one thread serves all callers, so a caller with many reads gets a small part of each turn of the loop.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createReadTurns } from '#bindings/shared/read-turns.ts'
import { limits } from '#kernel/limits.ts'

/** Starts reads of this cost concurrently, and counts those of each turn of the loop. */
async function played(reads: Record<string, { count: number; units: number; ms: number }>): Promise<string[][]> {
  let now = 0
  const turns = createReadTurns({ admit: () => undefined }, () => now)
  const done: string[][] = [[]]
  const one = async (actor: string, units: number, ms: number): Promise<void> => {
    await turns.begin(actor)
    await Promise.resolve() // what is read comes back later
    now += ms
    done.at(-1)!.push(actor)
    turns.end(actor, units)
  }
  let isOver = false
  const turn = (): void => {
    if (isOver) return
    done.push([])
    setImmediate(turn)
  }
  setImmediate(turn)
  const all = Object.entries(reads).flatMap(([actor, { count, units, ms }]) => Array.from({ length: count }, () => one(actor, units, ms)))
  await Promise.all(all)
  isOver = true
  return done.filter((turn) => turn.length > 0)
}

test('reads that take long leave the loop to others after a few of them', async () => {
  const each = 1
  const done = await played({ agent: { count: 40, units: 1, ms: each } })
  assert.equal(done.flat().length, 40)
  // Those that were under way when the time was over are finished.
  const most = limits.readMsPerTurn / each + limits.readsUnderWayMax
  for (const turn of done) assert.ok(turn.length <= most, `${turn.length} reads in one turn`)
})

test('reads that cost many units are few in a turn, and those that cost little many', async () => {
  const heavy = await played({ agent: { count: 12, units: limits.readUnitsPerTurn, ms: 0 } })
  for (const turn of heavy.slice(1)) assert.ok(turn.length <= limits.readsUnderWayMax, `${turn.length} reads in one turn`)
  assert.ok(heavy.length > 2)
})

test('an actor with one query is answered in the next turn, even beside one with a hundred', async () => {
  const done = await played({ agent: { count: 100, units: 1, ms: 1 }, person: { count: 1, units: 1, ms: 0 } })
  assert.ok(done.findIndex((turn) => turn.includes('person')) <= 1, JSON.stringify(done.map((turn) => turn.length)))
})
