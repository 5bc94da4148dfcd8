// Due documents: each kind says which operation acts on one of its documents at a time, and the index of these times is the truth. Acting
// on a document changes it, and with it the time; nothing has to be settled.
import { timestampOf, type Clock } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { DUE, END, idIn, keyOf, kindsWithDue, prefixOf, type AnyDoc } from '#kernel/declare/schema.ts'
import { isOvertaken } from './late-calls.ts'
import { readSound } from './upkeep/sound-documents.ts'
import { SLEEP_MS_MAX, type Worker, type WorkerLog } from './worker.ts'

/** Between two looks into the index, so that a busy store does not make it look at every commit. */
const REST_MS = 10
const PAGE = 64
const PAUSE_MS_MAX = 60_000
const PAUSED_MAX = 10_000

type Pause = { readonly until: number; readonly tries: number }

export function runDue(kernel: Kernel, clock: Clock, log: WorkerLog): Worker {
  const { store } = kernel
  const kinds = kindsWithDue()
  const stopping = new AbortController()
  /** What was tried and is still due: it comes again later, and what lies behind it is not held up. */
  const paused = new Map<string, Pause>()
  let waker = new AbortController()
  let woken = false

  function wake(): void {
    woken = true
    waker.abort()
  }

  function pause(key: string): void {
    const tries = (paused.get(key)?.tries ?? 0) + 1
    // Forgetting one only means that it is tried again sooner.
    if (paused.size >= PAUSED_MAX) paused.delete(paused.keys().next().value!)
    paused.set(key, { until: clock.now() + Math.min(PAUSE_MS_MAX, 100 * 2 ** tries), tries })
  }

  async function act(kind: AnyDoc, id: string): Promise<void> {
    const key = keyOf(kind, id)
    const [found] = await readSound(store, [key])
    const due = found && kind.due(found.value)
    if (!due || due.at > timestampOf(clock.now())) return
    try {
      await kernel.call(due.call, due.input, { ...SYSTEM, basis: { kind: 'timer', id: key } })
      const [after] = await store.read([key])
      if ((after && kind.due(after.value)?.at) !== due.at) paused.delete(key)
      else pause(key)
    } catch (error) {
      pause(key)
      const words = { key, call: due.call, error: error instanceof Error ? error.message : String(error) }
      if (error instanceof Refusal && isOvertaken(kernel, error)) log.debug(words, 'a due document came too late to matter')
      else log.warn(words, 'a due document could not be handled; trying again')
    }
  }

  /** Does what is due of one kind; answers when to look again. */
  async function turn(kind: AnyDoc): Promise<number> {
    const prefix = prefixOf(kind, DUE, [])
    const now = clock.now()
    const end = `${prefix}${timestampOf(now)}\u{1}`
    let next = SLEEP_MS_MAX
    for (let place = prefix; ;) {
      const entries = await store.scan(place, end, PAGE)
      const ready: string[] = []
      for (const entry of entries) {
        const until = paused.get(keyOf(kind, idIn(entry)))?.until ?? 0
        // A clock that stepped back must not make it wait for longer than a pause lasts.
        if (until <= now || until > now + PAUSE_MS_MAX) ready.push(idIn(entry))
        else next = Math.min(next, until - now)
      }
      await Promise.all(ready.map((id) => act(kind, id)))
      if (entries.length < PAGE || stopping.signal.aborted) break
      place = entries.at(-1)!
    }
    const [later] = await store.scan(end, prefix + END, 1)
    if (later === undefined) return next
    const at = Date.parse(later.slice(prefix.length, later.indexOf('\0', prefix.length)))
    return Math.min(next, Math.max(REST_MS, at - now))
  }

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      woken = false
      let ms = SLEEP_MS_MAX
      try {
        for (const kind of kinds) ms = Math.min(ms, await turn(kind))
      } catch (error) {
        log.error({ error: String(error) }, 'due documents could not be read')
        ms = 1_000
      }
      await clock.sleep(REST_MS, stopping.signal)
      if (woken || stopping.signal.aborted || ms <= REST_MS) continue
      waker = new AbortController()
      await clock.sleep(ms - REST_MS, waker.signal)
    }
  }

  // A hint; the index is the truth.
  const unsubscribe = store.subscribe(wake)
  const running = loop()
  return {
    async stop() {
      unsubscribe()
      stopping.abort()
      wake()
      await running
    },
  }
}
