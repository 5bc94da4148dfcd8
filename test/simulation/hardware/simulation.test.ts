// Histories of a daemon whose board sticks, is unplugged and comes back while the process is killed and the disk is full; and mistakes in the source that
// they must find. `npm test` plays a part, chosen anew each time; `npm run test:long` plays all.
import { equal, match, ok } from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { patched } from '../mistakes.ts'
import { VARIABLE } from '../choice.ts'
import { playHistory } from './history.ts'
import { mistakes } from './mistakes.ts'

const [HISTORIES, PARTS, SEARCHED] = [2_000, 20, 300]
const PART = HISTORIES / PARTS
const choice = process.env[VARIABLE] ?? String(Math.floor(Math.random() * PARTS))
const isAll = choice === 'all'
const count = isAll ? HISTORIES : PART
const from = isAll ? 1 : 1 + (Number(choice) % PARTS) * count
const chosen = isAll ? mistakes : [mistakes[Number(choice) % mistakes.length]!]

const run = (...args: readonly string[]): Promise<{ code: number; said: string }> =>
  new Promise((done) => {
    const program = join(import.meta.dirname, 'run.ts')
    execFile(process.execPath, ['--disable-warning=ExperimentalWarning', program, ...args], (error, out, err) =>
      done({ code: error === null ? 0 : Number(error.code), said: out + err }),
    )
  })

describe(`a daemon with a misbehaving board (${VARIABLE}=${choice})`, () => {
  const happened = new Set<string>()
  // In parts, so that none of them takes long on a busy machine.
  for (let first = from; first < from + count; first += PART)
    it(`keeps its rules in the histories ${first} to ${first + PART - 1}`, async () => {
      for (let seed = first; seed < first + PART; seed++) {
        try {
          for (const what of (await playHistory(seed)).happened.keys()) happened.add(what)
        } catch (error) {
          throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error })
        }
      }
    })
  it('came to everything that can happen in them', () => {
    for (const what of ['a submission', 'a cancel', 'a close', 'a chip sticks', 'unplugged', 'killed and started', 'a cap changed'])
      ok(happened.has(what), `it never came to this: ${what}`)
  })
  it('plays a history the same way twice', async () => {
    const [one, two] = [await playHistory(from), await playHistory(from)]
    equal(JSON.stringify([one.facts, ...one.happened]), JSON.stringify([two.facts, ...two.happened]))
  })
  it('has mistakes that can all be planted', () => {
    for (const mistake of mistakes) patched(mistake)
  })
  for (const { name, message } of chosen)
    it(`finds a mistake: ${name}`, async () => {
      const { code, said } = await run('--from', '1', '--seeds', String(SEARCHED), '--mistake', name)
      equal(code, 1, said)
      match(said, message)
    })
})
