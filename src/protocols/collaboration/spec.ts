// A task's spec: completed with defaults, checked, and from then on immutable.
import { Refusal } from '#kernel/errors.ts'
import type { Read } from '#kernel/operation.ts'
import type { Static } from '#kernel/schema.ts'
import { durationMs } from '#kernel/time.ts'
import { ArtifactVersion, versionId, type Task, type TaskSpecInput } from './schema.ts'

type SpecInput = Static<typeof TaskSpecInput>

export function specOf({ goal, acceptance_criteria = [], inputs = [], constraints = {} }: SpecInput): Task['spec'] {
  if (goal.trim() === '') throw new Refusal('INVALID_SPEC', 'spec.goal says nothing', { field: 'spec.goal' })
  if (constraints.max_duration !== undefined) durationMs(constraints.max_duration, 'INVALID_SPEC', 'spec.constraints.max_duration')
  return { goal, acceptance_criteria, inputs, constraints }
}

/** An artifact input locks id and version, and both must exist where the task can read them. */
export async function refuseUnknownInputs(read: Read, spec: SpecInput, project_id: string): Promise<void> {
  for (const [i, input] of (spec.inputs ?? []).entries()) {
    if (input.kind !== 'artifact') continue
    const field = `spec.inputs.${i}`
    if (input.version === undefined) throw new Refusal('INVALID_SPEC', `${field} names an artifact without its version`, { field })
    const found = await read.maybe(ArtifactVersion, versionId(input.id, input.version))
    if (found?.project_id !== project_id)
      throw new Refusal('INVALID_SPEC', `${field}: there is no artifact ${input.id} ${input.version} in this project`, { field })
  }
}
