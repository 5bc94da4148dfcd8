// Checks of an answer while it is typed, by the rules of the server. They store and send nothing; the server checks again.
import { fieldProblem, type FieldProblem } from '#kernel/foreign/field-problem.ts'
import { valueProblem } from '#protocols/execution/actions/provided-value.ts'
import type { ProvidePayload } from '#protocols/execution/actions/provide.ts'

/** The reason why the value is not a valid answer, phrased to follow its name ("must be at most 10"); null if it is valid. */
export const answerProblem = (payload: unknown, value: unknown): string | null => valueProblem(payload as ProvidePayload, value)
/** The first edited field that violates the agent's schema; null if all are valid, or if only the server can tell. */
export const editProblem: (details_schema: unknown, details: unknown) => FieldProblem | null = fieldProblem
export type { FieldProblem }
