// A daemon in this process, on a disk in memory and with a clock of the test: it can be killed between any two turns, and started again on what the
// disk holds.
import { actorOf, portsOf } from '#apps/device/daemon.ts'
import { createDevice } from '#devices/device.ts'
import type { Board } from '#devices/port.ts'
import { SYSTEM, type Actor } from '#kernel/declare/access.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import { createTail } from '#kernel/log/tail.ts'
import type { Store } from '#kernel/log/store.ts'
import { daemonProtocol } from '#protocols/hardware/daemon/index.ts'
import { principalOf } from '#protocols/hardware/daemon/ports.ts'
import { policyDefaults, type Policy } from '#protocols/hardware/daemon/policy.ts'
import type { StepRequest } from '#protocols/hardware/daemon/operations/step.ts'
import { memoryStore, type MemoryDisk } from '#stores/memory.ts'
import { concludeUnknown, createEffectRunner } from '#workers/effect-runner.ts'
import { endWhatWasOpen } from '#devices/runner/recovery.ts'
import { createTaskRunner } from '#devices/runner/task-runner.ts'
import { seededEntropy, settled } from '../../support/in-process/world.ts'
import type { FaultyBoard } from './board.ts'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }
/** The operator's file: a history may lower a cap in it. */
export type Caps = Readonly<Record<'bench' | 'lab', Mutable<Policy>>>
const policy = (name: string): Mutable<Policy> => ({
  ...policyDefaults,
  name,
  tools: ['gpio.*', 'i2c.*', 'hw.*'],
  relax_to: 3,
  queue: 6,
  concurrent: 3,
  lock_wait_ms: 200,
  rate: {},
})
export const usualCaps = (): Caps => ({ bench: policy('bench'), lab: policy('lab') })
export const clients = ['bench', 'lab'] as const
export type Client = (typeof clients)[number]

export type Surroundings = {
  readonly disk: MemoryDisk
  readonly hardware: FaultyBoard
  readonly caps: Caps
  readonly clock: { readonly now: () => number; readonly sleep: (ms: number, signal: AbortSignal) => Promise<void> }
  readonly seed: number
  /** Before a group is written: may throw as a full disk does. */
  writes(): void
  isAudited(): boolean
  /** A tool is about to act. */
  acts(request: StepRequest): void
}

export type SimulatedDaemon = {
  readonly store: Store
  call(as: Client, operation: string, input: object, key?: string): Promise<unknown>
  hasWork(session_id: string): boolean
  /** From here on nothing of it reaches the disk or the board. */
  kill(): void
}

const silent = { error() {}, warn() {}, info() {}, debug() {} }

/** Resolves when it would open its sockets. */
export async function startSimulated(around: Surroundings): Promise<SimulatedDaemon> {
  const { disk, hardware, caps, clock } = around
  let isDead = false
  const store = memoryStore({
    disk,
    salt: () => 'salt',
    onWrite(_, apply) {
      if (isDead) return new Promise(() => undefined)
      around.writes()
      return apply()
    },
  })
  const tail = createTail(store)
  const named = Object.values(caps).map((one) => ({ policy: one, socket: null, group: null, subjects: [] }))
  const device = createDevice({
    board: reachable(hardware.board, () => !isDead),
    device_id: 'dev_simulated',
    dataFolder: '/',
    startedAt: 0,
    programs: new Map(),
    plugins: [],
    policies: Object.values(caps),
  })
  const actor = actorOf(device, new Map(Object.entries(caps)))
  const runner = createTaskRunner({
    device: {
      ...actor,
      act(request, signal) {
        if (isDead) return new Promise(() => undefined)
        around.acts(request)
        return actor.act(request, signal)
      },
      makeSafe: (session_id) => (isDead ? undefined : actor.makeSafe(session_id)),
    },
    clock,
    log: silent,
    concurrencyOf: (name) => caps[name as Client].concurrent,
    lockWaitOf: (name) => caps[name as Client].lock_wait_ms,
    amiss: () => (around.isAudited() ? null : 'the audit cannot be written'),
    progress() {},
  })
  const effects = createEffectRunner({ device: runner.port }, clock, silent, 500)
  const keys = { verify: () => Promise.resolve({ ok: false as const, message: 'no keys' }) }
  const kernel: Kernel = createKernel({
    store,
    tail,
    protocols: [daemonProtocol(portsOf({ device_id: 'dev_simulated', device, policies: named, runner, keys, isLinked: () => false }))],
    contracts: [],
    directory: () => Promise.resolve(null),
    perform: effects.perform,
    now: clock.now,
    sleep: clock.sleep,
    entropy: seededEntropy(around.seed + disk.facts.length),
    asksPerMinute: null,
    checksAnswers: true,
  })
  const about = { version: '0.0.0', board: 'simulated' }
  await persistently(() => kernel.call('hardware/daemon.start', about, SYSTEM))
  device.makeSafe(null)
  await persistently(() => concludeUnknown(kernel, silent))
  await persistently(() => endWhatWasOpen(kernel))
  runner.begin(kernel)
  const actors: Record<Client, Actor> = {
    bench: { id: principalOf('bench', null), kind: 'agent', projects: 'all' },
    lab: { id: principalOf('lab', null), kind: 'agent', projects: 'all' },
  }
  return {
    store,
    call: (as, operation, input, key) => kernel.call(`hardware/${operation}`, input, actors[as], key === undefined ? {} : { key }),
    hasWork: runner.hasWork,
    kill() {
      isDead = true
      tail.stop()
    },
  }
}

/** The board as one process has it: once that is gone, nothing of it reaches the hardware, whatever is left of it here. */
function reachable(board: Board, isAlive: () => boolean): Board {
  const { lines, buses } = board
  return {
    ...board,
    lines: {
      ...lines,
      set: (line, value) => (isAlive() ? lines.set(line, value) : undefined),
      mode: (line, direction) => (isAlive() ? lines.mode(line, direction) : undefined),
    },
    buses: { ...buses, transfer: (...args) => (isAlive() ? buses.transfer(...args) : new Promise(() => undefined)) },
  }
}

/** A start on a full disk would end and be tried again by whoever keeps the daemon running. */
async function persistently(work: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      return void (await work())
    } catch (error) {
      if ((error as { code?: string }).code !== 'UNAVAILABLE') throw error
      await settled()
    }
  }
}
