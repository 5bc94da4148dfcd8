// Batches by hand, for tests of stores: what the kernel would commit, and what can be asked of a store afterwards.
import assert from 'node:assert/strict'
import { differenceIn } from '#kernel/log/hash-chain.ts'
import { Refusal, type Conflict } from '#kernel/declare/errors.ts'
import type { Batch, Fact, Put, Store, Value } from '#kernel/log/store.ts'

export const AT = '2026-01-01T00:00:00.000Z'
export const SCOPE = 'project_a'

let made = 0
export const batchOf = (batch: Partial<Batch>): Batch => ({
  scope: SCOPE,
  at: AT,
  expect: new Map(),
  create: new Set(),
  facts: [],
  puts: [],
  add: [],
  drop: [],
  count: new Map(),
  wakes: [],
  atMost: [],
  ...batch,
})
export const factOf = (images: Record<string, Value>, more: Partial<Fact> = {}): Fact => ({
  id: `aud_${++made}`,
  action: 'toy/note.written',
  actor: 'user_alice',
  behalf: null,
  basis: { kind: 'role', id: 'human' },
  cause: null,
  subject: Object.keys(images)[0] ?? 'toy.note/none',
  task: null,
  root: null,
  detail: null,
  images: Object.entries(images).map(([key, value]) => ({ key, value, text: JSON.stringify(value) })),
  ...more,
})
export const putOf = (key: string, value: Value | null): Put => ({ key, value, text: value === null ? null : JSON.stringify(value) })

/** Creates documents, each described by its own fact. */
export const creating = (...keys: string[]): Batch =>
  batchOf({ create: new Set(keys), facts: keys.map((key) => factOf({ [key]: { id: key, n: 1 } })) })
/** Writes the next version of a document that was read at `version`. */
export const updating = (key: string, version: number, value: Value = { id: key, n: version + 1 }): Batch =>
  batchOf({ expect: new Map([[key, version]]), facts: [factOf({ [key]: value })] })
export const counting = (prefix: string, entry: string, max: number): Batch =>
  batchOf({
    create: new Set([entry]),
    puts: [putOf(entry, { id: entry })],
    add: [`${prefix}${entry}`],
    count: new Map([[prefix, 1]]),
    atMost: [{ prefix, max, message: `at most ${max}` }],
  })

export const versionsOf = async (store: Store, keys: string[]): Promise<(number | undefined)[]> =>
  (await store.read(keys)).map((found) => found?.version)
export const isConflict =
  (key: string) =>
  (error: Conflict): boolean => {
    assert.equal(error.code, 'CONFLICT')
    assert.equal(error.key, key)
    return true
  }
export const codeOf = (error: unknown): string => (error instanceof Refusal ? error.code : 'error')
export async function codesOf(commits: Promise<unknown>[]): Promise<string[]> {
  const settled = await Promise.allSettled(commits)
  return settled.map((one) => (one.status === 'fulfilled' ? 'ok' : codeOf(one.reason)))
}
export async function assertChain(store: Store): Promise<void> {
  const tips = new Map<string, { seq: number; hash: string }>()
  for (const stored of await store.facts({ by: 'position' }, { after: null, limit: 1_000 })) {
    const tip = tips.get(stored.scope) ?? { seq: 0, hash: '' }
    assert.equal(stored.seq, tip.seq + 1)
    assert.equal(differenceIn(stored, tip.hash), null)
    tips.set(stored.scope, stored)
  }
  for (const [scope, { seq, hash }] of tips) {
    const head = await store.head(scope)
    assert.deepEqual({ seq: head.seq, hash: head.hash }, { seq, hash })
  }
}
