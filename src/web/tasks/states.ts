// The states of a task, in the words of people.
import type { Task } from '../server/types.ts'

const labels: Readonly<Record<Task['state'], string>> = {
  created: 'Created',
  assigned: 'Assigned',
  in_progress: 'In progress',
  blocked: 'Waits for people',
  review_ready: 'Ready for review',
  under_review: 'Under review',
  accepted: 'Accepted',
  rejected: 'Rejected',
  completed: 'Completed',
}
type Stated = Pick<Task, 'state' | 'outcome' | 'pending_checkpoint' | 'taken_over'>
const isTakenOver = ({ pending_checkpoint, taken_over }: Stated): boolean => taken_over !== undefined && taken_over === pending_checkpoint
export const stateLabel = (task: Stated): string => {
  const { state, outcome } = task
  if (outcome === 'cancelled') return 'Cancelled'
  if (state === 'blocked' && isTakenOver(task)) return 'Taken over'
  return outcome === 'rejected_at_checkpoint' || outcome === 'rejected_in_review' ? 'Rejected' : labels[state]
}
export const isOver = ({ state, outcome }: Pick<Task, 'state' | 'outcome'>): boolean =>
  state === 'completed' || state === 'rejected' || (outcome !== null && outcome !== 'accepted')
export const toneOf = (task: Stated): string => {
  const label = stateLabel(task)
  if (label === 'Completed' || label === 'Accepted') return 'ok'
  if (label === 'Rejected') return 'bad'
  return task.state === 'blocked' || task.state === 'review_ready' || task.state === 'under_review' ? 'warn' : ''
}

const TITLE_CHARS_MAX = 120
/** The first line of a goal as its title, cut between words if it is long. The rest is text; empty: there is none. */
export function titleOf(goal: string): { readonly title: string; readonly rest: string } {
  const [first = '', ...lines] = goal.trim().split('\n')
  const line = first.trim()
  if (line.length <= TITLE_CHARS_MAX) return { title: line, rest: lines.join('\n').trim() }
  const cut = line.slice(0, TITLE_CHARS_MAX)
  const end = cut.lastIndexOf(' ')
  return { title: `${cut.slice(0, end > TITLE_CHARS_MAX / 2 ? end : TITLE_CHARS_MAX)}…`, rest: goal.trim() }
}

export type Step = { readonly message: string; readonly phase: 'past' | 'now' | 'future' }
const order = ['created', 'assigned', 'in_progress', 'review_ready', 'completed'] as const
/** The steps of a task, with the current one marked. A task that ended early shows only the steps it reached. */
export function stepsOf(task: Task): Step[] {
  const { state, outcome } = task
  if (isOver(task) && outcome !== 'accepted') {
    const began = task.active_ms > 0 || task.checkpoints.length > 0 || task.artifacts.length > 0
    const reached = [true, task.executor !== null, task.executor !== null && began, task.delivered !== undefined]
    const past = order.filter((_, i) => reached[i] === true)
    return [...past.map((name) => ({ message: labels[name], phase: 'past' as const })), { message: stateLabel(task), phase: 'now' }]
  }
  const at = {
    created: 0,
    assigned: 1,
    in_progress: 2,
    blocked: 2,
    review_ready: 3,
    under_review: 3,
    accepted: 4,
    rejected: 4,
    completed: 4,
  }[state]
  return order.map((name, i) => ({
    message: i === at ? stateLabel(task) : labels[name],
    phase: i < at ? 'past' : i === at ? 'now' : 'future',
  }))
}

export type Act = 'Assign' | 'Reassign' | 'Take over' | 'Amend' | 'Interrupt' | 'Extend' | 'Cancel task'
/** Actions of its principal that each state of a task allows; the server refuses all others. */
export const allowed: Readonly<Record<Task['state'], readonly Act[]>> = {
  created: ['Assign', 'Extend', 'Cancel task'],
  assigned: ['Reassign', 'Extend', 'Cancel task'],
  in_progress: ['Take over', 'Amend', 'Interrupt', 'Reassign', 'Extend', 'Cancel task'],
  blocked: ['Amend', 'Reassign', 'Extend', 'Cancel task'],
  review_ready: ['Extend'],
  under_review: ['Extend'],
  accepted: [],
  rejected: [],
  completed: [],
}
