// The operations as tools of MCP, from the operation table: name, description, input schema and hints.
import type { Tool } from '@modelcontextprotocol/server'
import type { Operation, Protocol } from '#kernel/declare/operation.ts'
import { limits } from '#kernel/limits.ts'

export type OfferedTool = {
  readonly tool: Tool
  readonly operation: string
  readonly isReading: boolean
  readonly isForAgents: boolean
}

/** `task.start` is `task_start`. */
export const toolNameOf = (operation: string): string => operation.replaceAll('.', '_')

/** Operations that stream, that take bytes, or that return a credential are not tools: a model must not read a secret. */
const isTool = (op: Operation): boolean =>
  op.kind === 'query' || (op.kind === 'command' && op.upload !== true && (op.once ?? []).length === 0)

/** Verbs that end or withdraw something. */
const ENDS = /\.(?:cancel|abort|complete|fail|handoff|remove|release|stop|withdraw)$/

const idempotencyKey = {
  type: 'string',
  minLength: 1,
  maxLength: limits.mcpKeyCharsMax,
  pattern: '^[\\x21-\\x7e]+$',
  description: 'the same key with the same arguments has one effect and one answer',
}

function toolOf(op: Operation): Tool {
  const isReading = op.kind === 'query'
  const acts = op.kind === 'command' && op.effect !== undefined
  // The schema as plain JSON, without the library's own symbols.
  const input = JSON.parse(JSON.stringify(op.input)) as { properties?: object; required?: string[] }
  return {
    name: toolNameOf(op.name),
    description: op.summary,
    inputSchema: {
      ...input,
      type: 'object',
      properties: { ...input.properties, ...(isReading ? {} : { idempotency_key: idempotencyKey }) },
    },
    annotations: {
      readOnlyHint: isReading,
      ...(isReading ? {} : { destructiveHint: acts || ENDS.test(op.name) }),
      idempotentHint: isReading,
      openWorldHint: acts,
    },
  }
}

/** The tools by name. No tool of an agent decides: only people do. */
export function toolsOf(protocols: readonly Protocol[]): ReadonlyMap<string, OfferedTool> {
  const all = protocols.flatMap(({ name, operations }) =>
    operations.filter(isTool).flatMap((op) => {
      const isForAgents = op.callers.some((role) => role.isForAgents === true)
      const isReading = op.kind === 'query'
      if (!isForAgents && !isReading) return []
      return [{ tool: toolOf(op), operation: `${name}/${op.name}`, isReading, isForAgents }]
    }),
  )
  return new Map(all.map((offered) => [offered.tool.name, offered]))
}
