// Audit events as the draft shows them, with their documents before and after.
import type { Line } from '#kernel/log/hash-chain.ts'
import type { Read } from '#kernel/declare/operation.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { kindOf, nullable, t, type Static } from '#kernel/declare/schema.ts'
import type { StoredFact } from '#kernel/log/store.ts'
import { Id, Timestamp } from '../schema.ts'

const Shown = t.Union([t.Object({}, { additionalProperties: true }), t.Null()])
const Subject = t.Object({ kind: t.String(), id: t.String() })

export const AuditEvent = t.Object({
  id: Id,
  seq: t.Integer(),
  at: Timestamp,
  actor: Id,
  action: t.String(),
  subject: Subject,
  task_id: nullable(Id),
  before: Shown,
  after: Shown,
  // Ours, from here on.
  actor_name: t.Optional(nullable(t.String())), // in audit.query and audit.replay; a stream has only ids
  behalf_name: t.Optional(nullable(t.String())),
  project_id: t.String(),
  root_task_id: nullable(Id),
  protocol: t.String(),
  behalf: nullable(t.String()),
  basis: t.Object({ kind: t.String(), id: t.String() }),
  cause: nullable(t.Integer()),
  detail: Shown,
  changes: t.Array(t.Object({ ...Subject.properties, version: t.Integer(), before: Shown, after: Shown })),
  prev_hash: t.String({ description: 'hash of the event before it in the project, "" for the first' }),
  hash: t.String(),
})
export type AuditEvent = Static<typeof AuditEvent>

export const lineIn = (stored: StoredFact): Line => JSON.parse(stored.line) as Line
export const actionIn = (line: Line): string => line.action.slice(line.action.indexOf('/') + 1)

/** Maps a key to an object of the draft: a version to its artifact, an entry to its ledger. */
export function subjectIn(key: string): Static<typeof Subject> {
  const kind = key.slice(key.indexOf('.') + 1, key.indexOf('/'))
  const id = key.slice(key.indexOf('/') + 1)
  if (kind === 'artifact') return { kind, id: id.slice(0, id.indexOf('@')) }
  return kind === 'entry' ? { kind: 'ledger', id: id.slice(0, id.indexOf('/')) } : { kind, id }
}

/** Readers of the record: agents see of each document what its kind shows them. */
export type Audience = 'agent' | 'keeper'
export const audienceOf = ({ kind }: Actor): Audience => (kind === 'agent' ? 'agent' : 'keeper')

function imageFor(audience: Audience, key: string, text: string | null): Record<string, unknown> | null {
  if (text === null) return null
  const value = JSON.parse(text) as Record<string, unknown>
  return audience === 'agent' ? (kindOf(key).forAgents(value) as Record<string, unknown>) : value
}

export function eventOf(stored: StoredFact, audience: Audience): AuditEvent {
  const line = lineIn(stored)
  const { id, seq, at, actor, behalf, detail, subject } = line
  const changes = stored.images.map((image) => ({
    ...subjectIn(image.key),
    version: image.version,
    before: imageFor(audience, image.key, image.before),
    after: imageFor(audience, image.key, image.text),
  }))
  return {
    id,
    seq,
    at,
    actor,
    action: actionIn(line),
    subject: subjectIn(subject),
    behalf,
    detail,
    task_id: line.task,
    before: changes[0]?.before ?? null,
    after: changes[0]?.after ?? null,
    project_id: line.scope,
    root_task_id: line.root,
    protocol: line.action.slice(0, line.action.indexOf('/')),
    basis: line.basis,
    cause: line.cause,
    changes,
    prev_hash: line.prev,
    hash: stored.hash,
  }
}

/** Current names for the ids in the record. Services and the system have none. */
export function namesBy(read: Read): (id: string) => Promise<string | null> {
  const known = new Map<string, Promise<string | null>>()
  return (id) => {
    const found = known.get(id) ?? read.ports.names.named(read, id).then((named) => named?.name ?? null)
    known.set(id, found)
    return found
  }
}
export async function withNames(event: AuditEvent, nameOf: ReturnType<typeof namesBy>): Promise<AuditEvent> {
  const { actor, behalf } = event
  return { ...event, actor_name: await nameOf(actor), behalf_name: behalf === null ? null : await nameOf(behalf) }
}

/** Size of the documents of an event. */
export const bytesOf = ({ images }: StoredFact): number =>
  images.reduce((sum, { text, before }) => sum + (text?.length ?? 0) + (before?.length ?? 0), 0)
