// APPROVE: a person says yes or no to something, and can edit its details within the agent's schema.
import { canonical } from '#kernel/log/canonical-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { refuseMismatch, schemaProblem } from '#kernel/declare/foreign-schema.ts'
import { limits } from '#kernel/limits.ts'
import { parse, t, type Static } from '#kernel/declare/schema.ts'
import { refuseHostileLabel } from '../asking/hostile-text.ts'
import { Context, oneOf, refuse, refuseUnreadable, text, type HumanAction } from './action.ts'

const Payload = t.Object({
  item: text(limits.questionCharsMax),
  details: t.Object({}, { additionalProperties: true }),
  context: Context,
  reject_requires_reason: t.Optional(t.Boolean()),
  details_schema: t.Optional(
    t.Object({}, { additionalProperties: true, description: 'ours: a JSON Schema; the person may edit the details within it and approve' }),
  ),
  scope: t.Optional(
    t.String({ minLength: 1, maxLength: limits.nameCharsMax, description: 'ours: the scope of a grant that may answer it' }),
  ),
})
export type ApprovePayload = Static<typeof Payload>
const Input = t.Object({ payload: t.Object({ ...Payload.properties, details: t.Optional(Payload.properties.details) }) })

export const approve = {
  asks: 'approval',
  payload: Payload,
  input: Input,
  read(input) {
    const { details = {}, ...payload } = parse(Input, input).payload
    refuseUnreadable(payload.item, 'item')
    if (payload.scope !== undefined) refuseUnreadable(payload.scope, 'scope', refuseHostileLabel)
    refuseOddDetails(details, 'payload.details')
    const { details_schema } = payload
    if (details_schema !== undefined) {
      if (bytesIn(details_schema) > limits.detailsBytesMax) refuse(`is larger than ${limits.detailsBytesMax} bytes`, 'details_schema')
      const problem = schemaProblem(details_schema, 'payload.details')
      if (problem !== null) throw new Refusal('INVALID_REQUEST', problem, { field: 'payload.details_schema' })
      // Details that do not fit their own schema could never be edited.
      refuseMismatch(details_schema, details, 'INVALID_REQUEST', 'payload.details')
    }
    return { ...payload, details }
  },
  question: ({ item }) => item,
  options: () => null,
  result: (_, value) => oneOf(['approved', 'rejected'], value),
  needsReason: ({ reject_requires_reason }, result) => result === 'rejected' && reject_requires_reason === true,
  effects: { approve: 'may go ahead', reject: 'may not go ahead' },
  checkpoint: 'approval',
  isVerdict: true,
  yes: 'approved',
  votesFor: 'approval',
} as const satisfies HumanAction<ApprovePayload>

/** Refuses details that are larger or deeper than a question can have. */
export function refuseOddDetails(details: object, field: string): void {
  const wrong = (message: string): never => {
    throw new Refusal('INVALID_REQUEST', `${field} ${message}`, { field })
  }
  if (isDeeper(details, limits.detailsDepthMax)) wrong(`is nested more than ${limits.detailsDepthMax} deep`)
  if (bytesIn(details) > limits.detailsBytesMax) wrong(`is larger than ${limits.detailsBytesMax} bytes`)
}

const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === 'object' && value !== null && (levels === 0 || Object.values(value).some((held) => isDeeper(held, levels - 1)))

function bytesIn(details: object): number {
  try {
    return new TextEncoder().encode(canonical(details)).length
  } catch {
    return refuse('is not JSON', 'details')
  }
}
