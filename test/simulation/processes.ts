// The processes of the agents: two for each agent, neither knowing of the other. They take their messages, work on what they took,
// forget nothing, and go on talking about a run long after the other has taken it over.
import { canonical } from '#kernel/log/canonical-json.ts'
import type { Plan } from './clients.ts'
import type { Random } from './random.ts'
import type { Fail, Record as FactRecord } from './record.ts'
import { projects, type ProjectName, type Scene } from './world.ts'

type Held = { attempt: number; last: number }
const workers = ['p1', 'p2'] as const
/** The process of an agent that is told by HTTP. */
const HOOK = 'webhook'
const agentsOf = Object.fromEntries(
  Object.entries(projects).flatMap(([project, { agents }]) => agents.map((agent) => [agent, project as ProjectName])),
)

export type Processes = {
  next(id: number): Plan
  /** Everything that waits for anybody is fetched by a process that nobody has seen before. */
  fetch(agent: string, round: number): Plan
  /** At the moment the server answers: an attempt belongs to one process, and who is told of a newer one makes the older stale. */
  answered(plan: Plan, output: any): void
  /** The answer has arrived. */
  heard(plan: Plan, output: any): void
  /** A message was posted to the agent, and it has it. */
  told(run: any, attempt: number, message: { readonly number: number; readonly kind: string }): void
  /** The newest attempt that anybody was told of. */
  newest(run_id: string | undefined): number
  /** Whether anybody has ever said, or tried to say, that a message of the run is done. */
  hasAcknowledged(run_id: string): boolean
  /** Whether a message was ever handed to anybody. */
  wasHanded(run_id: string, number: number): boolean
  readonly agents: readonly string[]
}

