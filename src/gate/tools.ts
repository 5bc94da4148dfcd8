// The tools of an upstream server as a gate lists them: without doubled, reserved and misleading names, and without what the policy denies.
import type { Tool } from '@modelcontextprotocol/server'
import { AWAIT_TOOL } from './answers.ts'
import type { GatePort, ReportedTool } from './port.ts'

/** Only these characters: two names that look alike are then equal. */
const PLAIN_NAME = /^[A-Za-z0-9_./-]{1,128}$/

export type Sorted = { readonly usable: ReadonlyMap<string, Tool>; readonly refused: ReadonlyMap<string, string> }

export function sortTools(tools: readonly Tool[]): Sorted {
  const usable = new Map<string, Tool>()
  const refused = new Map<string, string>()
  for (const tool of tools) {
    const { name } = tool
    if (name === AWAIT_TOOL) refused.set(name, 'is a name that Countersign keeps for itself')
    else if (!PLAIN_NAME.test(name)) refused.set(name, 'has a name that can be mistaken for another')
    else if (usable.has(name) || refused.has(name)) {
      usable.delete(name)
      refused.set(name, 'is offered twice by its server')
    } else usable.set(name, tool)
  }
  return { usable, refused }
}

/** The pinned part of a tool: everything that the model reads, without `_meta`. */
export function definitionOf(tool: Tool): Record<string, unknown> {
  const { _meta, ...definition } = tool
  return definition
}

export const reportOf = (tool: Tool): ReportedTool => ({
  name: tool.name,
  definition: definitionOf(tool),
  ...(tool.annotations ? { hints: tool.annotations } : {}),
})

/** A changed tool is listed with its trusted definition. */
export async function listedTools(port: GatePort, server: string, { usable }: Sorted): Promise<Tool[]> {
  const views = new Map((await port.report(server, [...usable.values()].map(reportOf))).map((view) => [view.name, view]))
  return [...usable.values()].flatMap((tool) => {
    const view = views.get(tool.name)
    if (view?.listed !== true) return []
    return [(view.definition ? { ...view.definition, name: tool.name } : tool) as Tool]
  })
}

export const awaitTool: Tool = {
  name: AWAIT_TOOL,
  description: 'Waits for a person who decides about an earlier call of this server, then runs that call and returns its result.',
  inputSchema: {
    type: 'object',
    properties: {
      call_id: { type: 'string', description: 'the id that the answer "not run yet" named' },
      wait_seconds: { type: 'integer', minimum: 0, maximum: 600, description: 'how long to wait, in seconds' },
    },
    required: ['call_id'],
    additionalProperties: false,
  },
}
