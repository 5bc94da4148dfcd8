// Positional arguments and table columns by noun: the two things that an operation's schema does not say.
import { stateOf } from '../output/task-lines.ts'

/** By operation. Unlisted operations take the id of their own noun, else the first required id. */
export const positionals: Readonly<Record<string, readonly string[]>> = {
  'agent.add': ['name'],
  'agent.delegate': ['to_agent'],
  'agent.handoff': ['run_id', 'to_agent'],
  'agent.steer': ['run_id', 'text'],
  'audit.export': ['id'],
  'audit.proof': ['seq'],
  'audit.why': ['id'],
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
  'push.get': ['work_id', 'id'],
  'push.list': ['work_id'],
  'push.remove': ['work_id', 'id'],
  'project.join': ['project_id', 'subject'],
  'project.leave': ['project_id', 'subject'],
  'request.resolve': ['request_id', 'result'],
  'request.snooze': ['request_id', 'until'],
  'group.link': ['project_id', 'name', 'issuer', 'claim'],
  'group.remove': ['name'],
  'group.set': ['name'],
  'group.unlink': ['project_id', 'name', 'issuer', 'claim'],
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
  'tool.report': ['server'],
  'tool.trust': ['server', 'tool'],
  'call.propose': ['server', 'tool'],
  'user.add': ['name'],
}

type ListedItem = Readonly<Record<string, unknown>>
type Column = readonly [title: string, path: string, read?: (item: ListedItem) => unknown]
/** A table. The first listing whose marks are all present applies. */
export type Listing = {
  readonly marks: readonly string[]
  readonly columns: readonly Column[]
  /** The rows are past events: with exact times, and with ids, since names change. */
  readonly isRecord?: boolean
  /** One item is several rows. */
  rows?(item: ListedItem): ListedItem[]
}

/** The path of a column, with its title before `=` unless the field names it. */
function columnOf(column: string): Column {
  const [path, title] = column.split('=').toReversed() as [string, string?]
  const field = path.slice(path.lastIndexOf('.') + 1).replace(/_(?:id|at)$/, '')
  return [title ?? field.replaceAll('_', ' ').toUpperCase(), path]
}
const table = (marks: string, columns: readonly (string | Column)[], more: Pick<Listing, 'isRecord' | 'rows'> = {}): Listing => ({
  marks: marks.split(' '),
  columns: columns.map((column) => (typeof column === 'string' ? columnOf(column) : column)),
  ...more,
})

type Quiet = { readonly from: string; readonly to: string; readonly zone?: string; readonly days?: string }
const quietText = (quiet: Quiet | undefined): string | null =>
  quiet === undefined ? null : [`${quiet.from}-${quiet.to}`, quiet.zone, quiet.days].filter((word) => word !== undefined).join(' ')

type RoleIn = { readonly project_id: string; readonly role: string; readonly group?: string }
const rolesText = (roles: readonly RoleIn[]): string =>
  roles.map(({ project_id, role, group }) => `${project_id} (${role}${group === undefined ? '' : ` by ${group}`})`).join(', ')

