// The dialects of agents' hooks: how each agent describes the tool that it is about to use, and which answer stops it. Pure and small,
// because `countersign hook` loads it on every call of a tool.

export const agentNames = ['claude-code', 'codex', 'gemini', 'cursor', 'opencode'] as const
export type AgentName = (typeof agentNames)[number]

/** The answer of a hook whose wait ends without a decision. */
export const lateAnswers = ['ask', 'deny', 'defer'] as const
export type Late = (typeof lateAnswers)[number]

/** The command or address of an MCP server, if the agent reports it. */
export type McpServer = { readonly command?: string | undefined; readonly args?: readonly string[]; readonly url?: string | undefined }

export type ToolCall = {
  /** The agent's name for its own tools, otherwise the name of an MCP server; null: the event does not name the server. */
  readonly server: string | null
  readonly tool: string
  readonly isMcp: boolean
  readonly mcp: McpServer | null
  readonly arguments: Readonly<Record<string, unknown>>
  readonly session: string | null
  /** The agent's own id of the call. It can repeat in another session. */
  readonly use: string | null
  readonly subAgent: string | null
}

export type Verdict = { readonly kind: 'allow' | Late; readonly reason: string }

export type Dialect = {
  /** The call that an event announces; null: an event of another kind. */
  read(event: Fields): ToolCall | null
  /** The text for standard output. */
  answer(verdict: Verdict): string
  readonly late: readonly Late[]
}
export type Fields = Readonly<Record<string, unknown>>

/** An event that its agent would not send. Its message is for the agent. */
export class BadEvent extends Error {
  override name = 'BadEvent'
}

const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value)

export function eventFrom(value: unknown): Fields {
  if (!isFields(value)) throw new BadEvent('the event must be a JSON object')
  return value
}

function textIn(event: Fields, name: string): string {
  const value = event[name]
  if (typeof value !== 'string' || value === '') throw new BadEvent(`${name} must be a text that is not empty`)
  return value
}
const textOrNull = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null)

function inputIn(event: Fields, name: string): Fields {
  const value = event[name]
  if (!isFields(value)) throw new BadEvent(`${name} must be an object`)
  return value
}

/** Refuses a server with the name of an agent: otherwise rules would treat its tools as the agent's own. */
export function withoutAgentName<C extends ToolCall>(call: C): C {
  if (call.isMcp && (agentNames as readonly (string | null)[]).includes(call.server?.toLowerCase() ?? null))
    throw new BadEvent(`the MCP server ${call.server} has the name of an agent: rename it`)
  return call
}
const mcpCall = (call: Omit<ToolCall, 'isMcp'>): ToolCall => withoutAgentName({ ...call, isMcp: true })

function subAgentIn(event: Fields): string | null {
  const [type, id] = [textOrNull(event['agent_type']), textOrNull(event['agent_id'])]
  return type !== null && id !== null ? `${type} (${id})` : (type ?? id)
}

const MCP = 'mcp__'

/** Claude Code and Codex: `mcp__<server>__<tool>`. */
function claudeLike(agent: AgentName): Dialect['read'] {
  return (event) => {
    if (textIn(event, 'hook_event_name') !== 'PreToolUse') return null
    const name = textIn(event, 'tool_name')
    const rest = {
      arguments: inputIn(event, 'tool_input'),
      session: textOrNull(event['session_id']),
      use: textOrNull(event['tool_use_id']),
      subAgent: subAgentIn(event),
      mcp: null,
    }
    if (!name.startsWith(MCP)) return { ...rest, server: agent, tool: name, isMcp: false }
    const serverName = isFields(event['mcp_server']) ? textOrNull(event['mcp_server']['name']) : null
    const isPrefix = serverName !== null && name.startsWith(`${MCP}${serverName}__`)
    const end = isPrefix ? MCP.length + serverName.length : name.indexOf('__', MCP.length)
    const tool = end < 0 ? '' : name.slice(end + 2)
    if (end <= MCP.length || tool === '') throw new BadEvent(`tool_name ${name} names no server and tool`)
    return mcpCall({ ...rest, server: name.slice(MCP.length, end), tool })
  }
}

/** Below the 64 KiB of a pipe, even if each character is escaped and the reason is written twice. */
const REASON_CHARS_MAX = 4_000
/** Codex and Gemini run a tool after a deny without a reason. */
const reasonOf = (reason: string): string => reason.slice(0, REASON_CHARS_MAX).toWellFormed().trim() || 'Countersign gives no reason'

