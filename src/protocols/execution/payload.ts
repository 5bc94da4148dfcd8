// What is asked, by action (HXP 0.1, 2).
import { Refusal } from '#kernel/errors.ts'
import { t, type Static } from '#kernel/schema.ts'

export const Payload = t.Object({}, { additionalProperties: true })
export type Payload = Static<typeof Payload>

export function payloadOf(_action: 'DECIDE' | 'APPROVE' | 'PROVIDE', raw: unknown, _fallback: 'pause' | 'fail' | 'default'): Payload {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw))
    throw new Refusal('INVALID_REQUEST', 'payload must be an object', { field: 'payload' })
  return raw as Payload
}
