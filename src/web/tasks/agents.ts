// Agents that a task of a project can be assigned to.
import type { Agent } from '../server/types.ts'

export const isOffered = ({ disabled, id, projects }: Agent, project_id: string): boolean =>
  !disabled && id !== 'agent_system' && projects.some((project) => project.project_id === project_id)
