// Event channels: how one is added to a project and changed, and how the worker that sends notes its progress. The owners of the project keep it.
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image, put } from '#kernel/declare/facts.ts'
import { heldBy, ownsProject, role, system, type Actor } from '#kernel/declare/access.ts'
import { isHookAddress } from '#kernel/declare/webhook-address.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule, type Context, type Decision, type Read } from '#kernel/declare/operation.ts'
import { nullable, t } from '#kernel/declare/schema.ts'
import { attemptFields } from '#kernel/ports/delivery-log.ts'
import { fact } from '../events.ts'
import { EventChannel, EventChannelFields, EventCursor, EventTypes, Position, type ShownEventChannel } from '../notices/event-channel.ts'
import { Hook, HookAddress, Label, newHook } from '../notices/notice.ts'
import { Id } from '../schema.ts'

const DRAFT = 'ours: the events of a project for systems of its owners'

export const eventsFields = {
  project_id: t.Optional({ ...Id, description: 'the project whose events are sent, by an owner of it' }),
  types: t.Optional(EventTypes),
  after: t.Optional({ ...Position, description: 'the number of the event after which to begin; the last one by default, 0 for all' }),
}

/** An address may hold a secret: only owners of the project see it. */
export async function progressOf(read: Read, channel: EventChannel, actor: Actor): Promise<ShownEventChannel> {
  const { seq: head } = await read.head(channel.project_id)
  const [hook, cursor] = [await read.raw(Hook, channel.id), await read.raw(EventCursor, channel.id)]
  if (hook === null || cursor === null) return channel
  const { position, attempts, next_at, last } = cursor
  const shown = ownsProject(actor, channel.project_id) ? { endpoint: hook.endpoint } : {}
  return { ...channel, ...shown, progress: { position, head, attempts, next_at: attempts === 0 ? null : next_at, last } }
}

type Added = { readonly endpoint?: string; readonly label?: string; readonly types?: readonly string[]; readonly after?: number }

export function addEvents(
  project_id: string,
  head: number,
  { endpoint, label = '', types = [], after = head }: Added,
  { actor, now, newId, secret }: Context,
): Decision<{ channel: ShownEventChannel; secret: string }> {
  refuseFuture(after, head)
  const id = newId('ev')
  const channel: EventChannel = {
    id,
    project_id,
    kind: 'events',
    label,
    types: [...types],
    added_by: actor.id,
    disabled: false,
    created_at: now,
    removed_at: null,
  }
  const hook = newHook(id, endpoint!, secret())
  const max = limits.eventChannelsPerProjectMax
  return {
    facts: [fact('channel.added', [image(EventChannel, channel)])],
    puts: [put(Hook, id, hook), put(EventCursor, id, { id, position: after, attempts: 0, next_at: now, last: null })],
    atMost: [
      { doc: EventChannel, index: 'project', prefix: [project_id], max, message: `a project has at most ${max} event channels` },
      ...labelBound(project_id, label),
    ],
    output: { channel, secret: hook.secret },
  }
}

/** A label names one channel, so that a configuration can be compared with it. */
const labelBound = (project_id: string, label: string) =>
  label === ''
    ? []
    : [
        {
          doc: EventChannel,
          index: 'label',
          prefix: [project_id, label],
          max: 1,
          message: `the project has an event channel ${label} already`,
        },
      ]

function refuseFuture(after: number | undefined, head: number): void {
  if (after !== undefined && after > head)
    throw new Refusal('INVALID_REQUEST', `after is beyond the last event of the project, which is ${head}`, { field: 'after' })
}

type OfProject = { readonly project_id: string | null }
export const projectOwner = heldBy(
  'an owner of the project',
  role<OfProject>(
    'project owner',
    (actor, { project_id }) => project_id !== null && actor.kind === 'human' && ownsProject(actor, project_id),
  ),
)

