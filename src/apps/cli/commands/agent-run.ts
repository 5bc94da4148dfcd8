// `agent run -- <command>`: any command as an agent, from any machine that reaches the server.
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { limits } from '#kernel/limits.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { sharesUser } from '#agents/programs/marker.ts'
import { profiles } from '#agents/programs/profiles.ts'
import type { Plan, Port } from '#agents/programs/conversation.ts'
import type { MailboxLoop } from '#sdk/mailbox/mailbox-loop.ts'
import type { CallOptions } from '#sdk/transport/transport.ts'
import { exits, usage, type Exit } from '../exit-codes.ts'
import { flag, type FlagValues } from '../derive/flags.ts'
import { adminKeyIn, dataFolder, shownFolder } from '../remote/credentials.ts'
import { loginsFile, readLogins } from '../remote/logins.ts'
import type { Remote } from '../remote/remote.ts'
import { spec, type Context } from '../derive/command.ts'
import { escapeControl, inertJson } from '../output/safe-text.ts'

/** After a call that failed. */
const AGAIN_MS = 1_000

export const agentRun = spec('agent run', 'Run a command as an agent: it is started once for each run.', {
  flags: [
    flag('profile', 'word', 'how the command gets its prompt and answers', { choices: Object.keys(profiles) }),
    flag('cwd', 'path', 'its working folder; the current one by default'),
    flag('concurrency', 'number', 'concurrent runs; 1 by default', { kind: 'integer' }),
    flag('time-limit', 'duration', 'how long one run may take; PT1H by default'),
    flag('tries', 'number', `how often a command that fails is started; ${limits.childTriesDefault} by default`, { kind: 'integer' }),
    flag('worker', 'text', 'a name for this process, among those of the same agent'),
    flag('mode', 'text', 'the mode of an ACP agent; by default the first offered one that asks: default, read-only, ask'),
    flag('files', null, 'let an ACP agent read and write files through Countersign: in its folder alone, each by the policy'),
    flag('fresh', null, 'begin a new session of the program for each run of a task'),
    flag('once', null, 'end after the first run'),
  ],
  examples: [
    'countersign agent run -- ./agent.sh',
    'countersign agent run --profile claude --cwd ~/project',
    'countersign agent run --profile acp -- gemini --acp',
    "countersign agent run --profile text -- sh -c 'wc -w'",
    'countersign agent run --concurrency 4 --time-limit PT10M -- node agent.js',
  ],
  async run(context, given): Promise<Exit> {
    const plan = planOf(context, given)
    const remote = await context.remote()
    const me = await remote.call('identity/me.get', {})
    if (me.kind !== 'agent')
      throw usage(
        `the key is of ${me.id}, which is not an agent`,
        'issue one with `countersign key issue <agent_id>` and set COUNTERSIGN_KEY',
      )
    await warnOfSharedUser(context, plan, me.id)
    return attend(context, given, remote, plan, me.id)
  },
})

/** The mark in its environment keeps a program from using these by mistake; only another user, or a container, makes that impossible. */
async function warnOfSharedUser(context: Context, { argv }: Plan, agent_id: string): Promise<void> {
  const { io, globals, paintErr } = context
  if (!sharesUser(argv)) return
  const { all } = await readLogins(io).catch(() => ({ all: [{ id: null }] }))
  const folder = dataFolder(io, globals)
  const within = [
    ...(all.some(({ id }) => id !== agent_id) ? [loginsFile(io)] : []),
    ...(adminKeyIn(folder) === null ? [] : [`${shownFolder(io, folder)}/admin.key`]),
  ]
  if (within.length === 0) return
  const message = `warning: the command of ${agent_id} runs as your own user and can read ${within.join(' and ')}`
  io.err.write(`${paintErr('yellow', escapeControl(message))}\n  → give it another user (sudo -u …) or a container: SECURITY.md\n`)
}

const boundedFlag = (given: FlagValues, name: string, usual: number, max: number): number => {
  const count = (given.get(name) as number | undefined) ?? usual
  if (count < 1 || count > max) throw usage(`--${name} must be from 1 to ${max}`)
  return count
}

