// Floors under the risk that an agent states (X34), from the agent's owner and from its project. They raise the risk and never lower it.
import type { Read } from '#kernel/declare/operation.ts'
import type { Request, Risk } from '../schema.ts'
import { Policy, type Floor } from './preferences.ts'

type Floored = {
  readonly requester: string
  readonly tags: readonly string[]
  /** Of the grants that could answer it. */
  readonly scopes: readonly string[]
  readonly target: string | null
}
/** As with grants, `deploy:*` is every scope that begins so. */
const coversScope = (family: string, scope: string): boolean =>
  scope === family || (family.endsWith(':*') && scope.startsWith(family.slice(0, -1)))
const coversAsked = ({ agent_id, tag, scope, target }: Floor, asked: Floored): boolean =>
  (agent_id === undefined || agent_id === asked.requester) &&
  (tag === undefined || asked.tags.includes(tag)) &&
  (scope === undefined || asked.scopes.some((asking) => coversScope(scope, asking))) &&
  (target === undefined || target === asked.target)

/** The greatest matching floor of all policies, with its text and its owner; null: none matches. */
function floorFor(policies: readonly (Policy | null)[], asked: Floored): { readonly risk: Risk; readonly rule: string } | null {
  let found: { risk: Risk; rule: string } | null = null
  for (const policy of policies)
    for (const floor of policy?.floors ?? [])
      if (coversAsked(floor, asked) && (found === null || floor.risk > found.risk))
        found = { risk: floor.risk, rule: ruleText(floor, policy!.id) }
  return found
}
function ruleText({ risk, ...conditions }: Floor, whose: string): string {
  const parts = Object.entries(conditions).map(([name, value]) => `${name === 'agent_id' ? 'agent' : name} ${value}`)
  return `at least ${risk} for ${parts.length === 0 ? 'everything' : parts.join(', ')}, set by ${whose}`
}

type Said = Floored & { readonly project_id: string; readonly said: Risk | undefined }
type Raised = { readonly risk: Risk | undefined; readonly floor: Request['floor'] }
/** Raises the risk of agents' requests only: people and the system have no owner whose floors would apply. */
export async function raisedRisk(read: Read, { project_id, said, ...asked }: Said): Promise<Raised> {
  const owner = (await read.subject(asked.requester))?.owner ?? null
  if (owner === null) return { risk: said, floor: undefined }
  const found = floorFor([await read.raw(Policy, owner), await read.raw(Policy, project_id)], asked)
  if (found === null) return { risk: said, floor: undefined }
  return { risk: said === undefined || said < found.risk ? found.risk : said, floor: { said: said ?? null, ...found } }
}
