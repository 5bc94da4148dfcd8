// The effect runner: a port acts, and the outcome is recorded, however long that takes. An effect that a crash left open is recorded as
// unknown at the next start; no effect is repeated.
import { backoffMs } from '#kernel/codec/backoff.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { Pending, type Perform } from '#kernel/call/effects.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { END, keyOf } from '#kernel/declare/schema.ts'
import type { Value } from '#kernel/log/store.ts'
import { readSound } from './upkeep/sound-documents.ts'
import type { Leases } from './leases.ts'
import { runLoop } from './loop.ts'
import type { Worker, WorkerLog } from './worker.ts'

/** Acts within its own bounds and returns the outcome, even if the signal aborts. */
export type Port = (request: unknown, signal: AbortSignal) => Promise<Value>

export type EffectRunner = Worker & { readonly perform: Perform }

const BACKOFF_MS = 100
const BACKOFF_MS_MAX = 5_000
const ATTEMPTS_MAX = 100
/** The store cannot write at present. Any other refusal stays one, and an error that is no refusal is a bug, which no attempt mends. */
const mayPass = (error: unknown): boolean => error instanceof Refusal && ['BUSY', 'UNAVAILABLE', 'CONFLICT'].includes(error.code)
const isRecorded = (error: unknown): boolean => error instanceof Refusal && ['PRECONDITION_FAILED', 'NOT_FOUND'].includes(error.code)

export function createEffectRunner(ports: Readonly<Record<string, Port>>, clock: Clock, log: WorkerLog, graceMs: number): EffectRunner {
  /** Stops the acting; a moment later also the attempts to record. */
  const stopping = new AbortController()
  const ending = new AbortController()
  const underWay = new Set<Promise<unknown>>()

  async function act(port: string, request: unknown): Promise<Value | null> {
    try {
      return await ports[port]!(request, stopping.signal)
    } catch (error) {
      log.error({ err: error, port }, 'a port did not report the outcome of its work')
      return null
    }
  }

  async function recordOutcome(
    port: string,
    conclude: (outcome: Value | null) => Promise<unknown>,
    outcome: Value | null,
  ): Promise<unknown> {
    let known = outcome
    for (let attempt = 1; ; attempt++) {
      try {
        return await conclude(known)
      } catch (error) {
        if (!mayPass(error)) {
          if (known === null || isRecorded(error)) throw error
          // The outcome itself cannot be recorded, such as a value that is not JSON.
          log.error({ err: error, port }, 'the outcome of an effect could not be recorded: it is recorded as unknown')
          known = null
          continue
        }
        if (attempt === ATTEMPTS_MAX || ending.signal.aborted) throw error
        // It was done: that it cannot be written down now does not make it undone.
        await clock.sleep(backoffMs(BACKOFF_MS, BACKOFF_MS_MAX, attempt), ending.signal)
      }
    }
  }

  return {
    perform(port, request, conclude) {
      const work = act(port, request).then((outcome) => recordOutcome(port, conclude, outcome))
      const quiet = work.catch(() => undefined)
      underWay.add(quiet)
      void quiet.finally(() => underWay.delete(quiet))
      return work
    },
    async stop() {
      const all = Promise.all(underWay)
      const enough = new AbortController()
      await Promise.race([all, clock.sleep(graceMs, enough.signal)])
      stopping.abort()
      await Promise.race([all, clock.sleep(graceMs, enough.signal)])
      ending.abort()
      enough.abort()
    },
  }
}

const PAGE = 200

type Others = Pick<Leases, 'isEnded' | 'asEnded'>
const NOBODY_ELSE: Others = { isEnded: () => true, asEnded: (_, __, more) => ({ ...SYSTEM, ...more }) }

/**
 * An effect in flight when a process ended has an unknown outcome. A process without others concludes it before it answers
 * anybody.
 */
export async function concludeUnknown(kernel: Kernel, log: WorkerLog, others: Others = NOBODY_ELSE): Promise<number> {
  const { store } = kernel
  let concluded = 0
  for (let keys: string[] = [keyOf(Pending, '')]; keys.length > 0;) {
    keys = await store.keys(keys.at(-1)!, keyOf(Pending, END), PAGE)
    for (const found of keys.length === 0 ? [] : await readSound(store, keys)) {
      const { id, conclude, behalf, node, epoch } = found.value as Pending
      if (node !== undefined && !others.isEnded(node, epoch!)) continue
      try {
        const as = node === undefined ? { ...SYSTEM, behalf } : others.asEnded(node, epoch!, { behalf })
        await kernel.call(conclude, { id }, as)
        concluded++
      } catch (error) {
        // Its server was paused and is back: that server records the outcome itself.
        if (node !== undefined && error instanceof Refusal && error.code === 'CONFLICT') continue
        if (mayPass(error)) throw error
        // An effect that can never be concluded must not keep everything else from starting.
        log.error({ err: error, pending: id, conclude }, 'an unknown outcome could not be recorded')
      }
    }
  }
  if (concluded > 0) log.warn({ concluded }, 'work was under way when the server ended: its outcome is recorded as unknown')
  return concluded
}

const EVERY_MS = 2_000

/** Concludes the effects that other servers left open when they ended. A single process does so when it starts. */
export const runConcluder = (kernel: Kernel, clock: Clock, log: WorkerLog, leases: Leases): Worker =>
  runLoop({
    name: 'effects',
    clock,
    log,
    duty: leases.duty('effects'),
    failed: 'unknown could not record outcomes; trying again',
    async turn() {
      await concludeUnknown(kernel, log, leases)
      return EVERY_MS
    },
  })
