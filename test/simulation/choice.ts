// The part of the simulation that `npm test` runs: of each kind one history in ten, and one planted mistake in ten, chosen anew each time.
// COUNTERSIGN_TEST_CHOICE repeats a choice by its number, or asks for `all`.
import { mistakes, type Mistake } from './mistakes.ts'
import { createRandom } from './random.ts'

const HISTORIES = 2_000
const PARTS = 10
const NUMBERS = 1_000_000
export const VARIABLE = 'COUNTERSIGN_TEST_CHOICE'

export type Choice = {
  /** Given as the variable, it makes the same choice again. */
  readonly name: string
  readonly isAll: boolean
  /** The first seed, and how many there are from it on. */
  readonly histories: { readonly from: number; readonly count: number }
  readonly mistakes: readonly Mistake[]
}

export function chosenBy(name: string = String(Math.floor(Math.random() * NUMBERS))): Choice {
  if (name === 'all') return { name, isAll: true, histories: { from: 1, count: HISTORIES }, mistakes }
  if (!/^\d{1,9}$/.test(name)) throw new Error(`${VARIABLE} is ${JSON.stringify(name)}: give a number of at most nine digits, or "all"`)
  const random = createRandom(Number(name))
  const count = HISTORIES / PARTS
  const from = 1 + random.below(PARTS) * count
  const left = [...mistakes]
  const chosen = Array.from({ length: Math.ceil(mistakes.length / PARTS) }, () => left.splice(random.below(left.length), 1)[0]!)
  return { name, isAll: false, histories: { from, count }, mistakes: chosen }
}

export function wordsFor({ name, isAll, histories: { from, count }, mistakes: chosen }: Choice): string {
  if (isAll) return `the simulation runs all ${count} histories of each kind and plants all ${chosen.length} mistakes`
  return [
    `the simulation runs the histories ${from} to ${from + count - 1} of each kind and plants ${chosen.length} of ${mistakes.length} mistakes:`,
    ...chosen.map((mistake) => `  ${mistake.name}`),
    `${VARIABLE}=${name} chooses them again; npm run test:long leaves none out`,
  ].join('\n')
}
