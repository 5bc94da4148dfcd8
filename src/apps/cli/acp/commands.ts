// `countersign acp`: a proxy between an editor and its ACP agent. It asks with the agent's key, and the editor's answers count for the person
// who is logged in. The agent gets neither.
import { AGENT_VARIABLE } from '#agents/programs/marker.ts'
import type { Ports } from '#gate/acp/questions.ts'
import type { Sink } from '#gate/acp/writer.ts'
import { httpTransport } from '#sdk/transport/http.ts'
import type { Transport } from '#sdk/transport/transport.ts'
import { URL_USUAL } from '../../server/settings/config.ts'
import { spec, type Context, type Spec } from '../derive/command.ts'
import { flag, type FlagValues } from '../derive/flags.ts'
import { CliError, exits, usage, type Exit } from '../exit-codes.ts'
import { agentKeyFor, agentKeyIn, readAgentKeys } from '../gate/agent-keys.ts'
import { keepAgentKey } from '../gate/keep-key.ts'
import { urlOf } from '../remote/credentials.ts'
import { loginFor, readLogins } from '../remote/logins.ts'
import { openPerson } from './person.ts'

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/
/** The length of one long poll is 25 s. */
const CALL_MS = 40_000

type Asker = { readonly url: string; readonly key: string | null; readonly agent: string | null }

/** The file name of the command, as rules name the agent. */
function nameOf(command: string, given: string | undefined): string {
  const named = given ?? command.split('/').at(-1)!
  if (NAME.test(named)) return named
  throw usage(`${JSON.stringify(named)} is no name for an agent: it has up to 63 letters, digits, . _ or -`, 'give one with --name')
}

/** The agent's key: from the environment, or stored beside the logins. With --agent, the person's login issues it at the first run. */
async function askerFor(context: Context, name: string, agent: string | undefined, note: (text: string) => void): Promise<Asker> {
  const { io, globals } = context
  const text = globals.url ?? (io.env['COUNTERSIGN_URL'] || undefined)
  const named = text === undefined ? undefined : urlOf(text, globals.url === undefined ? 'COUNTERSIGN_URL' : '--url')
  const file = io.env['COUNTERSIGN_KEY_FILE']
  const usual = async (): Promise<string> => named ?? (await readLogins(io)).current ?? URL_USUAL
  const given = globals.apiKey ?? io.env['COUNTERSIGN_KEY']
  if (given) return { url: await usual(), key: given, agent: agent ?? null }
  const stored = file ? agentKeyIn(file) : agentKeyFor(io, io.cwd, agent, named)
  if (stored !== null) return { url: named ?? stored.url, key: stored.key, agent: stored.agent }
  if (agent === undefined) {
    if (readAgentKeys(io).length > 0) throw usage('several agents have a key here', 'name the one that asks, with --agent')
    return { url: await usual(), key: null, agent: null }
  }
  try {
    const { key } = await keepAgentKey(context, agent, { folder: io.cwd, use: `acp ${name}` })
    return key
  } catch (error) {
    if (!(error instanceof CliError) || error.exit !== exits.unreachable) throw error
    note(error.message)
    return { url: await usual(), key: null, agent }
  }
}

/** Who a key belongs to; null: the server does not answer now. */
async function subjectOf(transport: Transport, whose: string): Promise<{ id: string; kind: string } | null> {
  try {
    return (await transport.call('identity/me.get', {})) as { id: string; kind: string }
  } catch (error) {
    const { status, message } = error as { status?: unknown; message: string }
    if (typeof status !== 'number' || status >= 500) return null
    throw new CliError(exits.unauthenticated, 'UNAUTHENTICATED', `${whose} is not accepted: ${message}`)
  }
}

/** The agent runs what it likes with its environment, so it gets no credential, only the mark of an agent. */
function childEnv({ env }: Context['io'], agent: string): Record<string, string> {
  const others = Object.entries(env).filter(([name, value]) => value !== undefined && !name.startsWith('COUNTERSIGN_'))
  return { ...(Object.fromEntries(others) as Record<string, string>), [AGENT_VARIABLE]: agent }
}

