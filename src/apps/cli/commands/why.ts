// `audit why`: the path from something in the record to the person who answers for it, one line a step.
import type { Operation, Protocol } from '#kernel/declare/operation.ts'
import type { Input, Output } from '#sdk/client.ts'
import { derivedSpec, inputOf } from '../derive/from-operation.ts'
import type { Context, Spec } from '../derive/command.ts'
import { exits, type Exit } from '../exit-codes.ts'
import { writeJson } from '../output/render.ts'
import { escapeControl } from '../output/safe-text.ts'

const WHY = 'collaboration/audit.why'
type Why = Output<typeof WHY>
type Step = Why['steps'][number]

const actorIn = ({ actor, behalf }: Step): string => {
  const name = actor!.name === null ? actor!.id : `${actor!.name} (${actor!.id})`
  return behalf === null ? name : `${name} for ${behalf}`
}

function lineOf(step: Step, { paint }: Context): string {
  if (step.hidden) return `${paint('dim', 'a step that you may not read')}\n`
  const place = paint('dim', `${step.project_id} ${step.seq}, ${step.at}, ${step.hash!.slice(0, 8)}…`)
  const signed = step.signed_by_passkey ? `, ${paint('green', 'signed by passkey')}` : ''
  const receipt = step.receipt_id === null ? '' : `, receipt ${step.receipt_id}`
  const what = `${step.action!.slice(step.action!.indexOf('/') + 1)} ${step.subject_id}`
  return `${escapeControl(what)}\n     by ${escapeControl(actorIn(step))}, ${escapeControl(step.basis!.message)}${receipt}${signed}\n     ${place}\n`
}

function pathText({ steps, person, gaps }: Why, context: Context): string {
  const { paint } = context
  const lines = steps.map((step, i) => `${i === 0 ? ' ' : '↑'} ${String(i + 1).padStart(2)} ${lineOf(step, context)}`)
  const end =
    person === null
      ? gaps.map((gap) => `${paint('yellow', '!')} no person answers for it: ${escapeControl(gap)}\n`).join('')
      : `${paint('green', '✔')} ${escapeControl(person)} answers for it\n`
  return lines.join('') + end
}

export function whySpec(protocol: Protocol, op: Operation): Spec {
  const derived = derivedSpec(protocol, op)
  const commandSpec: Spec = {
    ...derived,
    examples: ['countersign audit why task_…', 'countersign audit why rcp_… --json'],
    async run(context, given): Promise<Exit> {
      const input = (await inputOf(context, op, commandSpec, given)) as Input<typeof WHY>
      const why = await (await context.remote()).call(WHY, input)
      if (context.json) writeJson(context, why)
      else context.io.out.write(pathText(why, context))
      return why.person === null ? exits.refused : exits.ok
    },
  }
  return commandSpec
}
