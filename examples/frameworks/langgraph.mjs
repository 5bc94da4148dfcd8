// LangGraph: answers `interrupt(...)` with the shape of agent-inbox, [{ action_request: { action, args }, config, description }].
import { Command, INTERRUPT, isInterrupted } from '@langchain/langgraph'
import { NotApproved } from 'countersign'

export async function invokeWithInbox(hxp, graph, input, config) {
  let state = await graph.invoke(input, config)
  while (isInterrupted(state)) {
    const resume = {}
    for (const { id, value } of state[INTERRUPT]) {
      const { action, args } = [value].flat()[0].action_request
      try {
        const answer = await hxp.approve(action, { details: args, key: `${config.configurable.thread_id}/${id}` })
        const isYes = answer?.result === 'approved'
        resume[id] = [isYes ? { type: 'accept', args: null } : { type: 'response', args: 'the inbox gave no answer' }]
      } catch (error) {
        if (!(error instanceof NotApproved)) throw error
        resume[id] = [{ type: 'response', args: error.reason ?? 'rejected in the inbox' }]
      }
    }
    state = await graph.invoke(new Command({ resume }), config)
  }
  return state
}
