// The payload of a new request, read by its action.
import { isObject } from '#kernel/codec/strict-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { TSchema } from '#kernel/declare/schema.ts'
import { refuseUnknown, unknownFields } from '#kernel/declare/unknown-fields.ts'
import { refuse, type Fallback } from '../actions/action.ts'
import { actions, actionsWith, type Action, type Payload } from '../actions/index.ts'

/** The schema of a payload in a request. */
export const payloadInput = (action: Action): TSchema => actions[action].input

/** The payload of a new request, checked; unknown fields are refused. */
export function payloadOf(action: Action, raw: unknown, fallback: Fallback): Payload {
  const input = { payload: isObject(raw) ? withoutNulls(raw) : raw }
  refuseForeignDefault(action, input.payload, fallback)
  const payload = actions[action].read(input, fallback) as Payload
  refuseUnknown(unknownFields(payloadInput(action), input))
  return payload
}

/** Many clients write absent fields as null. */
function withoutNulls(raw: Record<string, unknown>): Record<string, unknown> {
  if (!Object.values(raw).includes(null) && !isObject(raw['validation'])) return raw
  const present = Object.entries(raw).filter(([, value]) => value !== null)
  return Object.fromEntries(present.map(([name, value]) => [name, name === 'validation' && isObject(value) ? withoutNulls(value) : value]))
}

function refuseForeignDefault(action: Action, payload: unknown, fallback: Fallback): void {
  if (actions[action].takesDefault === true) return
  const those = actionsWith('takesDefault')
  if (fallback === 'default')
    throw new Refusal('INVALID_REQUEST', `fallback default is for ${those}: nobody is taken to have answered ${action}`, {
      field: 'fallback',
    })
  if (isObject(payload) && Object.hasOwn(payload, 'default_option')) refuse(`is for ${those}, not for ${action}`, 'default_option')
}
