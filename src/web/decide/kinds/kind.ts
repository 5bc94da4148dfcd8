// The props of a kind of question, and the comment that goes with an answer.
import type { Item } from '../../server/types.ts'
import type { Comment } from '../approve.tsx'
import { isVerdict } from './words.ts'

export type KindProps = {
  readonly item: Item
  readonly settled: boolean
  readonly blocked: string | undefined
  readonly isReadToEnd: boolean
  readonly isShown: boolean
  readonly isEditing: boolean
  readonly isCommenting: boolean
  advance(): void
}
export const canChange = ({ kind, card }: Item): boolean =>
  kind === 'review' && card.payload.options?.includes('changes_requested') === true
/** An answer to an escalation or an interrupt is itself a message to the agent, so it has no separate comment. */
export const isTalk = ({ kind, action }: Item): boolean => isVerdict(action) && (kind === 'escalation' || kind === 'interrupt')
export const canComment = (item: Item): boolean => (isVerdict(item.action) || item.kind === 'review') && !isTalk(item)
export const commentOn = (isOpen: boolean): Comment => ({
  label: 'Comment',
  note: 'Goes to the agent with your yes.',
  isRequired: false,
  isOpen,
})
export const withComment = (comment: string): { readonly reason?: string } => (comment === '' ? {} : { reason: comment })
export const yesDrafts = ({ request_id }: Item): string[] => [`comment/${request_id}`]

export const rejectWords = ({ reject_ends_task }: Item): string => (reject_ends_task ? 'Reject and end the task' : 'Reject')
