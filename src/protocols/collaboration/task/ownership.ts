// Moves of a task: state by the table, holder by the state, one entry in the chain for each change of hands, time accounted.
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { move } from '#kernel/declare/transitions.ts'
import type { Task, Via } from '../schema.ts'
import { holderIn, taskMoves, type TaskState } from '../states.ts'

type Hand = { readonly via: Via; readonly reason: string; readonly now: string }

/** The task after an event of the state table. */
export function moveTask(task: Task, event: string, hand: Hand): Task {
  return inState(task, move(taskMoves, task.state, event), hand)
}

/** The state table names the holder. A task transferred before it was assigned is held by its new executor. */
function holderOf({ executor, ownership: { principal } }: Task, state: TaskState): string {
  return executor !== null && (holderIn[state] === 'executor' || state === 'created') ? executor : principal
}

/** The task in a state, with the holder from the table. */
export function inState(task: Task, state: TaskState, hand: Hand): Task {
  const holder = holderOf(task, state)
  const ownership = handTo(task.ownership, holder, hand)
  // A handover restarts the time limit, because an agent cannot work on a late task and the person must be asked again. An assignee who was
  // named before the task was assigned gets it now.
  const isGiven = ownership !== task.ownership || (task.state === 'created' && holder !== ownership.principal)
  const isHandedOut = holderIn[state] === 'executor' && isGiven
  return { ...task, state, ownership, overdue: task.overdue && !isHandedOut, ...activeTime(task, state, hand.now) }
}

/** The task with another executor, who becomes the holder immediately if an executor holds it now or it is still unassigned. */
export function withExecutor(task: Task, executor: string, hand: Hand): Task {
  return inState(workedOnBy(task, executor), task.state, hand)
}

/** Former executors stay in `executors`, which keeps their read access. */
export function workedOnBy(task: Task, executor: string): Task {
  const executors = task.executors.includes(executor) ? task.executors : [...task.executors, executor]
  if (executors.length > limits.executorsPerTaskMax)
    throw new Refusal('QUOTA_EXCEEDED', `a task goes through at most ${limits.executorsPerTaskMax} hands`)
  return { ...task, executor, executors }
}

/** Every change of assignee appends to the chain (HACP 0.1.0, Ownership). */
function handTo(ownership: Task['ownership'], to: string, { via, reason, now }: Hand): Task['ownership'] {
  if (to === ownership.assignee) return ownership
  // Handing a task back to its principal is always allowed; otherwise it could not even be ended.
  if (to !== ownership.principal && ownership.chain.length >= limits.transfersPerTaskMax) {
    throw new Refusal('QUOTA_EXCEEDED', `a task changes hands at most ${limits.transfersPerTaskMax} times: continue in a new task`)
  }
  return { ...ownership, assignee: to, chain: [...ownership.chain, { from: ownership.assignee, to, at: now, via, reason }] }
}

/** max_duration counts the time in in_progress only. A clock that steps back adds nothing. */
function activeTime(task: Task, state: TaskState, now: string): Pick<Task, 'active_ms' | 'active_since'> {
  const wasActive = task.active_since !== null
  if (state === 'in_progress') return { active_ms: task.active_ms, active_since: task.active_since ?? now }
  if (!wasActive) return { active_ms: task.active_ms, active_since: null }
  return { active_ms: task.active_ms + Math.max(0, Date.parse(now) - Date.parse(task.active_since!)), active_since: null }
}
