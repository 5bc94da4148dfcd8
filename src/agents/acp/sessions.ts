// Notes of an agent's session: stored with the run, before its first prompt, so that a restart and the next run of the task find it.
import type { Port } from '../programs/conversation.ts'

export type NotedSession = {
  readonly session_id: string
  readonly folder: string
  readonly program: string
  /** When it began: some agents lose a session that is loaded within the same minute. */
  readonly at: string
  /** The content of the folder before the first prompt of the run; null: unknown. */
  readonly snapshot: string | null
}
type OfRun = { readonly id: string; readonly continues: string | null }

/** The runs that one task continues through are few; a longer chain is not followed. */
const RUNS_MAX = 50
const keyOf = (number: number): string => `session/${number}`

/** The first value of a key stays, so a session that replaces a lost one has the next number. */
async function lastOf({ call }: Port, run_id: string): Promise<{ last: NotedSession | null; next: number }> {
  let last: NotedSession | null = null
  for (let number = 1; ; number++) {
    const { found, value } = await call('delegation/memo.get', { run_id, key: keyOf(number) })
    if (!found) return { last, next: number }
    last = value as NotedSession
  }
}

/** `isSameRun`: the session was begun or continued by this very run. */
export async function findSession(port: Port, run: OfRun, isFresh: boolean): Promise<{ session: NotedSession; isSameRun: boolean } | null> {
  const ofRun = await lastOf(port, run.id)
  if (ofRun.last !== null) return { session: ofRun.last, isSameRun: true }
  if (isFresh) return null
  let before = run.continues
  for (let count = 0; before !== null && count < RUNS_MAX; count++) {
    try {
      const { last } = await lastOf(port, before)
      if (last !== null) return { session: last, isSameRun: false }
      before = (await port.call('delegation/run.get', { run_id: before })).run.continues
    } catch (error) {
      // The run of another agent: its session is not ours to continue.
      if (typeof (error as { code?: unknown }).code !== 'string') throw error
      return null
    }
  }
  return null
}

export async function noteSession(port: Port, run_id: string, attempt: number, value: NotedSession): Promise<void> {
  const { next } = await lastOf(port, run_id)
  await port.call('delegation/memo.put', { run_id, attempt, key: keyOf(next), value })
}
