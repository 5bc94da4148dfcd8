// Round trips: a question is asked, a person answers it, the asker has the answer. A caller has connections of its own for the agent and for
// the person.
import { openConnection, quantiles, type Connection } from '../load.ts'
import { spentBy } from '../report.ts'
import type { Call, Running } from './peer.ts'

export type Trips = {
  readonly count: number
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
  readonly cpuUs: number
}
/** How far a trip got before everything was killed. */
export type Stage = 'asked' | 'answered' | 'had'

const cpuOf = (pids: readonly number[]): number => pids.reduce((sum, pid) => sum + spentBy(pid), 0)
let tripsBegun = 0
const nextId = (): string => `trip-${process.pid}-${Date.now().toString(36)}-${tripsBegun++}`

export function createCallers() {
  const open = new Map<string, Promise<Connection>>()
  return {
    async send(role: string, { port, request }: Call): Promise<string> {
      const key = `${role} ${port}`
      if (!open.has(key)) open.set(key, openConnection(port))
      const { status, body } = await (await open.get(key)!).send(request)
      if (status < 200 || status > 299) throw new Error(`${role} was answered ${status}: ${body.toString().slice(0, 300)}`)
      return body.toString()
    },
    async close(): Promise<void> {
      for (const connection of await Promise.allSettled(open.values())) if (connection.status === 'fulfilled') connection.value.close()
    },
  }
}
type Callers = ReturnType<typeof createCallers>

/** One trip; the milliseconds from the answer to the asker. */
async function trip(running: Running, { send }: Callers, reached: (id: string, stage: Stage) => void): Promise<number> {
  const tripId = nextId()
  const id = running.idOf(tripId, await send('ask', running.ask(tripId)))
  reached(id, 'asked')
  const began = performance.now()
  const had = send('wait', running.wait(id)).then(() => {
    reached(id, 'had')
    return performance.now() - began
  })
  const answered = send('answer', running.answer(id)).then(() => reached(id, 'answered'))
  const [took] = await Promise.all([had, answered])
  return took
}

/** Trips on so many callers, for a time, or until a call fails if `reached` follows them. */
export async function trips(
  running: Running,
  inFlight: number,
  forMs: number,
  reached?: (id: string, stage: Stage) => void,
): Promise<Trips> {
  const callers = Array.from({ length: inFlight }, createCallers)
  const took: number[] = []
  const cpu = cpuOf(running.pids())
  const ownCpu = process.cpuUsage()
  const began = performance.now()
  await Promise.all(
    callers.map(async (caller) => {
      while (performance.now() - began < forMs) took.push(await trip(running, caller, reached ?? (() => undefined)))
    }),
  ).catch((error: unknown) => {
    if (!reached) throw error
  })
  const seconds = (performance.now() - began) / 1_000
  const { user, system } = process.cpuUsage(ownCpu)
  const us = (cpuOf(running.pids()) - cpu) * 1e6 + user + system
  await Promise.all(callers.map(({ close }) => close()))
  return { count: took.length, perSecond: took.length / seconds, ...quantiles(took), cpuUs: us / took.length }
}

/** So many trips one after the other. */
export async function loneTrips(running: Running, count: number): Promise<void> {
  const caller = createCallers()
  for (let i = 0; i < count; i++) await trip(running, caller, () => undefined)
  await caller.close()
}

/** Asks so many questions that stay open. */
export async function askOpen(running: Running, count: number, inFlight: number): Promise<void> {
  let left = count
  const callers = Array.from({ length: inFlight }, createCallers)
  await Promise.all(
    callers.map(async ({ send }) => {
      while (left-- > 0) await send('ask', running.ask(nextId()))
    }),
  )
  await Promise.all(callers.map(({ close }) => close()))
}
