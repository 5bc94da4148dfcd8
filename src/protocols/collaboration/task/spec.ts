// A task's spec: completed with defaults, checked, and from then on immutable.
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Read } from '#kernel/declare/operation.ts'
import type { Static } from '#kernel/declare/schema.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { isActiveIn, refuseBlank } from '../access.ts'
import type { Task, TaskSpecInput } from '../schema.ts'
import { readableVersion } from '../artifact/versions.ts'

type SpecInput = Static<typeof TaskSpecInput>

export function specOf({ goal, acceptance_criteria = [], inputs = [], constraints = {}, review_policy }: SpecInput): Task['spec'] {
  refuseBlank(goal, 'spec.goal')
  if (constraints.max_duration !== undefined) durationMs(constraints.max_duration, 'INVALID_SPEC', 'spec.constraints.max_duration')
  const policy = review_policy && { ...review_policy, quorum: review_policy.quorum ?? 'all' }
  return { goal, acceptance_criteria, inputs, constraints, ...(policy ? { review_policy: policy } : {}) }
}

/** An artifact input locks id and version. Only its readers can name it, because that gives the executor read access. */
export async function refuseUnknownInputs(read: Read, spec: SpecInput, project_id: string, actor: Actor): Promise<void> {
  for (const [i, input] of (spec.inputs ?? []).entries()) {
    if (input.kind !== 'artifact') continue
    const field = `spec.inputs.${i}`
    if (input.version === undefined) throw new Refusal('INVALID_SPEC', `${field} names an artifact without its version`, { field })
    const found = await readableVersion(read, input.id, input.version, actor)
    if (found?.project_id !== project_id)
      throw new Refusal('INVALID_SPEC', `${field}: there is no artifact ${input.id} ${input.version} in this project`, { field })
  }
}

/** The required reviewers are different people of the project: otherwise a quorum might never be reached, or one person could reach it. */
export async function refuseUnfitReviewers(read: Read, { review_policy }: SpecInput, project_id: string): Promise<void> {
  const { required_reviewers = [] } = review_policy ?? {}
  for (const [i, who] of required_reviewers.entries()) {
    const field = `spec.review_policy.required_reviewers.${i}`
    if (required_reviewers.indexOf(who) !== i)
      throw new Refusal('INVALID_SPEC', `${field} names ${who} twice: name each reviewer once`, { field })
    const found = await read.subject(who)
    if (!isActiveIn(found, project_id) || found.kind !== 'human')
      throw new Refusal('INVALID_SPEC', `${field}: ${who} is not an active person of this project`, { field })
  }
}

/** A child task gets the autonomy and the policies of its parent, or less. */
export function narrowSpec(parent: Task['spec']['constraints'], spec: SpecInput): SpecInput {
  const { autonomy = parent.autonomy, on_expiry = [] } = spec.constraints ?? {}
  const wrong = (field: string, message: string): never => {
    throw new Refusal('INVALID_SPEC', message, { field: `spec.constraints.${field}` })
  }
  if (spec.review_policy !== undefined)
    throw new Refusal('INVALID_SPEC', 'an agent sets no review_policy: the people of the parent task review its parts', {
      field: 'spec.review_policy',
    })
  const isOpen = parent.autonomy === undefined || parent.autonomy === 'autonomous'
  if (!isOpen && autonomy !== parent.autonomy && autonomy !== 'read_only')
    wrong('autonomy', `a child task has the autonomy of its parent (${parent.autonomy}) or less`)
  const wider = on_expiry.find((policy) => policy !== 'hold' && policy !== 'escalate' && !parent.on_expiry?.includes(policy))
  if (wider !== undefined) wrong('on_expiry', `the parent task does not allow on_expiry ${wider}`)
  return autonomy === undefined ? spec : { ...spec, constraints: { ...spec.constraints, autonomy } }
}
