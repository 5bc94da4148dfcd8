// `countersign device`: the daemon's tools, status, history and audit from the command line, and the relays for programs.
import { decodeText } from '#kernel/codec/strict-json.ts'
import type { ShownTask } from '#protocols/hardware/daemon/schema.ts'
import { deviceSettings } from '../../device/settings.ts'
import { CliError, exits, usage, type Exit } from '../exit-codes.ts'
import { spec, type Context, type Spec } from '../derive/command.ts'
import { flag, type Flag } from '../derive/flags.ts'
import { inertJson, inertLines } from '../output/safe-text.ts'
import { dataOf, reach, socketOf, withSession } from './connect.ts'

const socketFlag = flag('socket', 'path', 'the socket of the daemon (or COUNTERSIGN_DEVICE_SOCKET); device.sock in --data by default')

const say = ({ io }: Context, text: string): void => void io.out.write(`${text}\n`)
const sayJson = (context: Context, value: unknown): void => say(context, inertJson(value, 2))

const upSpec = spec('device up', 'Start the hardware daemon in the foreground; `countersign device up --help` shows its options.', {
  flags: Object.entries(deviceSettings)
    .filter(([name]) => !['data', 'help'].includes(name))
    .map(([name, { value, help }]) => flag(name, value === null ? null : value.replaceAll(/[<>]/g, ''), help)),
  examples: ['countersign device up', 'countersign device up --board linux --policies policies.json'],
  run: () => Promise.reject(usage('device up comes first: countersign device up [options]')),
})

/** `name=value`: a value that is valid JSON is parsed, any other is text. */
function argumentsIn(words: readonly string[]): Record<string, unknown> {
  const args: Record<string, unknown> = {}
  for (const word of words) {
    const at = word.indexOf('=')
    if (at < 1) throw usage(`${JSON.stringify(word)} is not name=value`)
    const [name, text] = [word.slice(0, at), word.slice(at + 1)]
    if (Object.hasOwn(args, name)) throw usage(`${name} is given twice`)
    try {
      args[name] = decodeText(text)
    } catch {
      args[name] = text
    }
  }
  return args
}

const toolArgument: Flag = { ...flag('tool', 'name', 'the tool, such as gpio.set'), required: true }
const callArguments: Flag = flag('args', 'name=value', 'its arguments: JSON if they parse as JSON, otherwise text', {
  many: true,
  rest: true,
})

function outcomeOf(context: Context, task: ShownTask): Exit {
  const [step] = task.steps
  if (context.json) sayJson(context, task)
  if (task.status === 'SUCCESS') {
    if (!context.json) sayJson(context, step?.result ?? null)
    return exits.ok
  }
  if (context.json) return exits.refused
  throw new CliError(exits.refused, (step?.code ?? task.code ?? task.status).toUpperCase(), step?.error ?? `the task is ${task.status}`)
}

const callSpec = spec('device call', 'Run one tool of the daemon: session, submit, wait, close.', {
  positionals: [toolArgument, callArguments],
  flags: [socketFlag],
  examples: ['countersign device call gpio.get line=LED', 'countersign device call gpio.set line=17 value=1'],
  run: (context, given) => {
    const args = argumentsIn((given.get('args') as string[] | undefined) ?? [])
    return withSession(context, given, async ({ client, session_id }) =>
      outcomeOf(context, await client.run(session_id, given.get('tool') as string, args, { intent: 'countersign device call' })),
    )
  },
})

const toolsSpec = spec('device tools', 'List the tools that the policy of the socket allows.', {
  flags: [socketFlag],
  examples: ['countersign device tools --json'],
  run: (context, given) =>
    withSession(context, given, async ({ client, session_id }) => {
      const tools = await client.tools(session_id)
      if (context.json) return sayJson(context, { tools })
      const width = Math.max(...tools.map(({ name }) => name.length))
      for (const { name, risk_level, description } of tools)
        say(context, inertLines(`${name.padEnd(width)}  risk ${risk_level}  ${description}`))
    }),
})

