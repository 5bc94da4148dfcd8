// The scheduler of the servers' simulation: everything that can happen next waits here, and a seed picks. A server that is paused does
// nothing, though what it has sent arrives and its time passes; what a dead one had in mind never happens.
import type { Random } from '../random.ts'

/** A process, for as long as it lives. */
export type Life = { isAlive: boolean; isPaused: boolean }
type Runnable = { readonly what: string; readonly life: Life | null; run(): void }
type Sleeper = { readonly at: number; readonly life: Life | null; run(): void }

export type Scheduler = {
  /** Milliseconds that never step, the same for all. */
  elapsed(): number
  /** With a life it is done by that process; without one by the network or the database. */
  park(what: string, run: () => void, life?: Life | null): void
  /** Answers how to call it off. */
  later(ms: number, run: () => void, life?: Life | null): () => void
  canRun(): boolean
  runOne(): string
  pass(ms: number): void
}

export function createScheduler(random: Random, isFaulty: () => boolean): Scheduler {
  let elapsed = 0
  let runnables: Runnable[] = []
  let sleepers: Sleeper[] = []
  const isReady = ({ life }: Runnable): boolean => life === null || (life.isAlive && !life.isPaused)
  const isOver = (life: Life | null): boolean => life !== null && !life.isAlive

  function park(what: string, run: () => void, life: Life | null = null): void {
    if (!isOver(life)) runnables.push({ what, life, run })
  }
  return {
    elapsed: () => elapsed,
    park,
    later(ms, run, life = null) {
      let isOff = false
      const sleeper = { at: elapsed + Math.max(0, ms), life, run: () => void (isOff || run()) }
      if (!isOver(life)) sleepers.push(sleeper)
      return () => {
        // Also if its time has come already and it only waits for its turn.
        isOff = true
        sleepers = sleepers.filter((other) => other !== sleeper)
      }
    },
    canRun: () => runnables.some(isReady),
    runOne() {
      runnables = runnables.filter(({ life }) => !isOver(life))
      const ready = runnables.filter(isReady)
      const chosen = ready[isFaulty() ? random.below(ready.length) : 0]!
      runnables = runnables.filter((other) => other !== chosen)
      chosen.run()
      return chosen.what
    },
    pass(ms) {
      elapsed += ms
      const due = sleepers.filter(({ at }) => at <= elapsed).toSorted((one, two) => one.at - two.at)
      sleepers = sleepers.filter(({ at, life }) => at > elapsed && !isOver(life))
      for (const { run, life } of due) park('wake', run, life)
    },
  }
}
