// Notes that follow an answer and tell people more than it shows. They go to the error output: programs read the answer.
import type { Context } from '../derive/command.ts'
import { escapeControl } from './safe-text.ts'

type Note = (input: Readonly<Record<string, unknown>>, answer: Readonly<Record<string, unknown>>) => string | null

const notes: Readonly<Record<string, Note>> = {
  'collaboration/task.assign': ({ assignee }, { connected }) =>
    connected === false ? `${String(assignee)} is offline; it receives the task when it connects.` : null,
}

/** Prints nothing for a script that reads JSON, unless its error output is a terminal. */
export function sayMore({ io, json, paintErr }: Context, operation: string, input: Record<string, unknown>, answer: unknown): void {
  const message = notes[operation]?.(input, answer as Record<string, unknown>) ?? null
  if (message !== null && (!json || io.err.isTTY === true)) io.err.write(`${paintErr('yellow', '!')} ${escapeControl(message)}\n`)
}