const statusSpec = spec('device status', 'Show the daemon, its board and its capabilities.', {
  flags: [socketFlag],
  examples: ['countersign device status'],
  run: (context, given) =>
    withSession(context, given, async ({ client, session_id }) => {
      const task = await client.run(session_id, 'hw.info', {}).catch(() => null)
      const attested = (await client.call('attest.device', { session_id, nonce: 'status' })) as { jws: string }
      const claims = JSON.parse(Buffer.from(attested.jws.split('.')[1]!, 'base64url').toString()) as {
        device_id: string
        version: string
        audit: { seq: number }
      }
      const info = (task?.steps[0]?.result ?? {}) as { board?: string; model?: string }
      const { device_id, version, audit } = claims
      const status = {
        device_id,
        version,
        board: info.board ?? null,
        model: info.model ?? null,
        socket: socketOf(context, given),
        audit_lines: audit.seq,
      }
      if (context.json) return sayJson(context, status)
      for (const [name, value] of Object.entries(status)) say(context, inertLines(`${name.padEnd(12)} ${String(value)}`))
    }),
})

const historySpec = spec('device history', 'List the tasks of this policy, newest first.', {
  flags: [socketFlag, flag('limit', 'count', 'how many', { kind: 'integer' })],
  examples: ['countersign device history --limit 5'],
  run: (context, given) =>
    withSession(context, given, async ({ client, session_id }) => {
      const limit = (given.get('limit') as number | undefined) ?? 20
      const page = (await client.call('task.history', { session_id, limit })) as { tasks: ShownTask[] }
      if (context.json) return sayJson(context, page)
      for (const { task_id, status, created_at, steps, intent } of page.tasks)
        say(context, inertLines(`${created_at}  ${status.padEnd(9)}  ${task_id}  ${steps.map(({ tool }) => tool).join(', ')}  ${intent}`))
    }),
})

const stdioSpec = spec('device stdio', 'Relay JSON-RPC lines between stdin, stdout and the running daemon.', {
  flags: [socketFlag],
  examples: ['ssh board countersign device stdio'],
  async run(context, given) {
    const socket = await reach(socketOf(context, given))
    const { input, out } = context.io
    input.pipe(socket)
    socket.pipe(out as NodeJS.WriteStream, { end: false })
    await new Promise<void>((done) => socket.once('close', done).once('error', () => done()))
    input.unpipe(socket)
    input.destroy()
  },
})

const mcpSpec = spec('device mcp', 'Serve the tools of the daemon as an MCP server on stdin and stdout.', {
  flags: [socketFlag],
  examples: ['countersign device mcp --socket /run/countersign/device.sock'],
  async run(context, given) {
    const { serveMcp } = await import('./mcp.ts')
    await serveMcp(await reach(socketOf(context, given)), context.io)
  },
})

const verifySpec = spec('device audit verify', 'Check the audit file against its chain, its checkpoints and the record.', {
  flags: [flag('file', 'path', 'this file alone, without a record')],
  examples: ['countersign device audit verify --data device'],
  async run(context, given) {
    const { verifyAudit } = await import('./audit.ts')
    const found = await verifyAudit(dataOf(context), (given.get('file') as string | undefined) ?? null)
    if (context.json) sayJson(context, found)
    else
      say(context, found.ok ? `in order: ${found.lines} lines, ${found.checkpoints} signed checkpoints` : `not in order: ${found.problem}`)
    return found.ok ? exits.ok : exits.refused
  },
})

const linkSpec = spec('device link', 'Link the device to a server: registers it with the key of an agent, which comes on stdin.', {
  flags: [flag('name', 'text', 'the name of the device, for people')],
  examples: ['countersign device link --url https://countersign.example --data device < agent.key'],
  async run(context, given) {
    const { linkDevice } = await import('./link.ts')
    await linkDevice(context, dataOf(context), (given.get('name') as string | undefined) ?? null)
  },
})

const installSpec = spec('device install', 'Print the systemd unit, the group and the folders; without --dry-run make them, as root.', {
  flags: [flag('dry-run', null, 'print it, and change nothing')],
  examples: ['countersign device install --dry-run'],
  async run(context, given) {
    const { installDevice } = await import('./install.ts')
    installDevice(context, given.get('dry-run') === true)
  },
})

/** All of them are local: any program under the user's account can reach the daemon's socket or folder. */
export const deviceSpecs: readonly Spec[] = [
  upSpec,
  callSpec,
  toolsSpec,
  statusSpec,
  historySpec,
  stdioSpec,
  mcpSpec,
  verifySpec,
  linkSpec,
  installSpec,
].map((command) => ({ ...command, isLocal: true }))
