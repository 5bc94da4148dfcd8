// Places of an agent: the runs that it works on at a time. A run that goes on, or begins, while all places are taken waits for one: it is
// running and queued, and its messages are handed over when it has a place. Those that waited longest come first.
import { errand } from '#kernel/log/errand.ts'
import { limits } from '#kernel/limits.ts'
import type { Bound, Change, Read } from '#kernel/declare/operation.ts'
import { Card, Mailbox, Run } from '../schema.ts'

/** `max`: null where its agent takes as many as come. `left`: places that no run has. */
export type Room = { readonly agent_id: string; readonly max: number | null; readonly left: number }

export async function roomOf(read: Read, agent_id: string): Promise<Room> {
  const max = (await read.raw(Card, agent_id))?.concurrency ?? null
  if (max === null) return { agent_id, max, left: limits.concurrencyMax }
  const [running, waiting] = await Promise.all([read.count(Run, 'agent', [agent_id, 'running']), read.count(Mailbox, 'waits', [agent_id])])
  return { agent_id, max, left: Math.max(0, max - (running - waiting)) }
}

/** Whether an agent takes a number of runs at a time, so that a run that stops may leave its place to another. */
export const isBoundedAgent = async (read: Read, agent_id: string): Promise<boolean> =>
  ((await read.raw(Card, agent_id))?.concurrency ?? null) !== null

/** Without a place, and not waiting for one either. */
export const withoutPlace = ({ waits: _, at_work: __, ...mailbox }: Mailbox): Mailbox => mailbox

/** Also where there is no bound: a later card may set one, and then those that run already count. */
export function withPlace(mailbox: Mailbox, { left }: Room, now: string): Mailbox {
  const rest = withoutPlace(mailbox)
  return left > 0 ? { ...rest, at_work: true } : { ...rest, waits: { since: now, from: mailbox.last + 1 } }
}

/** Of two that want the last place at once, the one that loses decides again, and waits. */
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

/** The same for one run: it takes a place where there is one. */
export const takePlace = (room: Room): Bound[] => (room.left > 0 ? inPlace(room) : [])
/** And where there is none: a place may have become free meanwhile, which nothing else would notice. */
export const askForPlace = (room: Room, now: string): Change[] => (room.left > 0 ? [] : [admission(room.agent_id, now)])

type Queue = { puts(now: string): Change[]; readonly atMost: Bound[] }
/** A card that says another bound may have a place for runs that wait. That none begins to wait meanwhile is checked at the commit. */
export async function queueOf(read: Read, agent_id: string): Promise<Queue> {
  if ((await read.count(Mailbox, 'waits', [agent_id])) > 0) return { puts: (now) => [admission(agent_id, now)], atMost: [] }
  const message = 'a run began to wait for a place just now: try again'
  return { puts: () => [], atMost: [{ doc: Mailbox, index: 'waits', prefix: [agent_id], max: 0, message, decidesAgain: true }] }
}

const ADMIT = 'delegation/run.admit'
/** The next run for a place is looked for in a batch of its own: only committed documents can be counted. */
export const admission = (agent_id: string, now: string): Change => errand(admissionId(agent_id), now, ADMIT, { agent_id })
export const admissionId = (agent_id: string): string => `admit/${agent_id}`
