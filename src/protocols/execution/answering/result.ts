// The results that fit a request. A refusal never repeats the answer: it may be a secret.
import { canonical } from '#kernel/log/canonical-json.ts'
import { limits } from '#kernel/limits.ts'
import { refuseResult, type Result } from '../actions/action.ts'
import { actions, type Action, type Payload } from '../actions/index.ts'
import { lengthOf } from '../actions/provided-value.ts'
import { isBlank } from '../asking/hostile-text.ts'

export type Resolution = { readonly result: Result; readonly reason?: string }

/** The text that section 4.2 of the draft hashes: a text as it is, anything else as canonical JSON. */
export const resultText = (result: unknown): string => (typeof result === 'string' ? result : canonical(result))

/** The answer in the form of the receipt, or a refusal that says which answers are valid. */
export function resultOf(action: Action, payload: Payload, raw: { readonly result: unknown; readonly reason?: string | null }): Resolution {
  const reason = reasonOf(raw.reason)
  const result = actions[action].result(payload, raw.result)
  if (reason !== undefined) return { result, reason }
  if (actions[action].needsReason?.(payload, result) === true) refuseResult('is required for a rejection', 'reason')
  return { result }
}

function reasonOf(reason: unknown): string | undefined {
  if (reason === undefined || reason === null) return undefined
  if (typeof reason !== 'string') return refuseResult('must be a text', 'reason')
  if (lengthOf(reason) > limits.reasonCharsMax) refuseResult(`has more than ${limits.reasonCharsMax} characters`, 'reason')
  return isBlank(reason) ? undefined : reason
}
