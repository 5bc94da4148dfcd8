// `countersign gate`: an MCP server behind the policy, on stdin and stdout; `gate install` puts it in front of an agent's servers.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { decode } from '#kernel/codec/strict-json.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { gateSettingsIn, type OwnSettings } from '#gate/gate-settings.ts'
import { httpTransport } from '#sdk/transport/http.ts'
import type { McpSettings } from '#capabilities/mcp.ts'
import { usage } from '../exit-codes.ts'
import { spec, type Context, type Spec } from '../derive/command.ts'
import { flag, type FlagValues } from '../derive/flags.ts'
import { targetOf } from '../remote/credentials.ts'
import { version } from '../../version.ts'
import { agentKeyIn } from './agent-keys.ts'

const NAME = /^[a-z0-9][a-z0-9._-]{0,62}$/
const VARIABLE = /^([A-Za-z_][A-Za-z0-9_]*)(?:=(.*))?$/s

/** The file of `--config`. */
async function configIn(path: string | undefined, cwd: string): Promise<OwnSettings> {
  if (path === undefined) return gateSettingsIn({})
  const { parseGateFields } = await import('#gate/gate-fields.ts')
  try {
    return parseGateFields(decode(readFileSync(resolve(cwd, path))))
  } catch (error) {
    throw usage(`${path}: ${(error as Error).message.replace('the body', 'the file')}`, 'see docs/gate.md for the settings of a gate')
  }
}

function holdMs(text: string | undefined): number | null {
  if (text === undefined || text === '') return null
  try {
    return durationMs(text, 'INVALID_REQUEST', '--hold')
  } catch (error) {
    if (error instanceof Refusal) throw usage(error.message, 'a duration is written as PT45S, PT10M or P2D')
    throw error
  }
}

/** The upstream: a command after `--`, or the address of `--url`. It never gets the key of Countersign. */
function upstreamIn({ io, rest, globals }: Pick<Context, 'io' | 'rest' | 'globals'>, given: FlagValues): McpSettings['server'] {
  const env = Object.fromEntries(
    ((given.get('env') as string[] | undefined) ?? []).map((text) => {
      const [, name, value] = VARIABLE.exec(text) ?? []
      if (name === undefined) throw usage(`--env ${JSON.stringify(text)} is not NAME or NAME=value`)
      if (name.startsWith('COUNTERSIGN_')) throw usage(`--env ${name}: a server gets no variable of Countersign's`)
      return [name, value ?? io.env[name] ?? '']
    }),
  )
  const [command, ...args] = rest
  if (command !== undefined) return { command, args, env }
  const { url } = globals
  if (url === undefined)
    throw usage('gate needs the command of an MCP server after --, or --url', 'countersign gate --name files -- npx some-server')
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) throw usage(`--url must be an address, not ${JSON.stringify(url)}`)
  return { url, headers: {} }
}

/** The file name of the command, or the host of the address. */
function nameOf(server: McpSettings['server'], given: string | undefined): string {
  const named = given ?? ('url' in server ? new URL(server.url).hostname : server.command.split('/').at(-1)!.toLowerCase())
  if (NAME.test(named)) return named
  throw usage(`${JSON.stringify(named)} is no name for a server: it has up to 63 small letters, digits, . _ or -`, 'give one with --name')
}

/** The file that `gate install` wrote: the key is neither in .mcp.json nor in the arguments of a process. */
function keyIn(path: string | undefined): string | null {
  if (!path) return null
  try {
    const text = readFileSync(path, 'utf8').trim()
    return text.startsWith('{') ? agentKeyIn(path).key : text
  } catch (error) {
    throw usage(`COUNTERSIGN_KEY_FILE cannot be read: ${(error as Error).message}`)
  }
}

