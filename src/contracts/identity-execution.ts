// A person who is switched off, leaves a project or comes back, and a substitute who is named or sent away: what is open for them is
// looked at again (X27).
import type { Contract, ContractFact, Read } from '#kernel/declare/operation.ts'
import { hasPeople } from '#protocols/execution/asking/recipients.ts'
import { poolOf } from '#protocols/execution/schema.ts'

type Told = { readonly person?: string; readonly project_id?: string; readonly from?: string; readonly until?: string }
type Member = {
  readonly id: string
  readonly kind: string
  readonly disabled: boolean
  readonly projects: { readonly project_id: string }[]
}

const looksAgain = (
  on: string,
  whoseIn: (fact: ContractFact) => string | null,
  timesIn: (detail: Told) => string[] = () => [],
): Contract => ({
  name: `identity-execution/${on}-looks-again`,
  on: `identity/${on}`,
  call: 'execution/recipient.note',
  as: 'system',
  async input(fact, read) {
    const person = whoseIn(fact)
    const at = timesIn(fact.detail ?? {})
    const pools = person === null ? [] : await emptyPools(read, lostIn(fact))
    return person === null ? null : [{ person, ...(at.length > 0 ? { at } : {}) }, ...pools.map((pool) => ({ person: pool }))]
  },
})

/** The projects that have one person less with it. */
function lostIn({ action, subject, detail }: ContractFact): string[] {
  if (action === 'identity/project.left') return [(detail as Told).project_id!]
  const { disabled, projects } = subject as Member
  return action === 'identity/user.updated' && disabled ? projects.map(({ project_id }) => project_id) : []
}
/** The pools from which nobody is left to take anything. */
async function emptyPools(read: Read, projects: readonly string[]): Promise<string[]> {
  const found: string[] = []
  for (const project of projects) if (!(await hasPeople(read, project))) found.push(poolOf(project))
  return found
}

/** Agents answer nothing. */
const themself = ({ subject }: ContractFact): string | null => {
  const { id, kind } = subject as Member
  return kind === 'human' ? id : null
}
const replacedPerson = ({ detail }: ContractFact): string | null => (detail as Told | null)?.person ?? null

export const identityToExecution: readonly Contract[] = [
  looksAgain('user.updated', themself),
  looksAgain('project.joined', themself),
  looksAgain('project.left', themself),
  looksAgain('substitute.added', replacedPerson, ({ from, until }) => [from, until].filter((time) => time !== undefined)),
  looksAgain('substitute.removed', replacedPerson),
]
