// `task create --assign`: a new task with an assignee from the start.
import type { Operation, Protocol } from '#kernel/declare/operation.ts'
import type { Input } from '#sdk/client.ts'
import { derivedSpec, inputOf, keyIn } from '../derive/from-operation.ts'
import { flag } from '../derive/flags.ts'
import { sayMore } from '../output/notes.ts'
import { show } from '../output/render.ts'
import type { Spec } from '../derive/command.ts'

const ASSIGN = 'collaboration/task.assign'

export function taskCreateSpec(protocol: Protocol, op: Operation): Spec {
  const derived = derivedSpec(protocol, op)
  const spec: Spec = {
    ...derived,
    flags: [...derived.flags, flag('assign', 'assignee', 'hand it to this agent or person right away')],
    examples: [...derived.examples, "countersign task create --goal 'Fix the login bug' --assign agent_robin"],
    async run(context, given) {
      const assignee = given.get('assign') as string | undefined
      const wanted = await inputOf(context, op, derived, given)
      const remote = await context.remote()
      const created = await remote.call('collaboration/task.create', wanted as Input<'collaboration/task.create'>, keyIn(given))
      if (assignee === undefined) return show(context, op.name, created)
      const input = { task_id: created.task.id, assignee }
      if (!context.json) await show(context, op.name, created)
      const assigned = await remote.call(ASSIGN, input)
      await show(context, 'task.assign', assigned)
      sayMore(context, ASSIGN, input, assigned)
    },
  }
  return spec
}
