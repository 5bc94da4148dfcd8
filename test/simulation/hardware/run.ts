// Plays histories of a daemon with a misbehaving board: `node test/simulation/hardware/run.ts --from 1 --seeds 100 [--mistake <name>]`. Ends with 1
// if a rule is broken, and names the seed.
import { parseArgs } from 'node:util'
import { plant } from '../mistakes.ts'
import { mistakes } from './mistakes.ts'

const { values } = parseArgs({
  options: { from: { type: 'string', default: '1' }, seeds: { type: 'string', default: '100' }, mistake: { type: 'string' } },
})
if (values.mistake !== undefined) plant(mistakes.find(({ name }) => name === values.mistake)!)
// Only now: what is imported from here on is what was planted.
const { playHistory } = await import('./history.ts')
const from = Number(values.from)
const happened = new Map<string, number>()
let facts = 0
for (let seed = from; seed < from + Number(values.seeds); seed++) {
  try {
    const told = await playHistory(seed)
    facts += told.facts
    for (const [what, count] of told.happened) happened.set(what, (happened.get(what) ?? 0) + count)
  } catch (error) {
    console.log(`seed ${seed}: ${(error as Error).message}`)
    if ((error as Error).name !== 'Broken') console.log((error as Error).stack)
    process.exit(1)
  }
}
console.log(JSON.stringify({ facts, ...Object.fromEntries([...happened].toSorted(([a], [b]) => (a < b ? -1 : 1))) }, null, 2))