export async function runGate(context: Pick<Context, 'io' | 'globals' | 'rest'>, given: FlagValues): Promise<void> {
  const { io, globals } = context
  const { env } = io
  const server = upstreamIn(context, given)
  const name = nameOf(server, given.get('name') as string | undefined)
  const hold = holdMs((given.get('hold') as string | undefined) ?? env['COUNTERSIGN_GATE_HOLD'])
  const config = await configIn((given.get('config') as string | undefined) ?? (env['COUNTERSIGN_GATE_CONFIG'] || undefined), io.cwd)
  const { url, key: named } = await targetOf(io, 'url' in server ? { ...globals, url: undefined } : globals)
  const key = keyIn(env['COUNTERSIGN_KEY_FILE']) ?? named
  if (key === null)
    throw usage('gate needs the key of an agent: COUNTERSIGN_KEY', '`countersign gate install claude-code --agent <id>` makes one')
  const [{ serveGate }, { gatePort }, { queueCalls }] = await Promise.all([
    import('#gate/index.ts'),
    import('#gate/port.ts'),
    import('#gate/waiting/call-queue.ts'),
  ])
  const transport = httpTransport({ url, key, streams: 'events', attempts: 3, timeoutMs: CALL_MS })
  const say = (fields: object, message: string): void =>
    void io.err.write(`countersign gate ${name}: ${message} ${JSON.stringify(fields)}\n`)
  const log = { debug: () => undefined, info: () => undefined, warn: say, error: say }
  const settings = {
    name,
    holdMs: hold,
    task_id: (given.get('task') as string | undefined) ?? (env['COUNTERSIGN_TASK'] || null),
    ...config,
  }
  const port = gatePort(queueCalls((operation, input, signal) => transport.call(operation, input, { signal })))
  try {
    await serveGate({ settings, server, port, log, version, key: randomBytes(32), agent: key }, io.input, io.out)
  } finally {
    await transport.close()
  }
}
/** One long poll has 25 s. */
const CALL_MS = 40_000

export const gateFlags = [
  flag('name', 'name', 'the name of the server in rules and questions; by default the file name of its command'),
  flag('env', 'NAME[=value]', 'a variable for the server, by name alone from here; it gets a path, a home and these', { many: true }),
  flag('config', 'file', 'redact, trusted, sampling, roots, results.max_bytes (or COUNTERSIGN_GATE_CONFIG)'),
  flag('hold', 'duration', 'how long a call waits at most before it answers "not run yet" (or COUNTERSIGN_GATE_HOLD)'),
  flag('task', 'id', 'the task that the calls belong to (or COUNTERSIGN_TASK)'),
]
const gateSpec = spec('gate', 'Put an MCP server behind the policy: serves it on stdin and stdout, and asks before each call.', {
  flags: gateFlags,
  examples: [
    'countersign gate --name files -- npx @modelcontextprotocol/server-filesystem .',
    'countersign gate --name shop --url https://mcp.example/mcp',
  ],
  run: runGate,
})

const installSpec = spec('gate install', "Wrap each server of an agent's .mcp.json with `countersign gate`, and keep a key for it.", {
  positionals: [{ ...flag('client', 'client', 'the agent program: claude-code', { choices: ['claude-code'] }), required: true }],
  flags: [
    flag('agent', 'id', 'the agent whose calls these are'),
    flag('file', 'path', 'the file with the servers; .mcp.json here by default'),
    flag('undo', null, 'put the file back as it was'),
    flag('dry-run', null, 'show the difference, and change nothing'),
  ],
  examples: ['countersign gate install claude-code --agent agent_coder', 'countersign gate install claude-code --undo'],
  async run(context, given) {
    const { installGate } = await import('./install.ts')
    await installGate(context, {
      agent: (given.get('agent') as string | undefined) ?? null,
      file: (given.get('file') as string | undefined) ?? '.mcp.json',
      undo: given.get('undo') === true,
      isDry: given.get('dry-run') === true,
    })
  },
})

export const gateSpecs: readonly Spec[] = [gateSpec, installSpec]
