// Judging a submission, in this order for each step (W15): the tool exists, the policy allows it, its arguments fit, path and envelope,
// risk, rate. The lowest step that does not pass answers.
import { Refusal } from '#kernel/declare/errors.ts'
import { parse } from '#kernel/declare/schema.ts'
import type { Value } from '#kernel/log/store.ts'
import { approvalBody, approvalFor, type Approval, type SubmittedApproval } from './approval.ts'
import type { DaemonPorts, ParsedStep } from './ports.ts'
import { allowsTool, capFor, isUnder, type Policy } from './policy.ts'
import type { SubmittedTask } from './schema.ts'

export type Submission = {
  readonly session_id: string
  readonly policy: Policy
  readonly task: SubmittedTask
  readonly approval: SubmittedApproval | null
  readonly waits: boolean
  readonly now: string
}
export type Judged = {
  readonly steps: readonly ParsedStep[]
  readonly cap: number
  readonly approval: Approval | null
  readonly asks: object | null
}

export async function judgeSteps(ports: DaemonPorts, submission: Submission): Promise<Judged> {
  const { policy, task, session_id } = submission
  const { cap, byClient } = capFor(policy, task.constraints?.max_risk_level)
  const steps: ParsedStep[] = []
  let above = -1
  for (const [i, { tool: name, args = {} }] of task.steps.entries()) {
    const about = { tool: name, step_index: i }
    const step = await parseStep(ports, policy, name, args, about)
    steps.push(step)
    const objection = await ports.objectionTo(steps)
    if (objection !== null) throw new Refusal('ENVELOPE', objection, { ...about, reason: objection })
    if (step.risk_level > cap) {
      const reason = `max_risk_level=${cap} < tool=${step.risk_level}`
      if (byClient || !policy.approvals) throw new Refusal('RISK_CAP', 'the step is riskier than this session may be', { ...about, reason })
      if (above === -1) above = i
    }
    const wait = ports.take(session_id, policy, name)
    if (wait > 0)
      throw new Refusal('RATE_LIMITED', `${name} is used too often`, {
        ...about,
        reason: `the rate of ${name} for this session is used up`,
        retry_after_ms: wait,
      })
  }
  refuseHeld(ports, session_id, steps)
  if (above === -1) return { steps, cap, approval: null, asks: null }
  if (submission.approval !== null)
    return { steps, cap, approval: await approvalFor(ports, policy, steps, submission.approval, submission.now), asks: null }
  const asks = await approvalBody(ports, policy, steps, submission.now)
  if (submission.waits && ports.isLinked()) return { steps, cap, approval: null, asks }
  throw new Refusal('APPROVAL_REQUIRED', 'a person must approve this', {
    tool: steps[above]!.tool.name,
    step_index: above,
    // As the draft writes it; `approval` is the body to ask with, and then the same steps are submitted with the receipt.
    reason: `max_risk_level=${cap} < tool=${steps[above]!.risk_level}`,
    approval: asks,
  })
}

async function parseStep(ports: DaemonPorts, policy: Policy, name: string, args: Value, about: object): Promise<ParsedStep> {
  const tool = ports.toolNamed(name)
  if (!tool)
    throw new Refusal('TOOL_NOT_FOUND', `there is no tool ${JSON.stringify(name)}`, { ...about, reason: 'the tool is not registered' })
  if (!allowsTool(policy, tool))
    throw new Refusal('NOT_ALLOWED', `${name} is not allowed here`, { ...about, reason: `the policy ${policy.name} does not name ${name}` })
  const parsed = argumentsOf(tool.params_schema, args, about)
  if (tool.path) refusePath(policy, tool.path, parsed, about)
  try {
    const target = ports.targetOf(tool, parsed)
    return { tool, args: parsed, ...target, resource: target.resource ?? (await ports.resourceOf(tool, parsed)) }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw new Refusal(error.code, error.message, { ...about, reason: error.message, ...error.details })
  }
}

function argumentsOf(schema: Parameters<typeof parse>[0], args: Value, about: object): Value {
  try {
    return parse(schema, args) as Value
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw new Refusal('INVALID_PARAMS', error.message, { ...about, reason: error.message, field: error.details?.['field'] ?? null })
  }
}

function refusePath(policy: Policy, { argument, use }: { argument: string; use: 'read' | 'write' }, args: Value, about: object): void {
  const path = String(args[argument])
  if (isUnder(path, use === 'read' ? [...policy.read, ...policy.write] : policy.write)) return
  throw new Refusal('PATH_DENIED', 'the path is not on the list', {
    ...about,
    reason: `the policy ${policy.name} does not let ${path.slice(0, 200)} be ${use === 'read' ? 'read' : 'written'}`,
  })
}

/** W16: refuses resources that another session's running task holds. Tasks of the same session wait for each other. */
function refuseHeld(ports: DaemonPorts, session_id: string, steps: readonly ParsedStep[]): void {
  for (const [i, { resource, tool }] of steps.entries()) {
    const holder = resource === null ? null : ports.holderOf(resource)
    if (holder !== null && holder !== session_id)
      throw new Refusal('RESOURCE_BUSY', `${resource} is in use`, {
        tool: tool.name,
        step_index: i,
        resource,
        reason: 'a task of another session holds it',
      })
  }
}
