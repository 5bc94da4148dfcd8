// The phrase that a person types before an answer of great risk is sent; page and command line take the rule from here.
import type { Output } from './client.ts'

type Guarded = Pick<Output<'execution/inbox.get'>['item'], 'guard' | 'options'>

/** The phrase for this answer. An option whose own risk is below R4 needs none. */
export function phraseFor({ guard, options }: Guarded, answer: unknown): string | null {
  const optionRisk = options?.find(({ label }) => label === answer)?.risk ?? null
  return optionRisk !== null && optionRisk < 'R4' ? null : guard.confirm
}
