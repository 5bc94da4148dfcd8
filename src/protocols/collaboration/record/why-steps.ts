// Steps of an explanation: one fact of the record each, as the asker may see it.
import { ownsProject, SYSTEM_ID, SYSTEM_SCOPE, type Actor } from '#kernel/declare/access.ts'
import { isObject } from '#kernel/codec/strict-json.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { either, idOf, kindOf, nullable, t, type Static } from '#kernel/declare/schema.ts'
import type { Line } from '#kernel/log/hash-chain.ts'
import type { StoredFact, Value } from '#kernel/log/store.ts'
import { Id, Task, Timestamp } from '../schema.ts'
import { lineIn } from './audit-view.ts'

const Kind = either('human', 'agent', 'service', 'system')
const Basis = t.Object({ kind: either('human', 'grant', 'policy', 'default', 'system'), id: nullable(t.String()), message: t.String() })
export const Step = t.Object({
  project_id: nullable(t.String()),
  seq: nullable(t.Integer()),
  hash: nullable(t.String()),
  at: nullable(Timestamp),
  action: nullable(t.String()),
  subject_id: nullable(t.String()),
  actor: nullable(t.Object({ id: Id, name: nullable(t.String()), kind: Kind })),
  behalf: nullable(Id),
  basis: nullable(Basis),
  receipt_id: nullable(Id),
  signed_by_passkey: t.Boolean({ description: 'the person has signed it with a device of their own' }),
  hidden: t.Boolean({ description: 'the step is there, and you may not read it' }),
})
export type Step = Static<typeof Step>

/** A fact with the document that it is about. */
export type Explained = { readonly stored: StoredFact; readonly line: Line; readonly value: Value | null }

export function explainedBy(stored: StoredFact): Explained {
  const line = lineIn(stored)
  const text = stored.images.find(({ key }) => key === line.subject)?.text ?? null
  return { stored, line, value: text === null ? null : (JSON.parse(text) as Value) }
}

/** Owners read the whole record of a project, others what is about a task or a document that they read. */
export async function mayRead(read: Read, { line }: Explained, actor: Actor): Promise<boolean> {
  if (actor.projects === 'all' || ownsProject(actor, line.scope)) return true
  if (line.scope === SYSTEM_SCOPE && actor.owner === true) return true
  if (line.task !== null && (await read.maybe(Task, line.task)) !== null) return true
  return (await read.maybe(kindOf(line.subject), idOf(line.subject))) !== null
}

export const kindOfActor = async (read: Read, id: string): Promise<Static<typeof Kind>> =>
  id === SYSTEM_ID ? 'system' : ((await read.subject(id))?.kind ?? 'service')

function basisOf({ line, value }: Explained, kind: Static<typeof Kind>): Static<typeof Basis> {
  const { id } = line.basis
  const decided = value?.['basis']
  // A call at the gate keeps what decided it: its fact says only who made the call.
  if (line.subject.startsWith('gate.call/') && isObject(decided) && decided['kind'] !== 'system')
    return {
      kind: decided['kind'] as 'policy',
      id: (decided['id'] as string | null) ?? null,
      message: messages[decided['kind'] as string]!,
    }
  if (line.basis.kind === 'grant' || line.basis.kind === 'policy' || line.basis.kind === 'default')
    return { kind: line.basis.kind, id, message: messages[line.basis.kind]! }
  if (line.basis.kind === 'role' && kind === 'human') return { kind: 'human', id, message: `as ${id}` }
  return { kind: 'system', id, message: line.basis.kind === 'role' ? `as ${id}` : `it follows by ${line.basis.kind}` }
}
const messages: Readonly<Record<string, string>> = {
  human: 'a person answered',
  grant: 'a grant allowed it in advance',
  policy: 'a rule that a person set decided it',
  default: 'nobody answered in time: the stated default was taken',
}

export async function stepOf(read: Read, found: Explained, actor: Actor, nameOf: (id: string) => Promise<string | null>): Promise<Step> {
  const { stored, line, value } = found
  if (!(await mayRead(read, found, actor))) return hiddenStep
  const receipt = value?.['receipt']
  const signed = isObject(receipt) ? receipt['assertion'] : undefined
  const kind = await kindOfActor(read, line.actor)
  return {
    project_id: line.scope,
    seq: line.seq,
    hash: stored.hash,
    at: line.at,
    action: line.action,
    subject_id: idOf(line.subject),
    actor: { id: line.actor, name: await nameOf(line.actor), kind },
    behalf: line.behalf,
    basis: basisOf(found, kind),
    receipt_id: isObject(receipt) && typeof receipt['receipt_id'] === 'string' ? receipt['receipt_id'] : null,
    signed_by_passkey: signed !== undefined || line.detail?.['assertion'] !== undefined,
    hidden: false,
  }
}
const hiddenStep: Step = {
  project_id: null,
  seq: null,
  hash: null,
  at: null,
  action: null,
  subject_id: null,
  actor: null,
  behalf: null,
  basis: null,
  receipt_id: null,
  signed_by_passkey: false,
  hidden: true,
}
