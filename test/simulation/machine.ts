// The process under test and everything around it that can go wrong: the shipped kernel, group commit, protocols, contracts and
// timers run on a memory store whose every turn, write, read and sleep waits for the scheduler.
import { contracts } from '#contracts/index.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import type { Group } from '#kernel/log/backend.ts'
import type { Store } from '#kernel/log/store.ts'
import { grants } from '#protocols/collaboration/task/grants.ts'
import { directory, people } from '#protocols/identity/directory.ts'
import { protocols } from '#protocols/index.ts'
import { memoryStore, type MemoryDisk } from '#stores/memory.ts'
import { concludeUnknown, createEffectRunner } from '#workers/effect-runner.ts'
import { runNoticeChannel, type NoticeOptions } from '#workers/notices/channel.ts'
import { runTimers } from '#workers/timers.ts'
import { runWebhookAgents } from '#workers/webhooks/agents.ts'
import type { Posted } from '#workers/webhooks/post.ts'
import { testNotary } from '../support/in-process/notary.ts'
import { offerAll } from './capabilities.ts'
import type { Random } from './random.ts'

/** Something that can happen next. Anything that the process waits for dies with it; messages on the network arrive all the same. */
type Runnable = { readonly what: string; readonly ofProcess: boolean; run(): void }
type Sleeper = { readonly at: number; wake(): void }

export const START_MS = Date.UTC(2026, 0, 1)
const DAY_MS = 24 * 3_600_000

export type Machine = {
  /** The running process, or null while it is down. */
  kernel(): Kernel | null
  /** It has started and answers. */
  isServing(): boolean
  /** Each start of the process has its own number. */
  process(): number
  now(): number
  park(what: string, run: () => void): void
  runnables(): number
  /** Runs one of the things that can happen. */
  runOne(): string
  pass(ms: number): void
  stepClock(ms: number): void
  crash(why: string): void
  boot(): void
  /** From now on everything works. */
  heal(): void
  isFaulty(): boolean
  /** Writes that the database refused to this process. */
  refusals(): number
}

export type MachineOptions = {
  readonly random: Random
  readonly disk: MemoryDisk
  readonly happened: (what: string) => void
  readonly onApplied: (group: Group) => void
  readonly onCrash: () => void
  /** A capability runs, outside of the process. */
  readonly onAct: (invocation_id: string) => void
  /** Those who are told by HTTP; null: none are. `spy`: the kernel as the worker of notices has it. */
  readonly told: (Pick<NoticeOptions, 'post' | 'attemptsMax' | 'mailer' | 'pushKeys'> & { spy?(kernel: Kernel): Kernel }) | null
}

const fates = [
  [90, 'ok'],
  [3, 'disk full'],
  [2, 'write refused'],
  [1, 'fsync error'],
  [2, 'crash before the write'],
  [2, 'crash after the write'],
] as const

const silent = { debug() {}, info() {}, warn() {}, error() {} }
const failing = (failure: string): Error => Object.assign(new Error(failure), { failure })

