// AG-UI: answers the interrupts of a run that ended with `outcome: { type: 'interrupt', interrupts }`. The result is `resume` of the next run.
import { NotApproved } from 'countersign'

export async function resumeFromInbox(hxp, { threadId, runId, outcome }) {
  const resume = []
  for (const { id, reason, message, toolCallId, metadata } of outcome?.type === 'interrupt' ? outcome.interrupts : []) {
    const details = { reason, ...(toolCallId && { toolCallId }), ...(metadata && { metadata }) }
    try {
      const answer = await hxp.approve(message ?? reason, { details, key: `${threadId}/${runId}/${id}` })
      if (answer?.result === 'approved') resume.push({ interruptId: id, status: 'resolved', payload: { approved: true } })
      else resume.push({ interruptId: id, status: 'cancelled' })
    } catch (error) {
      if (!(error instanceof NotApproved)) throw error
      resume.push({ interruptId: id, status: 'resolved', payload: { approved: false, reason: error.reason ?? 'rejected in the inbox' } })
    }
  }
  return resume
}
