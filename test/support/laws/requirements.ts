// Requirements as data: a row that no test cites is red, and so is a test that cites no row. A requirement that waits for a later protocol
// says so in its row; it is counted and printed, never forgotten.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'

export type Requirement = {
  readonly id: string
  /** Where the text says it. */
  readonly clause: string
  readonly text: string
  /** The part of the system that will answer for it. */
  readonly later?: 'capabilities'
}

export type Requirements = {
  /** A test that shows one row, or several, to hold. */
  must(ids: string | readonly string[], sentence: string, run: (t: TestContext) => Promise<void> | void): void
  /** To be called last: compares the rows with the tests. */
  assertAllCited(): void
}

export function requirements(name: string, rows: readonly Requirement[]): Requirements {
  const cited = new Map<string, number>()
  return {
    must(ids, sentence, run) {
      const all = typeof ids === 'string' ? [ids] : ids
      for (const id of all) cited.set(id, (cited.get(id) ?? 0) + 1)
      test(`${all.join(', ')}: ${sentence}`, async (t) => run(t))
    },
    assertAllCited() {
      test(`${name}: every row is shown by a test, and every test cites a row`, (t) => {
        assert.deepEqual(differences(rows, cited), [])
        const later = rows.filter((row) => row.later)
        t.diagnostic(`${name}: ${rows.length} rows, ${rows.length - later.length} shown here, ${later.length} later`)
        for (const { id, text, later: where } of later) t.diagnostic(`${id} waits for ${where}: ${text}`)
      })
    },
  }
}

/** Differences between rows and tests, in words. */
export function differences(rows: readonly Requirement[], cited: ReadonlyMap<string, number>): string[] {
  const known = new Map(rows.map((row) => [row.id, row]))
  const twice = rows.filter((row) => known.get(row.id) !== row).map((row) => `two rows have the id ${row.id}`)
  const unshown = rows.filter((row) => !row.later && !cited.has(row.id)).map((row) => `no test cites ${row.id}: ${row.text}`)
  const unknown = [...cited.keys()].filter((id) => !known.has(id)).map((id) => `a test cites ${id}, which is no row`)
  const early = rows.filter((row) => row.later && cited.has(row.id)).map((row) => `${row.id} has a test: it is not for later any more`)
  return [...twice, ...unshown, ...unknown, ...early]
}
