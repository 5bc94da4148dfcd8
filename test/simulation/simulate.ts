// One seed, one history: a scheduler picks what happens next, faults included, and every law is held after every step. Then the
// faults end, time passes, and whatever was promised must have come true.
import { createHash } from 'node:crypto'
import { SYSTEM } from '#kernel/declare/access.ts'
import { kindOf } from '#kernel/declare/schema.ts'
import { createEffectLaws, type EffectLaws } from './capabilities.ts'
import { createClients, type Clients, type Intent, type Plan } from './clients.ts'
import { checkInboxes } from './inboxes.ts'
import { hasEndedAbove } from './family-laws.ts'
import { createLaws, isOver, type Laws } from './laws.ts'
import { createMachine, type Machine } from './machine.ts'
import { createNoticeLaws, isAtNight, pushRing } from './notice-laws.ts'
import { createPlanner, type Planner } from './plans.ts'
import { createProcesses, type Processes } from './processes.ts'
import { createRandom, type Random } from './random.ts'
import { createRecord, type Record as FactRecord } from './record.ts'
import { createAsking, type Asking } from './requests.ts'
import type { MemoryDisk } from '#stores/memory.ts'
import { ATTEMPTS_MAX } from './fates.ts'
import { createReceivers, hasReceivers, type Receivers } from './receivers.ts'
import { checkRecipients, returning } from './recipient-laws.ts'
import { createTelling, type Telling } from './telling.ts'
import { copyOf, isAtWork, isConfirming, projectsOf, type Template } from './world.ts'

export type Outcome = {
  readonly seed: number
  readonly steps: number
  readonly facts: number
  /** How often each operation and each fault happened. */
  readonly happened: ReadonlyMap<string, number>
  readonly violations: readonly string[]
  /** Equal for equal seeds. */
  readonly hash: string
  readonly trace: readonly string[]
}
export type SimulateOptions = { readonly steps?: number; readonly trace?: boolean }

const STEPS = 180
const IN_FLIGHT_MAX = 6
/** How much of what happens is the agents' processes; more of it where work is under way from the beginning. */
const PROCESSES = 0.28
const PROCESSES_AT_WORK = 0.5
/** And how much is asked and answered beside all tasks; more of it if people are told at night. */
const ASKING = 0.16
const ASKING_AT_NIGHT = 0.4
/** And, where somebody is told by HTTP, what is done about that. */
const TELLING = 0.2
const TURNS_MAX = 5_000
const PAUSES_MAX = 60
const ROUNDS_MAX = 300
const PAUSE_MS = 10_000
const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS

type Simulation = {
  readonly machine: Machine
  readonly clients: Clients
  readonly planner: Planner
  readonly processes: Processes
  /** How much of what happens is theirs, and how much is asked. */
  readonly shares: { readonly processes: number; readonly asking: number }
  readonly asking: Asking
  /** null: in this history nobody is told by HTTP. */
  readonly telling: Telling | null
  readonly receivers: Receivers
  readonly laws: Laws
  readonly effects: EffectLaws
  readonly disk: MemoryDisk
  readonly record: FactRecord
  readonly random: Random
  readonly violations: string[]
  note(what: string): void
  fail(message: string): void
  due(): { id: string; due: string }[]
}

export async function simulate(seed: number, template: Template, options: SimulateOptions = {}): Promise<Outcome> {
  const trace: string[] = []
  const happened = new Map<string, number>()
  const hash = createHash('sha256')
  const count = (what: string): void => {
    happened.set(what, (happened.get(what) ?? 0) + 1)
    note(`  ${what}`)
  }
  const note = (what: string): void => {
    hash.update(what)
    if (options.trace) trace.push(what)
  }
  const sim = assemble(seed, template, note, count)
  const limit = options.steps ?? STEPS
  let steps = 0
  while (steps < limit && sim.violations.length === 0) {
    note(`${++steps} ${step(sim, count)}`)
    await settled()
    sim.clients.settle()
  }
  if (sim.violations.length === 0) await quiesce(sim)
  if (sim.violations.length === 0) sim.record.checkAll()
  hash.update(sim.record.heads())
  return { seed, steps, facts: sim.record.size(), happened, violations: sim.violations, hash: hash.digest('hex'), trace }
}

/** Lets every promise run that can run. Nothing else is waiting on the event loop, so nothing else gets in between. */
const settled = (): Promise<void> => new Promise((done) => setImmediate(done))

