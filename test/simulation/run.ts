// Runs seeds from the command line: `node test/simulation/run.ts --seeds 100000`, or one of them with all that happens in it:
// `node test/simulation/run.ts --seed 17 --trace`; with `--kind servers` those of three servers. `--mistake <name>` plants a mistake in the
// source first and expects to find it, in a history that keeps every promise without it; with `--keep` the place is written into found.json, where the next search begins.
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { foundAt, mistakes, plant } from './mistakes.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    seeds: { type: 'string', default: '2000' },
    from: { type: 'string' },
    steps: { type: 'string' },
    kind: { type: 'string', default: 'core' },
    trace: { type: 'boolean', default: false },
    mistake: { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
})
if (values.kind !== 'core' && values.kind !== 'servers') throw new Error(`there is no kind ${values.kind}: core, servers`)
let kind: 'core' | 'servers' = values.kind
if (values.mistake !== undefined) {
  const mistake = mistakes.find(({ name }) => name === values.mistake)
  if (!mistake) throw new Error(`there is no mistake ${values.mistake}: ${mistakes.map(({ name }) => name).join(', ')}`)
  plant(mistake)
  kind = mistake.kind ?? 'core'
}
// Only now: what is imported from here on is what was planted.
const { runSeeds, report, explain } = await import('./seeds.ts')
const from = Number(values.seed ?? values.from ?? foundAt[values.mistake ?? ''] ?? 1)
const options = {
  from,
  kind,
  count: values.seed === undefined ? Number(values.seeds) : 1,
  steps: values.steps === undefined ? undefined : Number(values.steps),
}
const result = await runSeeds({ ...options, trace: values.trace })
const { failed, last } = result
if (values.trace) for (const line of last.trace) console.log(line)
/** A history that breaks a promise without the mistake has not found the mistake. */
const isOther = failed !== undefined && values.mistake !== undefined && isBrokenWithout(failed.seed)
if (isOther) {
  console.log(`${values.mistake}: seed ${failed.seed} breaks a promise without it, too: ${failed.violations[0]}`)
} else if (values.mistake !== undefined) {
  const found = failed ? `found with seed ${failed.seed}: ${failed.violations[0]}` : `not found in ${result.seeds} seeds`
  console.log(`${values.mistake}: ${found}`)
  if (failed && values.keep) keep(values.mistake, failed.seed)
} else {
  console.log(report(result))
  if (values.seed !== undefined) console.log(`hash ${last.hash}`)
  if (failed) console.log(explain(failed, kind))
}
process.exitCode = !isOther && (failed === undefined) === (values.mistake === undefined) ? 0 : 1

function isBrokenWithout(seed: number): boolean {
  const steps = values.steps === undefined ? [] : ['--steps', values.steps]
  return spawnSync(process.execPath, [import.meta.filename, '--kind', kind, '--seed', String(seed), ...steps]).status !== 0
}

function keep(name: string, seed: number): void {
  const all = Object.entries({ ...foundAt, [name]: seed }).sort(([one], [other]) => (one < other ? -1 : 1))
  writeFileSync(join(import.meta.dirname, 'found.json'), `${JSON.stringify(Object.fromEntries(all), null, 2)}\n`)
}