export const listings: readonly Listing[] = [
  table('jwk agent_id registered_at', ['DEVICE=id', 'name', 'state', 'agent_id', 'registered_at']),
  table('line fact_id seq', ['seq', 'fact_id', 'line'], { isRecord: true }),
  table('call_id server tool', [
    'CALL=call_id',
    'state',
    'agent_id',
    ['TOOL', 'tool', ({ server, tool }) => `${String(server)}/${String(tool)}`],
    'rule',
    'created_at',
  ]),
  table('trusted offered server', [
    ['TOOL', 'id', ({ server, name }) => `${String(server)}/${String(name)}`],
    ['STATE', 'offered', ({ offered }) => (offered === null ? 'trusted' : 'changed')],
    'project_id',
    'trusted_by',
    'changed_at',
  ]),
  table('callee_id submit_id state', [
    'SESSION=id',
    'state',
    'RISK=risk_level',
    'capability',
    // The whole id leaves room for the peer alone in 80 columns.
    ['WITH', 'peer', ({ role, caller_id, callee_id }) => (role === 'callee' ? `from ${String(caller_id)}` : `to ${String(callee_id)}`)],
  ]),
  table('caller_id risk_max data_max', ['caller_id', 'capabilities', 'RISK=risk_max', 'DATA=data_max']),
  table('risk_rules approvers declared_at', ['CAPABILITY=id', 'capability.version', 'agent_id', 'declared_at']),
  table('spec ownership state', [
    'TASK=id',
    // The draft calls a cancelled task `completed` too, so show its outcome.
    ['STATE', 'state', (task) => stateOf(task as Parameters<typeof stateOf>[0])],
    // The executor, even while a person is asked a question.
    ['HELD BY', 'ownership.assignee', ({ executor, ownership }) => executor ?? (ownership as { assignee: unknown }).assignee],
    'created_at',
    'spec.goal',
  ]),
  table('run_id correlation_id state', [
    'RUN=id',
    // The draft calls a run `running` before any process takes it.
    ['STATE', 'state', ({ queued, state, reason }) => (queued === true ? 'queued' : reason === 'cancelled' ? 'stopped' : state)],
    'agent_id',
    'task_id',
    'created_at',
    'reason',
  ]),
  table('capabilities reach agent_id', ['AGENT=id', 'name', 'REACHED BY=reach', 'available', 'tags']),
  table('key name days', ['OF=key', 'day', 'asked', 'approved', 'rejected', 'expired', 'P50 (S)=p50_seconds', 'P90 (S)=p90_seconds'], {
    rows: ({ key, name, days }) => (days as object[]).map((day) => ({ key: name ?? key, ...day })),
  }),
  table('person kind min_priority', [
    'CHANNEL=id',
    'kind',
    'label',
    'min_priority',
    'confirmed',
    ['QUIET', 'quiet_hours', ({ quiet_hours }) => quietText(quiet_hours as Quiet | undefined)],
    'GONE=disabled',
  ]),
  table('target whose attempts', [
    'AT=first_at',
    'event',
    'state',
    'request_id',
    'TRIED=attempts',
    ['WHY', 'why', ({ why, recent }) => why ?? (recent as { error: string | null }[]).at(-1)?.error],
    'CHANNEL=target',
  ]),
  table('request_id title through', ['request_id', 'priority', 'risk', 'KIND=asks', 'FROM=agent.id', 'ASKED=created_at', 'title']),
  table('prompt raised_at', ['CHECKPOINT=id', 'state', 'kind', 'ASKED BY=raised_by', 'raised_at', 'QUESTION=prompt']),
  table('seq action actor', ['seq', 'at', 'action', 'actor', 'SUBJECT=subject.id'], { isRecord: true }),
  table('verdict reviewer', ['REVIEW=id', 'verdict', 'artifact_id', 'VERSION=artifact_version', 'reviewer', 'at']),
  table('scope decision until', [
    'GRANT=id',
    'scope',
    'decision',
    'until',
    'uses',
    'used',
    'BY=granted_by',
    'revoked_at',
    'LIVE=is_live',
    'GOAL=task_goal',
  ]),
  table('capability_id version input_schema', ['capability_id', 'version', 'kind', 'NEEDS=required_permissions', 'description']),
  table('key value version', ['key', 'version', 'value', 'by', 'written_at']),
  table('text intent', ['at', 'intent', 'by', 'text']),
  table('subject label issued_by', ['KEY=id', 'subject', 'label', 'project_id', 'issued_by', 'created_at', 'last_used_at', 'expires_at']),
  table('user_id issuer sub', ['user_id', 'issuer', 'SUBJECT=sub', 'LINKED=created_at']),
  table('members linked name', ['GROUP=name', 'project_id', 'members', 'BY SIGN-IN=by_sign_in', 'updated_at']),
  table('owner description name', ['AGENT=id', 'name', 'owner', 'last_seen', 'disabled']),
  table('role acts_for', [
    'USER=id',
    'name',
    'role',
    // With the roles that groups of an issuer give.
    ['IN', 'projects', ({ projects, by_groups = [] }) => rolesText([...(projects as RoleIn[]), ...(by_groups as RoleIn[])])],
    'disabled',
  ]),
  table('id name created_at', ['PROJECT=id', 'name', 'created_at']),
]
