// The MCP servers of an agent, as its settings name them: a hook is silent for a server behind `countersign gate`, which asks by itself.
// Settings that cannot be read count as not gated: a call is asked about twice rather than not at all.
import { readFileSync, realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, resolve } from 'node:path'
import { withoutAgentName, type AgentName, type McpServer, type ToolCall } from '#bridges/hooks/dialects.ts'
import type { Home } from '../gate/agent-keys.ts'

type Named = ToolCall & { readonly server: string }
type Servers = Readonly<Record<string, McpServer>>

const ownPrograms = ['countersign', 'countersign.js'].map((name) => resolve(import.meta.dirname, '../../../../bin', name))

/** The call with the name of its server. Cursor names only the server's command or address, OpenCode joins server and tool. */
export function serverNameOf(agent: AgentName, call: ToolCall, folder: string, home: Home): Named {
  if (agent === 'opencode') return withoutAgentName(opencodeCall(call, folder, home))
  if (call.server !== null) return call as Named
  const wanted = wordsOf(call.mcp ?? {}).join(' ')
  const found = Object.entries(serversOf(agent, folder, home)).find(
    ([, one]) => (one.url !== undefined && one.url === call.mcp?.url) || (wanted !== '' && wordsOf(one).join(' ') === wanted),
  )
  return withoutAgentName({ ...call, server: found?.[0] ?? 'unknown-server' })
}

function opencodeCall(call: ToolCall, folder: string, home: Home): Named {
  const names = Object.keys(serversOf('opencode', folder, home)).toSorted((a, b) => b.length - a.length)
  const server = names.find((name) => call.tool.startsWith(`${plain(name)}_`))
  if (server === undefined) return call as Named
  return { ...call, server, tool: call.tool.slice(plain(server).length + 1), isMcp: true }
}
const plain = (name: string): string => name.replaceAll(/[^\w-]/g, '_')

/** Root's own list. An agent can change every other file that names a server, and what it reports of one. */
export const MANAGED_SERVERS = '/etc/claude-code/managed-mcp.json'

type Settings = { readonly folder: string; readonly home: Home; readonly url: string; readonly isManaged: boolean }
/** Whether the server of a call is `countersign gate`, or a gate of our server. */
export function isGated(agent: AgentName, { server, mcp }: Named, { folder, home, url, isManaged }: Settings): boolean {
  const reported = mcp?.command !== undefined || mcp?.url !== undefined ? mcp : serversOf(agent, folder, home)[server]
  const entry = isManaged ? servers(json(MANAGED_SERVERS)['mcpServers'])[server] : reported
  if (entry === undefined) return false
  if (entry.url !== undefined)
    return (
      URL.canParse(entry.url) &&
      new URL(entry.url).origin === new URL(url).origin &&
      /^\/gate\/[^/]+\/mcp$/.test(new URL(entry.url).pathname)
    )
  return isGateCommand(wordsOf(entry))
}

const wordsOf = ({ command, args = [] }: McpServer): string[] =>
  command === undefined ? [] : args.length > 0 ? [command, ...args] : command.split(' ').filter((word) => word !== '')

/** `countersign gate`, `npx countersign gate`, or our own program by its path: exactly these, because any program can have such arguments. */
function isGateCommand(words: readonly string[]): boolean {
  const [first = '', ...others] = words
  if (first === 'npx')
    return (
      others
        .filter((word) => word !== '-y' && word !== '--yes')
        .slice(0, 2)
        .join(' ') === 'countersign gate'
    )
  const [program = '', verb] = basename(first) === 'node' ? others : words
  return verb === 'gate' && (program === 'countersign' ? program === first : isOwnProgram(program))
}

function isOwnProgram(path: string): boolean {
  try {
    return isAbsolute(path) && ownPrograms.includes(realpathSync(path))
  } catch {
    return false
  }
}

function serversOf(agent: AgentName, folder: string, { env, home }: Home): Servers {
  if (agent === 'claude-code') {
    const user = json(join(env['CLAUDE_CONFIG_DIR'] || home, '.claude.json'))
    return {
      ...servers(user['mcpServers']),
      ...servers(at(nearest(folder, '.mcp.json'))['mcpServers']),
      ...servers(fields(fields(user['projects'])[folder])['mcpServers']),
    }
  }
  if (agent === 'cursor')
    return {
      ...servers(json(join(home, '.cursor', 'mcp.json'))['mcpServers']),
      ...servers(at(nearest(folder, '.cursor/mcp.json'))['mcpServers']),
    }
  if (agent === 'opencode') {
    const user = json(join(env['XDG_CONFIG_HOME'] || join(home, '.config'), 'opencode', 'opencode.json'))
    return { ...servers(user['mcp']), ...servers(at(nearest(folder, 'opencode.json'))['mcp']) }
  }
  if (agent === 'codex') {
    const user = codexServers(text(join(env['CODEX_HOME'] || join(home, '.codex'), 'config.toml')))
    const project = nearest(folder, '.codex/config.toml')
    return { ...user, ...codexServers(project === null ? '' : text(project)) }
  }
  return {}
}

type Fields = Readonly<Record<string, unknown>>
const fields = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {})
const text = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
function json(file: string): Fields {
  try {
    return fields(JSON.parse(text(file)))
  } catch {
    return {}
  }
}
const at = (file: string | null): Fields => (file === null ? {} : json(file))

function nearest(folder: string, name: string): string | null {
  for (let above = folder; ; above = dirname(above)) {
    if (text(join(above, name)) !== '') return join(above, name)
    if (dirname(above) === above) return null
  }
}

function servers(value: unknown): Servers {
  return Object.fromEntries(
    Object.entries(fields(value)).map(([name, given]) => {
      const { command, args, url } = fields(given)
      const [program, ...rest] = Array.isArray(command)
        ? (command as unknown[])
        : [command, ...(Array.isArray(args) ? (args as unknown[]) : [])]
      const words = rest.filter((word) => typeof word === 'string')
      return [
        name,
        { command: typeof program === 'string' ? program : undefined, args: words, url: typeof url === 'string' ? url : undefined },
      ]
    }),
  )
}

/** The tables `[mcp_servers.<name>]` with `command` and `args` on a line each, as `gate install` and Codex write them. */
function codexServers(toml: string): Servers {
  const found: Record<string, Record<string, unknown>> = {}
  let name: string | null = null
  for (const row of toml.split('\n')) {
    const table = /^\s*\[(.+)\]\s*$/.exec(row)
    if (table) name = /^mcp_servers\.(?:"([^"]+)"|([\w-]+))$/.exec(table[1]!)?.slice(1).find(Boolean) ?? null
    const pair = /^\s*(command|args|url)\s*=\s*(.+?)\s*$/.exec(row)
    if (name === null || !pair) continue
    try {
      found[name] = { ...found[name], [pair[1]!]: JSON.parse(pair[2]!) as unknown }
    } catch {
      delete found[name]
      name = null
    }
  }
  return servers(found)
}
