// The server's answers as the page reads them, by short names.
import type { Output, SealKey } from '#sdk/index.ts'

export type Risk = 'R1' | 'R2' | 'R3' | 'R4' | 'R5'
export type Named = { readonly id: string; readonly name: string | null }
export type Thread = NonNullable<Output<'execution/inbox.get'>['thread']>
export type Votes = NonNullable<Output<'execution/inbox.get'>['votes']>

export type Ended = {
  readonly at: string
  readonly by: Named
  readonly result?: unknown
  readonly reason?: string | null
  readonly via?: string | null
  readonly by_default?: boolean
}
export type Link = { readonly kind: 'person' | 'agent' | 'system' | 'target'; readonly id: string; readonly name: string | null }
export type Facts = {
  readonly agent: { readonly registered_at: string | null; readonly owner: string | null; readonly open_requests: number }
  readonly project: Named
  readonly task: {
    readonly id: string
    readonly goal: string
    readonly state: string
    readonly deadline: string | null
    readonly principal: string
  } | null
  readonly flagged: readonly string[]
  readonly chain?: readonly Link[]
  readonly risk?: { readonly said: Risk | null; readonly floor: Risk | null; readonly rule: unknown } | null
  readonly precedents?: unknown
}
export type Effects = {
  readonly approve: string
  readonly reject: string
  readonly timeout: string
  readonly decline: string
  readonly changes?: string
}
/** `confirm`: the words to type before a yes. `batch`: why it is decided by itself; null: it may go with others. */
export type Guard = { readonly confirm: string | null; readonly batch: string | null }

/** An item as a list has it; the rest is asked for when it is opened. */
export type Row = {
  readonly request_id: string
  readonly kind: 'request' | 'approval' | 'choice' | 'input' | 'escalation' | 'interrupt' | 'review'
  readonly action: 'DECIDE' | 'APPROVE' | 'PROVIDE'
  readonly status: 'pending' | 'assigned' | 'completed' | 'failed' | 'cancelled' | 'declined'
  readonly title: string
  readonly digest: string
  readonly task_id: string | null
  readonly task_goal?: string | null
  readonly agent: Named & { readonly label: string }
  readonly acts_for: Named
  readonly risk: Risk | null
  readonly priority: 'critical' | 'high' | 'normal' | 'low'
  readonly created_at: string
  readonly expires_at: string | null
  readonly overdue: boolean
  readonly assignee: string | null
  readonly assignee_name?: string | null
  readonly no_decider: boolean
  readonly snoozed_until: string | null
  readonly remarks: number
  readonly quorum: { readonly n: number; readonly of: number; readonly voted: number; readonly yours: boolean } | null
  readonly through?: string | null
  readonly ended: Ended | null
  readonly people: number
  readonly guard: Guard
  /** JSON pointers to the names of its details, as the agent wrote them; null: they are sorted. */
  readonly order: readonly string[] | null
  readonly project: Named
  /** The few arguments that a list can show. */
  readonly arguments: readonly { readonly name: string; readonly value: string }[]
  readonly escalated: boolean
  readonly reject_ends_task: boolean
  readonly declinable: boolean
}
export type Item = Row & {
  readonly card: Card
  readonly reason: { readonly text: string } | null
  readonly facts: Facts
  readonly effects: Effects
  readonly seal_key: SealKey | null
  readonly options: readonly { readonly label: string; readonly risk: Risk | null }[] | null
}

export type ProposedAction = {
  readonly id: string
  readonly summary: string
  readonly kind?: string
  readonly risk?: 'low' | 'medium' | 'high'
  readonly detail?: unknown
}
export type Validation = {
  readonly pattern?: string
  readonly min?: number
  readonly max?: number
  readonly allowed_values?: readonly (string | number)[]
  readonly max_bytes?: number
  readonly media_types?: readonly string[]
  readonly multiple?: boolean
}
/** All that a payload may hold; which of it is there depends on the action. */
export type Payload = {
  readonly question?: string
  readonly options: readonly string[]
  readonly option_ids?: readonly string[]
  readonly default_option?: string
  readonly item?: string
  readonly details?: Readonly<Record<string, unknown>>
  readonly details_schema?: Readonly<Record<string, unknown>>
  readonly reject_requires_reason?: boolean
  readonly scope?: string
  readonly prompt?: string
  readonly input_type?: 'text' | 'number' | 'url' | 'email' | 'file' | 'selection'
  readonly placeholder?: string
  readonly validation?: Validation
  readonly sensitive?: boolean
  readonly context?: string
}
export type Card = {
  readonly payload: Payload
  readonly asks?: string
  readonly artifact?: { readonly artifact_id: string; readonly version: string }
  readonly notice?: string
}

export type Task = Output<'collaboration/task.get'>['task']
export type Artifact = Output<'collaboration/artifact.get'>['artifact']
export type Event = Output<'collaboration/audit.query'>['items'][number]
export type Run = Output<'delegation/run.list'>['items'][number]
export type Agent = Output<'identity/agent.list'>['items'][number]
export type User = Output<'identity/user.list'>['items'][number]
export type AgentCard = Output<'delegation/agent.discover'>['items'][number]
