// The check of a session's outputs against the expectations of its submission.
import { refuseMismatch } from '#kernel/declare/foreign-schema.ts'
import { isObject } from '#kernel/codec/strict-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'

/** Why outputs do not match the expected ones; null: they do. */
export function outputProblem(
  outputs: unknown,
  expected: { schema?: object; required_fields?: readonly string[] } | undefined,
): string | null {
  const missing = expected?.required_fields?.find((name) => !isObject(outputs) || outputs[name] === undefined)
  if (missing !== undefined) return `outputs.${missing} is required by expected_output.required_fields`
  if (expected?.schema === undefined) return null
  try {
    refuseMismatch(expected.schema, outputs, 'INVALID_OUTPUT', 'outputs')
    return null
  } catch (error) {
    if (error instanceof Refusal) return error.message
    throw error
  }
}
