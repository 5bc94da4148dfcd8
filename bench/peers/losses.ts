// Kills every process of a peer in the middle of trips, starts it again, and looks for each acknowledged question and answer.
import { createCallers, trips, type Stage } from './trips.ts'
import type { Peer, Running } from './peer.ts'

const LOAD_MS = 2_000
const WAIT_MS_MAX = 15_000

export type Losses = { readonly acknowledged: number; readonly questions: number; readonly answers: number }

export async function lossesOf(peer: Peer, running: Running, inFlight: number): Promise<{ losses: Losses; again: Running }> {
  const reached = new Map<string, Set<Stage>>()
  const note = (id: string, stage: Stage): void => void reached.set(id, (reached.get(id) ?? new Set()).add(stage))
  const load = trips(running, inFlight, 2 * LOAD_MS, note)
  await new Promise((done) => setTimeout(done, LOAD_MS))
  await running.kill()
  await load
  const again = await peer.start(true)
  const cut = [...reached].filter(([, stages]) => !stages.has('had'))
  const results = await Promise.all(
    cut.map(async ([id, stages]) => ({ isAnswered: stages.has('answered'), isThere: await isThere(again, id) })),
  )
  const lost = (isAnswered: boolean): number => results.filter((one) => one.isAnswered === isAnswered && !one.isThere).length
  return { losses: { acknowledged: reached.size, questions: lost(false), answers: lost(true) }, again }
}

/** Whether the asker gets the answer after the restart. Answers again: where the first one was kept, that is refused or repeated. */
async function isThere(running: Running, id: string): Promise<boolean> {
  const { send, close } = createCallers()
  const late = new Promise<boolean>((done) => setTimeout(done, WAIT_MS_MAX, false).unref())
  const had = send('wait', running.again(id)).then(
    () => true,
    () => false,
  )
  await Promise.race([send('answer', running.answer(id)).catch(() => undefined), late])
  const isHad = await Promise.race([had, late])
  await close()
  return isHad
}
