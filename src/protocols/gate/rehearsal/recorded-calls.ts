// The calls of the record that a rehearsal looks at, each with the policies of today and the answer that a person gave.
import type { Context, Read } from '#kernel/declare/operation.ts'
import { limits } from '#kernel/limits.ts'
import type { Proposed } from '#kernel/policy/evaluate.ts'
import type { GatePolicy, Risk } from '#kernel/policy/gate-policy.ts'
import { recordedCall } from '../arguments/kept-arguments.ts'
import { Call } from '../schema.ts'
import { policiesFor, withStanding, type PolicyWithStanding } from '../standing.ts'

export type RecordedCall = {
  readonly call: Call
  readonly proposed: Proposed & { readonly isKept: (at: string) => boolean }
  readonly answer: 'approved' | 'rejected' | null
  /** The greater of the rule's risk and the shown risk. */
  readonly risk: Risk | null
  readonly policies: readonly PolicyWithStanding[]
}

/** The calls of a project, of the agents of a person, or all that the person can see. */
export type Within = { readonly scope: string; readonly project_id: string | null; readonly owner: string | null }
type Time = { readonly since: string; readonly until: string }

/** A later answer does not count: the same rehearsal has the same result. */
function answerOf({ basis, state, decided_at }: Call, until: string): RecordedCall['answer'] {
  if (basis.kind !== 'human' || decided_at === null || decided_at > until) return null
  return state === 'denied' ? 'rejected' : 'approved'
}

/** The risk, which a floor can have raised above the rule's. */
async function riskOf(read: Read, { request_id, risk }: Call): Promise<Risk | null> {
  const asked = request_id === null ? null : await read.ports.requests.request(read, request_id)
  return asked?.risk ?? risk
}

const PAGE = 500
async function callsIn(read: Read, { project_id, owner }: Within, { since, until }: Time, projects: readonly string[] | 'all') {
  const prefixes = project_id !== null ? [[project_id]] : projects === 'all' ? [[]] : projects.map((id) => [id])
  const found: Call[] = []
  let after: string | undefined
  for (;;) {
    const listed = await read.list(Call, 'project', prefixes, { limit: PAGE, reverse: true, ...(after === undefined ? {} : { after }) })
    for (const { id } of listed) {
      const call = await read.maybe(Call, id)
      if (call === null || call.created_at > until) continue
      if (call.created_at < since) return { calls: found, isCut: false }
      if (owner !== null && (await read.subject(call.agent_id))?.owner !== owner) continue
      if (found.length === limits.rehearsedCallsMax) return { calls: found, isCut: true }
      found.push(call)
    }
    const last = listed.at(-1)
    if (last === undefined || listed.length < PAGE) return { calls: found, isCut: false }
    after = last.at
  }
}

/** Recorded calls, newest first. With `gate`, that policy replaces the scope's own. */
export async function recordedCalls(read: Read, within: Within, time: Time, { actor, notary }: Context, gate?: GatePolicy) {
  const projects = actor.projects === 'all' ? 'all' : [...actor.projects.keys()]
  const { calls, isCut } = await callsIn(read, within, time, projects)
  const { scope } = within
  const tried = gate === undefined ? null : await withStanding(read, { scope, policy: gate, updated_at: null })
  const known = new Map<string, readonly PolicyWithStanding[]>()
  const policiesOf = async ({ project_id, agent_id }: Call): Promise<readonly PolicyWithStanding[]> => {
    const owner = (await read.subject(agent_id))?.owner ?? null
    const key = `${project_id} ${owner}`
    const policies = known.get(key) ?? (await policiesFor(read, project_id, owner))
    known.set(key, policies)
    return policies
  }
  const recorded: RecordedCall[] = []
  for (const call of calls) {
    const policies = await policiesOf(call)
    recorded.push({
      call,
      proposed: await recordedCall(read, call, notary),
      answer: answerOf(call, time.until),
      risk: await riskOf(read, call),
      policies: tried === null ? policies : withPolicy(policies, tried),
    })
  }
  return { recorded, isCut }
}

export const withPolicy = (policies: readonly PolicyWithStanding[], tried: PolicyWithStanding): PolicyWithStanding[] => [
  ...policies.filter(({ scope }) => scope !== tried.scope),
  tried,
]
