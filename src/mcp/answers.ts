// The results of our tools. A rejection, or no answer, is an error result without structured content: a script of an agent can test `isError`
// alone, and some clients hide the text behind structured content.
import type { CallToolResult } from '@modelcontextprotocol/server'
import { actions } from '#protocols/execution/actions/index.ts'
import type { SignedReceipt } from '#protocols/execution/answering/receipt.ts'
import { DECLINED } from '#protocols/execution/answering/receipt-format.ts'
import type { RequestView } from '#protocols/execution/view.ts'
import { failureIn } from './caller.ts'

/** A request as `request.get` answers it; with a receipt it has ended. */
export type Ended = { readonly request: RequestView; readonly receipt?: SignedReceipt | undefined }

function answer(text: string, meta: Readonly<Record<string, string>>, isError: boolean): CallToolResult {
  const _meta = Object.fromEntries(Object.entries(meta).map(([name, value]) => [`countersign/${name}`, value]))
  return { content: [{ type: 'text', text }], ...(isError ? { isError: true } : {}), _meta }
}

export const outputOf = (output: unknown): CallToolResult => ({ content: [{ type: 'text', text: JSON.stringify(output) }] })

/** A refusal, or an unreachable server. */
export function refusalOf(error: unknown): CallToolResult {
  const { code, message, status, field } = failureIn(error)
  const text =
    status === undefined
      ? `Countersign cannot be asked (${message}). Call again later.`
      : `${code}: ${message.replaceAll(/\bpayload\.(?=[a-z])/g, '')}`
  return answer(text, { code, ...(field === undefined ? {} : { field }) }, true)
}

export const notAnsweredYet = (request_id: string): CallToolResult =>
  answer(
    `NOT ANSWERED YET: ${request_id} waits for a person. The arguments are right. Call again with exactly the same arguments, ` +
      `or call ask_await with request_id ${request_id}, to get the answer.`,
    { state: 'waiting', request_id, decision: 'ask' },
    true,
  )

export const collectedElsewhere = (request_id: string): CallToolResult =>
  answer(
    `NOT ANSWERED HERE: another call with the same arguments has taken the answer of ${request_id}, and it counts for one call. Repeat the call to ask again.`,
    { state: 'collected', request_id, decision: 'collected' },
    true,
  )

/** The answer of a person. Only an approval is a success. */
export function resultOf({ request, receipt }: Ended): CallToolResult {
  const { status, result, reason, edited, completed_by, basis } = receipt!
  const meta = (decision: string): Record<string, string> => ({ state: request.status, request_id: request.id, decision })
  const because = (said: string | undefined): string => (said ? `\nReason: ${said}` : '')
  if (status === 'cancelled') return answer(`NOT ANSWERED: the question was withdrawn.${because(reason)}`, meta('cancelled'), true)
  if (status === 'failed' && reason?.startsWith(DECLINED) === true)
    return answer(`DECLINED: the person does not answer this.${because(reason.slice(DECLINED.length))}`, meta('declined'), true)
  if (status === 'failed')
    return answer('NOT ANSWERED: no person answered in time. This is not a no. Repeat the call to ask again.', meta('expired'), true)
  const { yes, isVerdict } = actions[request.action]
  if (yes !== undefined && result !== yes) {
    const verdict =
      isVerdict === true
        ? 'REJECTED: a person said no. Do not do it.'
        : `${String(result).toUpperCase()}: a person says that the claim does not hold, or cannot tell.`
    return answer(`${verdict}${because(reason)}`, meta(String(result)), true)
  }
  const text = {
    result,
    ...(reason === undefined ? {} : { reason }),
    ...(edited === undefined ? {} : { edited }),
    ...(basis.kind === 'default' ? { note: 'no person answered in time: this is the default' } : {}),
    answered_by: completed_by,
    request_id: request.id,
  }
  return answer(JSON.stringify(text), meta(yes ?? 'answered'), false)
}