function assemble(seed: number, template: Template, note: (what: string) => void, happened: (what: string) => void): Simulation {
  const random = createRandom(seed)
  const disk = copyOf(isConfirming(seed) ? template.confirming : isAtWork(seed) ? template.atWork : template.disk)
  const violations: string[] = []
  const fail = (message: string): void => {
    violations.push(message)
    note(`VIOLATED: ${message}`)
  }
  const record = createRecord(disk, fail)
  const processes = createProcesses(random, record, { isAtWork: isAtWork(seed), isConfirming: isConfirming(seed) }, fail)
  const effects = createEffectLaws(record, happened, fail)
  const laws = createLaws(disk, record, processes.hasAcknowledged, fail)
  const notices = createNoticeLaws(record, () => machine.now(), happened, fail)
  const receivers = createReceivers({ random, disk, record, processes, isFaulty: () => machine.isFaulty(), happened, fail, notices })
  const nightly = isAtNight(seed) ? { spy: notices.spy, mailer: receivers.mailer, pushKeys: () => pushRing } : {}
  const machine: Machine = createMachine({
    random,
    disk,
    told: hasReceivers(seed) ? { post: receivers.post, attemptsMax: ATTEMPTS_MAX, ...nightly } : null,
    happened,
    onApplied(group) {
      try {
        record.observe((fact) => {
          happened(`fact ${fact.line.action}`)
          note(`  number ${fact.line.seq} of ${fact.line.scope}: by ${fact.line.actor} on ${fact.line.subject}`)
          laws.judge(fact)
          effects.judge(fact)
          notices.judge(fact)
          clients.claim(fact)
        })
        laws.judgeGroup(group)
        receivers.judgeGroup(group)
      } catch (error) {
        // A record that is broken in one place need not be readable in the next: the first violation has said what is wrong.
        if (violations.length === 0) throw error
      }
    },
    onCrash: () => clients.onCrash(),
    onAct: effects.onAct,
  })
  const clients: Clients = createClients({ machine, random, record, tokens: new Map(template.tokens), fail, happened, processes })
  record.observe((fact) => laws.judge(fact))
  machine.boot()
  // Deliveries, and documents that are due themselves.
  const due = (): { id: string; due: string }[] =>
    [...disk.docs].flatMap(([key, { text }]) => {
      if (key.startsWith('kernel.delivery/')) return [JSON.parse(text) as { id: string; due: string }]
      const at = kindOf(key).due(JSON.parse(text))?.at
      return at === undefined ? [] : [{ id: key, due: at }]
    })
  const planner = createPlanner(random, record, machine.now, { isAtWork: isAtWork(seed), isConfirming: isConfirming(seed) })
  const asking = createAsking(random, record, machine.now)
  const telling = hasReceivers(seed) ? createTelling(random, record, machine.now, isAtNight(seed) ? notices : null) : null
  return {
    machine,
    clients,
    planner,
    processes,
    shares: { processes: isAtWork(seed) ? PROCESSES_AT_WORK : PROCESSES, asking: isAtNight(seed) ? ASKING_AT_NIGHT : ASKING },
    asking,
    telling,
    receivers,
    laws,
    effects,
    disk,
    record,
    random,
    violations,
    note,
    fail,
    due,
  }
}

/** One thing happens. */
function step(sim: Simulation, count: (what: string) => void): string {
  const { machine, clients, random } = sim
  machine.pass(1 + random.below(4))
  if (machine.kernel() === null) {
    if (random.chance(0.7)) {
      machine.boot()
      return 'start of the process'
    }
    return 'the process is down'
  }
  const choice = random.weighted([
    [machine.runnables() > 0 ? 60 : 0, 'run'],
    [clients.inFlight().length < IN_FLIGHT_MAX ? 30 : 0.5, 'plan'],
    [clients.waiting() > 0 ? 12 : 0, 'retry'],
    [3, 'time passes'],
    [1.5, 'clock step'],
    [0.7, 'kill'],
    // A call that has been under way for longer than answers are kept is past all promises.
    [clients.areRecent() ? 0.3 : 0, 'sweep'],
  ])
  if (choice === 'run') return machine.runOne()
  if (choice === 'plan') return begin(sim)
  count(choice)
  if (choice === 'retry') clients.retryOne()
  if (choice === 'time passes')
    machine.pass(
      random.weighted([
        [3, 1_000],
        [3, MINUTE_MS],
        [2, 40 * MINUTE_MS],
        [1, DAY_MS],
      ]),
    )
  if (choice === 'clock step') machine.stepClock((random.chance(0.5) ? 1 : -1) * Math.floor(1_000 * (30 * 86_400) ** random.next()))
  if (choice === 'time passes' || choice === 'clock step') clients.onClock()
  if (choice === 'kill') machine.crash('killed')
  if (choice === 'sweep')
    void machine
      .kernel()!
      .call('kernel/reply.forget', {}, SYSTEM)
      .catch(() => undefined)
  return `${choice}, it is ${new Date(machine.now()).toISOString()}`
}

