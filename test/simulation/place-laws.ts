// Laws of agents that take a number of runs at a time: no more of them are at work, and none waits while there is room.
import type { Group } from '#kernel/log/backend.ts'
import type { MemoryDisk } from '#stores/memory.ts'
import type { Fail, Record as FactRecord, SeenFact } from './record.ts'

const RUN = 'delegation.run/'
const CARD = 'delegation.card/'
const MAILBOX = 'delegation.mailbox/'

export type PlaceLaws = { judge(fact: SeenFact): void; judgeGroup(group: Group): void; judgeEnd(): void }

export function createPlaceLaws(disk: MemoryDisk, record: FactRecord, fail: Fail): PlaceLaws {
  const running = new Map<string, Set<string>>()
  /** How many were at work when it was last looked: a card may set a bound when there are more. */
  const before = new Map<string, number>()
  let touched = new Set<string>()
  /** Cards of this transaction: runs that began in it before the card count as those that ran already. */
  const bounded = new Set<string>()
  const boundOf = (agent: string): number => record.docs.get(CARD + agent)?.value['concurrency'] ?? Infinity
  const mailboxOf = (run_id: string): any => JSON.parse(disk.docs.get(MAILBOX + run_id)?.text ?? 'null')
  const isWaiting = (run_id: string): boolean => mailboxOf(run_id)?.waits !== undefined

  function judgeAgent(agent: string): void {
    const runs = [...(running.get(agent) ?? [])]
    const working = runs.filter((id) => !isWaiting(id)).length
    const bound = boundOf(agent)
    const isNewBound = bounded.delete(agent)
    if (!isNewBound && working > Math.max(bound, before.get(agent) ?? 0))
      fail(`${agent} works on ${working} runs and takes ${bound} at a time`)
    before.set(agent, working)
  }

  return {
    judge({ images }) {
      for (const { key, after } of images) {
        if (key.startsWith(CARD)) {
          bounded.add(after.id)
          touched.add(after.id)
        }
        if (!key.startsWith(RUN)) continue
        const runs = running.get(after.agent_id) ?? new Set()
        running.set(after.agent_id, runs)
        if (after.state === 'running') runs.add(after.id)
        else runs.delete(after.id)
        touched.add(after.agent_id)
      }
    },
    judgeGroup({ create, update }) {
      for (const { key } of [...create, ...update])
        if (key.startsWith(MAILBOX)) touched.add(record.docs.get(RUN + key.slice(MAILBOX.length))?.value.agent_id)
      const all = touched
      touched = new Set()
      for (const agent of all) judgeAgent(agent)
    },
    judgeEnd() {
      for (const [agent, runs] of running) {
        const waiting = [...runs].filter(isWaiting)
        const working = runs.size - waiting.length
        if (waiting.length > 0 && working < boundOf(agent))
          fail(`${waiting[0]} waits, and ${agent} works on ${working} of ${boundOf(agent)}`)
      }
      for (const [key, { text }] of disk.docs)
        if (key.startsWith(MAILBOX) && JSON.parse(text).waits !== undefined && !runningNow(key.slice(MAILBOX.length)))
          fail(`${key} waits for a place, and its run is not running`)
    },
  }

  function runningNow(run_id: string): boolean {
    return record.docs.get(RUN + run_id)?.value['state'] === 'running'
  }
}