const update = command({
  name: 'channel.update',
  summary:
    'Change an event channel: its address, its label, its filter, or the event after which it continues. One that was given up is tried again.',
  draft: DRAFT,
  input: t.Object({
    channel_id: Id,
    endpoint: t.Optional(HookAddress),
    label: t.Optional(Label),
    types: eventsFields.types,
    after: t.Optional({ ...Position, description: 'send the events after this number, again if need be' }),
  }),
  output: t.Object({ channel: t.Object({ ...EventChannel.schema.properties, ...EventChannelFields }) }),
  callers: [projectOwner],
  requires: [
    rule<unknown, { readonly endpoint?: string }>(
      'INVALID_REQUEST',
      'endpoint is an http or https address without a name, a password or a fragment',
      (_, { endpoint }, { terms }) => endpoint === undefined || isHookAddress(endpoint, terms.publicHooksOnly),
      'endpoint cannot be called: give an https address of the public Internet (or http and others, where the operator allows it with --webhook-private), without a name, a password or a fragment',
    ),
  ],
  isStep: true,
  audit: 'channel.updated',
  hides: true, // an address may hold a secret
  async load(read, { channel_id }) {
    const channel = await read(EventChannel, channel_id)
    if (channel.removed_at !== null) throw new Refusal('NOT_FOUND', `there is no channel ${channel_id}`)
    const { seq: head } = await read.head(channel.project_id)
    const [hook, cursor] = [await read.raw(Hook, channel_id), await read.raw(EventCursor, channel_id)]
    return { channel, project_id: channel.project_id, head, hook: hook!, cursor: cursor! }
  },
  decide({ channel, head, hook: before, cursor }, { endpoint, label = channel.label, types = channel.types, after }, { now }) {
    refuseFuture(after, head)
    const next: EventChannel = { ...channel, label, types: [...types], disabled: false }
    const hook: Hook = { ...before, endpoint: endpoint ?? before.endpoint }
    const { last, position } = cursor
    const from: EventCursor = { id: channel.id, position: after ?? position, attempts: 0, next_at: now, last }
    const progress = { position: from.position, head, attempts: 0, next_at: null, last }
    return {
      facts: [fact('channel.updated', [image(EventChannel, next)])],
      puts: [put(Hook, hook.id, hook), put(EventCursor, channel.id, from)],
      atMost: labelBound(channel.project_id, label),
      output: { channel: { ...next, endpoint: hook.endpoint, progress } },
    }
  },
  example: {
    given: 'streamed',
    as: 'owner',
    input: ({ channel }) => ({ channel_id: channel.id, types: ['countersign.execution.*'], after: 0 }),
  },
})

const GONE = 410

const advance = command({
  name: 'channel.advance',
  summary: 'Note how far an event channel has come, and the outcome of a post. The system calls it.',
  draft: DRAFT,
  input: t.Object({
    channel_id: Id,
    from: Position,
    position: Position,
    outcome: nullable(t.Object(attemptFields)),
    retry_ms: t.Integer({ minimum: 0, maximum: limits.eventBackoffMsMax, description: 'milliseconds until the next attempt' }),
  }),
  output: t.Object({ cursor: nullable(EventCursor.schema) }),
  callers: [system],
  requires: [],
  audit: null,
  load: async (read, { channel_id }) => ({
    channel: await read.raw(EventChannel, channel_id),
    cursor: await read.raw(EventCursor, channel_id),
  }),
  decide({ channel, cursor }, { from, position, outcome, retry_ms }, { now }) {
    // Removed, or put back to another event, while the batch was under way.
    if (channel === null || cursor === null || cursor.position !== from) return { facts: [], output: { cursor } }
    const isFailed = outcome !== null && outcome.error !== null
    const next: EventCursor = {
      id: cursor.id,
      position: isFailed ? from : position,
      attempts: isFailed ? cursor.attempts + 1 : 0,
      next_at: timestampOf(Date.parse(now) + retry_ms),
      last: outcome === null ? cursor.last : { at: now, ...outcome },
    }
    const isGone = outcome?.status === GONE && !channel.disabled
    return {
      facts: isGone ? [fact('channel.disabled', [image(EventChannel, { ...channel, disabled: true })])] : [],
      puts: [put(EventCursor, cursor.id, next)],
      output: { cursor: next },
    }
  },
  example: {
    given: 'streamed',
    as: 'system',
    input: ({ channel }) => ({
      channel_id: channel.id,
      from: 0,
      position: 0,
      outcome: { status: 503, duration_ms: 12, error: 'it answered 503' },
      retry_ms: 500,
    }),
  },
})

export const eventChannelOperations = [update, advance]
