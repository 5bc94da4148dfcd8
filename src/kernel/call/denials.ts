// Denials as facts: an actor tried to reach something that it has no access to. The record names the actor, the subject and the operation,
// and none of the content.
import { batchOf, draftAt, type Draft } from './unit-of-work.ts'
import type { Fault, Refusal } from '../declare/errors.ts'
import { SYSTEM_SCOPE, type Actor } from '../declare/access.ts'
import type { NewId } from '../codec/ids.ts'
import { limits } from '../limits.ts'
import { createRateLimit } from '../codec/rate-limit.ts'
import { kindOf } from '../declare/schema.ts'
import type { Store } from '../log/store.ts'

export type Denials = { record(draft: Draft, operation: string, actor: Actor, refusal: Refusal): void; count(): number }

/** Records denials of authenticated actors, up to a limit per minute. The refusal itself changes nothing. */
export function createDenials(store: Store, codes: Readonly<Record<string, Fault>>, newId: NewId, now: () => number): Denials {
  const meter = createRateLimit(limits.denialsPerMinute, now)
  let count = 0
  return {
    record(draft, operation, actor, refusal) {
      const denied = refusal.code === 'UNAUTHORIZED' || (codes[refusal.code] === 'missing' && draft.hidden !== null)
      if (!denied || actor.kind === 'system') return
      count++
      if (!meter.take(actor.id)) return
      // The refusal does not wait for this commit: the delay of a disk write would reveal that the document exists. A closing store still
      // writes what is queued. A failed write must not change the refusal.
      store.commit(batchOf(denialOf(draft, operation, actor, newId('aud')))).catch(() => undefined)
    },
    count: () => count,
  }
}

/** The denial belongs to the chain of the requested document, if there is one. */
function denialOf(draft: Draft, operation: string, actor: Actor, id: string): Draft {
  const target = draft.hidden ?? [...draft.before].find(([, value]) => value !== null)?.[0] ?? null
  const value = target === null ? null : (draft.before.get(target) ?? null)
  const note = draftAt(draft.at)
  const scope = target === null || value === null ? SYSTEM_SCOPE : kindOf(target).scopeOf(value)
  note.scope = scope
  note.facts.push({
    id,
    scope,
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
