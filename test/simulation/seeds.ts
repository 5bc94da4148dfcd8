// Many seeds one after the other, and what to say about them. There are two kinds of histories: the whole core on one store that it has for
// itself, and three servers on one that they share.
import { simulateServers } from './servers/history.ts'
import { simulate, type Outcome } from './simulate.ts'
import { createTemplate } from './world.ts'

export type Kind = 'core' | 'servers'
export type SeedsOptions = {
  readonly from: number
  readonly count: number
  readonly kind?: Kind
  readonly steps?: number | undefined
  readonly trace?: boolean
}
export type SeedsResult = {
  readonly seeds: number
  readonly steps: number
  readonly facts: number
  readonly ms: number
  readonly happened: ReadonlyMap<string, number>
  /** The first seed that broke a promise; the run ends with it. */
  readonly failed: Outcome | undefined
  readonly last: Outcome
}

export async function runSeeds({ from, count, kind = 'core', steps, trace = false }: SeedsOptions): Promise<SeedsResult> {
  const template = kind === 'core' ? await createTemplate() : null
  const happened = new Map<string, number>()
  const began = performance.now()
  const sums = { seeds: 0, steps: 0, facts: 0 }
  let last!: Outcome
  for (let seed = from; seed < from + count; seed++) {
    const options = { trace, ...(steps === undefined ? {} : { steps }) }
    last = template === null ? await simulateServers(seed, options) : await simulate(seed, template, options)
    sums.seeds++
    sums.steps += last.steps
    sums.facts += last.facts
    for (const [what, times] of last.happened) happened.set(what, (happened.get(what) ?? 0) + times)
    if (last.violations.length > 0) break
  }
  return { ...sums, ms: performance.now() - began, happened, failed: last.violations.length > 0 ? last : undefined, last }
}

export function report({ seeds, steps, facts, ms, happened }: SeedsResult): string {
  const seconds = ms / 1_000
  const rows = [...happened].sort(([a], [b]) => (a < b ? -1 : 1)).map(([what, times]) => `  ${String(times).padStart(8)}  ${what}`)
  return [
    `${seeds} seeds, ${steps} steps, ${facts} facts in ${seconds.toFixed(1)} s: ${(seeds / seconds).toFixed(0)} seeds/s. It happened:`,
    ...rows,
  ].join('\n')
}

export const explain = ({ seed, violations }: Outcome, kind: Kind = 'core'): string =>
  [
    `seed ${seed} broke a promise:`,
    ...violations.map((message) => `  ${message}`),
    `node test/simulation/run.ts --kind ${kind} --seed ${seed} --trace`,
  ].join('\n')
