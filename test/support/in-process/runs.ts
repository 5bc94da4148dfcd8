// Runs in tests: those of a task, the messages of an agent, and the events of a stream.
import type { Stage } from './stage.ts'

export const runsOf = async ({ call, refs }: Stage, task_id: string = refs['task'].id): Promise<any[]> =>
  (await call('admin', 'delegation/run.list', { task_id })).items as any[]

/** The run that the work is with. */
export const runOf = async (on: Stage, task_id?: string): Promise<any> =>
  (await runsOf(on, task_id)).findLast(({ state }) => state === 'running' || state === 'blocked')

/** The messages that an agent's process takes: `kind` of each, by run. */
export async function take({ call }: Stage, as: string, worker = `${as}-1`, more: object = {}): Promise<any[]> {
  return (await call(as, 'delegation/mailbox.take', { worker, ...more })).items as any[]
}
export const kindsIn = (items: readonly any[]): string[][] => items.map(({ messages }) => messages.map(({ kind }: any) => kind as string))

/** The events that a stream of runs has shown so far. */
export async function eventsOf({ world }: Stage, as: string, input: object, count: number, after: number | null = null): Promise<any[]> {
  const found: any[] = []
  const stop = new AbortController()
  for await (const { item, place } of world.kernel.follow('delegation/run.follow', input, world.cast[as]!, {
    after,
    signal: stop.signal,
  })) {
    found.push({ ...(item as { event: object }).event, place })
    if (found.length === count) stop.abort()
  }
  return found
}
