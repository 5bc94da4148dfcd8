// Translation between collaboration's questions and HXP's requests: the action that fits a question, and the meaning of each answer on the
// other side.
import { limits } from '#kernel/limits.ts'
import { judgesOf } from '#kernel/ports/tasks.ts'
import { cutTo } from '#kernel/codec/cut-text.ts'
import type { ArtifactVersion, Checkpoint, Task } from '#protocols/collaboration/schema.ts'
import { choicesIn } from '#protocols/execution/mirror/ids.ts'
import type { MirroredPayload, Request } from '#protocols/execution/schema.ts'

type Asked = Pick<
  Request,
  'kind' | 'action' | 'priority' | 'expires_at' | 'fallback' | 'timeout_seconds' | 'risk' | 'option_risks' | 'on_expiry' | 'artifact'
> & {
  readonly assigned_to: string
  readonly payload: MirroredPayload
}

/** HXP's DECIDE takes two to six options; a question with more, or with only one, is a selection (X25). */
const [DECIDE_MIN, DECIDE_MAX] = [2, 6]

/** Labels of the options, or their ids if labels are ambiguous. */
function labelsOf(options: Checkpoint['options']): string[] {
  const [ids, labels] = [options.map(({ id }) => id), options.map(({ label }) => label)]
  const isPlain = new Set(labels).size === labels.length && options.every(({ id, label }) => label === id || !ids.includes(label))
  return isPlain ? labels : ids
}

const risks: Record<Checkpoint['options'][number]['risk'], NonNullable<Request['risk']>> = { low: 'R1', medium: 'R3', high: 'R4' }
/** The highest risk of any option or action (Z2); absent if the agent names none. */
function riskOf({ options, proposed_actions }: Checkpoint): Pick<Request, 'risk'> {
  const risk = [...options, ...proposed_actions]
    .map((each) => risks[each.risk])
    .toSorted()
    .at(-1)
  return risk === undefined ? {} : { risk }
}

/** The context of the question and the agent's proposed next steps. The person sees them, and the receipt covers them. */
function detailsOf({ context, proposed_actions, state_shown, takeover, supersedes }: Checkpoint): object {
  return {
    ...(context.length > 0 ? { context } : {}),
    ...(proposed_actions.length > 0 ? { proposed_actions } : {}),
    ...(state_shown === null ? {} : { state: state_shown }),
    ...(takeover ? { takeover } : {}),
    ...(supersedes === undefined ? {} : { supersedes }),
  }
}

function payloadOf(checkpoint: Checkpoint, asksForText: boolean): { action: Request['action']; payload: MirroredPayload } {
  const { prompt, options } = checkpoint
  const found = detailsOf(checkpoint)
  const reason = checkpoint.context.find((evidence) => evidence.kind === 'text')
  const context = reason ? { context: reason.text } : {}
  const details = { ...context, ...(Object.keys(found).length > 0 ? { details: found } : {}) }
  if (options.length > 0) {
    const [labels, option_ids] = [labelsOf(options), options.map(({ id }) => id)]
    if (options.length >= DECIDE_MIN && options.length <= DECIDE_MAX)
      return { action: 'DECIDE', payload: { question: prompt, options: labels, option_ids, ...details } }
    const validation = { allowed_values: labels }
    return { action: 'PROVIDE', payload: { prompt, input_type: 'selection', validation, option_ids, ...details } }
  }
  if (asksForText)
    return { action: 'PROVIDE', payload: { prompt, input_type: 'text', validation: { max: limits.textCharsMax }, ...details } }
  return { action: 'APPROVE', payload: { item: prompt, ...context, details: found } }
}

const fallbacks: Record<Checkpoint['on_expiry'], Request['fallback']> = {
  hold: 'pause',
  escalate: 'pause',
  fail: 'fail',
  default: 'default',
}

/** The item of a checkpoint; a question that goes to the next person has the same form. */
export function askedAs(checkpoint: Checkpoint): Asked {
  const { kind, escalates = kind, raised_at, expires_at, on_expiry, routed_to } = checkpoint
  const timeout_seconds = expires_at === null ? 0 : Math.max(0, Math.ceil((Date.parse(expires_at) - Date.parse(raised_at)) / 1_000))
  return {
    kind,
    ...payloadOf(checkpoint, escalates === 'input'),
    priority: kind === 'escalation' ? 'high' : 'normal',
    assigned_to: routed_to,
    expires_at,
    timeout_seconds,
    fallback: fallbacks[on_expiry],
    on_expiry,
    ...riskOf(checkpoint),
    // Options of equal risk have the risk of the whole request.
    ...(new Set(checkpoint.options.map(({ risk }) => risk)).size > 1
      ? { option_risks: checkpoint.options.map(({ risk }) => risks[risk]) }
      : {}),
  }
}

const verdicts = { deliverable: ['approved', 'changes_requested', 'rejected'], plan: ['approved', 'changes_requested'] }

/** The item of a version that is ready for review, without its bytes. */
export function reviewAs({ artifact_id, version, type, kind, payload }: ArtifactVersion, task: Task): Asked {
  const { ownership, spec } = task
  const { uri: _, ...delivered } = payload
  const { goal, acceptance_criteria } = spec
  const question = cutTo(`Review the ${kind} (${type}, ${version}): ${goal}`, limits.promptCharsMax)
  return {
    kind: 'review',
    action: 'DECIDE',
    payload: { question, options: [...verdicts[kind]], details: { goal, acceptance_criteria, delivered } },
    priority: 'normal',
    assigned_to: judgesOf(task)[0] ?? ownership.principal,
    expires_at: null,
    timeout_seconds: 0,
    fallback: 'pause',
    artifact: { artifact_id, version },
  }
}

/** The answer at the checkpoint, in the form of the item's receipt. */
export function checkpointResult({ resolution, options }: Checkpoint, item: Request): string {
  const { action, choice, input } = resolution!
  if (action === 'choose') return labelOf(item, choice!, options)
  if (action === 'provide') return input!
  return action === 'reject' || isAllDenied(resolution!) ? 'rejected' : 'approved'
}

type Decided = NonNullable<Checkpoint['resolution']>
/** An approval that denies every proposed action. */
const isAllDenied = ({ approved_actions = [], denied_actions = [] }: Decided): boolean =>
  denied_actions.length > 0 && approved_actions.length === 0

/** The person's comment. If they denied some actions, lists of the approved and denied actions precede it. */
export function reasonOf({ comment, approved_actions = [], denied_actions = [] }: Decided): string | undefined {
  if (denied_actions.length === 0) return comment
  const quotedList = (ids: readonly string[]): string => (ids.length === 0 ? 'none' : ids.map((id) => JSON.stringify(id)).join(', '))
  const decided = `Approved actions: ${quotedList(approved_actions)}. Denied actions: ${quotedList(denied_actions)}.`
  return comment === undefined ? decided : `${decided}\n${comment}`
}

/** The label of an option as the person saw it, by its id. */
export function labelOf({ payload }: Request, id: string, options: Checkpoint['options'] = []): string {
  const { ids, labels } = choicesIn(payload)
  return labels[ids.indexOf(id)]?.toString() ?? options.find((option) => option.id === id)?.label ?? id
}