async function runProxy(context: Context, given: FlagValues): Promise<Exit> {
  const { io, rest } = context
  const [command, ...args] = rest
  if (command === undefined) throw usage('acp needs the command of an ACP agent after --', 'countersign acp -- claude-code-acp')
  const name = nameOf(command, given.get('name') as string | undefined)
  const note = (text: string): void => void io.err.write(`countersign acp ${name}: ${text}\n`)
  const asker = await askerFor(context, name, given.get('agent') as string | undefined, note)
  const { url } = asker
  const open = (key: string): Transport => httpTransport({ url, key, streams: 'events', attempts: 3, timeoutMs: CALL_MS })
  const login = asker.key === null ? null : await loginFor(await readLogins(io), url)
  const transports = asker.key === null ? [] : [open(asker.key), ...(login === null || login === 'stale' ? [] : [open(login.key)])]
  const [agentTransport, persons] = transports
  try {
    const me = agentTransport ? await subjectOf(agentTransport, 'the key of the agent') : null
    if (me !== null && me.kind !== 'agent') throw usage(`the key is of ${me.id}, which is no agent`, 'name an agent with --agent')
    const person = persons ? await openPerson(persons, given.get('as') as string | undefined) : null
    if (agentTransport && person === null) {
      if (given.get('as') !== undefined) throw usage(`no login is stored for ${url}`, '`countersign login` stores one')
      note('no person is logged in, so questions are answered in the inbox alone; `countersign login` changes that')
    }
    const [{ serveAcp }, { gatePort }] = await Promise.all([import('#gate/acp/proxy.ts'), import('#gate/port.ts')])
    const ports: Ports = {
      port: agentTransport ? gatePort((operation, input, signal) => agentTransport.call(operation, input, { signal })) : null,
      person,
      name,
      task_id: (given.get('task') as string | undefined) ?? (io.env['COUNTERSIGN_TASK'] || null),
      where: url,
    }
    if (!agentTransport)
      note('no key of an agent is stored here, so the editor alone decides and nothing is recorded; `--agent <id>` connects it')
    const child = { argv: [command, ...args] as [string, ...string[]], cwd: io.cwd, env: childEnv(io, me?.id ?? asker.agent ?? name) }
    const code = await serveAcp({ ports, command: child, input: io.input, output: outputOf(context), note, stop: stopSignal() })
    return code as Exit
  } finally {
    // An editor that stays keeps its pipe open, and with it this process.
    io.input.destroy()
    await Promise.all(transports.map((transport) => transport.close()))
  }
}

/** A closed output ends other commands; here the questions stay open after the editor has exited. */
function outputOf({ io }: Context): Sink {
  for (const stream of [io.out, io.err] as Partial<NodeJS.WriteStream>[]) {
    stream.removeAllListeners?.('error')
    stream.on?.('error', () => undefined)
  }
  return io.out
}

function stopSignal(): AbortSignal {
  const stop = new AbortController()
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(name, () => stop.abort())
  return stop.signal
}

export const acpSpec: Spec = spec(
  'acp',
  'Stand between an editor and its ACP agent: permissions are asked in the editor and in the inbox.',
  {
    isLocal: true,
    flags: [
      flag('as', 'id', "the person whom the editor's answers count for: must be the one who is logged in"),
      flag('agent', 'id', 'the agent of Countersign that asks; the first run issues its key with your login'),
      flag('name', 'name', 'the name of the agent in rules; by default the file name of its command'),
      flag('task', 'id', 'the task that the calls belong to (or COUNTERSIGN_TASK)'),
    ],
    examples: ['countersign acp --agent agent_coder -- claude-agent-acp', 'countersign acp --as user_alice -- gemini --acp'],
    run: runProxy,
  },
)
