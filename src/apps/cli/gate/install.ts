// `countersign gate install`: wraps the servers of an .mcp.json, so that each starts behind a gate. The key is a file of its own, which
// only this user can read; the .mcp.json names the file, because it is often committed.
import { readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, resolve } from 'node:path'
import { decode, isObject } from '#kernel/codec/strict-json.ts'
import { usage } from '../exit-codes.ts'
import type { Context } from '../derive/command.ts'
import { changesBetween, hunksOf } from '../output/diff.ts'
import { inertLines } from '../output/safe-text.ts'
import { programFor } from '../hook/install.ts'
import { agentKeyFile } from './agent-keys.ts'
import { dropAgentKey, keepAgentKey } from './keep-key.ts'
import { forgetOriginal, keepOriginal, originalOf } from './original-files.ts'

type InstallOptions = { readonly agent: string | null; readonly file: string; readonly undo: boolean; readonly isDry: boolean }
type Server = Record<string, unknown>

const KEY_VARIABLE = 'COUNTERSIGN_KEY_FILE'

const argsOf = ({ args }: Server): string[] => (Array.isArray(args) ? args.map(String) : [])
const isWrapped = (server: Server): boolean =>
  /^countersign(?:\.js)?$/.test(basename(String(server['command']))) && argsOf(server)[0] === 'gate'

export async function installGate(context: Context, options: InstallOptions): Promise<void> {
  const { io } = context
  const path = resolve(io.cwd, options.file)
  const before = readServers(path)
  if (options.undo) return removeGate(context, options, path, before)
  const { agent, file, isDry } = options
  if (agent === null) throw usage('missing: --agent, the agent whose calls these are', '`countersign agent list` shows the agents')
  const url = (await context.remote()).where
  const keyFile = agentKeyFile(io, { url, agent })
  const [program] = programFor(io.env, 'claude-code', false)
  const gate = { program: program!, keyFile, url }
  const text = textWith(before, (name, server) => wrap(name, server, gate))
  if (!showChange(context, file, before, text) || isDry) return
  await keepAgentKey(context, agent, placeOf(path))
  keepOriginal(io, path, before.text, text)
  writeWhole(path, text)
  io.out.write(`${file} is changed; the key of ${agent} is in ${keyFile}\n`)
}

async function removeGate(context: Context, { file, isDry }: InstallOptions, path: string, before: Servers): Promise<void> {
  const { io } = context
  const text = originalOf(io, path, before.text) ?? textWith(before, (_, server) => unwrap(server))
  if (!showChange(context, file, before, text) || isDry) return
  writeWhole(path, text)
  forgetOriginal(io, path)
  for (const note of await dropAgentKey(context, placeOf(path))) io.out.write(`${note}\n`)
  io.out.write(`${file} is as it was before\n`)
}

const placeOf = (path: string): { folder: string; use: string } => ({ folder: dirname(path), use: 'gate claude-code' })

function textWith({ text, rest, servers }: Servers, change: (name: string, server: Server) => Server): string {
  const changed = Object.fromEntries(Object.entries(servers).map(([name, server]) => [name, change(name, server)]))
  if (JSON.stringify(changed) === JSON.stringify(servers)) return text
  return `${JSON.stringify({ ...rest, mcpServers: changed }, null, 2)}\n`
}

/** Whether there is one. */
function showChange({ io }: Context, file: string, before: Servers, text: string): boolean {
  const isChanged = text !== before.text
  io.out.write(isChanged ? `${inertLines(differenceOf(before.text, text))}\n` : `${file} needs no change\n`)
  return isChanged
}

type Servers = { readonly text: string; readonly rest: Server; readonly servers: Record<string, Server> }

function readServers(path: string): Servers {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    throw usage(`${path} cannot be read`, 'run it in the folder of your project, or name the file with --file')
  }
  let value: unknown
  try {
    value = decode(Buffer.from(text))
  } catch (error) {
    throw usage(`${path}: ${(error as Error).message.replace('the body', 'the file')}`)
  }
  if (!isObject(value) || !isObject(value['mcpServers'])) throw usage(`${path} has no mcpServers`)
  const { mcpServers, ...rest } = value
  for (const [name, server] of Object.entries(mcpServers as object))
    if (!isObject(server) || (typeof server['command'] !== 'string' && typeof server['url'] !== 'string'))
      throw usage(`${path}: mcpServers.${name} has neither command nor url`)
  return { text, rest, servers: mcpServers as Record<string, Server> }
}

type Gate = { readonly program: string; readonly keyFile: string; readonly url: string }
function wrap(name: string, server: Server, gate: Gate): Server {
  if (isWrapped(server)) return server
  const { command, args: _, env, url, type, headers, ...rest } = server
  const variables = { COUNTERSIGN_URL: gate.url, [KEY_VARIABLE]: gate.keyFile }
  if (headers !== undefined)
    throw usage(`mcpServers.${name} has headers, which a local gate does not carry`, 'serve it with `countersign up --gates` instead')
  if (typeof url === 'string')
    return {
      ...rest,
      command: gate.program,
      args: ['gate', '--name', name, '--url', url],
      env: variables,
      ...(type === undefined ? {} : { type: 'stdio' }),
    }
  // By name alone: the arguments of a process are readable by other users of the machine.
  const named = Object.keys(env ?? {}).flatMap((key) => ['--env', key])
  return {
    ...rest,
    ...(type === undefined ? {} : { type }),
    command: gate.program,
    args: ['gate', '--name', name, ...named, '--', String(command), ...argsOf(server)],
    env: { ...(env as object), ...variables },
  }
}

function unwrap(server: Server): Server {
  if (!isWrapped(server)) return server
  const { command: _, args: __, env, type, ...rest } = server
  const args = argsOf(server)
  const at = args.indexOf('--')
  if (at === -1) return { ...rest, ...(type === undefined ? {} : { type: 'http' }), url: args[args.indexOf('--url') + 1]! }
  const { COUNTERSIGN_URL: ___, [KEY_VARIABLE]: ____, ...variables } = env as Record<string, unknown>
  const keptEnv = Object.keys(variables).length === 0 ? {} : { env: variables }
  return { ...rest, ...(type === undefined ? {} : { type }), command: args[at + 1]!, args: args.slice(at + 2), ...keptEnv }
}

/** Whole or not at all: an agent reads this file at its start. */
function writeWhole(path: string, text: string): void {
  const beside = `${path}.new`
  writeFileSync(beside, text, { mode: statSync(path).mode & 0o777 })
  renameSync(beside, path)
}

const marks = { same: ' ', added: '+', removed: '-' } as const
const differenceOf = (before: string, after: string): string =>
  hunksOf(changesBetween(before, after) ?? [])
    .map((change) => (change === 'gap' ? '...' : `${marks[change.kind]} ${change.text}`))
    .join('\n')
