// Places of an agent: the runs that it works on at a time. A run that begins or resumes while all places are taken waits for one.
// Its state is running, it is queued, and its messages are handed over when it gets a place. The longest waiting run is first.
import { errand } from '#kernel/log/errand.ts'
import { limits } from '#kernel/limits.ts'
import type { Bound, Change, Read } from '#kernel/declare/operation.ts'
import { Card, Mailbox, Run } from '../schema.ts'

/** `max`: null for an agent without a limit. `left`: free places. */
export type Room = { readonly agent_id: string; readonly max: number | null; readonly left: number }

export async function roomOf(read: Read, agent_id: string): Promise<Room> {
  const max = (await read.raw(Card, agent_id))?.concurrency ?? null
  if (max === null) return { agent_id, max, left: limits.concurrencyMax }
  const [running, waiting] = await Promise.all([read.count(Run, 'agent', [agent_id, 'running']), read.count(Mailbox, 'waits', [agent_id])])
  return { agent_id, max, left: Math.max(0, max - (running - waiting)) }
}

/** Whether an agent limits its concurrent runs, so that a run that stops can free a place for another. */
export const isBoundedAgent = async (read: Read, agent_id: string): Promise<boolean> =>
  ((await read.raw(Card, agent_id))?.concurrency ?? null) !== null

/** Without a place, and not waiting for one either. */
export const withoutPlace = ({ waits: _, at_work: __, ...mailbox }: Mailbox): Mailbox => mailbox

/** Marks the run as working even without a bound: a later card can set one, and running runs count then. */
export function withPlace(mailbox: Mailbox, { left }: Room, now: string): Mailbox {
  const rest = withoutPlace(mailbox)
  return left > 0 ? { ...rest, at_work: true } : { ...rest, waits: { since: now, from: mailbox.last + 1 } }
}

/** When two calls compete for the last place, the loser decides again and its run waits. */
export const inPlace = ({ agent_id, max }: Room): Bound[] =>
  max === null
    ? []
    : [
        {
          doc: Mailbox,
          index: 'at_work',
          prefix: [agent_id],
          max,
          message: `${agent_id} works on as many runs as it takes at a time`,
          decidesAgain: true,
        },
      ]

/** Bounds for one run, which takes a place if one is free. */
export const takePlace = (room: Room): Bound[] => (room.left > 0 ? inPlace(room) : [])
/** Without a free place, schedules an admission: a place freed concurrently would otherwise go unnoticed. */
export const askForPlace = (room: Room, now: string): Change[] => (room.left > 0 ? [] : [admission(room.agent_id, now)])

type Queue = { puts(now: string): Change[]; readonly atMost: Bound[] }
/** A card with a new bound can free places for waiting runs. The commit checks that no run begins to wait in between. */
export async function queueOf(read: Read, agent_id: string): Promise<Queue> {
  if ((await read.count(Mailbox, 'waits', [agent_id])) > 0) return { puts: (now) => [admission(agent_id, now)], atMost: [] }
  const message = 'a run began to wait for a place just now: try again'
  return { puts: () => [], atMost: [{ doc: Mailbox, index: 'waits', prefix: [agent_id], max: 0, message, decidesAgain: true }] }
}

const ADMIT = 'delegation/run.admit'
/** Admission runs in its own batch, because only committed documents can be counted. */
export const admission = (agent_id: string, now: string): Change => errand(admissionId(agent_id), now, ADMIT, { agent_id })
export const admissionId = (agent_id: string): string => `admit/${agent_id}`
