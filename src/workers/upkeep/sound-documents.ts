// Reads of many documents for a worker: a document that differs from the record is skipped and does not hold up the others.
import { Damaged } from '#kernel/declare/errors.ts'
import type { Key, Store, Versioned } from '#kernel/log/store.ts'

export async function readSound(store: Store, keys: readonly Key[]): Promise<Versioned[]> {
  try {
    return (await store.read(keys)).filter((found) => found !== undefined)
  } catch (error) {
    if (!(error instanceof Damaged)) throw error
    if (keys.length === 1) return []
  }
  const each = await Promise.all(keys.map((key) => readSound(store, [key])))
  return each.flat()
}