export function createProcesses(random: Random, record: FactRecord, { isAtWork, isConfirming }: Scene, fail: Fail): Processes {
  const holding = new Map<string, Map<string, Held>>()
  const holders = new Map<string, string>()
  const newest = new Map<string, number>()
  const handed = new Set<string>()
  const acknowledged = new Set<string>()
  const message = (id: number): string => `~${id}~`
  const seatOf = (as: string, worker: string): string => `${as}/${worker}`
  const runOf = (id: string): any => record.docs.get(`delegation.run/${id}`)?.value

  function takes(as: string, worker: string): Plan {
    const lease = random.weighted([
      [3, undefined],
      [1, 'PT5M'],
      [1, 'PT1H'],
    ])
    return { as, op: 'delegation/mailbox.take', input: { worker, lease }, keyed: random.chance(0.5) }
  }

  function works(id: number, as: string, worker: string): Plan {
    const held = [...(holding.get(seatOf(as, worker)) ?? [])].filter(([run_id]) => {
      const run = runOf(run_id)
      return run !== undefined && (run.ended_at === null || random.chance(0.1))
    })
    if (held.length === 0) return takes(as, worker === HOOK ? workers[0] : worker)
    const [run_id, { attempt, last }] = random.pick(held)
    const own = { run_id, attempt }
    const others = projects[agentsOf[as]!].agents
    const [op, input] = random.weighted<readonly [string, object]>([
      [runOf(run_id).started_at === null ? 6 : 0.2, ['run.start', own]],
      [2, ['run.progress', { ...own, message: message(id) }]],
      [0.5, ['run.ask', { ...own, message: message(id) }]],
      [3, ['run.report', { ...own, ...reported(id) }]],
      [0.7, ['run.complete', { ...own, result: { done: true } }]],
      [0.7, ['run.fail', { ...own, error: message(id) }]],
      [0.7, ['agent.handoff', { ...own, to_agent: random.pick(others) }]],
      [0.9, ['agent.delegate', delegated(id, run_id, attempt, random.pick(others))]],
      [1, ['memo.put', { ...own, key: random.pick(['a', 'b']), value: message(id) }]],
      [1.5, ['mailbox.ack', { ...own, number: Math.max(1, last - random.below(2)) }]],
      [1.5, ['mailbox.extend', { runs: [own] }]],
      [0.5, ['mailbox.release', { runs: [own] }]],
      [isAtWork ? 16 : 4, ['capability.invoke', { ...own, ...invoked(id) }]],
    ])
    if (op === 'mailbox.ack') acknowledged.add(run_id)
    return { as, op: `delegation/${op}`, input, keyed: random.chance(0.8) }
  }

  function reported(id: number): object {
    if (random.chance(0.4))
      return {
        type: 'artifact',
        payload: { payload: { kind: 'inline', uri: `data:text/plain,${message(id)}` }, kind: random.pick(['plan', 'deliverable']) },
      }
    const type = random.pick(['needs_approval', 'needs_choice', 'needs_input'])
    const options = type === 'needs_choice' ? { options: [{ id: 'a', label: 'A', risk: 'low' }] } : {}
    return { type, payload: { prompt: message(id), ...options } }
  }

  function invoked(id: number): object {
    const capability_id = isConfirming ? 'cap:open' : random.pick(['cap:open', 'cap:open', 'cap:guarded', 'cap:guarded', 'cap:none'])
    // Mostly as it is offered now; now and then as it was offered before.
    const offered = [...record.docs].flatMap(([key, { value }]) =>
      key.startsWith(`delegation.capability/${capability_id}@`) && !value.withdrawn ? [value.version as string] : [],
    )
    return {
      ref: { capability_id, version: isAtWork && random.chance(0.1) ? '1.0.0' : (offered.at(-1) ?? '1.0.0') },
      input: isConfirming ? { word: random.pick(['read', 'drop']) } : random.chance(0.95) ? { word: 'x' } : {},
      timeout: `PT${(1_000 + id) / 1_000}S`,
    }
  }

  function delegated(id: number, parent_run: string, attempt: number, to_agent: string): object {
    const { task_id } = runOf(parent_run)
    return { to_agent, parent_run, attempt, input: { note: message(id) }, ...(task_id === null ? {} : { task_id }) }
  }

  function alone(id: number, as: string): Plan {
    const [op, input] = random.chance(0.6)
      ? ([
          'agent.publish',
          { name: as, description: message(id), available: random.chance(0.95), concurrency: random.chance(0.3) ? 1 : null },
        ] as const)
      : ([
          'agent.delegate',
          { to_agent: random.pick(projects[agentsOf[as]!].agents), project_id: agentsOf[as], input: { note: message(id) } },
        ] as const)
    return { as, op: `delegation/${op}`, input, keyed: random.chance(0.8) }
  }

  return {
    agents: Object.keys(agentsOf),
    next(id) {
      const busy = [...record.docs].filter(([key, { value }]) => key.startsWith('delegation.run/') && value.ended_at === null)
      const as = busy.length > 0 && random.chance(0.9) ? random.pick(busy)[1].value.agent_id : random.pick(Object.keys(agentsOf))
      const worker = holding.has(seatOf(as, HOOK)) && random.chance(0.5) ? HOOK : random.pick(workers)
      return random.weighted<() => Plan>([
        [4, () => takes(as, worker)],
        [9, () => works(id, as, worker)],
        [0.6, () => alone(id, as)],
      ])()
    },
    fetch: (as, round) => ({ as, op: 'delegation/mailbox.take', input: { worker: `new-${round}` }, keyed: false }),
    answered({ as, op, input }, output) {
      if (op !== 'delegation/mailbox.take') return
      for (const { run, attempt, messages } of output.items) {
        const of = `${run.id}/${attempt}`
        const seat = seatOf(as, input.worker)
        if ((holders.get(of) ?? seat) !== seat) fail(`attempt ${attempt} of ${run.id} is with ${holders.get(of)} and with ${seat}`)
        holders.set(of, seat)
        newest.set(run.id, Math.max(newest.get(run.id) ?? 0, attempt))
        if (run.agent_id !== as) fail(`${as} got messages of ${run.id}, which is ${run.agent_id}'s`)
        let before = 0
        for (const { number, kind, body } of messages) {
          if (number <= before) fail(`${run.id}: message ${number} came after ${before}`)
          before = number
          handed.add(`${run.id}/${number}`)
          const answered = kind === 'resume' ? record.docs.get(`collaboration.checkpoint/${body.checkpoint_id}`)?.value : null
          if (answered !== null && canonical(answered?.resolution) !== canonical(body.resolution))
            fail(`${run.id} is resumed with another resolution than ${body.checkpoint_id} has`)
        }
      }
    },
    heard({ as, op, input }, output) {
      if (op !== 'delegation/mailbox.take') return
      const seat = holding.get(seatOf(as, input.worker)) ?? new Map<string, Held>()
      holding.set(seatOf(as, input.worker), seat)
      for (const { run, attempt, messages } of output.items) {
        const last = messages.at(-1)?.number ?? 0
        if ((seat.get(run.id)?.attempt ?? 0) <= attempt) seat.set(run.id, { attempt, last })
      }
    },
    told(run, attempt, { number, kind }) {
      handed.add(`${run.id}/${number}`)
      acknowledged.add(run.id)
      // Only these begin an attempt; anything else is about the one under way, whoever has it.
      if (kind !== 'run' && kind !== 'resume') return
      const seat = seatOf(run.agent_id, HOOK)
      const of = `${run.id}/${attempt}`
      if ((holders.get(of) ?? seat) !== seat) fail(`attempt ${attempt} of ${run.id} is with ${holders.get(of)} and with ${seat}`)
      holders.set(of, seat)
      newest.set(run.id, Math.max(newest.get(run.id) ?? 0, attempt))
      const runs = holding.get(seat) ?? new Map<string, Held>()
      holding.set(seat, runs)
      if ((runs.get(run.id)?.attempt ?? 0) <= attempt) runs.set(run.id, { attempt, last: number })
    },
    newest: (run_id) => (run_id === undefined ? 0 : (newest.get(run_id) ?? 0)),
    hasAcknowledged: (run_id) => acknowledged.has(run_id),
    wasHanded: (run_id, number) => handed.has(`${run_id}/${number}`),
  }
}
