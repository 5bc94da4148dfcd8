// Events of execution, each with the kind of document that it is about.
import { factOf, image, type Events } from '#kernel/declare/facts.ts'
import type { Made } from '#kernel/declare/operation.ts'
import { Collected } from './answering/collected.ts'
import { File } from './answering/file.ts'
import { SecretEnd } from './answering/secret.ts'
import { Group, Policy, Rules } from './asking/preferences.ts'
import { EventChannel } from './notices/event-channel.ts'
import { AgentChannel, Channel } from './notices/notice.ts'
import { Request, type EndedRequest } from './schema.ts'

export const events = {
  'request.created': Request,
  'request.assigned': Request,
  'request.claimed': Request,
  'request.released': Request,
  'request.escalated': Request,
  'request.rerouted': Request,
  'request.bound': Request,
  'request.questioned': Request,
  'request.replied': Request,
  'request.snoozed': Request,
  'request.unsnoozed': Request,
  'request.woken': Request,
  'request.reminded': Request,
  'request.extended': Request,
  'request.expired': Request,
  'request.voted': Request,
  'request.completed': Request,
  'request.declined': Request,
  'request.failed': Request,
  'request.cancelled': Request,
  'request.collected': Collected,
  'secret.taken': SecretEnd,
  'secret.expired': SecretEnd,
  'file.added': File,
  'file.expired': File,
  'rule.added': Rules,
  'rule.ordered': Rules,
  'rule.removed': Rules,
  'policy.set': Policy,
  'group.set': Group,
  'group.removed': Group,
  'channel.added': [Channel, AgentChannel, EventChannel],
  'channel.updated': EventChannel,
  'channel.confirmed': [Channel, AgentChannel],
  'channel.tested': [Channel, AgentChannel],
  'channel.secret_rotated': [Channel, AgentChannel, EventChannel],
  'channel.sign_in_asked': [Channel, AgentChannel],
  'channel.disabled': [Channel, AgentChannel, EventChannel],
  'channel.removed': [Channel, AgentChannel, EventChannel],
} satisfies Events
export const fact = factOf(events)

export type ChannelEvent = Extract<keyof typeof events, `channel.${string}`>

const endEvents = {
  completed: 'request.completed',
  declined: 'request.declined',
  failed: 'request.failed',
  cancelled: 'request.cancelled',
} as const
export const endFact = (ended: EndedRequest): Made => fact(endEvents[ended.status], [image(Request, ended)])
