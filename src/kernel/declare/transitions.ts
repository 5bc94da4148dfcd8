// State machines are data: rows of [from, event, to]. The table is the only place where a state changes.
import { Refusal } from './errors.ts'

export type Transitions = readonly (readonly [from: string, on: string, to: string])[]

/** The next state by the table, or a refusal. */
export function move<const T extends Transitions>(table: T, from: string, on: string): T[number][2] {
  const row = table.find((candidate) => candidate[0] === from && candidate[1] === on)
  if (!row) throw new Refusal('PRECONDITION_FAILED', `${on} is not possible while the state is ${from}`, { state: from, event: on })
  return row[2]
}

export const canMove = (table: Transitions, from: string, on: string): boolean => table.some((row) => row[0] === from && row[1] === on)
