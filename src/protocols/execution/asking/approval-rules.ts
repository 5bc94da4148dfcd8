// The checks of rules for approvals when an owner sets them: the risks differ, the groups exist, and each rule leaves enough people.
import { actsIn } from '#kernel/declare/access.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { limits } from '#kernel/limits.ts'
import type { ApprovalRule } from '../schema.ts'
import { groupPeople } from './approvals.ts'
import { isPersonOf } from './recipients.ts'

type Misfit = { readonly field: string; readonly message: string }

/** The people of a rule who can be asked: in the project, or in any project if it is a rule of the installation. */
async function peopleIn(read: Read, { by }: ApprovalRule, project_id: string | null): Promise<{ people: string[]; misfit: Misfit | null }> {
  const projects = project_id === null ? await read.ports.names.projects(read, limits.projectsPerListMax) : [project_id]
  const found = new Set<string>()
  for (const id of by.people ?? []) {
    const subject = await read.subject(id)
    const isThere =
      project_id === null
        ? subject !== null && [...subject.projects.keys()].some((one) => actsIn(subject, one))
        : actsIn(subject, project_id)
    if (!isThere) return { people: [], misfit: { field: 'by.people', message: `${id} is no person who can answer here` } }
    found.add(id)
  }
  for (const name of by.groups ?? []) {
    let isKnown = false
    for (const project of projects)
      for (const id of await groupPeople(read, project, name))
        if (await isPersonOf(read, id, project)) {
          isKnown = true
          found.add(id)
        }
    if (!isKnown) return { people: [], misfit: { field: 'by.groups', message: `there is no group ${name} with people who can answer` } }
  }
  return { people: [...found], misfit: null }
}

/** Why a rule cannot be set as it is; null: it can. */
async function misfitOf(read: Read, rule: ApprovalRule, project_id: string | null): Promise<Misfit | null> {
  if (rule.by.groups === undefined && rule.by.people === undefined) return { field: 'by', message: 'name groups or people' }
  const { people, misfit } = await peopleIn(read, rule, project_id)
  if (misfit !== null) return misfit
  const { quorum = 1, excludes = [] } = rule
  if (people.length < quorum) return { field: 'quorum', message: `only ${people.length} people are named, and ${quorum} have to agree` }
  if (project_id === null || !excludes.includes('agent_owner') || people.length > quorum) return null
  // Without anyone to spare, the rule must not name a person who answers for an agent of the project.
  const owners = await read.people({ agentOwnersIn: project_id })
  const owner = owners.find(({ id }) => people.includes(id))
  if (owner === undefined) return null
  return {
    field: 'excludes',
    message: `${owner.id} answers for an agent of the project, and without them too few people are left: name one more`,
  }
}

/** The first mistake in rules for approvals of a project, or of the installation. */
export async function misfitIn(read: Read, approvals: readonly ApprovalRule[], project_id: string | null): Promise<Misfit | null> {
  const risks = new Set<string>()
  for (const [i, rule] of approvals.entries()) {
    if (risks.has(rule.from_risk)) return { field: `approvals.${i}.from_risk`, message: `another rule begins at ${rule.from_risk}` }
    risks.add(rule.from_risk)
    const misfit = await misfitOf(read, rule, project_id)
    if (misfit !== null) return { ...misfit, field: `approvals.${i}.${misfit.field}` }
  }
  return null
}
