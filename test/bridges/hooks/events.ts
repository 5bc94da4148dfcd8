// Events in the form that each agent documents, with the call that each announces. They are written by hand from the fields of Claude Code
// 2.1.326, Codex 0.169.0, Gemini CLI 0.61.0 and Cursor's reference, not captured from a run. OpenCode's are written by our plugin.
import type { AgentName } from '#bridges/hooks/dialects.ts'

export type Recorded = {
  readonly agent: AgentName
  readonly what: string
  readonly event: object
  readonly tool: string
  readonly given: object
}

const claude = {
  session_id: '6f1c9a52-6f0e-4b0e-9a59-0f2d4c7f2b11',
  transcript_path: '/home/u/.claude/projects/-work/6f1c9a52.jsonl',
  cwd: '/work',
  prompt_id: '0b9d',
  permission_mode: 'default',
  hook_event_name: 'PreToolUse',
  tool_use_id: 'toolu_1',
}
const codex = {
  session_id: '019a',
  transcript_path: null,
  cwd: '/work',
  turn_id: '1',
  model: 'gpt-5.5',
  permission_mode: 'default',
  hook_event_name: 'PreToolUse',
}
const gemini = { session_id: 'g1', transcript_path: '', cwd: '/work', hook_event_name: 'BeforeTool', timestamp: '2026-11-17T10:00:00.000Z' }
const cursor = { conversation_id: 'c1', generation_id: 'g1', workspace_roots: ['/work'] }

const command = { command: 'git push', description: 'Push' }
export const recorded: readonly Recorded[] = [
  {
    agent: 'claude-code',
    what: 'a shell',
    event: { ...claude, tool_name: 'Bash', tool_input: command },
    tool: 'claude-code/Bash',
    given: command,
  },
  {
    agent: 'claude-code',
    what: 'an edit in a sub-agent',
    event: { ...claude, tool_name: 'Edit', tool_input: { file_path: '/work/a' }, agent_id: 'a1', agent_type: 'reviewer' },
    tool: 'claude-code/Edit',
    given: { file_path: '/work/a' },
  },
  {
    agent: 'claude-code',
    what: 'an MCP tool',
    event: {
      ...claude,
      tool_name: 'mcp__my__files__read_file',
      tool_input: { path: 'a' },
      mcp_server: { name: 'my__files', source: 'project' },
    },
    tool: 'my__files/read_file',
    given: { path: 'a' },
  },
  {
    agent: 'codex',
    what: 'a shell',
    event: { ...codex, tool_name: 'Bash', tool_input: { command: 'ls' }, tool_use_id: 'call_1' },
    tool: 'codex/Bash',
    given: { command: 'ls' },
  },
  {
    agent: 'codex',
    what: 'a patch',
    event: { ...codex, tool_name: 'apply_patch', tool_input: { command: '*** Begin Patch' }, tool_use_id: 'exec-1' },
    tool: 'codex/apply_patch',
    given: { command: '*** Begin Patch' },
  },
  {
    agent: 'codex',
    what: 'an MCP tool',
    event: { ...codex, tool_name: 'mcp__files__read_file', tool_input: {}, tool_use_id: 'call_2' },
    tool: 'files/read_file',
    given: {},
  },
  {
    agent: 'gemini',
    what: 'a shell',
    event: { ...gemini, tool_name: 'run_shell_command', tool_input: { command: 'ls' } },
    tool: 'gemini/run_shell_command',
    given: { command: 'ls' },
  },
  {
    agent: 'gemini',
    what: 'an MCP tool',
    event: {
      ...gemini,
      tool_name: 'mcp_files_read_file',
      tool_input: { path: 'a' },
      mcp_context: { server_name: 'files', tool_name: 'read_file', command: 'node', args: ['files.mjs'] },
    },
    tool: 'files/read_file',
    given: { path: 'a' },
  },
  {
    agent: 'cursor',
    what: 'a shell',
    event: { ...cursor, hook_event_name: 'beforeShellExecution', command: 'ls', cwd: '/work' },
    tool: 'cursor/Shell',
    given: { command: 'ls', cwd: '/work' },
  },
  {
    agent: 'cursor',
    what: 'an MCP tool with its input as text',
    event: {
      ...cursor,
      hook_event_name: 'beforeMCPExecution',
      tool_name: 'read_file',
      tool_input: '{"path":"a"}',
      command: 'node files.mjs',
    },
    tool: 'files/read_file',
    given: { path: 'a' },
  },
  {
    agent: 'opencode',
    what: 'a shell',
    event: { hook_event_name: 'tool.execute.before', session_id: 'ses_1', call_id: 'c1', tool: 'bash', args: { command: 'ls' } },
    tool: 'opencode/bash',
    given: { command: 'ls' },
  },
]
export const shellOf = (agent: AgentName): object => recorded.find((one) => one.agent === agent)!.event
