// `countersign hook <agent>`: one event of an agent on standard input, one answer on standard output. Agents run a tool when its hook fails,
// is late or prints anything else, so every failure is a deny with a reason, or exit code 2 with a message. It starts on every call of a
// tool and loads nothing of the command line.
import { writeSync } from 'node:fs'
import { homedir } from 'node:os'
import { decodeText } from '#kernel/codec/strict-json.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { decide } from '#bridges/hooks/decide.ts'
import { BadEvent, dialects, eventFrom, lateAnswers, type AgentName, type Late, type ToolCall } from '#bridges/hooks/dialects.ts'
import { agentKeyFor, managedHome } from '../gate/agent-keys.ts'
import { gateOver, Unreachable } from './gate-calls.ts'
import { memoryFiles } from './memory-files.ts'
import { isGated, serverNameOf } from './mcp-servers.ts'

export type HookOptions = {
  readonly agent: AgentName
  readonly waitMs: number
  readonly late: Late
  /** The agent in Countersign, and its server, if several are installed. */
  readonly as: string | undefined
  readonly url: string | undefined
  /** Key and server come from root's files alone: the agent can change its environment and its home. */
  readonly isManaged: boolean
}

const URL_USUAL = 'http://127.0.0.1:3402'
const EXIT_BLOCK = 2
const MAX_TIMER_MS = 2 ** 31 - 1

/** The options, or what is wrong with them. */
export function hookOptions(argv: readonly string[]): HookOptions | string {
  const agent = argv[1] as AgentName
  const given = new Map<string, string>()
  const words = argv.filter((word) => word !== '--managed')
  for (let i = 2; i < words.length; i++) {
    const [name, inline] = splitFlag(words[i]!)
    const value = inline ?? words[++i]
    if (!['--wait', '--late', '--agent', '--url'].includes(name)) return `${name} is not an option of countersign hook`
    if (value === undefined || given.has(name)) return `${name} needs one value`
    given.set(name, value)
  }
  const late = given.get('--late') ?? dialects[agent].late[0]!
  if (!(lateAnswers as readonly string[]).includes(late)) return `--late is one of ${lateAnswers.join(', ')}`
  if (!dialects[agent].late.includes(late as Late))
    return `--late ${late} would let ${agent} run the tool: use ${dialects[agent].late.join(' or ')}`
  try {
    const waitMs = durationMs(given.get('--wait') ?? limits.hookWait, 'INVALID_REQUEST', '--wait')
    return { agent, waitMs, late: late as Late, as: given.get('--agent'), url: given.get('--url'), isManaged: words.length < argv.length }
  } catch (error) {
    return (error as Error).message
  }
}

function splitFlag(word: string): [string, string | undefined] {
  const at = word.indexOf('=')
  return at < 0 ? [word, undefined] : [word.slice(0, at), word.slice(at + 1)]
}

export async function runHook(argv: readonly string[]): Promise<void> {
  // Output of a module would break the one object that the agent reads.
  for (const name of ['log', 'info', 'debug', 'warn', 'error'] as const) console[name] = () => undefined
  process.removeAllListeners('warning')
  process.on('uncaughtException', (error) => block(`countersign hook failed: ${error.message}`))
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => block('countersign hook was stopped; nothing runs'))
  const options = hookOptions(argv)
  if (typeof options === 'string') return block(options)
  const { agent, waitMs } = options
  // The answer arrives before the agent's own timeout, even if something hangs.
  const graceMs = Math.min(MAX_TIMER_MS, waitMs + limits.hookGraceMs)
  setTimeout(() => finish(deny(agent, 'nothing runs: countersign hook did not end in time')), graceMs)
  let call: ToolCall | null
  try {
    call = dialects[agent].read(eventFrom(decodeText(await readInput())))
  } catch (error) {
    return block(`countersign hook ${agent}: bad input: ${(error as Error).message}`)
  }
  if (call === null) return finish('')
  finish(await answerTo(call, options))
}

async function answerTo(found: ToolCall, { agent, waitMs, late, as, url, isManaged }: HookOptions): Promise<string> {
  const dialect = dialects[agent]
  try {
    const { env } = process
    const folder = env['CLAUDE_PROJECT_DIR'] || process.cwd()
    const home = { env, home: homedir() }
    const trusted = isManaged ? {} : env
    const stored = trusted['COUNTERSIGN_KEY'] ? null : agentKeyFor(isManaged ? managedHome : home, folder, as, url)
    const key = trusted['COUNTERSIGN_KEY'] || stored?.key
    const server = trusted['COUNTERSIGN_URL'] || url || stored?.url || URL_USUAL
    const named = serverNameOf(agent, found, folder, home)
    if (named.isMcp && isGated(agent, named, { folder, home, url: server, isManaged })) return ''
    if (key === undefined)
      return deny(agent, `nothing runs: countersign hook has no key. Run \`countersign hook install ${agent} --agent <agent_id>\``)
    const verdict = await decide(
      gateOver(server, key, Date.now() + waitMs),
      agent,
      named,
      { waitMs, late },
      memoryFiles(home),
      env['COUNTERSIGN_TASK'] || undefined,
    )
    return dialect.answer(verdict)
  } catch (error) {
    if (error instanceof BadEvent) return deny(agent, `nothing runs: ${error.message}`)
    if (error instanceof Unreachable) return deny(agent, `nothing runs: Countersign cannot be reached: ${error.message}`)
    if (error instanceof Refusal) return deny(agent, `nothing runs: Countersign refused the call: ${error.message} [${error.code}]`)
    return deny(agent, `nothing runs: countersign hook failed: ${(error as Error).message}`)
  }
}

const deny = (agent: AgentName, reason: string): string => dialects[agent].answer({ kind: 'deny', reason })

/** The whole input, bounded; an agent closes it after the event. */
async function readInput(): Promise<string> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of process.stdin as AsyncIterable<Buffer>) {
    size += part.length
    if (size > limits.hookEventBytesMax) throw new BadEvent(`an event has at most ${limits.hookEventBytesMax} bytes`)
    parts.push(part)
  }
  return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(parts))
}

/** Writes everything or blocks: an agent runs the tool after half an answer. */
function finish(text: string): void {
  try {
    writeAll(1, text)
  } catch (error) {
    return block(`countersign hook could not write its answer: ${(error as Error).message}`)
  }
  process.exit(0)
}

function block(message: string): void {
  try {
    writeAll(2, `${message}\n`)
  } finally {
    process.exit(EXIT_BLOCK)
  }
}

function writeAll(fd: number, text: string): void {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(fd, bytes, at)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)
    }
  }
}
