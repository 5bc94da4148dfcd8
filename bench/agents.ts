// Agents that pull their runs: tasks per second from creation to approval with few and with many connected agents, the delay until a
// handler continues after a person's answer, and the server's memory for an idle agent.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createCaller, enroll, startServer, type Keys, type ServerProcess } from '#test/support/as-processes/server.ts'
import { serve } from '#sdk/agent/index.ts'
import { createClient, type Client } from '#sdk/index.ts'
import { quantiles } from './load.ts'
import { startPullAgents, type Done, type Enrolled } from './pull-agents.ts'
import { median, ms, rate, times, usageOf, type Bench, type Row } from './report.ts'

const COUNTS = [1, 10, 100, 1_000]
const FEW = 10
const MANY = 1_000
const IN_FLIGHT = 64
const ROUNDS = 3
const ROUND_MS = 3_000
const WAITING_MS_MAX = 20_000
const IDLE_MS = 2_000
const QUESTIONS = 150
const WARM_QUESTIONS = 30
/** A person reads before answering; by then the handler waits. */
const READ_MS = 25

const SHARE_MIN = 0.7
const RESUME_COMMITS_MAX = 3
const IDLE_MB_MAX = 100

type Say = (line: string) => void
type Measured = Done & { readonly cpuUs: number | null }

