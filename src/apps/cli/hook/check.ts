// `hook check`: sends a harmless call through the installed hook and expects its denial. Codex also says whether it trusts the hook.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CHECK_TOOL, CHECKED } from '#bridges/hooks/decide.ts'
import type { AgentName } from '#bridges/hooks/dialects.ts'
import { CliError, exits, type Exit } from '../exit-codes.ts'
import { escapeControl } from '../output/safe-text.ts'
import type { Context } from '../derive/command.ts'
import { installedHooks, type InstalledHook } from './installed-hooks.ts'

const TIMEOUT_MS = 30_000
const CODEX = 'codex'

export async function checkHook(context: Context, agent: AgentName): Promise<Exit> {
  const { io, paint } = context
  const found = installedHooks(agent, io.cwd)
  if (found.length === 0)
    throw new CliError(
      exits.refused,
      'NOT_INSTALLED',
      `there is no hook of Countersign for ${agent} here`,
      `countersign hook install ${agent} --agent <agent_id>`,
    )
  for (const hook of found) {
    const answer = await answerOf(context, hook, JSON.stringify(checkEvent(agent, hook)))
    if (!answer.includes(CHECKED))
      throw new CliError(
        exits.refused,
        'CHECK_FAILED',
        `${hook.file}: the hook did not deny the check: ${answer.trim().slice(0, 500) || 'it said nothing'}`,
      )
    io.out.write(`${paint('green', '✔')} ${hook.file}: ${hook.shown} denied the check\n`)
  }
  if (agent === 'codex') return codexTrust(context)
  return exits.ok
}

/** A call that never runs and opens no item. */
function checkEvent(agent: AgentName, { event }: InstalledHook): object {
  const session_id = 'countersign-hook-check'
  if (agent === 'gemini') return { session_id, hook_event_name: 'BeforeTool', tool_name: CHECK_TOOL, tool_input: {} }
  if (agent === 'opencode') return { session_id, hook_event_name: 'tool.execute.before', call_id: 'check', tool: CHECK_TOOL, args: {} }
  if (agent === 'cursor')
    return event === 'beforeShellExecution'
      ? { conversation_id: session_id, hook_event_name: event, command: CHECK_TOOL, cwd: '/' }
      : { conversation_id: session_id, hook_event_name: event, tool_name: CHECK_TOOL, tool_input: {} }
  return { session_id, hook_event_name: 'PreToolUse', tool_name: CHECK_TOOL, tool_input: {}, tool_use_id: 'check' }
}

async function answerOf({ io }: Context, hook: InstalledHook, event: string): Promise<string> {
  if (hook.url !== null) {
    const key = keyIn(join(io.cwd, '.claude/settings.local.json')) ?? io.env['COUNTERSIGN_KEY'] ?? ''
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    try {
      const response = await fetch(hook.url, { method: 'POST', headers, body: event, signal: AbortSignal.timeout(TIMEOUT_MS) })
      return await response.text()
    } catch (error) {
      return (error as Error).message
    }
  }
  return new Promise((resolve) => {
    const child = spawn('sh', ['-c', hook.command!], {
      cwd: io.cwd,
      env: { ...io.env },
      stdio: ['pipe', 'pipe', 'pipe'],
      timeout: TIMEOUT_MS,
    })
    let text = ''
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (part: string) => (text += part))
    child.stdin.on('error', () => undefined)
    child.on('close', () => resolve(text))
    child.stdin.end(event)
  })
}

function keyIn(file: string): string | null {
  if (!existsSync(file)) return null
  const { env } = JSON.parse(readFileSync(file, 'utf8')) as { env?: { COUNTERSIGN_KEY?: unknown } }
  return typeof env?.COUNTERSIGN_KEY === 'string' ? env.COUNTERSIGN_KEY : null
}

type Listed = { readonly command?: string; readonly trustStatus?: string }

/** Codex silently skips an untrusted hook and runs the tool. */
async function codexTrust({ io }: Context): Promise<Exit> {
  const listed = await codexHooks(io.cwd, { ...io.env })
  if (listed === null) {
    io.out.write('Codex is not installed here, so its trust in the hook was not checked\n')
    return exits.ok
  }
  const ours = listed.filter(({ command }) => /countersign(?:\.js)?'? hook codex/.test(command ?? ''))
  for (const { trustStatus = 'unknown' } of ours) io.out.write(`Codex: ${escapeControl(trustStatus)}\n`)
  if (ours.length > 0 && ours.every(({ trustStatus }) => trustStatus === 'trusted' || trustStatus === 'managed')) return exits.ok
  throw new CliError(
    exits.refused,
    'NOT_TRUSTED',
    'Codex does not trust the hook and runs every tool without it',
    'open /hooks in Codex and trust it',
  )
}

type CodexAnswer = { readonly id?: number; readonly result?: { readonly data?: readonly { readonly hooks?: readonly Listed[] }[] } }
/** Lines of the log are between the answers. */
function answerIn(line: string): CodexAnswer {
  try {
    return JSON.parse(line) as CodexAnswer
  } catch {
    return {}
  }
}

function codexHooks(cwd: string, env: Record<string, string | undefined>): Promise<readonly Listed[] | null> {
  return new Promise((resolve) => {
    const child = spawn(CODEX, ['app-server'], { cwd, env, stdio: ['pipe', 'pipe', 'ignore'], timeout: TIMEOUT_MS })
    const send = (id: number, method: string, params: object): unknown => child.stdin.write(`${JSON.stringify({ id, method, params })}\n`)
    let text = ''
    child.on('error', () => resolve(null))
    child.on('close', () => resolve([]))
    child.stdin.on('error', () => undefined)
    child.stdout.setEncoding('utf8').on('data', (part: string) => {
      text += part
      const lines = text.split('\n')
      text = lines.pop()!
      for (const line of lines) {
        const { id, result } = answerIn(line)
        if (id === 1) send(2, 'hooks/list', { cwds: [cwd] })
        if (id !== 2) continue
        resolve(result?.data?.flatMap(({ hooks = [] }) => hooks) ?? [])
        child.kill()
      }
    })
    send(1, 'initialize', { clientInfo: { name: 'countersign', version: '1' } })
  })
}
