// The port of calls: their part that the protocol of requests can read.
import type { Calls } from '#kernel/ports/gate.ts'
import { Call, LongArguments, Standing } from './schema.ts'
import { suspensionOf } from './standing.ts'

export const calls: Calls = {
  async call(read, id) {
    const found = await read.raw(Call, id)
    if (found === null) return null
    const { agent_id, project_id, task_id, server, tool, rule, changed, state, unattended } = found
    return { agent_id, project_id, task_id, server, tool, rule, changed, isWaiting: state === 'waiting', unattended }
  },
  async suspended(read, scope, { rules }) {
    const standing = await read.raw(Standing, scope)
    return rules.flatMap((rule) => {
      const found = suspensionOf(standing, rule)
      return found === null ? [] : [{ rule: rule.id, call_id: found.call_id, by: found.by, at: found.at }]
    })
  },
  longArguments: (read, id) => read.raw(LongArguments, id),
}
