// Messages between harnesses in a world without a broker: what comes in is received as the system, and what goes out is read from the outbox.
import { Delivery } from '#kernel/log/outbox-document.ts'
import { END, keyOf, prefixOf } from '#kernel/declare/schema.ts'
import type { Envelope } from '#protocols/harness/envelope.ts'
import { AMQP, type Outgoing } from '#protocols/harness/session/session-work.ts'
import type { World } from '../in-process/world.ts'

let count = 0
export const uuid = (): string => `0b6a3a7e-52a3-4f0e-9c1d-${String(++count).padStart(12, '0')}`

export const declaration = {
  agent_id: 'agent_devin',
  capability: {
    name: 'synthesis',
    version: '1.2.0',
    description: 'Grows a film.',
    safety: { risk_ceiling: 'R4', requires_human_approval: false },
    constraints: { max_duration: 'PT2H' },
  },
  risk_rules: [{ path: 'temperature', op: '>', value: 800, raise_to: 'R4' }],
  safety_envelope: {
    parameters: { temperature: { min: 0, max: 900, unit: 'C' } },
    prohibited_actions: ['vent'],
    emergency_procedures: { fire: 'Close the gas.' },
  },
  approval_timeout: 'PT1H',
  abort_timeout: 'PT30S',
}

export type Received = { outcome: string; reason: string | null; detail: string | null }
export async function receive(
  world: World,
  user_id: string | null,
  type: string,
  payload: object,
  more: Partial<Envelope> = {},
  in_reply_to: string | null = null,
): Promise<Received> {
  const envelope = {
    hcp_version: '1.0',
    message_id: uuid(),
    timestamp: '2026-01-01T00:00:00.000Z',
    session_id: null,
    type,
    payload,
    ...more,
  }
  return world.call('system', 'harness/message.receive', { user_id, envelope, in_reply_to }) as Promise<Received>
}
export const submission = (more: object = {}): object => ({
  capability: 'synthesis',
  caller_id: 'lab-alpha',
  intent: 'Grow a film.',
  inputs: { temperature: 700 },
  ...more,
})

/** Everything that waits to be sent, in the order of each session. */
export async function outgoing(world: World): Promise<Outgoing[]> {
  const prefix = prefixOf(Delivery, 'due', [AMQP])
  const entries = await world.store.scan(prefix, prefix + END, 10_000)
  const rows = await world.store.read(entries.map((entry) => keyOf(Delivery, entry.slice(entry.lastIndexOf('\0') + 1))))
  return rows
    .map((row) => row!.value as unknown as { id: string; body: Outgoing })
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
    .map(({ body }) => body)
}
/** A message as a word: its type, or the type and number of its event. */
export const wordOf = ({ envelope: { type, payload } }: Outgoing): string =>
  type === 'event' ? `${payload['sequence'] as number} ${payload['event_type'] as string}` : type

/** The broker has confirmed everything that was to be sent. */
export async function allSent(world: World): Promise<void> {
  const prefix = prefixOf(Delivery, 'due', [AMQP])
  const entries = await world.store.scan(prefix, prefix + END, 10_000)
  const outcomes = entries.map((entry) => ({ id: entry.slice(entry.lastIndexOf('\0') + 1), ok: true }))
  await world.call('system', 'kernel/delivery.settle', { outcomes })
}