function planOf({ io, rest }: Context, given: FlagValues): Plan {
  const name = (given.get('profile') as string | undefined) ?? 'lines'
  const profile = profiles[name]!
  const argv = rest.length > 0 ? rest : profile.argv
  const [file] = argv
  if (file === undefined) throw usage('there is no command', 'put it after two dashes: countersign agent run -- ./agent.sh')
  if (profile.input === 'argv' && !argv.some((word) => word.includes('{prompt}')))
    throw usage(`the profile ${name} replaces {prompt} in the command, and the command has none`)
  const mode = given.get('mode') as string | undefined
  if (mode !== undefined && profile.input !== 'acp') throw usage('--mode is for the profile acp')
  const offersFiles = given.get('files') === true
  if (offersFiles && profile.input !== 'acp') throw usage('--files is for the profile acp')
  // The program is not the agent's credential: it speaks through us.
  const { COUNTERSIGN_KEY: _, ...env } = io.env
  return {
    argv: argv as readonly [string, ...string[]],
    profile,
    cwd: resolve(io.cwd, (given.get('cwd') as string | undefined) ?? '.'),
    env: Object.fromEntries(Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined)),
    timeLimitMs: limitOf(given.get('time-limit') as string | undefined),
    waitMs: limits.childWaitMs,
    graceMs: limits.childGraceMs,
    isFresh: given.get('fresh') === true,
    ...(mode === undefined ? {} : { mode }),
    ...(offersFiles ? { offersFiles } : {}),
  }
}

function limitOf(text: string | undefined): number {
  if (text === undefined) return limits.childMsDefault
  try {
    const ms = durationMs(text, 'INVALID_REQUEST', '--time-limit')
    if (ms >= 1 && ms <= limits.childMsMax) return ms
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw usage(error.message)
  }
  throw usage('--time-limit is at most P7D')
}

/** A call that waits for messages would notice only after a minute that the server is back, so a quick call is made first. */
function portOver(remote: Remote, connection: { isAway(): boolean; back(): void }): Port {
  return {
    call: (async (operation: string, input: object, { idempotencyKey, ...options }: CallOptions = {}) => {
      if (connection.isAway() && operation === 'delegation/mailbox.take') {
        await remote.call('identity/me.get', {})
        connection.back()
      }
      return remote.callAny(operation, input, { ...options, ...(idempotencyKey ? { key: idempotencyKey } : {}) })
    }) as Port['call'],
    upload: (task_id, bytes, about = { media_type: 'text/plain', name: 'result.txt' }) =>
      remote.upload(
        'collaboration/artifact.upload',
        { task_id, ...about },
        new Blob([new Uint8Array(bytes)]),
        () => undefined,
      ) as ReturnType<Port['upload']>,
  }
}

/** Works until a signal arrives: the first lets work in flight finish, the second does not. */
async function attend(context: Context, given: FlagValues, remote: Remote, plan: Plan, agent_id: string): Promise<Exit> {
  const { io, paint, paintErr, json } = context
  const say = (run_id: string, message: string): void =>
    void io.out.write(
      json ? `${inertJson({ run_id, event: message }, 0)}\n` : `${paint('dim', escapeControl(run_id))}  ${escapeControl(message)}\n`,
    )
  const { startRunLoop, withProgram } = await import('#agents/programs/run-loop.ts')
  let troubled = ''
  let ran = 0
  const port = portOver(remote, {
    isAway: () => troubled !== '',
    back() {
      troubled = ''
      io.err.write(`${agent_id} is connected to ${remote.where} again\n`)
    },
  })
  const loop: MailboxLoop = startRunLoop({
    agent_id,
    port,
    converse: withProgram(plan, port),
    concurrency: given.get('once') === true ? 1 : boundedFlag(given, 'concurrency', 1, limits.childrenPerAgentMax),
    tries: boundedFlag(given, 'tries', limits.childTriesDefault, limits.childTriesMax),
    worker: ((given.get('worker') as string | undefined) ?? `${hostname()}-${process.pid}`).slice(0, limits.workerCharsMax),
    againMs: AGAIN_MS,
    note(run_id, message) {
      say(run_id, message)
      troubled = ''
      if (message === 'taken' && ++ran === 1 && given.get('once') === true) void loop.stop(Infinity)
    },
    trouble(message) {
      // Says only once that the server is away.
      if (message !== troubled) io.err.write(`${paintErr('yellow', escapeControl(message))}; trying again\n`)
      troubled = message
    },
  })
  if (!json) io.err.write(`${agent_id} takes runs from ${remote.where}; Ctrl-C ends it\n`)
  let signals = 0
  const leave = (): void => {
    if (++signals === 1) io.err.write('taking no more runs; press again to end immediately\n')
    void loop.stop(signals === 1 ? Infinity : 0)
  }
  process.on('SIGINT', leave)
  process.on('SIGTERM', leave)
  try {
    await loop.ended
    return exits.ok
  } finally {
    process.off('SIGINT', leave)
    process.off('SIGTERM', leave)
  }
}
