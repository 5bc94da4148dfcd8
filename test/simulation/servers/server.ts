// One server of several: the shipped group commit, kernel, leases, timers, outbox and effect runner on the simulated PostgreSQL, with a clock
// of its own that may be an hour away from those of the others and may step.
import type { Backend } from '#kernel/log/backend.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { createGroupCommit } from '#kernel/log/group-commit.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import type { Delivery } from '#kernel/log/outbox-document.ts'
import { createFeed, feedIn } from '#stores/postgres/feed.ts'
import { createWriting } from '#stores/postgres/writing.ts'
import { createEffectRunner, runConcluder } from '#workers/effect-runner.ts'
import { openLeases, type Leases } from '#workers/leases.ts'
import { runOutbox } from '#workers/outbox.ts'
import { runTimers } from '#workers/timers.ts'
import type { Worker } from '#workers/worker.ts'
import type { Random } from '../random.ts'
import type { Database } from './database.ts'
import { POST, simProtocol, WORLD } from './protocol.ts'
import type { Life, Scheduler } from './scheduler.ts'

export const LEASES = ['timers', `outbox/${POST}`, 'effects'] as const
/** Where notifications may be lost, a server looks for itself this often. */
const LOOK_MS = 1_000
const START_MS = Date.UTC(2026, 0, 1)

export type Server = {
  readonly name: string
  readonly life: Life
  /** The name that its groups are written under. */
  readonly writes: string
  readonly kernel: Kernel
  leases(): Leases | null
  isServing(): boolean
  isStopping(): boolean
  /** Gives back what it has, and is gone. */
  stop(): void
}

export type ServerOptions = {
  readonly name: string
  readonly writes: string
  readonly random: Random
  readonly scheduler: Scheduler
  readonly database: Database
  /** How far its wall clock is away. */
  readonly offset: () => number
  /** It does something outside. */
  readonly onAct: (id: string, server: Server) => void
  /** Something is posted; answers whether the receiver took it. */
  readonly onPost: (delivery: string, server: Server) => boolean
  readonly gone: (server: Server) => void
}

const silent = { debug() {}, info() {}, warn() {}, error() {} }

function backendOn(database: Database, scheduler: Scheduler, random: Random, life: Life, writes: string): Backend {
  const feed = createFeed(database.groups())
  const name = (): string => Buffer.from(random.bytes(9)).toString('base64url')
  const link = database.linkFor(life)
  const later = (run: () => void, ms: number): (() => void) => scheduler.later(ms, run, life)
  const time = { now: scheduler.elapsed, later, chance: random.next, id: name }
  const writing = createWriting({ node: writes, link, feed, time })
  return {
    openedAt: database.disk.facts.length,
    ...database.readsFor(life),
    transact: writing.transact,
    heldUp: writing.heldUp,
    async news(sealed) {
      const since = feed.since()
      const { groups, onward } = feedIn(await database.feed(life, since, sealed))
      return { hint: feed.take(groups, since), onward }
    },
    watch(ring) {
      database.watch(life, ring)
      const look = (): void => {
        ring()
        scheduler.later(LOOK_MS, look, life)
      }
      look()
    },
    close: () => Promise.resolve(),
  }
}

export function startServer(options: ServerOptions): Server {
  const { name, writes, random, scheduler, database, offset, onAct, onPost, gone } = options
  const life: Life = { isAlive: true, isPaused: false }
  const clock = clockOf(scheduler, life, () => START_MS + scheduler.elapsed() + offset())
  const store = createGroupCommit(backendOn(database, scheduler, random, life, writes), {
    defer: (run) => scheduler.park('flush', run, life),
    salt: () => Buffer.from(random.bytes(6)).toString('base64url'),
    fatal: (error) => {
      throw error
    },
  })
  let leases: Leases | null = null
  let workers: Worker[] = []
  let isServing = false
  let isStopping = false
  const world = (request: unknown) =>
    new Promise<{ done: boolean }>((done) =>
      scheduler.park(
        'act',
        () => {
          onAct((request as { id: string }).id, server)
          // Some things take longer than a lease lasts.
          scheduler.later(random.pick([0, 0, 200, 1_500, 6_000]), () => done({ done: true }), life)
        },
        life,
      ),
    )
  const { perform } = createEffectRunner({ [WORLD]: world }, clock, silent, 1_000)
  const kernel = createKernel({
    store,
    protocols: [simProtocol],
    contracts: [],
    directory: () => Promise.resolve(null),
    perform,
    node: () => (leases === null ? undefined : { node: name, epoch: leases.epoch }),
    now: clock.now,
    sleep: clock.sleep,
    entropy: random.bytes,
    asksPerMinute: null,
  })
  const channel = {
    name: POST,
    ordered: true,
    window: 1,
    lanesMax: 8,
    backoffMs: (attempt: number) => Math.min(8_000, 500 * 2 ** attempt),
    async send({ body }: Delivery, as: Parameters<Kernel['call']>[2]) {
      const { id, delivery } = body as { id: string; delivery: string }
      // As a webhook does: it is looked whether it is still to be sent, by somebody who still holds the lease.
      if (typeof as === 'function') await as()
      const isTaken = await new Promise<boolean>((done) =>
        scheduler.park(
          'post',
          () => {
            const taken = life.isAlive && onPost(delivery, server)
            scheduler.park('posted', () => done(taken), life)
          },
          life,
        ),
      )
      if (!isTaken) throw new Error('the receiver refused')
      await kernel.call('sim/note.posted', { id, delivery }, as)
    },
  }

  async function begin(): Promise<void> {
    while (life.isAlive && !isStopping) {
      try {
        leases = await openLeases(kernel, { node: name, names: [...LEASES], monotonic: scheduler.elapsed }, clock, silent)
        workers = [
          runTimers(kernel, clock, silent, leases.duty('timers')),
          runOutbox(kernel, channel, clock, silent, leases.duty(`outbox/${POST}`)),
          runConcluder(kernel, clock, silent, leases),
        ]
        isServing = true
        return
      } catch {
        await clock.sleep(1_000, new AbortController().signal)
      }
    }
  }

  async function end(): Promise<void> {
    await Promise.all(workers.map((worker) => worker.stop()))
    await leases?.stop()
    gone(server)
  }

  const server: Server = {
    name,
    writes,
    life,
    kernel,
    leases: () => leases,
    isServing: () => isServing && !isStopping && life.isAlive,
    isStopping: () => isStopping,
    stop() {
      isStopping = true
      void end()
    },
  }
  void begin()
  return server
}

function clockOf(scheduler: Scheduler, life: Life, now: () => number): Clock {
  return {
    now,
    sleep: (ms, signal) =>
      new Promise((done) => {
        if (signal.aborted) return done()
        const wake = (): void => {
          signal.removeEventListener('abort', aborted)
          done()
        }
        const callOff = scheduler.later(ms, wake, life)
        const aborted = (): void => {
          callOff()
          wake()
        }
        signal.addEventListener('abort', aborted)
      }),
  }
}
