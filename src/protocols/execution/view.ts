// A request as its audience sees it: people see `personView`, agents `agentView` of schema.ts.
import type { Actor } from '#kernel/declare/access.ts'
import { pick, t, type Static } from '#kernel/declare/schema.ts'
import { forAgents, Request } from './schema.ts'

/** Without `receipt`: answers have it signed, next to the request. */
export const personView = pick(Request.schema, [
  'id',
  'kind',
  'action',
  'role',
  'priority',
  'timeout_seconds',
  'fallback',
  'agent_id',
  'requester',
  'project_id',
  'label',
  'metadata',
  'tags',
  'payload',
  'created_at',
  'expires_at',
  'status',
  'owner',
  'people',
  'assigned_to',
  'assigned_at',
  'overdue',
  'details_order',
  'gone',
  'no_decider',
  'asked_with',
  'risk',
  'option_risks',
  'floor',
  'approval',
  'quorum',
  'votes',
  'claimed_until',
  'escalation',
  'escalated_at',
  'escalated_to',
  'called',
  'remind_seconds',
  'reminders',
  'reminded_at',
  'asked_until',
  'snoozed',
  'thread',
  'callback',
  'task_id',
  'root_task_id',
  'session_id',
  'call_id',
  'approvers',
  'checkpoint_id',
  'artifact',
  'asked_by',
  'on_expiry',
  'notice',
])

const { owner, people, ...fields } = personView.schema.properties
export const RequestView = t.Object({ ...fields, owner: t.Optional(owner), people: t.Optional(people), voted: t.Optional(t.Integer()) })
export type RequestView = Static<typeof RequestView>

export const viewOf = (request: Request, actor: Actor): RequestView =>
  actor.kind === 'human' || actor.kind === 'system' ? personView.of(request) : forAgents(request)
