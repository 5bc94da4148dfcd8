// The task state machine and who holds a task in which state: row for row the draft's tables, ours marked.
import type { Transitions } from '#kernel/declare/transitions.ts'

export const taskStates = [
  'created',
  'assigned',
  'in_progress',
  'blocked',
  'review_ready',
  'under_review',
  'accepted',
  'rejected',
  'completed',
] as const
export type TaskState = (typeof taskStates)[number]

/** HACP 0.1.0, Task State Machine. */
export const taskMoves = [
  ['created', 'task.assign', 'assigned'],
  ['assigned', 'task.start', 'in_progress'],
  ['in_progress', 'checkpoint.raise', 'blocked'],
  ['in_progress', 'task.interrupt', 'blocked'], // continuous control
  ['blocked', 'checkpoint.resolve/approve', 'in_progress'],
  ['blocked', 'checkpoint.resolve/provide', 'in_progress'],
  ['blocked', 'checkpoint.resolve/choose', 'in_progress'], // ours: the draft gives this action no transition
  ['blocked', 'checkpoint.resolve/reassign', 'in_progress'], // ours: likewise
  ['blocked', 'checkpoint.resolve/reject', 'completed'],
  ['in_progress', 'artifact.commit', 'review_ready'],
  ['blocked', 'artifact.edit/final', 'review_ready'], // ours: a person who took over delivers
  ['review_ready', 'review.submit', 'under_review'],
  ['under_review', 'review.submit/changes_requested', 'in_progress'],
  ['under_review', 'review.submit/approved', 'accepted'],
  ['under_review', 'review.submit/rejected', 'rejected'],
  ['under_review', 'review.submit/plan', 'in_progress'], // continuous control: a plan is approved or sent back
  ['accepted', 'task.complete', 'completed'],
  ['created', 'task.cancel', 'completed'],
  ['assigned', 'task.cancel', 'completed'],
  ['in_progress', 'task.cancel', 'completed'],
  ['blocked', 'task.cancel', 'completed'],
] as const satisfies Transitions

/** HACP 0.1.0, State ownership. `rejected` is missing there: it is terminal and falls back to the principal. */
export const holderIn = {
  created: 'principal', // ours: unless it was transferred before it was assigned
  assigned: 'executor',
  in_progress: 'executor',
  blocked: 'principal',
  review_ready: 'principal',
  under_review: 'principal',
  accepted: 'principal',
  rejected: 'principal',
  completed: 'principal',
} as const satisfies Record<TaskState, 'principal' | 'executor'>

export const isTerminal = (state: string): boolean => state === 'completed' || state === 'rejected'
