// Runs histories of two harnesses from the command line: `node test/simulation/harness/run.ts --seeds 200`, or `--mistake <name>` to plant a
// mistake first and say which seed finds it.
import { spawnSync } from 'node:child_process'
import { parseArgs } from 'node:util'
import { plant } from '../mistakes.ts'
import { harnessMistakes } from './mistakes.ts'

const { values } = parseArgs({
  options: { from: { type: 'string', default: '1' }, seeds: { type: 'string', default: '200' }, mistake: { type: 'string' } },
})
const mistake = harnessMistakes.find(({ name }) => name === values.mistake)
if (values.mistake !== undefined && mistake === undefined)
  throw new Error(`there is no mistake ${values.mistake}: ${harnessMistakes.map(({ name }) => name).join(', ')}`)
if (mistake) plant(mistake)
// Only now: what is imported from here on is what was planted.
const { simulate } = await import('./simulate.ts')
let found: { readonly seed: number; readonly message: string } | null = null
const from = Number(values.from)
for (let seed = from; seed < from + Number(values.seeds) && found === null; seed++) {
  const { broken } = await simulate(seed)
  if (broken.length > 0) found = { seed, message: `seed ${seed}: ${broken.slice(0, 3).join('; ')}` }
}
console.log(found?.message ?? `nothing was found with ${values.seeds} seeds`)
/** A history that is broken without the mistake has not found the mistake. */
const isOther =
  found !== null &&
  mistake !== undefined &&
  spawnSync(process.execPath, [import.meta.filename, '--from', String(found.seed), '--seeds', '1']).status !== 0
if (isOther) console.log('it is broken without the mistake, too')
process.exit(!isOther && (found === null) === (mistake === undefined) ? 0 : 1)
