// What the record says of somebody who reached for what is not theirs: who, for what, by which operation, and nothing of its content.
import { draftAt, type Draft } from './draft.ts'
import { SYSTEM_SCOPE, type Actor } from './identity.ts'
import { kindOf } from './schema.ts'

/** In the chain of the document that was reached for, where there is one. */
export function denialOf(draft: Draft, operation: string, actor: Actor, id: string): Draft {
  const target = draft.hidden ?? [...draft.before].find(([, value]) => value !== null)?.[0] ?? null
  const value = target === null ? null : (draft.before.get(target) ?? null)
  const note = draftAt(draft.at)
  note.scope = target === null || value === null ? SYSTEM_SCOPE : kindOf(target).scopeOf(value)
  note.facts.push({
    id,
    action: 'kernel/authorization.denied',
    actor: actor.id,
    behalf: actor.behalf ?? null,
    basis: { kind: 'role', id: actor.kind },
    cause: null,
    subject: target ?? `kernel.operation/${operation}`,
    task: null,
    root: null,
    detail: { operation },
    images: [],
  })
  return note
}
