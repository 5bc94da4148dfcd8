// Presence of agents and use of keys: the time of the last call, in memory for every call, and now and then in a file, so that a restart
// does not forget it.
import { limits } from '#kernel/limits.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Presence } from '#kernel/ports/presence.ts'
import { runLoop } from './loop.ts'
import { SLEEP_MS_MAX, type Worker, type WorkerLog } from './worker.ts'

/** Times in milliseconds by the id of an agent or a key. */
export type SeenFile = { read(): Promise<ReadonlyMap<string, number>>; write(seen: ReadonlyMap<string, number>): Promise<void> }

/** The time between two writes: after a crash, a stored time is at most this much too early. */
const EVERY_MS = 5 * SLEEP_MS_MAX

const isKey = (id: string): boolean => id.startsWith('key_')

export function createPresence(now: () => number, known: ReadonlyMap<string, number> = new Map()) {
  const seen = new Map(known)
  let keys = [...seen.keys()].filter(isKey).length
  const listening = new Map<string, number>()
  function noteSeen(id: string): void {
    const at = now()
    if (seen.get(id) === at) return
    // A used key moves to the end, so the first key is the least recently used.
    if (isKey(id) && !seen.delete(id)) keys++
    seen.set(id, at)
    if (keys <= limits.keysSeenMax) return
    seen.delete(seen.keys().find(isKey)!)
    keys--
  }
  const lastSeen = (id: string): number | null => (listening.has(id) ? now() : (seen.get(id) ?? null))
  const presence: Presence = {
    heard: noteSeen,
    lastSeen,
    listens(agent_id) {
      listening.set(agent_id, (listening.get(agent_id) ?? 0) + 1)
      let isOver = false
      return () => {
        if (isOver) return
        isOver = true
        noteSeen(agent_id)
        const left = listening.get(agent_id)! - 1
        if (left === 0) listening.delete(agent_id)
        else listening.set(agent_id, left)
      }
    },
  }
  const all = (): ReadonlyMap<string, number> => {
    for (const agent_id of listening.keys()) noteSeen(agent_id)
    return seen
  }
  const countConnected = (): number => [...all()].filter(([id, at]) => !isKey(id) && now() - at <= limits.connectedMs).length
  return { presence, all, connected: countConnected }
}

export type KeptPresence = {
  readonly presence: Presence
  /** How many agents called or listened lately. */
  connected(): number
  readonly worker: Worker
}

/** Writes a small file every few minutes, however many calls there are, and not at all without calls of agents. */
export async function keepPresence(file: SeenFile, clock: Clock, log: WorkerLog): Promise<KeptPresence> {
  const known = await file.read()
  const { presence, all, connected } = createPresence(clock.now, known)
  let written = sumOf(known)

  async function save(): Promise<void> {
    const seen = all()
    if (sumOf(seen) === written) return
    written = sumOf(seen)
    await file.write(seen).catch((error: unknown) => log.warn({ error: String(error) }, 'could not save when agents were last seen'))
  }

  const loop = runLoop({
    name: 'presence',
    clock,
    log,
    firstMs: EVERY_MS,
    failed: 'could not save when agents were last seen',
    async turn() {
      await save()
      return EVERY_MS
    },
  })
  return {
    presence,
    connected,
    worker: {
      ...loop,
      async stop() {
        await loop.stop()
        await save()
      },
    },
  }
}

/** Times only grow, so an equal sum means that no time has changed. */
const sumOf = (seen: ReadonlyMap<string, number>): number => [...seen.values()].reduce((sum, at) => sum + at, 0)
