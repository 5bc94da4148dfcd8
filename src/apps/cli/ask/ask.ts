// Asking a person from a script, with the key of an agent, for every action: the flags that all share, the wait, and the exit code that says how it went.
import { definedFields } from '#kernel/codec/strict-json.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { actions, type Action } from '#protocols/execution/actions/index.ts'
import { Declined, NotAnswered, ReceiptDoubted, type Answer, type AskedRequest, type WaitOptions } from '#sdk/await-answer.ts'
import type { Input } from '#sdk/client.ts'
import { reasonOf } from '#sdk/retry-notice.ts'
import { CliError, exits, Interrupted, usage, type Exit } from '../exit-codes.ts'
import { flag, type Flag, type FlagValues } from '../derive/flags.ts'
import type { Remote } from '../remote/remote.ts'
import { writeJson } from '../output/render.ts'
import { spec, type Context } from '../derive/command.ts'
import { columnsOf, startProgress } from '../terminal.ts'
import { escapeControl, inertLines, ownLines } from '../output/safe-text.ts'

const waiting: readonly Flag[] = [
  flag('withdraw', null, 'withdraw the request if you stop this command before the answer'),
  flag('quiet', null, 'print the answer alone'),
]
export const commonFlags: readonly Flag[] = [
  flag('context', 'text', 'why, in a few words'),
  flag('priority', 'word', 'how urgent it is', { choices: ['critical', 'high', 'normal', 'low'] }),
  flag('timeout', 'duration', 'how long it may take, such as PT2H or 7200 (seconds); without it, as long as it takes'),
  flag('fallback', 'word', 'what happens then: it keeps waiting (pause), fails, or takes its default', {
    choices: ['pause', 'fail', 'default'],
  }),
  flag('role', 'word', 'the person asked: the owner of the agent, a delegate by rule, or a pool', {
    choices: ['owner', 'delegate', 'pool'],
  }),
  flag('risk', 'word', 'how much can go wrong', { choices: ['R1', 'R2', 'R3', 'R4', 'R5'] }),
  flag('tag', 'text', 'a tag, for delegation rules; repeat for more', { many: true }),
  flag('project', 'id', 'the project'),
  flag('task', 'id', 'the task that you work on: then its people are asked'),
  flag('key', 'text', 'a name for the question: the same command again finds the request instead of asking twice'),
  flag('wait', null, 'wait for the answer, which is the default; --no-wait shows the id of the request and ends'),
  ...waiting,
]

export const first = (name: string, message: string): Flag => ({ ...flag(name, 'text', message), required: true })

export const wait = spec('ask await', 'Wait for the answer to an earlier request.', {
  positionals: [first('request-id', 'the request')],
  flags: waiting,
  examples: ['countersign ask await hxp_1'],
  async run(context, given) {
    const remote = await context.remote()
    return outcome(context, given, remote, given.get('request-id') as string)
  },
})

function secondsOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (/^\d{1,12}$/.test(text)) return Number(text)
  try {
    return Math.ceil(durationMs(text, 'INVALID_REQUEST', '--timeout') / 1_000)
  } catch (error) {
    if (error instanceof Refusal) throw usage('--timeout must be a duration such as PT2H, or seconds')
    throw error
  }
}

export async function ask(context: Context, given: FlagValues, action: Action, payload: Readonly<Record<string, unknown>>): Promise<Exit> {
  const task_id = given.get('task') as string | undefined
  const input = definedFields({
    action,
    payload: definedFields({ ...payload, context: given.get('context') }),
    priority: given.get('priority'),
    timeout_seconds: secondsOf(given.get('timeout') as string | undefined),
    fallback: given.get('fallback'),
    role: given.get('role'),
    risk: given.get('risk'),
    tags: given.get('tag'),
    project_id: given.get('project'),
    metadata: task_id === undefined ? undefined : { task_id },
  })
  const key = given.get('key') as string | undefined
  const remote = await context.remote()
  const once = key === undefined ? {} : { key: `hxp/${encodeURIComponent(key)}` }
  const { request } = await remote.call('execution/request.create', input as Input<'execution/request.create'>, once)
  if (given.get('wait') === false) {
    if (context.json) writeJson(context, { request })
    else context.io.out.write(`${escapeControl(request.id)}\n`)
    return exits.ok
  }
  return outcome(context, given, remote, request.id, request)
}

