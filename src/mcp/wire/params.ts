// Params of MCP requests, checked here: the official server answers wrong params of its own methods as an internal error.
import type { StandardSchemaV1 } from '@modelcontextprotocol/server'
import { isObject } from '#kernel/codec/strict-json.ts'

/** `problemIn`: what is wrong with them; null: nothing. */
const paramsOf = <T>(problemIn: (given: Readonly<Record<string, unknown>>) => string | null): { params: StandardSchemaV1<unknown, T> } => ({
  params: {
    '~standard': {
      version: 1,
      vendor: 'countersign',
      validate(value) {
        const given = isObject(value) ? value : {}
        const message = problemIn(given)
        return message === null ? { value: given as T } : { issues: [{ message }] }
      },
    },
  },
})

const textProblem = (name: string, value: unknown): string | null => (typeof value === 'string' ? null : `${name} must be a text`)
export const withText = <N extends string>(name: N): { params: StandardSchemaV1<unknown, Readonly<Record<N, string>>> } =>
  paramsOf((given) => textProblem(name, given[name]))

/** A list begins where its cursor says. */
export const listed = paramsOf<{ readonly cursor?: string }>(({ cursor }) => (cursor === undefined ? null : textProblem('cursor', cursor)))

export const named = paramsOf<{ readonly name: string; readonly arguments?: Readonly<Record<string, string>> }>(
  ({ name, arguments: args = {} }) => {
    if (!isObject(args)) return 'arguments must be an object'
    const wrong = Object.keys(args).find((field) => typeof args[field] !== 'string')
    return textProblem('name', name) ?? (wrong === undefined ? null : textProblem(`arguments.${wrong.slice(0, 80)}`, args[wrong]))
  },
)
