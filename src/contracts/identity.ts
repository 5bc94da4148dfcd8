// Contracts from registrations and groups: the card and the runs of an agent follow it, and the open items of a person are checked again when the person
// is disabled, only reads from now on, leaves a project or comes back, and when a substitute is added or removed (X27).
import type { Contract, ContractFact, Read } from '#kernel/declare/operation.ts'
import { Card } from '#protocols/delegation/schema.ts'
import { hasPeople } from '#protocols/execution/asking/recipients.ts'
import { GROUP, groupKey, poolOf } from '#protocols/execution/schema.ts'
import { contractsBetween, onEach, textIn, type SubjectOf } from './contract.ts'

const to = contractsBetween({ from: 'identity', to: 'execution' })
type RecheckEvent = 'user.updated' | 'project.joined' | 'project.left' | 'substitute.added' | 'substitute.removed'
type Fact = ContractFact<SubjectOf<'identity', RecheckEvent>>

/** `whoseIn`: the person whose items are checked again; `timesIn`: the times at which the check is repeated. */
const recheckItems = (on: RecheckEvent, whoseIn: (fact: Fact) => string | null, timesIn: (fact: Fact) => string[] = () => []): Contract =>
  to(`${on}-looks-again`, on, 'recipient.note', async (fact, read) => {
    const person = whoseIn(fact)
    const at = timesIn(fact)
    const pools = person === null ? [] : await emptyPools(read, lostProjects(on, fact))
    return person === null ? null : [{ person, ...(at.length > 0 ? { at } : {}) }, ...pools.map((pool) => ({ person: pool }))]
  })

/** The projects that lose a person with this fact. */
function lostProjects(on: RecheckEvent, { subject, detail }: Fact): string[] {
  if (on === 'project.left') return [textIn(detail, 'project_id')!]
  if (on === 'project.joined') return textIn(detail, 'role') === 'viewer' ? [textIn(detail, 'project_id')!] : []
  const isOut = subject.disabled || (subject.kind === 'human' && subject.role === 'auditor')
  return on === 'user.updated' && isOut ? subject.projects.map(({ project_id }) => project_id) : []
}
/** Pools of projects that have no people left to take items. */
async function emptyPools(read: Read, projects: readonly string[]): Promise<string[]> {
  const found: string[] = []
  for (const project of projects) if (!(await hasPeople(read, project))) found.push(poolOf(project))
  return found
}

/** The person of the fact. Agents do not answer items. */
const subjectPerson = ({ subject: { id, kind } }: Fact): string | null => (kind === 'human' ? id : null)
const replacedPerson = ({ detail }: Fact): string | null => textIn(detail, 'person') ?? null
const span = ({ detail }: Fact): string[] => [textIn(detail, 'from'), textIn(detail, 'until')].filter((time) => time !== undefined)

/** Who comes into a group, or leaves it, comes into its items, or leaves them. */
const groupsChange = to('user.grouped-looks-again', 'user.grouped', 'recipient.note', async ({ subject, detail }, read) => {
  const groups = textIn(detail, 'groups')!.split(' ')
  const projects = [...new Set(groups.map((group) => group.split('/')[0]!))]
  const pools = await emptyPools(read, projects)
  return [{ person: subject.id }, ...groups.map((group) => ({ person: GROUP + group })), ...pools.map((pool) => ({ person: pool }))]
})

export const identityToExecution: readonly Contract[] = [
  groupsChange,
  recheckItems('user.updated', subjectPerson),
  recheckItems('project.joined', subjectPerson),
  recheckItems('project.left', subjectPerson),
  recheckItems('substitute.added', replacedPerson, span),
  recheckItems('substitute.removed', replacedPerson),
]

const within = contractsBetween({ from: 'execution', to: 'execution' })

export const executionToExecution: readonly Contract[] = onEach(['group.set', 'group.removed'], (on) =>
  within(`${on}-looks-again`, on, 'recipient.note', ({ subject: { project_id, name } }) => ({ person: groupKey(project_id, name) })),
)

// --- Cards and runs ---------------------------------------------------------------------------------------------------------------

const toDelegation = contractsBetween({ from: 'identity', to: 'delegation' })

const follows = onEach(['agent.updated', 'project.joined', 'project.left'], (on) =>
  toDelegation(`${on}-syncs-the-card`, on, 'card.sync', async ({ subject: { id, disabled, projects } }, read) => {
    const card = await read.raw(Card, id)
    const isSame = card?.disabled === disabled && card.projects.join() === projects.map(({ project_id }) => project_id).join()
    return card === null || isSame ? null : { agent_id: id }
  }),
)

const retires = onEach(['agent.updated', 'project.left'], (on) =>
  toDelegation(`${on}-retires-the-agent`, on, 'agent.retire', ({ subject: { id, kind, disabled } }) =>
    kind === 'agent' && (disabled || on === 'project.left') ? { agent_id: id } : null,
  ),
)

export const identityToDelegation: readonly Contract[] = [...follows, ...retires]
