// A person who is switched off, leaves a project or comes back, and a substitute who is named or sent away: what is open for them is
// looked at again (X27).
import type { Contract, ContractFact } from '#kernel/operation.ts'

type Told = { readonly person?: string; readonly from?: string; readonly until?: string }

const looksAgain = (
  on: string,
  whoseIn: (fact: ContractFact) => string | null,
  timesIn: (detail: Told) => string[] = () => [],
): Contract => ({
  name: `identity-execution/${on}-looks-again`,
  on: `identity/${on}`,
  call: 'execution/recipient.note',
  as: 'system',
  input(fact) {
    const person = whoseIn(fact)
    const at = timesIn(fact.detail ?? {})
    return Promise.resolve(person === null ? null : { person, ...(at.length > 0 ? { at } : {}) })
  },
})

/** Agents answer nothing. */
const themself = ({ subject }: ContractFact): string | null => {
  const { id, kind } = subject as { id: string; kind: string }
  return kind === 'human' ? id : null
}
const replaced = ({ detail }: ContractFact): string | null => (detail as Told | null)?.person ?? null

export const identityToExecution: readonly Contract[] = [
  looksAgain('user.updated', themself),
  looksAgain('project.joined', themself),
  looksAgain('project.left', themself),
  looksAgain('substitute.added', replaced, ({ from, until }) => [from, until].filter((time) => time !== undefined)),
  looksAgain('substitute.removed', replaced),
]
