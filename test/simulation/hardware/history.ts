// One history of a daemon with a misbehaving board, made from a seed: clients submit, cancel, close and repeat themselves; the operator lowers caps; a chip
// sticks, the board is unplugged, the disk is full, the audit cannot be written, the process is killed. After every turn the rules are looked at.
import { mock } from 'node:test'
import { memoryDisk } from '#stores/memory.ts'
import type { StepRequest } from '#protocols/hardware/daemon/operations/step.ts'
import { settled } from '../../support/in-process/world.ts'
import { createRandom, type Random } from '../random.ts'
import { faultyBoard } from './board.ts'
import { clients, startSimulated, usualCaps, type Client, type SimulatedDaemon } from './daemon.ts'
import { createRules } from './rules.ts'

export type Told = { readonly happened: ReadonlyMap<string, number>; readonly facts: number }
type Any = any

const START_MS = Date.UTC(2030, 0, 1)
const TURNS = 60

const steps: readonly ((random: Random) => object)[] = [
  (random) => ({ tool: 'gpio.set', args: { line: random.pick([17, 18, 22, 23, 24]), value: random.below(2) } }),
  (random) => ({ tool: 'gpio.set', args: { line: random.pick(['VALVE_A', 'VALVE_B']), value: 1 } }),
  (random) => ({ tool: 'gpio.pulse', args: { line: random.pick([17, 22, 23]), value: 1, ms: 1 + random.below(400) } }),
  (random) => ({ tool: 'gpio.get', args: { line: random.pick([17, 27]) } }),
  (random) => ({ tool: 'i2c.write', args: { bus: 1, addr: '0x50', reg: '0x10', data: Buffer.of(random.below(20)).toString('base64') } }),
  () => ({ tool: 'i2c.read', args: { bus: 1, addr: '0x51', reg: 0, len: 1 } }),
  () => ({ tool: 'i2c.read', args: { bus: 1, addr: '0x20', len: 1 } }),
]

/** Throws with words that name the rule. */
export async function playHistory(seed: number): Promise<Told> {
  const random = createRandom(seed)
  const happened = new Map<string, number>()
  const note = (what: string): void => void happened.set(what, (happened.get(what) ?? 0) + 1)
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  try {
    return { happened, facts: await played(random, seed, note) }
  } finally {
    mock.timers.reset()
  }
}