function begin({ clients, planner, processes, asking, telling, random, shares }: Simulation): string {
  const kind = random.next()
  const isTelling = telling !== null && random.chance(TELLING)
  const usual = kind < shares.processes ? processes.next : kind < shares.processes + shares.asking ? asking.next : planner.next
  const made = (isTelling ? telling.next : usual)(clients.started())
  const plan = telling?.withMore(made) ?? made
  if (clients.isTaken(plan)) return 'nothing'
  clients.start(plan)
  return `${plan.as} ${plan.op} ${JSON.stringify(plan.input)}`
}

/** The faults are over: what is under way ends, and time goes on past everything that waits for it. */
async function quiesce(sim: Simulation): Promise<void> {
  const { machine, fail } = sim
  sim.note('the faults are over')
  machine.heal()
  if (machine.kernel() === null) machine.boot()
  await idle(sim)
  // A worker that the last fault hit tries again after a pause, of which no document tells. Shorter than a sleep: a lost wake-up stays one.
  machine.pass(PAUSE_MS)
  await idle(sim)
  await passTime(sim, isOfNotice)
  sim.receivers.judgeEnd()
  await passTime(sim)
  const now = new Date(machine.now()).toISOString()
  for (const [key, { value }] of sim.record.docs) {
    const isForgotten =
      key.startsWith('collaboration.checkpoint/') && value.state === 'pending' && !value.overdue && value.expires_at !== null
    if (isForgotten && value.expires_at <= now) fail(`${key} waits past its time and nobody was told`)
  }
  sim.laws.judgeEnd(now)
  await checkRecipients(sim.record, now, (plan) => answerTo(plan, sim), fail)
  for (const plan of returning(sim.record, projectsOf)) await settledAlone(plan, sim)
  await passTime(sim)
  // Lists are long to look through, and one history in four shows enough of them.
  if (sim.random.chance(0.25)) {
    const until = new Date(machine.now() + 60 * MINUTE_MS).toISOString()
    await checkInboxes(sim.record, (plan) => answerTo(plan, sim), until, fail)
    await passTime(sim)
  }
  sim.effects.judgeEnd([...sim.disk.docs.keys()].filter((key) => key.startsWith('kernel.pending/')))
  await fetchAll(sim)
  await endAll(sim)
}

async function answerTo(plan: Plan, sim: Simulation): Promise<any> {
  const { answer } = await settledAlone(plan, sim)
  return answer === null ? null : JSON.parse(answer)
}

async function settledAlone(plan: Plan, sim: Simulation): Promise<Intent> {
  const intent = sim.clients.start(plan)
  await idle(sim)
  return intent
}

type Due = { readonly id: string; readonly due: string }
/** Messages that are still to be posted: a notice, or a message to an agent. */
const isOfNotice = ({ id }: Due): boolean => id.startsWith('notice/') || id.startsWith('webhook/')

/** Notes of an ended run are looked at again and again until its task has ended too. */
const isOfNotes = ({ id }: Due): boolean => id.startsWith('kernel.errand/forget/')

/** On past everything that waits for a time. */
async function passTime(sim: Simulation, isMeant: (one: Due) => boolean = (one) => !isOfNotes(one)): Promise<void> {
  const { machine, fail } = sim
  const due = (): Due[] => sim.due().filter(isMeant)
  let waiting = due()
  for (let round = 0; waiting.length > 0; round++) {
    if (round === ROUNDS_MAX) return fail(`still waiting: ${waiting.map((delivery) => `${delivery.id} due ${delivery.due}`).join(', ')}`)
    const last = Math.max(...waiting.map((delivery) => Date.parse(delivery.due)))
    machine.pass(Math.max(MINUTE_MS, last - machine.now() + 1))
    await idle(sim)
    waiting = due()
  }
}

