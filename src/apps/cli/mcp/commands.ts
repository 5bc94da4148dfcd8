// `countersign mcp`: our operations as tools of an MCP server on stdin and stdout.
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { ActorKind } from '#kernel/declare/access.ts'
import { protocols } from '#protocols/index.ts'
import { httpTransport } from '#sdk/transport/http.ts'
import { usage } from '../exit-codes.ts'
import { flag } from '../derive/flags.ts'
import { spec, type Context } from '../derive/command.ts'
import { agentKeyIn } from '../gate/agent-keys.ts'
import { foreignKey, keylessAgent } from '../remote/agent-child.ts'
import { targetOf } from '../remote/credentials.ts'
import { version } from '../../version.ts'

/** A file with the key alone, or one that `gate install` or `hook install` keeps. */
function keyIn(path: string, cwd: string): string {
  try {
    const text = readFileSync(resolve(cwd, path), 'utf8').trim()
    return text.startsWith('{') ? agentKeyIn(resolve(cwd, path)).key : text
  } catch (error) {
    throw usage(`the key in ${path} cannot be read: ${(error as Error).message}`)
  }
}

async function runMcp({ io, globals }: Context, file: string | undefined): Promise<void> {
  const path = file ?? (io.env['COUNTERSIGN_KEY_FILE'] || undefined)
  const { url, key: named, agent } = await targetOf(io, globals)
  const key = path === undefined ? named : keyIn(path, io.cwd)
  if (key === null && agent !== null) throw keylessAgent(agent)
  if (key === null) throw usage('mcp needs the key of an agent: COUNTERSIGN_KEY, or --key with a file', '`countersign key issue` makes one')
  const transport = httpTransport({ url, key, streams: 'events', attempts: 3, timeoutMs: CALL_MS })
  try {
    const { id, kind } = (await transport.call('identity/me.get', {}, {})) as { readonly id: string; readonly kind: ActorKind }
    if (agent !== null && id !== agent) throw foreignKey(id, agent)
    const { serveMcp } = await import('#mcp/index.ts')
    const call = (operation: string, input: object, options: { key?: string | undefined; signal?: AbortSignal | undefined } = {}) =>
      transport.call(operation, input, {
        signal: options.signal,
        ...(options.key === undefined ? {} : { idempotencyKey: options.key }),
      })
    const log = { debug: () => undefined }
    await serveMcp({ protocols, version, caller: { id, kind, call }, log }, io.input, io.out)
  } finally {
    await transport.close()
  }
}
/** A long poll has up to a minute. */
const CALL_MS = 75_000

export const mcpSpec = spec('mcp', 'Serve the operations to an agent as tools of an MCP server, on stdin and stdout.', {
  flags: [flag('key', 'file', 'a file with the key of the agent (or COUNTERSIGN_KEY_FILE)')],
  examples: ['claude mcp add countersign -- countersign mcp', 'countersign mcp --key agent.key'],
  run: (context, given) => runMcp(context, given.get('key') as string | undefined),
})
