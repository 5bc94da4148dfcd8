// The life of a session (HCP 1.0, L2: State Machine). Edges that the text does not list are marked; every other one is refused.
import { Refusal } from '#kernel/declare/errors.ts'

export const sessionStates = ['PENDING', 'RUNNING', 'PAUSED', 'ABORTING', 'COMPLETED', 'FAILED', 'ABORTED', 'REJECTED'] as const
export type SessionState = (typeof sessionStates)[number]
/** A state that a session moves to: all but the first. */
export type ReachedState = Exclude<SessionState, 'PENDING'>

export const sessionMoves: readonly (readonly [from: SessionState, to: ReachedState])[] = [
  ['PENDING', 'RUNNING'],
  ['PENDING', 'REJECTED'],
  ['PENDING', 'ABORTED'], // ours (C3): a caller can withdraw a session that waits for a person
  ['RUNNING', 'PAUSED'],
  ['PAUSED', 'RUNNING'],
  ['RUNNING', 'ABORTING'],
  ['PAUSED', 'ABORTING'],
  ['ABORTING', 'ABORTED'],
  ['RUNNING', 'COMPLETED'],
  ['RUNNING', 'FAILED'],
]

const terminal: readonly SessionState[] = ['COMPLETED', 'FAILED', 'ABORTED', 'REJECTED']
export const isEnded = (state: string): boolean => terminal.includes(state as SessionState)
/** Whether it runs or can run again. */
export const isAtWork = (state: string): boolean => state === 'RUNNING' || state === 'PAUSED'
export const isState = (word: unknown): word is SessionState => sessionStates.includes(word as SessionState)
export const canMove = (from: string, to: string): to is ReachedState => sessionMoves.some((edge) => edge[0] === from && edge[1] === to)

/** The next state by the table, or a refusal. */
export function nextState(from: SessionState, to: SessionState): ReachedState {
  if (!canMove(from, to)) throw new Refusal('PRECONDITION_FAILED', `a session that is ${from} cannot become ${to}`, { state: from, to })
  return to
}