/** When every lease has ended, whatever waits for an agent that may act is handed to whoever comes. */
async function fetchAll(sim: Simulation): Promise<void> {
  const { machine, processes, record, fail } = sim
  const waiting = (): any[] =>
    [...sim.disk.docs].filter(([key]) => key.startsWith('delegation.mailbox/')).map(([, { text }]) => JSON.parse(text))
  const last = Math.max(machine.now(), ...waiting().flatMap(({ due, until }) => [Date.parse(due), until === null ? 0 : Date.parse(until)]))
  machine.pass(last - machine.now() + 1)
  const able = new Set<string>()
  for (const [round, agent] of processes.agents.entries()) {
    if (record.docs.get(`identity.agent/${agent}`)!.value.disabled) continue
    const intent = await settledAlone(processes.fetch(agent, round), sim)
    if (intent.answer !== null) able.add(agent)
  }
  for (const { id, agent_id, messages, waits } of waiting())
    for (const { number } of messages)
      // A run that waits for a place is kept back with all its messages; the law of places says when it may.
      if (able.has(agent_id) && waits === undefined && !processes.wasHanded(id, number))
        fail(`message ${number} of ${id} is handed to nobody`)
}

async function idle({ machine, clients, fail }: Simulation): Promise<void> {
  let pauses = 0
  for (let turn = 0; ; turn++) {
    await settled()
    clients.settle()
    if (machine.runnables() > 0) machine.runOne()
    else if (!machine.isServing()) machine.pass(1_000)
    else if (!clients.retryOne()) {
      // The outcome of an invocation that the disk had no room for is recorded a while later, and answered then.
      const isActing = clients.inFlight().some(({ op }) => op === 'delegation/capability.invoke')
      if (!isActing || pauses++ === PAUSES_MAX) break
      machine.pass(1_000)
    }
    if (turn === TURNS_MAX) return fail('it does not come to rest')
  }
  for (const { op, as } of clients.inFlight()) fail(`${op} by ${as} is never answered`)
}

/** No task may be stranded: the person who answers for it can bring each one to an end. */
async function endAll(sim: Simulation): Promise<void> {
  const { planner, clients, fail, due } = sim
  for (let turn = 0; turn < TURNS_MAX && sim.violations.length === 0; turn++) {
    const task = planner.tasks().find(({ state }) => !isOver(state))
    if (task === undefined) break
    const intent = await settledAlone(ending(task, clients.started(), sim), sim)
    if (intent.answer === null) fail(`${task.id} is ${task.state}, and its principal cannot end it`)
  }
  // Notes that are kept for a while after a run has ended go by themselves, and so do the look at who may have its place and the messages still to be told.
  const goes = (one: Due): boolean =>
    /^kernel\.errand\/(forget|admit)\//.test(one.id) || isOfNotice(one) || /^(execution\.notice|delegation\.posting)\//.test(one.id)
  if (sim.violations.length === 0 && due().every(goes)) await passTime(sim, () => true)
  if (due().length > 0)
    fail(
      `timers are left though every task has ended: ${due()
        .map(({ id }) => id)
        .join(', ')}`,
    )
}

function ending(task: any, id: number, { random, record }: Simulation): Plan {
  const by = { as: task.ownership.principal as string, keyed: true }
  const message = `~${id}~`
  if (task.state === 'review_ready') {
    const artifact_id: string = task.delivered.artifact_id
    const { version } = record.docs.get(`collaboration.artifact_head/${artifact_id}`)!.value
    // A plan is sent back and not rejected; then the task is in progress and can be cancelled. Below an ended task nothing goes back.
    const isPlan =
      !hasEndedAbove(record, task) && record.docs.get(`collaboration.artifact/${artifact_id}@${version}`)!.value.kind === 'plan'
    const input = {
      task_id: task.id,
      artifact_id,
      verdict: isPlan ? 'changes_requested' : 'rejected',
      requested_changes: ['none'],
      comments: [{ severity: 'nit', body: message }],
    }
    return { ...by, op: 'collaboration/review.submit', input }
  }
  if (task.state === 'blocked' && random.chance(0.5))
    return {
      ...by,
      op: 'collaboration/checkpoint.resolve',
      input: { checkpoint_id: task.pending_checkpoint, action: 'reject', comment: message },
    }
  return { ...by, op: 'collaboration/task.cancel', input: { task_id: task.id, reason: message } }
}
