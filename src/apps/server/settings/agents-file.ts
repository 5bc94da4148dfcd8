// The file of agents that are programs of this machine. Only the operator writes it: no call of the API can name a command.
import { dirname, resolve } from 'node:path'
import { Refusal } from '#kernel/declare/errors.ts'
import { decode } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'
import { parse, t, type Static } from '#kernel/declare/schema.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { profiles } from '#agents/programs/profiles.ts'
import type { Plan } from '#agents/programs/conversation.ts'
import type { ProcessAgent } from '#agents/programs/agents.ts'
import { ConfigError } from './config.ts'
import { bytesOfFile } from './operator-file.ts'

const Word = t.String({ minLength: 1, maxLength: 4_000 })
const Entry = t.Object({
  command: t.Optional(t.Array(Word, { maxItems: 100 })),
  profile: t.Optional(t.String({ maxLength: 40 })),
  cwd: t.Optional(Word),
  env: t.Optional(t.Object({}, { additionalProperties: true })),
  pass_env: t.Optional(t.Array(t.String({ maxLength: 200 }), { maxItems: 100 })),
  concurrency: t.Optional(t.Integer({ minimum: 1, maximum: limits.childrenPerAgentMax })),
  time_limit: t.Optional(t.String({ maxLength: 40 })),
  tries: t.Optional(t.Integer({ minimum: 1, maximum: limits.childTriesMax })),
  mode: t.Optional(t.String({ minLength: 1, maxLength: limits.labelCharsMax })),
  fresh: t.Optional(t.Boolean()),
  files: t.Optional(t.Boolean()),
})
type Entry = Static<typeof Entry>
type Env = Readonly<Record<string, string | undefined>>

const known = Object.keys(Entry.properties)

export function readAgents(path: string, env: Env): ProcessAgent[] {
  const wrong = (message: string): never => {
    throw new ConfigError(`${path}: ${message}`)
  }
  let text: Buffer
  try {
    text = bytesOfFile(path)
  } catch (error) {
    return wrong(`the file with the agents cannot be read: ${(error as Error).message}`)
  }
  try {
    const { agents } = parse(t.Object({ agents: t.Object({}, { additionalProperties: true }) }), decode(text)) as {
      agents: Record<string, unknown>
    }
    const all = Object.entries(agents)
    if (all.length > limits.childAgentsMax) wrong(`there are at most ${limits.childAgentsMax} agents`)
    return all.map(([agent_id, entry]) => agentIn(agent_id, entry, dirname(path), env))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return wrong(error.message)
  }
}

function agentIn(agent_id: string, raw: unknown, folder: string, env: Env): ProcessAgent {
  const refuse = (message: string): never => {
    throw new Refusal('INVALID_REQUEST', `${agent_id}: ${message}`)
  }
  if (!agent_id.startsWith('agent_')) refuse('the id of an agent begins with agent_')
  // A misspelled name would be dropped in silence, and the agent run without its limit.
  const unknown = typeof raw === 'object' && raw !== null ? Object.keys(raw).find((name) => !known.includes(name)) : undefined
  if (unknown !== undefined) refuse(`there is no setting ${unknown}; there are ${known.join(', ')}`)
  let entry: Entry
  try {
    entry = parse(Entry, raw)
  } catch (error) {
    return refuse((error as Error).message)
  }
  const { concurrency = 1, tries = limits.childTriesDefault } = entry
  return { agent_id, plan: planOf(entry, folder, env, refuse), concurrency, tries }
}

function planOf(entry: Entry, folder: string, env: Env, refuse: (message: string) => never): Plan {
  const { profile: name = 'lines', command, cwd = '.', pass_env = ['PATH'], time_limit, mode, fresh = false, files } = entry
  const profile = Object.hasOwn(profiles, name) ? profiles[name]! : refuse(`profile is one of ${Object.keys(profiles).join(', ')}`)
  const argv = command ?? profile.argv
  if (argv.length === 0) refuse('command is required: the program and its arguments')
  if (profile.input === 'argv' && !argv.some((word) => word.includes('{prompt}'))) refuse('command has no {prompt} for the profile to fill')
  const timeLimitMs = time_limit === undefined ? limits.childMsDefault : durationMs(time_limit, 'INVALID_REQUEST', 'time_limit')
  if (timeLimitMs < 1 || timeLimitMs > limits.childMsMax) refuse('time_limit is at most P7D')
  if (mode !== undefined && profile.input !== 'acp') refuse('mode is for the profile acp')
  if (files !== undefined && profile.input !== 'acp') refuse('files is for the profile acp')
  const variables = Object.entries((entry.env ?? {}) as Record<string, unknown>)
  const wrong = variables.find(([, value]) => typeof value !== 'string')
  if (wrong) refuse(`env.${wrong[0]} must be text`)
  const passed = pass_env.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]]))
  return {
    argv: argv as readonly [string, ...string[]],
    profile,
    cwd: resolve(folder, cwd),
    env: Object.fromEntries([...passed, ...variables]) as Record<string, string>,
    timeLimitMs,
    waitMs: limits.childWaitMs,
    graceMs: limits.childGraceMs,
    isFresh: fresh,
    ...(mode === undefined ? {} : { mode }),
    ...(files === true ? { offersFiles: true } : {}),
  }
}
