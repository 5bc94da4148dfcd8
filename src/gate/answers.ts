// The answers of a gate in place of the tool's. Each is an error result with `_meta`, never structured content: a script of an agent can
// test `isError` alone, and some clients hide the text behind structured content.
import type { CallToolResult } from '@modelcontextprotocol/server'
import { limits } from '#kernel/limits.ts'
import type { CallView } from './port.ts'

export const AWAIT_TOOL = 'countersign_await'

type OwnAnswer = CallToolResult & { readonly content: readonly { readonly type: 'text'; readonly text: string }[] }
/** Whether a result is the gate's own: results of the upstream have no `_meta` here. */
export const isOwn = (result: Readonly<Record<string, unknown>>): result is OwnAnswer =>
  Object.keys(result['_meta'] ?? {}).some((key) => key.startsWith('countersign/'))

function answer(text: string, meta: Readonly<Record<string, string | null | undefined>>): CallToolResult {
  const _meta = Object.fromEntries(
    Object.entries(meta).flatMap(([name, value]) => (value === null || value === undefined ? [] : [[`countersign/${name}`, value]])),
  )
  return { content: [{ type: 'text', text }], isError: true, _meta }
}

export function notRunYet(view: CallView, tool: string): CallToolResult {
  const link = view.url ? ` A person can answer it at ${view.url}` : ''
  const text =
    `NOT RUN YET: ${tool} waits for approval ${view.request_id ?? view.call_id}.${link}\n` +
    'The arguments are right. Call again with exactly the same arguments, ' +
    `or call ${AWAIT_TOOL} with call_id ${view.call_id} to wait for the answer.`
  return answer(text, { state: 'waiting', call_id: view.call_id, decision: 'ask', rule: view.rule })
}

const verdicts: Readonly<Record<string, string>> = {
  rejected: 'NOT RUN: a person rejected this call.',
  denied: 'NOT RUN: the policy denies this call.',
  expired: 'NOT RUN: no person answered in time. This is not a no.',
  cancelled: 'NOT RUN: the question was withdrawn.',
}
const LAPSED = 'NOT RUN: a person approved this call, and it was not collected in time.'

function verdictOf({ state, decision, request_id }: CallView): string {
  if (state === 'expired' || state === 'cancelled') return state
  return decision === 'deny' || !request_id ? 'denied' : 'rejected'
}

export function refusalText(view: CallView): string {
  const verdict = verdictOf(view)
  const lines = [
    verdict === 'expired' && view.basis?.kind === 'human' ? LAPSED : verdicts[verdict],
    view.rule ? `Rule: ${view.rule}.` : null,
    view.reason ? `Reason: ${view.reason}` : null,
    view.instead ? `Instead: ${view.instead}` : verdict === 'expired' ? 'Repeat the call to ask again.' : 'Do not repeat it unchanged.',
  ]
  return lines.filter((line) => line !== null).join('\n')
}

export const refusalOf = (view: CallView): CallToolResult =>
  answer(refusalText(view), { state: view.state, call_id: view.call_id, decision: verdictOf(view), rule: view.rule })

export const tooLong = (): CallToolResult =>
  answer(
    `NOT RUN: the call is too large for a person to approve; its arguments have at most ${limits.gateArgumentsBytesMax} bytes. Send less, such as the path of a file.`,
    { state: 'denied', decision: 'denied' },
  )

export const unreachable = (why: string): CallToolResult =>
  answer(`NOT RUN: Countersign cannot be asked (${why}). Nothing runs without its answer; call again later.`, {
    state: 'unreachable',
    decision: 'unreachable',
  })

export const refusedKey = (why: string): CallToolResult =>
  answer(`NOT RUN: Countersign refuses this call (${why}).`, { state: 'refused', decision: 'refused' })

export const outcomeUnknown = (call_id: string, why: string): CallToolResult =>
  answer(
    `OUTCOME UNKNOWN: the tool was started, and ${why}. It may have acted. Check before you call again; a repeated call is decided again.`,
    { state: 'begun', call_id, decision: 'unknown' },
  )

export const approvedNow = (view: CallView): CallToolResult =>
  answer('APPROVED, not run yet: call the tool again with exactly the same arguments, and it runs.', {
    state: 'approved',
    call_id: view.call_id,
    rule: view.rule,
  })

export const tooLarge = (call_id: string, size: number, max: number, hash: string): CallToolResult =>
  answer(`The tool ran, but its result has ${size} bytes; at most ${max} are passed on. SHA-256: ${hash}`, { state: 'ended', call_id })

export const notOffered = (tool: string, why: string): CallToolResult =>
  answer(`NOT RUN: ${JSON.stringify(tool)} ${why}.`, { state: 'denied', decision: 'denied' })
