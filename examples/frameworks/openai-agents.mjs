// OpenAI Agents SDK: tools with `needsApproval: true`, also those of agents that are tools. A saved state must be resumed once: the SDK would
// run its approved calls again.
import { NotApproved } from 'countersign'

export async function runWithInbox(hxp, runner, agent, input, runId) {
  let result = await runner.run(agent, input)
  while (result.interruptions?.length > 0) {
    for (const one of result.interruptions) {
      const { name, arguments: args, callId } = one.rawItem
      const details = { agent: one.agent.name, arguments: JSON.parse(args) }
      try {
        const answer = await hxp.approve(name, { details, key: `${runId}/${callId}` })
        if (answer?.result === 'approved') result.state.approve(one)
        else result.state.reject(one, { message: 'the inbox gave no answer' })
      } catch (error) {
        if (!(error instanceof NotApproved)) throw error
        result.state.reject(one, { message: error.reason ?? 'rejected in the inbox' })
      }
    }
    result = await runner.run(agent, result.state)
  }
  return result
}