export const agents: Bench = {
  name: 'agents',
  message: `tasks from creation to approval with ${COUNTS.join(', ')} connected agents, answers to continuations, memory of idle agents`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-bench-'))
    const data = join(folder, 'data')
    let server = await startServer(data)
    try {
      const keys = await enroll(server.port, server.adminKey)
      const crowd = await enrollMany(server)
      say(`${MANY.toLocaleString('en')} agents enrolled`)
      const grown: number[] = []
      for (let round = 1; round <= ROUNDS; round++) {
        // A freshly started server has no spare heap, so added memory is visible.
        await server.end('SIGTERM')
        server = await startServer(data)
        const mb = await idleMb(server, keys, crowd)
        if (mb === null) break
        grown.push(mb)
        say(`round ${round} of ${ROUNDS}: ${MANY.toLocaleString('en')} idle agents add ${mb.toFixed(1)} MB`)
      }
      const resumed = await resumes(server, keys, say)
      return [...(await completed(server, keys, crowd, say)), ...resumed, ...memoryRows(grown)]
    } finally {
      await server.end('SIGTERM')
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

/** Enrolls the agents with the administrator's key, 64 at a time. */
async function enrollMany({ port, adminKey }: ServerProcess): Promise<Enrolled[]> {
  const { call, close } = createCaller(port)
  const admin = async (operation: string, input: object): Promise<any> => {
    const { status, body } = await call(adminKey, `identity/${operation}`, input)
    if (status !== 200) throw new Error(`${operation} answered ${status}: ${JSON.stringify(body)}`)
    return body
  }
  const ids = Array.from({ length: MANY }, (_, i) => `agent_${i}`)
  const enrolled: Enrolled[] = []
  const queue = ids.values()
  await Promise.all(
    Array.from({ length: 64 }, async () => {
      for (const id of queue) {
        await admin('agent.add', { id, name: id, owner: 'user_alice' })
        enrolled.push({ id, key: (await admin('key.issue', { subject: id })).key })
      }
    }),
  )
  close()
  return enrolled
}

/** Until so many calls wait for messages, as the server itself counts them. */
async function untilWaiting({ port, adminKey }: ServerProcess, count: number): Promise<void> {
  for (const began = performance.now(); performance.now() - began < WAITING_MS_MAX; await pause(50)) {
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`, { headers: { authorization: `Bearer ${adminKey}` } })
    const waiting = /^countersign_calls_waiting (\d+)$/m.exec(await answer.text())
    if (Number(waiting?.[1]) === count) return
  }
  throw new Error(`${count} calls should wait`)
}

// --- Tasks -------------------------------------------------------------------------------------------------------------------

async function completed(server: ServerProcess, { alice }: Keys, crowd: readonly Enrolled[], say: Say): Promise<Row[]> {
  const pull = await startPullAgents(server.port, alice, crowd)
  const run = async (count: number, forMs: number): Promise<Measured> => {
    await pull.connect(count, IN_FLIGHT)
    await untilWaiting(server, count)
    const before = usageOf(server.pid)
    const done = await pull.work(IN_FLIGHT, forMs)
    const after = usageOf(server.pid)
    await pull.leave()
    await untilWaiting(server, 0)
    return { ...done, cpuUs: before && after ? ((after.cpuSeconds - before.cpuSeconds) * 1e6) / done.tasks : null }
  }
  try {
    await run(FEW, ROUND_MS)
    await run(MANY, ROUND_MS)
    const measured = new Map<number, Measured[]>(COUNTS.map((count) => [count, []]))
    for (let round = 1; round <= ROUNDS; round++) {
      for (const count of COUNTS) measured.get(count)!.push(await run(count, ROUND_MS))
      say(
        `round ${round} of ${ROUNDS}: ${COUNTS.map((count) => `${count} agents ${rate(measured.get(count)!.at(-1)!.perSecond)}`).join(', ')}`,
      )
    }
    const cpuOf = (count: number): number => median(measured.get(count)!.map(({ cpuUs }) => cpuUs ?? Number.NaN))
    const cpuShare = cpuOf(FEW) / cpuOf(MANY)
    const share = median(measured.get(MANY)!.map(({ perSecond }, i) => perSecond / measured.get(FEW)![i]!.perSecond))
    return [
      ...[...measured].map(([count, rounds]) => tasksRow(count, rounds)),
      {
        what: `${MANY.toLocaleString('en')} agents against ${FEW}`,
        value: times(share),
        ...(Number.isNaN(cpuShare) ? {} : { more: `${times(cpuShare)} by CPU time alone` }),
        goal: { message: `>= ${times(SHARE_MIN)}`, met: share >= SHARE_MIN },
      },
    ]
  } finally {
    await pull.end()
  }
}

function tasksRow(count: number, rounds: readonly Measured[]): Row {
  const of = (figure: keyof Measured): number => median(rounds.map((round) => round[figure] ?? Number.NaN))
  const cpu = of('cpuUs')
  const more = `p50 ${ms(of('p50'))}, p99 ${ms(of('p99'))}${Number.isNaN(cpu) ? '' : `, ${ms(cpu / 1_000)} CPU each`}`
  return {
    what: `${count.toLocaleString('en')} ${count === 1 ? 'agent' : 'agents'}, ${IN_FLIGHT} tasks in flight`,
    value: `${rate(of('perSecond'))} tasks`,
    more,
  }
}

// --- From an answer to the handler's continuation ------------------------------------------------------------------------------

type Spent = { readonly commit: number[]; readonly fromCall: number[]; readonly fromAnswer: number[] }

async function resumes(server: ServerProcess, keys: Keys, say: Say): Promise<Row[]> {
  const url = `http://127.0.0.1:${server.port}`
  const person = createClient({ url, key: keys.alice })
  let continued: (at: number) => void = () => undefined
  const serving = serve(
    'agent_devin',
    async (run) => {
      for (let i = 1; i <= WARM_QUESTIONS + QUESTIONS; i++) {
        await run.ask.approve(`Go on with part ${i}?`)
        continued(performance.now())
      }
    },
    { url, key: keys.devin },
  )
  try {
    const { task } = await person.collaboration.task.create({ spec: { goal: 'Ask', acceptance_criteria: ['asked'] } })
    await person.collaboration.task.assign({ task_id: task.id, assignee: 'agent_devin' })
    const spent: Spent = { commit: [], fromCall: [], fromAnswer: [] }
    for (let asked = 1; asked <= WARM_QUESTIONS + QUESTIONS; asked++) {
      const checkpoint_id = await question(person, task.id, asked)
      await pause(READ_MS)
      const commit = await timed(() => person.collaboration.task.create({ spec: task.spec }))
      const { promise, resolve } = Promise.withResolvers<number>()
      continued = resolve
      const called = performance.now()
      await person.collaboration.checkpoint.resolve({ checkpoint_id, action: 'approve' })
      const answered = performance.now()
      const at = await promise
      if (asked <= WARM_QUESTIONS) continue
      spent.commit.push(commit)
      spent.fromCall.push(at - called)
      spent.fromAnswer.push(at - answered)
    }
    say(`${QUESTIONS} answers, each beside one task.create`)
    return resumeRows(spent)
  } finally {
    await serving.stop()
    await person.close()
  }
}

/** The question that the handler has put, when it has. */
async function question(person: Client, task_id: string, number: number): Promise<string> {
  for (;;) {
    const { task } = await person.collaboration.task.get({ task_id })
    if (task.checkpoints.length === number) return task.checkpoints.at(-1)!
    await pause(2)
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}

function resumeRows({ commit, fromCall, fromAnswer }: Spent): Row[] {
  const [one, called, answered] = [commit, fromCall, fromAnswer].map(quantiles) as [Quantiles, Quantiles, Quantiles]
  const ratio = called.p50 / one.p50
  const row = (what: string, { p50, p99 }: Quantiles): Row => ({ what, value: `p50 ${ms(p50)}`, more: `p99 ${ms(p99)}` })
  return [
    row('one durable commit of a lone caller (task.create)', one),
    row("from the call of checkpoint.resolve to the handler's continuation", called),
    row('the same from the moment that its caller has the answer', answered),
    {
      what: 'resolve to continuation against one commit',
      value: times(ratio),
      goal: { message: `<= ${times(RESUME_COMMITS_MAX)}`, met: ratio <= RESUME_COMMITS_MAX },
    },
  ]
}
type Quantiles = ReturnType<typeof quantiles>

// --- Memory ------------------------------------------------------------------------------------------------------------------

/** How much the server grows when so many come and wait. */
async function idleMb(server: ServerProcess, { alice }: Keys, crowd: readonly Enrolled[]): Promise<number | null> {
  const pull = await startPullAgents(server.port, alice, crowd)
  try {
    await pause(IDLE_MS)
    const before = usageOf(server.pid)
    await pull.connect(MANY, MANY)
    await untilWaiting(server, MANY)
    await pause(IDLE_MS)
    const after = usageOf(server.pid)
    return before && after ? after.rssMb - before.rssMb : null
  } finally {
    await pull.end()
  }
}

function memoryRows(grown: readonly number[]): Row[] {
  if (grown.length === 0) return []
  const mb = median(grown)
  return [
    {
      what: `${MANY.toLocaleString('en')} idle agents add to the server`,
      value: `${mb.toFixed(1)} MB`,
      more: `${Math.round((mb * 1_024) / MANY)} KB each`,
      goal: { message: `< ${IDLE_MB_MAX} MB`, met: mb < IDLE_MB_MAX },
    },
  ]
}