export function createMachine({ random, disk, happened, onApplied, onCrash, onAct, told }: MachineOptions): Machine {
  let kernel: Kernel | null = null
  let serving = 0
  let generation = 0
  let elapsed = 0
  let offset = 0
  let faulty = true
  let refusals = 0
  let runnables: Runnable[] = []
  let sleepers: Sleeper[] = []

  const now = (): number => START_MS + offset + elapsed
  const park = (what: string, run: () => void, ofProcess = false): void => void runnables.push({ what, ofProcess, run })

  /** A whole transaction or nothing, as the store promises; only whether, and who hears of it, is open. */
  function write(group: Group, apply: () => void, ok: () => void, no: (error: Error) => void): void {
    const fate = faulty ? random.weighted(fates) : 'ok'
    if (fate !== 'ok') happened(fate)
    if (fate === 'disk full') return no(failing('full'))
    if (fate === 'write refused') {
      refusals++
      return no(failing('refused'))
    }
    if (fate === 'crash before the write') return crash(fate)
    // After a failed fsync nobody knows what is on the disk.
    if (fate !== 'fsync error' || random.chance(0.5)) {
      apply()
      onApplied(group)
    }
    if (fate === 'fsync error') return no(failing('fatal'))
    if (fate === 'crash after the write') return crash(fate)
    ok()
  }

  function boot(): void {
    const mine = ++generation
    refusals = 0
    // Plans of a dead process never happen.
    const wait = (what: string, run: () => void): void => {
      if (generation === mine) park(what, run, true)
    }
    const store = memoryStore({
      disk,
      defer: (run) => wait('flush', run),
      salt: () => Buffer.from(random.bytes(6)).toString('base64url'),
      fatal: () => void (generation === mine && crash('fsync error')),
      onWrite: (group, apply) => new Promise<void>((ok, no) => wait('write', () => write(group, apply, ok, no))),
    })
    // A read that takes its time lets others go between it and the decision.
    const slow: Store = {
      ...store,
      // Now this way, now that: what lies at hand lets nobody come in between, and what does not lie there does.
      peek: (key) => (faulty && random.chance(0.5) ? undefined : store.peek?.(key)),
      read(keys) {
        if (!faulty || !random.chance(0.12)) return store.read(keys)
        return new Promise((done) => wait('read', () => done(store.read(keys))))
      },
    }
    const clock = { now, sleep: (ms: number, signal: AbortSignal) => sleep(ms, signal, mine) }
    const capability = (request: unknown) =>
      new Promise<{ output: object; duration_ms: number }>((done) =>
        wait('act', () => {
          onAct((request as { invocation_id: string }).invocation_id)
          wait('acted', () => done({ output: { done: true }, duration_ms: 1 }))
        }),
      )
    const { perform } = createEffectRunner({ capability }, clock, silent, 1_000)
    const made = createKernel({
      store: slow,
      protocols,
      contracts,
      directory,
      people,
      grants,
      notary: testNotary,
      perform,
      now,
      entropy: random.bytes,
      asksPerMinute: null,
      ...(told?.mailer ? { terms: { mails: true, pushKey: () => told.pushKeys!().current.key } } : {}),
    })
    kernel = made
    void startOf(made, clock, mine)
  }

  /** As the server starts: nobody is answered before it is known what was left open, and a start that fails is tried again. */
  async function startOf(made: Kernel, clock: Clock, mine: number): Promise<void> {
    while (generation === mine) {
      try {
        await concludeUnknown(made, silent)
        // Most starts find what is offered as it was.
        if (mine % 3 === 0) await offerAll(made, mine)
        if (generation !== mine) return
        serving = mine
        runTimers(made, clock, silent)
        if (told !== null) runNoticeChannel(told.spy?.(made) ?? made, posting(mine), clock, silent)
        if (told !== null) runWebhookAgents(made, posting(mine), clock, silent)
        return
      } catch {
        await clock.sleep(1_000, new AbortController().signal)
      }
    }
  }

  /** A post is on its way like everything else; its outcome is heard by the process that sent it, if that is still there. */
  function posting(its: number): NoticeOptions {
    const onItsWay = (send: () => Promise<Posted>): Promise<Posted> =>
      new Promise((done) =>
        park('post', () => {
          if (generation !== its) return
          const outcome = send()
          park('posted', () => generation === its && done(outcome), true)
        }),
      )
    const { post, mailer, pushKeys, attemptsMax } = told!
    return {
      post: (...args) => onItsWay(() => post!(...args)),
      ...(mailer ? { mailer: { ...mailer, send: (mail) => onItsWay(() => mailer.send(mail)) } } : {}),
      ...(pushKeys ? { pushKeys } : {}),
      attemptsMax,
      random: random.next,
      allowsPrivate: false,
    }
  }

  function sleep(ms: number, signal: AbortSignal, its: number): Promise<void> {
    return new Promise((done) => {
      if (signal.aborted) return done()
      if (its !== generation) return
      const wake = (): void => {
        signal.removeEventListener('abort', aborted)
        done()
      }
      const sleeper = { at: elapsed + ms, wake }
      const aborted = (): void => {
        sleepers = sleepers.filter((other) => other !== sleeper)
        wake()
      }
      sleepers.push(sleeper)
      signal.addEventListener('abort', aborted)
    })
  }

  function crash(why: string): void {
    if (kernel === null) return
    happened(`down: ${why}`)
    kernel = null
    generation++
    runnables = runnables.filter(({ ofProcess }) => !ofProcess)
    sleepers = []
    onCrash()
  }

  function pass(ms: number): void {
    elapsed += ms
    const due = sleepers.filter(({ at }) => at <= elapsed)
    sleepers = sleepers.filter(({ at }) => at > elapsed)
    for (const { wake } of due) park('wake', wake, true)
  }

  return {
    kernel: () => kernel,
    isServing: () => kernel !== null && serving === generation,
    process: () => generation,
    now,
    park,
    runnables: () => runnables.length,
    runOne() {
      const [{ what, run }] = runnables.splice(faulty ? random.below(runnables.length) : 0, 1) as [Runnable]
      run()
      return what
    },
    pass,
    stepClock(ms) {
      // The clock stays within the years that a process may meet.
      offset = Math.max(-300 * DAY_MS, Math.min(300 * DAY_MS, offset + ms))
    },
    crash,
    boot,
    heal: () => void (faulty = false),
    isFaulty: () => faulty,
    refusals: () => refusals,
  }
}
