// The draft's run events, made from facts of the record.
import type { Line } from '#kernel/log/hash-chain.ts'
import { idOf, keyOf, t, type Static } from '#kernel/declare/schema.ts'
import type { StoredFact } from '#kernel/log/store.ts'
import { Id, Open, Run, Timestamp } from '../schema.ts'

/** AAP 0.1.0, AgentEventType. */
export const eventTypes = ['run.started', 'run.progress', 'run.blocked', 'run.completed', 'run.failed'] as const
/** Ours, included on request. */
export const moreTypes = ['run.delegated', 'run.resumed', 'run.asked', 'run.steered', 'run.reported'] as const

export const AgentEvent = t.Object({
  run_id: Id,
  correlation_id: Id,
  type: t.String({ description: `${eventTypes.join(', ')}; with all: ${moreTypes.join(', ')}` }),
  payload: Open,
  at: Timestamp,
  // Ours, from here on.
  id: Id,
  seq: t.Integer(),
  agent_id: t.Union([Id, t.Null()]),
  root_task_id: t.Union([Id, t.Null()]),
})
export type AgentEvent = Static<typeof AgentEvent>

export const lineIn = ({ line }: StoredFact): Line => JSON.parse(line) as Line

const PREFIX = 'delegation/'
export function typeIn({ action }: Line): string | null {
  const type = action.startsWith(PREFIX) ? action.slice(PREFIX.length) : null
  return type !== null && ([...eventTypes, ...moreTypes] as string[]).includes(type) ? type : null
}
export const isOfDraft = (type: string): boolean => (eventTypes as readonly string[]).includes(type)

const runKey = keyOf(Run, '')
/** The run that a fact is about: its subject, or the run that reported it. */
export const runIn = ({ images }: StoredFact): string => idOf(images.find(({ key }) => key.startsWith(runKey))?.key ?? runKey)

export function eventOf(stored: StoredFact): AgentEvent {
  const line = lineIn(stored)
  const image = stored.images.find(({ key }) => key.startsWith(runKey))?.text ?? null
  const run = image === null ? null : (JSON.parse(image) as Run)
  return {
    run_id: runIn(stored),
    correlation_id: line.task!,
    type: typeIn(line)!,
    payload: payloadOf(typeIn(line)!, run, line),
    at: line.at,
    id: line.id,
    seq: line.seq,
    agent_id: run?.agent_id ?? null,
    root_task_id: line.root,
  }
}

function payloadOf(type: string, run: Run | null, { detail }: Line): Record<string, unknown> {
  if (run === null) return {}
  if (type === 'run.progress') return { message: run.progress?.message ?? null, percent: run.progress?.percent ?? null }
  if (type === 'run.blocked') return { checkpoint_id: run.checkpoint_id, reason: run.reason }
  if (type === 'run.completed') return { result: run.result }
  if (type === 'run.failed') return { reason: run.reason, error: run.error }
  return { ...detail }
}
