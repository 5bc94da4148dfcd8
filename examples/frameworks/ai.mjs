// Vercel AI SDK: `generateText({ model, tools, prompt, toolApproval: inboxApproval(client.hxp, runId) })`, also for streamText and ToolLoopAgent.
// Pass a `runId` that differs for each run, because models repeat their call ids.
import { NotApproved } from 'countersign'

export const inboxApproval =
  (hxp, runId) =>
  async ({ toolCall: { toolName, toolCallId, input } }) => {
    try {
      const answer = await hxp.approve(toolName, { details: input, key: `${runId}/${toolCallId}` })
      if (answer?.result === 'approved') return { type: 'approved' }
      // The SDK runs the tool if this function returns nothing.
      return { type: 'denied', reason: 'the inbox gave no answer' }
    } catch (error) {
      if (error instanceof NotApproved) return { type: 'denied', reason: error.reason ?? 'rejected in the inbox' }
      throw error
    }
  }