const line = (value: object): string => `${JSON.stringify(value)}\n`
const decisionOf = ({ kind, reason }: Verdict): object => ({
  hookSpecificOutput: { hookEventName: 'PreToolUse', permissionDecision: kind, permissionDecisionReason: reason },
})

const claudeCode: Dialect = {
  read: claudeLike('claude-code'),
  answer: (verdict) => line(decisionOf(verdict)),
  late: ['ask', 'deny', 'defer'],
}

/** Codex runs the tool after `ask` and `defer`, so neither is ever sent. */
const codex: Dialect = {
  read: claudeLike('codex'),
  answer: (verdict) => (verdict.kind === 'allow' ? '' : line(decisionOf({ ...verdict, kind: 'deny' }))),
  late: ['deny'],
}

const gemini: Dialect = {
  read(event) {
    if (textIn(event, 'hook_event_name') !== 'BeforeTool') return null
    const rest = { arguments: inputIn(event, 'tool_input'), session: textOrNull(event['session_id']), use: null, subAgent: null }
    const context = event['mcp_context']
    if (!isFields(context)) return { ...rest, server: 'gemini', tool: textIn(event, 'tool_name'), isMcp: false, mcp: null }
    return mcpCall({ ...rest, server: textIn(context, 'server_name'), tool: textIn(context, 'tool_name'), mcp: serverFrom(context) })
  },
  answer: ({ kind, reason }) => line({ decision: kind === 'allow' ? 'allow' : 'deny', reason }),
  late: ['deny'],
}

const cursor: Dialect = {
  read(event) {
    const name = textIn(event, 'hook_event_name')
    const rest = { session: textOrNull(event['conversation_id']), use: null, subAgent: null }
    if (name === 'beforeShellExecution') {
      const cwd = textOrNull(event['cwd'])
      const given = { command: textIn(event, 'command'), ...(cwd === null ? {} : { cwd }) }
      return { ...rest, server: 'cursor', tool: 'Shell', isMcp: false, mcp: null, arguments: given }
    }
    if (name !== 'beforeMCPExecution') return null
    return mcpCall({ ...rest, server: null, tool: textIn(event, 'tool_name'), mcp: serverFrom(event), arguments: cursorInput(event) })
  },
  answer: ({ kind, reason }) =>
    line(
      kind === 'allow'
        ? { permission: 'allow' }
        : { permission: kind === 'ask' ? 'ask' : 'deny', user_message: reason, agent_message: reason },
    ),
  late: ['ask', 'deny'],
}

/** An object, or JSON as text. */
function cursorInput(event: Fields): Fields {
  const value = event['tool_input']
  if (typeof value !== 'string') return inputIn(event, 'tool_input')
  let parsed: unknown
  try {
    parsed = JSON.parse(value === '' ? '{}' : value)
  } catch {
    throw new BadEvent('tool_input is not JSON')
  }
  return inputIn({ tool_input: parsed }, 'tool_input')
}

/** Our plugin file writes these events and reads these answers. */
const opencode: Dialect = {
  read(event) {
    if (textIn(event, 'hook_event_name') !== 'tool.execute.before') return null
    return {
      server: 'opencode',
      tool: textIn(event, 'tool'),
      isMcp: false,
      mcp: null,
      arguments: inputIn(event, 'args'),
      session: textOrNull(event['session_id']),
      use: textOrNull(event['call_id']),
      subAgent: null,
    }
  },
  answer: ({ kind, reason }) => line({ decision: kind === 'allow' ? 'allow' : 'deny', reason }),
  late: ['deny'],
}

const serverFrom = (fields: Fields): McpServer => ({
  command: textOrNull(fields['command']) ?? undefined,
  args: Array.isArray(fields['args']) ? fields['args'].filter((word) => typeof word === 'string') : [],
  url: textOrNull(fields['url']) ?? undefined,
})

const withReason = (dialect: Dialect): Dialect => ({
  ...dialect,
  answer: ({ kind, reason }) => dialect.answer({ kind, reason: reasonOf(reason) }),
})
export const dialects: Readonly<Record<AgentName, Dialect>> = {
  'claude-code': withReason(claudeCode),
  codex: withReason(codex),
  gemini: withReason(gemini),
  cursor: withReason(cursor),
  opencode: withReason(opencode),
}
export const isAgentName = (name: string | undefined): name is AgentName => (agentNames as readonly (string | undefined)[]).includes(name)
