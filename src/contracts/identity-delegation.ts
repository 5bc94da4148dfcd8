// A card says where its agent is found: it follows the agent's registration. Runs of an agent that is there no more end.
import type { Contract } from '#kernel/declare/operation.ts'
import { Card } from '#protocols/delegation/schema.ts'

const follows = (on: string): Contract => ({
  name: `identity-delegation/${on}-syncs-the-card`,
  on: `identity/${on}`,
  call: 'delegation/card.sync',
  as: 'system',
  async input({ subject }, read) {
    const { id, disabled, projects } = subject as { id: string; disabled: boolean; projects: { project_id: string }[] }
    const card = await read.raw(Card, id)
    const isSame = card?.disabled === disabled && card.projects.join() === projects.map(({ project_id }) => project_id).join()
    return card === null || isSame ? null : { agent_id: id }
  },
})

const retires = (on: string): Contract => ({
  name: `identity-delegation/${on}-retires-the-agent`,
  on: `identity/${on}`,
  call: 'delegation/agent.retire',
  as: 'system',
  input({ subject }) {
    const { id, kind, disabled } = subject as { id: string; kind: string; disabled: boolean }
    return Promise.resolve(kind === 'agent' && (disabled || on === 'project.left') ? { agent_id: id } : null)
  },
})

export const identityToDelegation: readonly Contract[] = [
  follows('agent.updated'),
  follows('project.joined'),
  follows('project.left'),
  retires('agent.updated'),
  retires('project.left'),
]
