// The input of an operation's example, in the scene that it was played in.
import type { Example, Refs } from '#kernel/declare/operation.ts'

export const inputOf = (example: Example, refs: Refs): Record<string, unknown> =>
  (typeof example.input === 'function' ? example.input(refs) : example.input) as Record<string, unknown>
