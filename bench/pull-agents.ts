// Agents that come for their runs, a thousand in one process beside the people who give them work. Each does what `serve()` of the
// SDK does: it holds a call to `mailbox.take` that waits, starts what it is given, reads the task and delivers. Plain sockets instead
// of `fetch`, so that what is measured is the server.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { openConnection, quantiles, requestBytes, type Connection } from './load.ts'

export type Enrolled = { readonly id: string; readonly key: string }
export type Done = { readonly tasks: number; readonly perSecond: number; readonly p50: number; readonly p99: number }
type Order =
  | { readonly do: 'open'; readonly port: number; readonly person: string; readonly agents: readonly Enrolled[] }
  | { readonly do: 'connect'; readonly agents: number; readonly inFlight: number }
  | { readonly do: 'work'; readonly inFlight: number; readonly forMs: number }
  | { readonly do: 'leave' }

export type PullAgents = {
  /** The first so many of them wait for runs when it resolves; together they have room for so many. */
  connect(agents: number, inFlight: number): Promise<void>
  /** Keeps so many tasks on their way from creation to approval for a time. */
  work(inFlight: number, forMs: number): Promise<Done>
  leave(): Promise<void>
  end(): Promise<void>
}

export async function startPullAgents(port: number, person: string, agents: readonly Enrolled[]): Promise<PullAgents> {
  const child = fork(import.meta.filename)
  const ended = once(child, 'exit')
  async function tell<T>(order: Order): Promise<T> {
    child.send(order)
    const answer = await Promise.race([once(child, 'message'), ended.then(() => null)])
    if (answer === null) throw new Error('the process of the agents has ended')
    return answer[0] as T
  }
  await tell({ do: 'open', port, person, agents })
  return {
    connect: (count, inFlight) => tell({ do: 'connect', agents: count, inFlight }),
    work: (inFlight, forMs) => tell({ do: 'work', inFlight, forMs }),
    leave: () => tell({ do: 'leave' }),
    async end() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

// --- The process of the agents -----------------------------------------------------------------------------------------------

const WORKER = 'bench'
/** The most that one call may take. */
const TAKEN_MAX = 50
const spec = { goal: 'Count the tasks that are done in a second', acceptance_criteria: ['each is counted once'] }
const payload = { kind: 'inline', uri: 'data:text/plain,counted' }

let calls = 0
async function call(connection: Connection, key: string, operation: string, input: object): Promise<any> {
  const request = requestBytes(`/v1/${operation}`, key, JSON.stringify(input), `${process.pid}-${++calls}`)
  const { status, body } = await connection.send(request)
  if (status !== 200) throw new Error(`${operation} answered ${status}: ${body.toString()}`)
  return JSON.parse(body.toString())
}

type Delivered = { readonly task_id: string; readonly artifact_id: string }
type Agent = { readonly id: string; leave(): void }

/** One connection, and one more for each run that it works on while it waits for others. */
async function connect(port: number, { id, key }: Enrolled, concurrency: number, delivered: (what: Delivered) => void): Promise<Agent> {
  const open = new Set<Connection>()
  const idle: Connection[] = []
  let free = concurrency
  let hasLeft = false
  let isAsking = false

  async function onOne<T>(use: (connection: Connection) => Promise<T>): Promise<T> {
    const connection = idle.pop() ?? (await openConnection(port))
    open.add(connection)
    const result = await use(connection)
    idle.push(connection)
    return result
  }
  function pump(): void {
    if (hasLeft || isAsking || free === 0) return
    isAsking = true
    const input = { agent_id: id, worker: WORKER, lease: 'PT1M', wait: 'PT50S', limit: Math.min(free, TAKEN_MAX) }
    const asked = onOne((connection) => call(connection, key, 'delegation/mailbox.take', input))
    asked.then(({ items }) => {
      isAsking = false
      free -= items.length
      for (const item of items) work(item).then(over, failed)
      pump()
    }, failed)
  }
  function over(): void {
    free++
    pump()
  }
  function failed(error: unknown): void {
    if (hasLeft) return
    console.error(error)
    process.exit(1)
  }
  const work = ({ run, attempt }: any): Promise<void> =>
    onOne(async (connection) => {
      const { id: run_id, task_id } = run
      await call(connection, key, 'delegation/run.start', { run_id, attempt })
      await call(connection, key, 'collaboration/task.get', { task_id })
      const { artifact } = await call(connection, key, 'collaboration/artifact.commit', { task_id, type: 'note', payload })
      delivered({ task_id, artifact_id: artifact.id })
    })

  idle.push(await openConnection(port))
  pump()
  return {
    id,
    leave() {
      hasLeft = true
      for (const connection of open) connection.close()
    },
  }
}

type Desk = { readonly port: number; readonly person: string; readonly enrolled: readonly Enrolled[] }

function createCrowd({ port, person, enrolled }: Desk) {
  const waiting = new Map<string, (artifact_id: string) => void>()
  let agents: Agent[] = []
  let next = 0

  async function task(connection: Connection): Promise<void> {
    const { task: created } = await call(connection, person, 'collaboration/task.create', { spec })
    const { promise, resolve } = Promise.withResolvers<string>()
    waiting.set(created.id, resolve)
    const assignee = agents[next++ % agents.length]!.id
    await call(connection, person, 'collaboration/task.assign', { task_id: created.id, assignee })
    const artifact_id = await promise
    waiting.delete(created.id)
    const review = { task_id: created.id, artifact_id, verdict: 'approved' }
    const { task: reviewed } = await call(connection, person, 'collaboration/review.submit', review)
    if (reviewed.state !== 'completed') throw new Error(`a task that was approved is ${reviewed.state}`)
  }

  return {
    async connect(count: number, inFlight: number): Promise<void> {
      const room = Math.ceil(inFlight / count)
      const delivered = ({ task_id, artifact_id }: Delivered): void => waiting.get(task_id)?.(artifact_id)
      agents = await Promise.all(enrolled.slice(0, count).map((agent) => connect(port, agent, room, delivered)))
    },
    async work(inFlight: number, forMs: number): Promise<Done> {
      const lanes = await Promise.all(Array.from({ length: inFlight }, () => openConnection(port)))
      const times: number[] = []
      const began = performance.now()
      await Promise.all(
        lanes.map(async (connection) => {
          for (let from = performance.now(); from - began < forMs;) {
            await task(connection)
            const now = performance.now()
            times.push(now - from)
            from = now
          }
        }),
      )
      const seconds = (performance.now() - began) / 1_000
      for (const connection of lanes) connection.close()
      return { tasks: times.length, perSecond: times.length / seconds, ...quantiles(times) }
    },
    leave(): void {
      for (const agent of agents) agent.leave()
      agents = []
    },
  }
}

if (import.meta.main && process.send) {
  let crowd: ReturnType<typeof createCrowd>
  const obey = async (order: Order): Promise<unknown> => {
    if (order.do === 'open') crowd = createCrowd({ port: order.port, person: order.person, enrolled: order.agents })
    else if (order.do === 'connect') await crowd.connect(order.agents, order.inFlight)
    else if (order.do === 'work') return crowd.work(order.inFlight, order.forMs)
    else crowd.leave()
    return null
  }
  process.on('message', (order: Order) => void obey(order).then((answer) => process.send!(answer ?? {})))
}
