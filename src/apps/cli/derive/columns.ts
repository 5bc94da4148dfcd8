// Positional arguments and table columns by noun: the two things that an operation's schema does not say.
import { stateOf } from '../output/task-lines.ts'

/** By operation. Unlisted operations take the id of their own noun, else the first required id. */
export const positionals: Readonly<Record<string, readonly string[]>> = {
  'agent.add': ['name'],
  'agent.delegate': ['to_agent'],
  'agent.handoff': ['run_id', 'to_agent'],
  'agent.steer': ['run_id', 'text'],
  'capability.describe': ['capability_id', 'version'],
  'filter.remove': ['name'],
  'filter.save': ['name'],
  'grant.add': ['task_id', 'scope'],
  'grant.list': ['task_id'],
  'grant.preview': ['task_id', 'scope'],
  'grant.use': ['task_id', 'scope'],
  'harness.allow': ['caller_id'],
  'harness.disallow': ['caller_id'],
  'harness.withdraw': ['capability'],
  'harness.submit': ['callee_id', 'capability', 'intent'],
  'key.issue': ['subject'],
  'key.list': ['subject'],
  'ledger.history': ['key'],
  'ledger.read': ['key'],
  'ledger.write': ['key', 'value'],
  'memo.get': ['run_id', 'key'],
  'run.follow': ['run_id'],
  'memo.put': ['run_id', 'key', 'value'],
  'ownership.delegate': ['task_id', 'to'],
  'ownership.transfer': ['task_id', 'to'],
  'project.add': ['name'],
  'project.join': ['project_id', 'subject'],
  'project.leave': ['project_id', 'subject'],
  'request.resolve': ['request_id', 'result'],
  'request.snooze': ['request_id', 'until'],
  'group.remove': ['name'],
  'group.set': ['name'],
  'request.assign': ['request_id', 'to'],
  'request.extend': ['request_id', 'timeout_seconds'],
  'request.question': ['request_id', 'text'],
  'request.reply': ['request_id', 'text'],
  'reviewer.add': ['task_id', 'user'],
  'reviewer.remove': ['task_id', 'user'],
  'review.comment': ['task_id', 'body'],
  'subject.link': ['user_id', 'issuer', 'sub'],
  'subject.list': ['user_id'],
  'subject.unlink': ['issuer', 'sub'],
  'substitute.add': ['person', 'substitute'],
  'substitute.remove': ['person', 'substitute'],
  'task.amend': ['task_id', 'text'],
  'task.assign': ['task_id', 'assignee'],
  'user.add': ['name'],
}

