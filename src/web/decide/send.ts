// The call that sends a person's decision, always with the digest of the shown item.
import { dropDraft } from '../server/drafts.ts'
import { call } from '../server/client.ts'
import type { Input } from '#sdk/index.ts'
import type { Item } from '../server/types.ts'
import { hold } from './outgoing.ts'

export type DecisionInput = { readonly result?: unknown; readonly reason?: string; readonly edited?: unknown; readonly sealed?: string }
const verbs: Readonly<Record<string, string>> = { approved: 'Approving', rejected: 'Rejecting', changes_requested: 'Requesting changes' }

/** Answers with the receipt; null for a vote that decided nothing yet. */
async function resolve({ request_id, digest }: Item, answer: DecisionInput): Promise<unknown> {
  const { result, reason, ...rest } = answer
  const why = reason === undefined || reason.trim() === '' ? {} : { reason: reason.trim() }
  const input = { request_id, digest, ...(result === undefined ? {} : { result }), ...why, ...rest } as Input<'execution/request.resolve'>
  return (await call('execution/request.resolve', input)).receipt ?? null
}

export function decide(item: Item, answer: DecisionInput, drafts: readonly string[] = []): void {
  hold({
    request_id: item.request_id,
    title: item.title,
    digest: item.digest,
    verb: verbs[String(answer.result)] ?? 'Answering',
    send: () => resolve(item, answer),
    arrived: () => drafts.forEach(dropDraft),
  })
}

export const DECLINING = 'Declining'
/** A no to a question that is no yes or no: the agent learns that it will not be answered, and why. */
export function decline(item: Item, reason: string): void {
  const { request_id, digest, title } = item
  hold({
    request_id,
    title,
    digest,
    verb: DECLINING,
    send: async () => (await call('execution/request.decline', { request_id, digest, reason })).receipt ?? null,
    arrived: () => dropDraft(`decline/${request_id}`),
  })
}

type Approval = Omit<Input<'collaboration/checkpoint.resolve'>, 'checkpoint_id' | 'action'>

/** An approval of a checkpoint in part or with changes; the receipt belongs to the item of the checkpoint. */
export function approveCheckpoint(item: Item, approval: Approval, drafts: readonly string[] = []): void {
  hold({
    request_id: item.request_id,
    title: item.title,
    digest: item.digest,
    verb: 'Approving',
    async send() {
      const { request_id, digest, checkpoint_id } = item
      const input = { checkpoint_id, action: 'approve', digest, ...approval } as Input<'collaboration/checkpoint.resolve'>
      await call('collaboration/checkpoint.resolve', input)
      return (await call('execution/request.get', { request_id })).receipt ?? null
    },
    arrived: () => drafts.forEach(dropDraft),
  })
}