/** Waits, with a sign of life at a terminal; the signals that end the command end the waiting first. */
async function outcome(context: Context, given: FlagValues, remote: Remote, id: string, request?: AskedRequest): Promise<Exit> {
  const { io, paintErr } = context
  const isQuiet = given.get('quiet') === true || context.json
  const whom = request?.assigned_to ? ` for ${escapeControl(request.assigned_to)}` : ''
  const waits = ownLines(
    `${id} waits${whom} in the inbox; Ctrl-C stops waiting`,
    io.err.isTTY === true ? columnsOf(io.err) : Number.MAX_SAFE_INTEGER,
  )
  if (!isQuiet) io.err.write(`${waits.map((line) => paintErr('dim', line)).join('\n')}\n`)
  const progress = isQuiet ? null : startProgress(io.err, `waiting${whom}`)
  const leaving = new AbortController()
  const leave = (): void => leaving.abort()
  process.once('SIGINT', leave)
  process.once('SIGTERM', leave)
  try {
    const options = { signal: leaving.signal, cancelOnAbort: given.get('withdraw') === true, ...outagesTo(context, remote, isQuiet) }
    const answer = await remote.asking((hxp) => hxp.outcome(id, options))
    progress?.stop()
    return printAnswer(context, answer, isQuiet)
  } catch (error) {
    progress?.stop()
    if (leaving.signal.aborted) throw interruptedAsk(context, id, given, isQuiet)
    if (error instanceof ReceiptDoubted) throw new CliError(exits.refused, 'RECEIPT_DOUBTED', error.message)
    if (error instanceof NotAnswered) return printNoAnswer(context, error, isQuiet)
    throw error
  } finally {
    process.off('SIGINT', leave)
    process.off('SIGTERM', leave)
  }
}

/** One line for each outage of the server, and one for its return. */
function outagesTo({ io, paintErr }: Context, { where }: Remote, isQuiet: boolean): Pick<WaitOptions, 'onRetry' | 'onReconnect'> {
  let isAway = false
  const tell = (isNow: boolean, message: string): void => {
    if (isAway !== isNow && !isQuiet) io.err.write(`${paintErr(isNow ? 'yellow' : 'dim', message)}\n`)
    isAway = isNow
  }
  return {
    onRetry: (error) => tell(true, `cannot reach ${where}: ${escapeControl(reasonOf(error))}; trying again`),
    onReconnect: () => tell(false, `connected to ${where} again`),
  }
}

function printAnswer(context: Context, { result, reason, edited, receipt, request, verified }: Answer, isQuiet: boolean): Exit {
  const { io, paintErr } = context
  const { yes = result } = actions[request.action]
  const isNo = result !== yes
  // X29: printed before the result, and no flag hides it.
  if (receipt.basis.kind === 'default') io.err.write(`${paintErr('yellow', '!')} nobody answered in time: the default was taken\n`)
  if (edited !== null && !context.json)
    io.err.write(`${paintErr('yellow', '!')} the details were edited before they were approved: --json shows them as receipt.edited\n`)
  if (context.json) writeJson(context, { request_id: request.id, status: receipt.status, result, reason, verified, receipt })
  else {
    const text = typeof result === 'string' ? result : JSON.stringify(result)
    io.out.write(`${io.out.isTTY === true ? inertLines(text) : text}\n`)
  }
  if (!isQuiet) {
    const how = `answered by ${escapeControl(receipt.completed_by)}${reason === null ? '' : `: ${escapeControl(reason)}`}`
    io.err.write(`${paintErr(isNo ? 'red' : 'green', isNo ? '✖' : '✔')} ${how}${verified ? '' : ' (receipt not verified)'}\n`)
  }
  return isNo ? exits.rejected : exits.ok
}

function printNoAnswer(context: Context, error: NotAnswered, isQuiet: boolean): Exit {
  const { status, reason, request, receipt, message } = error
  const isDeclined = error instanceof Declined
  if (context.json) writeJson(context, { request_id: request.id, status: isDeclined ? 'declined' : status, result: null, reason, receipt })
  else if (!isQuiet)
    context.io.err.write(`${context.paintErr(isDeclined ? 'red' : 'yellow', isDeclined ? '✖' : '!')} ${escapeControl(message)}\n`)
  if (isDeclined) return exits.rejected
  return status === 'cancelled' ? exits.withdrawn : exits.unanswered
}

function interruptedAsk({ io, paintErr }: Context, id: string, given: FlagValues, isQuiet: boolean): Interrupted {
  const message =
    given.get('withdraw') === true ? `${escapeControl(id)} is withdrawn` : `still open: countersign ask await ${escapeControl(id)}`
  if (!isQuiet) io.err.write(`\n${paintErr('yellow', message)}\n`)
  return new Interrupted()
}