/** A table: each column has a title and the path of its value. The first listing whose marks are all present applies. */
export type Listing = {
  readonly marks: readonly string[]
  readonly columns: readonly (readonly [title: string, path: string, read?: (item: Readonly<Record<string, unknown>>) => unknown])[]
  /** Of what happened: exact times, and ids, since names change. */
  readonly isRecord?: boolean
  /** One item is several rows. */
  rows?(item: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>>[]
}

type Quiet = { readonly from: string; readonly to: string; readonly zone?: string; readonly days?: string }
const quietText = (quiet: Quiet | undefined): string | null =>
  quiet === undefined ? null : [`${quiet.from}-${quiet.to}`, quiet.zone, quiet.days].filter((word) => word !== undefined).join(' ')

export const listings: readonly Listing[] = [
  {
    marks: ['jwk', 'agent_id', 'registered_at'],
    columns: [
      ['DEVICE', 'id'],
      ['NAME', 'name'],
      ['STATE', 'state'],
      ['AGENT', 'agent_id'],
      ['REGISTERED', 'registered_at'],
    ],
  },
  {
    marks: ['line', 'fact_id', 'seq'],
    columns: [
      ['SEQ', 'seq'],
      ['FACT', 'fact_id'],
      ['LINE', 'line'],
    ],
    isRecord: true,
  },
  {
    marks: ['callee_id', 'submit_id', 'state'],
    columns: [
      ['SESSION', 'id'],
      ['STATE', 'state'],
      ['RISK', 'risk_level'],
      ['CAPABILITY', 'capability'],
      // With the id whole, the peer alone leaves room for all of it in 80 columns.
      ['WITH', 'peer', ({ role, caller_id, callee_id }) => (role === 'callee' ? `from ${String(caller_id)}` : `to ${String(callee_id)}`)],
    ],
  },
  {
    marks: ['caller_id', 'risk_max', 'data_max'],
    columns: [
      ['CALLER', 'caller_id'],
      ['CAPABILITIES', 'capabilities'],
      ['RISK', 'risk_max'],
      ['DATA', 'data_max'],
    ],
  },
  {
    marks: ['risk_rules', 'approvers', 'declared_at'],
    columns: [
      ['CAPABILITY', 'id'],
      ['VERSION', 'capability.version'],
      ['AGENT', 'agent_id'],
      ['DECLARED', 'declared_at'],
    ],
  },
  {
    marks: ['spec', 'ownership', 'state'],
    columns: [
      ['TASK', 'id'],
      // `completed` is the draft's word for a task that was cancelled, too: what became of it is said instead.
      ['STATE', 'state', (task) => stateOf(task as Parameters<typeof stateOf>[0])],
      // The one who works on it; a person who is asked something meanwhile holds a question, and not the task.
      ['HELD BY', 'ownership.assignee', ({ executor, ownership }) => executor ?? (ownership as { assignee: unknown }).assignee],
      ['CREATED', 'created_at'],
      ['GOAL', 'spec.goal'],
    ],
  },
  {
    marks: ['run_id', 'correlation_id', 'state'],
    columns: [
      ['RUN', 'id'],
      // A run that no process has taken is `running` in the draft's words, which tells nothing to a person who waits for it.
      ['STATE', 'state', ({ queued, state, reason }) => (queued === true ? 'queued' : reason === 'cancelled' ? 'stopped' : state)],
      ['AGENT', 'agent_id'],
      ['TASK', 'task_id'],
      ['CREATED', 'created_at'],
      ['REASON', 'reason'],
    ],
  },
  {
    marks: ['capabilities', 'reach', 'agent_id'],
    columns: [
      ['AGENT', 'id'],
      ['NAME', 'name'],
      ['REACHED BY', 'reach'],
      ['AVAILABLE', 'available'],
      ['TAGS', 'tags'],
    ],
  },
  {
    marks: ['key', 'name', 'days'],
    rows: ({ key, name, days }) => (days as object[]).map((day) => ({ key: name ?? key, ...day })),
    columns: [
      ['OF', 'key'],
      ['DAY', 'day'],
      ['ASKED', 'asked'],
      ['APPROVED', 'approved'],
      ['REJECTED', 'rejected'],
      ['EXPIRED', 'expired'],
      ['P50 (S)', 'p50_seconds'],
      ['P90 (S)', 'p90_seconds'],
    ],
  },
  {
    marks: ['person', 'kind', 'min_priority'],
    columns: [
      ['CHANNEL', 'id'],
      ['KIND', 'kind'],
      ['LABEL', 'label'],
      ['MIN PRIORITY', 'min_priority'],
      ['CONFIRMED', 'confirmed'],
      ['QUIET', 'quiet_hours', ({ quiet_hours }) => quietText(quiet_hours as Quiet | undefined)],
      ['GONE', 'disabled'],
    ],
  },
  {
    marks: ['target', 'whose', 'attempts'],
    columns: [
      ['AT', 'first_at'],
      ['EVENT', 'event'],
      ['STATE', 'state'],
      ['REQUEST', 'request_id'],
      ['TRIED', 'attempts'],
      ['WHY', 'why', ({ why, recent }) => why ?? (recent as { error: string | null }[]).at(-1)?.error],
      ['CHANNEL', 'target'],
    ],
  },
  {
    marks: ['request_id', 'title', 'through'],
    columns: [
      ['REQUEST', 'request_id'],
      ['PRIORITY', 'priority'],
      ['RISK', 'risk'],
      ['KIND', 'asks'],
      ['FROM', 'agent.id'],
      ['ASKED', 'created_at'],
      ['TITLE', 'title'],
    ],
  },
  {
    marks: ['prompt', 'raised_at'],
    columns: [
      ['CHECKPOINT', 'id'],
      ['STATE', 'state'],
      ['KIND', 'kind'],
      ['ASKED BY', 'raised_by'],
      ['RAISED', 'raised_at'],
      ['QUESTION', 'prompt'],
    ],
  },
  {
    marks: ['run_id', 'correlation_id', 'chain'],
    columns: [
      ['RUN', 'id'],
      ['STATE', 'state'],
      ['AGENT', 'agent_id'],
      ['FOR', 'correlation_id'],
      ['CREATED', 'created_at'],
      ['REASON', 'reason'],
    ],
  },
  {
    marks: ['seq', 'action', 'actor'],
    isRecord: true,
    columns: [
      ['SEQ', 'seq'],
      ['AT', 'at'],
      ['ACTION', 'action'],
      ['ACTOR', 'actor'],
      ['SUBJECT', 'subject.id'],
    ],
  },
  {
    marks: ['verdict', 'reviewer'],
    columns: [
      ['REVIEW', 'id'],
      ['VERDICT', 'verdict'],
      ['ARTIFACT', 'artifact_id'],
      ['VERSION', 'artifact_version'],
      ['REVIEWER', 'reviewer'],
      ['AT', 'at'],
    ],
  },
  {
    marks: ['scope', 'decision', 'until'],
    columns: [
      ['GRANT', 'id'],
      ['SCOPE', 'scope'],
      ['DECISION', 'decision'],
      ['UNTIL', 'until'],
      ['USES', 'uses'],
      ['USED', 'used'],
      ['BY', 'granted_by'],
      ['REVOKED', 'revoked_at'],
      ['LIVE', 'is_live'],
      ['GOAL', 'task_goal'],
    ],
  },
  {
    marks: ['capability_id', 'version', 'input_schema'],
    columns: [
      ['CAPABILITY', 'capability_id'],
      ['VERSION', 'version'],
      ['KIND', 'kind'],
      ['NEEDS', 'required_permissions'],
      ['DESCRIPTION', 'description'],
    ],
  },
  {
    marks: ['key', 'value', 'version'],
    columns: [
      ['KEY', 'key'],
      ['VERSION', 'version'],
      ['VALUE', 'value'],
      ['BY', 'by'],
      ['WRITTEN', 'written_at'],
    ],
  },
  {
    marks: ['text', 'intent'],
    columns: [
      ['AT', 'at'],
      ['INTENT', 'intent'],
      ['BY', 'by'],
      ['TEXT', 'text'],
    ],
  },
  {
    marks: ['subject', 'label', 'issued_by'],
    columns: [
      ['KEY', 'id'],
      ['SUBJECT', 'subject'],
      ['LABEL', 'label'],
      ['PROJECT', 'project_id'],
      ['CREATED', 'created_at'],
      ['EXPIRES', 'expires_at'],
    ],
  },
  {
    marks: ['user_id', 'issuer', 'sub'],
    columns: [
      ['USER', 'user_id'],
      ['ISSUER', 'issuer'],
      ['SUBJECT', 'sub'],
      ['LINKED', 'created_at'],
    ],
  },
  {
    marks: ['owner', 'description', 'name'],
    columns: [
      ['AGENT', 'id'],
      ['NAME', 'name'],
      ['OWNER', 'owner'],
      ['LAST SEEN', 'last_seen'],
      ['DISABLED', 'disabled'],
    ],
  },
  {
    marks: ['role', 'acts_for'],
    columns: [
      ['USER', 'id'],
      ['NAME', 'name'],
      ['ROLE', 'role'],
      ['DISABLED', 'disabled'],
    ],
  },
  {
    marks: ['id', 'name', 'created_at'],
    columns: [
      ['PROJECT', 'id'],
      ['NAME', 'name'],
      ['CREATED', 'created_at'],
    ],
  },
]
