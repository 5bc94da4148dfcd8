// Channels of all kinds, of people, agents and projects, behind one type: their views, facts and keepers.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { forAgentsToo, ownsProject, role } from '#kernel/declare/access.ts'
import type { Made, Read } from '#kernel/declare/operation.ts'
import { either, t, type Static } from '#kernel/declare/schema.ts'
import { fact, type ChannelEvent } from '../events.ts'
import { Id, Priority } from '../schema.ts'
import { EventChannel, EventChannelFields, EventTypes, isEventChannel } from './event-channel.ts'
import { AgentChannel, Channel, isOfAgent } from './notice.ts'

export const AnyChannelKind = either('webhook', 'push', 'email', 'events')
export const Shown = t.Object({
  ...Channel.schema.properties,
  kind: AnyChannelKind,
  person: t.Optional(Id),
  agent_id: t.Optional(Id),
  project_id: t.Optional(Id),
  types: t.Optional(EventTypes),
  added_by: t.Optional(Id),
  min_priority: t.Optional(Priority),
  ...EventChannelFields,
})
export type Shown = Static<typeof Shown>
/** A channel of either side, with the operations on it that differ. */
export type Either = Channel | AgentChannel | EventChannel
export const isPersons = (channel: Either): channel is Channel => 'person' in channel
export const isProjects = (channel: Either): channel is EventChannel => 'project_id' in channel
export const ownerOf = (channel: Channel | AgentChannel): string => (isPersons(channel) ? channel.person : channel.agent_id)
export function shownAs(channel: Either): Shown {
  if (isPersons(channel) || isProjects(channel)) return channel
  const { owner: _, ...shown } = channel
  return { ...shown, kind: channel.kind ?? 'webhook' }
}
export function channelFact(action: Exclude<ChannelEvent, 'channel.updated'>, channel: Either): Made {
  // Tests, confirmations and sign-ins are of people and agents alone: their operations refuse the others.
  if (isProjects(channel)) return fact(action as 'channel.added', [image(EventChannel, channel)])
  return fact(action, [isPersons(channel) ? image(Channel, channel) : image(AgentChannel, channel)])
}

export type OfChannel = { readonly channel: Either }
export const itsOwner = forAgentsToo(
  role<OfChannel>('the person or agent whose channel it is', (actor, { channel }) =>
    isProjects(channel) ? actor.kind === 'human' && ownsProject(actor, channel.project_id) : actor.id === ownerOf(channel),
  ),
)
export async function channelOf(read: Read, channel_id: string): Promise<OfChannel> {
  const channel = isEventChannel(channel_id)
    ? await read(EventChannel, channel_id)
    : isOfAgent(channel_id)
      ? await read(AgentChannel, channel_id)
      : await read(Channel, channel_id)
  if (channel.removed_at !== null) throw new Refusal('NOT_FOUND', `there is no channel ${channel_id}`)
  return { channel }
}
