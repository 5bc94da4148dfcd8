// A request in the draft's JSON format (HXP 0.1, 3.1), with its outcome. An absent field is omitted, never null; only `expires_at` can be
// null.
import type { Actor } from '#kernel/declare/access.ts'
import { knownForm } from '#protocols/execution/actions/index.ts'
import { asShown } from '#protocols/execution/answering/shown-request.ts'
import type { SignedReceipt } from '#protocols/execution/answering/receipt.ts'
import type { RequestView } from '#protocols/execution/view.ts'

/** The draft has no status for a declined request: on the wire it is `failed`, and the receipt has the reason. */
export const statusOf = ({ status }: Pick<RequestView, 'status'>): string => (status === 'declined' ? 'failed' : status)

export type Got = { readonly request: RequestView; readonly receipt?: SignedReceipt }

/** Our own fields in addition to the draft's, for clients that can use them. */
const ourFields = [
  'kind',
  'risk',
  'quorum',
  'votes',
  'voted',
  'thread',
  'escalated_at',
  'claimed_until',
  'task_id',
  'checkpoint_id',
  'asked_until',
  'no_decider',
] as const

/** A person gets the agent's texts with hidden and direction-changing characters made visible; a page of another origin, only the draft's actions. */
export function shapeFor({ kind }: Actor, { request, ...got }: Got, isPage: boolean): Record<string, unknown> {
  const view = kind === 'human' ? asShown(request) : request
  return shapeOf({ request: isPage ? knownForm(view) : view, ...got })
}

export function shapeOf({ request, receipt }: Got): Record<string, unknown> {
  const { id, action, role, priority, timeout_seconds, fallback, agent_id, label, metadata, tags, created_at, expires_at } = request
  const json: Record<string, unknown> = {
    request_id: id,
    status: statusOf(request),
    action,
    role,
    priority,
    timeout_seconds,
    fallback,
    agent_id,
    metadata,
    created_at,
    expires_at,
    payload: request.payload,
    overdue: request.overdue,
  }
  if (label !== undefined) json['project_id'] = label
  if (tags.length > 0) json['tags'] = tags
  if (request.assigned_to !== null) json['assigned_to'] = request.assigned_to
  if (request.assigned_at !== null) json['assigned_at'] = request.assigned_at
  for (const name of ourFields) if (request[name] !== undefined) json[name] = request[name]
  if (receipt !== undefined) json['receipt'] = receipt
  return json
}
