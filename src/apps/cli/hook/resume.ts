// `hook resume`: waits for the answer to the deferred call of a Claude Code session, then continues the session, until it ends for good.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { agentKeyFor } from '../gate/agent-keys.ts'
import { CliError, exits, usage, type Exit } from '../exit-codes.ts'
import type { Context } from '../derive/command.ts'
import { gateOver, Unreachable } from './gate-calls.ts'
import { Refusal } from '#kernel/declare/errors.ts'

type Listed = { readonly call_id: string; readonly state: string; readonly client?: { readonly session_id?: string | null } | null }

export async function resumeSession({ io, rest, globals }: Context, session: string, as: string | undefined): Promise<Exit> {
  const stored = agentKeyFor(io, io.cwd, as, globals.url)
  const key = globals.apiKey ?? io.env['COUNTERSIGN_KEY'] ?? stored?.key
  const url = globals.url ?? io.env['COUNTERSIGN_URL'] ?? stored?.url
  if (key === undefined || url === undefined)
    throw usage('there is no key of an agent here', '`countersign hook install claude-code --agent <agent_id>` stores one')
  const gate = gateOver(url, key, Number.POSITIVE_INFINITY)
  for (;;) {
    try {
      for (let open = await openCall(); open !== null; open = await openCall())
        await gate.call('gate/call.await', { call_id: open, wait_seconds: 50 })
    } catch (error) {
      if (error instanceof Unreachable) throw new CliError(exits.unreachable, 'UNREACHABLE', `cannot connect to ${url}: ${error.message}`)
      if (error instanceof Refusal) throw new CliError(exits.refused, error.code, error.message)
      throw error
    }
    const child = spawn('claude', ['-p', '--resume', session, '--output-format', 'json', ...rest], {
      cwd: io.cwd,
      env: { ...io.env },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let text = ''
    child.stdout.setEncoding('utf8').on('data', (part: string) => (text += part))
    child.on('error', () => undefined)
    const [code] = (await once(child, 'close')) as [number | null]
    if (child.pid === undefined) throw usage('there is no program `claude` in PATH')
    if (code === 0 && isDeferred(text)) continue
    io.out.write(text)
    return code === 0 ? exits.ok : exits.refused
  }

  async function openCall(): Promise<string | null> {
    const { items } = (await gate.call('gate/call.list', {})) as { items: readonly Listed[] }
    const found = items.find(({ state, client }) => client?.session_id === session && (state === 'waiting' || state === 'proposed'))
    return found?.call_id ?? null
  }
}

function isDeferred(text: string): boolean {
  try {
    return (JSON.parse(text) as { stop_reason?: unknown }).stop_reason === 'tool_deferred'
  } catch {
    return false
  }
}
