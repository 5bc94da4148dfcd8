// Event channels: the events of a project for a system of its owners, by the filter and from the position that they choose.
import { ownsProject, SYSTEM_SCOPE } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { doc, index, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { attemptFields } from '#kernel/ports/delivery-log.ts'
import { Id, Timestamp } from '../schema.ts'
import { HookAddress, Label } from './notice.ts'

/** Of a CloudEvent: the protocol and the name of the event; `.*` at the end stands for all that begin so. */
export const EventType = t.String({
  maxLength: limits.nameCharsMax,
  pattern: '^countersign(\\.[a-z][a-z_]*)+(\\.\\*)?$',
  description: 'a type such as countersign.collaboration.task.created, or countersign.execution.*',
})
export const EventTypes = t.Array(EventType, {
  maxItems: limits.eventTypesMax,
  uniqueItems: true,
  description: 'the types of events that are sent; all of them where the list is empty',
})
export const Position = t.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'the number of an event in the record of its project',
})

export const EventChannel = doc(
  'execution.event_channel',
  t.Object({
    id: Id,
    project_id: Id,
    kind: t.Literal('events'),
    label: Label,
    types: EventTypes,
    added_by: Id,
    disabled: t.Boolean(), // the other side said that it is gone for good
    created_at: Timestamp,
    removed_at: nullable(Timestamp),
  }),
  {
    noun: 'channel',
    scopeOf: ({ project_id }) => project_id,
    visibleTo: ({ project_id }, actor) => actor.projects === 'all' || ownsProject(actor, project_id),
    indexes: {
      project: index((channel) => (channel.removed_at === null ? [[channel.project_id]] : []), 1),
      label: index((channel) => (channel.removed_at === null && channel.label !== '' ? [[channel.project_id, channel.label]] : []), 2),
      sending: index((channel) => (channel.removed_at === null && !channel.disabled ? [[]] : [])),
    },
  },
)
export type EventChannel = Static<typeof EventChannel.schema>
export const isEventChannel = (channel_id: string): boolean => channel_id.startsWith('ev_')

/** How far a channel has come. No fact describes it: facts about deliveries would be events to deliver. */
export const EventCursor = doc(
  'execution.event_cursor',
  t.Object({
    id: Id, // of the channel
    position: Position, // the number of the last event that was accepted or not wanted
    attempts: t.Integer(), // of the next batch, in vain
    next_at: Timestamp,
    last: nullable(t.Object({ at: Timestamp, ...attemptFields })),
  }),
  { scopeOf: () => SYSTEM_SCOPE, visibleTo: () => false },
)
export type EventCursor = Static<typeof EventCursor.schema>

/** Whether a channel wants an event of this type. */
export const wantsType = (types: readonly string[], type: string): boolean =>
  types.length === 0 || types.some((one) => (one.endsWith('.*') ? type.startsWith(one.slice(0, -1)) : one === type))

/** How far a channel has come, as its owners see it. `head`: the number of the last event of the project. */
const Progress = t.Object({
  position: { ...Position, description: 'the number of the last event that was accepted or not wanted' },
  head: { ...Position, description: 'the number of the last event of the project' },
  attempts: t.Integer({ description: 'attempts at the next batch, in vain' }),
  next_at: nullable(t.String({ description: 'when the next attempt is; null: none failed' })),
  last: nullable(t.Object({ at: Timestamp, ...attemptFields })),
})
/** Where it is, for the owners alone: the record does not hold the address. */
export const EventChannelFields = { endpoint: t.Optional(HookAddress), progress: t.Optional(Progress) }
export type ShownEventChannel = EventChannel & { endpoint?: string; progress?: Static<typeof Progress> }
