// Outgoing decisions: the page holds each for five seconds, during which it can be undone, and then sends it. An item counts as decided
// only after its receipt has arrived and was verified.
import { queries } from '../server/client.ts'
import { tellError } from '../app/error-toast.tsx'
import { createListeners, createStore } from '../parts/store.ts'
import { codeOf, Unverified, messageOf } from '../server/errors.ts'
import { isLive } from '../server/live.ts'
import { checkReceipt } from '../server/receipts.ts'

export const HELD_MS = 5_000

export type Decision = {
  readonly request_id: string
  readonly title: string
  /** Such as "Approving". */
  readonly verb: string
  readonly digest: string
  /** Returns the receipt; null for a vote that decides nothing yet. */
  send(): Promise<unknown>
  /** Called when the answer has arrived: typed text is kept until then. */
  arrived?(): void
}
export type Phase = 'held' | 'sending' | 'done' | 'voted' | 'failed' | 'changed'
export type Outgoing = Decision & { readonly phase: Phase; readonly dueAt: number; readonly error: unknown; readonly receipt: unknown }

const all = createStore<ReadonlyMap<string, Outgoing>>(new Map())
const timers = new Map<string, ReturnType<typeof setTimeout>>()

function set(outgoing: Outgoing | null, request_id: string): void {
  const next = new Map(all.get())
  if (outgoing === null) next.delete(request_id)
  else next.set(request_id, outgoing)
  all.set(next)
}
export const useOutgoing = (request_id: string): Outgoing | undefined => all.use((decisions) => decisions.get(request_id))
export const useAllOutgoing = (): ReadonlyMap<string, Outgoing> => all.use()

export function hold(decision: Decision): void {
  if (['held', 'sending'].includes(all.get().get(decision.request_id)?.phase ?? '')) return
  set({ ...decision, phase: 'held', dueAt: Date.now() + HELD_MS, error: null, receipt: null }, decision.request_id)
  timers.set(
    decision.request_id,
    setTimeout(() => void release(decision.request_id), HELD_MS),
  )
}
const undone = createListeners<[request_id: string]>()
/** Told of each decision that was taken back. */
export const onUndone = undone.add
export function undo(request_id: string): void {
  if (all.get().get(request_id)?.phase !== 'held') return
  clearTimeout(timers.get(request_id))
  set(null, request_id)
  undone.notify(request_id)
}
export function undoLast(): void {
  const held = [...all.get().values()].filter(({ phase }) => phase === 'held')
  const last = held.toSorted((one, other) => one.dueAt - other.dueAt).at(-1)
  if (last) undo(last.request_id)
}
/** Resends a refused or unanswered decision, without retyping anything. */
export function sendAgain(request_id: string): void {
  const outgoing = all.get().get(request_id)
  if (outgoing?.phase !== 'failed' || isDoubted(outgoing)) return
  set({ ...outgoing, phase: 'held', dueAt: Date.now(), error: null }, request_id)
  void release(request_id)
}
/** The server returned a receipt that does not verify, so the item is not shown as decided, even if the server says so. */
export const isDoubted = (sent: Outgoing | undefined): boolean => sent?.phase === 'failed' && sent.error instanceof Unverified

/** Drops a refusal that the user has read. */
export function dismiss(request_id: string): void {
  if (['failed', 'changed'].includes(all.get().get(request_id)?.phase ?? '')) set(null, request_id)
}

async function release(request_id: string): Promise<void> {
  const outgoing = all.get().get(request_id)
  if (outgoing?.phase !== 'held') return
  clearTimeout(timers.get(request_id))
  set({ ...outgoing, phase: 'sending' }, request_id)
  try {
    const receipt = await outgoing.send()
    if (receipt === null || receipt === undefined) set({ ...outgoing, phase: 'voted' }, request_id)
    else {
      const verdict = await checkReceipt(receipt, request_id)
      if (!verdict.ok) throw new Unverified(verdict.words)
      set({ ...outgoing, phase: 'done', receipt }, request_id)
    }
    outgoing.arrived?.()
    // With a live connection, the event of the decision refreshes the item and the count.
    if (isLive()) return
  } catch (error) {
    set({ ...outgoing, phase: codeOf(error) === 'CHANGED' ? 'changed' : 'failed', error }, request_id)
    // The item's own page already shows the error.
    if (location.pathname !== `/inbox/${request_id}`) tellError(`${outgoing.title}: ${messageOf(error)}`)
  }
  void queries.invalidateQueries({ queryKey: ['item', request_id] })
}

/** Sends held answers immediately: a closed or hidden page cannot count down the undo delay. */
export function releaseAll(): void {
  for (const { request_id } of all.get().values()) void release(request_id)
}
addEventListener('pagehide', releaseAll)
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'hidden') releaseAll()
})
