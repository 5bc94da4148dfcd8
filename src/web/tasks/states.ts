// The states of a task, in the words of people.
import type { Task } from '../server/types.ts'

const words: Readonly<Record<Task['state'], string>> = {
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
export const stateWords = ({ state, outcome }: Pick<Task, 'state' | 'outcome'>): string => {
  if (outcome === 'cancelled') return 'Cancelled'
  return outcome === 'rejected_at_checkpoint' || outcome === 'rejected_in_review' ? 'Rejected' : words[state]
}
export const isOver = ({ state, outcome }: Pick<Task, 'state' | 'outcome'>): boolean =>
  state === 'completed' || state === 'rejected' || (outcome !== null && outcome !== 'accepted')
export const toneOf = (task: Pick<Task, 'state' | 'outcome'>): string => {
  const said = stateWords(task)
  if (said === 'Completed' || said === 'Accepted') return 'ok'
  if (said === 'Rejected' || said === 'Cancelled') return 'bad'
  return task.state === 'blocked' || task.state === 'review_ready' || task.state === 'under_review' ? 'warn' : ''
}
export type Step = { readonly words: string; readonly phase: 'past' | 'now' | 'future' }
const order = ['created', 'assigned', 'in_progress', 'review_ready', 'completed'] as const
/** The way of a task, with the place where it stands now. */
export function stepsOf(task: Pick<Task, 'state' | 'outcome'>): Step[] {
  const { state } = task
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
    words: i === at ? stateWords(task) : words[name],
    phase: i < at ? 'past' : i === at ? 'now' : 'future',
  }))
}
