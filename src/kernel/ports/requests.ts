// The port of requests: the part of questions to people and their answers that other protocols can read.
import type { Notary } from './notary.ts'
import type { Risk } from '../policy/gate-policy.ts'
import type { Listed, ListPage, Read } from '../declare/operation.ts'
import type { Covered } from './passkeys.ts'

export type KnownRequest = { readonly id: string; readonly status: string; readonly risk?: Risk | undefined }
export type KnownAnswer = {
  readonly id: string
  readonly title: string
  readonly scope: string
  readonly result: unknown
  readonly by: string
  readonly at: string
}

/** The item in the inbox that stands for a question of another protocol. */
export type AnsweredItem = {
  readonly risk: Risk | undefined
  /** The question, and how people are shown it. */
  digests(): Pick<Covered, 'subject_digest' | 'shown_digest'>
}
export type KnownReceipt = { readonly receipt: object; readonly request: object }

export type Requests = {
  request(read: Read, id: string): Promise<KnownRequest | null>
  /** Answered questions of an agent, by the case that they are about. */
  cases(read: Read, project_id: string, requester: string, page: ListPage): Promise<Listed[]>
  /** The signed receipt of a request that has ended, and the request as it was asked; null: it has none. Without an access check. */
  receipt(read: Read, id: string, notary: Notary): Promise<KnownReceipt | null>
  /** The answer to a request; null: it is absent, or the actor cannot see it. */
  answer(read: Read, id: string): Promise<KnownAnswer | null>
  /** `request_id`: the request that the agent itself made, if it did. */
  itemOfCheckpoint(read: Read, checkpoint: { readonly id: string; readonly request_id?: string | undefined }): Promise<AnsweredItem | null>
  itemOfReview(read: Read, task_id: string): Promise<AnsweredItem | null>
}
