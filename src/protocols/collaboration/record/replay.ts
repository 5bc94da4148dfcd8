// Rebuilding a task from its events alone, and comparing the result with the stored documents.
import { canonical } from '#kernel/log/canonical-json.ts'
import { differenceIn, sha256, type Difference } from '#kernel/log/hash-chain.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { idOf, kindOf } from '#kernel/declare/schema.ts'
import { limits } from '#kernel/limits.ts'
import type { StoredFact } from '#kernel/log/store.ts'
import { bytesOf, eventOf, type Audience, type AuditEvent } from './audit-view.ts'
import { Task } from '../schema.ts'

type Folded = { readonly version: number; readonly digest: string | null; readonly scope: string; readonly seq: number }

/**
 * Folds facts into the latest image of each document of the task, and finds the first event that differs from its seal or does not follow.
 * Only digests of the images are kept, because a task's artifacts can be large.
 */
export function createFolding(task_id: string) {
  const images = new Map<string, Folded>()
  let difference: Difference | null = null
  let newest: string | null = null
  let taken = 0
  /** `fault`: how it differs from its seal. */
  function take(stored: StoredFact, fault: string | null): void {
    taken++
    difference ??= differenceIn(stored, null)
    if (fault !== null) difference ??= { scope: stored.scope, seq: stored.seq, what: fault }
    for (const { key, version, text } of stored.images) {
      // Skip documents shared with other tasks, such as the newest version of a ledger key.
      if (text !== null && kindOf(key).taskOf(JSON.parse(text)) !== task_id) continue
      const expected = (images.get(key)?.version ?? 0) + 1
      if (version !== expected) {
        difference ??= { scope: stored.scope, seq: stored.seq, what: `version ${expected} of ${key} is missing from the record` }
      }
      images.set(key, { version, digest: text === null ? null : sha256(text), scope: stored.scope, seq: stored.seq })
      if (key === `${Task.kind}/${task_id}`) newest = text
    }
  }
  return {
    images,
    take,
    taken: () => taken,
    difference: () => difference,
    task: () => (newest === null ? null : (JSON.parse(newest) as Task)),
  }
}

export async function againstStored(read: Read, images: ReadonlyMap<string, Folded>): Promise<Difference | null> {
  for (const [key, { digest, scope, seq }] of images) {
    if (digest === null) continue
    const stored = await read.raw(kindOf(key), idOf(key))
    if (stored === null || sha256(canonical(stored)) !== digest)
      return { scope, seq, what: `the stored ${key} differs from what its last event says` }
  }
  return null
}

/** A page of events with their documents, from a position on, limited by bytes. The task is still rebuilt from all events. */
export function createPage(after: number, audience: Audience) {
  const events: AuditEvent[] = []
  let bytes = 0
  let last = after
  let isMore = false
  return {
    events,
    take(stored: StoredFact): void {
      if (stored.position <= after) return
      isMore ||= bytes > limits.pageBytesMax
      if (isMore) return
      events.push(eventOf(stored, audience))
      bytes += bytesOf(stored)
      last = stored.position
    },
    goesOnAfter: (): number | null => (isMore ? last : null),
  }
}