async function played(random: Random, seed: number, note: (what: string) => void): Promise<number> {
  const disk = memoryDisk()
  const hardware = faultyBoard()
  const caps = usualCaps()
  const rules = createRules(disk, hardware, caps)
  let now = START_MS
  let isFull = false
  let isAudited = true
  const surroundings = {
    disk,
    hardware,
    caps,
    seed,
    clock: {
      now: () => now,
      sleep: (ms: number, signal: AbortSignal): Promise<void> =>
        new Promise((done) => {
          const timer = setTimeout(done, ms)
          signal.addEventListener('abort', () => (clearTimeout(timer), done()), { once: true })
        }),
    },
    writes() {
      if (isFull) throw Object.assign(new Error('full'), { failure: 'full' })
    },
    isAudited: () => isAudited,
    acts(request: StepRequest) {
      rules.acts(request, isAudited)
    },
  }
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= 50) {
      now += Math.min(50, left)
      mock.timers.tick(Math.min(50, left))
      await turns(4)
      rules.look()
    }
  }
  let daemon = await started()
  let sessions = new Map<Client, string>()
  const tasks: { readonly as: Client; readonly session_id: string; readonly task_id: string }[] = []
  /** A submission that a client may repeat after it got no answer. */
  const made = new Map<string, string>()
  let last: { readonly as: Client; readonly task: object; readonly key: string } | null = null

  async function started(): Promise<SimulatedDaemon> {
    const starting = startSimulated(surroundings)
    await turns(12)
    const made = await starting
    rules.started()
    return made
  }

  /** Answers as a client hears them: its answer, a refusal, or nothing because the process was gone. */
  async function asked(as: Client, operation: string, input: object, key?: string): Promise<Any> {
    const answer = daemon.call(as, operation, input, key).catch((error: Any) => ({ refused: error.code as string }))
    await turns(1 + random.below(6))
    return Promise.race([answer, settled().then(() => undefined)])
  }

  const sessionOf = async (as: Client): Promise<string | undefined> => {
    const there = sessions.get(as)
    if (there !== undefined) return there
    const opened = await asked(as, 'session.open', { client_name: 'simulated' })
    if (opened?.session_id !== undefined) sessions.set(as, opened.session_id as string)
    return opened?.session_id as string | undefined
  }

  async function submit(as: Client, task: object, key: string): Promise<void> {
    const session_id = await sessionOf(as)
    if (session_id === undefined) return
    const answer = await asked(as, 'task.submit', { session_id, task }, key)
    last = { as, task, key }
    if (answer?.task_id !== undefined) {
      const task_id = answer.task_id as string
      if ((made.get(key) ?? task_id) !== task_id) throw new Error(`the key ${key} has made two tasks`)
      made.set(key, task_id)
      tasks.push({ as, session_id, task_id })
    }
    note(answer === undefined ? 'a submission without an answer' : answer.refused ? `refused: ${answer.refused}` : 'a submission')
  }

  const turn: Record<string, () => Promise<void> | void> = {
    async submit() {
      const constraints = {
        rollback_on_failure: random.chance(0.4),
        abort_on_step_failure: random.chance(0.7),
        ...(random.chance(0.3) ? { max_risk_level: random.below(4) } : {}),
        ...(random.chance(0.2) ? { max_duration_ms: 1 + random.below(300) } : {}),
      }
      const task = { intent: 'x', steps: Array.from({ length: 1 + random.below(4) }, () => random.pick(steps)(random)), constraints }
      await submit(random.pick(clients), task, `key-${random.below(1_000_000)}`)
    },
    async repeat() {
      if (last === null) return
      await submit(last.as, last.task, last.key)
      note('a submission repeated')
    },
    async cancel() {
      const task = tasks.length === 0 ? undefined : random.pick(tasks.slice(-4))
      if (!task) return
      const { as, session_id, task_id } = task
      if ((await asked(as, 'task.cancel', { session_id, task_id }))?.status === 'CANCELLING') note('a cancel')
    },
    async close() {
      const as = random.pick(clients)
      const session_id = sessions.get(as)
      if (session_id === undefined) return
      sessions.delete(as)
      if ((await asked(as, 'session.close', { session_id }))?.ok) note('a close')
    },
    cap() {
      caps[random.pick(clients)].max_risk_level = random.below(4)
      note('a cap changed')
    },
    wait: () => pass(50 * (1 + random.below(30))),
    stick() {
      hardware.stick()
      note('a chip sticks')
    },
    release: () => hardware.release(),
    unplug() {
      hardware.unplug()
      note('unplugged')
    },
    plug: () => hardware.plug(),
    full() {
      isFull = !isFull
      note('the disk is full or not')
    },
    audit() {
      isAudited = !isAudited
      note('the audit fails or not')
    },
    async kill() {
      daemon.kill()
      // A transaction of the hardware runs to its end without anybody.
      hardware.release()
      // Without its board, or on a full disk, it does not start, and whoever keeps it running tries again.
      hardware.plug()
      isFull = false
      await pass(100)
      sessions = new Map()
      daemon = await started()
      note('killed and started')
    },
  }
  for (let i = 0; i < TURNS; i++) {
    const name = random.weighted([
      [10, 'submit'],
      [3, 'repeat'],
      [3, 'cancel'],
      [2, 'close'],
      [1, 'cap'],
      [6, 'wait'],
      [1, 'stick'],
      [2, 'release'],
      [0.7, 'unplug'],
      [2, 'plug'],
      [0.5, 'full'],
      [0.5, 'audit'],
      [1.5, 'kill'],
    ] as const)
    await turn[name]!()
    await turns(random.below(5))
    rules.look()
  }
  // Everything is well again: whatever was begun comes to its end.
  hardware.release()
  hardware.plug()
  isFull = false
  isAudited = true
  await pass(20_000)
  // Also those of clients that never heard of theirs: those would end by being idle.
  for (const [session_id, as] of rules.sessions) void daemon.call(as, 'session.close', { session_id }).catch(() => undefined)
  await pass(6_000)
  rules.end()
  daemon.kill()
  return disk.facts.length
}

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await settled()
}
