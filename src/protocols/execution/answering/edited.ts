// Edited details (X33): a person can correct an agent's action within the agent's schema, and approve the corrected one.
import { Refusal } from '#kernel/declare/errors.ts'
import { refuseMismatch } from '#kernel/declare/foreign-schema.ts'
import { refuseOddDetails, type ApprovePayload } from '../actions/approve.ts'
import { actions } from '../actions/index.ts'
import type { Request } from '../schema.ts'

type Edited = Readonly<Record<string, unknown>>

/** The approved details; undefined: they were not edited. Refuses an edit that does not fit, and nothing is decided. */
export function editedFor({ kind, action, quorum, payload }: Request, result: unknown, edited: Edited | undefined): Edited | undefined {
  if (edited === undefined) return undefined
  const refuse = (message: string): never => {
    throw new Refusal('INVALID_REQUEST', `edited ${message}`, { field: 'edited' })
  }
  const { details_schema } = payload as ApprovePayload
  if (kind !== 'request' || actions[action].isVerdict !== true)
    refuse('goes with an approval that an agent itself asked for: leave it out here')
  if (details_schema === undefined)
    refuse('is not possible: the agent gave no details_schema, so its details are approved as they are or rejected')
  if (quorum !== undefined) refuse('does not go with a quorum: all of them must have seen the same')
  if (result !== 'approved') refuse('goes with approved alone: leave it out where you reject')
  refuseOddDetails(edited, 'edited')
  refuseMismatch(details_schema, edited, 'INVALID_REQUEST', 'edited')
  return edited
}
