// The input of a call: its shape, the claims about its sender, and unknown fields.
import { refuseFalseClaims, withoutClaims, type Actor } from '../declare/access.ts'
import type { Operation } from '../declare/operation.ts'
import { parse } from '../declare/schema.ts'
import { refuseUnknown, unknownFields } from '../declare/unknown-fields.ts'

export function inputOf(op: Operation, raw: unknown, actor: Actor): unknown {
  const input: unknown = parse(op.input, raw)
  const declared = (op.input as { properties?: object }).properties ?? {}
  refuseFalseClaims(raw, declared, actor)
  // Stored calls of the system can come from an earlier version.
  if (actor.kind !== 'system') refuseUnknown(unknownFields(op.input, withoutClaims(raw, declared)))
  return input
}
