// Timers: documents that are due. Each kind declares the operation that acts on one of its documents at a time, and the index of these
// times is the truth. Acting on a document changes it, and with it the time; nothing has to be settled.
import { messageOf } from '#kernel/codec/cut-text.ts'
import { backoffMs } from '#kernel/codec/backoff.ts'
import { setBounded } from '#kernel/codec/bounded-map.ts'
import { timestampOf, type Clock } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { dueIn, duePrefix, dueUntil, END, idIn, kindOf } from '#kernel/declare/schema.ts'
import type { Key } from '#kernel/log/store.ts'
import { readSound } from './upkeep/sound-documents.ts'
import { ALONE, type Duty } from './leases.ts'
import { runLoop } from './loop.ts'
import { SLEEP_MS_MAX, type Worker, type WorkerLog } from './worker.ts'

/**
 * Between two looks into the index, so that a busy store does not make it look at every commit: at 10 ms it took 1 % of a server under load. Only
 * a time that is set less than this ahead may be met this much late.
 */
const REST_MS = 40
const PAGE = 64
const PAUSE_MS_MAX = 60_000
const PAUSED_MAX = 10_000

type Pause = { readonly until: number; readonly tries: number }

export function runTimers(kernel: Kernel, clock: Clock, log: WorkerLog, duty: Duty = ALONE): Worker {
  const { store } = kernel
  /** Keys of documents that were tried and are still due: they are retried later and do not hold up others. */
  const paused = new Map<Key, Pause>()

  function pause(key: Key): void {
    const tries = (paused.get(key)?.tries ?? 0) + 1
    // An evicted entry is only retried sooner.
    setBounded(paused, key, { until: clock.now() + backoffMs(100, PAUSE_MS_MAX, tries), tries }, PAUSED_MAX)
  }

  /** The document has changed since. Any other refusal can be temporary. */
  const isOvertaken = ({ code }: Refusal): boolean =>
    code === 'PRECONDITION_FAILED' || kernel.codes[code] === 'missing' || kernel.codes[code] === 'gone'

  async function act(key: Key): Promise<void> {
    const kind = kindOf(key)
    const [found] = await readSound(store, [key])
    const due = found && kind.due(found.value)
    if (!due || due.at > timestampOf(clock.now())) return void paused.delete(key)
    try {
      await kernel.call(due.call, due.input, duty.as({ basis: { kind: 'timer', id: key } }))
      const [after] = await store.read([key])
      if ((after && kind.due(after.value)?.at) !== due.at) paused.delete(key)
      else pause(key)
    } catch (error) {
      pause(key)
      const context = { key, call: due.call, error: messageOf(error) }
      if (error instanceof Refusal && isOvertaken(error)) log.debug(context, 'a due document was overtaken: there is nothing left to do')
      else log.warn(context, 'could not handle a due document; trying again')
    }
  }

  /** Acts on all documents that are due; answers when to look again. */
  async function turn(signal: AbortSignal): Promise<number> {
    const now = clock.now()
    const end = dueUntil(timestampOf(now))
    let next = SLEEP_MS_MAX
    for (let place = duePrefix; ;) {
      const entries = await store.scan(place, end, PAGE)
      const ready: Key[] = []
      for (const entry of entries) {
        const key = idIn(entry)
        const until = paused.get(key)?.until ?? 0
        // A clock that stepped back must not make it wait for longer than a pause lasts.
        if (until <= now || until > now + PAUSE_MS_MAX) ready.push(key)
        else next = Math.min(next, until - now)
      }
      await Promise.all(ready.map(act))
      for (const key of ready) next = Math.min(next, (paused.get(key)?.until ?? Infinity) - now)
      if (entries.length < PAGE || signal.aborted) break
      place = entries.at(-1)!
    }
    const [later] = await store.scan(end, duePrefix + END, 1)
    return later === undefined ? next : Math.min(next, Math.max(1, Date.parse(dueIn(later)) - now))
  }

  // A hint; the index is the truth.
  return runLoop({
    name: 'timers',
    clock,
    log,
    duty,
    turn,
    tail: kernel.tail,
    restMs: REST_MS,
    failed: 'could not read the due documents',
  })
}
