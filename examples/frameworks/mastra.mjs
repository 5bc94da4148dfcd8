// Mastra: steps that call `suspend({ item, ...details })` and resume with `{ approved, reason }`. Workflows need a storage.
import { NotApproved } from 'countersign'

export async function runWithInbox(hxp, run, inputData) {
  let result = await run.start({ inputData })
  while (result.status === 'suspended')
    for (const step of result.suspended) {
      const { item, ...details } = result.steps[step[0]].suspendPayload
      result = await run.resume({ step, resumeData: await ask(hxp, item, { details, key: `${run.runId}/${step.join('.')}` }) })
    }
  return result
}

async function ask(hxp, item, options) {
  try {
    const answer = await hxp.approve(item, options)
    return { approved: answer?.result === 'approved' }
  } catch (error) {
    if (!(error instanceof NotApproved)) throw error
    return { approved: false, reason: error.reason ?? 'rejected in the inbox' }
  }
}
