// The content of a gate's `requestState`, and the digest that binds it to a call.
import { createHash } from 'node:crypto'
import { ProtocolError } from '@modelcontextprotocol/server'
import { canonical } from '#kernel/log/canonical-json.ts'

export type Held =
  /** A round of waiting for a person. */
  | { readonly kind: 'wait'; readonly call_id: string; readonly of: string; readonly round: number; readonly since: number }
  /** The tool itself asks the user. Only this process knows the running call, by `turn`. */
  | { readonly kind: 'input'; readonly call_id: string; readonly turn: string }

const INVALID_PARAMS = -32_602
export const invalidState = (): ProtocolError =>
  new ProtocolError(INVALID_PARAMS, 'Invalid or expired requestState', { reason: 'invalid_request_state' })

/** The digest of the call that a state belongs to: the state is invalid with other arguments. */
export const digestOfRequest = (request: object): string => createHash('sha256').update(canonical(request)).digest('base64url')
