// Turns of reading. All reads share one thread, so an actor with many reads gets a share of each turn of the event loop, and other actors
// are served in between.
import type { Turns } from '#kernel/types.ts'
import { limits } from '#kernel/limits.ts'
import type { UnsentAnswers } from './unsent-answers.ts'

type Waiting = { go(): void; refuse(error: unknown): void }
type Queue = {
  readonly actor: string
  underWay: number
  /** The cost of this turn so far, and the cost of the last read: the estimate for the next one. */
  spent: number
  usual: number
  readonly waiting: Waiting[]
}

export function createReadTurns(unsent: Pick<UnsentAnswers, 'admit'>, monotonic = (): number => performance.now()): Turns {
  const queues = new Map<string, Queue>()
  let spent = 0
  /** When the first read of this turn began. */
  let begunAt = 0
  let isScheduled = false

  const mayBegin = (queue: Queue): boolean =>
    queue.underWay < limits.readsUnderWayMax &&
    queue.spent < limits.readUnitsPerTurn &&
    spent < limits.readUnitsPerTurnOfAll &&
    (spent === 0 || monotonic() - begunAt < limits.readMsPerTurn)

  function spend(queue: Queue, units: number): void {
    queue.spent += units
    spent += units
  }

  function begin(queue: Queue): void {
    if (spent === 0) begunAt = monotonic()
    queue.underWay++
    spend(queue, queue.usual)
  }

  function schedule(): void {
    if (isScheduled) return
    isScheduled = true
    setImmediate(nextTurn)
  }

  function nextTurn(): void {
    isScheduled = false
    spent = 0
    for (const queue of queues.values()) {
      queue.spent = 0
      if (queue.underWay === 0 && queue.waiting.length === 0) queues.delete(queue.actor)
    }
    for (const queue of queues.values()) {
      if (!next(queue)) continue
      // Move this queue behind all others.
      queues.delete(queue.actor)
      queues.set(queue.actor, queue)
    }
  }

  function next(queue: Queue): boolean {
    if (queue.waiting.length === 0 || !mayBegin(queue)) return false
    const { go, refuse } = queue.waiting.shift()!
    try {
      // Check again: responses sent since the read was queued might still be unread.
      unsent.admit(queue.actor)
      begin(queue)
      go()
    } catch (error) {
      refuse(error)
    }
    return true
  }

  return {
    admit: unsent.admit,
    begin(actor) {
      unsent.admit(actor)
      let queue = queues.get(actor)
      if (!queue) queues.set(actor, (queue = { actor, underWay: 0, spent: 0, usual: 1, waiting: [] }))
      if (queue.waiting.length === 0 && mayBegin(queue)) {
        begin(queue)
        return undefined
      }
      const { waiting } = queue
      schedule()
      return new Promise((go, refuse) => waiting.push({ go, refuse }))
    },
    end(actor, units) {
      const queue = queues.get(actor)!
      queue.underWay--
      spend(queue, units - queue.usual)
      queue.usual = units
      schedule()
      next(queue)
    },
  }
}
