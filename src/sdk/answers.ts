// Checks of an answer while it is typed, by the rules of the server. They hold no secret back and send nothing; the server checks again.
import { fieldProblem, type FieldProblem } from '#kernel/foreign/field-problem.ts'
import { valueProblem } from '#protocols/execution/actions/provided-value.ts'
import type { ProvidePayload } from '#protocols/execution/actions/provide.ts'

/** Why this is no answer to the question, in words that follow its name ("must be at most 10"); null: it is one. */
export const answerProblem = (payload: unknown, value: unknown): string | null => valueProblem(payload as ProvidePayload, value)
/** The first field of edited details that the schema of the agent does not allow; null: all fit, or only the server can tell. */
export const editProblem: (details_schema: unknown, details: unknown) => FieldProblem | null = fieldProblem
export type { FieldProblem }
