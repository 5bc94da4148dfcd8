// Contracts from an agent's registration to its card and runs: the card follows the registration, and runs end when
// their agent is disabled or leaves the project.
import type { Contract } from '#kernel/declare/operation.ts'
import { Card } from '#protocols/delegation/schema.ts'
import { contractsBetween, onEach } from './contract.ts'

const to = contractsBetween({ from: 'identity', to: 'delegation' })

const follows = onEach(['agent.updated', 'project.joined', 'project.left'], (on) =>
  to(`${on}-syncs-the-card`, on, 'card.sync', async ({ subject: { id, disabled, projects } }, read) => {
    const card = await read.raw(Card, id)
    const isSame = card?.disabled === disabled && card.projects.join() === projects.map(({ project_id }) => project_id).join()
    return card === null || isSame ? null : { agent_id: id }
  }),
)

const retires = onEach(['agent.updated', 'project.left'], (on) =>
  to(`${on}-retires-the-agent`, on, 'agent.retire', ({ subject: { id, kind, disabled } }) =>
    kind === 'agent' && (disabled || on === 'project.left') ? { agent_id: id } : null,
  ),
)

export const identityToDelegation: readonly Contract[] = [...follows, ...retires]
