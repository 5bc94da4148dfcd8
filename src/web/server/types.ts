// The server's answers as the page reads them, by short names.
import type { AnyField, Output } from '#sdk/index.ts'

type Got = Output<'execution/inbox.get'>
type Listed = Output<'execution/inbox.list'>['items'][number]
/** An item in a list; the rest is fetched when it is opened. */
export type Row = Exclude<Listed, { readonly card: unknown }>
/** Every field of any payload; the action decides which are present. */
export type Payload = AnyField<Got['item']['card']['payload']>
export type Item = Omit<Got['item'], 'card'> &
  Pick<Got, 'seal_key'> & { readonly card: Omit<Got['item']['card'], 'payload'> & { readonly payload: Payload } }
export type Thread = NonNullable<Got['thread']>
export type Votes = NonNullable<Got['votes']>
export type Risk = NonNullable<Row['risk']>
export type ProposedAction = Output<'collaboration/checkpoint.get'>['checkpoint']['proposed_actions'][number]

export type Task = Output<'collaboration/task.get'>['task']
export type Artifact = Output<'collaboration/artifact.get'>['artifact']
export type Event = Output<'collaboration/audit.query'>['items'][number]
export type Run = Output<'delegation/run.list'>['items'][number]
export type Agent = Output<'identity/agent.list'>['items'][number]
export type User = Output<'identity/user.list'>['items'][number]
export type AgentCard = Output<'delegation/agent.discover'>['items'][number]
