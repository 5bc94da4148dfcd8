// The states of a run. The draft names four states and describes their transitions in prose; our transitions are marked.
import { Refusal } from '#kernel/declare/errors.ts'
import { canMove, type Transitions } from '#kernel/declare/transitions.ts'

export const runStates = ['running', 'blocked', 'completed', 'failed'] as const
export type RunState = (typeof runStates)[number]

/** AAP 0.1.0, Block and Resume; Handoff; Event Stream. agent.delegate makes a run in `running`. */
export const runMoves = [
  ['running', 'agent.block', 'blocked'],
  ['blocked', 'agent.block/successor', 'blocked'], // ours: another question replaces the one that it waits for
  ['blocked', 'agent.resume', 'running'],
  ['running', 'run.complete', 'completed'],
  ['running', 'run.complete/delivered', 'completed'], // ours: the task was delivered, and the run that worked on it is done
  ['blocked', 'run.complete/delivered', 'completed'], // ours: by a person who had taken over
  ['running', 'run.fail', 'failed'],
  ['blocked', 'run.fail', 'failed'],
  ['running', 'agent.handoff', 'failed'], // ours: the draft has no state for a run that was handed off; `reason` says it
  ['blocked', 'agent.handoff', 'failed'],
  ['running', 'agent.cancel', 'failed'], // ours: nor for one that was cancelled
  ['blocked', 'agent.cancel', 'failed'],
] as const satisfies Transitions

export const isActive = (state: string): boolean => state === 'running' || state === 'blocked'

/** The next state by the table, or the draft's INVALID_TRANSITION. */
export function after(state: string, event: string): RunState {
  const row = runMoves.find((move) => move[0] === state && move[1] === event)
  if (!row) throw new Refusal('INVALID_TRANSITION', `${event} is not possible while the run is ${state}`, { state, event })
  return row[2]
}

export const allowsEvent = (state: string, event: string): boolean => canMove(runMoves, state, event)
