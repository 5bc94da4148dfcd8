// The operator's file of gates: MCP servers as in the file of capabilities, with the settings of a gate. An entry that is not understood is
// an error with a sentence.
import type { ServedGate } from '#bridges/gate/index.ts'
import type { McpSettings } from '#capabilities/mcp.ts'
import type { SourceLog } from '#capabilities/source.ts'
import { gateFields, parseGateFields } from '#gate/gate-fields.ts'
import type { GateSettings } from '#gate/gate.ts'
import { version } from '../../version.ts'
import { agentNames } from '#bridges/hooks/dialects.ts'
import { dictionary, Misunderstood, nameIn, readOperatorFile, settingsOf, type Env } from './capability-file.ts'

/** The libraries are loaded if there is a file. */
export async function openGates(path: string | null, log: SourceLog): Promise<readonly ServedGate[]> {
  if (path === null) return []
  const entries = readGates(path, process.env)
  const { gateOverHttp } = await import('#gate/http.ts')
  return entries.map(({ settings, server, projects }) => ({ ...gateOverHttp({ settings, server, log, version }), projects }))
}

type GateEntry = { readonly settings: GateSettings; readonly server: McpSettings['server']; readonly projects: readonly string[] }

export const readGates = (path: string, env: Env): GateEntry[] => readOperatorFile(path, (value) => entriesIn(value, env))

function entriesIn(value: unknown, env: Env): GateEntry[] {
  const { mcpServers = {}, ...others } = dictionary(value, 'the file')
  for (const field of Object.keys(others)) throw new Misunderstood(`unknown setting ${JSON.stringify(field)}: there is mcpServers`)
  return Object.entries(dictionary(mcpServers, 'mcpServers')).map(([name, entry]) => entryOf(nameIn('mcpServers', name), entry, env))
}

function entryOf(name: string, value: unknown, env: Env): GateEntry {
  const where = `mcpServers.${name}`
  if ((agentNames as readonly string[]).includes(name))
    throw new Misunderstood(`${where} has the name of an agent, whose own tools have rules of that name`)
  const fields = Object.entries(dictionary(value, where))
  const isOfGate = ([field]: [string, unknown]): boolean => Object.hasOwn(gateFields, field)
  if (fields.some(([field]) => field === 'permissions'))
    throw new Misunderstood(`${where}.permissions: a gate has none; rules of the policy say what its tools may do`)
  const { server, projects } = settingsOf(name, Object.fromEntries(fields.filter((field) => !isOfGate(field))), env)
  try {
    const parsed = parseGateFields(Object.fromEntries(fields.filter(isOfGate)))
    return { settings: { name, holdMs: null, task_id: null, ...parsed }, server, projects }
  } catch (error) {
    throw new Misunderstood(`${where}: ${(error as Error).message}`)
  }
}
