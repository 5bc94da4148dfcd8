// A store in memory, a clock that the test moves, and the toy protocol, for tests of workers.
import { timestampOf } from '#kernel/ports/clock.ts'
import { Delivery } from '#kernel/log/outbox-document.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { duePrefix, END, idIn, keyOf } from '#kernel/declare/schema.ts'
import type { Store } from '#kernel/log/store.ts'
import { memoryStore, type MemoryOptions } from '#stores/memory.ts'
import { manualClock, type ManualClock } from './manual-clock.ts'
import { alice, Note, toyKernel } from './toy.ts'

export const silent = { debug() {}, info() {}, warn() {}, error() {} }
export const DAY_MS = 24 * 3_600_000

export type WorkerWorld = { readonly clock: ManualClock; readonly store: Store; readonly kernel: Kernel }
export function workerWorld(options: MemoryOptions = {}): WorkerWorld {
  const clock = manualClock()
  const store = memoryStore(options)
  return { clock, store, kernel: toyKernel(store, { now: clock.now }) }
}

export const deliveries = async (store: Store): Promise<Delivery[]> => {
  const keys = await store.keys(`${Delivery.kind}/`, `${Delivery.kind}/${END}`, 1_000)
  return (await store.read(keys)).map((row) => row!.value as Delivery)
}
export const timesOf = async (store: Store, id: string): Promise<number> =>
  ((await store.read([keyOf(Note, id)]))[0]?.value['times'] as number | undefined) ?? 0
export const remind = ({ kernel, clock }: WorkerWorld, id: string, inMs: number | number[], call = 'toy/note.keep'): Promise<unknown> =>
  kernel.call('toy/note.remind', { id, due: [inMs].flat().map((ms) => ({ at: timestampOf(clock.now() + ms), call })) }, alice)
/** Keys of the documents that wait for a time. */
export const waitingIn = async (store: Store): Promise<string[]> => (await store.scan(duePrefix, duePrefix + END, 1_000)).map(idIn)
