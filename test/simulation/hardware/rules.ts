// The rules of a daemon, looked at from outside: its disk, in the order of the record, and what its tools did to the board.
import type { MemoryDisk } from '#stores/memory.ts'
import { stepId, type Plan, type Session, type Step, type Task } from '#protocols/hardware/daemon/schema.ts'
import type { StepRequest } from '#protocols/hardware/daemon/operations/step.ts'
import type { FaultyBoard } from './board.ts'
import type { Caps, Client } from './daemon.ts'

export type Rules = {
  /** Called at the very moment at which a tool begins. */
  acts(request: StepRequest, isAudited: boolean): void
  started(): void
  /** Reads what the disk has got since. */
  look(): void
  end(): void
  /** Sessions that the record says are open. */
  readonly sessions: ReadonlyMap<string, Client>
}
class Broken extends Error {
  override name = 'Broken'
}
const fail = (message: string): never => {
  throw new Broken(message)
}

export function createRules(disk: MemoryDisk, hardware: FaultyBoard, caps: Caps): Rules {
  const docs = new Map<string, unknown>()
  const ended = new Set<string>()
  const stopped = new Set<string>()
  const begun = new Set<string>()
  const concluded = new Set<string>()
  const acted = new Set<string>()
  const open = new Set<string>()
  const sessions = new Map<string, Client>()
  let broken: Error | null = null
  let seen = 0
  let before = ''

  const taskOf = (id: string): Task => docs.get(`hardware.task/${id}`) as Task
  function judge(action: string, images: readonly unknown[]): void {
    const [first] = images
    if (action === 'hardware/task.submit') open.add((first as Task).id)
    else if (action === 'hardware/task.cancel') stopped.add((first as Task).id)
    else if (action === 'hardware/session.open') sessions.set((first as Session).id, (first as Session).policy as Client)
    else if (action === 'hardware/session.close') {
      sessions.delete((first as Session).id)
      for (const id of open) if (taskOf(id).session_id === (first as Session).id) stopped.add(id)
    } else if (action === 'hardware/task.finish') {
      const { id, status } = first as Task
      if (ended.has(id)) fail(`the task ${id} ends twice`)
      if (status === 'SUCCESS' && stopped.has(id) && !hasSucceeded(id)) fail(`the task ${id} was stopped and has succeeded`)
      ended.add(id)
      open.delete(id)
    } else if (action === 'hardware/task.step.start') judgeStart(first as Step)
    else if (action === 'hardware/task.step.finish') {
      const { id, status, error } = first as Step
      if (concluded.has(id)) fail(`the step ${id} is finished twice`)
      if (status === 'FAILED' && !error) fail(`the step ${id} has failed without words`)
      concluded.add(id)
    }
  }
  const hasSucceeded = (task_id: string): boolean =>
    Array.from({ length: taskOf(task_id).steps }, (_, i) => docs.get(`hardware.step/${stepId(task_id, i)}`) as Step | undefined).every(
      (step) => step?.status === 'SUCCESS',
    )

  /** P23, P24: whatever holds when it begins. */
  function judgeStart({ id, task_id, index }: Step): void {
    if (begun.has(id)) fail(`the step ${id} begins twice`)
    if (stopped.has(task_id)) fail(`the step ${id} begins after its task was cancelled or its session closed`)
    if (ended.has(task_id)) fail(`the step ${id} begins after its task has ended`)
    for (let i = 0; i < index; i++)
      if (!concluded.has(stepId(task_id, i))) fail(`the step ${id} begins before step ${i} of its task has ended`)
    begun.add(id)
  }

  /** P23, P25, P35: at the moment at which it acts. */
  function judgeAct({ task_id, index, undo, policy }: StepRequest, isAudited: boolean): void {
    const id = stepId(task_id, index)
    if (!isAudited) fail(`${id} acts although the audit cannot be written`)
    if (undo) return
    if (!begun.has(id)) fail(`${id} acts before its start is on the disk`)
    if (concluded.has(id)) fail(`${id} acts after its end`)
    if (acted.has(id)) fail(`${id} acts twice`)
    acted.add(id)
    const { risk_level } = (docs.get(`hardware.plan/${task_id}`) as Plan).steps[index]!
    const { max_risk_level, relax_to } = caps[policy as Client]
    if (risk_level > Math.max(max_risk_level, relax_to)) fail(`${id} is riskier than its policy`)
    if (risk_level > taskOf(task_id).cap) fail(`${id} is riskier than its task may be`)
  }

  return {
    sessions,
    acts(request, isAudited) {
      try {
        this.look()
        judgeAct(request, isAudited)
      } catch (error) {
        // Here it would only make the step fail.
        broken ??= error as Error
      }
    },
    started() {
      this.look()
      if (open.size > 0) fail(`after the start the task ${[...open][0]} is still open`)
      if (hardware.isPlugged()) for (const line of OUTPUTS) if (hardware.level(line) !== 0) fail(`line ${line} is not safe after the start`)
    },
    look() {
      if (broken !== null) throw broken
      for (; seen < disk.facts.length; seen++) {
        const fact = disk.facts[seen]!
        const { action, prev } = JSON.parse(fact.line) as { action: string; prev: string }
        if (prev !== before) fail(`the line ${fact.seq} does not follow the one before it`)
        before = fact.hash
        const images = disk.images.filter(({ position }) => position === fact.position)
        const values = images.map(({ key, text }) => ({ key, value: text === null ? null : (JSON.parse(text) as unknown) }))
        for (const { key, value } of values) docs.set(key, value)
        judge(
          action,
          values.map(({ value }) => value),
        )
      }
      const [violation] = hardware.violations
      if (violation !== undefined) fail(violation)
    },
    end() {
      this.look()
      if (open.size > 0) fail(`the task ${[...open][0]} never ends`)
      for (const id of begun) if (!concluded.has(id)) fail(`the step ${id} has no end`)
      for (const id of acted) if (!begun.has(id)) fail(`${id} has acted without a start`)
      for (const line of OUTPUTS) if (hardware.level(line) !== 0) fail(`line ${line} is not safe although nobody has a session`)
    },
  }
}
const OUTPUTS = [17, 18, 22, 23, 24]
